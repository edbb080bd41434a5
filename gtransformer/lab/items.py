"""Contrastive items of the generated corpora: does a model prefer the right translation in its
document?

An item names a sentence of a split, its right translation and wrong ones, and how many sentences
back the deciding one is. It is solved if the right translation is more probable than every wrong
one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from gtransformer.data.batch_fields import DOCUMENT_INDEX, FIRST_SENTENCE
from gtransformer.evaluation.accuracy import accuracy, bucket_name, is_solved
from gtransformer.evaluation.accuracy import report as accuracy_report
from gtransformer.evaluation.instances import Capacity, capacity_of
from gtransformer.evaluation.load_model import load_model, sentence_encoder
from gtransformer.evaluation.sentence_scores import (
    Progress,
    Request,
    SentenceScorer,
    TokenLists,
    pad_rows,
)
from gtransformer.evaluation.suite_files import Example
from gtransformer.evaluation.suites import ExampleScores, score_examples
from gtransformer.files import read_json
from gtransformer.preprocess.corpus import raw_file, read_documents
from gtransformer.tasks.options import BATCH, wants_document


def read_items(path: Path) -> list[Example]:
    """Return the items of a file as examples; their documents lie beside it, in the raw format.

    The groups are what the report counts by: the phenomenon, the distance to the deciding sentence
    (None if it is not the same on both sides) and, as ``document``, the items that depend on each
    other.
    """
    data = read_json(path)
    pair = data["source_lang"], data["target_lang"]
    files = (raw_file(path.parent, pair, data["split"], lang) for lang in pair)
    documents = list(read_documents(*files))
    return [_example(item, documents[item["document"]]) for item in data["items"]]


def _example(item: dict[str, Any], document: Sequence[tuple[str, str]]) -> Example:
    source, target = zip(*document[: item["sentence"] + 1], strict=True)
    before = tuple(target[:-1])
    candidates = tuple((*before, text) for text in (item["correct"], *item["wrong"]))
    sides = {
        bucket_name(item.get(side, item["distance"]))
        for side in ("distance_source", "distance_target")
    }
    groups = {
        "phenomenon": item["phenomenon"],
        "distance": item["distance"] if len(sides) == 1 else None,
        "document": str(item.get("group", item["document"])),
    }
    return Example(item["id"], tuple(source), candidates, 0, False, groups)


def score_items(
    prepared: Path, checkpoint: Path, items: Path, cpu: bool, progress: Progress
) -> dict[str, Any]:
    """Return accuracy in total, by phenomenon and by distance, and every item's scores.

    Each item is scored as the last sentence, after as much of its document as the model takes. A
    model that reads its batch also gets the previous sentences, at most ``BATCH`` in all.
    """
    model, task = load_model(prepared, checkpoint, cpu)
    kind = BatchScorer if wants_document(model) else SentenceScorer
    scorer = kind(model, task.source_dictionary, task.target_dictionary)
    langs = task.cfg.source_lang, task.cfg.target_lang
    encoders = [
        sentence_encoder(prepared, lang, dictionary)
        for lang, dictionary in zip(langs, (scorer.source, scorer.target), strict=True)
    ]
    examples, capacity = read_items(items), capacity_of(task, prepared)
    if isinstance(scorer, BatchScorer):
        scorer.capacity, capacity = capacity, Capacity()
    scores = score_examples(scorer, examples, *encoders, progress, capacity)
    scores = [replace(one, group=one.example.groups["document"]) for one in scores]
    kinds = {
        name: lambda one, name=name: one.example.groups[name] for name in ("phenomenon", "distance")
    }
    found = accuracy_report(scores, accuracy, "phenomenon", kinds, ["distance"])
    return found | {"items": [_shown(one) for one in scores]}


def _shown(one: ExampleScores) -> dict[str, Any]:
    return {"id": one.example.id, "scores": list(one.scores), "solved": is_solved(one)}


class BatchScorer(SentenceScorer):
    """Scorer for models that read the other sentences of their batch.

    A request has a whole document so far. Its last sentences, at most ``BATCH``, are one batch,
    each with its local context; the last of them is scored. ``capacity``: of an instance.
    """

    capacity = Capacity()

    def batches(self, requests: Sequence[Request]):
        """Yield every request by itself: it is a batch."""
        return ([number] for number in range(len(requests)))

    @torch.no_grad()
    def _score_batch(self, requests: Sequence[Request]) -> list[list[torch.Tensor]]:
        (request,) = requests
        length, most = len(request.target), self.capacity.sentences or 1
        together = BATCH if self.model.needs.batch else 1
        ends = range(max(0, length - together) + 1, length + 1)
        rows = [
            (_last(request.source, end, most), _last(request.target, end, most)) for end in ends
        ]
        sources = [self.layouts[0].source(source) for source, _ in rows]
        targets = [self.layouts[1].target(target) for _, target in rows]
        device = next(self.model.parameters()).device
        states, extra = self.model(
            pad_rows(sources, self.source.pad(), device),
            torch.tensor([len(one) for one in sources], device=device),
            pad_rows([read for read, _, _ in targets], self.target.pad(), device),
            **{
                FIRST_SENTENCE: torch.tensor(
                    [max(0, end - most) + 1 for end in ends], device=device
                ),
                DOCUMENT_INDEX: torch.zeros(len(rows), dtype=torch.long, device=device),
            },
        )
        log_probs = self.model.get_normalized_probs((states[-1:], extra), log_probs=True)[0]
        _, goal, spans = targets[-1]
        first, end = spans[-1]
        wanted = torch.tensor(goal[first:end], device=device).unsqueeze(1)
        return [[log_probs[first:end].gather(1, wanted).squeeze(1).double().cpu()]]


def _last(sentences: TokenLists, end: int, most: int) -> TokenLists:
    """Return at most ``most`` sentences before ``end``."""
    return sentences[max(0, end - most) : end]
