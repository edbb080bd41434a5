"""The contrastive items of a study, read before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from gtransformer.data.languages import plain_language
from gtransformer.errors import UserError
from gtransformer.evaluation.suite_files import CONTRAPRO, Suite, read_suite
from gtransformer.files import read_json, sha256
from gtransformer.lab.items.items import is_own_set, kinds_of, read_items
from gtransformer.lab.studies.data import Corpora
from gtransformer.lab.studies.one_run import ORDER
from gtransformer.lab.studies.study import ACCURACY, Study
from gtransformer.run.recipe import Recipe


def content(items: Sequence[Path]) -> list[str]:
    """Return the SHA-256 of the files of contrastive items, some of which may be folders."""
    files = [file for path in items for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    return [sha256(file) for file in files if file.is_file()]


@dataclass(frozen=True)
class Questions:
    """Options of a study's ``gtransformer contrastive``.

    Attributes:
        items: the files of ``--items``; if empty, the generated corpus may have some.
        documents: documents with ContraPro's context, if that is not in its file.
        context: most previous sentences of ContraPro's items; None: as many as each system has.
    """

    items: tuple[Path, ...] = ()
    documents: Path | None = None
    context: int | None = None

    @cached_property
    def suite(self) -> Suite | None:
        """The published suite; None for a set over a prepared corpus. Raises UserError if it cannot be read."""
        if len(self.items) == 1 and is_own_set(self.items[0]):
            return None
        return read_suite(self.items, self.context, self.documents)

    @property
    def kinds(self) -> set[str]:
        """The items' kinds of groups. Raises UserError if they cannot be read."""
        if self.suite is not None:
            return {kind for example in self.suite.examples for kind in example.groups}
        _, items = read_items(self.items[0])
        return set(kinds_of(items))

    def check(self, study: Study, corpora: Corpora) -> None:
        """Raise UserError for items that do not fit the corpus or the study."""
        given = [f"--{key}" for key in ("documents", "context") if getattr(self, key) is not None]
        own_suite = bool(self.items) and self.suite is None
        if given and (not self.items or own_suite):
            raise UserError(f"{' and '.join(given)}: only for ContraPro; give its items with --items, or leave it out")
        if (self.context or 0) < 0:
            raise UserError(f"--context {self.context}: give a number of sentences, 0 or more")
        panels = [panel for panel in study.panels if ACCURACY in (panel.kind, panel.quantity)]
        about = [*(panel.title for panel in panels), *(one.label for one in study.lines if not one.runs[0].translate)]
        if about and not corpora.items:
            raise UserError(
                f"{study.figure}: '{about[0]}' is only about contrastive items; give some with --items FILE"
            )
        if not self.items:
            return
        langs = tuple(plain_language(lang) for lang in corpora.pair)
        if self.suite is not None and langs != self.suite.langs:
            theirs = "-".join(self.suite.langs)
            raise UserError(f"{self.items[0]}: {self.suite.name} is {theirs}, the recipes are for {'-'.join(langs)}")
        for panel in panels:
            if panel.kind == ACCURACY and panel.by not in self.kinds:
                raise UserError(
                    f"{self.items[0]}: the items have no {panel.by}, by which '{panel.title}' groups them, "
                    f"but {', '.join(sorted(self.kinds))}; give items that have it"
                )

    def options(self, recipe: Recipe) -> dict[str, Any]:
        """Return further options for a recipe's model: ContraPro's context and its documents."""
        if not self.items or self.suite is None or self.suite.name != CONTRAPRO:
            return {}
        own = recipe.sections["task"].get("context-sentences")
        context = own if self.context is None else self.context
        found = {"documents": None if self.documents is None else str(self.documents.absolute()), "context": context}
        return {name: value for name, value in found.items() if value is not None}

    def check_contrastive(self, folder: Path, recipe: Recipe, items: Sequence[Path]) -> None:
        """Raise UserError for a finished run of a recipe that was scored on other items, or with another context.

        ``items``: the files, given or generated. Earlier versions recorded only the names of their files.
        """
        order = read_json(folder / ORDER)
        before = order.get("contrastive") if items else None
        if before is None:
            return
        if order.get("items_sha256", found := content(items)) != found:
            raise UserError(f"{folder}: was scored with other items of this name before; give these, or another OUTPUT")
        if not self.items:
            return
        files, context = [Path(one).name for one in before["items"]], before.get("context")
        wanted = self.options(recipe).get("context")
        if context is None and self.context is None:  # written by an earlier version: all context of the items
            wanted = None
        if (files, context) != ([path.name for path in self.items], wanted):
            given = f"{' '.join(files)}{'' if context is None else f' --context {context}'}"
            raise UserError(f"{folder}: was scored with --items {given} before; give the same, or another OUTPUT")
