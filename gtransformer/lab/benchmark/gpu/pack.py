"""What a machine without network lacks, in one folder: wheels for its Python, and a corpus."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.files import write_json

LIMIT = 64 << 20  # bytes
PREPARED = "prepared.tar.xz"
ROOTS = ("fairseq-fixed", "sacrebleu", "sacremoses", "subword-nmt", "sentencex", "sentencepiece", "matplotlib",
         "tensorboard", "tqdm", "pooch", "PyYAML", "omegaconf", "pytest", "pytest-timeout")  # fmt: skip
# PyTorch and what comes with it; the machine has its own. Of what fairseq names, cython is for building it alone.
THERE = ("torch", "torchaudio", "triton", "numpy", "setuptools", "wheel", "pip", "cython", "sympy", "networkx",
         "fsspec", "filelock", "jinja2", "markupsafe", "mpmath", "typing-extensions")  # fmt: skip
PLATFORMS = [f"manylinux{kind}_x86_64" for kind in ("_2_28", "_2_27", "_2_17", "2014", "1")]


def closure(roots: Iterable[str], there: Iterable[str]) -> dict[str, str]:
    """Versions, by name, of packages and all that they need, as they are installed here; without what is ``there``."""
    found: dict[str, str] = {}
    left, known = list(roots), {_plain(name) for name in there}
    while left:
        name = _plain(left.pop())
        if name in found or name in known or name.startswith("nvidia"):
            continue
        try:
            package = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # needed on other systems, or by an extra
        found[name] = package.version
        needed = [one for one in package.requires or [] if "extra ==" not in one]
        left += [re.match(r"[\w.-]+", one)[0] for one in needed]
    return found


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def read_names(path: Path) -> list[str]:
    """Names of packages in what ``pip list`` or ``pip freeze`` wrote on the machine. Raises UserError if it is none."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read ({error}); give what pip list wrote on the machine") from None
    return [re.split(r"[\s=@<>]+", line.strip())[0] for line in lines if line.strip() and line[0] not in "-#"]


def pack(
    folder: Path,
    there: Iterable[str],
    python: str,
    commit: str | None,
    corpus: Path | None = None,
    prepared: Path | None = None,
) -> dict:
    """Fill a folder with ``wheels/``, ``corpus/``, ``prepared.tar.xz`` and ``pack.json``, which is returned.

    Args:
        there: names of what the machine has beside THERE.
        python: the version of its Python, as in 3.12.
        commit: of the checkout that goes with it.
        corpus, prepared: a raw corpus, compressed, and a prepared one, of which training's part is taken.

    Raises UserError where a wheel cannot be had, or all together is more than LIMIT.
    """
    if corpus is not None and not any(corpus.glob("concatenated_*.xz")):
        raise UserError(f"{corpus}: holds no concatenated_*.txt.xz; give a corpus in the raw format, compressed")
    if prepared is not None and not (prepared / "manifest.json").is_file():
        raise UserError(f"{prepared}: holds no prepared corpus; make it with scripts/prepare.sh")
    wheels = folder / "wheels"
    for name in ("wheels", "site", "corpus"):  # of an earlier time; site: where wheels were tried
        shutil.rmtree(folder / name, ignore_errors=True)
    wheels.mkdir(parents=True)
    versions = closure(ROOTS, [*THERE, *there])
    _fetch([f"{name}=={version}" for name, version in versions.items()], wheels, python)
    if corpus is not None:
        (folder / "corpus").mkdir()
        for path in sorted(corpus.glob("concatenated_*.xz")):
            shutil.copy(path, folder / "corpus")
    (folder / PREPARED).unlink(missing_ok=True)
    if prepared is not None:
        with tarfile.open(folder / PREPARED, "w:xz") as archive:
            for name in ("manifest.json", "bin"):
                archive.add(prepared / name, f"prepared/{name}")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    largest = sorted(wheels.iterdir(), key=lambda path: -path.stat().st_size)[:4]
    if size > LIMIT:
        raise UserError(
            f"{folder}: {size / 2**20:.0f} MiB, more than {LIMIT >> 20} ({', '.join(path.name for path in largest)}, "
            "...); name what the machine has, as pip list says it there, with --there FILE"
        )
    about = {"commit": commit, "python": python, "packages": versions, "bytes": size}
    write_json(folder / "pack.json", about)
    return about


def _fetch(wanted: list[str], folder: Path, python: str) -> None:
    """Wheels for the machine; made here of what has only a source distribution, which must be pure Python."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    target = [option for platform in PLATFORMS for option in ("--platform", platform)]
    asked = [*pip, "download", "-q", "--no-deps", "--only-binary=:all:", "--python-version", python, *target]
    left, sources = list(wanted), []
    while left:
        done = subprocess.run([*asked, "-d", str(folder), *left], capture_output=True, text=True)
        if done.returncode == 0:
            break
        lacking = re.search(r"No matching distribution found for (\S+)", done.stderr)
        if lacking is None or lacking[1] not in left:
            said = (done.stderr.strip().splitlines() or ["no output"])[-1]
            raise UserError(f"{folder}: pip cannot fetch the wheels ({said}); try where there is network")
        left.remove(lacking[1])
        sources.append(lacking[1])
    for one in sources:
        before = set(folder.iterdir())
        subprocess.run([*pip, "wheel", "-q", "--no-deps", "-w", str(folder), one], capture_output=True)
        if not any(path.name.endswith("-none-any.whl") for path in set(folder.iterdir()) - before):
            raise UserError(
                f"{one}: has no wheel for Python {python} on Linux x86-64; name it with --there if it is there"
            )
