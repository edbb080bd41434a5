"""Hook of MkDocs: links to files outside of docs/ become their names."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[([^\]]*)\]\(\.\./([^)\s#]+)[^)]*\)")


def on_page_markdown(markdown: str, **_) -> str:
    """Replace links that leave docs/ by their text; wrong ones are left to MkDocs' checks."""
    return LINK.sub(lambda link: link[1] if (ROOT / link[2]).exists() else link[0], markdown)
