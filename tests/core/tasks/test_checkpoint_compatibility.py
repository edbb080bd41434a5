"""A training does not begin from a checkpoint that reads its text otherwise, whatever option names it."""

from __future__ import annotations

import ast
import math
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from omegaconf import OmegaConf

from gtransformer.errors import UserError
from gtransformer.tasks.checkpoint_compatibility import check_beginning
from gtransformer.tasks.finetuning import keep_given

LAST = "checkpoint_last.pt"
ENDS = {"positions": "sentence", "sentence_marks": "end", "output_words": 16}


@pytest.fixture
def begin(tmp_path):
    """Begins a training with a model's options from a checkpoint with others, named by an option, or from none."""

    def beginning(
        ours, theirs, naming=LAST, doc_mode="partial", system="gtransformer_base", reset=False, own=False, **of_task
    ):
        if not own:  # it would go before others
            (tmp_path / LAST).unlink(missing_ok=True)
        path = tmp_path / (LAST if naming == LAST else "other.pt")
        task = {"_name": "translation_doc", "decoder_start": "bos", "doc_mode": doc_mode}
        task |= {"source_lang": "en", "target_lang": "de"}
        torch.save({"cfg": {"model": {"_name": system, **theirs}, "task": task}, "model": {}}, path)
        if naming is None:
            path.unlink()
        options = {"finetune_from_model": None, "continue_once": None, "restore_file": LAST, "save_dir": str(tmp_path)}
        options["reset_optimizer"] = reset
        whole = OmegaConf.create({"checkpoint": options | ({} if naming in (LAST, None) else {naming: str(path)})})
        check_beginning(SimpleNamespace(_name=system, **ours), SimpleNamespace(**of_task), whole)

    return beginning


@pytest.mark.parametrize("naming", [LAST, "finetune_from_model", "restore_file"])
def test_marks_of_a_sentence_model_are_kept(begin, naming):
    begin(ENDS, ENDS, naming)
    for ours, words in (
        ({}, "trained with --positions sentence, this training is with --positions document; choose as there, or"),
        ({"positions": "sentence"}, "with --sentence-marks end, this training is with --sentence-marks both; .* again"),
        (ENDS | {"output_words": None}, "with --output-words 16, this training is without --output-words; "),
        (ENDS | {"output_words": 15}, "with --output-words 16, this training is with --output-words 15; "),
    ):
        with pytest.raises(UserError, match=words) as error:
            begin(ours, ENDS, naming)
        assert "\n" not in str(error.value)


def test_what_a_converted_model_computes_is_kept(begin):
    marian = {"sinusoids": "marian", "layer_norm_eps": 1e-6}
    begin(marian, marian, "finetune_from_model")
    begin({"sinusoids": "fairseq", "layer_norm_eps": 1e-5}, {}, "finetune_from_model")
    for key, other in (("sinusoids", "huggingface"), ("layer_norm_eps", 1e-5)):
        with pytest.raises(UserError, match=f"trained with --{key.replace('_', '-')} "):
            begin(marian | {key: other}, marian, "finetune_from_model")


def test_older_checkpoints_and_other_systems(begin):
    """They say nothing: the paper's positions, all marks, all words; a sentence model has any positions."""
    begin({"positions": "document", "sentence_marks": "both", "output_words": None}, {})
    with pytest.raises(UserError, match="trained with --positions document, this training is with --positions sent"):
        begin({"positions": "sentence"}, {}, "finetune_from_model")
    begin({"positions": "sentence"}, {}, "finetune_from_model", doc_mode="full")
    with pytest.raises(UserError, match="trained with --sentence-marks both, this training is with"):
        begin(ENDS, {}, "finetune_from_model", doc_mode="full")
    begin({}, ENDS, system="transformer")
    check_beginning(SimpleNamespace(), SimpleNamespace(), None)


def test_gates_that_training_could_never_open(begin):
    begin({"gate_bias": 7.0}, {})
    with pytest.raises(UserError, match="--gate-bias 1000: gates would stay shut, .* give 3"):
        begin({"gate_bias": 1e3}, {})


def test_neutral_gates_need_a_sentence_model_and_something_to_let_through(begin):
    layers = {f"{part}_ctxlayers": 1 for part in ("encoder", "decoder", "cross")}
    layers |= {"encoder_layers": 2, "decoder_layers": 2, "context_attention": "combined", "doc_mode": "partial"}
    bound = {"no_language_locality": False, "no_translation_locality": False}
    loads = {"load_partial": True, "load_partial_global_from_local": False}
    ours = {"neutral_gates": True, "sentence_model": None, **loads, **layers, **bound}
    begin(ours, {})  # resumed
    begin(ours, {}, "finetune_from_model")
    begin(ours | {"gate_bias": -3.0, "load_partial": False, "load_partial_global_from_local": True}, {}, "restore_file")
    for options, naming in ((ours, None), (ours | {"load_partial": False}, "finetune_from_model")):
        with pytest.raises(UserError, match="--neutral-gates: .* give one with --sentence-model, or"):
            begin(options, {}, naming)
    for change in ({"doc_mode": "full"}, {"context_attention": "global"}):
        with pytest.raises(UserError, match="--neutral-gates: no layer of this model has gates"):
            begin(ours | change, {}, "finetune_from_model")
        begin(ours | change | {"sentence_model": "model.pt"}, {}, "finetune_from_model")
    with pytest.raises(UserError, match="--gate-bias -4 with --neutral-gates: .* between -3 and 10"):
        begin(ours | {"gate_bias": -4.0}, {}, "finetune_from_model")


