"""Plant faults in the package, one at a time, and see whether tests find them.

    python tests/planted_faults.py               # all, two at a time
    python tests/planted_faults.py gate cache    # those whose names have one of these words
    python tests/planted_faults.py --jobs 1

Each fault replaces a line in a copy of the checkout, where its tests then run. The exit status is 1
if a fault is not found, or if its line is no longer there: then the fault has to follow the code.
The copy has no fault at first, and tests that fail there find nothing.

The tests that are named here, or their folders, found 41 of the first 46 faults when this file was
written (commit df1663ba). They did not see dropout of attention weights, draws that are the same
for every batch, the casing seen in training, punctuation that is not normalised, and text that is
split by the other side's dictionary. Now all are found.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parents[1]
# By name: file of the package, its text, what replaces it, and the tests that have to find it.
FAULTS = {
    # Who sees whom.
    "a causal mask that shows the next token": (
        "modules/reach.py",
        "np.clip(_own_key(queries, keys) + 1, first, end)",
        "np.clip(_own_key(queries, keys) + 2, first, end)",
        "modules/test_reach.py",
    ),
    "a sentence without its last token": (
        "modules/reach.py",
        "return Reach(queries, keys, own - queries.within, own + 1)",
        "return Reach(queries, keys, own - queries.within, own)",
        "modules/test_reach.py",
    ),
    "a document without its last token": (
        "modules/reach.py",
        "keys.doc_starts[queries.doc + 1]",
        "keys.doc_starts[queries.doc + 1] - 1",
        "modules/test_reach.py",
    ),
    "a window that is one key too narrow": (
        "modules/reach.py",
        "np.clip(centres + width + 1, 0, lengths)",
        "np.clip(centres + width, 0, lengths)",
        "modules/test_reach.py",
    ),
    "windows aligned without rounding": (
        "modules/alignment.py",
        "(2 * key_lengths * i + query_lengths) // (2 * query_lengths)",
        "(2 * key_lengths * i) // (2 * query_lengths)",
        "modules/test_alignment.py",
    ),
    "LST attention with its scopes exchanged": (
        "models/transformer.py",
        "((BySentence(), ByDocument()),)",
        "((ByDocument(), BySentence()),)",
        "models/test_numpy.py -k LST",
    ),
    "a flattened batch that reads context, too": (
        "models/batch_readers/docflat.py",
        "np.flatnonzero(layout.tag == layout.tags.max(axis=1)[layout.doc])",
        "np.flatnonzero(layout.tag <= layout.tags.max(axis=1)[layout.doc])",
        "models/test_docflat.py",
    ),
    "group tags that begin after <s>": (
        "data/group_tags.py",
        "tags = tokens.eq(bos).cumsum(dim=1)",
        "tags = tokens.roll(1, dims=1).eq(bos).cumsum(dim=1)",
        "data/test_group_tags.py",
    ),
    # What layers compute.
    "a gate with its sides exchanged": (
        "modules/attention.py",
        "local * g + global_ * (1 - g)",
        "local * (1 - g) + global_ * g",
        "modules/test_attention.py",
    ),
    "positions that begin one too early": (
        "modules/positions.py",
        "padding + 1 if kind == FAIRSEQ",
        "padding if kind == FAIRSEQ",
        "modules/test_positions.py",
    ),
    "relative positions with the wrong sign": (
        "modules/relative.py",
        "keys.unsqueeze(-2) - queries.unsqueeze(-1)",
        "queries.unsqueeze(-1) - keys.unsqueeze(-2)",
        "modules/test_engines.py -k by_hand",
    ),
    "attention weights that are never dropped": (
        "modules/attention.py",
        "self.dropout if self.training else 0.0",
        "0.0",
        "models/test_model_engines.py",
    ),
    "int8 weights with the scale of another range": (
        "modules/kernels.py",
        "clamp(min=TINY) / LARGEST",
        "clamp(min=TINY) / 128",
        "modules/test_cpu_linear.py",
    ),
    # Training.
    "label smoothing that counts the target twice": (
        "modules/fused_loss.py",
        "peak = 1.0 - smoothing - spread",
        "peak = 1.0 - smoothing",
        "modules/test_fused_loss.py",
    ),
    "the first word after context left out of the loss": (
        "data/batch_fields.py",
        "real.cumsum(dim=1) > context.unsqueeze(1)",
        "real.cumsum(dim=1) > context.unsqueeze(1) + 1",
        "plugin/test_document_dataset.py plugin/test_fused_criterion.py",
    ),
    "word dropout that is the same in every epoch": (
        "data/word_dropout.py",
        "hash((self.seed, epoch, instance, side))",
        "hash((self.seed, 1, instance, side))",
        "data/test_word_dropout.py",
    ),
    "word dropout whose epoch does not reach workers": (
        "plugin/document_dataset.py",
        "torch.tensor(1, dtype=torch.int64).share_memory_()",
        "torch.tensor(1, dtype=torch.int64)",
        "plugin/test_epochs.py",
    ),
    "word dropout from numpy's shared random state": (
        "data/word_dropout.py",
        "source = numpy.random.RandomState(",
        "source = numpy.random\n        source.seed(",
        "data/test_word_dropout.py",
    ),
    "pretrained parameters that learn at the full rate": (
        "plugin/optimizers.py",
        'group["lr"] = lr * group["lr_scale"]',
        'group["lr"] = lr',
        "plugin/test_optimizers.py",
    ),
    "gradients that are made longer, too": (
        "plugin/patches.py",
        "(float(max_norm) / (norm + 1e-6)).clamp_(max=1)",
        "float(max_norm) / (norm + 1e-6)",
        "plugin/test_compat.py plugin/test_optimizers.py",
    ),
    "a hook that a compiled layer gets later, and that is not called": (
        "models/common/compiled.py",
        "torch._dynamo.config.skip_nnmodule_hook_guards = False",
        "pass",
        "models/test_compiled.py",
    ),
    "Adam that resumes at its first update": (
        "plugin/optimizers.py",
        "group.update(settings)",
        "group.update(settings, updates=0)",
        "plugin/test_optimizers.py",
    ),
    "a resumed epoch with other batches": (
        "plugin/document_dataset.py",
        "np.random.RandomState(self.seed).permutation",
        "np.random.RandomState().permutation",
        "plugin/test_epochs.py",
    ),
    "batches that go on in the next document": (
        "data/batching.py",
        "(full or position in ends)",
        "full",
        "data/test_batching.py",
    ),
    "a mean of checkpoints over one too many": (
        "plugin/checkpoints.py",
        "torch.float32)) / len(paths)",
        "torch.float32)) / (len(paths) + 1)",
        "plugin/test_averaging.py",
    ),
    "an exact start whose group attention is halved": (
        "models/common/pretrained.py",
        "state[local] / share",
        "state[local]",
        "models/test_sentence_start.py -k 'joined or separate'",
    ),
    "instances in the order in which they are stored": (
        "data/sentences.py",
        "np.lexsort((self.position, self.document))",
        "np.arange(len(self.document))",
        "data/test_sentences.py",
    ),
    "instances that hold exactly the limit": (
        "data/instances.py",
        "self.tokens + cost >= self.max_tokens",
        "self.tokens + cost > self.max_tokens",
        "data/test_instances.py",
    ),
    # Search.
    "sentences one word longer than their limit": (
        "search/rules.py",
        "state.words >= np.take_along_axis(limits, current, 1)",
        "state.words > np.take_along_axis(limits, current, 1)",
        "search/test_beam.py -k 'gtransformer or hypotheses'",
    ),
    "a forced </s> that costs nothing": (
        "search/beam.py",
        "index[full, 0] = ends[full], rule.end",
        "index[full, 0] = 0.0, rule.end",
        "search/test_beam.py -k 'gtransformer or hypotheses'",
    ),
    "a given <s> that costs": (
        "search/beam.py",
        "values[between, 0] = 0.0",
        "values[between, 0] = -0.5",
        "search/test_beam.py -k 'gtransformer or hypotheses'",
    ),
    "the tag of a last token </s> one too large": (
        "search/rules.py",
        "state.complete + (state.newest != self.eos)",
        "state.complete + 1",
        "search/test_beam.py -k 'gtransformer or hypotheses'",
    ),
    "a cache that is not reordered with its hypotheses": (
        "models/common/decoding/caches.py",
        "self.writers[order], self.kinds[order]",
        "self.writers[: len(order)], self.kinds[order]",
        "search/test_beam.py -k 'gtransformer or hypotheses'",
    ),
    "equal hypotheses at the start": (
        "search/beam.py",
        "self.sums[:, 0] = 0.0",
        "self.sums[:] = 0.0",
        "search/test_beam.py -k 'gtransformer or hypotheses'",
    ),
    "ended hypotheses that go on": (
        "search/beam.py",
        'np.argsort(ends, axis=1, kind="stable")[:, :beam]',
        "np.arange(beam)[None].repeat(len(ends), axis=0)",
        "search/test_beam.py -k 'gtransformer or hypotheses'",
    ),
    "sampling that draws the same for every batch": (
        "search/generator.py",
        "manual_seed(scoring.seed ^ checksum)",
        "manual_seed(scoring.seed)",
        "search/test_sampling.py",
    ),
    "drafts that are accepted unverified": (
        "search/parallel.py",
        "self.sentence[changed] + 1)",
        "self.sentence[changed] + 2)",
        "search/test_parallel.py -k order",
    ),
    "first translations of one sentence too few": (
        "plugin/first_pass.py",
        "sentence - (last - first - 1)",
        "sentence - (last - first - 2)",
        "plugin/test_first_pass.py",
    ),
    # Text.
    "truecasing that ignores the casing seen in training": (
        "preprocess/tokenisers.py",
        "use_known=True",
        "use_known=False",
        "preprocess/test_chain.py",
    ),
    "punctuation that is not normalised": (
        "preprocess/chain.py",
        "self._normaliser.normalize(line) if self._normaliser else line",
        "line",
        "preprocess/test_chain.py",
    ),
    "target text split by the source's dictionary": (
        "preprocess/chain.py",
        "dictionary_words(dictionary_of(folder, lang))",
        'dictionary_words(dictionary_of(folder, settings["source_lang"]))',
        "preprocess/test_chain.py",
    ),
    "a dictionary in another order": (
        "preprocess/instances.py",
        'stream.writelines(f"{word} {counts[word]}\\n" for word in words)',
        'stream.writelines(f"{word} {counts[word]}\\n" for word in reversed(words))',
        "preprocess/test_binarise.py",
    ),
    "documents by the order of their ids": (
        "preprocess/formats.py",
        "groupby(rows, key=itemgetter(0))",
        "groupby(sorted(rows, key=itemgetter(0)), key=itemgetter(0))",
        "preprocess/test_formats.py preprocess/test_convert.py",
    ),
    "subtitles of different scenes as one document": (
        "preprocess/subtitles.py",
        "- end > 1000 * gap",
        "- end > 2000 * gap",
        "translation/test_subtitles.py",
    ),
    "sentences split by English rules": (
        "translation/lines.py",
        "segment(two_letters(lang), line)",
        'segment("en", line)',
        "translation/test_splitter.py",
    ),
    # Scores.
    "a one-sided p value": (
        "evaluation/significance.py",
        "vectorized=True,",
        'vectorized=True, alternative="greater",',
        "evaluation/test_significance.py",
    ),
    "s-BLEU by document": (
        "evaluation/metrics.py",
        'Column("s-BLEU", "bleu", SENTENCES)',
        'Column("s-BLEU", "bleu", DOCUMENTS)',
        "evaluation/test_metrics.py evaluation/test_score.py",
    ),
    "realignment without costs of substitutions": (
        "evaluation/segments.py",
        "edit * (given != numbers.get(word, -1))",
        "0 * (given != numbers.get(word, -1))",
        "evaluation/test_realignment.py",
    ),
}


def copy_of_checkout(folder: Path) -> Path:
    """Copy what git tracks, as it is in the checkout."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


