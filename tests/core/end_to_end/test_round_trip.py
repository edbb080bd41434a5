"""Text comes back from a prepared corpus as it was; a corpus by Moses' rules is that of the tools
themselves.
"""

from __future__ import annotations

import io
import unicodedata
from pathlib import Path

import pytest
from sacremoses import MosesTokenizer, MosesTruecaser
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from gtransformer.data.instance_index import InstanceIndex
from gtransformer.evaluation.score import score_translations
from gtransformer.files import read_json, read_lines
from gtransformer.preprocess.chain import open_text
from gtransformer.preprocess.characters import clean_line
from gtransformer.preprocess.instances import split_instance, write_dictionary
from gtransformer.preprocess.tokenisers import SentencePieces, learn_sentencepiece
from tests.commands import run
from tests.core.evaluation.support import write_jsonl
from tests.raw_corpus import write_documents
from tests.support import SHARED, command, write_lines

main = command("prepare")


ENGLISH = [
    "It costs 5 € and 20% more than my father’s house.",
    "“Look,” he said; it isn't at 14:30, mail a@b.de and/or c@d.de!",
    "and so it went on:  red, at 125 km/h.",
    "Colours: red (and blue) – that's all. 😀 \u00a0 <mask> [de] @@",
]
GERMAN = [
    "Es kostet 5 € und 20% mehr als Vaters Haus.",
    "»Ja«, sagte er; wie geht's um 14:30, Mail an a@b.de und/oder c@d.de!",
    "und so ging es weiter:  rot, mit 125\u202fkm/h.",
    "Farben: rot (und blau) – das ist alles. 😀 \u00a0 <mask> [de] @@",
]


