"""Keep translations: keep.py FOLDER IDS > translations.json; FOLDER as for compare.py, IDS of
LibreOffice's test set.

For each kind the ids (film and number of the segment, or LibreOffice's), and by system the judged
lines.
"""

import json
import sys
from pathlib import Path

folder, kept = Path(sys.argv[1]), {}
for kind in ("ellipsis", "formality", "libre"):
    if kind == "libre":
        kept[kind] = {"ids": Path(sys.argv[2]).read_text(encoding="utf-8").splitlines()}
    else:
        entries = json.loads((folder / f"{kind}.json").read_text(encoding="utf-8"))
        kept[kind] = {"ids": [f"{entry['document id']} {entry['segment id']}" for entry in entries]}
    for path in sorted(folder.glob(f"*.{kind}")):
        lines = path.read_text(encoding="utf-8").splitlines()
        if kind != "libre":  # the last line of each document
            lines = [
                line
                for line, after in zip(lines, [*lines[1:], "<d>"], strict=True)
                if after == "<d>" != line
            ]
        kept[kind][path.stem] = lines
print(json.dumps(kept, ensure_ascii=False, indent=0))
