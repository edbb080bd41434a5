"""Hooks of MkDocs: pages show pictures of exp_logs/; links to other files outside of docs/ become
their names.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+)([^)\s#]+)[^)]*\)")


def on_files(files: Files, config) -> Files:
    """Add the pictures of exp_logs/."""
    for path in sorted((ROOT / "exp_logs").rglob("*.png")):
        name = path.relative_to(ROOT).as_posix()
        files.append(File(name, str(ROOT), config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown: str, page, **_) -> str:
    """Rewrite links that leave docs/; those within it, and wrong ones, are left to MkDocs'
    checks.
    """
    depth = page.file.src_uri.count("/")

    def link(found: re.Match) -> str:
        text, ups, name = found[1], len(found[2]) // 3, found[3]
        if ups <= depth or not (ROOT / name).exists():
            return found[0]
        return f"[{text}]({'../' * depth}{name})" if name.endswith(".png") else text

    return LINK.sub(link, markdown)
