"""Contrastive items of the generated corpora: does a model prefer the right translation in its
document?

An item names a sentence of a split, its right translation and wrong ones, and how many sentences
back the deciding one is. It is solved if the right translation is more probable than every wrong
one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from gtransformer.data.batch_fields import FIRST_SENTENCE
from gtransformer.evaluation.accuracy import bucket_name, suite_report
from gtransformer.evaluation.contrastive import Capacity, capacity_of, score_items
from gtransformer.evaluation.sentence_scores import (
    Progress,
    Request,
    SentenceScorer,
    TokenLists,
    pad_rows,
    sentence_encoder,
)
from gtransformer.files import read_json
from gtransformer.plugin.load_model import load_model
from gtransformer.plugin.options import wants_document
from gtransformer.preprocess.corpus import raw_file, read_documents
from gtransformer.preprocess.suites import Item

BATCH = 16  # current sentences of a batch (Wu et al. 2023, 3.5)


def read_items(path: Path) -> list[Item]:
    """Return the items of a file; their documents are in the same folder, in the raw format.

    An item whose deciding sentence is not as far back on both sides has no distance. Its ``film``
    names the items that depend on each other.
    """
    data = read_json(path)
    pair = data["source_lang"], data["target_lang"]
    files = (raw_file(path.parent, pair, data["split"], lang) for lang in pair)
    documents = list(read_documents(*files))
    return [_item(entry, documents[entry["document"]]) for entry in data["items"]]


def _item(entry: dict[str, Any], document: Sequence[tuple[str, str]]) -> Item:
    source, target = zip(*document[: entry["sentence"] + 1], strict=True)
    before = tuple(target[:-1])
    # The deciding word may be in different sentences of the two languages.
    sides = {
        bucket_name(entry.get(side, entry["distance"]))
        for side in ("distance_source", "distance_target")
    }
    return Item(
        entry["id"],
        tuple(source),
        tuple((*before, text) for text in (entry["correct"], *entry["wrong"])),
        entry["phenomenon"],
        entry["distance"] if len(sides) == 1 else None,
        str(entry.get("group", entry["document"])),
    )


def measure(
    prepared: Path, checkpoint: Path, items: Path, cpu: bool, progress: Progress
) -> dict[str, Any]:
    """Return accuracy in total, by phenomenon and by distance, and every item's outcome.

    Each item is scored as the last sentence, after as much of its document as the model takes. A
    model that reads its batch also gets the previous sentences, at most ``BATCH`` in all.
    """
    model, task = load_model(prepared, checkpoint, cpu)
    kind = BatchScorer if wants_document(model) else SentenceScorer
    scorer = kind(model, task.source_dictionary, task.target_dictionary)
    langs = task.cfg.source_lang, task.cfg.target_lang
    encoders = [
        sentence_encoder(prepared, lang, words)
        for lang, words in zip(langs, (scorer.source, scorer.target), strict=True)
    ]
    capacity = capacity_of(task.options.scheme, prepared)
    if isinstance(scorer, BatchScorer):
        # It needs the whole document, and cuts instances out of it itself.
        scorer.capacity, capacity = capacity, Capacity()
    outcomes = score_items(scorer, read_items(items), *encoders, progress, capacity)
    return suite_report(outcomes) | {"items": [one.to_json() for one in outcomes]}


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
        # A row of the batch is the instance of one sentence, which ends with it.
        ends = range(max(0, length - together) + 1, length + 1)
        rows = [
            (_last(request.source, end, most), _last(request.target, end, most)) for end in ends
        ]
        sources = [self.layouts[0].document(source)[0] for source, _ in rows]
        targets = [self.layouts[1].target(target) for _, target in rows]
        device = next(self.model.parameters()).device
        lengths = torch.tensor([len(one) for one in sources], device=device)
        first_sentences = torch.tensor([max(0, end - most) + 1 for end in ends], device=device)
        states, extra = self.model(
            pad_rows(sources, self.source.pad(), device),
            lengths,
            pad_rows([read for read, _, _ in targets], self.target.pad(), device),
            **{FIRST_SENTENCE: first_sentences},
        )
        # Only the item itself is scored: the last sentence of the last row.
        log_probs = self.model.get_normalized_probs((states[-1:], extra), log_probs=True)[0]
        _, goal, spans = targets[-1]
        first, end = spans[-1]
        goal_tokens = torch.tensor(goal[first:end], device=device).unsqueeze(1)
        return [[log_probs[first:end].gather(1, goal_tokens).squeeze(1).double().cpu()]]


def _last(sentences: TokenLists, end: int, most: int) -> TokenLists:
    """Return at most ``most`` sentences before ``end``."""
    return sentences[max(0, end - most) : end]
