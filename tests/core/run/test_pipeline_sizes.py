"""Sizes by which a finished stage is found whole."""

from __future__ import annotations

from pathlib import Path

from gtransformer.run.pipeline import Pipeline, Stage


def test_what_grew_does_not_hide_what_was_cut(tmp_path, monkeypatch):
    """Every file counts for itself, however the directory is spelled; logs, locks and half-written files do not."""
    folder, did = tmp_path / "corpus", []
    log = tmp_path / "train.log"

    def run(directory: Path) -> None:
        with Pipeline(directory, "trial") as pipeline:
            pipeline.add(Stage("corpus", 1, [directory / "corpus", directory / "train.log"], write))
            pipeline.run("trial")

    def write() -> None:
        did.append("corpus")
        folder.mkdir(exist_ok=True)
        for name in ("a", "b", "lock", "x.1.tmp"):
            (folder / name).write_text("text")
        log.write_text("line\n" * 3)

    run(tmp_path)
    (folder / "later").write_text("of another stage")
    (folder / "lock").unlink(), (folder / "x.1.tmp").unlink()
    log.write_text("line\n")
    monkeypatch.chdir(tmp_path)
    run(Path())
    assert did == ["corpus"]
    for harm in (lambda: (folder / "a").write_text("te"), (folder / "b").unlink):
        harm()
        (folder / "later").write_text("longer than it was, by far")
        run(Path())
    assert did == ["corpus"] * 3
