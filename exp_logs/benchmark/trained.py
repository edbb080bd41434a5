"""Time and compare translations of a trained G-Transformer and of the sentence Transformer that it started from.

trained.py SENTENCE_MODEL DIRECTORY SOURCE REFERENCE > RESULT.json: a checkpoint of a sentence Transformer of this
package, with which CTranslate2 translates; the exported G-Transformer; raw text with a line <d> before each document.
The first eight documents are cut to 17 sentences and to the tokens of an instance. Systems take turns; seconds are of
the processor, medians of ROUNDS.
"""

import json
import os
import statistics
import sys
import time
from pathlib import Path

import sacrebleu
from fairseq.models.transformer import TransformerConfig, TransformerModelBase

from gtransformer.data.instances import BOUNDARY_TOKENS
from gtransformer.lab.benchmark.ctranslate import SentenceTranslator
from gtransformer.modules.processor import has_int8
from gtransformer.provenance import provenance
from gtransformer.tasks.trained import load_trained
from gtransformer.translation.api import GTransformer

PRECISIONS = ("float32", "int8") if has_int8() else ("float32",)
ROUNDS, SENTENCES, AT_ONCE = int(os.environ.get("ROUNDS", 5)), 17, (1, 8)
checkpoint, directory, source, reference = sys.argv[1:]


def documents(path):
    return [part.strip("\n").split("\n") for part in Path(path).read_text("utf-8").split("<d>\n") if part]


models = {one: GTransformer.from_pretrained(directory, "cpu", precision=one) for one in PRECISIONS}
base = models["float32"]
encoded = [base.chain.encode(one) for one in documents(source)]
texts, references = [], []
for document, right in zip(encoded, documents(reference), strict=True):
    tokens, count = 0, 0
    for sentence in document[:SENTENCES]:
        tokens += len(sentence) + BOUNDARY_TOKENS
        count += tokens <= base.max_instance_tokens
    texts.append(document[:count])
    references += right[:count]
texts = texts[: AT_ONCE[-1]]
references = references[: sum(map(len, texts))]

sentence_model, task = load_trained(checkpoint, data=directory)
cfg, sizes = TransformerConfig(), sentence_model.cfg
for side in ("encoder", "decoder"):
    for size in ("embed_dim", "ffn_embed_dim", "layers", "attention_heads"):
        setattr(getattr(cfg, side), size, getattr(sizes, f"{side}_{size}"))
cfg.decoder.input_dim = cfg.decoder.output_dim = cfg.decoder.embed_dim
cfg.share_all_embeddings, heads = True, cfg.encoder.attention_heads
fairseqs = TransformerModelBase.build_model(cfg, task)
weights = {name.replace("_local", ""): value for name, value in sentence_model.state_dict().items()}
fairseqs.load_state_dict(weights)
peers = {one: SentenceTranslator(fairseqs.eval(), task.source_dictionary, heads, one) for one in models}


def peer(precision):
    return lambda part: [" ".join(words) for words in peers[precision].translate(sum(part, []), 5)]


def ours(precision, strategy):
    options = base.options.changed(strategy=strategy, beam=5, max_tokens=1 << 20)
    return lambda part: [
        text for found in models[precision].engine.translate(part, options) for text in found[0].sentences
    ]


systems = {f"ctranslate2 {one}": peer(one) for one in models}
systems |= {f"{strategy} {one}": ours(one, strategy) for one in models for strategy in ("full", "parallel")}
seconds = {name: {count: [] for count in AT_ONCE} for name in systems}
found = {}
for _ in range(ROUNDS):
    for name, translate in systems.items():
        for count in AT_ONCE:
            began = time.process_time()
            parts = [texts[first : first + count] for first in range(0, len(texts), count)]
            found[name] = [text for part in parts for text in translate(part)]
            seconds[name][count].append(time.process_time() - began)
    print(json.dumps(seconds), file=sys.stderr, flush=True)

result = {}
for name, lines in found.items():
    plain = base.chain.decode(lines)
    same = {one: sum(a == b for a, b in zip(lines, found[one], strict=True)) for one in found if one != name}
    result[name] = {
        "seconds": {str(count): statistics.median(times) for count, times in seconds[name].items()},
        "rounds": seconds[name],
        "tokens": sum(len(line.split()) + BOUNDARY_TOKENS for line in lines),
        "bleu": sacrebleu.corpus_bleu(plain, [references]).score,
        "equal": same,
    }
sizes = {"documents": len(texts), "sentences": len(references)}
command = "python exp_logs/benchmark/trained.py SENTENCE_MODEL DIRECTORY SOURCE REFERENCE"
print(json.dumps({"text": sizes, "systems": result} | provenance(command, []), indent=1))
