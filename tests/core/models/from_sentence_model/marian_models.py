"""Random models as Marian saves them, with vocabularies of SentencePiece, converted; and the
reference of each.
"""

from __future__ import annotations

import json
import random
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

import torch
from sentencepiece import SentencePieceProcessor
from torch import Tensor

from gtransformer.evaluation.sentence_scores import Request, SentenceScorer
from gtransformer.plugin.task import TranslationDocTask
from gtransformer.search.sequential import SequentialGenerator
from gtransformer.search.strategies import Strategy
from gtransformer.translation.convert import convert
from tests.core import marian_numpy as marian
from tests.saved_model import on_cpu
from tests.support import pad_batch, task_config, train_pieces, write_lines

SEARCH = {
    "beam": 1,
    "min_len": 0,
    "max_len_a": 0.0,
    "max_len_b": 7,
}  # Marian has sentences without a word, too
TOKENS = (">>de<<", ">>fr_BE<<")  # of models for several target languages


def train_vocab(path: Path, size: int, seed: int, symbols: tuple[str, ...] = ()) -> Path:
    """Write a SentencePiece model of a made-up language, ``</s>`` and ``<unk>`` first as in
    Marian's.
    """
    draw = random.Random(seed)
    words = ["".join(draw.choices("abcdefgh", k=draw.randint(2, 5))) for _ in range(40)]
    lines = (" ".join(draw.choices(words, k=6)) for _ in range(200))
    ids = {"eos_id": 0, "unk_id": 1, "bos_id": -1, "pad_id": -1}
    return train_pieces(path, lines, size, user_defined_symbols=list(symbols), **ids)


def words_of(path: Path) -> list[str]:
    processor = SentencePieceProcessor(model_file=str(path))
    return [processor.id_to_piece(number) for number in range(processor.get_piece_size())]


@dataclass
class Saved:
    """A model file, the reference of what it holds, and the words of both sides in the order of its
    rows.
    """

    path: Path
    reference: marian.MarianReference
    source: list[str]
    target: list[str]


def save(
    folder: Path,
    form: str = "npz",
    embeddings: str = "all",
    numbered: bool = False,
    symbols=(),
    **options,
) -> Saved:
    """Write a random model and its vocabularies.

    Args:
        form: npz, bin, or int8.
        numbered: vocabularies are YAML files with an order of their own, and text is cut by
            source.spm, target.spm.
        symbols: further pieces of the source.
    """
    folder.mkdir(parents=True, exist_ok=True)
    one = embeddings in ("all", "inputs")
    if numbered:
        cutters = [
            train_vocab(folder / f"{side}.spm", 46, 1, symbols) for side in ("source", "target")
        ]
        vocabularies = []
        for seed, cutter in enumerate(cutters):
            words = [*words_of(cutter)[2:], '"', "#", "null", "1e5", "\\", "a: b"]
            random.Random(0 if one else seed).shuffle(words)
            words = ["</s>", "<unk>", *words, *(["no"] * (seed and not one))]
            vocabularies.append(words)
            lines = (
                f"{json.dumps(word, ensure_ascii=False)}: {row}" for row, word in enumerate(words)
            )
            write_lines(folder / f"{('src', 'trg')[seed]}.vocab.yml", lines)
    elif one:
        vocabularies = [words_of(train_vocab(folder / "vocab.ende.spm", 46, 1, symbols))] * 2
    else:
        source = train_vocab(folder / "vocab.src.spm", 46, 46, symbols)
        target = train_vocab(folder / "vocab.trg.spm", 52, 52)
        vocabularies = [words_of(source), words_of(target)]
        assert len(vocabularies[0]) != len(vocabularies[1])
    sizes = tuple(map(len, vocabularies))
    parameters, config = marian.random_model(embeddings=embeddings, vocabularies=sizes, **options)
    if (
        "decoder_ff_logit_out_b" in parameters
    ):  # <unk> would often be the best word, but Marian never writes it
        parameters["decoder_ff_logit_out_b"][0, marian.UNK] += 4
    path = folder / ("model.npz" if form == "npz" else "model.bin")
    if form == "npz":
        marian.write_npz(path, parameters, config)
        parameters, config = marian.read_npz(path)
    else:
        marian.write_binary(path, parameters, config, int8=form == "int8")
        parameters, config = marian.read_binary(path)
    return Saved(path, marian.MarianReference(parameters, config), *vocabularies)


