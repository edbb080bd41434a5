"""``--sentence-model``: any sentence Transformer that fairseq has trained is where a document model
starts, exactly.
"""

from __future__ import annotations

import random
import re
from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary

from gtransformer.data.batch_fields import counted, with_counted_targets
from gtransformer.errors import UserError
from gtransformer.models.common.config import BOTH_MARKS
from gtransformer.models.gtransformer import GTransformerConfig, GTransformerModel
from gtransformer.plugin.criterion import FusedLabelSmoothedCrossEntropy
from gtransformer.plugin.sentence_start import start_from_sentence_model
from gtransformer.plugin.task import TranslationDocTask
from tests.core.models import fairseq_models
from tests.support import (
    pad_batch,
    random_document,
    random_lengths,
    relative_error,
    task_config,
    tiny_model,
    write_lines,
)

pytestmark = pytest.mark.slow

SHUT, NEARLY = 1e3, 6.0  # biases of gates; the former's sigmoid is exactly 1
PRENORM = {"encoder_normalize_before": True, "decoder_normalize_before": True}
LEARNED = {"encoder_learned_pos": True, "decoder_learned_pos": True, "max_source_positions": 10}
# Of fairseq's models: architecture, options, whether both sides have one dictionary.
LAYOUTS = {
    "joined": ("transformer", {"share_all_embeddings": True}, True),
    "separate": ("transformer", {}, False),
    "separate, output shared": ("transformer", {"share_decoder_input_output_embed": True}, False),
    "learned positions": ("transformer", {**LEARNED, "share_all_embeddings": True}, True),
    "pre-norm": ("transformer", {**PRENORM, "share_decoder_input_output_embed": True}, False),
    "WMT": ("transformer_wmt_en_de_big", {"share_all_embeddings": True,
    "encoder_ffn_embed_dim": 40}, True),
    "other parts": ("transformer", {"layernorm_embedding": True, "no_scale_embedding": True,
    "activation_fn": "gelu"},
                    False),
}  # fmt: skip
AS_FAIRSEQ_ONCE_WAS = "WMT"


def plain_dictionary(words: int) -> Dictionary:
    """As fairseq-preprocess makes it: no language symbols, no ``<mask>``."""
    dictionary = Dictionary()
    for number in range(words):
        dictionary.add_symbol(f"w{number}")
    return dictionary


def as_saved_long_ago(state: dict) -> dict:
    """Names and shapes of fairseq 0.6 to 0.8, which published its WMT models."""
    found = {}
    for name, value in state.items():
        match = re.match(r"(.*_attn)\.([qkv])_proj\.(weight|bias)", name)
        if match is None:
            name = re.sub(r"\.self_attn_layer_norm\.", ".layer_norms.0.", name)
            name = re.sub(r"\.encoder_attn_layer_norm\.", ".layer_norms.1.", name)
            found[
                re.sub(
                    r"\.final_layer_norm\.", f".layer_norms.{1 + name.startswith('decoder')}.", name
                )
            ] = value
        elif match[2] == "q":
            parts = [state[f"{match[1]}.{letter}_proj.{match[3]}"] for letter in "qkv"]
            found[f"{match[1]}.in_proj_{match[3]}"] = torch.cat(parts)
    del found["decoder.output_projection.weight"]
    found["encoder.embed_positions.weights"] = torch.zeros(3, 16)
    return found


def save(folder, layout: str = "joined", **changes):
    """(checkpoint, fairseq's model, source and target dictionary) of a sentence model en -> de."""
    arch, options, joined = LAYOUTS[layout]
    source = plain_dictionary(12)
    target = source if joined else plain_dictionary(9)
    model = fairseq_models.build(source, arch, target=target, **options).double()
    args = fairseq_models.settings(arch, source_lang="en", target_lang="de", **options)
    vars(args).update(changes)
    state = model.state_dict()
    if layout == AS_FAIRSEQ_ONCE_WAS:
        state = as_saved_long_ago(state)
    torch.save(fairseq_models.checkpoint(state, args), folder / "model.pt")
    return folder / "model.pt", model, source, target