@cache
def find_nothing(checkout: Path, tests: str) -> bool:
    """Say whether tests pass without a fault."""
    return status(checkout, tests) == 0


def status(checkout: Path, tests: str) -> int:
    """Return pytest's exit status for tests in ``tests/core`` of a copy."""
    line = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider", *shlex.split(tests)]
    environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    folder = checkout / "tests" / "core"
    return subprocess.run(line, cwd=folder, env=environment, capture_output=True).returncode


def plant(checkout: Path, name: str) -> str:
    """Plant a fault, run its tests, restore the file; return what happened."""
    file, old, new, tests = FAULTS[name]
    path = checkout / "gtransformer" / file
    text = path.read_text(encoding="utf-8")
    if text.count(old) != 1:
        return f"its line occurs {text.count(old)} times in {file}"
    if not find_nothing(checkout, tests):
        return f"tests fail without it ({tests})"
    path.write_text(text.replace(old, new), encoding="utf-8")
    found = status(checkout, tests)
    path.write_text(text, encoding="utf-8")
    return {0: "not found", 1: "found"}.get(found, f"pytest ended with status {found}")


def main() -> int:
    """Plant the chosen faults and print what happened to each, and how many were found."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("words", nargs="*", help="parts of the faults' names (default: all)")
    parser.add_argument("--jobs", type=int, default=2, help="faults at a time (default: 2)")
    args = parser.parse_args()
    chosen = [name for name in FAULTS if not args.words or any(map(name.__contains__, args.words))]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(args.jobs) as pool:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(args.jobs):
            copies.put(copy_of_checkout(Path(folder) / str(number)))

        def planted(name: str) -> bool:
            checkout = copies.get()
            outcome = plant(checkout, name)
            copies.put(checkout)
            print(f"{outcome}: {name}", flush=True)
            return outcome == "found"

        number = sum(pool.map(planted, chosen))
    print(f"{number} of {len(chosen)} faults found")
    return int(number < len(chosen))


if __name__ == "__main__":
    raise SystemExit(main())
