"""The numbers of a study: mean and spread over seeds, and their table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from gtransformer.evaluation.text_table import align
from gtransformer.lab.records import shown_difference, shown_interval, spread, with_interval
from gtransformer.lab.studies.study import ACCURACY, CURVES, SCORES, TABLE
from gtransformer.run.recipe import AVERAGED

CHOICES = "accuracy"  # key: accuracy of contrastive choices
BEST = "best_update"  # key: update of the lowest validation loss, whose model is used
WORDS = "word_perplexity"  # key: that model's perplexity of the validation set's words
FURTHER_SCORES = {  # of tables, if computed
    "ter": "TER",
    CHOICES: "accuracy",
    WORDS: "perplexity of words",
    BEST: "updates",
}
DIGITS = {WORDS: 3, BEST: 0}  # decimal places; others have two
WITH_SIGNATURE = ("ter",)  # those with a signature
Test = Callable[[str, list[str], list[str]], dict[str, Any]]
SCORE = "d_bleu"  # the paper's Figures 2 and 7; a Transformer over documents has no aligned sentences


def summary(
    panels: Sequence[dict[str, Any]],
    results: Mapping[str, dict[str, Any]],
    test: Test | None = None,
) -> list[dict[str, Any]]:
    """Return the panels with their numbers.

    Points and rows get the d-BLEU of the test set and, if all seeds have them, s-BLEU and (rows) ``FURTHER_SCORES``.
    Lines with curves get the last and lowest value of each seed. Accuracies are for all items and each kind, with the
    differences from the baseline's by seed; so are the scores of a panel with a baseline.

    Args:
        results: of the runs, by name.
        test: tests a score over documents, given names of the baseline's runs and of the row's; None: it is left out.
    """
    return [panel | {"lines": _lines(panel, results, test)} for panel in panels]


def _lines(panel: dict, results: Mapping[str, dict], test: Test | None) -> list[dict]:
    lines = [line | _numbers(panel, line, results) for line in panel["lines"]]
    key = "system" if panel["kind"] == SCORES else "label"
    bases = {line.get("x"): line for line in lines if panel.get("baseline") and line[key] == panel["baseline"]}
    for line in lines:
        if base := bases.get(line.get("x")):
            own, first = (
                {results[name]["run"]["seed"]: place for place, name in enumerate(one["runs"])} for one in (line, base)
            )
            places = {seed: (own[seed], first[seed]) for seed in sorted(own.keys() & first.keys())}
            line |= _differences(line, base, places, test)
    return lines


def _differences(line: dict, base: dict, places: dict[int, tuple[int, int]], test: Test | None) -> dict[str, Any]:
    """Return a row's differences from the baseline by kind of item, or by score, with 95 % intervals.

    The interval is the mean over seeds +- t times its standard error; a single seed has none. ``documents`` is the test
    of scores over documents, of the same seeds (``compare``). None if one of both lacks the values.

    Args:
        places: by seed that both have, the place of its run in the row and in the baseline.
    """
    own, others = (one["by"] if "by" in one else {key: one[key] for key in (SCORE, "s_bleu")} for one in (line, base))
    if not own or not others or not places:
        return {"difference": None}
    found = {}
    for name in own:
        if own[name] and others[name]:
            values = [own[name]["values"][one] - others[name]["values"][other] for one, other in places.values()]
            found[name] = with_interval(values) | {"seeds": list(places)}
    if test and "by" not in line and line is not base:
        one, other = zip(*places.values(), strict=True)
        for name in found:
            runs = [base["runs"][place] for place in other], [line["runs"][place] for place in one]
            found[name]["documents"] = test(name, *runs)
    return {"difference": found}


def _numbers(panel: dict, line: dict, results: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    runs = [results[name] for name in line["runs"]]
    if panel["kind"] == CURVES:
        values = [[value for _, value in run["curves"].get(line["curve"], [])] for run in runs]
        if not all(values):
            return {"last": None, "lowest": None}
        return {"last": spread([one[-1] for one in values]), "lowest": spread([min(one) for one in values])}
    if panel["kind"] == ACCURACY:
        found = [run.get("contrastive", {}).get(f"by_{panel['by']}") for run in runs]
        kinds = {name: spread([one[name]["accuracy"] for one in found]) for name in found[0]} if all(found) else None
        return {CHOICES: _over_seeds(runs, CHOICES), "by": kinds}
    numbers = {
        SCORE: _over_seeds(runs, SCORE),
        "s_bleu": _over_seeds(runs, "s_bleu"),
        "signature": runs[0]["scores"][SCORE]["signature"],
    }
    for key in (
        FURTHER_SCORES if panel["kind"] == TABLE else [key for key in FURTHER_SCORES if key == panel.get("quantity")]
    ):
        if values := _over_seeds(runs, key):
            numbers[key] = values
            if key in WITH_SIGNATURE:
                numbers[f"{key}_signature"] = runs[0]["scores"][key]["signature"]
    return numbers


def _over_seeds(runs: Sequence[Mapping[str, Any]], kind: str) -> dict[str, Any] | None:
    if kind == CHOICES:
        found = [run.get("contrastive", {}).get("total", {}).get("accuracy") for run in runs]
    elif kind in (BEST, WORDS):
        # The last of equal losses, as fairseq keeps its best checkpoint.
        losses = [() if is_average(run) else run["curves"].get("valid_loss", ()) for run in runs]
        best = [min(one[::-1], key=itemgetter(1), default=(None,))[0] for one in losses]
        bits = [dict(run["curves"].get("valid_word_nll_loss", ())) for run in runs]
        words = [2 ** one[update] if update in one else None for one, update in zip(bits, best, strict=True)]
        found = best if kind == BEST else words
    else:
        found = [score and score["score"] for score in (run["scores"].get(kind) for run in runs)]
    return None if None in found else spread(found)


def is_average(run: Mapping[str, Any]) -> bool:
    """Return whether a run translated with an average of checkpoints, which was not validated."""
    return bool(run.get("options", {}).get("train", {}).get(AVERAGED))


def table(result: Mapping[str, Any]) -> str:
    """Return a line for each point, row or line of every panel, and the signatures of the scores."""
    blocks, signatures = [], set()
    for panel in filter(lambda panel: panel["lines"], result["panels"]):
        more = [
            key for key in FURTHER_SCORES if panel["kind"] != ACCURACY and any(key in line for line in panel["lines"])
        ]
        kinds = list(next((line["by"] for line in panel["lines"] if line.get("by")), ()))
        rows = [[*_head(panel, more), *kinds]]
        for line in panel["lines"]:
            name = result["systems"][line["system"]]
            if panel["kind"] == CURVES:
                name = ", ".join(filter(None, [name, line["label"]]))
                rows.append([name, shown(line["last"]), shown(line["lowest"])])
                continue
            if panel["kind"] == ACCURACY:
                rows.append([line["label"], *map(shown, (line[CHOICES], *((line["by"] or {}).get(k) for k in kinds)))])
                continue
            signatures.add(f"BLEU: {line['signature']}")
            signatures |= {
                f"{FURTHER_SCORES[key]}: {line[f'{key}_signature']}" for key in more if f"{key}_signature" in line
            }
            scores = [shown(line[SCORE]), shown(line["s_bleu"])]
            scores += [shown(line.get(key), DIGITS.get(key, 2)) for key in more]
            if panel.get("baseline"):
                found = [(line.get("difference") or {}).get(key) for key in (SCORE, "s_bleu")]
                scores += [shown for one in found for shown in (shown_difference(one), shown_interval(one))]
            rows.append([*([line["label"]] if panel["kind"] == TABLE else [name, str(line["x"])]), *scores])
        blocks.append(f"{panel['title']}\n{align(rows, range(0))}")
    seeds = max((len(line["runs"]) for panel in result["panels"] for line in panel["lines"]), default=0)
    foot = [f"mean (lowest to highest) of {seeds} seed(s); s-BLEU where all sentences are aligned"]
    foot += [f"missing: {name} {reason}" for name, reason in result.get("missing", {}).items()]
    return "\n\n".join([*blocks, "\n".join([*foot, *sorted(signatures)])])


def _head(panel: Mapping[str, Any], more: Sequence[str]) -> list[str]:
    if panel["kind"] == CURVES:
        return ["line", "last", "lowest"]
    if panel["kind"] == ACCURACY:
        return [panel["axis"], "all items"]
    bleu = ["d-BLEU", "s-BLEU"]
    return [
        *([] if panel["kind"] == TABLE else ["system"]),
        panel["axis"],
        *bleu,
        *(FURTHER_SCORES[key] for key in more),
        *([title for score in bleu for title in (f"{score} less {panel['baseline']}", f"{score}, over documents")]
          if panel.get("baseline") else []),
    ]  # fmt: skip


def shown(numbers: Mapping[str, Any] | None, digits: int = 2) -> str:
    """Return ``30.50 (29.80 to 31.10)``."""
    if numbers is None:
        return "-"
    mean, low, high = (f"{numbers[key]:.{digits}f}" for key in ("mean", "min", "max"))
    return f"{mean} ({low} to {high})"
