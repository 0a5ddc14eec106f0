"""xLSTM.sanitize: weights by other names, and layers that configurations don't mention."""

from __future__ import annotations

import mlx.core as mx
from mlx.utils import tree_flatten

from tests.xlstm_kernels.nn.conftest import VOCABULARY, expected_logits
from xlstm_kernels.nn import xLSTM

BAR = 5e-6  # relative L2 error


def test_weights_by_other_names(small_model, draw_tokens):
    """NX-AI's name of the embeddings, and fused matrices, as rows one after the other."""
    model, tokens = small_model(use_bias=True), draw_tokens(1, 9)
    weights = dict(tree_flatten(model.parameters()))
    theirs = {"embedding.weight": weights.pop("backbone.embeddings.weight")}
    fused = {
        "mlstm_layer.qkv_opreact": ("q", "k", "v", "ogate_preact"),
        "mlstm_layer.ifgate_preact": ("igate_preact", "fgate_preact"),
        "ffn.proj_up_gate_z": ("proj_up_gate", "proj_up"),
    }
    for index in (0, 2):
        for name, parts in fused.items():
            layer, _, _ = name.partition(".")
            for kind in ("weight", "bias"):
                pieces = [
                    weights.pop(f"backbone.blocks.{index}.{layer}.{part}.{kind}") for part in parts
                ]
                theirs[f"backbone.blocks.{index}.{name}.{kind}"] = mx.concatenate(pieces)
    other = xLSTM(model.config)
    other.load_weights(list(other.sanitize({**weights, **theirs}).items()))
    assert mx.array_equal(other(tokens), model(tokens)).item()


def test_weights_of_a_tied_head(small_model, draw_tokens, relative_error):
    """A head that has weights of its own is not tied; without them, the embeddings are read."""
    model, tokens = small_model(tie_word_embeddings=True), draw_tokens(1, 9)
    weights = dict(tree_flatten(model.parameters()))
    assert model.sanitize(weights) == weights
    assert model.config.tie_word_embeddings
    untied = small_model()
    for name in ("backbone.embeddings.weight", "lm_head.weight"):
        weights[name] = mx.random.normal((VOCABULARY, 32))
    for other in (model, untied):
        other.load_weights(list(other.sanitize(weights).items()))
        assert not other.config.tie_word_embeddings
    assert mx.array_equal(model(tokens), untied(tokens)).item()
    assert relative_error(model(tokens), expected_logits(model, tokens)) < BAR


def test_weights_of_a_norm_that_is_configured_away(small_model, draw_tokens):
    """Transformers ignores `add_out_norm`."""
    whole, tokens = small_model(), draw_tokens(1, 9)
    other = small_model(add_out_norm=False)
    assert "out_norm" not in other.backbone
    weights = other.sanitize(dict(tree_flatten(whole.parameters())))
    other.load_weights(list(weights.items()))
    assert other.config == whole.config
    assert mx.array_equal(other(tokens), whole(tokens)).item()


def test_weights_without_the_bias_of_the_last_norm(small_model, draw_tokens, relative_error):
    """NX-AI's xLSTMLarge has it with `use_bias`, transformers has not."""
    model, tokens = small_model(use_bias=True), draw_tokens(1, 9)
    weights = dict(tree_flatten(model.parameters()))
    bias = weights.pop("backbone.out_norm.bias")
    assert mx.any(bias).item()
    other = xLSTM(model.config)
    other.load_weights(list(other.sanitize(weights).items()))
    assert not mx.any(other.backbone.out_norm.bias).item()
    assert relative_error(other(tokens), expected_logits(other, tokens)) < BAR
