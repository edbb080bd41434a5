"""Make what the Bible's miniature reads: bible.py BIBLE OUT COUNT.

BIBLE is a raw corpus of four pairs of versions, one after the other, a chapter a document. Its training documents are
cut into 20 parts. All pairs of every second part are OUT/sentences, for the sentence models. OUT/real has COUNT of
these documents, and OUT/mono.de the German side of at most twice as many documents of the other parts. Each is of a
pair that is drawn. The pairs lack different chapters, so a place is about the same chapter in each: some chapters are
there twice, in two versions, and the first and last five documents of a part are left out.
"""

import random
import sys
from pathlib import Path

from gtransformer.preprocess.corpus import read_documents
from gtransformer.preprocess.formats import write_split
from gtransformer.preprocess.plain_text import write_documents

PAIR, PARTS, BORDER, FIRST = ("en", "de"), 20, 5, "In the beginning God created"

bible, out, count = *map(Path, sys.argv[1:3]), int(sys.argv[3])
sets = {
    split: list(read_documents(*(bible / f"concatenated_en2de_{split}_{lang}.txt" for lang in PAIR)))
    for split in ("train", "dev", "test")
}
train = sets["train"]
starts = [number for number, document in enumerate(train) if document[0][0].startswith(FIRST)]
assert len(starts) == 4, starts
halves = [[], []]  # documents of even and of odd parts, of each pair of versions
for first, end in zip(starts, [*starts[1:], len(train)], strict=True):
    size = (end - first) / PARTS
    for half in halves:
        half.append({})
    for number, document in enumerate(train[first:end]):
        part, inside = int(number / size), number % size
        if BORDER <= inside < size - BORDER:
            halves[part % 2][-1][number] = document
draw = random.Random(1)
drawn = []  # of both halves: places in random order, each of a pair that is drawn
for half, size in zip(halves, (count, 2 * count), strict=True):
    places = sorted(set.intersection(*map(set, half)))
    draw.shuffle(places)
    drawn.append([draw.choice(half)[place] for place in places[:size]])
real, others = drawn
everything = [document for pair in halves[0] for document in pair.values()]
for name, documents in (("sentences", everything), ("real", real)):
    (out / name).mkdir(parents=True, exist_ok=True)
    for split in sets:
        write_split(out / name, split, PAIR, documents if split == "train" else sets[split])
write_documents(out / "mono.de", ([target for _, target in document] for document in others))
for name, documents in (("sentences", everything), ("real", real), ("mono.de", others)):
    print(f"{name}: {len(documents)} documents, {sum(map(len, documents))} verses")