class Converted:
    """A converted model in float64; its tokens are rows of Marian's tables.

    Args:
        saved: what is converted.
        folder: where to; default beside it.
        pair: its languages.
        more: options of ``convert``.
    """

    def __init__(
        self, saved: Saved, folder: Path | None = None, pair: tuple[str, str] = ("en", "de"), **more
    ):
        self.folder = folder or saved.path.parent / "converted"
        self.manifest = convert(saved.path, self.folder, *pair, SEARCH, {}, **more)
        self.translator = on_cpu(self.folder)
        self.engine = self.translator.engine
        self.model = self.engine.model.double()
        sides = {"source_lang": pair[0], "target_lang": pair[1], "langs": ",".join(pair)}
        self.task = TranslationDocTask.setup_task(task_config(data=str(self.folder), **sides))
        self.source = self._indices(self.engine.source, saved.source)
        self.target = self._indices(self.engine.target, saved.target)
        self.row = {index: row for row, index in enumerate(self.target)}

    @staticmethod
    def _indices(dictionary, words: list[str]) -> list[int]:
        """The entry of the dictionary for each row."""
        found = [dictionary.index(word) for word in words]
        # What no dictionary of fairseq can hold is there, too, under another name.
        found = [
            number + 4 - 2 if index == dictionary.unk() else index
            for number, index in enumerate(found)
        ]
        found[marian.EOS], found[marian.UNK] = dictionary.eos(), dictionary.unk()
        assert len(set(found)) == len(words)
        return found

    def scores(
        self, documents: list[list[tuple[list[int], list[int]]]], model=None
    ) -> list[list[list[float]]]:
        """Log probabilities of each document's target sentences, word by word."""
        requests = [
            Request(*([[table[row] for row in pair[side]] for pair in document] for side,
            table in enumerate(
                (self.source, self.target))))
            for document in documents
        ]  # fmt: skip
        return SentenceScorer(
            model or self.model, self.engine.source, self.engine.target
        ).score_tokens(requests)

    def batch(self, documents: list[list[list[int]]]) -> dict[str, Tensor]:
        """The encoder's input for documents of source sentences."""
        bos, eos = self.engine.source.bos(), self.engine.source.eos()
        rows = [
            [t for one in document for t in (bos, *(self.source[row] for row in one), eos)]
            for document in documents
        ]
        padded = pad_batch(rows, self.engine.source.pad(), left=True)
        return {"src_tokens": padded, "src_lengths": padded.ne(self.engine.source.pad()).sum(dim=1)}

    def sentences(self, tokens: list[int]) -> list[list[int]]:
        """What a hypothesis says, ``words </s> <s> words </s> [de]``, as rows, each sentence with
        its ``</s>``.
        """
        found, bos = [[]], self.engine.target.bos()
        for token in tokens[:-1]:
            found.append([]) if token == bos else found[-1].append(self.row[token])
        return found

    def search(
        self,
        documents: list[list[list[int]]],
        model=None,
        strategy: Strategy | None = None,
        **options,
    ):
        """The best hypothesis of each document of source sentences, all in one batch: (sentences as
        rows, score).
        """
        task, model, known = (
            self.task,
            model or self.model,
            {"unkpen": self.translator.options.unkpen, **SEARCH, **options},
        )
        generator = task.build_generator([model], Namespace(**known))
        if strategy is not None:
            generator = SequentialGenerator(generator, strategy)
        sample = {"id": torch.arange(len(documents)), "net_input": self.batch(documents)}
        found = [nbest[0] for nbest in task.inference_step(generator, [model], sample)]
        return [(self.sentences(one["tokens"].tolist()), float(one["score"])) for one in found]


def random_rows(draw: random.Random, words: int) -> list[int]:
    """A sentence of words of the table, ``</s>`` left out."""
    return [draw.randrange(1, words) for _ in range(draw.randint(1, 6))]
