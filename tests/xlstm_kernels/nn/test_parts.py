"""Layers, norms, initial values, configurations and names of weights."""

from __future__ import annotations

import dataclasses
import math

import mlx.core as mx
import numpy as np
import pytest
from mlx import nn
from mlx.utils import tree_flatten

from tests.xlstm_kernels.conv import oracle as conv
from tests.xlstm_kernels.nn.conftest import VOCABULARY, expected_logits
from xlstm_kernels import rms_norm
from xlstm_kernels.mlstm.backend import mLSTMBackendConfig
from xlstm_kernels.nn import (
    CausalConv1d,
    FeedForward,
    HeadwiseLinear,
    linear,
    mLSTMLayer,
    mLSTMLayerConfig,
    sLSTMLayer,
    sLSTMLayerConfig,
    xLSTM,
    xLSTMConfig,
)
from xlstm_kernels.nn.initialization import slstm_biases
from xlstm_kernels.nn.normalization import MultiHeadLayerNorm, MultiHeadRMSNorm, RMSNorm
from xlstm_kernels.norm.multi_head_norm import multi_head_layer_norm, multi_head_rms_norm

# --- config ------------------------------------------------------------------------------------


# What decides of NX-AI/xLSTM-7b's config.json, and some of what does not.
XLSTM_7B = {
    "architectures": ["xLSTMForCausalLM"],
    "model_type": "xlstm",
    "vocab_size": 50304,
    "embedding_dim": 4096,
    "hidden_size": 4096,
    "num_blocks": 32,
    "num_hidden_layers": 32,
    "num_heads": 8,
    "use_bias": False,
    "norm_reduction_force_float32": True,
    "tie_word_embeddings": False,
    "add_out_norm": True,
    "norm_eps": 1e-06,
    "qk_dim_factor": 0.5,
    "v_dim_factor": 1.0,
    "chunkwise_kernel": "chunkwise--native_autograd",
    "sequence_kernel": "native_sequence__native",
    "step_kernel": "native",
    "mode": "inference",
    "chunk_size": 64,
    "return_last_states": True,
    "autocast_kernel_dtype": "bfloat16",
    "eps": 1e-06,
    "inference_state_dtype": "float32",
    "ffn_proj_factor": 2.667,
    "ffn_round_up_to_multiple_of": 64,
    "gate_soft_cap": 15.0,
    "output_logit_soft_cap": 30.0,
    "weight_mode": "single",
    "torch_dtype": "float32",
    "use_cache": True,
}


def test_the_defaults_are_those_of_xlstm_7b_but_for_the_chunk_size():
    assert xLSTMConfig.from_dict(XLSTM_7B) == xLSTMConfig()
    assert {**XLSTM_7B, **dataclasses.asdict(xLSTMConfig()), "chunk_size": 64}.items() >= (
        XLSTM_7B.items()
    )
    assert xLSTMConfig().mlstm_layer().mlstm_backend == mLSTMBackendConfig(
        mode="inference", chunk_size=None
    )


def test_a_saved_chunk_size_counts_unless_it_is_the_default():
    assert xLSTMConfig.from_dict(XLSTM_7B).chunk_size is None
    assert xLSTMConfig.from_dict({**XLSTM_7B, "chunk_size": 128}).chunk_size == 128
    assert xLSTMConfig.from_dict(XLSTM_7B, chunk_size=64).chunk_size == 64


def test_sizes():
    config = xLSTMConfig()
    layer = config.mlstm_layer()
    assert (layer.qk_dim, layer.v_dim, config.ffn_size) == (2048, 4096, 10944)
    assert xLSTMConfig(hidden_size=64, slstm_at=[0]).slstm_ffn_size == 128
    assert xLSTMConfig(slstm_at=[3, 1]).slstm_at == (3, 1)
    assert sLSTMLayerConfig(hidden_size=64, num_heads=4).head_dim == 16


def test_every_setting_reaches_its_layer():
    kernels = {
        "chunkwise_kernel": "parallel--metal",
        "sequence_kernel": "native_sequence__native",
        "step_kernel": "native",
        "mode": "train_with_padding",
        "chunk_size": 16,
        "return_last_states": False,
        "autocast_kernel_dtype": "float16",
        "eps": 1e-4,
        "inference_state_dtype": "bfloat16",
    }
    both = {"hidden_size": 60, "num_hidden_layers": 3, "norm_eps": 1e-5}
    mlstm = {
        "num_heads": 3,
        "qk_dim_factor": 0.2,
        "v_dim_factor": 0.3,
        "use_bias": True,
        "gate_soft_cap": None,
    }
    slstm = {"conv1d_kernel_size": 2}
    config = xLSTMConfig(**both, **mlstm, **slstm, **kernels, slstm_num_heads=5)
    backend = mLSTMBackendConfig(**kernels)
    assert config.mlstm_layer() == mLSTMLayerConfig(**both, **mlstm, mlstm_backend=backend)
    assert config.slstm_layer(2) == sLSTMLayerConfig(**both, **slstm, num_heads=5, layer_index=2)


