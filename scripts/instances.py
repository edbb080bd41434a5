"""Cut tokenised documents into instances: scripts/instances.py IN.en IN.de OUT.en OUT.de [TOKENS]
[SENTENCES]

A line is a sentence; an empty line begins a document. An instance, ``<s> a b </s> <s> c </s>``,
stays below TOKENS (512), each sentence counting the longer of its sides and two, and has at most
SENTENCES (1000) sentences (Bao et al. 2021).
"""

import sys


def instances(source, target, tokens, sentences):
    """Yield (source sentences, target sentences) of each instance."""
    size, pairs = 0, []
    for pair in zip(source, target, strict=True):
        a, b = (line.split() for line in pair)
        length = max(len(a), len(b)) + 2
        if pairs and (not a or size + length >= tokens or len(pairs) == sentences):
            yield tuple(zip(*pairs, strict=True))
            size, pairs = 0, []
        if a and b:
            size += length
            pairs.append((f"<s> {' '.join(a)} </s>", f"<s> {' '.join(b)} </s>"))
    if pairs:
        yield tuple(zip(*pairs, strict=True))


def main(source, target, to_source, to_target, tokens="512", sentences="1000"):
    """Read two files, write two files."""
    with open(source, encoding="utf-8") as a, open(target, encoding="utf-8") as b:
        found = list(instances(a, b, int(tokens), int(sentences)))
    for side, path in enumerate((to_source, to_target)):
        with open(path, "w", encoding="utf-8") as stream:
            stream.writelines(" ".join(instance[side]) + "\n" for instance in found)


main(*sys.argv[1:])