def task_of(source: Dictionary, target: Dictionary) -> TranslationDocTask:
    """Over dictionaries of its own, which it adds its symbols to."""
    own = [plain_dictionary(len(one) - 4) for one in (source, target)]
    return TranslationDocTask(
        task_config(langs="en,de"), own[0], own[0] if source is target else own[1]
    )


def start(path, task, **options) -> GTransformerModel:
    """The document model that training begins with; its options say nothing of the model's
    structure.
    """
    cfg = GTransformerConfig(
        **{"sentence_model": str(path), "doc_mode": "partial", "dropout": 0.0, **options}
    )
    cfg.max_source_positions = cfg.max_target_positions = 1_000_000
    start_from_sentence_model(cfg, None, task)
    torch.manual_seed(3)
    model = (
        GTransformerModel.build(cfg, task.source_dictionary, task.target_dictionary).double().eval()
    )
    model.load_state_dict(torch.load(path)["model"])
    return model


def spread(dictionary, documents):
    """Source and target (documents, longest) as the task's batches have them."""
    sides = [
        [
            [t for pair in document for t in (dictionary.bos(), *pair[side], dictionary.eos())]
            for document in documents
        ]
        for side in (0, 1)
    ]
    return pad_batch(sides[0], dictionary.pad(), True), pad_batch(sides[1], dictionary.pad(), False)


def random_pairs(dictionary, seed: int = 1, sentences=(4, 1, 3), most: int = 7):
    """Documents of sentence pairs as lists of words."""
    draw = random.Random(seed)
    return [
        [
            [random_document(draw, dictionary, random_lengths(draw, 1, most))[1:-1] for _ in "st"]
            for _ in range(count)
        ]
        for count in sentences
    ]


def losses(model, dictionary, documents) -> list[torch.Tensor]:
    """Of every sentence the negative log likelihood of its words and ``</s>``, (words + 1,), in
    order.
    """
    source, previous = spread(dictionary, documents)
    logits = model(source, None, previous)[0]
    lprobs = model.get_normalized_probs((logits, {}), log_probs=True)
    found = []
    for row, document in enumerate(documents):
        begin = 0
        for _, target in document:
            goal = torch.tensor([*target, dictionary.eos()])
            found.append(
                -lprobs[row, begin : begin + len(goal)].gather(1, goal.unsqueeze(1)).squeeze(1)
            )
            begin += len(goal) + 1
    return found


def losses_alone(model, dictionary, documents) -> list[torch.Tensor]:
    """What each sentence costs the sentence model, which reads ``w1 w2 </s>`` and writes behind
    ``</s>``.
    """
    found, eos = [], dictionary.eos()
    for source, target in (pair for document in documents for pair in document):
        tokens, lengths = torch.tensor([[*source, eos]]), torch.tensor([len(source) + 1])
        logits = model(tokens, lengths, torch.tensor([[eos, *target]]))[0][0]
        goal = torch.tensor([*target, eos]).unsqueeze(1)
        found.append(-torch.log_softmax(logits, dim=-1).gather(1, goal).squeeze(1))
    return found


def pairs_of(source: Dictionary, target: Dictionary, **options):
    """Random documents whose words both dictionaries have."""
    return random_pairs(min(source, target, key=len), **options)


@torch.no_grad()
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_token_costs_what_it_costs_the_sentence_model(tmp_path, layout):
    path, teacher, source, target = save(tmp_path, layout)
    task, documents = task_of(source, target), pairs_of(source, target)
    expected = torch.cat(losses_alone(teacher, target, documents))
    found = torch.cat(losses(start(path, task, gate_bias=SHUT), target, documents))
    assert relative_error(found, expected) < 1e-6  # fairseq's softmax of attention is in float32
    neutral = torch.cat(losses(start(path, task), target, documents))
    assert relative_error(neutral, expected) < 1e-6
    nearly = start(path, task, gate_bias=NEARLY)
    off = torch.cat(losses(nearly, target, documents)) - expected
    assert 0 < off.mean().abs() < 0.01
    # With marks that the sentence model does not know it is another model: the test can fail.
    nearly.encoder.marks = nearly.decoder.marks = BOTH_MARKS
    assert (torch.cat(losses(nearly, target, documents)) - expected).abs().mean() > 0.05


