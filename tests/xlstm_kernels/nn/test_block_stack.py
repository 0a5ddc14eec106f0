"""xLSTMLMModel: its values by their definition, in pieces, with masks, and its configuration."""

from __future__ import annotations

import dataclasses

import mlx.core as mx
import pytest

from tests.xlstm_kernels.nn.conftest import (
    MASKS,
    VOCABULARY,
    check_following,
    check_gradients,
    check_logits,
    check_mask,
    check_pieces,
    draw_mask,
)
from xlstm_kernels.nn import xLSTMBlockStackConfig, xLSTMLMModel
from xlstm_kernels.nn import xLSTMLMModelConfig as Config


@pytest.fixture
def stack(draw_weights):
    """Make an `xLSTMLMModel`; by default, blocks of mLSTM, sLSTM and mLSTM, of width 16."""

    def small(**settings):
        mx.random.seed(7)
        defaults = {"embedding_dim": 16, "num_blocks": 3, "slstm_at": (1,), "ffn_dim": 24}
        settings = {**defaults, "vocab_size": VOCABULARY, "mlstm_inner_dim": 32, **settings}
        return draw_weights(xLSTMLMModel(Config(**settings)))

    return small


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"bias": True, "ffn_bias": True, "mlstm_qkv_proj_blocksize": 8},
        {"tie_weights": True, "add_post_blocks_norm": False, "ffn_dim": 0},
        {"slstm_at": (0, 1, 2), "slstm_conv1d_kernel_size": 0, "slstm_num_heads": 2},
        {"slstm_at": (), "mlstm_num_heads": 1, "mlstm_conv1d_kernel_size": 1},
    ],
    ids="-".join,
)
def test_logits(settings, stack, draw_tokens):
    check_logits(stack(**settings), draw_tokens(2, 19))


@pytest.mark.sampled(0)
def test_logits_on_metal(stack, draw_tokens, device):
    check_following(stack(num_blocks=2), draw_tokens(1, 5), draw_tokens(1, 1))


@pytest.mark.parametrize(
    "transform",
    [pytest.param(mx.compile, marks=pytest.mark.sampled(0)), lambda model: model],
    ids=["compiled", "called"],
)
def test_step_by_step_is_the_whole(transform, stack, draw_tokens):
    check_pieces(stack(), draw_tokens(3, 11), list(range(1, 11)), transform)


@pytest.mark.parametrize("where", MASKS)
def test_what_is_masked_is_not_there(where, stack, draw_tokens):
    mask = draw_mask(where, [14, 9, 1], 14)
    check_mask(stack(), draw_tokens(3, 14), draw_tokens(3, 1), mask)


def test_gradients(stack, draw_tokens, draw):
    check_gradients(stack(num_blocks=2), draw_tokens(2, 7), draw)


@pytest.mark.parametrize(
    "settings",
    [
        {"dropout": 0.5, "slstm_at": ()},
        {"dropout": 0.5, "slstm_at": (0, 1, 2)},
        {"ffn_dropout": 0.5},
        {"dropout": 0.5, "add_embedding_dropout": True},
    ],
)
def test_dropout_is_for_training(settings, stack, draw_tokens):
    model, tokens = stack(**settings), draw_tokens(1, 9)
    assert not mx.allclose(model(tokens), model(tokens)).item()
    model.eval()
    changes = {"dropout": 0.0, "ffn_dropout": 0.0}
    kept = xLSTMLMModel(dataclasses.replace(model.config, **changes))
    kept.update(model.parameters())
    assert mx.array_equal(model(tokens), kept(tokens)).item()


# --- the configuration -------------------------------------------------------------------------

NESTED = {
    "mlstm_block": {"mlstm": {"conv1d_kernel_size": 3, "num_heads": 2, "proj_factor": 1.3}},
    "slstm_block": {
        "slstm": {"backend": "cuda", "num_heads": 8, "bias_init": "powerlaw_blockdependent"},
        "feedforward": {"proj_factor": 1.5, "act_fn": "relu", "dropout": 0.1},
    },
    "context_length": 256,
    "num_blocks": 7,
    "embedding_dim": 128,
    "slstm_at": [1],
    "vocab_size": 99,
}


