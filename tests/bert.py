"""A small random BERT in Hugging Face's format, tokeniser included, for tests."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch

from tests.support import write_lines

WORDS = ["the", "a", "dog", "cat", "sees", "hears", "##s", "##ing", ".", ","]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def skip_without_transformers() -> None:
    """Skip the test where the optional extra is not installed; the package is the first to import
    it.
    """
    if importlib.util.find_spec("transformers") is None:
        pytest.skip("the optional extra [hf] is not installed")


def save_bert(folder: Path, words: list[str] | None = None, **options) -> None:
    """16 dimensions, 2 layers, 2 heads, 64 positions; special tokens stand first and last."""
    import transformers

    words = [*SPECIAL[:4], *(words or WORDS), SPECIAL[4]]
    config = transformers.BertConfig(
        **{
            "vocab_size": len(words),
            "hidden_size": 16,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 24,
            "max_position_embeddings": 64,
            **options,
        }
    )
    torch.manual_seed(5)
    model = transformers.BertModel(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))  # its own initialisation is narrow
    model.save_pretrained(folder)
    write_lines(folder / "vocab.txt", words)
    transformers.BertTokenizerFast.from_pretrained(folder, local_files_only=True).save_pretrained(
        folder
    )
