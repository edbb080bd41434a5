"""``--sentence-model``: any sentence Transformer that fairseq has trained is where a document model starts, exactly."""

from __future__ import annotations

import random
import re
from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary

from gtransformer.data.batch_fields import counted, with_counted_targets
from gtransformer.errors import UserError
from gtransformer.evaluation.sentence_scores import Request, SentenceScorer
from gtransformer.lab.attention import inspect
from gtransformer.models.common.config import BOTH_MARKS
from gtransformer.models.gtransformer import GTransformerConfig, GTransformerModel
from gtransformer.plugin.criterion import FusedLabelSmoothedCrossEntropy
from gtransformer.plugin.sentence_start import start_from_sentence_model
from gtransformer.plugin.task import TranslationDocTask
from tests.core.models import fairseq_models
from tests.core.models.test_exact_start import NEARLY, PRENORM, SHUT, losses, random_pairs
from tests.full_passes import step_by_step, use_caches
from tests.support import pad_batch, relative_error, task_config, tiny_model

pytestmark = pytest.mark.slow

LEARNED = {"encoder_learned_pos": True, "decoder_learned_pos": True, "max_source_positions": 10}
# Of fairseq's models: architecture, options, whether both sides have one dictionary.
LAYOUTS = {
    "joined": ("transformer", {"share_all_embeddings": True}, True),
    "separate": ("transformer", {}, False),
    "separate, output shared": ("transformer", {"share_decoder_input_output_embed": True}, False),
    "learned positions": ("transformer", {**LEARNED, "share_all_embeddings": True}, True),
    "pre-norm": ("transformer", {**PRENORM, "share_decoder_input_output_embed": True}, False),
    "WMT": ("transformer_wmt_en_de_big", {"share_all_embeddings": True, "encoder_ffn_embed_dim": 40}, True),
    "other parts": ("transformer", {"layernorm_embedding": True, "no_scale_embedding": True, "activation_fn": "gelu"},
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
            found[re.sub(r"\.final_layer_norm\.", f".layer_norms.{1 + name.startswith('decoder')}.", name)] = value
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
    state = fairseq_models.checkpoint(model, args)
    if layout == AS_FAIRSEQ_ONCE_WAS:
        state["model"] = as_saved_long_ago(state["model"])
    torch.save(state, folder / "model.pt")
    return folder / "model.pt", model, source, target


def task_of(source: Dictionary, target: Dictionary) -> TranslationDocTask:
    """Over dictionaries of its own, which it adds its symbols to."""
    own = [plain_dictionary(len(one) - 4) for one in (source, target)]
    return TranslationDocTask(task_config(langs="en,de"), own[0], own[0] if source is target else own[1])


def start(path, task, **options) -> GTransformerModel:
    """The document model that training begins with; its options say nothing of the model's structure."""
    cfg = GTransformerConfig(**{"sentence_model": str(path), "doc_mode": "partial", "dropout": 0.0, **options})
    cfg.max_source_positions = cfg.max_target_positions = 1_000_000
    start_from_sentence_model(cfg, None, task)
    torch.manual_seed(3)
    model = GTransformerModel.build(cfg, task.source_dictionary, task.target_dictionary).double().eval()
    model.load_state_dict(torch.load(path)["model"])
    return model


def losses_alone(model, dictionary, documents) -> list[torch.Tensor]:
    """What each sentence costs the sentence model, which reads ``w1 w2 </s>`` and writes behind ``</s>``."""
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


@torch.no_grad()
@pytest.mark.parametrize("layout", ["joined", "pre-norm"])
def test_concatenation_starts_from_it_too(tmp_path, layout):
    """Then fairseq's model computes the same from the concatenated sentences, each with its </s>."""
    path, teacher, source, target = save(tmp_path, layout)
    documents, eos = pairs_of(source, target, sentences=(1, 3)), target.eos()
    model = start(path, task_of(source, target), doc_mode="full")
    expected = []
    for document in documents:
        tokens = torch.tensor([[word for one, _ in document for word in (*one, eos)]])
        previous = torch.tensor([[word for _, one in document for word in (eos, *one, eos)]])
        lprobs = torch.log_softmax(teacher(tokens, torch.tensor([tokens.shape[1]]), previous)[0][0], dim=-1)
        begin = 0
        for _, one in document:
            expected.append(-lprobs[begin : begin + len(one) + 1].gather(1, torch.tensor([[*one, eos]]).T).squeeze(1))
            begin += len(one) + 2
    assert relative_error(torch.cat(losses(model, target, documents)), torch.cat(expected)) < 1e-6


def test_a_sentence_model_of_this_package(tmp_path, dictionary):
    teacher = tiny_model(dictionary, doc_mode="full", encoder_normalize_before=True).double()
    task = TranslationDocTask(task_config(langs="en,de"), dictionary, dictionary)
    settings = {"model": vars(teacher.cfg), "task": {"_name": "translation_doc", "decoder_start": "bos"}}
    torch.save({"cfg": settings, "model": teacher.state_dict()}, tmp_path / "model.pt")
    documents = random_pairs(dictionary)
    with torch.no_grad():
        expected = losses(teacher, dictionary, [[pair] for document in documents for pair in document])
        found = losses(start(tmp_path / "model.pt", task, gate_bias=SHUT), dictionary, documents)
        model = start(tmp_path / "model.pt", task)
        neutral = losses(model, dictionary, documents)
    assert relative_error(torch.cat(found), torch.cat(expected)) < 1e-12
    assert relative_error(torch.cat(neutral), torch.cat(expected)) < 1e-12 and model.cfg.neutral_gates
    assert (model.cfg.gate_bias, model.cfg.positions, model.cfg.marks_loss) == (0.0, "sentence", "off")
    assert model.leaves_unpredicted_out and not model.decoder.predicts_some


def spread(model, dictionary, documents):
    """Source and target (documents, longest) as the task's batches have them."""
    sides = [
        [[t for pair in document for t in (dictionary.bos(), *pair[side], dictionary.eos())] for document in documents]
        for side in (0, 1)
    ]
    return pad_batch(sides[0], dictionary.pad(), True), pad_batch(sides[1], dictionary.pad(), False)


@torch.no_grad()
@pytest.mark.parametrize("caches", [True, False])
@pytest.mark.parametrize("layout", ["separate", "learned positions"])
def test_every_step_is_the_full_pass(tmp_path, layout, caches):
    path, _, source, target = save(tmp_path, layout)
    model = start(path, task_of(source, target), gate_bias=0.5)
    for name, parameter in model.named_parameters():  # what is new has learned something
        if "numbers" in name:
            torch.nn.init.normal_(parameter, std=0.5)
    use_caches(model, caches)
    tokens, targets = spread(model, target, pairs_of(source, target, sentences=(5,)))
    full, state = model(tokens, None, targets)[0][0], {}
    memory = model.encoder(tokens)["memory"][0]
    for step in range(targets.shape[1]):
        logits = step_by_step(model.decoder, targets[:, : step + 1], memory, state)[0]
        assert torch.isneginf(logits[len(target) :]).all() and len(logits) == len(target) + 3
        assert relative_error(logits[: len(target)], full[step, : len(target)]) < 1e-11


@torch.no_grad()
def test_scores_of_sentences_and_what_they_looked_at(tmp_path):
    """Contrastive scoring, and inspection: no token of ``<s>`` among the source's, none lost of the target's."""
    path, teacher, source, target = save(tmp_path, "separate")
    task, documents = task_of(source, target), pairs_of(source, target)
    model = start(path, task, gate_bias=SHUT)
    requests = [Request(*map(list, zip(*document, strict=True))) for document in documents]
    scores = SentenceScorer(model, task.source_dictionary, task.target_dictionary).score(requests)
    expected = [-float(one.sum()) for one in losses_alone(teacher, target, documents)]
    assert [one for own in scores for one in own] == pytest.approx(expected, rel=1e-6)
    tokens, targets = (side[0].tolist() for side in spread(model, target, documents[:1]))
    found = inspect(model, tokens, targets)
    queries = {one.part: len(one.query_tags) for one in found}
    assert queries["encoder"] == len(tokens) - len(documents[0]) and queries["cross"] == len(targets)
    assert all(one.by_sentence().sum(dim=1).allclose(torch.ones(1, dtype=torch.float64)) for one in found)
    assert min(float(one.gate.min()) for one in found if one.gate is not None) == 1.0


def test_what_counts_in_the_loss(tmp_path):
    """Words and ``</s>`` alone, smoothed over the words of the sentence model; new symbols are never predicted."""
    path, teacher, source, target = save(tmp_path, "separate")
    task, documents = task_of(source, target), pairs_of(source, target)
    model = start(path, task, gate_bias=SHUT)
    tokens, previous = spread(model, target, documents)
    goal = torch.cat([previous[:, 1:], torch.full_like(previous[:, :1], target.pad())], dim=1)
    goal[torch.arange(len(goal)), previous.ne(target.pad()).sum(dim=1) - 1] = task.language
    sample = {
        "net_input": {"src_tokens": tokens, "src_lengths": None, "prev_output_tokens": previous},
        "target": goal, "ntokens": int(goal.ne(target.pad()).sum()),
    }  # fmt: skip
    criterion = FusedLabelSmoothedCrossEntropy(SimpleNamespace(target_dictionary=task.target_dictionary), False, 0.1)
    sample = with_counted_targets(sample, target.pad(), unpredicted=task.sides.unpredicted)
    loss, size, logs = criterion(model, counted(sample))
    expected = torch.cat(losses_alone(teacher, target, documents))
    assert size == len(expected) and float(logs["nll_loss"]) == pytest.approx(float(expected.sum().detach()))
    assert torch.isfinite(loss) and loss > logs["nll_loss"]
    loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    assert model.decoder.output_projection.weight.grad[len(target) :].eq(0).all()


@torch.no_grad()
def test_a_sentence_longer_than_learned_positions(tmp_path):
    path, _, source, target = save(tmp_path, "learned positions")
    model = start(path, task_of(source, target))
    draw = random.Random(1)
    words = [draw.randrange(4, 16) for _ in range(10)]
    with pytest.raises(UserError, match="a text of 11 tokens does not fit the 10 learned positions"):
        model.encoder(torch.tensor([[0, *words, 2]]))
    assert model.encoder(torch.tensor([[0, *words[:9], 2] * 3]))["memory"][0].layout.total == 30
    whole = start(path, task_of(source, target), doc_mode="full", positions="document")  # its encoder reads no <s>
    assert whole.encoder(torch.tensor([[0, *words[:4], 2, 0, *words[4:8], 2]]))["memory"][0].layout.total == 10


@torch.no_grad()
@pytest.mark.parametrize(
    "option", [{"context_attention": "global"}, {"no_language_locality": True}, {"no_translation_locality": True}, {}]
)
def test_which_attention_starts_exactly(tmp_path, option):
    path, teacher, source, target = save(tmp_path)
    task, documents = task_of(source, target), pairs_of(source, target)
    model = start(path, task, **option)
    exact = torch.cat(losses_alone(teacher, target, documents))
    assert (relative_error(torch.cat(losses(model, target, documents)), exact) > 1e-3) == bool(option)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("languages", "--target-lang de: the model was trained with fr"),
        ("size", "16.*15"),
        ("words", "dict.en.txt.*v3.*w3"),
    ],
)
def test_what_cannot_be_is_one_sentence(tmp_path, change, words):
    path, _, source, target = save(tmp_path, **({"target_lang": "fr"} if change == "languages" else {}))
    task = task_of(source, target)
    if change == "size":
        task = task_of(*[plain_dictionary(11)] * 2)
    elif change == "words":
        (tmp_path / "dict.en.txt").write_text("".join(f"{'v' if n == 3 else 'w'}{n} 1\n" for n in range(12)))
    cfg = GTransformerConfig(sentence_model=str(path), doc_mode="partial")
    with pytest.raises(UserError, match=words):
        start_from_sentence_model(cfg, None, task)
