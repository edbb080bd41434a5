"""The task: translate documents whose sentences carry group tags."""

from __future__ import annotations

import json
import logging
from argparse import Namespace
from functools import cached_property

import numpy as np
import torch
from fairseq import utils
from fairseq.data import Dictionary
from fairseq.data.encoders import build_tokenizer
from fairseq.tasks import FairseqTask, register_task
from fairseq.tasks.translation import TranslationTask

# Registered with fairseq, too:
import gtransformer.plugin.criterion
import gtransformer.plugin.models
import gtransformer.plugin.optimizers  # noqa: F401
from gtransformer.data.batch_fields import counted
from gtransformer.data.sentences import RunDataset, SideSentences
from gtransformer.data.sides import Sides
from gtransformer.errors import UserError
from gtransformer.models.common.model import needs_of, prefix_of
from gtransformer.plugin.compiling import Compiling
from gtransformer.plugin.config import TranslationDocConfig
from gtransformer.plugin.document_dataset import DocumentPairDataset
from gtransformer.plugin.finetuning import prepare_finetuning, whole_config
from gtransformer.plugin.first_pass import read_first_pass
from gtransformer.plugin.generation import TranslationWriter, check_generation, task_generator
from gtransformer.plugin.loading import load_split
from gtransformer.plugin.options import Options, check_languages
from gtransformer.plugin.scores import DocumentDictionary, DocumentScorer, score_documents
from gtransformer.plugin.sentence_start import start_from_sentence_model
from gtransformer.plugin.validation import sentence_bleu
from gtransformer.search.sequential import SecondPass, SequentialGenerator

logger = logging.getLogger(__name__)


