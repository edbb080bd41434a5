"""Options that fairseq's parsers accept for this task: the programs in which each has an effect, if any.

fairseq gives every program the options of all its parts. Options that would be ignored, or end in a traceback, are
refused when the command line is read. A test fails for options of other versions of fairseq that are not listed here.
"""

from __future__ import annotations

import ast
import importlib.util
from argparse import ArgumentParser, Namespace
from collections.abc import Collection, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from typing import Any

import torch
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.dataclass.configs import FairseqConfig
from fairseq.models import MODEL_DATACLASS_REGISTRY
from omegaconf import DictConfig

from gtransformer.data.batching import DOCUMENT
from gtransformer.errors import UserError
from gtransformer.tasks.config import TranslationDocConfig

TRAIN, GENERATE, VALIDATE, INTERACTIVE = PROGRAMS = ("train", "generate", "validate", "interactive")

# Options of section "task" of a recipe are given to all programs, so that they are listed here for all. Options that
# are not listed belong to a model, an optimizer or the like.
_EVERYWHERE = """
    user_dir help seed cpu task data source_lang target_lang langs doc_mode decoder_start prepend_bos
    fp16 memory_efficient_fp16 no_progress_bar log_interval log_format num_workers data_buffer_size
    max_tokens batch_size skip_invalid_size_inputs_valid_test max_source_positions max_target_positions
    sentence_rule doc_constraint
"""
_USED_IN = {
    PROGRAMS: _EVERYWHERE,
    (GENERATE, VALIDATE, INTERACTIVE): "path model_overrides",
    (TRAIN, GENERATE, VALIDATE): """
        instances instance_tokens context_sentences target_context_sentences batch_order context_loss
        distributed_world_size distributed_rank
    """,
    (TRAIN, VALIDATE): """
        valid_subset all_gather_list_size doc_attn_entropy eval_bleu eval_bleu_args eval_bleu_detok
        eval_bleu_detok_args eval_tokenized_bleu eval_bleu_remove_bpe eval_bleu_print_samples
        distributed_num_procs distributed_backend distributed_init_method distributed_port distributed_no_spawn
        device_id
    """,
    (GENERATE, INTERACTIVE): """
        beam nbest max_len_a max_len_b min_len lenpen unkpen unnormalized temperature no_repeat_ngram_size sampling
        sampling_topk sampling_topp diverse_beam_groups diverse_beam_strength diversity_rate
        post_process tokenizer bpe checkpoint_suffix strategy window_tokens
    """,
    (GENERATE,): """
        gen_subset gen_output results_path quiet scoring sacrebleu score_reference prefix_size first_pass
        batch_sentences
    """,
    (INTERACTIVE,): "buffer_size input",
    (TRAIN,): """
        log_file aim_repo aim_run_hash tensorboard_logdir wandb_project azureml_logging fp16_no_flatten_grads
        fp16_init_scale fp16_scale_window fp16_scale_tolerance on_cpu_convert_precision min_loss_scale
        threshold_loss_scale amp amp_batch_retries empty_cache_freq profile criterion optimizer lr_scheduler
        train_subset combine_valid_subsets ignore_unused_valid_subsets validate_interval validate_interval_updates
        validate_after_updates fixed_validation_seed disable_validation max_tokens_valid batch_size_valid
        max_valid_steps grouped_shuffling update_epoch_batch_itr update_ordered_indices_seed
        ddp_backend ddp_comm_hook bucket_cap_mb find_unused_parameters gradient_as_bucket_view
        heartbeat_timeout broadcast_buffers
        save_dir restore_file continue_once finetune_from_model reset_dataloader reset_lr_scheduler reset_meters
        reset_optimizer optimizer_overrides save_interval save_interval_updates keep_interval_updates
        keep_interval_updates_pattern keep_last_epochs keep_best_checkpoints no_save no_epoch_checkpoints
        no_last_checkpoints no_save_optimizer_state best_checkpoint_metric maximize_best_checkpoint_metric patience
        load_checkpoint_on_all_dp_ranks
        doc_noise_mask doc_noise_epochs max_pair_tokens more_training_data
        training_weights shuffled_context doc_double_lr lr_scale_pretrained weight_decay_randinit
        arch max_epoch max_update stop_time_hours clip_norm sentence_avg update_freq lr stop_min_lr
        skip_remainder_batch debug_param_names label_smoothing report_accuracy ignore_prefix_size adam_betas adam_eps
        weight_decay use_old_adam fp16_adam_stats warmup_updates warmup_init_lr force_anneal lr_shrink
    """,
}
USED_IN = {name: programs for programs, names in _USED_IN.items() for name in names.split()}

