"""Configurations: Hugging Face's names and defaults, and what is refused."""

from __future__ import annotations

import dataclasses
import json

import mlx.core as mx
import numpy as np
import pytest

from xlstm_kernels.mlstm.backend import mLSTMBackendConfig
from xlstm_kernels.nn import mLSTMLayerConfig, sLSTMLayerConfig, xLSTMConfig

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


def test_numpy_integers_are_sizes():
    sizes = {"hidden_size": 64, "num_heads": 2, "num_hidden_layers": 2, "chunk_size": 16}
    config = xLSTMConfig(**{name: np.int64(size) for name, size in sizes.items()}, slstm_at=[1])
    assert config == xLSTMConfig(**sizes, slstm_at=np.array([1], dtype=np.uint8))
    numbers = [value for value in dataclasses.asdict(config).values() if isinstance(value, int)]
    assert {type(value) for value in (*numbers, *config.slstm_at)} <= {int, bool}
    json.dumps(dataclasses.asdict(config))
    for size in (np.True_, np.float64(2), mx.array(2)):
        with pytest.raises(TypeError, match="num_heads must be an int, got"):
            xLSTMConfig(num_heads=size)


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


def test_a_typo_in_a_change_is_told():
    with pytest.raises(TypeError, match="unexpected keyword argument 'step_kernal'"):
        xLSTMConfig.from_dict(XLSTM_7B, step_kernal="metal")


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
            "slstm_at names block 32, but there are 32, from 0 on",
        ),
        (xLSTMConfig, {"slstm_at": (-1,)}, ValueError, "slstm_at names block -1"),
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
            "layer_index = 1 must be below num_hidden_layers = 1",
        ),
    ],
)
def test_what_is_refused(kind, settings, error, message):
    whole = {} if kind is xLSTMConfig else {"hidden_size": 64, "num_heads": 4}
    with pytest.raises(error, match=message):
        kind(**{**whole, **settings})
