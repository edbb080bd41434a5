"""Batches of consecutive sentences translated together, each behind first translations of its context.

The second of two passes (Wu et al. 2023, section 3.5): what stands in front of a target sentence was written by another
model. Where the decoder reads the other sentences of the batch, it reads what they have so far
(``models/batch_readers/step.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from gtransformer.errors import UserError
from gtransformer.search.generator import DocumentGenerator
from gtransformer.search.walk import ForcingGenerator

Contexts = Callable[[dict], Sequence[Tensor]]


class SecondPass(ForcingGenerator):
    """A generator, called as fairseq's, of batches whose instances each end in the one sentence to be translated.

    Args:
        generator: what searches each batch.
        contexts: of a batch, what each of its translations begins with: ``<s> words </s>`` for each sentence of its
            context, (length,) int64, perhaps none. None: none of any has.
        way: what asks for it, for messages.

    Raises UserError for options of search that go through fairseq's loop, and for models that read no contexts.
    And, without contexts, for documents that are to take turns.
    """

    def __init__(self, generator: DocumentGenerator, contexts: Contexts | None, way: str = "--first-pass"):
        super().__init__(generator, way)
        if contexts is not None and self.sees_one_sentence:
            raise UserError(
                f"{way}: the decoder of this model sees the current sentence alone and reads no first translations; "
                "leave it out"
            )
        if contexts is None and generator.documents_at_once:
            raise UserError(f"{way}: a batch is translated as one; leave --documents-at-once out")
        self.contexts, self.nbest = contexts, generator.nbest

    @torch.no_grad()
    def generate(self, models, sample: dict, prefix_tokens=None, constraints=None, **unused) -> list[list[dict]]:
        """fairseq's hypotheses of the last sentence of every instance: ``words </s> [de]``."""
        if prefix_tokens is not None or constraints is not None:
            raise UserError(f"{self.way}: a batch is translated as one; leave --prefix-size and --constraints out")
        inputs = {name: value for name, value in sample["net_input"].items() if name != "prev_output_tokens"}
        tokens = inputs["src_tokens"]
        contexts = [tokens.new_zeros(0)] * len(tokens) if self.contexts is None else self.contexts(sample)
        forced = [one.to(tokens.device) for one in contexts]
        return self.generator.behind(inputs, forced, torch.ones(len(tokens), dtype=torch.int64, device=tokens.device))