@pytest.fixture(scope="module")
def raw(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("raw")
    for split in ("train", "test"):
        for lang, lines in (("en", ENGLISH), ("de", GERMAN)):
            write_documents(folder / f"concatenated_en2de_{split}_{lang}.txt", [lines] * 6)
    return folder


def prepare(raw: Path, output: Path, *options: str) -> dict:
    assert main([str(raw), str(output), "--workers=1", *options]) == 0
    return read_json(output / "manifest.json")


@pytest.fixture(scope="module")
def pieces(raw, tmp_path_factory) -> Path:
    output = tmp_path_factory.mktemp("pieces") / "prepared"
    prepare(raw, output, "--vocabulary-size=450")
    return output


@pytest.fixture(scope="module")
def moses(raw, tmp_path_factory) -> Path:
    output = tmp_path_factory.mktemp("moses") / "prepared"
    prepare(raw, output, "--tokeniser=moses", "--vocabulary-size=90")
    return output


def perfect(prepared: Path, path: Path) -> Path:
    """The reference as a model's translation."""
    instance_index = InstanceIndex.load(prepared / "bin" / "test.en-de.instances.json")
    lines = (prepared / "instances" / "test.de").read_text(encoding="utf-8").splitlines()
    rows = [
        {
            "id": number, "document": document, "first_sentence": first, "sentences": count,
            "hypotheses": [{"score": -1.0, "sentences": split_instance(line)}],
        }
        for number, (line, (document, first, count)) in enumerate(zip(lines,
        instance_index.instances, strict=True))
    ]  # fmt: skip
    return write_jsonl(path, rows)


def test_text_comes_back(raw, pieces, tmp_path):
    """Also what training text lacks: rare characters are bytes, which the dictionary has."""
    manifest = prepare(raw, pieces, "--vocabulary-size=450")
    assert manifest["splits"]["test"]["unknown_tokens"] == {"en": 0, "de": 0}
    dictionary = [line.split()[0] for line in read_lines(pieces / "bin" / "dict.de.txt")]
    assert len(dictionary) == 450 and {f"<0x{byte:02X}>" for byte in range(256)} < {*dictionary}
    scores = score_translations(
        pieces, "test", perfect(pieces, tmp_path / "p.jsonl"), ["raw", "release"]
    ).scores
    assert scores["raw"].values["s_bleu"].score == pytest.approx(100)
    for lang, lines in (("en", ENGLISH), ("de", [*GERMAN, "中文 ☃ \u3000 ﷽", "Ñandú"])):
        text = open_text(pieces, lang)
        cut = text.encode(lines)
        assert text.decode(cut) == lines and {word for line in cut for word in line.split()} <= {
            *dictionary
        }


# Where the text is from: TED, News and the Bible (Maruf et al. 2019; en, de), OpenSubtitles in the
# sets of Voita et al. (2019; ru, tokenised) and of ctxpro (Wicks and Post 2023; pt).
@pytest.mark.parametrize(("lang", "cleaned"), [("en", 0), ("de", 0), ("ru", 4), ("pt", 0)])
def test_real_text_comes_back(lang, cleaned, tmp_path):
    """2,000 lines are byte-equal after NFC, but for ``cleaned``, with invisible characters."""
    if not SHARED.is_dir():
        pytest.skip(f"real corpora not found at {SHARED}")
    lines = real_lines(SHARED / "data", lang)
    held_out = [unicodedata.normalize("NFC", line.strip()) for line in lines[::2]][:2000]
    for side in ("xx", "yy"):
        write_documents(tmp_path / "raw" / f"concatenated_xx2yy_train_{side}.txt", [lines[1::2]])
    prepare(tmp_path / "raw", tmp_path / "out", "-s=xx", "-t=yy", "--vocabulary-size=3000")
    text = open_text(tmp_path / "out", "xx")
    back = text.decode(text.encode(held_out))
    assert len(held_out) == 2000 and back == [clean_line(line) for line in held_out]
    assert sum(line != other for line, other in zip(held_out, back, strict=True)) == cleaned


def real_lines(data: Path, lang: str) -> list[str]:
    """Return lines of one language."""
    if lang == "ru":
        items = [item for path in data.glob("discourse_en-ru/*") for item in read_json(path)]
        return [line for item in items for line in item["dst"][0].split(" _eos ")]
    if lang == "pt":
        items = [item for path in data.glob("ctxpro/*.en-pt.*.json.xz") for item in read_json(path)]
        return [item["ref segment"] for item in items]
    files = [
        data / name / f"concatenated_en2de_dev_{lang}.txt.xz" for name in ("ted", "news", "bible")
    ]
    return [line for path in files for line in read_lines(path) if line != "<d>"]


def test_moses_rules_are_those_of_the_tools(raw, moses, tmp_path):
    """sacremoses' functions, subword-nmt's command and fairseq-preprocess give the same files."""
    cut = {}
    for lang in ("en", "de"):
        for split in ("train", "test"):
            lines = [
                line for line in read_lines(moses / "text" / f"{split}.{lang}") if line != "<d>"
            ]
            tokeniser = MosesTokenizer(lang)
            tokens = [" ".join(tokeniser.tokenize(line, escape=False)) for line in lines]
            cut[split, lang] = [
                line.replace("<mask>", "< mask >").replace("@@", "@ @") for line in tokens
            ]
        truecaser = MosesTruecaser()
        truecaser.train([line.split() for line in cut["train", lang]], save_to=str(tmp_path / lang))
        assert (moses / f"truecase.{lang}").read_bytes() == (tmp_path / lang).read_bytes()
        for split in ("train", "test"):
            lines = [
                truecaser.truecase(line, return_str=True, use_known=True)
                for line in cut[split, lang]
            ]
            cut[split, lang] = "".join(f"{line}\n" for line in lines)
    codes = io.StringIO()
    learn_bpe((cut["train", "en"] + cut["train", "de"]).splitlines(keepends=True), codes, 90)
    assert codes.getvalue() == (moses / "bpe.codes").read_text(encoding="utf-8")
    apply = BPE(codes)
    for (split, lang), text in cut.items():
        subwords = [apply.process_line(line) for line in text.splitlines()]
        documents = [subwords[first : first + 4] for first in range(0, 24, 4)]
        lines = [" ".join(f"<s> {line} </s>" for line in document) for document in documents]
        write_lines(tmp_path / "instances" / f"{split}.{lang}", lines)
    run(
        "preprocess", "--task=translation_doc", "-s", "en", "-t", "de", "--destdir",
        tmp_path / "bin",
        "--srcdict", moses / "bin" / "dict.en.txt", "--joined-dictionary", "--trainpref",
        tmp_path / "instances" / "train", "--testpref", tmp_path / "instances" / "test",
    )  # fmt: skip
    for path in (tmp_path / "bin").glob("*.en-de.*"):
        assert path.read_bytes() == (moses / "bin" / path.name).read_bytes(), path.name


def test_each_side_by_a_given_model(raw, pieces, tmp_path):
    """Two SentencePiece models with their dictionaries, as fairseq's recipes learn them."""
    learn_sentencepiece(GERMAN, tmp_path / "de.model", 330)
    words = {
        "en": SentencePieces(pieces / "sentencepiece.model").words(),
        "de": SentencePieces(tmp_path / "de.model").words(),
    }
    for lang, known in words.items():
        write_dictionary(dict.fromkeys(known, 1), [], tmp_path / f"dict.{lang}.txt")
    models = [
        f"--sentencepiece={pieces}/sentencepiece.model",
        f"--sentencepiece-target={tmp_path}/de.model",
    ]
    manifest = prepare(raw, tmp_path / "out", *models, f"--dictionary={tmp_path}")
    assert manifest["splits"]["test"]["unknown_tokens"] == {"en": 0, "de": 0}
    text = open_text(tmp_path / "out", "de")
    cut = text.encode(GERMAN)
    assert text.decode(cut) == GERMAN and cut != open_text(pieces, "de").encode(GERMAN)
    english = (tmp_path / "out" / "instances" / "test.en").read_bytes()
    assert english == (pieces / "instances" / "test.en").read_bytes()


@pytest.mark.parametrize("lender", ["pieces", "moses"])
def test_vocabulary_is_borrowed_with_its_rules(raw, lender, tmp_path, request):
    folder = request.getfixturevalue(lender)
    prepare(raw, tmp_path / "lent", f"--vocabulary={folder}")
    for name in ("instances/test.de", "bin/test.en-de.de.bin", "bin/dict.en.txt"):
        assert (tmp_path / "lent" / name).read_bytes() == (folder / name).read_bytes()