def test_a_mask_that_nobody_has_trained(begin):
    for trained in ("new", "top"):
        ours = ENDS | {"trained_parameters": trained}
        begin(ours, ENDS)
        begin({"trained_parameters": trained}, {}, doc_noise_mask=0.1)  # a sentence model of this package has it
        with pytest.raises(UserError, match="doc-noise-mask"):
            begin(ours, ENDS, doc_noise_mask=0.1)
    begin(ENDS | {"trained_parameters": "all"}, ENDS, doc_noise_mask=0.1)


@pytest.mark.parametrize("system", ["docflat_base", "mbe_base"])
def test_a_training_does_not_go_on_as_another_model(begin, system):
    """Where parameters do not show it, too; what may be another is a short list."""
    theirs = {"context_gate": "discrete", "gate_threshold": 0.5, "batch_vector_in": "both", "encoder_layers": 6}
    theirs |= {"dropout": 0.1, "doc_mode": "${task.doc_mode}", "group_attention": "packed"}
    same = theirs | {"gate_threshold": "0.5", "doc_mode": "full", "dropout": 0.3, "group_attention": "dense", "new": 1}
    begin(same, theirs, system=system)
    for name, value in (("context_gate", "continuous"), ("gate_threshold", 0.7), ("batch_vector_in", "encoder")):
        option = f"--{name.replace('_', '-')}"
        said = f"trained with {option} {theirs[name]}, this training is with {option} {value}; give what it was"
        for naming in (LAST, "restore_file"):
            with pytest.raises(UserError, match=said):
                begin(same | {name: value}, theirs, naming, system=system)
        begin(same | {name: value}, theirs, "finetune_from_model", system=system)  # as before: it has to fit
        begin(same | {name: value}, theirs, "restore_file", system=system, reset=True)  # fairseq's way to do the same
        with pytest.raises(UserError, match="to resume it, or another --save-dir"):
            begin(same | {name: value}, theirs, system=system, reset=True)
        with pytest.raises(UserError, match="to resume it, or it as --finetune-from-model"):
            begin(same | {name: value}, theirs, "restore_file", system=system)


def test_a_training_that_began_from_another_model_is_not_overwritten(begin, tmp_path):
    """By the command that began it. --finetune-from-model resumes, and so does --restore-file with the optimizer."""
    begin({}, {}, "restore_file", reset=True)
    (tmp_path / LAST).touch()
    for naming, reset in (("finetune_from_model", False), ("restore_file", False), ("restore_file", True)):
        with pytest.raises(UserError, match="--finetune-from-model") if reset else nullcontext():
            begin({}, {}, naming, reset=reset, own=True)


@pytest.mark.parametrize("option", ["reset_optimizer", "reset_dataloader", "restore_file"])
def test_a_start_that_is_named_twice_or_reset(tmp_path, option):
    path = tmp_path / "other.pt"
    torch.save({}, path)
    saved = {"finetune_from_model": str(path), "restore_file": LAST, "save_dir": str(tmp_path)}
    saved[option] = str(path) if option == "restore_file" else True
    with pytest.raises(UserError, match=f"--finetune-from-model .*--{option.replace('_', '-')}"):
        check_beginning(SimpleNamespace(), SimpleNamespace(), OmegaConf.create({"checkpoint": saved}))


def test_a_training_does_not_go_on_in_another_direction(begin):
    begin({}, {}, source_lang="en", target_lang="de")
    for naming in (LAST, "restore_file"):
        with pytest.raises(UserError, match="trained with --source-lang en, this training is with --source-lang de"):
            begin({}, {}, naming, source_lang="de", target_lang="en")


@pytest.mark.parametrize("naming", ["save_dir", "restore_file", "continue_once"])
def test_a_training_does_not_go_on_without_its_optimizer(tmp_path, naming):
    """It would make all updates once more, with another warm-up; a complete one makes none."""
    path = tmp_path / LAST
    options = {"save_dir": "nowhere", "restore_file": LAST, "continue_once": None, "finetune_from_model": None}
    options[naming] = str(tmp_path if naming == "save_dir" else path)
    whole = OmegaConf.create({"checkpoint": options, "optimization": {"stop_min_lr": -1.0}})
    empty = SimpleNamespace(), SimpleNamespace()
    state = {"optimizer_history": [{"num_updates": 7}]}
    torch.save(state | {"last_optimizer_state": {}}, path)
    check_beginning(*empty, whole)
    for without in (state, state | {"last_optimizer_state": None}):
        torch.save(without, path)
        with pytest.raises(UserError, match="--reset-optimizer"):
            check_beginning(*empty, whole)
    for section, option, value in (("optimization", "stop_min_lr", math.inf), ("checkpoint", "reset_optimizer", True)):
        changed = whole.copy()
        changed[section][option] = value
        check_beginning(*empty, changed)


@pytest.mark.parametrize("name", ["adam", "fused_adam", "adam_two_rates"])
def test_adam_has_the_settings_that_it_is_given(name):
    """fairseq restores those of the checkpoint and logs the new ones."""
    optimizer = {"_name": name, "adam_betas": "(0.9, 0.98)", "adam_eps": 1e-9, "weight_decay": 0.1}
    whole = OmegaConf.create({"optimizer": optimizer, "checkpoint": {"optimizer_overrides": "{'eps': 1e-7, 'lr': 3}"}})
    keep_given(whole)
    overrides = ast.literal_eval(whole.checkpoint.optimizer_overrides)
    assert overrides == {"betas": (0.9, 0.98), "eps": 1e-7, "weight_decay": 0.1, "lr": 3}
    whole.optimizer._name = "sgd"
    whole.checkpoint.optimizer_overrides = "{}"
    keep_given(whole)
    assert whole.checkpoint.optimizer_overrides == "{}"
