"""Measure a trained model's attention on a split: its entropy, and its share on the aligned source sentence.

``gtransformer lab entropy PREPARED --path FILE``
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.data.instance_index import InstanceIndex
from gtransformer.data.translations import read_documents
from gtransformer.errors import check_counts, cli_main
from gtransformer.evaluation.prepared_split import find_instance_index
from gtransformer.files import check_output, write_json
from gtransformer.provenance import device_name, provenance


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = CommandParser(
        prog="gtransformer lab entropy",
        description="Mean entropy of attention in bits, and cross-attention's share on the aligned source sentence, "
        "by layer, compared with uniform attention.",
    )
    parser.add_argument("prepared", type=Path, help="a prepared corpus")
    parser.add_argument("--path", type=Path, required=True, metavar="FILE", help="the model's checkpoint")
    parser.add_argument("--split", default="valid", help="(%(default)s)")
    parser.add_argument(
        "--translations",
        metavar="JSONL",
        help="measure over these translations of the split (PREFIX.jsonl of the model's own), not the references",
    )
    parser.add_argument(
        "--per-head", action="store_true", help="entropy of each head (default: of the mean over heads)"
    )
    parser.add_argument("--max-tokens", type=int, default=4096, metavar="N", help="tokens of a batch (%(default)s)")
    parser.add_argument(
        "--skip-invalid-size-inputs-valid-test",
        action="store_true",
        help="leave out instances with more tokens than the model has positions, as fairseq's programs do",
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="also write the numbers as JSON")
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")
    parser.add_user_dir()
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Measure, print and write."""
    args = build_parser().parse_args(argv)

    from gtransformer.lab.analysis.split_attention import entropy_table, measure, share_table

    if args.output:
        check_output(args.output, [args.path, args.translations])
    check_counts(args, "max_tokens")
    skip = args.skip_invalid_size_inputs_valid_test
    given = args.translations
    texts = read_documents(given, InstanceIndex.load(find_instance_index(args.prepared, args.split))) if given else None
    bits, shares = measure(args.prepared, args.path, args.split, args.per_head, args.max_tokens, args.cpu, skip, texts)
    records, shared = bits.to_json(), shares.to_json()
    print(f"{entropy_table(records)}\n\n{share_table(shared)}")
    if args.output:
        result = {"version": 1, "split": args.split, "text": given or "references", "per_head": args.per_head}
        result |= {"entropy": records, "share": shared, "device": device_name()}
        write_json(args.output, result | provenance("lab entropy", argv))


if __name__ == "__main__":
    raise SystemExit(main())
