"""The manifest of a prepared corpus: counts as in Table 1 of the paper, settings, versions, checksums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from gtransformer.data.dictionaries import RESERVED, dictionary_words
from gtransformer.errors import UserError
from gtransformer.files import digest, read_json, sha256, write_json
from gtransformer.installation import versions
from gtransformer.preprocess.chain import moses_rules
from gtransformer.preprocess.corpus import split_of
from gtransformer.preprocess.settings import GIVEN_DICTIONARIES, TARGET, Settings, option
from gtransformer.preprocess.steps import Steps, stamp_path, stamped_inputs

RECORDED = (
    "source_lang", "target_lang", "langs", "bpe_merges", "max_instance_tokens", "max_sentence_tokens", "max_sents",
    "sentence_pairs", "normalise_punctuation", "moses_rules", "moses", "sentencepiece",
    "sentencepiece_target", "source_prefix", "target_prefix", "bpe_codes", "codes_within_dictionary", "bert", "shard",
)  # fmt: skip
PATH_SETTINGS = ("moses", "sentencepiece", "sentencepiece_target", "bpe_codes", "bert", "vocabulary")  # paths
READ = ("settings", "vocabulary")  # parts by which finished corpora are compared
# Files that determine the model's vocabulary, by the beginnings of their names.
VOCABULARY = ("bin/dict.", "bpe.codes", "truecase.", "sentencepiece.", "wordpieces.")
NOTED = "corpus.json"  # next to checkpoints: ``noted_digests`` of their corpus
MANY_UNKNOWN = 0.01  # of a text's tokens; text with the BPE codes of its dictionary has almost none


def noted_digests(prepared: Path) -> dict[str, str]:
    """Return digests of the data that training reads and of the vocabulary, to be stored with a model.

    The vocabulary consists of the files that encode text and the dictionaries. Empty if the manifest names no files.
    """
    manifest = read_json(prepared / "manifest.json")
    files = manifest.get("outputs") or {}
    kinds = {
        "corpus": {name: sha for name, sha in files.items() if name.startswith("bin/") and "/test." not in name},
        "vocabulary": {name: sha for name, sha in files.items() if name.startswith(VOCABULARY)},
    }
    return {kind: digest(found) for kind, found in kinds.items()}


def source_text(prepared: Path, split: str) -> str | None:
    """Return the SHA-256 of the plain source text of a prepared split; None if the manifest has none."""
    path = prepared / "manifest.json"
    manifest = read_json(path) if path.is_file() else {}
    lang = (manifest.get("settings") or {}).get("source_lang")
    return (manifest.get("outputs") or {}).get(f"text/{split}.{lang}")


def check_translated(translations: Path, prepared: Path, split: str) -> None:
    """Raise UserError for translations of another text than a prepared split, whose scores would be meaningless.

    The record of a recipe's run (``generate.SPLIT.json``) has the digest of the text. Other translations are accepted.
    """
    record = translations.with_name(f"generate.{split}.json")
    if translations.name != f"{split}.jsonl" or not record.is_file():
        return
    noted = read_json(record).get("translated")
    if None not in (noted, now := source_text(prepared, split)) and noted != now:
        raise UserError(
            f"{translations}: translations of another text than the {split} set that {prepared} holds now; run stage "
            "generate again, or name the corpus that was translated"
        )


def check_noted(checkpoint: Path, prepared: Path) -> None:
    """Raise UserError if a checkpoint was trained with another vocabulary than that of a prepared corpus.

    The digests next to the checkpoint are compared. Without them, as after plain fairseq-train, nothing is checked.
    """
    path = checkpoint.parent / NOTED
    if path.is_file() and read_json(path)["vocabulary"] != noted_digests(prepared)["vocabulary"]:
        raise UserError(
            f"{checkpoint}: trained with another vocabulary than that of {prepared}, so its translations would be "
            "of other words; name the corpus that it was trained on with --prepared, or train again"
        )


def tool_versions() -> dict[str, str]:
    """Return the versions of the packages that the steps use."""
    found = versions(("fairseq-fixed", "sacremoses", "sentencepiece", "subword-nmt"))
    return {package.removesuffix("-fixed"): number for package, number in found.items()}


def split_counts(reports: dict[str, dict[str, Any]], split: str, pair: tuple[str, str]) -> dict[str, Any]:
    """Return the counts of one split from the reports of its steps."""
    clean, cut = reports[f"clean:{split}"], reports[f"instances:{split}"]
    return _with_averages(
        {
            "sentences": cut["sentences"],
            "documents": cut["documents"],
            "instances": cut["instances"],
            "sentences_per_instance": 0.0,
            "tokens_per_instance": {},
            "tokens": dict(zip(pair, (cut["source_tokens"], cut["target_tokens"]), strict=True)),
            "unknown_tokens": reports["binarise"]["unknown"][split],
            "sentences_over_instance_limit": cut["sentences_over_instance_limit"],
            "dropped": {
                "empty_source": clean["dropped_empty_source"],
                "empty_target": clean["dropped_empty_target"],
                "empty_both": clean["dropped_empty_both"],
                "longer_than_max_sentence_tokens": cut["dropped_too_long"],
                "without_source": cut.get("without_source", 0),
                "documents_emptied_by_cleaning": clean["dropped_documents"],
            },
            "raw": {
                "sentences": clean["sentences_read"],
                "documents": clean["documents_read"],
                "lines_with_carriage_return": clean["lines_with_carriage_return"],
                "lines_with_control_character": clean["lines_with_control_character"],
            },
        }
    )


def _with_averages(counts: dict[str, Any]) -> dict[str, Any]:
    """Return counts with the average sentences and tokens of an instance."""
    number = counts["instances"]
    tokens = {lang: round(count / number, 2) for lang, count in counts["tokens"].items()}
    return {
        **counts,
        "sentences_per_instance": round(counts["sentences"] / number, 2),
        "tokens_per_instance": tokens,
    }


def added(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the counts of a split that was prepared in parts, in the order of ``split_counts``."""

    def sums(parts: Sequence[Any]) -> Any:
        if not isinstance(parts[0], dict):
            return sum(parts)
        return {name: sums([part[name] for part in parts]) for name in parts[0]}

    return _with_averages(sums(parts))