@pytest.mark.parametrize("factor", [1.0, 1.01, 1.5, 2.0])
def test_a_feed_forward_width_is_hugging_faces(factor):
    """Rounded up, but a fraction of a unit above a multiple is dropped."""
    width, unit = 100 * factor, 64
    expected = int(((width + unit - 1) // unit) * unit)
    config = xLSTMConfig(hidden_size=100, num_heads=1, ffn_proj_factor=factor)
    assert config.ffn_size == expected


def test_names_that_mean_the_same():
    assert xLSTMConfig.from_dict({"embedding_dim": 64, "num_blocks": 2}) == xLSTMConfig(
        hidden_size=64, num_hidden_layers=2
    )
    assert xLSTMConfig.from_dict({"hidden_size": 64, "embedding_dim": None}).hidden_size == 64
    with pytest.raises(ValueError, match="hidden_size = 64 and embedding_dim = 32 contradict"):
        xLSTMConfig.from_dict({"hidden_size": 64, "embedding_dim": 32})


@pytest.mark.parametrize(
    ("kind", "settings", "error", "message"),
    [
        (xLSTMConfig, {"vocab_size": 0}, ValueError, "vocab_size must be at least 1, got 0"),
        (xLSTMConfig, {"hidden_size": 64.0}, TypeError, "hidden_size must be an int, got float"),
        (xLSTMConfig, {"num_hidden_layers": True}, TypeError, "must be an int, got bool"),
        (
            xLSTMConfig,
            {"hidden_size": 100},
            ValueError,
            r"hidden_size \* qk_dim_factor = 50 must be a multiple of num_heads = 8",
        ),
        (
            xLSTMConfig,
            {"v_dim_factor": 0.0001},
            ValueError,
            r"hidden_size \* v_dim_factor = 0 must be a multiple",
        ),
        (xLSTMConfig, {"qk_dim_factor": 0}, ValueError, "qk_dim_factor must be positive, got 0"),
        (xLSTMConfig, {"ffn_proj_factor": -1.0}, ValueError, "ffn_proj_factor must be positive"),
        (xLSTMConfig, {"norm_eps": -1e-6}, ValueError, "norm_eps must not be negative"),
        (xLSTMConfig, {"norm_eps": None}, TypeError, "norm_eps must be a number, got NoneType"),
        (xLSTMConfig, {"gate_soft_cap": 0.0}, ValueError, "gate_soft_cap must be positive"),
        (xLSTMConfig, {"output_logit_soft_cap": "30"}, TypeError, "must be a number, got str"),
        (xLSTMConfig, {"step_kernel": "fast"}, ValueError, "unknown mLSTM step kernel 'fast'"),
        (xLSTMConfig, {"mode": "test"}, ValueError, "mode must be one of"),
        (
            xLSTMConfig,
            {"slstm_at": (32,)},
            ValueError,
            "each of slstm_at must be at most 31, got 32",
        ),
        (
            xLSTMConfig,
            {"slstm_at": (-1,)},
            ValueError,
            "each of slstm_at must be at least 0, got -1",
        ),
        (xLSTMConfig, {"slstm_at": "1"}, TypeError, "each of slstm_at must be an int, got str"),
        (
            xLSTMConfig,
            {"slstm_at": (1,), "slstm_num_heads": 3},
            ValueError,
            "hidden_size = 4096 must be a multiple of num_heads = 3",
        ),
        (mLSTMLayerConfig, {"num_heads": 0}, ValueError, "num_heads must be at least 1, got 0"),
        (
            sLSTMLayerConfig,
            {"conv1d_kernel_size": 33},
            ValueError,
            "conv1d_kernel_size must be at most 32, got 33",
        ),
        (
            sLSTMLayerConfig,
            {"layer_index": 1},
            ValueError,
            "layer_index must be at most 0, got 1",
        ),
    ],
)
def test_what_is_refused(kind, settings, error, message):
    whole = {} if kind is xLSTMConfig else {"hidden_size": 64, "num_heads": 4}
    with pytest.raises(error, match=message):
        kind(**{**whole, **settings})


# --- initialization ----------------------------------------------------------------------------


WIDTH, LAYERS = 256, 3
SMALL, OUTPUT = math.sqrt(2 / (5 * WIDTH)), 2 / (LAYERS * math.sqrt(WIDTH))
EXPECTED = {
    "embeddings": SMALL,
    "lm_head": SMALL,
    "mlstm_layer.q": SMALL,
    "mlstm_layer.k": SMALL,
    "mlstm_layer.v": SMALL,
    "ogate_preact": SMALL,
    "zgate_preact": SMALL,
    "slstm_layer.igate_preact": SMALL,
    "slstm_layer.fgate_preact": SMALL,
    "proj_up_gate": SMALL,
    "proj_up": SMALL,
    "proj_down": OUTPUT,
    "out_proj": OUTPUT,
}


@pytest.fixture(scope="module")
def initialization_parameters() -> dict[str, mx.array]:
    mx.random.seed(5)
    config = xLSTMConfig(
        vocab_size=500,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_heads=4,
        use_bias=True,
        slstm_at=(1,),
    )
    return dict(tree_flatten(xLSTM(config).parameters()))


@pytest.mark.parametrize(("name", "deviation"), EXPECTED.items())
def test_normal_weights(name, deviation, initialization_parameters):
    weights = [array for key, array in initialization_parameters.items() if f"{name}.weight" in key]
    assert weights
    for weight in map(np.array, weights):
        assert weight.std() == pytest.approx(deviation, rel=0.05)
        assert abs(weight.mean()) < 5 * deviation / math.sqrt(weight.size)


def test_gates(initialization_parameters):
    """At first the gates i and f are their biases, whatever comes in."""
    place = "backbone.blocks.0.mlstm_layer."
    assert initialization_parameters[f"{place}igate_preact.bias"].tolist() == [-10.0] * 4
    assert initialization_parameters[f"{place}fgate_preact.bias"].tolist() == [3.0, 4.0, 5.0, 6.0]
    for gate in "if":
        assert not mx.any(initialization_parameters[f"{place}{gate}gate_preact.weight"]).item()


def test_ones_and_zeros(initialization_parameters):
    place = "backbone.blocks.1.slstm_layer.slstm_cell."
    assert not mx.any(initialization_parameters[f"{place}recurrent_weight"]).item()
    norms = [
        array
        for name, array in initialization_parameters.items()
        if "norm" in name and "weight" in name
    ]
    biases = [
        array
        for name, array in initialization_parameters.items()
        if name.endswith("bias") and "gate_preact" not in name and "slstm_layer" not in name
    ]
    assert len(norms) == 10
    assert all(mx.all(array == 1).item() for array in norms)
    assert len(biases) > 20
    assert not any(mx.any(array).item() for array in biases)


def test_forget_gates_of_an_slstm(initialization_parameters):
    """By hand: x = 0, 1/2, 1; in the first block to the 0.3, in the last to the 1.6."""
    first, last = (slstm_biases(2, 3, layer_index=index, num_hidden_layers=5) for index in (0, 4))
    for biases, middle in ((first, 5 - 12 * 0.5**0.3), (last, 5 - 12 * 0.5**1.6)):
        assert biases.shape == (4, 2, 3)
        assert np.allclose(np.array(biases[1]), [[5, middle, -7]] * 2)
        assert not np.array(biases)[[0, 2, 3]].any()
    in_the_middle = np.array(slstm_biases(1, 3, layer_index=2, num_hidden_layers=5))[1, 0, 1]
    assert in_the_middle == pytest.approx(5 - 12 * 0.5**0.95)
    alone = slstm_biases(1, 1, layer_index=0, num_hidden_layers=1)
    assert alone[1].tolist() == [[5.0]]
    bias = initialization_parameters["backbone.blocks.1.slstm_layer.slstm_cell.bias"]
    assert mx.array_equal(
        bias, slstm_biases(4, WIDTH // 4, layer_index=1, num_hidden_layers=LAYERS)
    ).item()


# --- layers ------------------------------------------------------------------------------------


SIGING = mLSTMBackendConfig(chunkwise_kernel="chunkwise--metal_xl_chunk_siging", mode="inference")


@pytest.fixture(params=["mlstm", "siging", "slstm", "slstm without convolution"])
def layer(request, draw_weights):
    kinds = {
        "mlstm": lambda: mLSTMLayer(mLSTMLayerConfig(16, 2)),
        "siging": lambda: mLSTMLayer(mLSTMLayerConfig(16, 2, mlstm_backend=SIGING)),
        "slstm": lambda: sLSTMLayer(sLSTMLayerConfig(16, 2)),
        "slstm without convolution": lambda: sLSTMLayer(
            sLSTMLayerConfig(16, 2, conv1d_kernel_size=0)
        ),
    }
    return draw_weights(kinds[request.param]())


def test_a_layer_in_pieces_is_the_whole(layer, draw, relative_error, wide):
    x = draw((2, 9, 16), mx.float32)
    whole, last = layer(x)
    state, outputs = layer.init_state(2), []
    for piece in mx.split(x, [4, 5], axis=1):
        y, state = layer(piece, state)
        outputs.append(y)
    assert relative_error(mx.concatenate(outputs, axis=1), wide(whole)) < 2e-6
    assert [one.shape for one in state] == [one.shape for one in layer.init_state(2)]
    for actual, expected in zip(state, last, strict=True):
        assert relative_error(actual, wide(expected)) < 2e-6


@pytest.mark.parametrize("shape", [(2, 16), (2, 9, 15)])
def test_a_layer_refuses_other_shapes(shape, layer):
    with pytest.raises(ValueError, match=r"LSTMLayer: x must be \(B, S, 16\), got \(2, "):
        layer(mx.zeros(shape))


# --- the parts ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel_size", [1, 2, 4])
def test_a_convolution_skips_what_is_masked(kernel_size, draw, wide, relative_error):
    layer = CausalConv1d(5, kernel_size, "silu")
    x, state = draw((3, 11, 5), mx.float32), draw((3, kernel_size - 1, 5), mx.float32)
    mask = np.random.default_rng(2).random((3, 11)) < 0.5
    mask[2] = False
    y, last = layer(x, state, mx.array(mask))
    weight, bias = wide(layer.weight), wide(layer.bias)
    for row, live in enumerate(mask):
        alone = wide(x)[row : row + 1, live]
        expected, final = conv.causal(alone, weight, bias, wide(state)[row : row + 1], "silu")
        assert relative_error(mx.array(np.array(y)[row : row + 1, live]), expected) < 2e-6
        assert np.array_equal(wide(last)[row : row + 1], final)


@pytest.mark.parametrize(
    ("mask", "error", "message"),
    [
        (mx.ones((2, 7)), TypeError, r"mask must be an array of booleans, got mlx.*float"),
        (mx.ones((2, 6), dtype=mx.bool_), ValueError, r"shape \(2, 7\), \(B, S\); got \(2, 6\)"),
    ],
)
def test_a_convolution_refuses_other_masks(mask, error, message):
    with pytest.raises(error, match=message):
        CausalConv1d(5, 3)(mx.zeros((2, 7, 5)), mask=mask)


def test_a_headwise_layer(draw, wide, relative_error):
    layer, x = HeadwiseLinear(3, 4), draw((2, 5, 12), mx.float32)
    by_head = wide(x).reshape(2, 5, 3, 4)
    expected = np.einsum("noi,bsni->bsno", wide(layer.weight), by_head)
    assert relative_error(layer(x), expected) < 2e-6


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("options", [(64, 4), (64, 8), (32, 3), (32, 4, "mxfp4")], ids=str)
@pytest.mark.parametrize("on_cuda", [False, True])
def test_a_quantized_layer(on_cuda, options, bias, draw, wide, relative_error, monkeypatch):
    monkeypatch.setattr(linear, "_on_cuda", lambda: on_cuda)
    used = []
    product = linear.quantized_matvec
    monkeypatch.setattr(
        linear, "quantized_matvec", lambda *a, **kw: (used.append(a), product(*a, **kw))[1]
    )
    layer = linear.Linear(64, 6, bias=bias)
    theirs, ours = nn.Linear.to_quantized(layer, *options), layer.to_quantized(*options)
    for leading in [(), (1,), (8, 1), (2, 3, 3)]:
        x = draw((*leading, 64), mx.float32)
        assert ours(x).shape == (*leading, 6)
        assert relative_error(ours(x), wide(theirs(x))) < 2e-6
    assert len(used) == (6 if on_cuda and options[1] != 3 and len(options) == 2 else 0)


def test_a_feed_forward_layer(draw, wide, relative_error):
    layer, x = FeedForward(6, 10, "relu", use_bias=True), draw((2, 5, 6), mx.float32)
    layer.proj_up.bias = draw((10,), mx.float32)
    gate = np.maximum(wide(x) @ wide(layer.proj_up_gate.weight).T, 0)
    up = wide(x) @ wide(layer.proj_up.weight).T + wide(layer.proj_up.bias)
    assert relative_error(layer(x), (gate * up) @ wide(layer.proj_down.weight).T) < 2e-6


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("relu", lambda x: np.maximum(x, 0)),
        ("relu^2", lambda x: np.maximum(x, 0) ** 2),
        ("sigmoid", lambda x: 1 / (1 + np.exp(-x))),
        ("silu", conv.silu),
        ("swish", conv.silu),
        ("selu", lambda x: 1.0507009873 * np.where(x > 0, x, 1.6732632423 * np.expm1(x))),
    ],
)
def test_activations_of_a_feed_forward_layer(name, function, draw, wide, relative_error):
    layer, x = FeedForward(6, 10, name), draw((2, 5, 6), mx.float32)
    gate = function(wide(x) @ wide(layer.proj_up_gate.weight).T)
    up = wide(x) @ wide(layer.proj_up.weight).T
    assert relative_error(layer(x), (gate * up) @ wide(layer.proj_down.weight).T) < 2e-6


def test_a_feed_forward_layer_refuses_other_activations():
    with pytest.raises(ValueError, match=r"^FeedForward: .* one of 'silu', .*, got 'tanh'$"):
        FeedForward(6, 10, "tanh")


# --- normalization -----------------------------------------------------------------------------


OF_HEADS = {MultiHeadLayerNorm: multi_head_layer_norm, MultiHeadRMSNorm: multi_head_rms_norm}


@pytest.fixture(params=OF_HEADS, ids=lambda kind: kind.__name__)
def kind(request):
    return request.param


def normalization_parameters(layer: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in tree_flatten(layer.parameters())}


@pytest.mark.parametrize("use_weight", [True, False])
@pytest.mark.parametrize("use_bias", [True, False])
def test_parameters_are_those_that_are_wanted(use_weight, use_bias, kind):
    wanted = {"weight": (12,)} if use_weight else {}
    wanted |= {"bias": (12,)} if use_bias else {}
    options = {"use_weight": use_weight, "use_bias": use_bias, "force_float32_reductions": True}
    assert normalization_parameters(RMSNorm(12, **options)) == wanted
    layer = kind(num_heads=3, head_dim=4, **options)
    assert normalization_parameters(layer) == wanted
    assert layer.num_features == 12


def test_positions_of_the_arguments_are_nx_ais(kind):
    """After num_features, or num_heads and head_dim: eps, use_weight, use_bias, force_..."""
    for layer in (RMSNorm(12, 1e-5, False, True, False), kind(3, 4, 1e-5, False, True, False)):
        assert (layer.eps, layer.weight, layer.force_float32_reductions) == (1e-5, None, False)
        assert layer.bias.tolist() == [0] * 12
    assert repr(layer) == f"{kind.__name__}(12, eps=1e-05, use_weight=False, use_bias=True)"
    for layer in (RMSNorm(12), kind(3, 4)):
        assert (layer.eps, layer.force_float32_reductions) == (1e-6, True)
        assert normalization_parameters(layer) == {"weight": (12,)}


def test_rms(device, precision, draw, wide, relative_error):
    layer = RMSNorm(24, eps=1e-3, use_bias=True, backend=device)
    weight, bias, x = (
        draw((24,), mx.float32),
        draw((24,), mx.float32),
        draw((2, 5, 24), precision.dtype),
    )
    layer.update({"weight": weight, "bias": bias})
    rows = wide(x)
    expected = rows / np.sqrt((rows**2).mean(-1, keepdims=True) + 1e-3) * wide(weight) + wide(bias)
    assert layer(x).dtype == precision.dtype
    assert relative_error(layer(x), expected) < precision.value
    plain = RMSNorm(24, eps=1e-3, use_weight=False, backend=device)
    np.testing.assert_array_equal(wide(plain(x)), wide(rms_norm(x, eps=1e-3, backend=device)))


def test_rejects_other_heads(kind):
    layer = kind(3, 4)
    for shape in ((2, 5, 4, 3), (5, 3, 4), (2, 5, 12), (1, 2, 5, 3, 4)):
        with pytest.raises(ValueError, match=rf"{kind.__name__}: x must be \(B, S, 3, 4\), got"):
            layer(mx.ones(shape))


@pytest.mark.parametrize("shape", [(), (11,), (12, 1)], ids=str)
def test_rejects_other_features(shape):
    with pytest.raises(ValueError, match="RMSNorm: x must have 12 features along its last axis"):
        RMSNorm(12)(mx.ones(shape))


# --- sanitize ----------------------------------------------------------------------------------


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
