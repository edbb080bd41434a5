"""Systems that read whole batches: Document Flattening, attention between datapoints, mini-batch embedding."""

from gtransformer.models.batch_readers.docflat import (
    AbdConfig,
    AbdModel,
    BatchAttentionConfig,
    DocFlatConfig,
    DocFlatModel,
)
from gtransformer.models.batch_readers.mbe import MbeConfig, MbeModel

__all__ = ["AbdConfig", "AbdModel", "BatchAttentionConfig", "DocFlatConfig", "DocFlatModel", "MbeConfig", "MbeModel"]