def recorded(settings: Settings, lent: dict[str, Any] | None) -> dict[str, Any]:
    """Return the settings for the manifest; ``lent``: manifest of the corpus that lends the vocabulary."""
    values = {**vars(settings), "codes_within_dictionary": bool(settings.bpe_codes), "langs": list(settings.order())}
    if lent:
        values |= {name: lent["settings"][name] for name in ("langs", "bpe_merges")}
    return {name: values[name] for name in RECORDED}


def without_test(files: Mapping[str, str]) -> dict[str, str]:
    """Return the checksums of raw files by name, without the test set's; if there are no others, the test set's."""
    return {name: files[name] for name in sorted(files) if split_of(name) != "test"} or dict(files)


def check_same(output: Path, settings: Settings, borrowed: Path | None, splits: Mapping[str, Sequence[Path]]) -> None:
    """Raise UserError for a finished corpus of other text or with other settings, whose models would lose their corpus.

    Paths may differ: for Moses only its use is compared, for a vocabulary its content, and raw files may be renamed.
    The test set may differ.

    Args:
        splits: the raw files of each split.
    """
    try:
        manifest = read_json(output / "manifest.json")
    except UserError:  # none, or a damaged one: nothing is finished
        return
    if not isinstance(manifest, dict) or not all(isinstance(manifest.get(part), dict) for part in READ):
        return
    before = {"shard": None, "moses_rules": True, **manifest["settings"]}
    now = recorded(settings, read_json(borrowed / "manifest.json") if borrowed else None)
    if settings.bpe_codes and before.get("bpe_codes") and not before.get("codes_within_dictionary"):
        refuse(output, "its codes were applied without the dictionary, as by an earlier version")
    pairs = [(name, before[name], now[name]) for name in sorted(before.keys() & now.keys())]
    pairs.append(("vocabulary", manifest["vocabulary"].get("borrowed_from"), settings.vocabulary))
    for name, one, other in pairs:
        if name in PATH_SETTINGS:
            one, other = bool(one), bool(other)
        if one != other:
            refuse(output, f"{option(name)}: {one}, not {other}")
    if changed := other_vocabulary(output, settings.vocabulary_files()):
        refuse(output, f"another vocabulary: {changed}")
    known = manifest.get("inputs") or {}
    for split in [split for split in splits if split != "test"]:
        then = [sha for name, sha in known.items() if split_of(name) == split]
        read = {path: sha256(path) for path in splits[split]}  # a file with both sides once
        if then and then != list(read.values()):  # whatever the names
            other = next((path for path, sha in read.items() if sha not in then), splits[split][0])
            refuse(output, f"{other} is another text now", "from another corpus")


def with_rules(settings: Settings, folders: Sequence[Path]) -> Settings:
    """``settings`` with ``moses_rules`` settled: given, needed, or as in the first of ``folders`` that was prepared.

    Moses' scripts have no other rules, and models whose BPE codes are given have read text of these.
    """
    if settings.moses or settings.bpe_codes:
        if settings.moses_rules is False and not settings.sentencepiece:
            needs = "--moses (or the variable MOSES)" if settings.moses else "--bpe-codes"
            raise UserError(
                f"--no-moses-rules (prepare.moses-rules=null): {needs} needs these rules; leave one of them out"
            )
        return replace(settings, moses_rules=True)
    if settings.moses_rules is None:
        for folder in folders:
            try:
                return replace(settings, moses_rules=moses_rules(read_json(folder / "manifest.json")["settings"]))
            except (UserError, KeyError, TypeError, AttributeError):  # nothing is finished there
                continue
    return replace(settings, moses_rules=bool(settings.moses_rules))


