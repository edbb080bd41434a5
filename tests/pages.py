"""Pages for a browser: what is in their files, and what Chromium makes of them."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage"
).split()
LOADING = ("src", "href", "srcset", "action", "data", "poster", "background")  # attributes that name a file
# Behind the page's own scripts: what the function TRY finds becomes the text of an element.
TRY = """
<script>
const tried = document.createElement("pre");
tried.id = "tried";
let seen;
try { seen = (%s)(); } catch (error) { seen = String(error.stack); }
tried.textContent = JSON.stringify(seen);
document.body.append(tried);
</script>
</body>"""


class Page(HTMLParser):
    """The elements of a page with their attributes, its visible text, and its data."""

    def __init__(self, path: Path):
        super().__init__()
        self.elements: list[tuple[str, dict]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        self.data = json.loads(self.scripts[0])

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.elements and self.elements[-1][0] == "script":
            self.scripts[-1] += data
        else:
            self.texts.append(data)

    def handle_endtag(self, tag):
        if tag == "script":
            self.elements.append(("/script", {}))

    @property
    def tags(self) -> set[str]:
        """Names of its elements."""
        return {tag for tag, _ in self.elements if not tag.startswith("/")}


def check_alone(page: Page) -> None:
    """It loads nothing: no element names a file, and its policy forbids the rest."""
    named = [(tag, name, value) for tag, attrs in page.elements for name, value in attrs.items() if name in LOADING]
    assert named == [("link", "href", "data:,")]
    (policy,) = [attrs["content"] for tag, attrs in page.elements if "http-equiv" in attrs]
    assert policy.startswith("default-src 'none'; ") and "http" not in policy
    assert len(page.scripts) == 2 and not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write", page.scripts[1]
    )


@cache
def browser() -> str | None:
    """Chromium, if there is one that runs (Ubuntu has a script of that name that asks for another package)."""
    for name in filter(shutil.which, NAMES):
        if subprocess.run([name, "--version"], capture_output=True, timeout=120).returncode == 0:
            return name
    return None


def try_page(path: Path, function: str, *options: str) -> Any:
    """What a JavaScript function without arguments returns in a page, of what JSON knows; skips without a browser."""
    if browser() is None:
        pytest.skip("no Chromium here to try the page in (Debian: apt install chromium)")
    tried = path.with_name(f"tried.{path.name}")
    before, _, _ = path.read_text(encoding="utf-8").rpartition("</body>")
    tried.write_text(before + TRY % function, encoding="utf-8")
    command = [browser(), *QUIET, f"--user-data-dir={path.parent / 'browser'}", *options, "--dump-dom", tried.as_uri()]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    found = re.findall(r'<pre id="tried">(.*?)</pre>', result.stdout, re.DOTALL)
    assert len(found) == 1, result.stderr
    return json.loads(html.unescape(found[0]))
