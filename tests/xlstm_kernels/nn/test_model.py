"""xLSTM: its parameters' names, its values, and that a sequence in pieces is the whole."""

from __future__ import annotations

import copy
import json
import pickle

import mlx.core as mx
import numpy as np
import pytest
from mlx import nn
from mlx.utils import tree_flatten, tree_map, tree_unflatten

from tests.xlstm_kernels.nn.conftest import (
    MASKS,
    check_following,
    check_gradients,
    check_logits,
    check_mask,
    check_pieces,
    draw_mask,
    expected_logits,
    loss_of,
)
from xlstm_kernels.nn import xLSTM, xLSTMConfig

# Of Hugging Face's NX-AI/xLSTM-7b.
OF_A_BLOCK = [
    "ffn.proj_down.weight",
    "ffn.proj_up.weight",
    "ffn.proj_up_gate.weight",
    "mlstm_layer.fgate_preact.bias",
    "mlstm_layer.fgate_preact.weight",
    "mlstm_layer.igate_preact.bias",
    "mlstm_layer.igate_preact.weight",
    "mlstm_layer.k.weight",
    "mlstm_layer.multihead_norm.weight",
    "mlstm_layer.ogate_preact.weight",
    "mlstm_layer.out_proj.weight",
    "mlstm_layer.q.weight",
    "mlstm_layer.v.weight",
    "norm_ffn.weight",
    "norm_mlstm.weight",
]
OUTSIDE = ["backbone.embeddings.weight", "backbone.out_norm.weight", "lm_head.weight"]


def shapes(model: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in tree_flatten(model.parameters())}


def test_parameters_are_those_of_xlstm_7b():
    """None of them is ever evaluated here."""
    found = shapes(xLSTM(xLSTMConfig()))
    blocks = [f"backbone.blocks.{index}.{name}" for index in range(32) for name in OF_A_BLOCK]
    assert sorted(found) == sorted([*blocks, *OUTSIDE])
    assert sum(np.prod(shape) for shape in found.values()) == 6_865_424_896
    first = {name: found[f"backbone.blocks.0.{name}"] for name in OF_A_BLOCK}
    assert first["mlstm_layer.q.weight"] == (2048, 4096)
    assert first["mlstm_layer.multihead_norm.weight"] == (4096,)
    assert first["mlstm_layer.fgate_preact.weight"] == (8, 4096)
    assert first["ffn.proj_down.weight"] == (4096, 10944)


# --- values ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"slstm_at": ()},
        {"slstm_at": (0, 1, 2), "conv1d_kernel_size": 0},
        {"use_bias": True, "tie_word_embeddings": True},
        {"add_out_norm": False, "gate_soft_cap": None, "output_logit_soft_cap": None},
        {"gate_soft_cap": 2.0, "output_logit_soft_cap": 3.0, "qk_dim_factor": 1.0},
        {"mode": "train", "chunkwise_kernel": "chunkwise--native_custbw", "v_dim_factor": 2.0},
        {
            "mode": "train_with_padding",
            "chunkwise_kernel": "parallel--native_autograd",
            "return_last_states": False,
        },
    ],
    ids="-".join,
)
def test_logits(settings, small_model, draw_tokens):
    check_logits(small_model(**settings), draw_tokens(2, 19))


@pytest.mark.sampled(0)
def test_logits_on_metal(small_model, draw_tokens, device):
    model = small_model(hidden_size=16, slstm_num_heads=2)
    check_following(model, draw_tokens(1, 5), draw_tokens(1, 1))


def test_bfloat16(small_model, draw_tokens, relative_error):
    model, tokens = small_model(), draw_tokens(2, 19)
    model.set_dtype(mx.bfloat16)
    predicted, cache = model(tokens, model.init_cache(2))
    assert predicted.dtype == mx.float32
    assert relative_error(predicted, expected_logits(model, tokens)) < 3e-2
    (c, n, m), (conv, cell), _ = cache
    assert {state.dtype for state in (c, n, m, cell)} == {mx.float32}
    assert conv.dtype == mx.bfloat16
    inside, _ = model.backbone(tokens)
    assert inside.dtype == mx.bfloat16
    cache, outputs = model.init_cache(2), []
    for token in mx.split(tokens, 19, axis=1):
        one, cache = model(token, cache)
        outputs.append(one)
    stepwise = mx.concatenate(outputs, axis=1)
    assert relative_error(stepwise, expected_logits(model, tokens)) < 3e-2


@pytest.mark.parametrize(
    "saved",
    [
        ("chunkwise--native_autograd", "native_sequence__native", "native"),
        ("chunkwise--triton_xl_chunk", "native_sequence__triton", "triton"),
    ],
    ids=["native", "triton"],
)
def test_a_saved_configuration_launches_kernels(saved, simulator, tmp_path):
    """Hugging Face's defaults are `native`, and xLSTM-7B was saved with them."""
    path = tmp_path / "config.json"
    sizes = {"vocab_size": 11, "hidden_size": 16, "num_hidden_layers": 1, "num_heads": 2}
    names = dict(zip(("chunkwise_kernel", "sequence_kernel", "step_kernel"), saved, strict=True))
    path.write_text(json.dumps({"model_type": "xlstm", **sizes, **names, "chunk_size": 64}))
    model = xLSTM(xLSTMConfig.from_dict(json.loads(path.read_text())))
    cache, kernels = model.init_cache(1), []
    for steps in (17, 2, 1):
        before = len(simulator.launches)
        logits, cache = model(mx.zeros((1, steps), dtype=mx.int32), cache)
        mx.eval(logits, cache)
        names = [launch.kernel for launch in simulator.launches[before:]]
        kernels.append([name for name in names if name.startswith("xlstm_mlstm")])
    chunkwise, sequence, step = kernels
    for part in ("gates", "weighted_keys", "state_scan", "chunk_rows"):
        assert any(name.startswith(f"xlstm_mlstm_{part}") for name in chunkwise)
    assert [name.partition("_custom")[0] for name in (*sequence, *step)] == [
        "xlstm_mlstm_sequence_initial",
        "xlstm_mlstm_step",
    ]


