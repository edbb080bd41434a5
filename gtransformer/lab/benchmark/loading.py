"""What a training process needs to load a prepared corpus and to cut it into batches: memory and processor time.

The corpus is random words in the layout of ``scripts/prepare.sh``, since only its sizes matter.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gtransformer.data.sidecar import Sidecar
from gtransformer.data.stored import HEAD, MAGIC
from gtransformer.files import process_memory
from gtransformer.tasks.config import TranslationDocConfig
from gtransformer.tasks.translation_doc import TranslationDocTask

WORDS, SENTENCES, INSTANCES = 24, 20, 2  # of a sentence on average, of an instance, of a document
VOCABULARY = 30_000
CODE = 8  # of 16 bits, which fairseq takes for a dictionary of this size
KINDS = {
    "stored": {},
    "greedy, 512 tokens": {"instances": "greedy", "instance_tokens": 512},
    "single sentences": {"instances": "disjoint", "context_sentences": 0},
    "sliding, 3 sentences before, batches by document": {
        "instances": "sliding", "context_sentences": 3, "batch_order": "document", "context_loss": "off",
    },
}  # fmt: skip


def write_corpus(folder: Path, pairs: int) -> dict[str, int]:
    """Write a training set of so many sentence pairs (whole documents); returns the bytes of its files."""
    draw = np.random.RandomState(1)
    folder.mkdir(parents=True, exist_ok=True)
    instances = pairs // (SENTENCES * INSTANCES) * INSTANCES
    for lang in ("en", "de"):
        lengths = np.clip(draw.poisson(WORDS, instances * SENTENCES), 1, None) + 2
        ends = np.cumsum(lengths)
        tokens = draw.randint(4, VOCABULARY, ends[-1]).astype(np.uint16)
        tokens[ends - lengths], tokens[ends - 1] = 0, 2
        sizes = lengths.reshape(-1, SENTENCES).sum(1) + 1  # fairseq ends each line with a further </s>
        np.insert(tokens, ends[SENTENCES - 1 :: SENTENCES], 2).tofile(folder / f"train.en-de.{lang}.bin")
        with open(folder / f"train.en-de.{lang}.idx", "wb") as stream:
            stream.write(HEAD.pack(MAGIC, 1, CODE, instances))
            stream.write(sizes.astype(np.int32).tobytes())
            stream.write(((np.cumsum(sizes) - sizes) * 2).tobytes())
        words = "".join(f"w{number} 1\n" for number in range(VOCABULARY))
        (folder / f"dict.{lang}.txt").write_text(f"{words}[en] 1\n[de] 1\n<mask> 1\n", encoding="utf-8")
    rows = [(one // INSTANCES, one % INSTANCES * SENTENCES, SENTENCES) for one in range(instances)]
    Sidecar("train", "en", "de", instances // INSTANCES, rows).save(folder / "train.en-de.instances.json")
    return {path.name: path.stat().st_size for path in sorted(folder.iterdir())}


def measure(folder: Path, kind: str, processes: int, others: int, max_tokens: int) -> dict:
    """Load that corpus as the first of so many processes of a training, in a process of its own.

    Returns instances and batches, seconds of the processor (loading, cutting batches, beginning an epoch, going on with
    one that ``others`` have begun), and the memory in MiB that this process alone has, before and then.
    """
    return apart(_measured, folder, kind, processes, others, max_tokens)


def apart(work: Callable[..., Any], *arguments: Any) -> Any:
    """What ``work`` returns in a process of its own, so that no memory that others have freed is taken by it."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(work, arguments)


def _measured(folder: Path, kind: str, processes: int, others: int, max_tokens: int) -> dict:
    elsewhere = {"dataset_impl": None, "required_seq_len_multiple": 1, "train_subset": "train", "doc_seed": 1}
    task = TranslationDocTask.setup_task(
        TranslationDocConfig(data=str(folder), source_lang="en", target_lang="de", **elsewhere, **KINDS[kind])
    )

    def iterator(number: int):
        return task.get_batch_iterator(
            task.dataset("train"), max_tokens=max_tokens, num_shards=number, disable_iterator_cache=True
        )

    memory, began = [own_memory()], [time.process_time()]
    task.load_dataset("train")
    memory.append(own_memory()), began.append(time.process_time())
    begun = iterator(others)
    began.append(time.process_time())
    running = begun.next_epoch_itr(shuffle=True)
    memory.append(own_memory()), began.append(time.process_time())
    next(running)
    state, resumed = begun.state_dict(), iterator(processes)
    before = time.process_time()
    resumed.load_state_dict(state)
    seconds = [*np.diff(began).tolist(), time.process_time() - before]
    names = ("load", "batches", "epoch", "resume")
    return {
        "kind": kind,
        "instances": len(task.dataset("train")),
        "batches": len(begun.frozen_batches),
        "seconds": {name: round(value, 2) for name, value in zip(names, seconds, strict=True)},
        "mib": dict(zip(("before", "loaded", "epoch"), memory, strict=True)),
    }


def own_memory() -> int:
    """MiB of this process that are no pages of files, which all processes of a machine share."""
    found = process_memory("RssAnon")
    if found is None:
        raise OSError("this system does not say how much memory a process has")
    return found >> 20
