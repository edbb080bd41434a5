"""The order of batches from epoch to epoch."""

from __future__ import annotations

from omegaconf import DictConfig

from gtransformer.errors import UserError


def check_order_options(whole: DictConfig | None) -> None:
    """Raise UserError for another seed of batches that are made once: it matters only to a run that is resumed."""
    if whole is not None and whole.dataset.update_ordered_indices_seed and not whole.dataset.update_epoch_batch_itr:
        raise UserError(
            "--update-ordered-indices-seed changes nothing by itself but the batches of a resumed run; give "
            "--update-epoch-batch-itr, too, or leave it out"
        )
