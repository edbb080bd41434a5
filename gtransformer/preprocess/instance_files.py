"""Instance files and their sidecar from BPE text in the raw corpus format."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from gtransformer.data.sidecar import Sidecar
from gtransformer.errors import UserError, cli_main
from gtransformer.files import atomic_write, read_lines
from gtransformer.preprocess.corpus import DOCUMENT, is_document_mark, read_documents
from gtransformer.preprocess.instances import MARKS, document_instances, instance_line
from gtransformer.preprocess.parallel import progress


@dataclass
class InstanceReport:
    """Counts of one split: a line of the paper's Table 1 and what was out of the ordinary.

    Tokens are BPE tokens without ``<s>`` and ``</s>``; ``target_tokens`` is 0 where there is no target.
    """

    sentences: int = 0
    documents: int = 0
    instances: int = 0
    source_tokens: int = 0
    target_tokens: int = 0
    sentences_over_instance_limit: int = 0
    dropped_too_long: int = 0
    without_source: int = 0

    def summary(self) -> str:
        """One line for the terminal."""
        number = max(1, self.instances)
        target = f" and {self.target_tokens / number:.1f}" if self.target_tokens else ""
        return (
            f"{self.sentences} sentences in {self.documents} documents make {self.instances} instances of "
            f"{self.sentences / number:.1f} sentences and {self.source_tokens / number:.1f}{target} tokens; "
            f"{self.sentences_over_instance_limit} sentences over the instance limit"
        )


def read_source(path: str | Path) -> Iterator[list[tuple[str, str]]]:
    """Documents of text that has no target, as (sentence, "") pairs. Raises UserError if ``<d>`` does not open it."""
    document: list[tuple[str, str]] | None = None
    for number, line in enumerate(read_lines(path), 1):
        if is_document_mark(line):
            if document:
                yield document
            document = []
        elif document is None:
            raise UserError(f"{path}, line {number}: a document must open the file; put a line {DOCUMENT} before this")
        else:
            document.append((line, ""))
    if document:
        yield document


def write_instances(
    source: str | Path,
    target: str | Path | None,
    output: str | Path,
    split: str,
    langs: tuple[str, str],
    max_tokens: int = 512,
    max_sents: int | None = None,
    max_sentence_tokens: int | None = None,
    total: int | None = None,
) -> InstanceReport:
    """Write ``output/{split}.{lang}`` of each side and ``output/{split}.{src}-{tgt}.instances.json``.

    ``source`` and ``target`` are BPE text in the raw corpus format; ``target`` None: text to be translated, cut by
    source length alone. ``max_sentence_tokens``: longer sentences are dropped (training only); None keeps all. Raises
    UserError as ``corpus.read_pairs`` does. ``total``: number of documents, for the progress bar.
    """
    output = Path(output)
    report = InstanceReport()
    sidecar = Sidecar(split, *langs, documents=0)
    documents = read_source(source) if target is None else read_documents(source, target, raw=False)
    sides = langs[:1] if target is None else langs
    with ExitStack() as stack:
        streams = [stack.enter_context(atomic_write(output / f"{split}.{lang}")) for lang in sides]
        for document in progress(documents, f"instances {split}", total=total, unit=" documents"):
            lengths = [[side.count(" ") + 1 if side else 0 for side in pair] for pair in document]
            source_lengths, target_lengths = [pair[0] for pair in lengths], [pair[1] for pair in lengths]
            cuts, dropped = document_instances(
                source_lengths, None if target is None else target_lengths, max_tokens, max_sents, max_sentence_tokens
            )
            for first, count in cuts:
                for side, stream in enumerate(streams):
                    stream.write(instance_line(pair[side] for pair in document[first : first + count]) + "\n")
                sidecar.instances.append((sidecar.documents, first, count))
            sidecar.dropped += [(sidecar.documents, position) for position in dropped]
            sidecar.documents += 1
            report.without_source += (without := source_lengths.count(0))
            for position in reversed(dropped):
                del lengths[position]
            report.sentences += len(lengths)
            report.documents += bool(lengths)
            report.instances += len(cuts)
            report.source_tokens += sum(pair[0] for pair in lengths)
            report.target_tokens += sum(pair[1] for pair in lengths)
            report.dropped_too_long += len(dropped) - without
            report.sentences_over_instance_limit += sum(max(pair) + MARKS >= max_tokens for pair in lengths)
        if not report.instances:
            raise UserError(f"{source}, line 1: every sentence is longer than {max_sentence_tokens} tokens")
    sidecar.save(output / sidecar_name(split, *langs))
    return report


def sidecar_name(split: str, source_lang: str, target_lang: str) -> str:
    """The file name of a split's sidecar."""
    return f"{split}.{source_lang}-{target_lang}.instances.json"


@cli_main
def main(argv: list[str] | None = None) -> None:
    """``python -m gtransformer.preprocess.instance_files SOURCE [TARGET] --output DIR --split test``"""
    parser = argparse.ArgumentParser(
        prog="gtransformer.preprocess.instance_files", description="Cut BPE documents into instances."
    )
    parser.add_argument("source", help="BPE text in the raw corpus format")
    parser.add_argument("target", nargs="?", help="its other side; without it instances are cut by source length alone")
    parser.add_argument("--output", required=True, help="directory for {split}.{lang} and the sidecar")
    parser.add_argument("--split", default="test")
    parser.add_argument("-s", "--source-lang", default="en")
    parser.add_argument("-t", "--target-lang", default="de")
    parser.add_argument("--max-instance-tokens", type=int, default=512)
    parser.add_argument("--max-sents", type=int, help="at most so many sentences an instance (1: sentence level)")
    parser.add_argument("--max-sentence-tokens", type=int, help="drop longer sentences (for training only)")
    args = parser.parse_args(argv)
    report = write_instances(
        args.source,
        args.target,
        args.output,
        args.split,
        (args.source_lang, args.target_lang),
        args.max_instance_tokens,
        args.max_sents,
        args.max_sentence_tokens,
    )
    print(f"{args.split}: {report.summary()}")


if __name__ == "__main__":
    raise SystemExit(main())
