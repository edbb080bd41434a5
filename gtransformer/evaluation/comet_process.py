"""Score texts with unbabel-comet. This file runs by itself, in the environment of that package, over two files of JSON.

``python comet_process.py REQUEST RESULT``. It must import nothing of this package, whose environment is another one.

REQUEST has ``models``, by metric a name of the Hugging Face hub or a checkpoint file; ``part``, the file in which the
scores of finished parts are kept, which the next run does not compute again; and ``jobs``. A job is texts to score:
``metric``, ``context`` (0: none) and ``sides``, which are ``src``, ``mt`` and perhaps ``ref``. Each side is a list of
segments, and a segment is a list of sentences, of which the last is scored and the others are its context.

RESULT has ``version`` (of unbabel-comet) and, for each job, ``scores``, ``too_long``, ``context_cut`` and ``pooled``
(``prepare``); or ``fault``, what the user has to correct. Without jobs, models are downloaded but not loaded. While it
runs, a line ``scored N`` on standard output tells the number of segments so far.
"""

import hashlib
import json
import os
import sys

AT_ONCE = 512  # segments of a part, and between two lines of progress
BATCH = 16


def cut_context(segments, fits):
    """Return each segment with as much of its context as fits, the nearest sentences, and two counts.

    Args:
        segments: of each segment its sides, of equal numbers of sentences, the last of which is the segment's own.
        fits: returns whether sides, as lists of sentences, are short enough for the encoder.

    Returns the segments, the number of those that do not fit even without context, and of those with less context.
    """
    kept, too_long, context_cut = [], 0, 0
    for sides in segments:
        count = len(next(iter(sides.values())))
        first = 0
        while first < count - 1 and not fits({name: side[first:] for name, side in sides.items()}):
            first += 1
        sides = {name: side[first:] for name, side in sides.items()}
        if first == count - 1 and not fits(sides):
            too_long += 1
        context_cut += first > 0
        kept.append(sides)
    return kept, too_long, context_cut


def prepare(model, sides, context):
    """Return the segments of a job as unbabel-comet takes them, two counts as ``cut_context``, and ``pooled``.

    ``pooled``: the model averages over the last sentence of a text only (Vernikos et al. 2022), after its separator.
    Other models have no such mode: they score the whole text, whose sentences are joined by blanks.
    """
    encoder = model.encoder
    pooled = False
    if context:
        model.enable_context()
        pooled = bool(getattr(model, "use_context", False))
    between = f" {encoder.tokenizer.sep_token} " if pooled else " "

    def text(sentences):
        return between.join(sentences if pooled else filter(None, sentences))

    def fits(segment):
        lengths = {name: len(encoder.tokenizer(text(one))["input_ids"]) for name, one in segment.items()}
        if not hasattr(model, "concat_inputs"):  # each side is a sequence by itself
            return max(lengths.values()) <= encoder.max_positions - 2
        # All sides in one sequence, each without its two boundary tokens.
        joined = sum(lengths.values()) - 2 * len(lengths) + 2 + encoder.size_separator * (len(lengths) - 1)
        return joined <= encoder.max_positions and max(lengths.values()) <= encoder.max_positions - 2

    segments = [{name: side[number] for name, side in sides.items()} for number in range(len(sides["mt"]))]
    kept, too_long, context_cut = cut_context(segments, fits)
    return [{name: text(one) for name, one in sides.items()} for sides in kept], too_long, context_cut, pooled


def read_parts(path):
    """Return the scores of parts that were finished before an interruption, by key; a line may be incomplete."""
    parts = {}
    if os.path.isfile(path):
        with open(path, encoding="utf-8") as stream:
            for line in stream:
                try:
                    parts.update(json.loads(line))
                except ValueError:
                    continue
    return parts


def first_line(error):
    """Return the first line of an error's text, or its kind."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def run(request):
    """Return the result of a request."""
    try:
        import importlib.metadata

        from comet import download_model, load_from_checkpoint
    except ImportError as error:
        return {"fault": "package", "reason": first_line(error)}
    result = {"version": importlib.metadata.version("unbabel-comet"), "jobs": []}
    paths, loaded, done, parts = {}, {}, 0, read_parts(request["part"])
    for metric, name in request["models"].items():
        try:
            paths[metric] = name if name.endswith(".ckpt") else download_model(name)
        except Exception as error:  # the hub and the network raise many kinds
            return {"fault": "model", "model": name, "reason": first_line(error)}
    for job in request["jobs"]:
        path, name = paths[job["metric"]], request["models"][job["metric"]]
        if path not in loaded:
            loaded.clear()  # one at a time: XCOMET has billions of parameters
            try:
                loaded[path] = load_from_checkpoint(path)
            except Exception as error:  # files and Lightning raise many kinds
                return {"fault": "model", "model": name, "reason": first_line(error)}
        model, sides = loaded[path], job["sides"]
        with_references = model.requires_references()
        reads_references = with_references or "ref" in (model.hparams.get("input_segments") or ())
        if with_references and "ref" not in sides or "ref" in sides and not reads_references:
            return {"fault": "references", "model": name, "needed": with_references}
        model.use_context = False  # of an earlier job
        texts, too_long, context_cut, pooled = prepare(model, sides, job["context"])
        import torch

        scores = []
        for begin in range(0, len(texts), AT_ONCE):
            part = texts[begin : begin + AT_ONCE]
            made = [result["version"], path, os.path.isfile(path) and os.stat(path).st_mtime_ns, pooled, part]
            key = hashlib.sha256(json.dumps(made).encode()).hexdigest()
            if key not in parts:
                output = model.predict(part, batch_size=BATCH, gpus=int(torch.cuda.is_available()), progress_bar=False)
                parts[key] = [*map(float, output["scores"])]
                os.makedirs(os.path.dirname(request["part"]), exist_ok=True)
                with open(request["part"], "a", encoding="utf-8") as stream:
                    stream.write(f"\n{json.dumps({key: parts[key]})}\n")
            scores += parts[key]
            done += len(part)
            print(f"scored {done}", flush=True)
        counts = {"too_long": too_long, "context_cut": context_cut, "pooled": pooled}
        result["jobs"].append({"scores": scores, **counts})
    return result


def main(request, result):
    """Read a request, write its result."""
    # Python puts this file's folder first, where comet.py is another module than the package's.
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [one for one in sys.path if os.path.abspath(one) != folder]
    with open(request, encoding="utf-8") as stream:
        found = run(json.load(stream))
    with open(result, "w", encoding="utf-8") as stream:
        json.dump(found, stream)


if __name__ == "__main__":
    main(*sys.argv[1:])
