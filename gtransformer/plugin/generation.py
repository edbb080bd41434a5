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

from gtransformer.data.translations import split_sentences
from gtransformer.errors import UserError
from gtransformer.files import write_lines
from gtransformer.models.common.model import needs_of
from gtransformer.plugin.options import Options, option_of
from gtransformer.search.beam import Scoring
from gtransformer.search.generator import DocumentGenerator
from gtransformer.search.strategies import PARALLEL

logger = logging.getLogger(__name__)

# Options of fairseq-generate that this search does not have.
LACKING = """
    sampling_topp diverse_beam_groups diversity_rate no_repeat_ngram_size prefix_size constraints
    match_source_len lm_path retain_dropout print_alignment replace_unk
""".split()


def with_defaults(args: Any) -> Namespace:
    """Return fairseq's options of generation, with defaults for those that ``args`` lacks."""
    defaults = {field.name: field.default for field in fields(GenerationConfig)}
    return Namespace(**{name: getattr(args, name, value) for name, value in defaults.items()})


def check_generation(args: Any, models: Sequence[nn.Module], options: Options) -> None:
    """Raise UserError for options that this search would ignore, and for models that read target
    text which is not available during translation.
    """
    settings, defaults = with_defaults(args), with_defaults(None)
    for name in LACKING:
        if getattr(settings, name) not in (None, getattr(defaults, name)):
            raise UserError(f"{option_of(name)}: search in documents does not have it")
    if settings.sampling and settings.beam > 1:
        raise UserError("--sampling draws one translation of each document; give --beam 1")
    if settings.score_reference and any(
        getattr(model, "leaves_unpredicted_out", False) for model in models
    ):
        raise UserError("--score-reference: the model has not learned to predict <s>")
    for needs in () if settings.score_reference else map(needs_of, models):
        if needs.future:
            raise UserError(
                "the decoder reads the mean of the whole target, which is not available during "
                "translation; give --score-reference to score references"
            )
        if needs.targets and options.scheme.repeats_targets and options.cfg.first_pass is None:
            raise UserError(
                "the decoder reads the other sentences of its batch, and each needs first "
                "translations as its context; translate with a sentence model and --gen-output "
                "PREFIX, then give --first-pass PREFIX.jsonl"
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
    options, settings = task.options, with_defaults(args)
    keeps = needs_of(models[0]).last_sentence_only or any(map(options.keeps_sentences, models))
    scoring = Scoring(
        settings.beam,
        task.target_dictionary.unk(),
        settings.lenpen,
        settings.unkpen,
        settings.temperature,
        normalise=not settings.unnormalized,
        sampling=max(0, settings.sampling_topk) if settings.sampling else None,
        seed=task.cfg.doc_seed,
    )
    return DocumentGenerator(
        models,
        task.sides,
        scoring,
        keeps_sentences=keeps,
        min_len=settings.min_len,
        max_len_a=settings.max_len_a,
        max_len_b=settings.max_len_b,
        nbest=settings.nbest,
        parallel=options.strategy.kind == PARALLEL,
    )


class TranslationWriter:
    """A collector of hypotheses, in any order, that writes PREFIX.jsonl and PREFIX.seg.{gen,ref}
    when all have arrived.

    Args:
        task: a task translation_doc that has loaded one split, with ``--gen-output PREFIX``.
    """

    def __init__(self, task: FairseqTask):
        self.prefix, self.path = task.cfg.gen_output, Path(f"{task.cfg.gen_output}.jsonl")
        self.dictionary, self.skipped = task.target_dictionary, task.sides.no_text
        (dataset,) = task.datasets.values()
        self.spans = dataset.spans.tolist()
        self.lines: dict[int, str] = {}
        self.segments: dict[int, tuple[str, str]] = {}
        self.path.unlink(missing_ok=True)  # else an interrupted run would leave the old result

    def add(self, sample: dict, hypotheses: list[list[dict]], most: int) -> None:
        """Add fairseq's hypotheses of a batch, at most ``most`` of each instance; write the files
        if it is the last.
        """
        for row, (number, nbest) in enumerate(zip(sample["id"].tolist(), hypotheses, strict=True)):
            # So that gtransformer score can put sentences back into their documents.
            document, first, count, *current = self.spans[number]
            entries = []
            for hypothesis in nbest[:most]:
                tokens, score = hypothesis["tokens"].tolist(), float(hypothesis["score"])
                sentences = split_sentences(tokens, self.dictionary, self.skipped)
                entries.append({"score": round(score, 6), "sentences": sentences})
            instance = {
                "id": number,
                "document": document,
                "first_sentence": first,
                "sentences": count,
                "current": current,
                "hypotheses": entries,
            }
            self.lines[number] = json.dumps(instance, ensure_ascii=False)
            # As the release's files: subwords with <s> and </s>.
            if sample.get("target") is not None:
                texts = self._text(nbest[0]["tokens"]), self._text(sample["target"][row])
                self.segments[number] = texts
        # Batches arrive in any order, and fairseq does not tell which is the last.
        if len(self.lines) == len(self.spans):
            write_lines(self.path, [self.lines[number] for number in sorted(self.lines)])
            for side, kind in enumerate(("gen", "ref") if self.segments else ()):
                lines = [self.segments[number][side] for number in sorted(self.segments)]
                write_lines(f"{self.prefix}.seg.{kind}", lines)
            logger.info("wrote %d instances to %s", len(self.lines), self.path)

    def _text(self, tokens: Tensor) -> str:
        """Return an instance as subwords with ``<s>`` and ``</s>``."""
        return f"<s> {self.dictionary.string(tokens, extra_symbols_to_ignore=self.skipped)}"
