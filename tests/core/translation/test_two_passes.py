"""Text through models that translate batches of sentences behind first translations."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from gtransformer.cli.export import main as export_command
from gtransformer.cli.translate import main as translate
from gtransformer.data.instances import InstanceScheme
from gtransformer.errors import UserError
from gtransformer.lab.cli.inspect_document import main as inspect
from gtransformer.modules.kernels import Linear
from gtransformer.modules.processor import has_int8
from gtransformer.translation.api import GTransformer, Translation
from gtransformer.translation.export import Sources, export, instance_limits
from gtransformer.translation.two_passes import TwoPasses
from tests import saved_model as saved

pytestmark = pytest.mark.slow

TEXT = ["The old dog sleeps.", "Mary finds her book.", "The river sleeps near a house.", "Her dog finds two trees."]
DOCUMENTS = [TEXT, TEXT[1:3], [], [TEXT[3], " ", TEXT[0]], TEXT[::-1] * 5]
SLIDING = ["--instances", "sliding", "--context-sentences", "2", "--batch-order", "document", "--context-loss", "off"]
SINGLE = {"instances": "disjoint", "context_sentences": 0}


def changed(checkpoint, name: str, **task):
    """The same model, saved with other options of its task."""
    state = torch.load(checkpoint, weights_only=False)
    state["cfg"]["task"].update(task)
    torch.save(state, checkpoint.with_name(f"{name}.pt"))


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """A prepared corpus, checkpoints NAME.pt of random weights, model directories NAME."""
    folder = tmp_path_factory.mktemp("passes")
    saved.make_prepared(folder / "prepared")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(saved, "SIZES", [*saved.SIZES[2:-8], "--dropout", "0"])
        for name, arch in (("docflat", "docflat_mini"), ("doc2doc", "doc_transformer_mini")):
            saved.make_checkpoint(folder / "prepared", folder / f"{name}.pt", "--arch", arch, *SLIDING)
    changed(folder / "docflat.pt", "single", **SINGLE)
    changed(folder / "doc2doc.pt", "sentences", **SINGLE, batch_order="size")
    changed(folder / "sentences.pt", "reverse", source_lang="de", target_lang="en")
    for name in ("docflat", "doc2doc", "single"):
        first = None if name == "single" else folder / "sentences.pt"
        export(Sources(folder / "prepared", folder / f"{name}.pt"), folder / name, saved.SHORT, {}, first)
    export(Sources(folder / "prepared", folder / "sentences.pt"), folder / "sentences", saved.SHORT, {})
    return folder


@pytest.fixture(scope="module", params=["docflat", "doc2doc"])
def model(parts, request):
    return GTransformer.from_pretrained(parts / request.param, device="cpu")


def spelled_out(model: GTransformer, document: list[str], first: list[torch.Tensor], together: int):
    """Batches of so many sentences, each behind the first translations of two before it."""
    engine, dictionary, found = model.engine, model.engine.target, []
    tokens = model.chain.encode(document)
    for begin in range(0, len(document), together):
        rows = range(begin, min(begin + together, len(document)))
        contexts = []
        for at in rows:
            context = []
            for words in first[max(0, at - 2) : at]:
                context += [dictionary.bos(), *words.tolist(), dictionary.eos()]
            contexts.append(torch.tensor(context, dtype=torch.int64))
        positions = [(1, max(0, at - 2) + 1) for at in rows]
        sources = [tokens[max(0, at - 2) : at + 1] for at in rows]
        found += engine.translate_batch(sources, contexts, positions, model.options)
    texts = model.chain.decode([nbest[0].sentences[0] for nbest in found])
    return [Translation(text, nbest[0].scores[0]) for text, nbest in zip(texts, found, strict=True)]


def test_every_document_by_two_passes(model, parts):
    """What is given to the engine is spelled out; blank lines stand for nothing; the first pass is read."""
    passes = model.passes
    assert isinstance(passes, TwoPasses) and passes.before == 2
    texts = [[text for text in document if text.strip()] for document in DOCUMENTS]
    wanted = []
    for text in texts:
        sources = [model.engine.instance_tokens([one]) for one in model.chain.encode(text)]
        first = passes.first.translate(sources, model.options.arguments()) if text else []
        wanted.append(spelled_out(model, text, first, together=3))
        if len(text) == 4:
            other = [torch.tensor([model.engine.target.unk()])] * len(text)
            assert spelled_out(model, text, other, together=3) != wanted[-1]
    found = model.nbest(DOCUMENTS, batch_sentences=3)
    assert [[one for nbest in document for one in nbest] for document in found] == wanted
    assert found[3][1] == [] and [len(one) for one in found] == [len(one) for one in DOCUMENTS]
    by_16 = spelled_out(model, texts[4], first, together=16)
    assert [nbest[0] for nbest in model.nbest(DOCUMENTS[4:])[0]] == by_16
    # Products of other shapes may round otherwise: what does not read the batch is the same but for that.
    same = all(a.text == b.text and abs(a.score - b.score) < 1e-4 for a, b in zip(by_16, wanted[4], strict=True))
    assert same != model.engine.model.needs.batch


def test_nbest_of_every_sentence(model):
    found = model.nbest([TEXT], nbest=2)[0]
    assert [len(one) for one in found] == [2] * 4 and [one[0].text for one in found] == model.translate(TEXT)
    assert all(one[0].score != one[1].score for one in found)


def test_the_command(parts, tmp_path, capsys):
    """Line for line; with the directory's own first pass or another; the same as in Python."""
    lines = [*TEXT, "", *TEXT[1:3], "<d>", TEXT[0]]
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    common = [str(tmp_path / "text"), f"--model={parts / 'docflat'}", "--cpu", "--quiet", "--batch-sentences=2"]
    assert translate([*common, f"--output={tmp_path / 'out'}"]) in (0, None)
    model = GTransformer.from_pretrained(parts / "docflat", device="cpu")
    one, two, three = model.translate([TEXT, TEXT[1:3], TEXT[:1]], batch_sentences=2)
    expected = [*one, "", *two, "<d>", *three]
    assert (tmp_path / "out").read_text(encoding="utf-8").split("\n")[:-1] == expected
    assert translate([*common, f"--output={tmp_path / 'again'}", f"--first-pass={parts / 'sentences.pt'}"]) in (0, None)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "out").read_bytes()
    given = (tmp_path / "out").read_bytes()
    assert translate([*common, f"--first-pass={tmp_path / 'out'}", f"--output={tmp_path / 'out'}"]) == 1
    assert "is read, and the results would replace it" in capsys.readouterr().err
    assert (tmp_path / "out").read_bytes() == given
    assert translate([*common, f"--first-pass={tmp_path / 'gone.pt'}"]) == 1
    assert "gone.pt: no such file" in capsys.readouterr().err


