"""Write the pages of results from the files in exp_logs/ and from the papers' numbers.

The pages are exp_logs/README.md, all runs, and docs/lab/papers/, one page per paper. With --check nothing is written;
the command fails if a page is out of date.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import UserError, cli_main
from gtransformer.files import atomic_write
from gtransformer.installation import project_root
from gtransformer.lab.report.page import make_pages


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = CommandParser(prog="gtransformer lab report", description=" ".join(__doc__.split()))
    parser.add_argument(
        "--logs",
        type=Path,
        default=project_root() / "exp_logs",
        metavar="DIR",
        help="the folder of results (exp_logs/)",
    )
    parser.add_argument(
        "--paper",
        type=Path,
        action="append",
        metavar="FILE",
        help="file of a paper's numbers; repeatable (default: all)",
    )
    parser.add_argument("--check", action="store_true", help="only check that the pages are up to date")
    return parser


def check_page(path: Path, text: str) -> None:
    """Raise UserError, with the first differing line, unless the file ``path`` contains ``text``."""
    if not path.is_file():
        raise UserError(f"{path}: missing; run: gtransformer lab report")
    old = path.read_text(encoding="utf-8")
    if old == text:
        return
    lines, wanted = old.splitlines(), text.splitlines()
    pairs = zip(lines, wanted, strict=False)
    number = next((n for n, (a, b) in enumerate(pairs, 1) if a != b), min(len(lines), len(wanted)) + 1)
    raise UserError(f"{path}, line {number}: out of date, it differs from the results; run: gtransformer lab report")


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Write the pages, or check them."""
    args = build_parser().parse_args(argv)
    pages = make_pages(args.logs.absolute(), args.paper or ())
    for path, text in pages.items():
        if args.check:
            check_page(path, text)
            print(f"{path}: up to date")
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as stream:
            stream.write(text)
        print(f"written: {path}")


if __name__ == "__main__":
    raise SystemExit(main())
