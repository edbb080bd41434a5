"""Where recipes and commands are: in a checkout, and where the package is installed without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from gtransformer import installation
from gtransformer.errors import UserError
from gtransformer.installation import checkout, config_directory, data_directory
from gtransformer.run.recipe import load_recipe, recipe_names
from tests.support import command

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def installed(tmp_path, monkeypatch) -> Path:
    """A package that was installed with a single recipe; the working directory is elsewhere."""
    configs = tmp_path / "gtransformer" / "configs"
    configs.mkdir(parents=True)
    (configs / "mine.yaml").write_text("description: the only one\n")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setattr(installation, "INSTALLED", configs)
    return configs


def test_a_checkout_is_where_recipes_and_runs_are():
    assert checkout() == ROOT and config_directory() == ROOT / "configs"


def test_an_installed_package_has_its_own_recipes_and_runs_where_one_stands(installed, monkeypatch):
    """Whatever else is called configs beside the installed packages."""
    (installed.parents[1] / "configs").mkdir()
    (installed.parents[1] / "configs" / "base.yaml").write_text("of another package")
    assert checkout() is None and config_directory() == installed
    monkeypatch.delenv("DATA", raising=False)
    assert data_directory() == installed.parents[1] / "elsewhere" / "data"
    assert recipe_names() == ["mine"] and load_recipe("mine").description == "the only one"
    with pytest.raises(UserError):
        load_recipe("base")


def test_help_lists_installed_recipes(installed, capsys):
    with pytest.raises(SystemExit) as ended:
        command("run")(["--what"])
    assert ended.value.code == 2 and "\ngtransformer run: error: " in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command("run")(["--help"])
    said = capsys.readouterr().out
    assert (
        said.startswith("usage: gtransformer run ")
        and "  mine " in said
        and "the only one\n" in said
    )
