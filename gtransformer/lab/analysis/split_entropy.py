"""Attention of a trained model on a split of a prepared corpus: its entropy, and its share on the aligned sentence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from fairseq import utils
from fairseq.data import ListDataset
from torch import nn

from gtransformer.data.document_dataset import DocumentPairDataset
from gtransformer.data.group_tags import without_context
from gtransformer.errors import UserError
from gtransformer.lab.analysis.share import ShareMeter, aligned_sentences
from gtransformer.models.common.entropy import EntropyMeter
from gtransformer.tasks.generation import check_alone, translates_last_only
from gtransformer.tasks.loading import Loader
from gtransformer.tasks.trained import AS_IT_IS, load_trained
from gtransformer.tasks.translation_doc import TranslationDocTask


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
    """Run the model over a split, in evaluation mode, and measure.

    Args:
        per_head: entropies of each head.
        translations: documents of sentences in BPE that the decoder reads in place of the references, seeing what it
            sees while it translates (window attention aligned as then); else what it sees of a target that is known.

    Raises UserError for a missing file, another model, a split without a target or without instances, or an instance
    that does not fit the model's positions, unless ``skip_too_long``.
    """
    if not checkpoint.is_file():
        raise UserError(f"{checkpoint}: no such file; train the model first")
    if not (prepared / "bin").is_dir():
        raise UserError(f"{prepared}: not a prepared corpus (no folder bin in it); make one with scripts/prepare.sh")
    empty = next((file for file in sorted((prepared / "bin").glob(f"{split}.*.bin")) if not file.stat().st_size), None)
    if empty is not None:
        raise UserError(f"{empty}: holds no text; give another split")
    model, task = load_trained(checkpoint, data=str(prepared / "bin"), **AS_IT_IS)
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
        current = current_sentences(dataset)
        batches = task.get_batch_iterator(
            dataset,
            max_tokens=max_tokens,
            max_positions=utils.resolve_max_positions(task.max_positions(), model.max_positions()),
            ignore_invalid_inputs=skip_too_long,
        ).next_epoch_itr(shuffle=False)
        for batch in batches:
            batch = utils.move_to_cuda(batch) if on_gpu else batch
            inputs = batch["net_input"]
            source, before = inputs["src_tokens"], task.source_dictionary
            if translates_last_only(model):  # what is beside the sentence is in no cross-attention to it
                source = without_context(source, before.bos(), before.pad())
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
    """The full pass; ``decoding``: as token by token, where nothing may depend on the target's length."""
    if not decoding:
        model(**inputs)
        return
    memory = model.encoder(inputs["src_tokens"], inputs["src_lengths"])["memory"][0]
    layout = model.decoder.layout(inputs["prev_output_tokens"])
    layout.whole = False
    with model.decoder.autocast():
        model.decoder.extract_ragged(inputs["prev_output_tokens"], layout, memory)


def current_sentences(dataset: DocumentPairDataset) -> torch.Tensor | None:
    """(instances,) int64, how many sentences of each instance are current; None where instances are as stored."""
    places = dataset.places()
    if not places or places[0].current is None:
        return None
    return torch.tensor([place.current[1] for place in places])


def with_translations(
    task: TranslationDocTask, dataset: DocumentPairDataset, documents: Sequence[Sequence[str]]
) -> DocumentPairDataset:
    """The same instances with these sentences as their target side, context included.

    Raises UserError for a translation with pieces that the dictionary does not have.
    """
    dictionary, rows = task.target_dictionary, []
    for place in dataset.places():
        tokens: list[int] = []
        for sentence in documents[place.document][place.first_sentence : place.first_sentence + place.sentences]:
            pieces = sentence.split()
            unknown = next((piece for piece in pieces if piece not in dictionary), None)
            if unknown is not None:
                raise UserError(
                    f"a translation has the piece {unknown!r}, which the model's dictionary does not have; give "
                    "translations by this model"
                )
            tokens += [dictionary.bos(), *map(dictionary.index, pieces), dictionary.eos()]
        rows.append(torch.tensor(tokens))
    target = ListDataset(rows, np.array([len(row) for row in rows]))
    loader = Loader(task.cfg, task.source_dictionary, dictionary, task.language, task.langs)
    return loader.pairs(dataset.src, target, dropout=False, shuffle=False, places=dataset.places)


def table(records: Sequence[dict]) -> str:
    """A line for each layer."""
    lines = ["part     reach   layer    flat  entropy (bits)"]
    for one in records:
        bits = " ".join(f"{value:7.4f}" for value in one["bits"])
        lines.append(f"{one['part']:8} {one['reach']:7} {one['layer']:4d}  {one['flat']:7.4f}  {bits}")
    return "\n".join(lines)
