"""What fairseq reads of a command line: quickly, without hydra's remarks, and what is wrong in one sentence."""

from __future__ import annotations

import copy
import functools
import inspect
import logging
import warnings
from difflib import get_close_matches

from gtransformer.errors import UserError


def mend() -> None:
    """All of this file."""
    quiet_hydra()
    compose_quickly()
    say_unknown_architectures()
    let_tasks_check()


def quiet_hydra() -> None:
    """Leave out what hydra says of how fairseq uses it, at the head of every log, and nobody can act on."""
    logging.getLogger("hydra").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", category=UserWarning, module=r"hydra\.")
    for begin in (
        "'config' is validated against ConfigStore",
        "The strict flag in the compose API",
        "The version_base",
    ):
        warnings.filterwarnings("ignore", message=rf"\s*{begin}", category=UserWarning)


def compose_quickly() -> None:
    """Leave out most of the half a second that hydra takes to compose fairseq's configuration at every start.

    It parses 300 settings, nearly all at their defaults, by a grammar; copies all configurations that it knows although
    it makes those that it changes anew; and looks for the source lines of every caller of its caller. What comes out is
    the same (a test compares).
    """
    from hydra._internal import config_repository, utils
    from hydra.core.override_parser.overrides_parser import OverridesParser

    if isinstance(utils.inspect, _Inspect):
        return  # done
    parse = functools.lru_cache(maxsize=4096)(functools.partial(OverridesParser.parse_rule, OverridesParser.create()))
    OverridesParser.parse_rule = lambda self, text, rule: copy.copy(parse(text, rule))
    config_repository.CachingConfigRepository.__init__ = _keep_in_memory
    utils.inspect = _Inspect()


def _keep_in_memory(self, delegate) -> None:
    """hydra's ``CachingConfigRepository`` with a copy of the repository, not of all that its sources hold."""
    self.delegate, self.cache = copy.copy(delegate), {}


class _Inspect:
    """Python's ``inspect``, but for lines of source in the frames of ``stack``, which hydra does not use."""

    def __getattr__(self, name: str):
        return getattr(inspect, name)

    def stack(self) -> list[inspect.FrameInfo]:
        return inspect.stack(context=0)[1:]


def say_unknown_architectures() -> None:
    """Let ``--arch`` with a name that is none be said in one sentence, instead of behind a list of all names."""
    from fairseq import options

    def with_checked_architecture(parser, add=options.add_model_args):
        group = add(parser)
        (action,) = (one for one in group._group_actions if one.dest == "arch")
        known, action.choices = list(action.choices), None
        action.required = True  # without one fairseq raises an error that says nothing
        action.type = functools.partial(_known_architecture, known=known)
        return group

    if not hasattr(options.add_model_args, "__wrapped__"):
        options.add_model_args = functools.wraps(options.add_model_args)(with_checked_architecture)


def _known_architecture(name: str, known: list[str]) -> str:
    if name not in known:
        like = get_close_matches(name, known) or ["gtransformer_base", "doc_transformer_base"]
        raise UserError(
            f"--arch: there is no architecture '{name}'; {len(known)} are known, {', '.join(like)} and others"
        )
    return name


def let_tasks_check() -> None:
    """Let a task see what was read of a command line (``check_parsed``), before anything is done with it.

    fairseq gives its programs the options of all parts and asks nobody whether they fit together.
    """
    from fairseq import options
    from fairseq.tasks import TASK_REGISTRY

    def checked(parser, *arguments, parse=options.parse_args_and_arch, **more):
        if parser.get_default("task") is None:  # fairseq-validate takes the checkpoint's, but reads the options of one
            parser.set_defaults(task="translation_doc")
        found = parse(parser, *arguments, **more)
        args = found[0] if isinstance(found, tuple) else found
        check = getattr(TASK_REGISTRY.get(getattr(args, "task", None)), "check_parsed", None)
        if check is not None and not more.get("suppress_defaults"):
            check(parser, args, of_program=not arguments and more.get("input_args") is None)
        return found

    if not hasattr(options.parse_args_and_arch, "__wrapped__"):
        options.parse_args_and_arch = functools.wraps(options.parse_args_and_arch)(checked)
