"""Writing a page: a template with its styles, its script and the data that the script shows, in one file.

Nothing of a text is ever put into HTML by hand: the templates escape what they print, the data are JSON in which no tag
can begin or end (jinja2's ``tojson``), and the scripts make text nodes of them. The page may load nothing from anywhere
(its Content-Security-Policy).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from gtransformer.files import atomic_write

TEMPLATES = Path(__file__).resolve().parent / "templates"
COMPACT = {"ensure_ascii": False, "separators": (",", ":"), "allow_nan": False}


def write_page(path: str | Path, template: str, data: Any, **values: Any) -> None:
    """Write a page, which appears under ``path`` only when it is complete.

    Args:
        template: its file in ``templates/``.
        data: what its script shows, of what JSON knows.
        values: what the template itself prints.
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
        stream.write(text.encode("utf-8", "replace"))  # names of files may hold bytes that are no text
