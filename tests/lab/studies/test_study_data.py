"""Where the data of a study lies: other settings, another place, for all that is derived from what they change."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gtransformer.files import write_json
from gtransformer.lab.studies.data import Corpora
from gtransformer.lab.studies.plan import Data
from gtransformer.run import pipeline as pipeline_module
from gtransformer.run.pipeline import Pipeline
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
        with Pipeline(tmp_path / "out", "study") as pipeline:
            corpora = Corpora(pipeline, str(raw), {}, load_recipe("demo", list(changes)))
            corpora.begin()
            folders = [corpora.prepared(data) for data in WANTED]
            assert corpora.instances(Data(64, 5)) == corpora.known_instances(Data(64, 5)) == 9
        return list(commands), folders

    return preparer


@pytest.mark.parametrize("change", ["prepare.bpe-merges=1000", "prepare.max-sents=3", "task.langs=de,en"])
def test_data_follows_from_all_that_it_was_derived_from(prepare, change):
    commands, folders = prepare()
    # Base, the three others, and the long documents that the last is drawn from.
    assert len(commands) == 5 and [folder.name.rsplit("-", 1)[0] for folder in folders] == [
        "base", "len64", "len64-5", "len64-from768-5"
    ]  # fmt: skip
    changed_commands, changed = prepare(change)
    assert len(changed_commands) == 5 and set(folders).isdisjoint(changed), "nothing of the old settings is kept"
    raws = [{command[0] for command in one} for one in (commands, changed_commands)]
    assert len(raws[0] & raws[1]) == 1, "all but the corpus itself was drawn anew"
    for command in changed_commands[1:]:
        assert command[command.index("--vocabulary") + 1] == str(changed[0])
    assert prepare() == ([], folders), "the first settings' data is still there"


def test_lengths_share_a_corpus(prepare, tmp_path):
    """Unless a number of sentences cuts instances, too, or some of them are drawn."""
    _, (base, shorter, drawn, _) = prepare()
    for change, expected in (
        (None, (base, ["task.instances=greedy", "task.instance-tokens=64"])),
        ("prepare.max-sents=3", None),
    ):
        recipe = load_recipe("demo", [change] if change else [])
        with Pipeline(tmp_path / "out", "study") as pipeline:
            corpora = Corpora(pipeline, str(tmp_path / "raw"), {}, recipe)
            corpora.begin()
            assert corpora.read(Data(512)) == (corpora.prepared(Data(512)), [])
            assert corpora.read(Data(64)) == (expected or (corpora.prepared(Data(64)), []))
            if expected:
                long = corpora.prepared(Data(512, None, 768))
                assert corpora.read(Data(64, None, 768)) == (long, expected[1])
                assert corpora.read(Data(512, None, 768)) == (long, [])
            assert corpora.read(Data(64, 5)) == (corpora.prepared(Data(64, 5)), [])
    assert base != shorter != drawn


def test_another_corpus_is_other_data(prepare, tmp_path):
    _, folders = prepare()
    (tmp_path / "raw" / "concatenated_en2de_train_de.txt").write_text("<d>\nanders\n")
    commands, others = prepare()
    assert len(commands) == 5 and set(folders).isdisjoint(others)
