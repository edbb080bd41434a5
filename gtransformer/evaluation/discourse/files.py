"""F1 of pronoun and formality translation of files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.evaluation.discourse.f1 import discourse_f1
from gtransformer.evaluation.discourse.taggers import Tagger
from gtransformer.files import sha256
from gtransformer.preprocess.plain_text import read_plain, read_shaped


def score_files(source: Path, reference: Path, systems: Mapping[str, Path], models: tuple[str, str]) -> dict:
    """What the files of all systems score, as a JSON object; ``models``: spaCy's, of source and target language.

    Raises UserError for what is no plain text, for files that are not aligned, and for taggers that are not there.
    """
    for path in systems.values():
        if path.suffix == ".jsonl":
            raise UserError(f"{path}: plain text is needed; give the PREFIX.txt that the score command writes")
    wanted, _ = read_plain(reference)
    shape = [len(document) for document in wanted]

    def sentences(path: Path) -> list[str]:
        return [sentence for document in read_shaped(path, shape, reference) for sentence in document]

    texts = {name: sentences(path) for name, path in systems.items()}
    plain = [sentences(source), sentences(reference)]
    english, german = map(Tagger, models)
    sources, references = list(english(plain[0])), list(german(plain[1]))
    return {
        "version": 1,
        "taggers": [english.name, german.name],
        "sentences": len(sources),
        "sha256": {str(path): sha256(path) for path in (source, reference, *systems.values())},
        "systems": {name: discourse_f1(sources, list(german(text)), references) for name, text in texts.items()},
    }
