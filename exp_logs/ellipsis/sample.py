"""Draw test items: sample.py CORPUS OUTPUT COUNT [ITEMS...].

CORPUS is of gtransformer convert ctxpro --split test. COUNT 0 takes all. ITEMS are
ctxpro_train.json of training
corpora: items from their films are left out. Writes OUTPUT.json, the sentences alone, OUTPUT.1.en,
with the one and the two before them, OUTPUT.2.en and OUTPUT.3.en, and after the two of another
film's item, OUTPUT.other.en.
"""

import json
import random
import sys
from pathlib import Path

from gtransformer.preprocess.suites import SCORED

folder, output, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
training = [json.loads(Path(path).read_text(encoding="utf-8")) for path in sys.argv[4:]]
trained = {entry["document id"] for items in training for entry in items}
entries = json.loads((folder / "ctxpro_test.json").read_text(encoding="utf-8"))
documents = []
for line in (folder / "concatenated_en2pt_test_en.txt").read_text(encoding="utf-8").splitlines():
    documents.append([]) if line == "<d>" else documents[-1].append(line)
drawn = [number for number, entry in enumerate(entries) if entry["document id"] not in trained]
drawn = sorted(random.Random(1).sample(drawn, count)) if count else drawn
kept = [
    {key: value for key, value in entries[one].items() if key != SCORED} for one in drawn
]  # it is the last one
Path(f"{output}.json").write_text(json.dumps(kept, ensure_ascii=False), encoding="utf-8")
for length in (1, 2, 3):
    text = "".join(
        "".join(f"{line}\n" for line in ("<d>", *documents[one][-length:])) for one in drawn
    )
    Path(f"{output}.{length}.en").write_text(text, encoding="utf-8")
draw, others = random.Random(1), list(range(len(drawn)))
films = [entries[one]["document id"] for one in drawn]
same = others
while len(same) >= 40:
    draw.shuffle(others)
    same = [one for one, other in enumerate(others) if films[one] == films[other]]
for one in same:
    while films[one] == films[others[one]]:
        others[one] = draw.randrange(len(drawn))
texts = [
    "\n".join(("<d>", *documents[drawn[other]][-3:-1], documents[one][-1], ""))
    for one, other in zip(drawn, others, strict=True)
]
Path(f"{output}.other.en").write_text("".join(texts), encoding="utf-8")
