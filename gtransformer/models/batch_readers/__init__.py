"""Systems that read whole batches: Document Flattening, attention between datapoints, mini-batch embedding."""

from gtransformer.models.batch_readers.docflat import AbdConfig, AbdModel, DocFlatConfig, DocFlatModel  # noqa: F401
from gtransformer.models.batch_readers.mbe import MbeConfig, MbeModel  # noqa: F401
