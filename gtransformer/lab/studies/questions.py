"""The contrastive items that a study asks its models about, read before anything runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.evaluation.accuracy import SIDES
from gtransformer.evaluation.contrastive import read_items
from gtransformer.evaluation.suite_files import CONTRAPRO, Suite, is_own_suite, read_suite
from gtransformer.files import read_json
from gtransformer.lab.studies.data import Corpora
from gtransformer.lab.studies.one_run import ORDER
from gtransformer.lab.studies.study import ACCURACY, Study
from gtransformer.run.recipe import Recipe


@dataclass(frozen=True)
class Questions:
    """How ``gtransformer contrastive`` is called.

    Attributes:
        items: the files of ``--items``; none: the generated corpus may have some.
        documents: those that ContraPro's context is taken from, if it is not in its file.
        context: previous sentences of ContraPro's items, at most; None: as many as each system has.
    """

    items: tuple[Path, ...] = ()
    documents: Path | None = None
    context: int | None = None

    @cached_property
    def suite(self) -> Suite | None:
        """The published suite; None for a set over a prepared corpus. UserError where it cannot be read."""
        if len(self.items) == 1 and is_own_suite(self.items[0]):
            return None
        return read_suite(self.items, self.context, self.documents)

    @property
    def kinds(self) -> set[str]:
        """What the items are told apart by. UserError where they cannot be read."""
        if self.suite is not None:
            return {kind for example in self.suite.examples for kind in example.groups}
        _, items = read_items(self.items[0])
        sides = all(getattr(item, side) is not None for item in items for side in SIDES)
        return {"phenomenon", "distance", *(SIDES if sides else ())}

    def check(self, study: Study, corpora: Corpora) -> None:
        """Raise UserError for items that models of a corpus cannot be asked about, or not as the study wants."""
        given = [f"--{key}" for key in ("documents", "context") if getattr(self, key) is not None]
        own_suite = bool(self.items) and self.suite is None
        if given and (not self.items or own_suite):
            raise UserError(f"{' and '.join(given)}: for ContraPro's items; give these with --items, or leave it out")
        if (self.context or 0) < 0:
            raise UserError(f"--context {self.context}: a number of sentences is expected, 0 or more")
        panels = [panel for panel in study.panels if panel.kind == ACCURACY]
        about = [*(panel.title for panel in panels), *(one.label for one in study.lines if not one.runs[0].translate)]
        if about and not corpora.items:
            raise UserError(
                f"{study.figure}: '{about[0]}' is about contrastive items alone; give some with --items FILE"
            )
        if not self.items:
            return
        langs = tuple(lang.partition("_")[0] for lang in corpora.pair)
        if self.suite is not None and langs != self.suite.langs:
            theirs = "-".join(self.suite.langs)
            raise UserError(f"{self.items[0]}: {self.suite.name} is {theirs}, the recipes are for {'-'.join(langs)}")
        for panel in panels:
            if panel.by not in self.kinds:
                raise UserError(
                    f"{self.items[0]}: the items do not say their {panel.by}, by which '{panel.title}' tells them "
                    f"apart, but {', '.join(sorted(self.kinds))}; give items that do"
                )

    def options(self, recipe: Recipe) -> dict[str, Any]:
        """Return what a recipe's model is asked with besides: ContraPro's context, and where it is taken from."""
        if not self.items or self.suite is None or self.suite.name != CONTRAPRO:
            return {}
        own = recipe.sections["task"].get("context-sentences")
        context = own if self.context is None else self.context
        found = {"documents": None if self.documents is None else str(self.documents.absolute()), "context": context}
        return {name: value for name, value in found.items() if value is not None}

    def check_contrastive(self, folder: Path, recipe: Recipe) -> None:
        """Raise UserError for a finished run of a recipe that was asked about other items, or in another context."""
        before = read_json(folder / ORDER).get("contrastive") if self.items else None
        if before is None:
            return
        files, context = [Path(one).name for one in before["items"]], before.get("context")
        wanted = self.options(recipe).get("context")
        if context is None and self.context is None:  # noted by an earlier version: all that the items hold
            wanted = None
        if (files, context) != ([path.name for path in self.items], wanted):
            given = f"{' '.join(files)}{'' if context is None else f' --context {context}'}"
            raise UserError(f"{folder}: was asked with --items {given} before; give the same, or another OUTPUT")