_NOT_SHARDED = "a model lies whole on each device here; leave it out (--update-freq takes larger batches)"
# Options that have no effect on documents, or cannot have one: the reason, and what to give instead.
_REFUSED = {
    "TPUs are not supported; leave it out, or give --cpu": "tpu",
    "fairseq's is for TPUs; give --autocast bfloat16": "bf16 memory_efficient_bf16",
    "fairseq-fixed ignores it; give --fp16-init-scale, which is also the initial scale of --amp": "amp_init_scale",
    "fairseq-fixed puts another option's value in its place; leave it out: it is 2,000 updates": "amp_scale_window",
    _NOT_SHARDED: """
        model_parallel_size zero_sharding no_reshard_after_forward fp32_reduce_scatter cpu_offload
        use_sharded_state not_fsdp_flatten_parameters checkpoint_shard_count pipeline_model_parallel
        pipeline_balance pipeline_devices pipeline_chunks pipeline_encoder_balance pipeline_encoder_devices
        pipeline_decoder_balance pipeline_decoder_devices pipeline_checkpoint
    """,
    "attention and loss cannot read the weights of quantised layers; leave it out": "quantization_config_path",
    "is for fairseq-hydra-train; leave it out": "reset_logging suppress_crashes",
    "needs a server that pyarrow no longer has; data are mapped from disk as they are; leave it out": (
        "use_plasma_view plasma_path"
    ),
    "batches are filled up to --max-tokens, and their size is no multiple; give 1": "required_batch_size_multiple",
    "the storage format of data is detected; leave it out": "dataset_impl",
    "fairseq-fixed would never shuffle, not only not in the first epochs; leave it out": "curriculum",
    "fairseq-fixed does not read it; give --distributed-world-size N --distributed-rank I": "num_shards shard_id",
    "fairseq-fixed does not read it; leave it out": "fast_stat_sync no_early_stop no_beamable_mm",
    "models of several processes are the same after each update here; leave it out": (
        "slowmo_momentum slowmo_base_algorithm localsgd_frequency nprocs_per_node use_bmuf"
    ),
    "training waits until a checkpoint is whole, to be resumed from it; leave it out": (
        "write_checkpoints_asynchronously"
    ),
    "nothing would read the averaged model; leave it out, and average checkpoints with gtransformer average": (
        "store_ema ema_decay ema_start_update ema_seed_model ema_update_freq ema_fp32"
    ),
    "nothing here learns from word alignments; leave it out": "load_alignments",
    "give --more-training-data and --training-weights; leave it out": "upsample_primary",
    "documents are split between sentences; give --instances greedy and --instance-tokens N": "truncate_source",
    "batches have no padding here; leave it out": """
        num_batch_buckets left_pad_source left_pad_target required_seq_len_multiple
    """,
    "fairseq reads it only of datasets that load ahead, which documents do not; leave it out": "fix_batches_to_gpus",
    "is for fairseq's speech translation in two passes, which no document model has; leave it out": (
        "beam_mt max_len_a_mt max_len_b_mt lenpen_mt"
    ),
    "documents have limits sentence by sentence; leave it out": "match_source_len",
    "fused attention does not give out its weights, which this needs; leave it out": "replace_unk print_alignment",
    "this search constrains sentences, not words; leave it out": "constraints",
    "is for fairseq's models that refine a translation step by step; these write it word by word; leave it out": """
        print_step iter_decode_eos_penalty iter_decode_max_iter iter_decode_force_max_iter
        iter_decode_with_beam iter_decode_with_external_reranker retain_iter_history decoding_format
    """,
    "translations are scored by the translation model alone; leave it out": "lm_path lm_weight",
    "with dropout, cached states would differ from those of a full pass; leave it out": "retain_dropout",
    "translation has no dropout (see --retain-dropout); leave it out": "retain_dropout_modules",
    "is set by fairseq itself; give --seed": "no_seed_provided",
    "the target's language symbol ends a document; leave it out": "eos_token",
    "the dictionary defines this symbol; leave it out": "pad eos unk",
}
REFUSED = {name: reason for reason, names in _REFUSED.items() for name in names.split()}
ALLOWED = {"required_batch_size_multiple": 1, "dataset_impl": "mmap"}  # values that are the case for documents
FUSED = "fused_label_smoothed_cross_entropy"
WORDS = ("word_nll_loss", "word_ppl")
# fairseq's losses that need only a source, a target and the model's output; what each does not log of LOGGED.
LOSSES = {"label_smoothed_cross_entropy": WORDS, "cross_entropy": (*WORDS, "accuracy")}
RDROP = "label_smoothed_cross_entropy_with_rdrop"
SHARED = ("share_all_embeddings", "share_decoder_input_output_embed")  # the output layer is an embedding, too
LEAST = {
    1: "max_tokens batch_size max_tokens_valid batch_size_valid update_freq log_interval save_interval "
    "validate_interval beam nbest batch_sentences max_pair_tokens max_source_positions max_target_positions",
    0: "num_workers data_buffer_size lr label_smoothing weight_decay adam_eps warmup_updates no_repeat_ngram_size "
    "min_len max_len_a max_len_b prefix_size seed clip_norm weight_decay_randinit",
}
NEVER = 10**5  # epochs; recipes that validate by updates alone have an interval above it
OVERRIDES = ("model_overrides", "optimizer_overrides")
BACKENDS = ("fully_sharded", "slowmo")
# What fairseq removes from words, by name.
JOINED = ("sentencepiece", "wordpiece", "letter", "silence", "_EOW", "subword_nmt", "@@ ", "@@", "none")
HIGHER_IS_BETTER = ("s_bleu", "d_bleu", "bleu", "accuracy")
# What the criteria log of validation, for --best-checkpoint-metric.
LOGGED = ("loss", "nll_loss", "ppl", *WORDS, *HIGHER_IS_BETTER)
PACKAGES = {
    "wandb_project": ("wandb",),
    "aim_repo": ("aim",),
    "azureml_logging": ("azureml",),
    "tensorboard_logdir": ("tensorboard", "tensorboardX"),
    "fp16_adam_stats": ("apex",),
}
SCORERS = {"wer": ("editdistance",), "meteor": ("nltk",), "bert_score": ("bert_score",)}
COPIED = {"batch_size_valid": "batch_size", "max_tokens_valid": "max_tokens", "tpu": "bf16"}
BY_HYDRA = ("bf16", "memory_efficient_bf16")  # in fairseq's configuration they are not for TPUs only
NEEDED = {
    TRAIN: [("optimizer",), ("max_tokens", "batch_size")],
    VALIDATE: [("path",), ("max_tokens", "batch_size")],
    GENERATE: [("path",)],
    INTERACTIVE: [("path",)],
}
FOR_GPUS = ("fp16", "memory_efficient_fp16", "amp", "profile")


