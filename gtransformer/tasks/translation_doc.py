"""The task: translate documents whose sentences carry group tags."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from pathlib import Path

import torch
from fairseq import utils
from fairseq.data import Dictionary
from fairseq.logging import metrics
from fairseq.tasks import FairseqTask, register_task
from omegaconf import OmegaConf
from torch import Tensor

from gtransformer.data.batch_fields import without_context_loss, without_unpredicted
from gtransformer.data.group_tags import tag_of_newest
from gtransformer.data.instances import STORED
from gtransformer.data.sides import Sides
from gtransformer.data.translations import split_sentences
from gtransformer.errors import UserError
from gtransformer.models.common.model import needs_of, prefix_of
from gtransformer.plugin.document_dataset import DocumentPairDataset
from gtransformer.plugin.entropy import measured
from gtransformer.search.generator import as_read
from gtransformer.search.positions import available
from gtransformer.search.sequential import SecondPass, SequentialGenerator
from gtransformer.tasks.batches import batch_iterator
from gtransformer.tasks.config import TranslationDocConfig
from gtransformer.tasks.finetuning import add_hours_of_start, prepare_finetuning, whole_config
from gtransformer.tasks.first_pass import open_first_pass
from gtransformer.tasks.generation import (
    TranslationWriter,
    check_alone,
    check_decodable,
    check_generation,
    check_models,
    task_generator,
)
from gtransformer.tasks.loading import (
    Loader,
    languages_of,
    set_ratio,
)
from gtransformer.tasks.options import Options
from gtransformer.tasks.scores import DocumentDictionary, DocumentScorer, score_documents
from gtransformer.tasks.sentence_start import start_from_sentence_model
from gtransformer.tasks.validation import ENTROPY, BleuValidation, generator_options, log_bleu, log_entropy

logger = logging.getLogger(__name__)

GPU_PEAK = "gpu_peak_gib"  # in fairseq's log, with a GPU: the largest memory of tensors in any step


@register_task("translation_doc", dataclass=TranslationDocConfig)
class TranslationDocTask(FairseqTask):
    """Document-level translation: data, word dropout, constrained generation and validation BLEU.

    Its options extend those of fairseq's task ``translation``. Instances are ``<s> a b </s> <s> c </s>`` on both sides.
    The decoder's output ends in the language symbol. Language symbols and ``<mask>`` are appended to dictionaries that
    lack them.
    """

    cfg: TranslationDocConfig

    def __init__(self, cfg: TranslationDocConfig, src_dict: Dictionary, tgt_dict: Dictionary):
        super().__init__(cfg)
        self.options = Options(cfg)
        self.src_dict, self.tgt_dict = src_dict, tgt_dict
        self.langs = [lang.strip() for lang in (cfg.langs or f"{cfg.source_lang},{cfg.target_lang}").split(",")]
        self.sides = Sides(src_dict, tgt_dict, (cfg.source_lang, cfg.target_lang), self.langs)
        self.language = self.sides.language
        self.longest: tuple[int, int] | None = None  # tokens that the task and all models built so far accept
        self.writer: TranslationWriter | None = None
        self.bleu: BleuValidation | None = None
        self.warned_of_overlap = False
        self.numbered = False  # whether a model built so far reads the numbers of sentences
        self.gpu_peak = 0

    @classmethod
    def setup_task(cls, cfg: TranslationDocConfig, **kwargs) -> TranslationDocTask:
        """Load the dictionaries of ``cfg.data``. Raise UserError if the directory or the language pair is missing."""
        Options(cfg)  # report contradictions before anything is loaded
        path = Path(utils.split_paths(cfg.data)[0])
        if not path.is_dir():
            raise UserError(f"{path}: no such data directory; prepare one with gtransformer prepare")
        cfg.source_lang, cfg.target_lang = languages_of(path, cfg.source_lang, cfg.target_lang)
        if cfg.source_lang is None or cfg.target_lang is None:
            raise UserError(f"{path}: holds no binarised pair; give --source-lang and --target-lang")
        dictionaries = []
        for lang in (cfg.source_lang, cfg.target_lang):
            dictionaries.append(DocumentDictionary.load(str(path / f"dict.{lang}.txt")))
            logger.info("[%s] dictionary: %d types", lang, len(dictionaries[-1]))
        return cls(cfg, *dictionaries)

    @property
    def source_dictionary(self) -> Dictionary:
        """The dictionary of the source: words, language symbols and ``<mask>``."""
        return self.src_dict

    @property
    def target_dictionary(self) -> Dictionary:
        """The dictionary of the target: words, language symbols and ``<mask>``."""
        return self.tgt_dict

    def max_positions(self) -> tuple[int, int]:
        """Return how many tokens an instance may have, on the source and target side, by the options."""
        return self.cfg.max_source_positions, self.cfg.max_target_positions

    def has_sharded_data(self, split: str) -> bool:
        """Return whether fairseq has to load the training set again for every epoch."""
        return super().has_sharded_data(split) or self.options.drawn_anew

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs) -> None:
        """Load ``{split}.{source}-{target}.*`` of the data directory; for training, of the epoch's shard.

        fairseq-generate and -validate give ``task_cfg``: to them, the training set is like any other.
        """
        training = split == self.cfg.train_subset and "task_cfg" not in kwargs
        self.datasets[split] = self._loader().load(split, epoch, combine, training)

    def _loader(self) -> Loader:
        dictionaries = self.src_dict, self.tgt_dict
        return Loader(self.options, *dictionaries, self.language, self.langs, self.numbered, self.sides.prefix)

    def get_batch_iterator(self, dataset, *limits, **options):
        """Return an iterator. Arguments are fairseq's; ``gtransformer.tasks.batches`` describes the differences."""
        return batch_iterator(self, dataset, *limits, **options)

    def filter_indices_by_size(self, indices, dataset, max_positions=None, ignore_invalid_inputs=False):
        """Return the indices of instances that are not too long.

        Documents that are decoded window by window are never too long: their windows are checked later.
        """
        if self.options.whole_documents:
            return indices
        return super().filter_indices_by_size(indices, dataset, max_positions, ignore_invalid_inputs)

    def build_dataset_for_inference(self, src_tokens, src_lengths, constraints=None) -> DocumentPairDataset:
        """Return a dataset of typed or piped lines (fairseq-interactive), each a list of ``<s> words </s>``."""
        return self._loader().typed(src_tokens, src_lengths, constraints)

    @property
    def unpredicted_symbols(self) -> list[int]:
        """Return the target symbols that do not count in the loss of a model that does not predict them."""
        return self.sides.unpredicted

    def build_model(self, cfg, from_checkpoint: bool = False):
        """Build the model and, for ``--eval-bleu``, the generator; prepare resuming and fine-tuning.

        ``from_checkpoint``: fairseq loads a trained model. Raises UserError for a precision that cannot be trained in
        and for instances that the model does not support.
        """
        whole = whole_config(cfg)
        if from_checkpoint and whole is not None:
            self.options.check_saved(whole.task)
        options = generator_options(self.cfg.eval_bleu_args) if self.cfg.eval_bleu else None
        if not from_checkpoint:
            self.options.check_training(cfg, whole)
            start_from_sentence_model(cfg, whole, self)
            if OmegaConf.is_config(cfg) and "length_ratio" in cfg and cfg.length_ratio is None:
                set_ratio(cfg, self._loader().load(self.cfg.train_subset, 1, combine=True, training=True))
        model = super().build_model(cfg, from_checkpoint)
        self.sides.prefix = prefix_of(model, self.tgt_dict)
        self.numbered |= needs_of(model).numbers
        sides = available(model.encoder), available(model.decoder)
        self.longest = utils.resolve_max_positions(self.longest, self.max_positions(), sides)
        if not from_checkpoint:
            self.options.check_instances(model)
            self.options.check_batches(model, training=True)
            if whole is not None:
                add_hours_of_start(whole)
            prepare_finetuning(model, self.cfg, whole, (self.src_dict, self.tgt_dict))
        if options is not None:
            generator = self.build_generator([model], options)
            self.bleu = BleuValidation(generator, self.tgt_dict, self.sides.no_text, self.options)
        return model

    def build_generator(self, models, args, seq_gen_cls=None, extra_gen_cls_kwargs=None, prefix_allowed_tokens_fn=None):
        """Return a generator for documents; ``--sentence-rule`` decides whether it keeps the number of sentences."""
        check_generation(args)
        score_documents(args, self.cfg.doc_mode != "full", self.cfg.gen_output)
        check_models(models, args, self.options)
        for model in models:
            self.options.check_batches(model)
        if getattr(args, "score_reference", False):
            return super().build_generator(models, args)
        check_decodable(models, self.options.scheme, ready=self.cfg.first_pass is not None)
        made = task_generator(self, models, args)
        if self.cfg.first_pass is not None:
            return SecondPass(made, open_first_pass(self, models, args))
        if any(needs_of(model).targets for model in models):
            return SecondPass(made, None, "a decoder that reads its batch")
        return SequentialGenerator(made, self.options.strategy) if self.options.by_window else made

    def inference_step(self, generator, models, sample, prefix_tokens=None, constraints=None):
        """Generate translations of a batch; with ``--gen-output`` also store them for the file.

        Warn once if instances overlap: the score that fairseq-generate prints at the end is then not the corpus's.
        """
        together = not (self.options.by_window or isinstance(generator, SecondPass))
        overlap = together and self.options.scheme.repeats_targets
        if self.datasets and not self.warned_of_overlap and overlap:
            self.warned_of_overlap = True
            logger.warning(
                "instances overlap (--instances %s): the BLEU at the end counts context, too, and so sentences several "
                "times; score with --gen-output PREFIX and %s instead",
                self.cfg.instances,
                "gtransformer score",
            )
        for model in () if self.datasets or isinstance(generator, SecondPass) else models:
            check_alone(model, "lines that are typed or handed in")
        given, sample = sample, as_read(sample, *models)
        hypos = super().inference_step(generator, models, sample, prefix_tokens, constraints)
        if self.cfg.gen_output and "id" in sample and not models[0].training:
            self._write(sample, hypos, getattr(generator, "nbest", 1))
        if self.datasets and not models[0].training:
            DocumentScorer.numbers += sample["id"].tolist()
            current = len(hypos) if self.options.scheme.with_context else self._sentences(given).sum()
            given["nsentences"] = int(current)  # fairseq sums this; its own value counts instances
        return hypos

    def _sentences(self, sample: dict) -> Tensor:
        """Return how many source sentences each instance of a batch has."""
        return tag_of_newest(sample["net_input"]["src_tokens"], self.src_dict.bos())

    def _write(self, sample: dict, hypos: list[list[dict]], most: int) -> None:
        self.writer = self.writer or self._make_writer()
        sentences = self._sentences(sample).tolist()
        skipped = self.sides.no_text
        for row, (number, count, nbest) in enumerate(zip(sample["id"].tolist(), sentences, hypos, strict=True)):
            found = [
                {
                    "score": round(float(hypo["score"]), 6),
                    "sentences": split_sentences(hypo["tokens"].tolist(), self.tgt_dict, skipped),
                }
                for hypo in nbest[:most]
            ]
            segments = None
            if sample.get("target") is not None:
                sides = nbest[0]["tokens"], sample["target"][row]
                symbols = skipped - {self.tgt_dict.bos(), self.tgt_dict.eos()}
                texts = [self.tgt_dict.string(side.tolist(), extra_symbols_to_ignore=symbols) for side in sides]
                segments = tuple(f"<s> {text}" for text in texts)
            self.writer.add(number, found, count, segments)

    def _make_writer(self) -> TranslationWriter:
        if len(self.datasets) != 1:
            raise UserError(
                f"--gen-output {self.cfg.gen_output}: is for one split at a time; name it with --gen-subset"
            )
        (dataset,) = self.datasets.values()
        spans, kind = dataset.spans(), self.options.scheme.kind
        if spans is None and kind != STORED:
            raise UserError(
                f"--gen-output {self.cfg.gen_output}: translations of --instances {kind} cannot be put back where "
                "several sets are combined; translate one set at a time, or leave --gen-output out"
            )
        return TranslationWriter(self.cfg.gen_output, len(dataset), spans)

    def train_step(self, sample, model, criterion, optimizer, update_num, ignore_grad=False):
        """Make fairseq's training step on the targets that count in the loss."""
        sample = self._counted(as_read(sample, model), model)
        try:
            return super().train_step(sample, model, criterion, optimizer, update_num, ignore_grad)
        finally:
            if torch.cuda.is_initialized():  # fairseq resets this statistic at every update
                self.gpu_peak = max(self.gpu_peak, torch.cuda.max_memory_allocated())

    def valid_step(self, sample, model, criterion):
        """Compute the loss; BLEU counts with ``--eval-bleu``, attention entropy with ``--doc-attn-entropy``.

        An empty batch, which fairseq-validate gives to one of several processes, has none.
        """
        if not sample:
            return 0.0, 0, {}
        sample = as_read(sample, model)
        counted = self._counted(sample, model)
        with measured(model) if self.cfg.doc_attn_entropy else nullcontext({}) as entropy:
            loss, sample_size, logging_output = super().valid_step(counted, model, criterion)
        logging_output.update({f"{ENTROPY}{name}": value for name, value in entropy.items()})
        if self.cfg.eval_bleu:
            logging_output.update(self.bleu.counts(sample, model))
        return loss, sample_size, logging_output

    def _counted(self, sample: dict, model) -> dict:
        """Return a batch whose targets are those that count in the loss of a model."""
        sample = without_context_loss(sample, self.tgt_dict.pad())
        left_out = getattr(model, "leaves_unpredicted_out", False)
        return without_unpredicted(sample, self.unpredicted_symbols, self.tgt_dict.pad()) if left_out else sample

    def reduce_metrics(self, logging_outputs, criterion) -> None:
        """Log the criterion's values, peak memory on a GPU, BLEU with ``--eval-bleu``, and measured entropies."""
        super().reduce_metrics(logging_outputs, criterion)
        if self.gpu_peak:
            metrics.log_scalar(GPU_PEAK, self.gpu_peak / 2**30, weight=0, priority=1550, round=3)
        if self.cfg.eval_bleu:
            log_bleu(logging_outputs)
        log_entropy(logging_outputs)
