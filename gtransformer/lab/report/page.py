"""The results page: the arena, papers' tables with ours beside them, studies, and all that was run, as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.evaluation.provenance import short_commit
from gtransformer.lab.report.arena_section import arena_sections
from gtransformer.lab.report.folders import Folder, read_folders
from gtransformer.lab.report.keys import ABOUT, need
from gtransformer.lab.report.miniature import Logs
from gtransformer.lab.report.paper import Paper, paper_files, read_paper
from gtransformer.lab.report.paper_tables import markdown, other_section, sort_results, statistics, table_section
from gtransformer.settings import read_entries

INTRODUCTION = """\
# What was run

Made by `bash scripts/report.sh` from the result files in the folders here; change those, not this page. The command,
the commit and the versions of every result are in its JSON file, paths shortened to the checkout's; here commands stand
as the scripts that run them.

Machine of all runs, unless a folder says otherwise: {machine}.

Tables of papers: figures under *paper* are those printed there, typed into the files of
`gtransformer/lab/report/papers/`. *Ours* are models of the row's recipe, changed in nothing but what the row names,
trained on the same corpus, whole, and scored on its test set. A cell is empty where nothing was run.

Scores of our runs on **other data**, or with options **changed**, stand in tables of their own, against untouched text
unless marked. They compare our models with each other, on one corpus and budget; they **must not be compared with the
paper's figures**, nor must those under *miniature*, which are of another corpus, size or machine."""


def make_page(logs: Path, papers: Sequence[Path] = ()) -> str:
    """The page of a folder of results, beside the figures of some papers (all that there are).

    Raises UserError for anything in them that cannot be read.
    """
    if not (logs / ABOUT).is_file():
        raise UserError(f"{logs}: no folder of results; it must hold {ABOUT}, as exp_logs/ of the checkout does")
    machine = need(read_entries(logs / ABOUT), logs / ABOUT, "machine", kind=str, optional=True) or "not noted"
    return page([read_paper(path) for path in papers or paper_files()], read_folders(logs), Logs(logs), machine)


def page(papers: Sequence[Paper], folders: Sequence[Folder], logs: Logs, machine: str) -> str:
    """The whole page.

    Args:
        machine: what the runs were made on whose folder does not say it.
    """
    ours, other = sort_results(papers, [result for folder in folders for result in folder.results])
    parts = [INTRODUCTION.format(machine=machine), *arena_sections(logs.folder)]
    for paper in papers:
        parts += [f"## Tables of {paper.title}", paper.introduction, *statistics(paper, folders)]
        for table in paper.tables:
            parts.append(table_section(paper, table, ours[paper.name], other[paper.name, table.name], logs))
    if other[None]:
        parts += ["## Recipes that belong to no table", other_section(other[None])]
    return "\n\n".join([*parts, studies(folders), runs(folders)]) + "\n"


def studies(folders: Sequence[Folder]) -> str:
    """The figures that were drawn, each with its picture and command."""
    parts = ["## Figures of Bao et al. (2021)"]
    for folder in folders:
        for study in folder.studies:
            picture = f"\n\n![{study.title}]({study.picture})" if study.picture else ""
            parts.append(
                f"### [{study.source}]({study.source}): {study.title}{picture}\n\n```bash\n{study.command}\n```"
            )
    return "\n\n".join(parts) if len(parts) > 1 else f"{parts[0]}\n\nNone was run yet."


def runs(folders: Sequence[Folder]) -> str:
    """All folders: what each is, its machine, its pictures; and the command of every result file."""
    rows = []
    for folder in folders:
        pictures = ", ".join(f"[{name}]({folder.name}/{name})" for name in folder.pictures)
        rows.append([f"[`{folder.name}/`]({folder.name})", folder.about, folder.machine or "as above", pictures])
    lines = [
        [f"[{folder.name}/{name}]({folder.name}/{name})", f"`{command}`", short_commit(commit)]
        for folder in folders
        for name, command, commit in folder.commands
    ]
    parts = ["## All folders", markdown(("folder", "what", "machine", "pictures"), rows)]
    if lines:
        parts += ["Commands:", markdown(("result file", "command", "commit"), lines)]
    return "\n\n".join(parts)
