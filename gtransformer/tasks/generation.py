"""Generators of documents: made of the task's symbols and the sentence rule; options that they cannot have."""

from __future__ import annotations

import functools
from argparse import Namespace
from collections.abc import Callable, Sequence

import torch
from fairseq.tasks import FairseqTask
from torch import nn

from gtransformer.errors import UserError
from gtransformer.search.generator import DocumentGenerator
from gtransformer.search.rules import SentenceRule
from gtransformer.tasks.config import TranslationDocConfig


def check_generation(args: Namespace, cfg: TranslationDocConfig) -> None:
    """Raise UserError for options of generation (``args``) and of the task that documents cannot have."""
    if getattr(args, "print_alignment", None) and not getattr(args, "score_reference", False):
        raise UserError("--print-alignment is not available: fused attention does not give out its weights")
    if getattr(args, "match_source_len", False):
        raise UserError("--match-source-len is not available: documents have limits sentence by sentence; leave it out")
    if cfg.documents_at_once < 0:
        raise UserError(f"--documents-at-once {cfg.documents_at_once}: give 0 (all of a batch) or more")


def generator_maker(
    task: FairseqTask, models: Sequence[nn.Module], args: Namespace
) -> Callable[..., DocumentGenerator]:
    """What fairseq's ``build_generator`` is to call with models, dictionary, search strategy and options.

    Documents are held to the sentences of their source unless the first model is ``--doc-mode full`` and
    ``--doc-constraint`` is not given.

    Args:
        task: a task translation_doc.
        args: options of generation.
    """
    source, target = task.source_dictionary, task.target_dictionary
    marks = [source.bos(), source.eos(), source.pad(), *task.language_symbols(source)]
    mode = getattr(getattr(models[0], "cfg", None), "doc_mode", task.cfg.doc_mode)
    rule = None
    if mode == "partial" or task.cfg.doc_constraint:
        forbidden = [target.bos(), target.pad(), target.index("<mask>"), *task.language_symbols()]
        min_len = getattr(args, "min_len", 1)
        rule = SentenceRule(target.bos(), target.eos(), task.language, torch.tensor(forbidden), min_len)
    return functools.partial(
        DocumentGenerator,
        symbols=torch.tensor(marks),
        rule=rule,
        documents_at_once=task.cfg.documents_at_once,
        nbest=getattr(args, "nbest", 1),
        eos=task.language,
    )
