"""The generator for documents, checks of its options, and the file of translations."""

from __future__ import annotations

import json
import logging
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from fairseq.dataclass.configs import GenerationConfig
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from gtransformer.data.group_tags import tag_of_newest
from gtransformer.data.instances import STORED, InstanceScheme
from gtransformer.data.translations import split_sentences
from gtransformer.errors import UserError
from gtransformer.models.common.model import needs_of
from gtransformer.plugin.options import Options, option_of
from gtransformer.plugin.scores import write_lines
from gtransformer.plugin.sentences import SentenceSpan
from gtransformer.search.beam import Scoring
from gtransformer.search.generator import DocumentGenerator
from gtransformer.search.strategies import PARALLEL

logger = logging.getLogger(__name__)

# Options of fairseq-generate that this search does not have.
LACKING = """
    sampling_topp diverse_beam_groups diversity_rate no_repeat_ngram_size prefix_size constraints
    match_source_len
    lm_path retain_dropout print_alignment replace_unk
""".split()


def with_defaults(args: Any) -> Namespace:
    """Return fairseq's options of generation, with defaults for those that ``args`` lacks."""
    return Namespace(
        **{
            field.name: getattr(args, field.name, field.default)
            for field in fields(GenerationConfig)
        }
    )


def check_generation(args: Any, models: Sequence[nn.Module], options: Options) -> None:
    """Raise UserError for options of generation that this search would ignore, and for models that
    lack them.
    """
    given, usual = with_defaults(args), with_defaults(None)
    for name in LACKING:
        if getattr(given, name) not in (None, getattr(usual, name)):
            raise UserError(
                f"{option_of(name)}: search in documents does not have it; leave it out"
            )
    if given.sampling_topk > 0 and not given.sampling:
        raise UserError("--sampling-topk is for --sampling; give that, too")
    if given.sampling and given.beam > 1:
        raise UserError("--sampling draws one translation of each document; give --beam 1")
    if given.score_reference and any(
        getattr(model, "leaves_unpredicted_out", False) for model in models
    ):
        raise UserError(
            "--score-reference: the model has not learned to predict the <s> between sentences "
            "(--marks-loss off); "
            "leave it out"
        )
    last_alone = {needs_of(model).last_sentence_only for model in models}
    if len(last_alone) > 1 or (True in last_alone and options.has_strategy):
        raise UserError(
            "a model that translates one sentence after its source context has no --strategy, and "
            "forms no ensemble "
            "with models of documents"
        )


def check_decodable(models: Sequence[nn.Module], scheme: InstanceScheme, ready: bool) -> None:
    """Raise UserError for a model that reads target text which is not available during translation.

    ``ready``: the context of the translated sentences is available.
    """
    needs = list(map(needs_of, models))
    if any(one.future for one in needs):
        raise UserError(
            "the decoder reads the mean of the whole target, which is not available during "
            "translation; give "
            "--score-reference to score references, or train with --batch-attention-in encoder"
        )
    if scheme.repeats_targets and not ready and any(one.targets for one in needs):
        raise UserError(
            "the decoder reads the other sentences of its batch, and each needs first translations "
            "as its context; "
            "give --first-pass CHECKPOINT of a sentence model, or its translations"
        )


def check_alone(model: nn.Module, work: str) -> None:
    """Raise UserError for a model that reads its batch, if instances are not batches of a
    document.
    """
    if needs_of(model).batch:
        raise UserError(
            f"{work}: the model reads consecutive sentences of a document as one batch; translate "
            "and score a prepared "
            "corpus with fairseq-generate instead"
        )


