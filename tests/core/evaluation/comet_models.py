"""Run by a Python that has unbabel-comet: write small random models of each kind, or score samples.

``comet_models.py write FOLDER TEXT`` and ``comet_models.py score JOBS SCORES``.
"""

import json
import sys
from pathlib import Path


def write(folder: Path, text: Path) -> None:
    """A tokeniser of words and letters, a random XLM-R of two layers, and three models of COMET on it."""
    import torch
    import yaml
    from comet.models import str2model
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import XLMRobertaConfig, XLMRobertaTokenizerFast

    words = sorted({word for line in text.read_text(encoding="utf-8").splitlines() for word in line.split()})
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate([*special, *words])}, "<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        "<s> $A </s>", "<s> $A </s> </s> $B </s>", [("<s>", 0), ("</s>", 2)]
    )
    encoder = folder / "encoder"
    XLMRobertaTokenizerFast(tokenizer_object=tokenizer).save_pretrained(encoder)
    XLMRobertaConfig(
        vocab_size=len(special) + len(words), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=26, type_vocab_size=1,
    ).save_pretrained(encoder)  # fmt: skip
    common = {
        "encoder_model": "XLM-RoBERTa", "pretrained_model": str(encoder), "hidden_sizes": [8],
        "layer_transformation": "softmax", "load_pretrained_weights": False, "local_files_only": True,
    }  # fmt: skip
    kinds = {
        "comet": ("regression_metric", {"pool": "avg"}),
        "kiwi": ("unified_metric", {"input_segments": ["mt", "src"], "word_layer": 1}),
        "xcomet": ("xcomet_metric", {"encoder_model": "XLM-RoBERTa", "word_layer": 1}),
    }
    for seed, (name, (kind, more)) in enumerate(kinds.items()):
        torch.manual_seed(seed)
        model = str2model[kind](**{**common, **more})
        for parameter in model.parameters():  # fresh ones are so small that every text has nearly the same score
            torch.nn.init.normal_(parameter, std=0.5)
        path = folder / name / "checkpoints" / "model.ckpt"
        path.parent.mkdir(parents=True)
        (folder / name / "hparams.yaml").write_text(yaml.dump({"class_identifier": kind}))
        state = {"state_dict": model.state_dict(), "hyper_parameters": dict(model.hparams)}
        torch.save({**state, "pytorch-lightning_version": "2.0.0"}, path)


def score(jobs: Path, scores: Path) -> None:
    """The scores that unbabel-comet gives by itself, of (checkpoint, samples, whether with context)."""
    from comet import load_from_checkpoint

    found = []
    for checkpoint, samples, context in json.loads(jobs.read_text()):
        model = load_from_checkpoint(checkpoint)
        if context:
            model.enable_context()
        found.append([float(one) for one in model.predict(samples, batch_size=1, gpus=0, progress_bar=False)["scores"]])
    scores.write_text(json.dumps(found))


if __name__ == "__main__":
    {"write": write, "score": score}[sys.argv[1]](*map(Path, sys.argv[2:]))
