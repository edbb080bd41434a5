"""The manifest of a prepared corpus: counts as in Table 1 of the paper, settings, versions,
checksums.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gtransformer.data.dictionaries import RESERVED, dictionary_words
from gtransformer.errors import UserError
from gtransformer.files import digest, read_json, sha256, write_json
from gtransformer.installation import versions
from gtransformer.preprocess.clean import CleanReport
from gtransformer.preprocess.instances import InstanceReport
from gtransformer.preprocess.settings import Settings

PACKAGES = ("fairseq-fixed", "sacremoses", "sentencepiece", "subword-nmt")  # that make a corpus
# Settings that name files; what these contain is in ``given``.
PATHS = (
    "vocabulary", "sentencepiece", "sentencepiece_target", "bpe_codes", "dictionary", "bert",
)  # fmt: skip
# Files that determine the model's vocabulary, by the beginnings of their names.
VOCABULARY = ("bin/dict.", "bpe.codes", "truecase.", "sentencepiece.", "wordpieces.")
NOTED = "corpus.json"  # next to checkpoints: ``noted_digests`` of their corpus
MANY_UNKNOWN = 0.01  # of a text's tokens; text with the BPE codes of its dictionary has almost none


def noted_digests(prepared: Path) -> dict[str, str]:
    """Return digests of the data that training reads and of the vocabulary, to be stored with a
    model.

    The vocabulary consists of the files that encode text and the dictionaries.
    """
    files = read_json(prepared / "manifest.json")["outputs"]
    kinds = {
        "corpus": {
            name: sha
            for name, sha in files.items()
            if name.startswith("bin/") and "/test." not in name
        },
        "vocabulary": {name: sha for name, sha in files.items() if name.startswith(VOCABULARY)},
    }
    return {kind: digest(found) for kind, found in kinds.items()}


def check_noted(checkpoint: Path, prepared: Path) -> None:
    """Raise UserError if a checkpoint was trained with another vocabulary than that of a prepared
    corpus.

    The digests next to the checkpoint are compared. Without them, as after plain fairseq-train,
    nothing is checked.
    """
    path = checkpoint.parent / NOTED
    if path.is_file() and read_json(path)["vocabulary"] != noted_digests(prepared)["vocabulary"]:
        raise UserError(
            f"{checkpoint}: trained with another vocabulary than that of {prepared}, so its "
            "translations would be of other words; name the corpus that it was trained on with "
            "--prepared, or train again"
        )


def description(settings: Settings, splits: Mapping[str, tuple[Path, Path]]) -> dict[str, Any]:
    """Return what determines a prepared corpus: settings, and checksums of given vocabulary and raw
    files.

    Args:
        splits: the raw files of each split.
    """
    values = {**asdict(settings), "langs": list(settings.order())}
    del values["workers"]
    values |= {name: bool(values[name]) for name in PATHS}
    given = {path.name: sha256(path) for path in settings.given_files()}
    return {"settings": values, "given": given, "inputs": checksums(splits)}


def checksums(splits: Mapping[str, tuple[Path, Path]]) -> dict[str, str]:
    """Return the SHA-256 of the raw files of each split, by their names."""
    return {path.name: sha256(path) for files in splits.values() for path in files}


def difference(manifest: Mapping[str, Any], wanted: Mapping[str, Any]) -> str | None:
    """Return how a prepared corpus differs from what is asked for (``description``); None if it
    does not.
    """
    for part, what in (("settings", "options"), ("given", "vocabulary"), ("inputs", "raw files")):
        before, now = manifest.get(part, {}), wanted[part]
        changed = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
        if changed:
            return f"other {what}: {', '.join(changed)}"
    return None


def kept(output: Path, wanted: Mapping[str, Any], overwrite: bool) -> dict[str, Any] | None:
    """Return the manifest of a finished corpus that is what is ``wanted``; None if it has to be
    made.

    Raises UserError for a directory with other content, and without ``overwrite`` for another
    corpus, whose models need it as it is.
    """
    path = output / "manifest.json"
    if not path.is_file():
        if output.exists() and any(output.iterdir()):
            raise UserError(
                f"{output}: holds something else than a prepared corpus; name another directory"
            )
        return None
    manifest = read_json(path)
    if not isinstance(manifest, dict) or not {"settings", "splits"} <= manifest.keys():
        raise UserError(f"{path}: not of a prepared corpus; name another directory")
    changed = difference(manifest, wanted)
    if changed is None:
        return manifest
    if not overwrite:
        raise UserError(
            f"{output}: prepared otherwise ({changed}), and models of it need it as it is; give "
            "another directory, or, if no model of it is needed any more, gtransformer prepare "
            "--overwrite"
        )
    own = {path.name, *(name.partition("/")[0] for name in manifest["outputs"])}
    others = sorted(one.name for one in output.iterdir() if one.name not in own)
    if others:
        raise UserError(
            f"{output}: also holds {', '.join(others)}, which --overwrite would remove; move it "
            "away first"
        )
    return None


def split_counts(
    clean: CleanReport, cut: InstanceReport, unknown: dict[str, int], pair: tuple[str, str]
) -> dict[str, Any]:
    """Return the counts of one split."""
    tokens = dict(zip(pair, (cut.source_tokens, cut.target_tokens), strict=True))
    return {
        "sentences": cut.sentences,
        "documents": cut.documents,
        "instances": cut.instances,
        "sentences_per_instance": round(cut.sentences / cut.instances, 2),
        "tokens_per_instance": {
            lang: round(count / cut.instances, 2) for lang, count in tokens.items()
        },
        "tokens": tokens,
        "unknown_tokens": unknown,
        "sentences_over_instance_limit": cut.sentences_over_instance_limit,
        "dropped": {
            "empty_side": clean.dropped,
            "longer_than_max_sentence_tokens": cut.dropped_too_long,
            "without_source": cut.without_source,
            "documents_emptied_by_cleaning": clean.dropped_documents,
        },
        "raw": {"sentences": clean.sentences_read, "documents": clean.documents_read},
    }


def write(
    output: Path,
    settings: Settings,
    wanted: Mapping[str, Any],
    splits: dict[str, dict[str, Any]],
    command: str,
) -> dict[str, Any]:
    """Write ``output/manifest.json`` when all else is written, and return it.

    Args:
        wanted: ``description``.
        splits: the counts of each.
        command: the command line.
    """
    dictionary = dictionary_words(output / "bin" / f"dict.{settings.source_lang}.txt")
    files = sorted(path for path in output.rglob("*") if path.is_file())
    manifest = {
        "splits": splits,
        "tokens_are": "BPE tokens without <s> and </s>",
        "vocabulary": {
            "size": len(dictionary) + len(RESERVED),
            "borrowed_from": settings.vocabulary,
        },
        **wanted,
        "command": command,
        "versions": versions(PACKAGES),
        "outputs": {str(path.relative_to(output)): sha256(path) for path in files},
    }
    write_json(output / "manifest.json", manifest)
    return manifest


def table(manifest: dict[str, Any]) -> str:
    """Return the counts as a table for the terminal, a line per split, columns as in Table 1 (Bao
    et al. 2021).
    """
    pair = [manifest["settings"][f"{side}_lang"] for side in ("source", "target")]
    head = [
        "split",
        "sentences",
        "documents",
        "instances",
        "sents/inst",
        *(f"tokens/inst {lang}" for lang in pair),
    ]
    rows = [head]
    for split, counts in manifest["splits"].items():
        tokens = [f"{counts['tokens_per_instance'][lang]:.1f}" for lang in pair]
        numbers = [str(counts[name]) for name in head[1:4]]
        rows.append([split, *numbers, f"{counts['sentences_per_instance']:.1f}", *tokens])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )


def unknown_warnings(manifest: dict[str, Any]) -> list[str]:
    """Return a warning for each side of a split with many tokens that are not in the dictionary."""
    return [
        f"{split}, {lang}: {unknown:,} of {counts['tokens'][lang]:,} tokens are not in the "
        "dictionary and become <unk>; check that the text is of the language and script that the "
        "dictionary was made for"
        for split, counts in manifest["splits"].items()
        for lang, unknown in counts["unknown_tokens"].items()
        if unknown >= MANY_UNKNOWN * counts["tokens"][lang]
    ]
