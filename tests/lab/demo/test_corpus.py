"""The corpus as written: format, sizes, splits, determinism, and that context is needed and
suffices."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections import Counter, defaultdict

import pytest
from sacremoses import MosesTokenizer

from gtransformer.lab.cli.demo_corpus import main
from gtransformer.lab.demo.corpus import PASSAGE
from gtransformer.lab.demo.document import write_document
from gtransformer.lab.demo.sentences import count_tokens
from gtransformer.lab.demo.shipped import unpack
from gtransformer.lab.demo.words import NOUNS
from tests.support import ROOT

pytestmark = pytest.mark.slow

SPLITS = ("train", "dev", "test")
FILES = [f"concatenated_en2de_{split}_{lang}.txt" for split in SPLITS for lang in ("en", "de")]


def checksums(folder) -> dict[str, str]:
    return {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
        for name in [*FILES, "contrastive.json"]
    }


def small(folder, *more: str) -> dict[str, str]:
    options = [
        "--output",
        str(folder),
        "--documents",
        "6",
        "--dev-documents",
        "2",
        "--test-documents",
        "3",
        *more,
    ]
    assert main(options) == 0
    return checksums(folder)


def pairs(corpus):
    """Every (split, document, English sentences, German sentences)."""
    for split in SPLITS:
        for number, (en, de) in enumerate(
            zip(corpus.texts[split]["en"], corpus.texts[split]["de"], strict=True)
        ):
            yield split, number, en, de


def test_same_seed_same_bytes_and_another_seed_another_corpus(tmp_path):
    first = small(tmp_path / "a")
    assert small(tmp_path / "b") == first
    other = small(tmp_path / "c", "--seed", "2")
    assert all(other[name] != first[name] for name in first)


def test_the_shipped_corpus_is_what_the_generator_writes(tmp_path):
    """A demonstration with fewer documents reads the first ones."""
    assert main(["--output", str(tmp_path / "written")]) == 0
    unpack(tmp_path / "shipped")
    assert checksums(tmp_path / "shipped") == checksums(tmp_path / "written")
    unpack(tmp_path / "fewer", documents=3, test_documents=2)
    for split, count in (("train", 3), ("dev", 16), ("test", 2)):
        name = f"concatenated_en2de_{split}_de.txt"
        whole, part = ((tmp_path / folder / name).read_text() for folder in ("shipped", "fewer"))
        assert part.count("<d>\n") == count and whole.startswith(part)
    items = json.loads((tmp_path / "fewer" / "contrastive.json").read_text())["items"]
    assert items and all(item["document"] < 2 for item in items)


def test_bytes_do_not_depend_on_hash_order(tmp_path):
    code = (
        # The package without its __init__, which imports PyTorch and fairseq.
        "import sys, types; package = sys.modules['gtransformer'] = "
        "types.ModuleType('gtransformer');"
        f"package.__path__ = [{str(ROOT / 'gtransformer')!r}];"
        "from gtransformer.lab.demo.document import write_document;"
        "import hashlib;"
        "text = ''.join(l.en + l.de for n in range(3) for l in write_document(1, 'train', "
        "n).lines);"
        "print(hashlib.sha256(text.encode()).hexdigest())"
    )
    seen = set()
    for hash_seed in ("0", "1", "77"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": hash_seed, "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=True,
        )
        seen.add(done.stdout.strip().splitlines()[-1])
    here = "".join(
        line.en + line.de for n in range(3) for line in write_document(1, "train", n).lines
    )
    assert seen == {hashlib.sha256(here.encode()).hexdigest()}


def test_the_corpus_never_changes(corpus):
    """Inflection, templates and the random choices: what published results of the demonstration are
    about."""
    lines = write_document(1, "train", 0).lines
    english = ["Hey Peter!", "Jonas knows your brother.", "Jonas is getting married in August."]
    german = ["Hey Peter!", "Jonas kennt deinen Bruder.", "Jonas heiratet im August."]
    assert [line.en for line in lines[:3]] == english
    assert [line.de for line in lines[:3]] == german
    found = checksums(corpus.folder)
    assert found["contrastive.json"].startswith(
        "6913c53c286ce5b5"
    )  # 300 items, 24 default test documents
    assert found["concatenated_en2de_train_en.txt"].startswith("c8e0b3ba74346b65")  # 120 documents
    assert found["concatenated_en2de_train_de.txt"].startswith("36abb2a5c8a3bacc")


def test_training_holds_the_words_of_the_test_set_but_hardly_a_sentence(corpus):
    trained = {sentence for split, _, en, _ in pairs(corpus) if split == "train" for sentence in en}
    words = {word for sentence in trained for word in re.findall(r"\w+", sentence)}
    for split in ("dev", "test"):
        sentences = [
            sentence for other, _, en, _ in pairs(corpus) if other == split for sentence in en
        ]
        share = sum(sentence in trained for sentence in sentences) / len(sentences)
        assert share < 0.01 and corpus.summary["seen_in_training"][split] == pytest.approx(
            share, abs=1e-4
        )
        assert {word for sentence in sentences for word in re.findall(r"\w+", sentence)} <= words


def test_a_larger_corpus_begins_with_the_smaller_one(tmp_path):
    small(tmp_path / "a")
    small(tmp_path / "b", "--documents", "9")
    for lang in ("en", "de"):
        name = f"concatenated_en2de_train_{lang}.txt"
        assert (tmp_path / "b" / name).read_bytes().startswith((tmp_path / "a" / name).read_bytes())


def test_sizes_and_instance_rule(corpus):
    tokenizer = {lang: MosesTokenizer(lang=lang) for lang in ("en", "de")}
    moses: dict[tuple[str, str], int] = {}
    lengths = []
    for _, _, en, de in pairs(corpus):
        assert len(en) == len(de)
        assert 55 <= len(en) <= 70
        total = 0
        for sentences in zip(en, de, strict=True):
            for lang, sentence in zip(("en", "de"), sentences, strict=True):
                assert sentence == sentence.strip() and sentence
                if (lang, sentence) not in moses:
                    moses[lang, sentence] = len(tokenizer[lang].tokenize(sentence))
                assert moses[lang, sentence] == count_tokens(sentence)
            total += max(map(count_tokens, sentences)) + 2
        assert total < 512
        lengths.append(total)
    assert 440 < sum(lengths) / len(lengths) < 500
    counts = corpus.summary["splits"]
    assert [counts[split]["documents"] for split in SPLITS] == [120, 16, 24]
    assert max(lengths) == max(counts[split]["instance_length"]["max"] for split in SPLITS)
    assert corpus.summary["sha256"] == checksums(corpus.folder)


def test_no_passage_stands_in_two_splits(corpus):
    passages = defaultdict(set)
    for split, _, en, _ in pairs(corpus):
        passages[split] |= {
            tuple(en[start : start + PASSAGE]) for start in range(len(en) - PASSAGE + 1)
        }
    for one, other in (("train", "dev"), ("train", "test"), ("dev", "test")):
        assert passages[one].isdisjoint(passages[other])


def test_no_sentence_twice_in_a_document(corpus):
    for split, number, en, _ in pairs(corpus):
        assert len(set(en)) == len(en), (split, number)


def test_spelling(corpus):
    for split, number, en, de in pairs(corpus):
        for sentence in en + de:
            assert re.fullmatch(r"[A-ZÄÖÜ][A-Za-zÄÖÜäöüß ,]*[.?!,]", sentence), (
                split,
                number,
                sentence,
            )
            assert "  " not in sentence


def test_vocabulary_is_moderate_and_every_word_is_seen_often(corpus):
    for lang, types in (("en", (300, 600)), ("de", (300, 600))):
        words = Counter(
            word
            for document in corpus.texts["train"][lang]
            for text in document
            for word in re.findall(r"\w+", text)
        )
        assert types[0] <= len(words) <= types[1]
        # A quarter of the default corpus: whatever is rarer than this there would be a rarity in
        # the demo too.
        assert sum(count < 3 for count in words.values()) <= 0.03 * len(words)
    assert len({len(nouns) for nouns in NOUNS.values()}) == 1


def register_of(greeting: str) -> str:
    return "Sie" if re.search(r"\b(Mr|Mrs)\b", greeting) else "du"


def contexts(corpus):
    """(English, context that matters, German) of every sentence; the context is read off the text,
    not the grammar."""
    genders = {noun.en: gender for gender, nouns in NOUNS.items() for noun in nouns}
    for _, _, en, de in pairs(corpus):
        register, gender, history = register_of(en[0]), "", []
        for source, target in zip(en, de, strict=True):
            named = [word for word in re.findall(r"\w+", source) if word in genders]
            gender = genders[named[-1]] if named else gender
            context = []
            if re.search(r"\b[Ii]t\b", source):
                context.append(gender)
            if re.search(r"\b([Yy]ou|[Yy]our|Please|Do not)\b", source):
                context.append(register)
            for word in re.findall(r"\bthe (bat|seal|letter|bank)\b", source.lower()):
                setting = [
                    line for line in history if re.search(rf"\ba (\w+ )?{word}\b", line.lower())
                ]
                assert len(setting) == 1
                context.append(setting[0])
            history.append(source)
            yield source, tuple(context), target


def test_one_right_german_for_each_english_sentence_in_its_context(corpus):
    seen: dict[tuple, set[str]] = defaultdict(set)
    for source, context, target in contexts(corpus):
        seen[source, context].add(target)
    assert {key: value for key, value in seen.items() if len(value) > 1} == {}


@pytest.mark.parametrize(
    "phenomenon, pattern",
    [
        ("pronoun", r"\b[Ii]t\b(?!.*\byou\b)"),
        ("address", r"\b([Yy]ou|[Yy]our)\b(?!.*\bit\b)"),
        ("ambiguity", r"\b[Tt]he (bat|seal|letter|bank)\b(?!.*\byou\b)"),
    ],
)
def test_the_english_sentence_alone_does_not_decide(corpus, phenomenon, pattern):
    seen: dict[str, set[str]] = defaultdict(set)
    for source, _, target in contexts(corpus):
        if re.search(pattern, source):
            seen[source].add(target)
    undecided = [source for source, targets in seen.items() if len(targets) > 1]
    assert len(undecided) >= 20


def test_pronouns_of_all_genders_are_common(corpus):
    for split in SPLITS:
        counts = corpus.summary["splits"][split]["phenomena"]["pronoun"]
        total = sum(counts.values())
        assert total / corpus.summary["splits"][split]["documents"] > 12
        shares = [counts["it -> er"] + counts["it -> ihn"], counts["it -> sie"], counts["it -> es"]]
        assert all(0.25 <= share / total <= 0.45 for share in shares), (split, shares)


def test_both_registers_are_common(corpus):
    greetings = [register_of(document[0]) for document in corpus.texts["train"]["en"]]
    assert 0.35 < greetings.count("Sie") / len(greetings) < 0.65


@pytest.mark.parametrize(
    "options",
    [["--documents", "0"], ["--documents", "many"], ["--test-documents", "-3"], ["--seed", "1.5"]],
)
def test_wrong_numbers_are_refused(tmp_path, capsys, options):
    with pytest.raises(SystemExit) as stopped:
        main(["--output", str(tmp_path / "out"), *options])
    assert stopped.value.code == 2 and options[0] in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_output_that_is_a_file_is_refused(tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    for output in (tmp_path / "file", tmp_path / "file" / "below"):
        assert main(["--output", str(output), "--documents", "1"]) == 1
        error = capsys.readouterr().err
        assert error.startswith("error: ") and error.count("\n") == 1 and str(output) in error
    assert (tmp_path / "file").read_text() == "mine"


def test_an_interrupted_run_is_not_taken_for_a_whole_corpus(tmp_path, monkeypatch):
    small(tmp_path / "a")
    monkeypatch.setattr("gtransformer.lab.demo.corpus.contrastive_set", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["--output", str(tmp_path / "a"), "--documents", "5"])
    assert not (tmp_path / "a" / "corpus.json").exists()
    assert not list((tmp_path / "a").glob("*.tmp"))
