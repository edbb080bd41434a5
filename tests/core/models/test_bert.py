"""The encoder initialised from a BERT of Hugging Face transformers (Table 2, G-Transformer +
BERT).
"""

from __future__ import annotations

import pytest
import torch
from fairseq.data import Dictionary

from gtransformer.errors import UserError
from gtransformer.models.gtransformer.bert import GTransformerBertConfig, GTransformerBertModel
from gtransformer.plugin.bert import load_bert
from gtransformer.preprocess.instances import write_dictionary
from gtransformer.preprocess.tokenisers import WordPieces, save_wordpieces
from tests.bert import save_bert, skip_without_transformers
from tests.core.models import fairseq_models
from tests.support import encoded, pad_batch, relative_error, tiny_dictionary

pytestmark = pytest.mark.slow

SIZES = {
    **fairseq_models.SIZES,
    "dropout": 0.0,
    "doc_mode": "partial",
    "max_source_positions": 64,
    "max_target_positions": 1_000_000,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    skip_without_transformers()
    folder = tmp_path_factory.mktemp("bert")
    save_bert(folder, num_hidden_layers=3)
    return folder


@pytest.fixture(scope="module")
def source(folder):
    """The source dictionary as gtransformer prepare --bert writes it."""
    save_wordpieces(folder, folder / "wordpieces.json")
    words = WordPieces(folder / "wordpieces.json").words()
    write_dictionary(dict.fromkeys(words, 1), ["en", "de"], folder / "dict.txt")
    return Dictionary.load(str(folder / "dict.txt"))


def encode_both(folder, source, model, documents):
    """Top states at the real tokens of documents of sentences: BERT's, and ours."""
    import transformers

    bert = transformers.BertModel.from_pretrained(folder).eval()
    vocabulary = transformers.BertTokenizerFast.from_pretrained(folder).get_vocab()
    theirs = [
        [vocabulary[w] for s in document for w in ("[CLS]", *s.split(), "[SEP]")]
        for document in documents
    ]
    special = {"[UNK]": "<unk>", "[MASK]": "<mask>"}
    ours = [
        [
            source.index(special.get(word, word))
            for line in document
            for word in ("<s>", *line.split(), "</s>")
        ]
        for document in documents
    ]
    ids = pad_batch(theirs, vocabulary["[PAD]"], left=False)
    tokens = pad_batch(ours, source.pad(), left=True)
    with torch.no_grad():
        expected = bert(ids, attention_mask=ids.ne(vocabulary["[PAD]"]).long()).last_hidden_state
        found = encoded(model, tokens)
    return expected[ids.ne(vocabulary["[PAD]"])], found[tokens.ne(source.pad())]


def test_encoder_of_one_sentence_is_berts(folder, source):
    """With gates forced to local, for words, unknown words and <mask>; in float32, within
    rounding.
    """
    config = GTransformerBertConfig(**SIZES)
    model = GTransformerBertModel.build(config, source, tiny_dictionary(5)).eval()
    before = model.decoder.state_dict()["layers.0.fc1.weight"].clone()
    load_bert(model, folder)
    for name, parameter in model.named_parameters():
        if "_gate.0.bias" in name:  # nothing but group attention passes: the sigmoid is exactly 1
            parameter.data.fill_(1e4)
    documents = [["the dog sees a cat ##s ."], ["a cat"], ["the [UNK] hears [MASK] ,"]]
    expected, found = encode_both(folder, source, model, documents)
    assert relative_error(found, expected) < 1e-5
    assert torch.equal(model.decoder.state_dict()["layers.0.fc1.weight"], before)


def test_another_activation(tmp_path, source):
    """Its parameters would fit."""
    save_bert(tmp_path, hidden_act="relu", num_hidden_layers=3)
    config = GTransformerBertConfig(**SIZES)
    model = GTransformerBertModel.build(config, source, tiny_dictionary(5))
    with pytest.raises(UserError, match="relu"):
        load_bert(model, tmp_path)
