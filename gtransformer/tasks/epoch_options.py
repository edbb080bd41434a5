"""Options of fairseq that fairseq-fixed 0.12.3.1 does not keep to from epoch to epoch."""

from __future__ import annotations

from omegaconf import DictConfig

from gtransformer.errors import UserError


def check_order_options(whole: DictConfig | None) -> None:
    """Raise UserError for an order of batches that would not be the one asked for.

    The data loader is made once, with the shuffling of its first epoch (``--curriculum`` would never end), and the
    batches, too (another seed for them matters only to a run that is resumed, which then has others).
    """
    if whole is None:
        return
    dataset = whole.dataset
    if dataset.curriculum > 0:
        raise UserError(
            f"--curriculum {dataset.curriculum}: fairseq-fixed would shuffle in no epoch, not only in the first "
            f"{dataset.curriculum}; leave it out"
        )
    if dataset.update_ordered_indices_seed and not dataset.update_epoch_batch_itr:
        raise UserError(
            "--update-ordered-indices-seed changes nothing by itself but the batches of a resumed run; give "
            "--update-epoch-batch-itr, too, or leave it out"
        )
