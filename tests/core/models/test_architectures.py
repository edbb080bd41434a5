"""Named sizes, on the command line and in fairseq-hydra-train's configuration."""

import pytest
from fairseq.dataclass.initialize import add_defaults
from omegaconf import OmegaConf

from tests.support import training_options

# Dimension, feed-forward dimension, layers, heads; dropout. Those of the release.
RELEASE = {
    "gtransformer": ((512, 2048, 6, 8), 0.1),
    "gtransformer_tiny": ((256, 1024, 6, 4), 0.1),
    "gtransformer_base": ((512, 2048, 6, 8), 0.3),
    "gtransformer_big": ((1024, 4096, 6, 16), 0.3),
}
KEYS = ("embed_dim", "ffn_embed_dim", "layers", "attention_heads")


def sizes(model):
    (found,) = {
        tuple(getattr(model, f"{side}_{key}") for key in KEYS) for side in ("encoder", "decoder")
    }
    return found


@pytest.mark.parametrize("name", RELEASE)
def test_on_the_command_line_and_in_a_configuration(name):
    """The latter is what fairseq-hydra-train does once the user-dir is imported."""
    typed = training_options(["data", "--task", "translation_doc", "--arch", name])
    given = {"model": {"_name": name}, "task": {"_name": "translation_doc"}}
    configured = OmegaConf.create(given)
    add_defaults(configured)
    for cfg in (typed.model, configured.model):
        assert (sizes(cfg), cfg.dropout) == RELEASE[name]
        assert (cfg.encoder_ctxlayers, cfg.decoder_ctxlayers, cfg.cross_ctxlayers) == (2, 2, 2)