# --- in pieces ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "transform"),
    [
        pytest.param({}, mx.compile, marks=pytest.mark.exhaustive),
        ({}, lambda model: model),
        ({"mode": "train"}, lambda model: model),
        ({"slstm_at": (0, 2)}, lambda model: model),
    ],
    ids=["compiled", "called", "train", "slstm_at"],
)
def test_step_by_step_is_the_whole(settings, transform, small_model, draw_tokens):
    model, tokens = small_model(**settings), draw_tokens(3, 23)
    check_logits(model, tokens)
    check_pieces(model, tokens, list(range(1, 23)), transform)


def test_a_cache_can_be_used_again(small_model, draw_tokens):
    model = small_model()
    _, cache = model(draw_tokens(1, 5), model.init_cache(1))
    token = draw_tokens(1, 1)
    first, _ = model(token, cache)
    again, _ = model(token, cache)
    assert mx.array_equal(first, again).item()


# --- masks -------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", MASKS)
def test_what_is_masked_is_not_there(where, small_model, draw_tokens):
    mask = draw_mask(where, [30, 29, 7, 1], 30)
    check_mask(small_model(), draw_tokens(4, 30), draw_tokens(4, 1), mask)


def test_a_mask_without_a_cache(small_model, draw_tokens):
    model, tokens = small_model(), draw_tokens(2, 9)
    mask = mx.array([[False] * 4 + [True] * 5, [True] * 9])
    with_cache, _ = model(tokens, model.init_cache(2), mask)
    assert mx.array_equal(model(tokens, mask=mask), with_cache).item()
    assert mx.allclose(model(tokens[:1, 4:]), with_cache[:1, 4:], atol=1e-5).item()


# --- training ----------------------------------------------------------------------------------


@pytest.mark.sampled(0)
@pytest.mark.parametrize("mode", ["train", "inference"])
def test_gradients(mode, small_model, draw_tokens, draw):
    check_gradients(small_model(mode=mode), draw_tokens(2, 18), draw)


@pytest.mark.parametrize(
    "settings", [{}, {"mode": "train", "return_last_states": False}], ids=["states", "none"]
)
def test_recomputed_blocks_have_the_same_gradients(settings, small_model, draw_tokens, device):
    model, tokens = small_model(**settings), draw_tokens(1, 6)
    kept = nn.value_and_grad(model, loss_of)(model, tokens)
    model.backbone.recompute_blocks = True
    again = nn.value_and_grad(model, loss_of)(model, tokens)
    for one, other in zip(tree_flatten(kept), tree_flatten(again), strict=True):
        assert one[0] == other[0]
        assert mx.array_equal(one[1], other[1]).item(), one[0]


# --- weights -----------------------------------------------------------------------------------


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_model_can_be_copied_and_sent(copied, small_model, draw_tokens):
    model, tokens = small_model(), draw_tokens(1, 3)
    other = copied(model)
    assert mx.array_equal(other(tokens), model(tokens)).item()
    other.set_dtype(mx.float16)
    assert model.lm_head.weight.dtype == mx.float32
    assert str(other) == str(model)
    assert "(conv1d): CausalConv1d(32, kernel_size=4, activation='silu')" in str(model)
    assert "(slstm_cell): sLSTMCell(num_heads=4, head_dim=8)" in str(model)


# --- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((mx.zeros((2, 3)),), ValueError, r"token ids \(B, S\), got mlx.core.float32 \(2, 3\)"),
        ((mx.zeros((3,), mx.int32),), ValueError, r"token ids \(B, S\), got .*int32 \(3,\)"),
        ((mx.zeros((2, 3), mx.int32), []), ValueError, "for each of 3 blocks, got 0"),
        (
            (mx.zeros((2, 3), mx.int32), None, mx.zeros((2, 4), mx.bool_)),
            ValueError,
            r"mask must have shape \(2, 3\), \(B, S\); got \(2, 4\)",
        ),
        (
            (mx.zeros((2, 3), mx.int32), None, mx.zeros((2, 3))),
            TypeError,
            "mask must be an array of booleans",
        ),
    ],
)
def test_what_is_refused(arguments, error, message, small_model):
    with pytest.raises(error, match=message):
        small_model()(*arguments)


def test_a_cache_of_another_batch(small_model, draw_tokens):
    model = small_model()
    with pytest.raises(ValueError, match="c must have shape"):
        model(draw_tokens(2, 1), model.init_cache(3))


def test_a_cache_needs_a_mode_with_last_states(small_model, draw_tokens):
    model = small_model(mode="train_with_padding", return_last_states=False)
    with pytest.raises(ValueError, match="'train_with_padding' returns no last states"):
        model(draw_tokens(1, 5), model.init_cache(1))


def test_states_of_half_precision(small_model, draw_tokens):
    model = small_model(inference_state_dtype="bfloat16")
    (c, n, m), *_ = model.init_cache(1)
    assert [state.dtype for state in (c, n, m)] == [mx.bfloat16, mx.bfloat16, mx.float32]
    _, after = model(draw_tokens(1, 5), model.init_cache(1))
    assert tree_map(lambda state: state.dtype, list(after[0])) == [
        mx.bfloat16,
        mx.bfloat16,
        mx.float32,
    ]
    assert tree_unflatten(tree_flatten(after[0]))[0].shape == c.shape
