"""A small prepared corpus, loaded as options say, and fairseq's iterator over it as its trainer
asks for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from fairseq import tasks

from gtransformer.data.instance_index import InstanceIndex
from gtransformer.plugin.task import TranslationDocTask
from tests.support import ROOT, task_config, training_options

LEN48 = ROOT / "tests" / "prepared" / "len48"
_OPENED = []  # iterators of the running test


def setup(folder=LEN48 / "bin", **options) -> TranslationDocTask:
    """The task with these options."""
    return TranslationDocTask.setup_task(task_config(data=str(folder), **options))


def load(split="train", folder=LEN48 / "bin", numbered=False, **options):
    """The task with these options, and a data set of it; ``numbered``: for a model that reads
    sentences' numbers.
    """
    task = setup(folder, **options)
    task.numbered = numbered
    task.load_dataset(split)
    return task, task.dataset(split)


@dataclass
class Span:
    """Where an instance lies in its document; all numbers from 0."""

    document: int
    first_sentence: int
    sentences: int
    current: tuple[int, int]


def spans_of(dataset) -> list[Span]:
    """The spans of all instances of a data set."""
    return [Span(*row[:3], tuple(row[3:])) for row in dataset.spans.tolist()]


def built(data, folder, arch, *arguments):
    """(model, task, all options), built as fairseq-train builds them; ``folder``: where it
    saves.
    """
    line = [
        str(data),
        "--task=translation_doc",
        "-s=en",
        "-t=de",
        "--langs=en,de",
        f"--arch={arch}",
    ]
    line += [f"--save-dir={folder / 'save'}", "--optimizer=adam", *arguments]
    cfg = training_options(line)
    task = tasks.setup_task(cfg.task)
    return task.build_model(cfg.model), task, cfg


def documents(split: str, lang: str) -> dict[tuple[int, int], list[str]]:
    """Sentences of a split as it was prepared, by document and place: words."""
    instance_index = InstanceIndex.load(LEN48 / "bin" / f"{split}.en-de.instances.json")
    found = {}
    lines = (LEN48 / "instances" / f"{split}.{lang}").read_text(encoding="utf-8").splitlines()
    for (document, first, _), line in zip(instance_index.instances, lines, strict=True):
        for number, sentence in enumerate(line.split("<s>")[1:]):
            found[document, first + number] = sentence.split()
    return found


def sentences_of(task, tokens) -> list[list[str]]:
    """Sentences of an instance, each with its </s>."""
    words = [task.src_dict[token] for token in tokens.tolist()]
    starts = [i for i, word in enumerate(words) if word == "<s>"]
    assert starts[0] == 0
    return [
        words[one + 1 : other] for one, other in zip(starts, [*starts[1:], len(words)], strict=True)
    ]


def iterator(task, dataset, workers=0, **options):
    """The task's iterator over a data set; ``end_workers`` ends its processes."""
    options = {"max_tokens": 100, "max_positions": (1000, 1000), "data_buffer_size": 5, **options}
    opened = task.get_batch_iterator(dataset, seed=1, num_workers=workers, **options)
    _OPENED.append(opened)
    return opened


def end_workers() -> None:
    """Workers of former tests would be waited for, five seconds each, whenever their loaders are
    thrown away.
    """
    while _OPENED:
        loader = _OPENED.pop().dataloader
        if loader is not None and loader._iterator is not None and loader.num_workers:
            loader._iterator._shutdown_workers()


def epochs(batches, count: int) -> list[list]:
    """Read so many epochs as fairseq's training loop does; their batches as ``read`` gives them."""
    return [[read(batch) for batch in batches.next_epoch_itr(shuffle=True)] for _ in range(count)]


def read(batch: dict) -> tuple[list, ...] | None:
    """Ids, source, input and target of a batch; None of an empty one."""
    if not batch:
        return None
    inputs = batch["net_input"]
    tensors = batch["id"], inputs["src_tokens"], inputs["prev_output_tokens"], batch["target"]
    return tuple(tensor.tolist() for tensor in tensors)