def refuse(output: Path, difference: str, how: str = "with other options") -> NoReturn:
    """Raise UserError for a finished corpus that would become another one."""
    raise UserError(
        f"{output}: prepared {how} ({difference}), and models of it need it as it is; give another directory (of "
        "gtransformer run --runs DIR), or, if no model of it is needed any more, --overwrite"
    )


def other_vocabulary(output: Path, given: dict[str, list[Path]]) -> str | None:
    """A file of a vocabulary (``Settings.vocabulary_files``) whose content is another than that of the finished corpus.

    The stamps of the steps tell; where there are none, as of merged shards, the manifest, of what was taken as it is.
    """
    if stamped_inputs(stamp_path(output, "binarise")) is None:
        outputs = read_json(output / "manifest.json").get("outputs") or {}
        own = (*GIVEN_DICTIONARIES, "pieces", TARGET, "bpe-given")  # these are rewritten, or have another name there
        taken = [path for step in given.keys() - set(own) for path in given[step]]
        names = {path: f"bin/{path.name}" if path.name.startswith("dict.") else path.name for path in taken}
        return next((str(path) for path, name in names.items() if outputs.get(name) not in (None, sha256(path))), None)
    second = GIVEN_DICTIONARIES[1]  # which is only there where source and target have different ones
    for step in (*given, *({second} - given.keys())):
        before = (stamped_inputs(stamp_path(output, step)) or {}).values()
        if sorted(before) != sorted(map(sha256, given.get(step, []))):
            return "one dictionary, not two" if step not in given else ", ".join(map(str, given[step])) or step
    return None


def write(
    output: Path,
    settings: Settings,
    splits: dict[str, tuple[Path, Path]],
    steps: Steps,
    borrowed: Path | None,
    versions: dict[str, Any],
    command: str,
) -> dict[str, Any]:
    """Write ``output/manifest.json`` when all steps are done, and return it.

    Args:
        splits: the raw files of each.
        borrowed: the directory that the vocabulary was taken from, if it was.
        versions: of what the steps use.
    """
    reports = steps.reports
    dictionary = output / "bin" / f"dict.{settings.source_lang}.txt"
    words = dictionary_words(dictionary)
    lent = read_json(borrowed / "manifest.json") if borrowed else None
    outputs = {}
    for name in reports:
        outputs |= steps.stamp(name)["outputs"]
    manifest = {
        "version": 1,
        "splits": {split: split_counts(reports, split, settings.pair()) for split in splits},
        "tokens_are": "BPE tokens without <s> and </s>",
        "vocabulary": {
            "size": len(words) + len(RESERVED),
            "bpe_merges": lent["vocabulary"]["bpe_merges"] if lent else reports.get("bpe-learn", {}).get("merges"),
            "borrowed_from": settings.vocabulary,
        },
        "settings": recorded(settings, lent),
        "command": command,
        "versions": versions,
        "inputs": {path.name: steps.checksum(path) for files in splits.values() for path in files},
        "outputs": {name: outputs[name] for name in sorted(outputs) if not name.startswith("steps/")},
    }
    write_json(output / "manifest.json", manifest)
    return manifest


def table(manifest: dict[str, Any]) -> str:
    """Return the counts as a table for the terminal, a line per split, columns as in Table 1 (Bao et al. 2021)."""
    pair = [manifest["settings"][f"{side}_lang"] for side in ("source", "target")]
    head = ["split", "sentences", "documents", "instances", "sents/inst", *(f"tokens/inst {lang}" for lang in pair)]
    rows = [head]
    for split, counts in manifest["splits"].items():
        tokens = [f"{counts['tokens_per_instance'][lang]:.1f}" for lang in pair]
        numbers = [str(counts[name]) for name in head[1:4]]
        rows.append([split, *numbers, f"{counts['sentences_per_instance']:.1f}", *tokens])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def unknown_warnings(manifest: dict[str, Any]) -> list[str]:
    """Return a warning for each side of a split with many tokens that are not in the dictionary."""
    return [
        f"{split}, {lang}: {unknown:,} of {counts['tokens'][lang]:,} tokens are not in the dictionary and "
        "become <unk>; check that the text is of the language and script that the dictionary was made for"
        for split, counts in manifest["splits"].items()
        for lang, unknown in counts["unknown_tokens"].items()
        if unknown >= MANY_UNKNOWN * counts["tokens"][lang]
    ]