def test_nested_configurations():
    config = Config.from_dict(NESTED)
    assert config == Config(
        embedding_dim=128,
        num_blocks=7,
        slstm_at=(1,),
        mlstm_num_heads=2,
        mlstm_inner_dim=192,
        mlstm_conv1d_kernel_size=3,
        slstm_num_heads=8,
        ffn_dim=192,
        ffn_act_fn="relu",
        ffn_dropout=0.1,
        vocab_size=99,
    )
    assert Config.from_dict(dataclasses.asdict(config)) == config
    assert xLSTMBlockStackConfig.from_dict(NESTED).num_blocks == 7


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"slstm_at": "all"}, {"slstm_at": tuple(range(7))}),
        ({"mlstm_block": None}, {"slstm_at": tuple(range(7))}),
        ({"slstm_block": {"feedforward": None}}, {"ffn_dim": 0}),
        ({"slstm_block": {}}, {"ffn_dim": 192, "ffn_act_fn": "gelu", "slstm_num_heads": 4}),
        ({"slstm_block": None, "slstm_at": []}, {"slstm_at": ()}),
        ({"mlstm_block": {"mlstm": {}}}, {"mlstm_inner_dim": 256, "mlstm_num_heads": 4}),
    ],
)
def test_variants_of_nested_configurations(changes, fields):
    config = Config.from_dict({**NESTED, **changes})
    assert {name: getattr(config, name) for name in fields} == fields


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"embedding_dim": 0}, ValueError, "embedding_dim must be at least 1, got 0"),
        ({"embedding_dim": 12.0}, TypeError, "embedding_dim must be an int, got float"),
        ({"dropout": 1.0}, ValueError, "dropout must be at least 0 and below 1, got 1.0"),
        ({"slstm_at": (3,), "num_blocks": 3}, ValueError, "slstm_at names block 3"),
        ({"mlstm_num_heads": 3}, ValueError, "must be a multiple of num_heads = 3"),
        (
            {"mlstm_qkv_proj_blocksize": 3},
            ValueError,
            "mlstm_inner_dim = 256 must be a multiple of mlstm_qkv_proj_blocksize = 3",
        ),
        ({"ffn_act_fn": "tanh"}, ValueError, "activation must be one of 'silu', .*, got 'tanh'"),
        ({"vocab_size": 0}, ValueError, "vocab_size must be at least 1, got 0"),
        (
            {"mlstm_conv1d_kernel_size": 40},
            ValueError,
            "mlstm_conv1d_kernel_size must be at most 32",
        ),
        ({"bias": "x"}, TypeError, "bias must be a bool, got str"),
        ({"slstm_at": 1}, TypeError, "slstm_at must be a sequence, got int"),
    ],
)
def test_refused_configurations(settings, error, message):
    with pytest.raises(error, match=f"xLSTMLMModelConfig: {message}|mLSTMLayerConfig: .*{message}"):
        Config(**settings)


def test_a_refused_function():
    values = {**NESTED, "slstm_block": {"slstm": {"function": "lstm"}}}
    with pytest.raises(ValueError, match="function must be 'slstm', got 'lstm'"):
        Config.from_dict(values)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"mlstm_block": "x"}, TypeError, "mlstm_block must be a mapping, got str"),
        (
            {"mlstm_block": {"mlstm": {"round_proj_up_to_multiple_of": 0}}},
            ValueError,
            "round_proj_up_to_multiple_of must be at least 1, got 0",
        ),
    ],
)
def test_refused_nested_configurations(settings, error, message):
    with pytest.raises(error, match=f"xLSTMBlockStackConfig: {message}"):
        Config.from_dict({**NESTED, **settings})


def test_what_is_refused(stack, draw):
    model = stack()
    with pytest.raises(ValueError, match=r"xLSTMLMModel: inputs must be token ids \(B, S\)"):
        model(mx.zeros((2, 3)))
    with pytest.raises(ValueError, match="for each of 3 blocks, got 0"):
        model(mx.zeros((2, 3), mx.int32), [])
    with pytest.raises(ValueError, match=r"x must be \(B, S, 16\), got \(2, 3, 16, 1\)"):
        model.xlstm_block_stack.blocks[0].xlstm(draw((2, 3, 16, 1), mx.float32))
