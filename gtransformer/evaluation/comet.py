"""COMET (Rei et al. 2020), an optional extra: a learned metric that also needs the source; by sentence, or with
context.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence

from gtransformer.errors import UserError
from gtransformer.evaluation.metrics import SENTENCES, Score
from gtransformer.evaluation.segments import Segments
from gtransformer.optional import hide_broken
from gtransformer.preprocess.plain_text import Documents

DEFAULT_MODEL = "Unbabel/wmt22-comet-da"


def load_comet(model: str = DEFAULT_MODEL):
    """Return a COMET model by name (downloaded at first use) or from a checkpoint file.

    Raises UserError, with advice, if the package is not installed or the model cannot be loaded.
    """
    hide_broken("torchaudio")  # COMET imports transformers
    try:
        from comet import download_model, load_from_checkpoint
    except ImportError as error:
        raise UserError(
            f"COMET is not installed ({error}); install it with: pip install '.[comet]', or leave out --comet"
        ) from None
    try:
        path = model if model.endswith(".ckpt") else download_model(model)
        return load_from_checkpoint(path)
    except Exception as error:  # the hub, the network and the file raise many kinds
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(
            f"the COMET model {model} cannot be loaded ({reason}); check the name and the connection, or give the path "
            "of a .ckpt file with --comet-model"
        ) from None


def comet_of_segments(loaded, model: str, sources: Documents, segments: Segments, context: int = 0) -> Score:
    """Return the mean COMET score of a translation's sentences. Uses a GPU if there is one.

    With ``context``, each sentence follows that many previous sentences of its document. On the target side these are
    the reference's, for translation and reference alike. Only the last sentence is pooled (Vernikos et al. 2022).

    Args:
        sources: the documents that were translated.

    Raises UserError for a model that does not support context.
    """
    import torch

    pairs, given = segments.sentences, [sources[document][position - 1] for document, position in segments.positions]
    sides = [given, pairs.hypotheses, pairs.references]
    if context:
        # The model pools the last sentence of a text only, if it supports that; its separator joins sentences.
        getattr(loaded, "enable_context", lambda: None)()
        if not getattr(loaded, "use_context", False):
            raise UserError(
                f"the COMET model {model} takes no context: that needs average pooling, as Unbabel/wmt22-comet-da has "
                "it, and a version of unbabel-comet with enable_context; choose another with --comet-model, or leave "
                "out --comet-context"
            )
        mark = loaded.encoder.tokenizer.sep_token
        befores = given, pairs.references, pairs.references
        sides = [
            behind(side, before, segments.positions, context, mark) for side, before in zip(sides, befores, strict=True)
        ]
    data = [{"src": source, "mt": ours, "ref": reference} for source, ours, reference in zip(*sides, strict=True)]
    output = loaded.predict(data, batch_size=16, gpus=int(torch.cuda.is_available()), progress_bar=False)
    try:
        version = importlib.metadata.version("unbabel-comet")
    except importlib.metadata.PackageNotFoundError:
        version = "unknown"
    signature = f"comet:{model}|version:{version}" + (f"|context:{context}|of:reference" if context else "")
    return Score(float(output.system_score), segments.signed(signature, SENTENCES), len(data))


def behind(
    sentences: Sequence[str], before: Sequence[str], positions: Sequence[tuple[int, int]], most: int, mark: str
) -> list[str]:
    """Return each sentence with up to ``most`` previous sentences of its document from ``before``, joined by ``mark``.

    ``positions[i]`` is (document, position) of sentence i. Sentences that are left out of the segments are not context.
    """
    known = dict(zip(positions, before, strict=True))
    texts = []
    for sentence, (document, position) in zip(sentences, positions, strict=True):
        wanted = ((document, number) for number in range(position - most, position))
        texts.append(f" {mark} ".join([*(known[one] for one in wanted if one in known), sentence]))
    return texts
