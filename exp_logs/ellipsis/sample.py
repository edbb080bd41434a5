"""Draw test items: sample.py CORPUS COUNT [FIRST] OUTPUT; CORPUS is of gtransformer corpus convert ctxpro --split test.

Writes OUTPUT.json, their documents OUTPUT.docs.en and their last sentences OUTPUT.last.en; FIRST: of those drawn.
"""

import json
import random
import sys
from pathlib import Path

folder, count, output = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[-1]
entries = json.loads((folder / "ctxpro_test.json").read_text(encoding="utf-8"))
documents = []
for line in (folder / "concatenated_en2pt_test_en.txt").read_text(encoding="utf-8").splitlines():
    documents.append([]) if line == "<d>" else documents[-1].append(line)
drawn = sorted(random.Random(1).sample(range(len(documents)), count))
drawn = drawn[: int(sys.argv[3])] if len(sys.argv) > 4 else drawn
Path(f"{output}.json").write_text(json.dumps([entries[one] for one in drawn], ensure_ascii=False), encoding="utf-8")
text = "".join("".join(f"{line}\n" for line in ("<d>", *documents[one])) for one in drawn)
Path(f"{output}.docs.en").write_text(text, encoding="utf-8")
Path(f"{output}.last.en").write_text("".join(f"{documents[one][-1]}\n" for one in drawn), encoding="utf-8")
