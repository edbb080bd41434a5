"""The task: translate documents whose sentences carry group tags."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from pathlib import Path

import torch
from fairseq import utils
from fairseq.data import Dictionary
from fairseq.data.data_utils import infer_language_pair
from fairseq.tasks import FairseqTask, register_task
from omegaconf import OmegaConf
from torch import Tensor

# Registered with fairseq, too:
import gtransformer.plugin.criterion
import gtransformer.plugin.models
import gtransformer.plugin.optimizers  # noqa: F401
from gtransformer.data.batch_fields import counted
from gtransformer.data.group_tags import tag_of_newest
from gtransformer.data.instances import STORED
from gtransformer.data.sides import Sides
from gtransformer.errors import UserError
from gtransformer.models.common.model import needs_of, prefix_of
from gtransformer.plugin.batches import batch_iterator
from gtransformer.plugin.compiling import Compiling
from gtransformer.plugin.config import TranslationDocConfig
from gtransformer.plugin.document_dataset import DocumentPairDataset
from gtransformer.plugin.entropy import measured
from gtransformer.plugin.finetuning import add_hours_of_start, prepare_finetuning, whole_config
from gtransformer.plugin.first_pass import open_first_pass
from gtransformer.plugin.generation import (
    TranslationWriter,
    check_alone,
    check_decodable,
    check_generation,
    task_generator,
)
from gtransformer.plugin.loading import load_split, set_ratio
from gtransformer.plugin.options import Options
from gtransformer.plugin.scores import DocumentDictionary, DocumentScorer, score_documents
from gtransformer.plugin.sentence_start import start_from_sentence_model
from gtransformer.plugin.sentences import RunDataset, SideSentences
from gtransformer.plugin.validation import (
    ENTROPY,
    BleuValidation,
    generator_options,
    log_bleu,
    log_entropy,
)
from gtransformer.search.sequential import SecondPass, SequentialGenerator

logger = logging.getLogger(__name__)


@register_task("translation_doc", dataclass=TranslationDocConfig)
class TranslationDocTask(FairseqTask):
    """Document-level translation: data, word dropout, constrained generation and validation BLEU.

    Its options extend those of fairseq's task ``translation``. Instances are ``<s> a b </s> <s> c
    </s>`` on both sides. The decoder's output ends in the language symbol. Language symbols and
    ``<mask>`` are appended to dictionaries that lack them.
    """

    cfg: TranslationDocConfig

    def __init__(self, cfg: TranslationDocConfig, src_dict: Dictionary, tgt_dict: Dictionary):
        super().__init__(cfg)
        self.options = Options(cfg)
        self.src_dict, self.tgt_dict = src_dict, tgt_dict
        self.langs = [
            lang.strip()
            for lang in (cfg.langs or f"{cfg.source_lang},{cfg.target_lang}").split(",")
        ]
        self.sides = Sides(src_dict, tgt_dict, (cfg.source_lang, cfg.target_lang), self.langs)
        self.language = self.sides.language
        self.longest: tuple[int, int] | None = (
            None  # tokens that the task and all models built so far accept
        )
        self.writer: TranslationWriter | None = None
        self.bleu: BleuValidation | None = None
        self.compiling: Compiling | None = None  # of a training
        self.numbered = False  # whether a model built so far reads the numbers of sentences
        self.left_out: list[int] = []  # target symbols that do not count in the loss of the model

    @classmethod
    def setup_task(cls, cfg: TranslationDocConfig, **kwargs) -> TranslationDocTask:
        """Load the dictionaries of ``cfg.data``. Raise UserError if the directory or the language
        pair is missing.
        """
        Options(cfg)  # report contradictions before anything is loaded
        path = Path(utils.split_paths(cfg.data)[0])
        if not path.is_dir():
            raise UserError(
                f"{path}: no such data directory; prepare one with gtransformer prepare"
            )
        if cfg.source_lang is None or cfg.target_lang is None:
            pair = infer_language_pair(str(path))
            if cfg.source_lang == pair[1] or cfg.target_lang == pair[0]:
                pair = pair[::-1]
            cfg.source_lang, cfg.target_lang = (
                cfg.source_lang or pair[0],
                cfg.target_lang or pair[1],
            )
        if None in (cfg.source_lang, cfg.target_lang):
            raise UserError(
                f"{path}: holds no binarised pair; give --source-lang and --target-lang"
            )
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
        """Return how many tokens an instance may have, on the source and target side, by the
        options.
        """
        return self.cfg.max_source_positions, self.cfg.max_target_positions

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

    def get_batch_iterator(self, dataset, *limits, **options):
        """Return an iterator. Arguments are fairseq's; ``gtransformer.plugin.batches`` describes
        the differences.
        """
        return batch_iterator(self, dataset, *limits, **options)

    def filter_indices_by_size(
        self, indices, dataset, max_positions=None, ignore_invalid_inputs=False
    ):
        """Return the indices of instances that are not too long.

        Documents that are decoded window by window are never too long: their windows are checked
        later.
        """
        if self.options.whole_documents:
            return indices
        return super().filter_indices_by_size(
            indices, dataset, max_positions, ignore_invalid_inputs
        )

    def build_dataset_for_inference(
        self, src_tokens, src_lengths, constraints=None
    ) -> DocumentPairDataset:
        """Return a dataset of typed or piped lines (fairseq-interactive), each a list of ``<s>
        words </s>``.

        A line that does not begin with ``<s>`` is taken as one sentence, with a warning. Raises
        UserError for an ``--instances`` that would group lines.
        """
        if self.options.scheme.kind != STORED:
            raise UserError(
                f"--instances {self.cfg.instances}: lines that are typed or piped in are "
                "translated as they are, each "
                "as one instance; give --instances stored, and write the sentences of an instance "
                "on one line"
            )
        side = SideSentences(list(map(self._opened, src_tokens)), self.src_dict, "the input")
        source = RunDataset(side, side.stored_ranges())
        return DocumentPairDataset(source, None, self.src_dict, self.tgt_dict, self.language)

    def _opened(self, line: Tensor) -> Tensor:
        """Return a typed line (length,) int64 as an instance; fairseq has appended another
        ``</s>``.
        """
        bos, eos = self.src_dict.bos(), self.src_dict.eos()
        if len(line) and line[0] == bos:
            return line
        logger.warning(
            "the input line '%s ...' does not begin with <s> and is taken as one sentence: write "
            "every sentence as "
            "'<s> words </s>'",
            self.src_dict.string(line[:8]),
        )
        closed = len(line) > 1 and line[-2] == eos
        return torch.cat([line.new_tensor([bos]), line, line.new_tensor([] if closed else [eos])])

    def build_model(self, cfg, from_checkpoint: bool = False):
        """Build the model and, for ``--eval-bleu``, the generator; prepare resuming and
        fine-tuning.

        ``from_checkpoint``: fairseq loads a trained model. Raises UserError for a precision that
            cannot be trained in
        and for instances that the model does not support.
        """
        whole = whole_config(cfg)
        if from_checkpoint and whole is not None:
            self.options.check_saved(whole.task)
        if not from_checkpoint:
            self.options.check_training(cfg, whole)
            start_from_sentence_model(cfg, whole, self)
            if OmegaConf.is_config(cfg) and "length_ratio" in cfg and cfg.length_ratio is None:
                set_ratio(
                    cfg, load_split(self.options, self.sides, self.cfg.train_subset, combine=True)
                )
        model = super().build_model(cfg, from_checkpoint)
        self.sides.prefix = prefix_of(model, self.tgt_dict)
        self.numbered |= needs_of(model).numbers
        self.left_out = (
            self.sides.unpredicted if getattr(model, "leaves_unpredicted_out", False) else []
        )
        sides = model.encoder.positions(), model.decoder.positions()
        self.longest = utils.resolve_max_positions(self.longest, self.max_positions(), sides)
        if not from_checkpoint:
            self.options.check_model(model, training=True)
            if whole is not None:
                add_hours_of_start(whole)
            prepare_finetuning(model, self.cfg, whole, (self.src_dict, self.tgt_dict))
            if whole is not None:
                self.compiling = Compiling(str(self.cfg.compile), model, whole)
        if self.cfg.eval_bleu:
            generator = self.build_generator([model], generator_options(self.cfg.eval_bleu_args))
            self.bleu = BleuValidation(generator, self.tgt_dict, self.sides.no_text, self.options)
        return model

    def build_generator(
        self,
        models,
        args,
        seq_gen_cls=None,
        extra_gen_cls_kwargs=None,
        prefix_allowed_tokens_fn=None,
    ):
        """Return a generator for documents; ``--sentence-rule`` decides whether it keeps the number
        of sentences.

        Warn if instances overlap: the score that fairseq-generate prints at the end is then not the
        corpus's.
        """
        check_generation(args, models, self.options)
        score_documents(args, self.cfg.doc_mode != "full", self.cfg.gen_output)
        for (
            model
        ) in models:  # without data sets, the caller gives instances in the form that is needed
            if self.datasets or not needs_of(model).last_sentence_only:
                self.options.check_model(model)
        if getattr(args, "score_reference", False):
            return super().build_generator(models, args)
        check_decodable(models, self.options.scheme, ready=self.cfg.first_pass is not None)
        made = task_generator(self, models, args)
        if self.cfg.first_pass is not None:
            return SecondPass(made, open_first_pass(self, models, args))
        if any(needs_of(model).targets for model in models):
            return SecondPass(made, None)
        if self.options.by_window:
            return SequentialGenerator(made, self.options.strategy)
        if self.datasets and self.options.scheme.repeats_targets:
            logger.warning(
                "instances overlap (--instances %s): the BLEU at the end counts context, too, and "
                "so sentences several "
                "times; score with --gen-output PREFIX and gtransformer score instead",
                self.cfg.instances,
            )
        return made

    def inference_step(self, generator, models, sample, prefix_tokens=None, constraints=None):
        """Generate translations of a batch; with ``--gen-output`` also store them for the file."""
        for model in () if self.datasets or isinstance(generator, SecondPass) else models:
            check_alone(model, "lines that are typed or handed in")
        hypos = super().inference_step(generator, models, sample, prefix_tokens, constraints)
        if self.cfg.gen_output and "id" in sample and not models[0].training:
            self.writer = self.writer or TranslationWriter(self)
            self.writer.add(sample, hypos, getattr(generator, "nbest", 1))
        if self.datasets and not models[0].training:
            DocumentScorer.numbers += sample["id"].tolist()
            sentences = tag_of_newest(sample["net_input"]["src_tokens"], self.src_dict.bos())
            # fairseq sums this; its own value counts instances
            sample["nsentences"] = (
                len(hypos) if self.options.scheme.with_context else int(sentences.sum())
            )
        return hypos

    def train_step(self, sample, model, criterion, optimizer, update_num, ignore_grad=False):
        """Make fairseq's training step on the targets that count in the loss."""
        return super().train_step(
            counted(sample), model, criterion, optimizer, update_num, ignore_grad
        )

    def valid_step(self, sample, model, criterion):
        """Compute the loss; BLEU counts with ``--eval-bleu``, attention entropy with
        ``--doc-attn-entropy``.

        An empty batch, which fairseq-validate gives to one of several processes, has none.
        """
        if not sample:
            return 0.0, 0, {}
        with measured(model) if self.cfg.doc_attn_entropy else nullcontext({}) as entropy:
            loss, sample_size, logging_output = super().valid_step(
                counted(sample), model, criterion
            )
        logging_output.update({f"{ENTROPY}{name}": value for name, value in entropy.items()})
        if self.cfg.eval_bleu:
            if (
                model.decoder.copies is not None
            ):  # prepared at the last validation; weights have changed since
                model.decoder.hold_weights()
            logging_output.update(self.bleu.counts(sample, model))
        return loss, sample_size, logging_output

    def reduce_metrics(self, logging_outputs, criterion) -> None:
        """Log the criterion's values, BLEU with ``--eval-bleu``, and measured entropies."""
        super().reduce_metrics(logging_outputs, criterion)
        if self.cfg.eval_bleu:
            log_bleu(logging_outputs)
        log_entropy(logging_outputs)
