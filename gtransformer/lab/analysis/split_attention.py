"""Attention of a trained model on a prepared split: its entropy, and its share on the aligned sentence.

The share is that of Table 1 of Herold and Ney (2023): the attention to source sentence n while the model writes target
sentence n. For each token that the decoder reads for it, the weights on the source sentence's tokens (including ``<s>``
and ``</s>``) are summed. The sums are averaged over heads, tokens and layers. None of their systems has two attentions
to the source. Here group and global attention of G-Transformer have the weights of the gate of Eq. 10 by token (its
mean over channels), g and 1 - g, as in the layer's output.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from fairseq import utils
from fairseq.data import Dictionary, ListDataset
from torch import Tensor, nn
from torch.nn import functional

from gtransformer.data.group_tags import group_tags, pad_context, tag_of_newest
from gtransformer.errors import UserError
from gtransformer.evaluation.text_table import align
from gtransformer.lab.analysis.entropy import EntropyMeter
from gtransformer.lab.analysis.watching import AttentionSite, per_query, projections, watching
from gtransformer.modules.attention import MultiheadAttention, Pattern
from gtransformer.plugin.document_dataset import DocumentPairDataset
from gtransformer.search.generator import as_read
from gtransformer.tasks.generation import check_alone, translates_last_sentence_only
from gtransformer.tasks.loading import Loader
from gtransformer.tasks.trained import AS_IT_IS, load_trained
from gtransformer.tasks.translation_doc import TranslationDocTask


def load_for_analysis(prepared: Path, checkpoint: Path) -> tuple[nn.Module, TranslationDocTask]:
    """Return a trained model and its task over a prepared corpus. Raises UserError for a missing file."""
    if not checkpoint.is_file():
        raise UserError(f"{checkpoint}: no such file; train the model first")
    if not (prepared / "bin").is_dir():
        raise UserError(f"{prepared}: not a prepared corpus (no folder bin in it); make one with gtransformer prepare")
    return load_trained(checkpoint, data=str(prepared / "bin"), **AS_IT_IS)


def aligned_sentences(
    source: Tensor, target: Tensor, dictionaries: tuple[Dictionary, Dictionary], current: Tensor | None = None
) -> Tensor:
    """Return the aligned source sentence of each token of the decoder's input.

    Counted tokens are those that predict a sentence's words and its ``</s>``: its ``<s>`` and its words. ``</s>``
    itself predicts nothing of the sentence.

    Args:
        source, target: (batch, length) int64, the inputs of encoder and decoder, padded on either side.
        dictionaries: of source and target.
        current: (batch,) int64, the number of current sentences of each instance, which are the last ones on both
            sides. The context before them is not counted. None: all are current, and the n-th sentences are aligned.

    Returns:
        (tokens,) int64, for the target without padding as in ``Ragged``: sentences from 1; 0: not counted.
    """
    before, after = dictionaries
    tags = group_tags(target, after.bos(), after.pad())
    there = tag_of_newest(source, before.bos()).unsqueeze(1)
    found, counts = tags, target.ne(after.eos())
    if current is not None:
        written = tag_of_newest(target, after.bos()).unsqueeze(1)
        found = tags + there - written
        counts = counts & (tags > written - current.unsqueeze(1))
    return found.masked_fill(~counts | (found < 1) | (found > there), 0)[target.ne(after.pad())]


def query_shares(module: MultiheadAttention, x: Tensor, memory: Tensor, pattern: Pattern, sentences: Tensor) -> Tensor:
    """Return the share of each query's attention on one sentence.

    Args:
        module, x, memory, pattern: as from ``watching``.
        sentences: (Nq,) int64, the aligned sentence of the keys for each query, from 1; 0: none.

    Returns:
        (Nq, 2) float64: the share, mean over heads; and the share under uniform attention to the keys that the query
        may see. 0 for a query that sees nothing of the sentence.
    """
    tags = torch.from_numpy(pattern.reach.keys.tag).to(x.device)

    def shares(weights: Tensor, allowed: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
        own = tags[keys].unsqueeze(1) == sentences[queries].unsqueeze(2)
        flat = (allowed & own).sum(dim=-1, dtype=weights.dtype) / allowed.sum(dim=-1).clamp(min=1)
        return torch.stack([(weights.mean(dim=1) * own).sum(dim=-1), flat], dim=-1)

    q, k, relative = projections(module, x, memory, pattern.reach)
    return per_query(q, k, pattern, 2, shares, relative).double()


@dataclass
class ShareMeter:
    """Accumulator of the shares of all cross-attention over batches.

    Attributes:
        queries: number of counted tokens, the same in each layer.
        attentions: sums over them for each attention, (3,) float64: share, flat, number.
        layers: the same for each layer, its attentions combined, (4,): share, flat, gate (nan without one), number.
    """

    queries: int = 0
    attentions: dict[AttentionSite, Tensor] = field(default_factory=dict)
    layers: dict[int, Tensor] = field(default_factory=dict)

    @contextmanager
    def on(self, model: nn.Module, sentences: Tensor) -> Iterator[None]:
        """Measure while the model runs once, on a batch.

        ``sentences`` (tokens,): the batch's result of ``aligned_sentences``.
        """
        counted = sentences > 0
        found: dict[int, dict[nn.Module, list[Tensor]]] = {}  # by layer and module, (counted, 2) of each scope
        gates: dict[int, Tensor] = {}  # (counted, 1)

        @torch.no_grad()
        def see(site: AttentionSite, module: MultiheadAttention, x: Tensor, memory: Tensor, pattern: Pattern) -> None:
            if site.part != "cross":
                return
            shares = query_shares(module, x, memory, pattern, sentences)[counted]
            found.setdefault(site.layer, {}).setdefault(module, []).append(shares)
            _add(self.attentions, site, shares)

        def see_gate(part: str, layer: int, values: Tensor) -> None:
            if part == "cross":
                gates[layer] = values.detach()[counted].double().mean(dim=-1, keepdim=True)

        with watching(model, see, see_gate):
            yield
        self.queries += int(counted.sum())
        for layer, modules in found.items():
            # Several scopes of a module are concatenated, with equal widths.
            shares = [torch.stack(scopes).mean(dim=0) for scopes in modules.values()]
            gate = gates.get(layer)
            if gate is None:
                gate, together = torch.full_like(shares[0][:, :1], torch.nan), torch.stack(shares).mean(dim=0)
            else:
                group, whole = shares
                together = gate * group + (1 - gate) * whole
            _add(self.layers, layer, torch.cat([together, gate], dim=1))

    def to_json(self) -> dict:
        """Return, for a result file, the mean over layers, each layer, and each attention; shares are from 0 to 1.

        Raises UserError if nothing has been measured.
        """
        if not self.queries:
            raise UserError("no target token has been measured: all instances were left out")
        layers = {layer: sums[:-1] / sums[-1] for layer, sums in sorted(self.layers.items())}
        mean, flat, _ = torch.stack(list(layers.values())).mean(dim=0).tolist()
        return {
            "queries": self.queries,
            "mean": round(mean, 6),
            "flat": round(flat, 6),
            "layers": [{"layer": layer, **_record(values)} for layer, values in layers.items()],
            "attentions": [
                {"reach": site.reach, "layer": site.layer, **_record(sums[:-1] / sums[-1])}
                for site, sums in sorted(self.attentions.items(), key=lambda item: (item[0].reach, item[0].layer))
            ],
        }


def _add(sums: dict, key: object, values: Tensor) -> None:
    """Return the sums of rows, (n, numbers) float64, on the host, and their number."""
    total = functional.pad(values, (0, 1), value=1.0).sum(dim=0).cpu()
    sums[key] = sums[key] + total if key in sums else total


def _record(means: Tensor) -> dict[str, float | None]:
    """Return share, flat and, if there are three means, the gate."""
    values = [None if math.isnan(value) else round(value, 6) for value in means.tolist()]
    return dict(zip(("share", "flat", "gate"), values, strict=False))


def share_table(result: dict) -> str:
    """Return ``ShareMeter.to_json`` as lines: each attention, the gated layers, and the mean."""
    rows = [["reach", "layer", "flat", "share"]]
    rows += [_row(one["reach"], str(one["layer"]), one) for one in result["attentions"]]
    rows += [_row("gated", str(one["layer"]), one) for one in result["layers"] if one["gate"] is not None]
    rows.append(_row("mean", "", {"flat": result["flat"], "share": result["mean"]}))
    return f"attention on the aligned source sentence (%)\n{align(rows)}"


def _row(name: str, layer: str, values: dict) -> list[str]:
    return [name, layer, *(f"{100 * values[key]:.2f}" for key in ("flat", "share"))]


@torch.no_grad()
def measure(
    prepared: Path,
    checkpoint: Path,
    split: str,
    per_head: bool,
    max_tokens: int,
    cpu: bool = False,
    skip_too_long: bool = False,
    translations: Sequence[Sequence[str]] | None = None,
) -> tuple[EntropyMeter, ShareMeter]:
    """Run the model on a split in evaluation mode, and measure.

    Args:
        per_head: entropies of each head.
        translations: documents of sentences in BPE that the decoder reads instead of the references. Window attention
            is then aligned as in translation, else as for a known target.

    Raises UserError for a missing file, another model, a split without target or instances, or an instance with more
    tokens than positions, unless ``skip_too_long``.
    """
    empty = next((file for file in sorted((prepared / "bin").glob(f"{split}.*.bin")) if not file.stat().st_size), None)
    if empty is not None:
        raise UserError(f"{empty}: no text in it; give another split")
    model, task = load_for_analysis(prepared, checkpoint)
    check_alone(model, str(checkpoint))
    on_gpu = torch.cuda.is_available() and not cpu
    model = model.cuda() if on_gpu else model
    entropy, share = EntropyMeter(per_head), ShareMeter()
    with entropy.on(model):
        task.load_dataset(split)
        dataset = task.dataset(split)
        if translations is not None:
            dataset = with_translations(task, dataset, translations)
        elif dataset.tgt is None:
            raise UserError(f"{prepared}: split {split!r} has no target side; give --translations, or another split")
        spans, current = dataset.spans(), None
        if spans and spans[0].current is not None:  # None for stored instances
            current = torch.tensor([span.current[1] for span in spans])
        batches = task.get_batch_iterator(
            dataset,
            max_tokens=max_tokens,
            max_positions=utils.resolve_max_positions(task.max_positions(), model.max_positions()),
            ignore_invalid_inputs=skip_too_long,
        ).next_epoch_itr(shuffle=False)
        for batch in batches:
            batch = utils.move_to_cuda(batch) if on_gpu else batch
            inputs = as_read(batch, model)["net_input"]
            source, before = inputs["src_tokens"], task.source_dictionary
            if translates_last_sentence_only(model):  # context sentences are not in its cross-attention
                source = pad_context(source, before.bos(), before.pad())
            sentences = aligned_sentences(
                source,
                inputs["prev_output_tokens"],
                (before, task.target_dictionary),
                None if current is None else current.to(batch["id"].device)[batch["id"]],
            )
            with share.on(model, sentences):
                run(model, inputs, decoding=translations is not None)
    return entropy, share


def run(model: nn.Module, inputs: dict, decoding: bool) -> None:
    """Run the full pass; ``decoding``: as in token-by-token search, where nothing depends on the target's length."""
    if not decoding:
        model(**inputs)
        return
    read = {name: value for name, value in inputs.items() if name != "prev_output_tokens"}
    memory = model.encoder(**read)["memory"][0]
    layout = model.decoder.layout(inputs["prev_output_tokens"])
    layout.whole = False
    with model.decoder.autocast():
        model.decoder.extract_ragged(inputs["prev_output_tokens"], layout, memory)


