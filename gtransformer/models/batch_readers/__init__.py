"""Systems that read whole batches: Document Flattening, attention between datapoints, mini-batch
embedding.
"""

from gtransformer.models.batch_readers.docflat import (  # noqa: F401
    AbdConfig,
    AbdModel,
    DocFlatConfig,
    DocFlatModel,
)
from gtransformer.models.batch_readers.mbe import MbeConfig, MbeModel  # noqa: F401