def check_parsed(parser: ArgumentParser, args: Namespace, of_program: bool = True) -> None:
    """Raise UserError for an option of a command line that its program does not support.

    Args:
        parser: of fairseq-train, -generate, -validate or -interactive; other parsers are not checked.
        args: the parsed command line.
        of_program: whether ``args`` is the whole command line of a program, not a list of some options.
    """
    program = program_of(parser)
    if program is None:
        return
    default = {action.dest: action.default for action in parser._actions}
    given = {name: value for name, value in vars(args).items() if name in default and value != default[name]}
    for name, source in COPIED.items():  # by fairseq, if the option was not given
        if given.get(name) == getattr(args, source, None):
            given.pop(name, None)
    check_given(given, program, model_options(parser))
    check_numbers(args)
    check_joining(args)
    for name in OVERRIDES:
        check_overrides(name, getattr(args, name, None) or "{}")
    if of_program:
        check_needed(args, program)


def check_numbers(args: Namespace) -> None:
    """Raise UserError for meaningless numbers, which fairseq would divide by or silently accept."""
    for least, names in LEAST.items():
        for name in names.split():
            value = getattr(args, name, None)
            for one in value if isinstance(value, list) else [value]:
                if one is not None and not _number(name, one) >= least:
                    raise UserError(f"{option_of(name)} {one}: give {least} or more")
    if not getattr(args, "label_smoothing", 0) < 1:
        raise UserError(
            f"--label-smoothing {args.label_smoothing}: give less than 1, which leaves nothing for the target"
        )
    if getattr(args, "lr_scheduler", None) == "inverse_sqrt" and not float(args.warmup_updates):
        raise UserError("--lr-scheduler inverse_sqrt: begins at --warmup-updates; give 1 or more")
    begin = getattr(args, "warmup_init_lr", None)
    if begin is not None and float(args.warmup_updates) > 0 and args.stop_min_lr >= 0:
        begin = begin if begin >= 0 else getattr(args, "min_lr", 0.0)
        if begin <= args.stop_min_lr:
            raise UserError(
                f"--stop-min-lr {args.stop_min_lr:g}: the warm-up begins at {begin:g}, so training would end before "
                "its first update; leave it out, or give a larger --warmup-init-lr"
            )
    betas = getattr(args, "adam_betas", "(0.9, 0.98)")
    try:
        first, second = map(float, ast.literal_eval(str(betas)))
    except (SyntaxError, TypeError, ValueError):
        first = second = -1.0
    if not (0 <= first < 1 and 0 <= second < 1):
        raise UserError(f"--adam-betas {betas}: give two numbers of at least 0 and below 1, as '(0.9, 0.98)'")