def test_first_translations_of_a_text(parts, tmp_path, capsys):
    """Line for line, in Python and on the command line: those of the first pass make of it what it does."""
    model = GTransformer.from_pretrained(parts / "docflat", device="cpu")
    model.max_sentence_tokens = 6  # one sentence stands in several parts
    documents = [TEXT, [TEXT[3], " ", TEXT[0]]]
    lines = [line for document in documents for line in ("<d>", *document)]
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    sentences = GTransformer.from_pretrained(parts / "sentences", device="cpu")
    sentences.max_sentence_tokens = 6
    first = sentences.translate(documents)
    expected = model.nbest(documents)
    found = model.nbest(documents, first_pass=first)
    assert [[len(line) for line in one] for one in found] == [[1] * 4, [1, 0, 1]]
    assert any(line.was_cut for window in model.translate_lines(lines) for line in (one.line for one in window))
    other = model.nbest(documents, first_pass=[["Das Haus."] * 4, ["Das Haus.", "", "Das Haus."]])
    assert other[0] != found[0] and other[0] != expected[0]
    assert model.translate(TEXT, first_pass=first[0]) == [line[0].text for line in found[0]]
    given = [line for document in first for line in ("<d>", *document)]
    windows = model.translate_lines(lines, first_pass=given)
    assert [line.translations for window in windows for line in window][1:5] == found[0]  # a blank line ends a document
    (tmp_path / "first").write_text("".join(f"{line}\n" for line in given[:-1]), encoding="utf-8")
    command = [str(tmp_path / "text"), f"--model={parts / 'docflat'}", "--cpu", "--quiet"]
    assert translate([*command, f"--first-pass={tmp_path / 'first'}"]) == 1
    assert "ends in front of line 9 of the text; give a line for each line" in capsys.readouterr().err
    for wrong, message in (
        ([*given, "more"], "has more lines than the text"),
        (["Das", *given[1:]], "line 1: a translation of what is no sentence"),
    ):
        with pytest.raises(UserError, match=message):
            list(model.translate_lines(lines, first_pass=wrong))
    with pytest.raises(UserError, match="its documents and sentences do not match the text"):
        model.translate(TEXT, first_pass=TEXT[:2])
    with pytest.raises(UserError, match="leave it out with --split-sentences"):
        list(model.translate_lines(lines, split=lambda text: [text], first_pass=given))
    with pytest.raises(UserError, match="translates behind no first translations"):
        sentences.translate(TEXT, first_pass=TEXT)


