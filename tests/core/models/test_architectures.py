"""Named sizes, on the command line and in fairseq-hydra-train's configuration."""

from argparse import Namespace

import pytest
from fairseq import models, options
from fairseq.dataclass.initialize import add_defaults
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf

from gtransformer.errors import UserError
from gtransformer.models.common.architectures import SIZES as SIZE_NAMES
from gtransformer.models.gtransformer import GTransformerModel
from gtransformer.models.gtransformer.model import ARCHITECTURES
from tests.support import tiny_config, tiny_dictionary, tiny_model, tiny_task

pytestmark = pytest.mark.slow

SIZES = {  # dimension, feed-forward dimension, layers, heads; dropout
    "gtransformer_mini": ((128, 512, 3, 4), 0.1),
    "gtransformer_compact": ((256, 1024, 4, 4), 0.1),
    "gtransformer_tiny": ((256, 1024, 6, 4), 0.1),
    "gtransformer_small": ((512, 1024, 6, 4), 0.1),
    "gtransformer_base": ((512, 2048, 6, 8), 0.3),
    "gtransformer_big": ((1024, 4096, 6, 16), 0.3),
    "gtransformer_large": ((1024, 4096, 12, 16), 0.3),
    "gtransformer_mbart_large": ((1024, 4096, 12, 16), 0.1),
}
OTHERS = [f"{name}_transformer" for name in ("doc", "lst", "window", "document", "flat")] + ["docflat", "abd", "mbe"]


def sizes(model):
    found = {
        tuple(model[f"{side}_{key}"] for key in ("embed_dim", "ffn_embed_dim", "layers", "attention_heads"))
        for side in ("encoder", "decoder")
    }
    assert len(found) == 1
    return found.pop()


def command_line(*arguments):
    parser = options.get_training_parser()
    line = ["data", "--task", "translation_doc", *arguments]
    return convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, line))


def test_all_are_registered():
    assert set(ARCHITECTURES) == set(SIZES)


@pytest.mark.parametrize("name", SIZES)
def test_on_the_command_line(name):
    cfg = command_line("--arch", name)
    assert (sizes(cfg.model), cfg.model.dropout) == SIZES[name]
    assert (cfg.model.encoder_ctxlayers, cfg.model.decoder_ctxlayers, cfg.model.cross_ctxlayers) == (2, 2, 2)
    cfg = command_line("--arch", name, "--encoder-layers", "5", "--dropout", "0.4")
    assert (cfg.model.encoder_layers, cfg.model.dropout) == (5, 0.4)


@pytest.mark.parametrize("system", OTHERS)
def test_a_size_is_the_same_for_every_system(system):
    for size in SIZE_NAMES:
        cfg = command_line("--arch", f"{system}_{size}")
        assert (sizes(cfg.model), cfg.model.dropout) == SIZES[f"gtransformer_{size}"], size


def test_the_plain_name_has_the_sizes_of_base():
    assert sizes(command_line("--arch", "gtransformer").model) == SIZES["gtransformer_base"][0]


@pytest.mark.parametrize("name", SIZES)
def test_in_a_configuration(name):
    """What fairseq-hydra-train does once the user-dir is imported."""
    cfg = OmegaConf.create({"model": {"_name": name, "dropout": 0.2}, "task": {"_name": "translation_doc"}})
    add_defaults(cfg)
    assert sizes(cfg.model) == SIZES[name][0] and cfg.model.dropout == 0.2
    cfg = OmegaConf.create({"model": {"_name": name}, "task": {"_name": "translation_doc"}})
    add_defaults(cfg)
    assert (sizes(cfg.model), cfg.model.dropout) == SIZES[name]


def test_doc_mode_of_the_task_reaches_the_model():
    cfg = command_line("--arch", "gtransformer_mini", "--doc-mode", "full", "--max-source-positions", "77")
    assert (cfg.model.doc_mode, cfg.model.max_source_positions) == ("full", 77)


def test_build_by_name(dictionary):
    cfg = command_line("--arch", "gtransformer_mini", "--share-all-embeddings")
    model = models.build_model(cfg.model, tiny_task(dictionary))
    assert len(model.encoder.layers) == 3 and model.encoder.embed_tokens.embedding_dim == 128
    assert model.encoder.embed_tokens is model.decoder.embed_tokens
    assert model.decoder.output_projection.weight is model.encoder.embed_tokens.weight
    assert model.max_positions() == (1_000_000, 1_000_000)


@pytest.mark.parametrize("name", ["share_all_embeddings", "share_decoder_input_output_embed", None])
def test_sharing_of_embeddings(dictionary, name):
    shared = {"share_all_embeddings": False, **({name: True} if name else {})}
    model = tiny_model(dictionary, **shared)
    encoder, decoder = model.encoder.embed_tokens.weight, model.decoder.embed_tokens.weight
    assert (encoder is decoder) is (name == "share_all_embeddings")
    assert (model.decoder.output_projection.weight is decoder) is (name is not None)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"doc_mode": "half"}, "--doc-mode half is unknown; choose one of partial, full"),
        ({"encoder_ctxlayers": 4}, "--encoder-ctxlayers 4 is not between 0 and the 3 layers"),
        ({"cross_ctxlayers": -1}, "--cross-ctxlayers -1"),
        ({"decoder_embed_dim": 20}, "needs equal dimensions, not --encoder-embed-dim 16 and --decoder-embed-dim 20"),
    ],
)
def test_impossible_settings(dictionary, settings, message):
    with pytest.raises(UserError, match=message):
        tiny_model(dictionary, **settings)


def test_shared_embeddings_need_a_joined_dictionary(dictionary):
    task = Namespace(source_dictionary=dictionary, target_dictionary=tiny_dictionary(5))
    with pytest.raises(UserError, match="needs one joined dictionary"):
        GTransformerModel.build_model(tiny_config(), task)