def check_joining(args: Namespace) -> None:
    """Raise UserError for a name that fairseq does not know, when the first batch has been translated."""
    for name in ("post_process", "eval_bleu_remove_bpe"):
        value = getattr(args, name, None)
        if value is not None and value not in JOINED:
            raise UserError(f"{option_of(name)} {value}: give one of {', '.join(JOINED)}")


def _number(name: str, value: float | str) -> float:
    """Return a value as a number; fairseq's parser leaves options with a linked default as strings."""
    try:
        return float(value)
    except ValueError:
        raise UserError(f"{option_of(name)} {value}: is no number; give one") from None


def check_overrides(name: str, text: str) -> None:
    """Raise UserError for text that is no dictionary, and for unknown names, which fairseq ignores."""
    try:
        found = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        found = None
    if not isinstance(found, dict):
        raise UserError(f"{option_of(name)} {text}: is no dictionary; write one, as {{'dropout': 0.1}}")
    if name != "model_overrides":
        return
    kinds = [*MODEL_DATACLASS_REGISTRY.values(), TranslationDocConfig]
    kinds += [field.type for field in fields(FairseqConfig) if is_dataclass(field.type)]
    known = {field.name for kind in kinds if is_dataclass(kind) for field in fields(kind)}
    unknown = next((str(one) for one in found if one not in known), None)
    if unknown is not None:
        like = "".join(f", as '{one}'" for one in get_close_matches(unknown, known, n=1))
        raise UserError(f"{option_of(name)}: no model or task has an option '{unknown}'; give an existing one{like}")


def check_needed(args: Namespace, program: str) -> None:
    """Raise UserError for a required option of a program that is missing or too small."""
    for names in NEEDED.get(program, ()):
        if all(getattr(args, name, None) is None for name in names):
            raise UserError(f"fairseq-{program} needs {' or '.join(map(option_of, names))}; give one")
    several = program == VALIDATE and args.distributed_world_size > 1
    if several and (args.cpu or not torch.cuda.is_available()):
        raise UserError(
            f"--distributed-world-size {args.distributed_world_size}: fairseq-validate brings the numbers of several "
            "processes together on GPUs only; give 1"
        )
    if getattr(args, "sampling", False) and args.nbest != args.beam:
        raise UserError(
            f"--sampling draws --beam translations ({args.beam}), but --nbest is {args.nbest}; give the same for both"
        )
    if program == INTERACTIVE and args.batch_size is not None and args.batch_size > max(1, args.buffer_size):
        raise UserError(f"--batch-size {args.batch_size}: --buffer-size {args.buffer_size} reads less; give more")
    scheduler = str(getattr(args, "lr_scheduler", None))
    if program == TRAIN and scheduler == "polynomial_decay":
        if not getattr(args, "total_num_update", None):
            raise UserError(f"--lr-scheduler {scheduler}: ends at --total-num-update; give it")
        longer = (args.max_update or 0) > _number("total_num_update", args.total_num_update)
        if longer and not getattr(args, "end_learning_rate", 0.0):
            raise UserError(
                f"--max-update {args.max_update}: with --lr-scheduler {scheduler} the learning rate is 0 after "
                f"--total-num-update {args.total_num_update}; give --total-num-update {args.max_update}, too"
            )


