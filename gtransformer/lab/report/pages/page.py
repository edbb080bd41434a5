"""Write a page as one file: a template with styles, script and the script's data.

Text is never inserted into HTML directly. Templates escape their output. The data are JSON without tags (jinja2's
``tojson``), and scripts create text nodes from them. The page's Content-Security-Policy forbids loading anything.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from gtransformer.files import atomic_write

TEMPLATES = Path(__file__).resolve().parent / "templates"
COMPACT = {"ensure_ascii": False, "separators": (",", ":"), "allow_nan": False}


def write_page(path: str | Path, template: str, data: Any, **values: Any) -> None:
    """Write a page; it appears under ``path`` only when it is complete.

    Args:
        template: file name in ``templates/``.
        data: JSON data for its script.
        values: variables of the template.
    """
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = COMPACT
    text = environment.get_template(template).render(data=data, **values)
    with atomic_write(path, "wb") as stream:
        stream.write(text.encode("utf-8", "replace"))  # file names may have bytes that are not text
