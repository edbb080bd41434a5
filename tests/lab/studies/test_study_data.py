"""The data of a study: where it lies, what is drawn, and which corpus a run reads."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gtransformer.data.instance_index import InstanceIndex
from gtransformer.errors import UserError
from gtransformer.files import write_json
from gtransformer.lab import pipeline as pipeline_module
from gtransformer.lab.studies.data import Corpora, long_documents, sampled, write_part
from gtransformer.lab.studies.study import Data
from gtransformer.run.recipe import load_recipe

WANTED = [Data(512), Data(64), Data(64, 5), Data(64, 5, 768)]


@pytest.fixture
def prepare(tmp_path, monkeypatch):
    """A function that prepares WANTED with changed settings, without working: (commands, folders)."""
    raw = tmp_path / "raw"
    raw.mkdir()
    for lang in ("en", "de"):
        (raw / f"concatenated_en2de_train_{lang}.txt").write_text(f"<d>\n{lang}\n")
    commands: list[list[str]] = []

    def run(command: list[str], *_) -> subprocess.Popen:
        commands.append(command[3:])
        write_json(Path(command[4]) / "manifest.json", {"splits": {"train": {"instances": 9}}})
        return subprocess.Popen(["true"], start_new_session=True)

    def write(self, data: Data, source, target) -> None:
        assert (source / "manifest.json").is_file(), "what it is drawn from is there"
        target.mkdir(parents=True)

    monkeypatch.setattr(pipeline_module, "start_program", run)
    monkeypatch.setattr(Corpora, "_draw", write)

    def preparer(*changes: str):
        commands.clear()
        corpora = Corpora(tmp_path / "out", str(raw), {}, load_recipe("demo", list(changes)))
        corpora.begin()
        folders = [corpora.prepared(data) for data in WANTED]
        assert corpora.instances(Data(64, 5)) == 9
        return list(commands), folders

    return preparer


@pytest.mark.parametrize("change", ["prepare.vocabulary-size=1000", "corpus"])
def test_data_follows_from_all_that_it_was_derived_from(prepare, tmp_path, change):
    commands, folders = prepare()
    # Base, the three others, and the long documents that the last is drawn from.
    names = ["base", "len64", "len64-5", "len64-from768-5"]
    assert len(commands) == 5 and [folder.name.rsplit("-", 1)[0] for folder in folders] == names
    text = tmp_path / "raw" / "concatenated_en2de_train_de.txt"
    if change == "corpus":
        text.write_text("<d>\nanders\n")
    changed_commands, changed = prepare(*[change] * (change != "corpus"))
    assert len(changed_commands) == 5 and set(folders).isdisjoint(changed), "nothing of the old settings is kept"
    raws = [{command[0] for command in one} for one in (commands, changed_commands)]
    assert len(raws[0] & raws[1]) == 1, "all but the corpus itself was drawn anew"
    for command in changed_commands[1:]:
        assert command[command.index("--vocabulary") + 1] == str(changed[0])
    text.write_text("<d>\nde\n")
    assert prepare() == ([], folders), "the first settings' data is still there"


@pytest.mark.parametrize("change", [None, "prepare.max-sents=3"])
def test_lengths_share_a_corpus(prepare, tmp_path, change):
    """Unless a number of sentences cuts instances, too, or some of them are drawn."""
    prepare()
    recipe = load_recipe("demo", [change] if change else [])
    corpora = Corpora(tmp_path / "out", str(tmp_path / "raw"), {}, recipe)
    corpora.begin()
    grouped = [] if change else ["task.instances=greedy", "task.instance-tokens=64"]
    for documents in (None, 768):
        whole, short = Data(512, None, documents), Data(64, None, documents)
        assert corpora.read(whole) == (corpora.prepared(whole), [])
        assert corpora.read(short) == (corpora.prepared(short if change else whole), grouped)
    assert corpora.read(Data(64, 5)) == (corpora.prepared(Data(64, 5)), [])


def test_items_of_the_generated_corpus(tmp_path: Path):
    """A set that shows reach, or the demonstration's own where the study says how many."""
    recipe = load_recipe("arena/start")
    for sizes, name, maker in (
        ({"items": 3}, "set/contrastive_reach.json", "reach_corpus"),
        ({"contrastive-items": 3}, "contrastive.json", "demo_corpus"),
        ({"documents": 2}, None, "demo_corpus"),
    ):
        corpora = Corpora(tmp_path, "demo", sizes, recipe)
        assert corpora.items == (corpora.generated / name if name else None)
        assert corpora.pipeline.stages[corpora.generated.name].work.args[0].endswith(maker)


# Two documents; instances of at most 9 tokens: two and one sentence, then one.
TEXT = {
    "en": ["<d>", "a b", "c", "d e f", "<d>", "g"],
    "de": ["<d>", "A B C", "D", "E F", "<d>", "G H"],
}
INSTANCES = {
    "en": ["<s> a b </s> <s> c </s>", "<s> d e f </s>", "<s> g </s>"],
    "de": ["<s> A B C </s> <s> D </s>", "<s> E F </s>", "<s> G H </s>"],
}
INSTANCE_INDEX = InstanceIndex("train", "en", "de", documents=2, instances=[(0, 0, 2), (0, 2, 1), (1, 0, 1)])


@pytest.fixture
def prepared(tmp_path):
    """As much of a prepared directory as is read."""
    for folder, texts in (("text", TEXT), ("instances", INSTANCES)):
        (tmp_path / folder).mkdir()
        for lang, lines in texts.items():
            (tmp_path / folder / f"train.{lang}").write_text("\n".join(lines) + "\n")
    return tmp_path


def written(folder) -> dict[str, list[str]]:
    return {lang: (folder / f"concatenated_en2de_train_{lang}.txt").read_text().splitlines() for lang in ("en", "de")}


def test_documents_by_length(prepared):
    """Costs: max(2, 3) + 2, 1 + 2 and 3 + 2 tokens in the first document, 2 + 2 in the second."""
    for tokens, documents in ((4, {0, 1}), (5, {0}), (13, {0}), (14, set())):
        assert set(long_documents(INSTANCE_INDEX, prepared, ("en", "de"), tokens)) == documents
    write_part(prepared, prepared / "part", ("en", "de"), {0: [(0, None)]})
    assert written(prepared / "part") == {lang: lines[:4] for lang, lines in TEXT.items()}


def test_sampled_instances_become_documents(prepared):
    cuts = sampled(INSTANCE_INDEX, 3)
    assert cuts == {0: [(0, 2), (2, 1)], 1: [(0, 1)]}
    write_part(prepared, prepared / "part", ("en", "de"), cuts)
    assert written(prepared / "part") == {
        "en": ["<d>", "a b", "c", "<d>", "d e f", "<d>", "g"],
        "de": ["<d>", "A B C", "D", "<d>", "E F", "<d>", "G H"],
    }
    assert sampled(INSTANCE_INDEX, 1) == sampled(INSTANCE_INDEX, 1), "the draw can be repeated"
    draws = [sampled(InstanceIndex("train", "en", "de", 100, [(i, 0, 1) for i in range(100)]), n) for n in (10, 50)]
    assert [len(draw) for draw in draws] == [10, 50] and list(draws[1]) != list(range(50))
    with pytest.raises(UserError, match="3"):
        sampled(INSTANCE_INDEX, 4)
