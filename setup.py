"""Packaging of gtransformer. Dependencies are in requirements/, the build system and tools in
pyproject.toml.
"""

import shutil
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent


def requirements(name: str) -> list[str]:
    """The requirements of requirements/NAME.txt without comments."""
    lines = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [text for line in lines if (text := line.split("#", 1)[0].strip())]


def version() -> str:
    """The version, read from the package without importing it (an import needs its
    requirements).
    """
    for line in (ROOT / "gtransformer" / "__init__.py").read_text(encoding="utf-8").splitlines():
        if line.startswith("__version__"):
            return line.split("=", 1)[1].strip().strip("\"'")
    raise SystemExit('gtransformer/__init__.py: no line __version__ = "..."')


class BuildWithRecipes(build_py):
    """Copies the recipes into the package, so that they are found wherever and however it is
    installed.

    An editable installation reads those of the checkout.
    """

    def run(self) -> None:
        """Build the package."""
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib, "gtransformer", "configs")
            shutil.rmtree(target, ignore_errors=True)  # of an earlier build in the same folder
            shutil.copytree(ROOT / "configs", target, ignore=shutil.ignore_patterns(".*"))


readme = ROOT / "README.md"
setup(
    name="gtransformer",
    version=version(),
    description="G-Transformer for document-level machine translation: a fairseq plugin",
    long_description=readme.read_text(encoding="utf-8") if readme.exists() else "",
    long_description_content_type="text/markdown",
    author="The gtransformer developers",
    license="MIT",
    license_files=["LICENSE"],
    python_requires=">=3.11,<3.14",
    packages=find_packages(include=["gtransformer", "gtransformer.*"]),
    package_data={"gtransformer": ["py.typed", "lab/demo/corpus.tar.xz"]},
    cmdclass={"build_py": BuildWithRecipes},
    install_requires=requirements("runtime"),
    extras_require={name: requirements(name) for name in ("train", "dev", "docs", "hf")},
    entry_points={"console_scripts": ["gtransformer = gtransformer.cli.main:main"]},
    classifiers=[
        "License :: OSI Approved :: MIT License",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
    zip_safe=False,  # fairseq's --user-dir wants a real directory
)