def model_options(parser: ArgumentParser) -> set[str]:
    """Return the options of an architecture in a parser; fairseq-generate has them, too."""
    groups = [group for group in parser._action_groups if group.title == "Model-specific configuration"]
    return {action.dest for group in groups for action in group._group_actions}


def program_of(parser: ArgumentParser) -> str | None:
    """Return which of PROGRAMS a parser belongs to, by an option that only it has; None for other parsers."""
    known = {action.dest for action in parser._actions}
    typical = {"max_update": TRAIN, "input": INTERACTIVE, "beam": GENERATE, "model_overrides": VALIDATE}
    return next((program for name, program in typical.items() if name in known), None)


def check_training(whole: DictConfig | None) -> None:
    """Raise UserError for options of a training that are not supported, or not on this machine."""
    if whole is None:
        return
    changed = dict(_changed(whole)) | {"criterion": whole.criterion._name}
    check_given({name: value for name, value in changed.items() if name not in BY_HYDRA}, TRAIN)
    shared = any(getattr(whole.model, name, False) for name in SHARED)
    several = whole.distributed_training.distributed_world_size > 1
    if changed.get("find_unused_parameters") and several and str(whole.criterion._name) == FUSED and not shared:
        raise UserError(
            f"--find-unused-parameters: PyTorch does not detect that --criterion {FUSED} uses the output layer; leave "
            "it out, or give label_smoothed_cross_entropy"
        )
    if changed.get("update_ordered_indices_seed") and not whole.dataset.update_epoch_batch_itr:
        raise UserError(
            "--update-ordered-indices-seed alone changes only the batches of a resumed run; give "
            "--update-epoch-batch-itr, too, or leave it out"
        )
    subset = whole.dataset.train_subset
    if subset in whole.dataset.valid_subset.split(",") and not whole.dataset.disable_validation:
        raise UserError(
            f"--valid-subset {whole.dataset.valid_subset}: validation would use up the training's batches of {subset}; "
            "prepare the same text as another split"
        )
    every, saved = whole.dataset.validate_interval_updates, whole.checkpoint
    kept = saved.no_save or (saved.save_interval_updates > 0 and every % saved.save_interval_updates == 0)
    if saved.patience > 0 and every > 0 and not kept and not whole.dataset.disable_validation:
        raise UserError(
            f"--validate-interval-updates {every} with --patience {saved.patience}: validations between saved models "
            f"use up patience, but their models are not kept; give --save-interval-updates {every}, too"
        )
    epochs = whole.dataset.validate_interval, saved.save_interval
    lost = epochs[0] % epochs[1] and epochs[0] < (whole.optimization.max_epoch or NEVER)  # the last epoch is saved
    if saved.patience > 0 and lost and not saved.no_save and not whole.dataset.disable_validation:
        raise UserError(
            f"--save-interval {epochs[1]} with --patience {saved.patience}: validations between saved models use up "
            f"patience, but their models are not kept; give --validate-interval {epochs[1]}, too"
        )
    if changed.get("grouped_shuffling") and str(whole.task.get("batch_order")) == DOCUMENT:
        raise UserError("--grouped-shuffling has no effect with --batch-order document; leave it out")
    check_best_metric(whole)
    if torch.cuda.is_available() and not whole.common.cpu:
        return
    for name in FOR_GPUS:
        if changed.get(name):
            raise UserError(f"{option_of(name)} is for GPUs, and this training has none; leave it out")


