"""``--sentence-model``: what is no sentence model, or does not fit the data, is refused in one sentence."""

from __future__ import annotations

import pytest
import torch

from gtransformer.errors import UserError
from gtransformer.models.gtransformer import GTransformerConfig
from gtransformer.tasks.beginning import start_from_sentence_model
from gtransformer.tasks.translation_doc import TranslationDocTask
from tests.core.models.test_sentence_start import plain_dictionary, save, start, task_of
from tests.support import task_config, tiny_model

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("model", "task", "words"),
    [
        ({}, {"instances": "parts", "instance_tokens": 1000}, "--instances parts"),
        ({"positions": "sentence"}, {}, "--finetune-from-model"),
    ],
)
def test_a_model_of_this_package_that_is_no_sentence_model(tmp_path, dictionary, model, task, words):
    teacher = tiny_model(dictionary, **{"doc_mode": "full"} | model)
    section = {"_name": "translation_doc", "decoder_start": "bos", **task}
    settings = {"model": vars(teacher.cfg), "task": section}
    torch.save({"cfg": settings, "model": teacher.state_dict()}, tmp_path / "model.pt")
    with pytest.raises(UserError, match=words):
        start(tmp_path / "model.pt", TranslationDocTask(task_config(langs="en,de"), dictionary, dictionary))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("languages", "model.pt: .*en-fr.*en-de"),
        ("size", "16.*15"),
        ("words", "dict.en.txt.*v3.*w3"),
        ("language model", "model.pt"),
        ("damaged", "model.pt"),
        ("other", "model.pt"),
        ("missing", "--sentence-model .*model.pt"),
        ("full", "--doc-mode partial"),
        ("cross-self", "--cross-self-attention"),
    ],
)
def test_what_cannot_be_is_one_sentence(tmp_path, change, words):
    changes = {"languages": {"target_lang": "fr"}, "cross-self": {"cross_self_attention": True}}
    path, _, source, target = save(tmp_path, **changes.get(change, {}))
    task, options = task_of(source, target), {}
    if change == "size":
        task = task_of(*[plain_dictionary(11)] * 2)
    elif change == "words":
        (tmp_path / "dict.en.txt").write_text("".join(f"{'v' if n == 3 else 'w'}{n} 1\n" for n in range(12)))
    elif change == "language model":
        state = torch.load(path)
        state["model"] = {name: value for name, value in state["model"].items() if name.startswith("decoder")}
        torch.save(state, path)
    elif change == "damaged":
        path.write_bytes(path.read_bytes()[:1000])
    elif change == "other":
        torch.save([1], path)
    elif change == "missing":
        path.unlink()
    cfg = GTransformerConfig(sentence_model=str(path), **options)
    cfg.doc_mode = "full" if change == "full" else "partial"
    with pytest.raises(UserError, match=words):
        start_from_sentence_model(cfg, None, task)