def task_generator(
    task: FairseqTask, models: Sequence[nn.Module], args: Namespace
) -> DocumentGenerator:
    """Return the generator for documents.

    An ensemble obeys the sentence rule if one of its members needs it, in any order.

    Args:
        task: a task translation_doc.
        args: options of generation.
    """
    options, given = task.options, with_defaults(args)
    keeps = needs_of(models[0]).last_sentence_only or any(map(options.keeps_sentences, models))
    scoring = Scoring(
        given.beam,
        task.target_dictionary.unk(),
        given.lenpen,
        given.unkpen,
        given.temperature,
        normalise=not given.unnormalized,
        sampling=max(0, given.sampling_topk) if given.sampling else None,
        seed=task.cfg.doc_seed,
    )
    return DocumentGenerator(
        models,
        task.sides,
        scoring,
        keeps_sentences=keeps,
        min_len=given.min_len,
        max_len_a=given.max_len_a,
        max_len_b=given.max_len_b,
        nbest=given.nbest,
        parallel=options.strategy.kind == PARALLEL,
    )


class TranslationWriter:
    """A collector of hypotheses, in any order, that writes PREFIX.jsonl and PREFIX.seg.{gen,ref}
    when all have arrived.

    Args:
        task: a task translation_doc that has loaded the split, with ``--gen-output PREFIX``.

    Raises UserError for several splits, and for instances that cannot be put back into documents.
    """

    def __init__(self, task: FairseqTask):
        self.prefix, self.path = task.cfg.gen_output, Path(f"{task.cfg.gen_output}.jsonl")
        self.dictionary, self.skipped = task.target_dictionary, task.sides.no_text
        if len(task.datasets) != 1:
            raise UserError(
                f"--gen-output {self.prefix}: is for one split at a time; name it with --gen-subset"
            )
        (dataset,) = task.datasets.values()
        self.instances, self.spans = len(dataset), dataset.spans()
        if self.spans is None and task.options.scheme.kind != STORED:
            raise UserError(
                f"--gen-output {self.prefix}: translations of --instances "
                f"{task.options.scheme.kind} cannot be put "
                "back where several sets are combined; translate one set at a time"
            )
        self.lines: dict[int, dict] = {}
        self.segments: dict[int, tuple[str, str]] = {}
        self.path.unlink(missing_ok=True)  # else an interrupted run would leave the old result

    def add(self, sample: dict, hypotheses: list[list[dict]], most: int) -> None:
        """Add fairseq's hypotheses of a batch, at most ``most`` of each instance; write the files
        if it is the last.
        """
        counts = tag_of_newest(sample["net_input"]["src_tokens"], self.dictionary.bos()).tolist()
        for row, (number, nbest) in enumerate(zip(sample["id"].tolist(), hypotheses, strict=True)):
            span = (
                SentenceSpan(number, 0, counts[row]) if self.spans is None else self.spans[number]
            )
            self.lines[number] = {
                "id": number,
                "document": span.document,
                "first_sentence": span.first_sentence,
                "sentences": span.sentences,
                **({} if span.current is None else {"current": list(span.current)}),
                "hypotheses": [self._entry(hypothesis) for hypothesis in nbest[:most]],
            }
            if sample.get("target") is not None:
                self.segments[number] = (
                    self._text(nbest[0]["tokens"]),
                    self._text(sample["target"][row]),
                )
        if len(self.lines) == self.instances:
            self._write()

    def _entry(self, hypothesis: dict) -> dict:
        sentences = split_sentences(hypothesis["tokens"].tolist(), self.dictionary, self.skipped)
        return {"score": round(float(hypothesis["score"]), 6), "sentences": sentences}

    def _text(self, tokens: Tensor) -> str:
        """Return an instance as subwords with ``<s>`` and ``</s>``."""
        return f"<s> {self.dictionary.string(tokens, extra_symbols_to_ignore=self.skipped)}"

    def _write(self) -> None:
        """Write all lines in order, atomically."""
        write_lines(
            self.path,
            [json.dumps(self.lines[number], ensure_ascii=False) for number in sorted(self.lines)],
        )
        for side, kind in enumerate(("gen", "ref") if self.segments else ()):
            write_lines(
                f"{self.prefix}.seg.{kind}",
                [self.segments[number][side] for number in sorted(self.segments)],
            )
        logger.info("wrote %d instances to %s", len(self.lines), self.path)