def check_best_metric(whole: DictConfig) -> None:
    """Raise UserError for a metric of the best checkpoint that is not logged, or better in the other direction."""
    metric, higher = (whole.checkpoint[name] for name in ("best_checkpoint_metric", "maximize_best_checkpoint_metric"))
    said = f"--best-checkpoint-metric {metric}"
    if whole.dataset.disable_validation:
        return
    loss, accuracy = whole.criterion, getattr(whole.criterion, "report_accuracy", False)
    lacking = LOSSES.get(str(loss._name), ())
    if loss._name == "cross_entropy" and not whole.optimization.sentence_avg:
        lacking += ("nll_loss",)  # which is its loss
    logged = [one for one in LOGGED if one not in lacking]
    # the losses of a --user-dir log what they will, and each model its entropies
    if loss._name in (FUSED, *LOSSES) and metric not in logged and not metric.startswith("entropy_"):
        raise UserError(f"{said}: validation has no such number with this loss; give one of {', '.join(logged)}")
    for option, there, numbers in (
        ("--eval-bleu", whole.task.eval_bleu, ("s_bleu", "d_bleu", "bleu")),
        ("--doc-attn-entropy", whole.task.doc_attn_entropy, (metric,) if metric.startswith("entropy_") else ()),
        ("--report-accuracy", accuracy, ("accuracy",)),
    ):
        if metric in numbers and not there:
            raise UserError(f"{said}: validation has it only with {option}; give it, too")
    if metric.startswith("word_") and (accuracy or getattr(loss, "ignore_prefix_size", 0)):
        raise UserError(f"{said}: validation lacks it with --report-accuracy or --ignore-prefix-size; leave these out")
    if metric in LOGGED and higher != (metric in HIGHER_IS_BETTER):
        what = (
            "leave --maximize-best-checkpoint-metric out" if higher else "give --maximize-best-checkpoint-metric, too"
        )
        raise UserError(f"{said}: the best model would be the worst; {what}")


def check_given(given: Mapping[str, Any], program: str, of_model: Collection[str] = ()) -> None:
    """Raise UserError for the first option that a program does not support.

    Args:
        given: options by name, with values that are not the default.
        of_model: names of options of an architecture.
    """
    for name, value in given.items():
        reason = _reason(name, value, program, name in of_model)
        if reason is not None:
            raise UserError(f"{option_of(name)}{'' if value is True else f' {value}'}: {reason}")


def option_of(name: str) -> str:
    """Return an option as it is typed."""
    return f"--{name.replace('_', '-')}"


def _reason(name: str, value: Any, program: str, of_model: bool) -> str | None:
    """Return why a program does not support an option; None if it does."""
    if not value and not isinstance(value, str) and name not in REFUSED:
        return None  # set by fairseq itself
    if name in ALLOWED and value == ALLOWED[name]:
        return None
    if name in REFUSED:
        return REFUSED[name]
    used = (TRAIN,) if of_model else USED_IN.get(name, PROGRAMS)
    if program not in used:
        programs = " and ".join(f"fairseq-{one}" for one in used)
        return f"is for {programs}, not for fairseq-{program}; leave it out"
    if name == "criterion" and value == RDROP:
        return f"doubles the batches of validation, too, which spoils its numbers; give {FUSED}"
    module = getattr(CRITERION_REGISTRY.get(str(value)), "__module__", "") if name == "criterion" else ""
    if module.startswith("fairseq.") and value not in LOSSES:
        return f"is for other models, or for more than pairs of documents; give {' or '.join((FUSED, *LOSSES))}"
    if name == "ddp_backend" and value in BACKENDS:
        return _NOT_SHARDED
    packages = SCORERS.get(str(value), ()) if name == "scoring" else PACKAGES.get(name, ())
    if packages and not any(map(importlib.util.find_spec, packages)):
        return f"the package {packages[0]} is not installed; install it, or leave the option out"
    return None


def _changed(whole: DictConfig) -> Iterator[tuple[str, Any]]:
    """Yield the options of fairseq's own sections and of the task whose values are not the default."""
    kinds = {field.name: field.type for field in fields(FairseqConfig)} | {"task": TranslationDocConfig}
    for section, kind in kinds.items():
        if is_dataclass(kind) and section in whole:
            for field in fields(kind):
                value = whole[section].get(field.name, field.default)
                link = isinstance(field.default, str) and field.default.startswith("${")
                if not (link or field.name.startswith("_") or field.default is MISSING) and value != field.default:
                    yield field.name, value
