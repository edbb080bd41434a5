"""CTranslate2, an engine for sentence Transformers. It is optional, and imported only here."""

from __future__ import annotations

from collections.abc import Sequence
from tempfile import TemporaryDirectory

import torch
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerModelBase


class SentenceTranslator:
    """A fairseq Transformer of post-norm layers in CTranslate2, on the CPU. It reads ``<s> words </s>`` and goes on
    from ``<s>``, as the sentence Transformers of this package do.

    Args:
        model: the model, with sinusoidal positions.
        dictionary: of both languages.
        heads: of all its attention.
        precision: float32 or int8.
    """

    def __init__(self, model: TransformerModelBase, dictionary: Dictionary, heads: int, precision: str):
        from ctranslate2 import Translator
        from ctranslate2.converters import fairseq as weights
        from ctranslate2.specs import TransformerSpec

        symbols = ["<blank>" if symbol == "<pad>" else symbol for symbol in dictionary.symbols]
        layers = len(model.encoder.layers), len(model.decoder.layers)
        spec = TransformerSpec.from_config(layers, heads, pre_norm=False)
        with torch.no_grad():
            weights.set_transformer_encoder(spec.encoder, model.encoder)
            weights.set_transformer_decoder(spec.decoder, model.decoder)
        spec.register_source_vocabulary(symbols)
        spec.register_target_vocabulary(symbols)
        spec.config.decoder_start_token = spec.config.bos_token
        spec.config.add_source_bos = spec.config.add_source_eos = True
        spec.validate()
        spec.optimize()
        with TemporaryDirectory() as folder:
            spec.save(folder)
            self.translator = Translator(folder, compute_type=precision, intra_threads=torch.get_num_threads())

    def translate(self, sentences: Sequence[Sequence[str]], beam: int, length: int | None = None) -> list[list[str]]:
        """Translate sentences, lists of words, as one batch, into ``length`` words each if that is given."""
        limits = {} if length is None else {"max_decoding_length": length, "min_decoding_length": length}
        found = self.translator.translate_batch(sentences, beam_size=beam, **limits)
        return [one.hypotheses[0] for one in found]