@register_task("translation_doc", dataclass=TranslationDocConfig)
class TranslationDocTask(TranslationTask):
    """Document-level translation: data, word dropout, constrained generation and validation BLEU.

    Its options extend those of fairseq's task ``translation``. Instances are ``<s> a b </s> <s> c
    </s>`` on both sides. The decoder's output ends in the language symbol. Language symbols and
    ``<mask>`` are appended to dictionaries that lack them.
    """

    cfg: TranslationDocConfig

    def __init__(self, cfg: TranslationDocConfig, src_dict: Dictionary, tgt_dict: Dictionary):
        super().__init__(cfg, src_dict, tgt_dict)
        self.options = Options(cfg)
        pair = cfg.source_lang, cfg.target_lang
        self.langs = [lang.strip() for lang in (cfg.langs or ",".join(pair)).split(",")]
        self.sides = Sides(src_dict, tgt_dict, pair, self.langs)
        self.language = self.sides.language
        # Most tokens that the task and all models built so far accept.
        self.longest: tuple[int, int] | None = None
        self.writer: TranslationWriter | None = None
        self.compiling: Compiling | None = None  # of a training
        self.numbered = False  # whether a model built so far reads the numbers of sentences
        self.left_out: list[int] = []  # target symbols that do not count in the loss of the model

    @classmethod
    def setup_task(cls, cfg: TranslationDocConfig, **kwargs) -> TranslationDocTask:
        """Load the dictionaries of ``cfg.data``; infer the languages if both are missing."""
        # fairseq would also infer the one that is given.
        if (cfg.source_lang is None) != (cfg.target_lang is None):
            raise UserError("--source-lang and --target-lang: give both, or none to infer both")
        return super().setup_task(cfg, **kwargs)

    @classmethod
    def load_dictionary(cls, filename: str) -> Dictionary:
        """Load a dictionary whose text shows where sentences begin and end."""
        return DocumentDictionary.load(filename)

    @cached_property
    def detokeniser(self):
        """What ``--eval-bleu-detok`` names, in the languages of the task."""
        languages = {"source_lang": self.cfg.source_lang, "target_lang": self.cfg.target_lang}
        languages |= json.loads(self.cfg.eval_bleu_detok_args or "{}")
        return build_tokenizer(Namespace(tokenizer=self.cfg.eval_bleu_detok, **languages))

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs) -> None:
        """Load ``{split}.{source}-{target}.*`` of the data directory; for training, of the epoch's
        shard.

        fairseq-generate and -validate give ``task_cfg``: to them, the training set is like any
        other.
        """
        training = split == self.cfg.train_subset and "task_cfg" not in kwargs
        loaded = self.options, self.sides, split, epoch, combine, training
        self.datasets[split] = load_split(
            *loaded, numbered=self.numbered, unpredicted=self.left_out
        )

    def get_batch_iterator(
        self, dataset, max_tokens=None, max_sentences=None, max_positions=None, *more, **options
    ):
        """Return fairseq's iterator over batches, with two corrections.

        fairseq's trainer leaves out instances of more than ``--max-tokens``; here each of them is a
        batch. Instances are left out only if the model has too few positions: sinusoidal positions
        have no limit, whatever the checkpoint's ``--max-source-positions``.
        """
        if together := self.options.sentences_together:
            max_tokens, max_sentences = None, together
        if max_positions is not None:
            max_positions = self.longest or max_positions
        limits = max_tokens, max_sentences, max_positions
        if options.get("update_epoch_batch_itr") or options.get("disable_iterator_cache"):
            # Batches are made anew in every epoch; the latter is so for sharded data.
            dataset.seed = options.get("seed", 1) + options.get("epoch", 1)
        iterator = super().get_batch_iterator(dataset, *limits, *more, **options)
        training = dataset is self.datasets.get(self.cfg.train_subset)
        if self.compiling and training and dataset.packer is None:
            batches = iterator.frozen_batches
            dataset.packer = self.compiling.packer(dataset, batches, max_tokens)
        return iterator

    def filter_indices_by_size(self, indices, *more):
        """Return the indices of instances that are not too long.

        Documents that are decoded window by window are never too long: their windows are checked
        later.
        """
        if self.options.whole_documents:
            return indices
        return super().filter_indices_by_size(indices, *more)

    def build_dataset_for_inference(
        self, src_tokens, src_lengths, constraints=None
    ) -> DocumentPairDataset:
        """Return a dataset of typed or piped lines (fairseq-interactive), each an instance ``<s>
        words </s> <s> words </s>``, whatever ``--instances`` says.

        Raises UserError for a line that does not begin with ``<s>``.
        """
        stored = torch.cat(src_tokens).numpy()
        side = SideSentences(stored, np.array(src_lengths), self.src_dict, "the input")
        source = RunDataset(side, side.stored_ranges())
        return DocumentPairDataset(source, None, self.src_dict, self.tgt_dict, self.language)

    def build_model(self, cfg, from_checkpoint: bool = False):
        """Build the model and, for ``--eval-bleu``, the generator; prepare resuming and
        fine-tuning.

        ``from_checkpoint``: fairseq loads a trained model. Raises UserError for a precision that
        cannot be trained in, and for instances that the model does not support.
        """
        whole = whole_config(cfg)
        if from_checkpoint and whole is not None:
            check_languages(whole.task, self.cfg)
        if not from_checkpoint:
            self.options.check_training(cfg, whole)
            start_from_sentence_model(cfg, whole, self)
        model = FairseqTask.build_model(self, cfg, from_checkpoint)
        self.sides.prefix = prefix_of(model, self.tgt_dict)
        self.numbered |= needs_of(model).numbers
        self.left_out = []
        if getattr(model, "leaves_unpredicted_out", False):
            self.left_out = self.sides.unpredicted
        sides = model.encoder.positions(), model.decoder.positions()
        self.longest = utils.resolve_max_positions(self.longest, self.max_positions(), sides)
        if not from_checkpoint:
            self.options.check_model(model, training=True)
            prepare_finetuning(model, self.cfg, whole, (self.src_dict, self.tgt_dict))
            if whole is not None:
                self.compiling = Compiling(str(self.cfg.compile), model, whole)
        if self.cfg.eval_bleu:
            search = {"max_len_a": 1.2, "max_len_b": 10, **json.loads(self.cfg.eval_bleu_args)}
            self.sequence_generator = self.build_generator([model], Namespace(**search))
        return model

    def build_generator(self, models, args, **unused):
        """Return a generator for documents; ``--sentence-rule`` decides whether it keeps the number
        of sentences.

        Warn if instances overlap: the score that fairseq-generate prints at the end is then not the
        corpus's.
        """
        check_generation(args, models, self.options)
        score_documents(args, self.cfg.doc_mode != "full", self.cfg.gen_output)
        for model in models:
            # Without data sets, the caller gives instances in the form that is needed.
            if self.datasets or not needs_of(model).last_sentence_only:
                self.options.check_model(model)
        if getattr(args, "score_reference", False):
            return super().build_generator(models, args)
        generator = task_generator(self, models, args)
        if self.cfg.first_pass is not None:
            return SecondPass(generator, read_first_pass(self))
        if any(needs_of(model).targets for model in models):
            return SecondPass(generator, None)
        if self.options.by_window:
            return SequentialGenerator(generator, self.options.strategy)
        if self.datasets and self.options.scheme.repeats_targets:
            logger.warning(
                "instances overlap (--instances %s): the BLEU at the end counts sentences several "
                "times; score with --gen-output PREFIX and gtransformer score instead",
                self.cfg.instances,
            )
        return generator

    def inference_step(self, generator, models, sample, **more):
        """Generate translations of a batch; with ``--gen-output`` also store them for the file."""
        hypos = super().inference_step(generator, models, sample, **more)
        if self.datasets and not models[0].training:
            if self.cfg.gen_output:
                self.writer = self.writer or TranslationWriter(self)
                self.writer.add(sample, hypos, getattr(generator, "nbest", 1))
            DocumentScorer.numbers += sample["id"].tolist()
        return hypos

    def train_step(self, sample, *more, **options):
        """Make fairseq's training step on the targets that count in the loss."""
        return super().train_step(counted(sample), *more, **options)

    def valid_step(self, sample, *more):
        """Compute the loss, and BLEU counts with ``--eval-bleu``.

        An empty batch, which fairseq-validate gives to one of several processes, has none.
        """
        if not sample:
            return 0.0, 0, {}
        # A dummy batch, which fairseq takes from a compiled training, has no target.
        whole = {"whole_target": sample.get("target")}
        return super().valid_step(counted(sample) | whole, *more)

    def _inference_with_bleu(self, generator, sample, model):
        """Return BLEU of a batch; fairseq sums the counts and logs ``bleu``."""
        generated = generator.generate([model], sample, prefix_tokens=None)
        if model.decoder.copies is not None:  # weights will change, and training needs the memory
            model.decoder.hold_weights()
        return sentence_bleu(self, generated, sample["whole_target"])
