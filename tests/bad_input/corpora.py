"""Raw corpora, and the options of preparing and converting them."""

from __future__ import annotations

from pathlib import Path

from tests.bad_input.row import Row

GIVEN = "prepare {place}/raw {out} --workers 1"  # and subwords that are given
P = f"{GIVEN} --bpe-merges 20"
FILE = "{place}/raw/concatenated_en2de_train_"


def corpus(en: str | bytes, de: str | bytes, split: str = "train"):
    """Two files of a raw corpus."""

    def make(place: Path) -> None:
        (place / "raw").mkdir()
        for lang, text in (("en", en), ("de", de)):
            content = text if isinstance(text, bytes) else text.encode()
            (place / "raw" / f"concatenated_en2de_{split}_{lang}.txt").write_bytes(content)

    return make


GOOD = corpus("<d>\nOne house.\nTwo.\n", "<d>\nEin Haus.\nZwei.\n")


def one_side(place: Path) -> None:
    GOOD(place)
    (place / "raw" / "concatenated_en2de_train_de.txt").unlink()


def with_codes(place: Path) -> None:
    GOOD(place)
    (place / "codes").touch()


def with_dictionaries(place: Path) -> None:
    with_codes(place)
    for lang in ("en", "de"):
        (place / f"dict.{lang}.txt").touch()


def to_convert(place: Path) -> None:
    for name, text in (("a.en", "One.\nTwo.\n"), ("a.de", "Eins.\n"), ("ids", "1\n1\n"), ("empty", "")):
        (place / name).write_text(text)


IDS = "convert ids {out} --split train --source {place}/a.en --ids {place}/ids --target"
TEXTS = [
    ("fewer source lines", "<d>\na\n", "<d>\na\nb\n", "en.txt, line 2: the file ends here, but "),
    ("fewer target lines", "<d>\na\nb\nc\n", "<d>\na\nb\n", "de.txt, line 3: the file ends here, but "),
    ("a line lost", "<d>\na\nb\n<d>\nc\n", "<d>\na\n<d>\nc\n", "en.txt, line 3: "),
    ("no document opens the source", "a\n<d>\nb\n", "<d>\na\nb\n", "en.txt, line 1: the file must begin with <d>"),
    ("no document opens the target", "<d>\na\nb\n", "a\n<d>\nb\n", "de.txt, line 1: the file must begin with <d>"),
    ("an empty document", "<d>\n<d>\na\n", "<d>\n<d>\na\n", "en.txt, line 1: the document that begins here is empty"),
    ("documents begin elsewhere", "<d>\na\n<d>\nb\n", "<d>\na\nx\nb\n", "de.txt, line 3: a sentence, but "),
    ("no document at all", "a\n", "a\n", "en.txt, line 1: documents are not marked"),
    ("an empty document within", "<d>\na\n<d>\n<d>\nb\n", "<d>\na\n<d>\n<d>\nb\n", "line 3: the document that begins"),
    ("an empty document at the end", "<d>\na\n<d>\n", "<d>\na\n<d>\n", "en.txt, line 3: the document that begins here"),
    ("documents begin elsewhere in the target", "<d>\na\nx\nb\n", "<d>\na\n<d>\nb\n", "en.txt, line 3: a sentence"),
    ("the end of a sentence", "<d>\na\nb\n", "<d>\na\nb </s>\n", "de.txt, line 3: </s> inside a sentence"),
    ("a sign within a word", "<d>\na<s>b\n", "<d>\na\n", "en.txt, line 2: <s> inside a sentence"),
    ("a sign of sentences", "<d>\na <s> b\n", "<d>\na\n", "en.txt, line 2: <s> inside a sentence"),
    ("a sign of documents", "<d>\na <d> b\n", "<d>\na\n", "en.txt, line 2: <d> inside a sentence"),
    ("bytes that are not UTF-8", "<d>\na\n", b"<d>\n\xfcber\n", "de.txt, line 2: byte 0xfc at column 1 is not UTF-8"),
    ("UTF-16", "<d>\na\n".encode("utf-16"), "<d>\na\n", "en.txt, line 1: byte 0xff at column 1 is not UTF-8"),
    ("empty files", "", "", "en.txt, line 1: the file is empty"),
    ("one empty file", "", "<d>\na\n", "en.txt, line 0: the file ends here"),
    ("nothing but white space", "<d>\n \n\t\n", "<d>\n \n \n", "concatenated_en2de_train"),
]
ROWS = [
    *(Row(name, P, says, corpus(en, de)) for name, en, de, says in TEXTS),
    Row("one side", P, f"{FILE}de.txt: no such file", one_side),
    Row("no corpus", P, "{place}/raw: no such directory"),
    Row("another language", f"{P} -t fr", "no files for the language pair en-fr", GOOD),
    Row("one language", f"{P} -t en", "both en", GOOD),
    Row("languages without the pair's", f"{P} --langs en,fr", "--langs en,fr", GOOD),
    Row("no training data", P, "_train_en.txt: no such file; without training data give --vocabulary",
        corpus("<d>\na\n", "<d>\na\n", "dev")),
    Row("codes without a dictionary", f"{GIVEN} --bpe-codes {{place}}/codes", "--dictionary belongs to", with_codes),
    Row("a dictionary that is not there", f"{GIVEN} --bpe-codes {{place}}/codes --dictionary {{place}}",
        "txt: no such file", with_codes),
    Row("codes that are not there", f"{GIVEN} --bpe-codes {{place}}/none --dictionary {{place}}",
        "none: no such file", GOOD),
    Row("codes and a vocabulary", f"{GIVEN} --bpe-codes {{place}}/codes --dictionary {{place}} --vocabulary {{place}}",
        "--bpe-codes and --vocabulary each define subwords", with_dictionaries),
    Row("merges beside given subwords", f"{P} --vocabulary {{place}}", "--bpe-merges 20: --vocabulary defines", GOOD),
    Row("a vocabulary of nothing", f"{GIVEN} --vocabulary {{place}}", "manifest.json: no such file", GOOD),
    Row("output among the raw files", P.replace("{out}", "{place}/raw"), "{place}/raw: holds something else", GOOD),
    Row("output through a file", P.replace("{out}", "{text}/out"), "{text}", GOOD),
    Row("convert: sides of unequal length", f"{IDS} {{place}}/a.de", "a.de", to_convert),
    Row("a directory of somebody else", P, "{out}: holds something else",
        lambda place: (GOOD(place), (place / "out" / "bin").mkdir(parents=True))),
    Row("convert: one language", f"{IDS} {{place}}/a.de -s de", "are both de", to_convert),
    Row("postprocess: no corpus", "postprocess --lang de --input {text} --prepared {place}/none", "none/manifest.json"),
    Row("postprocess: another language", "postprocess --lang fr --input {text} --prepared {prepared}", "lacks fr"),
    Row("convert: no such side", f"{IDS} {{place}}/none", "none: no such file", to_convert),
    Row("convert: an empty side", f"{IDS} {{place}}/empty", "empty", to_convert),
    Row("convert: a split of no name", f"{IDS} {{place}}/a.en --split exam", "invalid choice: 'exam'", to_convert),
]  # fmt: skip
