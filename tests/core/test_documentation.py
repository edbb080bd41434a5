"""The pages: what they name is there, the map is the package's, and no text refers to what is not
in the repository.
"""

from __future__ import annotations

import re
import shlex
import sys
from itertools import product
from pathlib import Path

import pytest
from fairseq import options

from gtransformer.cli.commands import COMMANDS
from gtransformer.cli.main import find, parse
from gtransformer.optional import import_user_dir
from gtransformer.run.commands import to_arguments
from gtransformer.run.recipe import load_recipe, recipe_names
from tests.support import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FOLDERS = "configs|docs|exp_logs|gtransformer|requirements|scripts|tests"
NAMED = re.compile(rf"(?<![\w/.:-])(?:{FOLDERS})/[\w./{{}},*-]*[\w/}}*]")
LINK = re.compile(r"\]\((?!https?:)([^)\s]+)\)")
FAIRSEQ = {
    "fairseq-train": options.get_training_parser,
    "fairseq-generate": options.get_generation_parser,
    "fairseq-interactive": lambda: options.get_generation_parser(interactive=True),
}


def expanded(name: str) -> list[str]:
    """``a/{b,c}.x`` -> ``a/b.x``, ``a/c.x``."""
    parts = re.split(r"\{([^{}]*)\}", name)
    choices = [part.split(",") if number % 2 else [part] for number, part in enumerate(parts)]
    return ["".join(choice) for choice in product(*choices)]


def missing(text: str) -> list[str]:
    """Files of the repository that a text names and that are not there; SHOUTED parts of names
    stand for any.

    A recipe may be named as on the command line.
    """
    names = [
        name
        for found in NAMED.finditer(text)
        for name in expanded(re.sub(r"\b[A-Z]{2,}\b", "*", found[0]))
    ]
    names += [
        f"{name.replace('.', '/')}.py" for name in re.findall(r"-m (gtransformer(?:\.\w+)+)", text)
    ]
    names = [name for name in names if name not in recipe_names()]
    return [name for name in names if not (ROOT / name).exists() and not list(ROOT.glob(name))]


def broken_links(page: Path, text: str) -> list[str]:
    """Links to files that are not there, or to headings that their page does not have."""
    broken = []
    for link in LINK.findall(text):
        name, _, heading = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (heading and heading not in headings(target)):
            broken.append(link)
    return broken


def headings(page: Path) -> set[str]:
    """Their names in links."""
    lines = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in lines}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_is_there(page):
    text = page.read_text(encoding="utf-8")
    assert not missing(text) and not broken_links(page, text)


def test_pages_that_code_names_are_there():
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "gtransformer").rglob("*.py")]
    pages = {page for text in texts for page in re.findall(r"(?<![\w/.])docs/[\w-]+\.md", text)}
    assert pages and all((ROOT / page).exists() for page in pages)


def test_every_command_is_in_the_table_of_commands():
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert not [name for name in COMMANDS if f"`gtransformer {name}`" not in text]


def command_lines(page: Path) -> list[list[str]]:
    """The words of every command in the page's blocks for a shell; of a loop or a pipe, each
    command by itself.
    """
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```bash\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    parts = [
        part
        for line in lines
        for part in re.split(r"\s(?:\||&&|;)\s|; do |(?<=\S); (?=done)", line)
    ]
    return [words for part in parts if (words := shlex.split(part, comments=True))]


def parse_command(words: list[str]) -> None:
    """Read the options of a command of this package or of fairseq. SystemExit where they are
    wrong.
    """
    if words[0] == "gtransformer" and words[1:] not in (["--help"], ["lab", "--help"]):
        command, rest = find(words[1:])
        assert command, words
        if rest not in (["--help"], []):
            parse(command, rest)
    elif words[0] in FAIRSEQ:
        parser = FAIRSEQ[words[0]]()
        options.parse_args_and_arch(parser, words[1:])


def test_the_example_system(tmp_path, monkeypatch):
    """The page's code is the code that runs, but for blanks, as its lines have another length;
    fairseq-train takes the options of its recipe.
    """
    monkeypatch.chdir(ROOT)
    code = Path("docs/example_system/neighbours/__init__.py").read_text(encoding="utf-8")
    text = Path("docs/new_system.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(python|yaml)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    shown = ["".join(block.split()) for language, block in blocks if language == "python"]
    assert len(shown) >= 3 and all(block in "".join(code.split()) for block in shown)
    recipe = next(block for language, block in blocks if language == "yaml")
    (tmp_path / "mine.yaml").write_text(recipe)
    training = load_recipe(str(tmp_path / "mine.yaml")).training()
    import_user_dir(training["user-dir"])
    parse = options.parse_args_and_arch
    parse(options.get_training_parser(), ["data", *to_arguments(training)])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_on_a_page_can_be_read(page, monkeypatch):
    monkeypatch.chdir(ROOT)  # for --user-dir docs/example_system/neighbours
    for words in command_lines(page):
        words = words[
            : next((n for n, word in enumerate(words) if word in ("<", ">", ">>")), len(words))
        ]
        for variable, value in (("$split", "test"), ("$lang", "en")):  # of a loop
            words = [word.replace(variable, value) for word in words]
        if "..." in words or any("$" in word for word in words):
            continue
        monkeypatch.setattr(sys, "argv", words)  # where fairseq looks for --user-dir
        try:
            parse_command(words)
        except SystemExit as ended:
            assert not ended.code, (page.name, shlex.join(words))