def test_single_sentences_in_batches(parts):
    """Without local context nothing is translated first; the decoder reads the batch all the same."""
    model = GTransformer.from_pretrained(parts / "single", device="cpu")
    assert model.passes.first is None
    assert model.nbest([TEXT], batch_sentences=1) != model.nbest([TEXT])
    with pytest.raises(UserError, match="single translates behind no first translations; leave it out"):
        GTransformer.from_pretrained(parts / "single", device="cpu", first_pass=parts / "sentences.pt")


def test_what_cannot_be(parts, saved_model, tmp_path):
    model = GTransformer.from_pretrained(parts / "docflat", device="cpu")
    plain = GTransformer.from_pretrained(saved_model, device="cpu")
    with pytest.raises(UserError, match="--batch-sentences 2: the model does not translate in two passes"):
        plain.translate(TEXT, batch_sentences=2)
    with pytest.raises(UserError, match="translates behind no first translations; leave it out"):
        GTransformer.from_pretrained(saved_model, device="cpu", first_pass=parts / "sentences.pt")
    with pytest.raises(UserError, match="--strategy sequential: the model translates in two passes; leave it out"):
        model.translate(TEXT, strategy="sequential", context_sentences=1)
    with pytest.raises(UserError, match="--batch-sentences 0: must be at least 1"):
        model.translate(TEXT, batch_sentences=0)
    export(Sources(parts / "prepared", parts / "docflat.pt"), tmp_path / "bare", saved.SHORT, {})
    with pytest.raises(UserError, match="bare: translates behind first translations; give the checkpoint of a sent"):
        GTransformer.from_pretrained(tmp_path / "bare", device="cpu").translate(TEXT)
    with pytest.raises(UserError, match="gone.pt: no such file"):
        GTransformer.from_pretrained(tmp_path / "bare", device="cpu", first_pass=tmp_path / "gone.pt")
    given = GTransformer.from_pretrained(tmp_path / "bare", device="cpu", first_pass=parts / "sentences.pt")
    assert given.nbest([TEXT]) == model.nbest([TEXT])


def test_first_passes_that_are_not_exported(parts, tmp_path, capsys):
    def failure(name: str, first) -> str:
        line = [str(parts / "prepared"), str(tmp_path / "model"), f"--checkpoint={parts / name}"]
        assert export_command([*line, f"--first-pass={first}"]) == 1
        return capsys.readouterr().err

    assert "no such checkpoint; give that of a sentence model" in failure("docflat.pt", tmp_path / "gone.pt")
    assert "trained on more than single sentences (--instances sliding)" in failure("docflat.pt", parts / "doc2doc.pt")
    assert "so nothing reads first translations; leave it out" in failure("single.pt", parts / "sentences.pt")
    assert "translates de-en, but the data are en-de" in failure("docflat.pt", parts / "reverse.pt")
    assert not (tmp_path / "model").exists()


def test_not_inspected(parts, tmp_path, capsys):
    (tmp_path / "text").write_text(f"{TEXT[0]}\n", encoding="utf-8")
    line = ["--model", str(parts / "docflat"), str(tmp_path / "text"), "-o", str(tmp_path / "out"), "--cpu"]
    assert inspect(line) == 1
    assert "the model reads consecutive sentences of a document as one batch" in capsys.readouterr().err


@pytest.mark.skipif(not has_int8(), reason="the processor has no instructions for int8")
def test_both_passes_in_int8(parts):
    """The first pass has the precision of the second: it translates as its own model directory does."""
    model = GTransformer.from_pretrained(parts / "docflat", device="cpu", precision="int8")
    linear = [one for one in model.passes.first.model.modules() if isinstance(one, Linear)]
    assert linear and all(one.quantised for one in linear)
    alone = GTransformer.from_pretrained(parts / "sentences", device="cpu", precision="int8")
    engine, options = model.engine, model.options
    sources = [[tokens] for tokens in model.chain.encode(TEXT)]
    first = model.passes.first.translate([engine.instance_tokens(one) for one in sources], options.arguments())
    expected = [nbest[0].sentences[0] for nbest in alone.engine.translate(sources, options)]
    assert [" ".join(engine.target[index] for index in words) for words in first] == expected


def test_docflat_that_reads_no_batch_needs_no_first_pass():
    scheme = InstanceScheme.stored_in({"instances": "sliding", "context_sentences": 3})
    limits = instance_limits(scheme, {"_name": "docflat"}, Path("m.pt"), None)
    assert limits["sentences_before"] == 3
    alone = {"_name": "docflat", "batch_attention_in": "none"}
    assert "sentences_before" not in instance_limits(scheme, alone, Path("m.pt"), None)