def test_a_sentence_model_of_this_package(tmp_path, dictionary):
    teacher = tiny_model(dictionary, doc_mode="full", encoder_normalize_before=True).double()
    task = TranslationDocTask(task_config(langs="en,de"), dictionary, dictionary)
    settings = {"model": vars(teacher.cfg), "task": {"_name": "translation_doc"}}
    torch.save({"cfg": settings, "model": teacher.state_dict()}, tmp_path / "model.pt")
    documents = random_pairs(dictionary)
    with torch.no_grad():
        single = [[pair] for document in documents for pair in document]
        expected = torch.cat(losses(teacher, dictionary, single))
        for bias in (SHUT, None):
            model = start(tmp_path / "model.pt", task, gate_bias=bias)
            found = torch.cat(losses(model, dictionary, documents))
            assert relative_error(found, expected) < 1e-12
    assert model.leaves_unpredicted_out and not model.decoder.predicts_some


def test_behind_neutral_gates_all_learns_from_the_second_update(tmp_path):
    """And resumed, or loaded, it is as it was: only what begins at random is made neutral."""
    path, _, source, target = save(tmp_path)
    model, copy = (start(path, task_of(source, target)) for _ in range(2))
    for update in (1, 2):
        model.zero_grad()
        torch.cat(losses(model, target, random_pairs(source))).mean().backward()
        still = [name for name, p in model.named_parameters() if not p.grad.any()]
        assert bool(still) == (update == 1)
        assert all("_global." in name and "out_proj" not in name for name in still)
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.1 * p.grad
    copy.load_state_dict(dict(model.state_dict()))
    assert all(p.equal(copy.state_dict()[name]) for name, p in model.state_dict().items())


def test_what_counts_in_the_loss(tmp_path):
    """Words and ``</s>`` alone, smoothed over the words of the sentence model; new symbols are
    never predicted.
    """
    path, teacher, source, target = save(tmp_path, "separate")
    task, documents = task_of(source, target), pairs_of(source, target)
    model = start(path, task, gate_bias=SHUT)
    tokens, previous = spread(target, documents)
    goal = torch.cat([previous[:, 1:], torch.full_like(previous[:, :1], target.pad())], dim=1)
    goal[torch.arange(len(goal)), previous.ne(target.pad()).sum(dim=1) - 1] = task.language
    sample = {
        "net_input": {"src_tokens": tokens, "src_lengths": None, "prev_output_tokens": previous},
        "target": goal, "ntokens": int(goal.ne(target.pad()).sum()),
    }  # fmt: skip
    criterion = FusedLabelSmoothedCrossEntropy(
        SimpleNamespace(target_dictionary=task.target_dictionary), False, 0.1
    )
    sample = with_counted_targets(sample, target.pad(), unpredicted=task.sides.unpredicted)
    loss, size, logs = criterion(model, counted(sample))
    expected = torch.cat(losses_alone(teacher, target, documents))
    assert size == len(expected) and float(logs["nll_loss"]) == pytest.approx(
        float(expected.sum().detach())
    )
    assert torch.isfinite(loss) and loss > logs["nll_loss"]
    loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    assert model.decoder.output_projection.weight.grad[len(target) :].eq(0).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("languages", "--target-lang de: the model was trained with fr"),
        ("size", "16.*15"),
        ("words", "dict.en.txt.*v3.*w3"),
    ],
)
def test_what_cannot_be_is_one_sentence(tmp_path, change, words):
    path, _, source, target = save(
        tmp_path, **({"target_lang": "fr"} if change == "languages" else {})
    )
    task = task_of(source, target)
    if change == "size":
        task = task_of(*[plain_dictionary(11)] * 2)
    elif change == "words":
        lines = (f"{'v' if number == 3 else 'w'}{number} 1" for number in range(12))
        write_lines(tmp_path / "dict.en.txt", lines)
    cfg = GTransformerConfig(sentence_model=str(path), doc_mode="partial")
    with pytest.raises(UserError, match=words):
        start_from_sentence_model(cfg, None, task)