def with_translations(
    task: TranslationDocTask, dataset: DocumentPairDataset, documents: Sequence[Sequence[str]]
) -> DocumentPairDataset:
    """Return the same instances with these sentences as their target side, including context.

    Raises UserError for a translation with pieces that are not in the dictionary.
    """
    dictionary, rows = task.target_dictionary, []
    for span in dataset.spans():
        tokens: list[int] = []
        for sentence in documents[span.document][span.first_sentence : span.first_sentence + span.sentences]:
            pieces = sentence.split()
            unknown = next((piece for piece in pieces if piece not in dictionary), None)
            if unknown is not None:
                raise UserError(
                    f"a translation has the piece {unknown!r}, which is not in the model's dictionary; give "
                    "translations by this model"
                )
            tokens += [dictionary.bos(), *map(dictionary.index, pieces), dictionary.eos()]
        rows.append(torch.tensor(tokens))
    target = ListDataset(rows, np.array([len(row) for row in rows]))
    loader = Loader(task.options, task.source_dictionary, dictionary, task.language, task.langs)
    return loader.pairs(dataset.src, target, dropout=False, shuffle=False, spans=dataset.spans)


def entropy_table(records: Sequence[dict]) -> str:
    """Return a table with a line for each layer."""
    rows = [["part", "reach", "layer", "flat", "entropy (bits)"]]
    for one in records:
        bits = " ".join(f"{value:7.4f}" for value in one["bits"])
        rows.append([one["part"], one["reach"], str(one["layer"]), f"{one['flat']:.4f}", bits])
    return align(rows)
