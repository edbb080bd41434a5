"""How many source tokens there are for each target token, which decoding with windows has to know."""

from __future__ import annotations

import logging

import numpy as np
from omegaconf import DictConfig, OmegaConf, open_dict

from gtransformer.data.document_dataset import DocumentPairDataset

logger = logging.getLogger(__name__)


def length_ratio(documents: DocumentPairDataset) -> float:
    """Mean over instances of source tokens over target tokens, ``<s>`` and ``</s>`` counted on both sides."""
    return float(np.mean(documents.src_sizes / documents.tgt_sizes))


def wants_ratio(model: DictConfig) -> bool:
    """Whether a model that is to be trained has the option and was not given it."""
    return OmegaConf.is_config(model) and "length_ratio" in model and model.length_ratio is None


def set_ratio(model: DictConfig, documents: DocumentPairDataset) -> None:
    """Write it into the model's options, which fairseq saves in its checkpoints."""
    with open_dict(model):
        model.length_ratio = length_ratio(documents)
    logger.info("--length-ratio %.6f: mean over %d training instances", model.length_ratio, len(documents))
