"""Names, shapes and values of converted checkpoints, and the errors, without their packages."""

from __future__ import annotations

import dataclasses

import mlx.core as mx
import numpy as np
import pytest
from mlx import nn
from mlx.utils import tree_flatten

from xlstm_kernels.checkpoints import convert_weights, create_model
from xlstm_kernels.nn import xLSTM, xLSTMBlockStack, xLSTMConfig, xLSTMLMModel

WIDTH, INNER, HEADS, UNITS, VOCABULARY = 8, 64, 2, 4, 11
STACK_CONFIG = {
    "mlstm_block": {"mlstm": {"num_heads": HEADS, "qkv_proj_blocksize": 4}},
    "slstm_block": {"slstm": {"num_heads": HEADS}, "feedforward": {"proj_factor": 1.3}},
    "num_blocks": 2,
    "embedding_dim": WIDTH,
    "slstm_at": [1],
    "vocab_size": VOCABULARY,
}
# The names and shapes of xlstm 2.0.6, by block.
MLSTM_SHAPES = {
    "xlstm_norm.weight": (WIDTH,),
    "xlstm.learnable_skip": (INNER,),
    "xlstm.proj_up.weight": (2 * INNER, WIDTH),
    "xlstm.q_proj.weight": (INNER // 4, 4, 4),
    "xlstm.k_proj.weight": (INNER // 4, 4, 4),
    "xlstm.v_proj.weight": (INNER // 4, 4, 4),
    "xlstm.conv1d.conv.weight": (INNER, 1, 4),
    "xlstm.conv1d.conv.bias": (INNER,),
    "xlstm.mlstm_cell.igate.weight": (HEADS, 3 * INNER),
    "xlstm.mlstm_cell.igate.bias": (HEADS,),
    "xlstm.mlstm_cell.fgate.weight": (HEADS, 3 * INNER),
    "xlstm.mlstm_cell.fgate.bias": (HEADS,),
    "xlstm.mlstm_cell.outnorm.weight": (INNER,),
    "xlstm.proj_down.weight": (WIDTH, INNER),
}
SLSTM_SHAPES = {
    "xlstm_norm.weight": (WIDTH,),
    "xlstm.conv1d.conv.weight": (WIDTH, 1, 4),
    "xlstm.conv1d.conv.bias": (WIDTH,),
    **{f"xlstm.{gate}gate.weight": (HEADS, UNITS, UNITS) for gate in "fizo"},
    "xlstm.slstm_cell._recurrent_kernel_": (HEADS, 4 * UNITS, UNITS),
    "xlstm.slstm_cell._bias_": (4 * WIDTH,),
    "xlstm.group_norm.weight": (WIDTH,),
    "ffn_norm.weight": (WIDTH,),
    "ffn.proj_up.weight": (128, WIDTH),
    "ffn.proj_down.weight": (WIDTH, 64),
}
STACK_SHAPES = {
    **{f"blocks.0.{name}": shape for name, shape in MLSTM_SHAPES.items()},
    **{f"blocks.1.{name}": shape for name, shape in SLSTM_SHAPES.items()},
    "post_blocks_norm.weight": (WIDTH,),
}
MODEL_SHAPES = {
    **{f"xlstm_block_stack.{name}": shape for name, shape in STACK_SHAPES.items()},
    "token_embedding.weight": (VOCABULARY, WIDTH),
    "lm_head.weight": (VOCABULARY, WIDTH),
}
MLSTM, SLSTM = "xlstm_block_stack.blocks.0.xlstm.", "xlstm_block_stack.blocks.1.xlstm."
HF_CONFIG = xLSTMConfig(vocab_size=VOCABULARY, hidden_size=8, num_hidden_layers=1, num_heads=2)


def drawn(shapes: dict[str, tuple[int, ...]]) -> dict[str, mx.array]:
    generator = np.random.default_rng(2)
    return {name: mx.array(generator.normal(size=shape)) for name, shape in shapes.items()}


def parameters(model: nn.Module) -> dict[str, mx.array]:
    return dict(tree_flatten(model.parameters()))


# --- xLSTMLMModel ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def theirs() -> dict[str, mx.array]:
    return drawn(MODEL_SHAPES)


def test_a_language_model_of_the_paper(theirs):
    config, converted = convert_weights(theirs, STACK_CONFIG)
    model = create_model(config)
    assert isinstance(model, xLSTMLMModel)
    model.load_weights(list(converted.items()))
    assert sum(one.size for one in converted.values()) == sum(one.size for one in theirs.values())
    assert model(mx.zeros((1, 2), mx.int32)).shape == (1, 2, VOCABULARY)


@pytest.mark.parametrize(
    ("ours", "key", "read"),
    [
        (f"{MLSTM}multihead_norm.weight", f"{MLSTM}mlstm_cell.outnorm.weight", lambda w: 1 + w),
        (f"{MLSTM}conv1d.weight", f"{MLSTM}conv1d.conv.weight", lambda w: w[:, 0]),
        (f"{MLSTM}igate_preact.bias", f"{MLSTM}mlstm_cell.igate.bias", lambda w: w),
        (f"{SLSTM}igate_preact.weight", f"{SLSTM}fgate.weight", lambda w: w),
        (f"{SLSTM}fgate_preact.weight", f"{SLSTM}igate.weight", lambda w: w),
        (
            "xlstm_block_stack.blocks.1.ffn.proj_up_gate.weight",
            "xlstm_block_stack.blocks.1.ffn.proj_up.weight",
            lambda w: w[:64],
        ),
        (
            "xlstm_block_stack.blocks.1.ffn.proj_up.weight",
            "xlstm_block_stack.blocks.1.ffn.proj_up.weight",
            lambda w: w[64:],
        ),
    ],
)
def test_values(ours, key, read, theirs):
    _, converted = convert_weights(theirs, STACK_CONFIG)
    assert np.array_equal(converted[ours], read(np.array(theirs[key])))


@pytest.mark.parametrize("is_cuda", [False, True])
def test_recurrent_weights(is_cuda, theirs):
    """Their back ends order R and b in two ways; ours are R[gate, head, out, in], b[gate, head]."""
    weights = dict(theirs)
    recurrent, bias = f"{SLSTM}slstm_cell._recurrent_kernel_", f"{SLSTM}slstm_cell._bias_"
    r, b = np.array(weights[recurrent]), np.array(weights[bias])
    if is_cuda:
        r = r.reshape(HEADS, UNITS, 4 * UNITS)
        weights[recurrent] = mx.array(r)
    _, converted = convert_weights(weights, STACK_CONFIG)
    ours_r = np.array(converted[f"{SLSTM}slstm_cell.recurrent_weight"])
    ours_b = np.array(converted[f"{SLSTM}slstm_cell.bias"])
    for gate, head, out, inside in np.ndindex(4, HEADS, UNITS, UNITS):
        column = gate * UNITS + out
        expected = r[head, inside, column] if is_cuda else r[head, column, inside]
        assert ours_r[gate, head, out, inside] == expected
        flat = (head * 4 + gate if is_cuda else gate * HEADS + head) * UNITS + out
        assert ours_b[gate, head, out] == b[flat]


def test_a_block_stack_without_embeddings():
    config, converted = convert_weights(drawn(STACK_SHAPES), STACK_CONFIG)
    model = create_model(config)
    assert isinstance(model, xLSTMBlockStack)
    model.load_weights(list(converted.items()))


@pytest.mark.parametrize("kept", ["token_embedding.weight", "lm_head.weight"])
def test_tied_weights(kept, theirs):
    """A file has one matrix by either name, or by both."""
    tied = {**STACK_CONFIG, "tie_weights": True}
    both = {**theirs, "token_embedding.weight": theirs["lm_head.weight"]}
    names = {"token_embedding.weight", "lm_head.weight"}
    one = {name: weight for name, weight in both.items() if name == kept or name not in names}
    for weights in (one, both):
        config, converted = convert_weights(weights, tied)
        create_model(config).load_weights(list(converted.items()))
        assert mx.array_equal(converted["token_embedding.weight"], both[kept]).item()


# --- transformers and xLSTMLarge ---------------------------------------------------------------


def test_xlstm_large_has_defaults_of_its_own():
    """The width 2.6667 D of a feed-forward layer, and a mode that takes any length."""
    sizes = {"vocab_size": 11, "embedding_dim": 192, "num_heads": 2, "num_blocks": 1}
    weights = parameters(xLSTM(xLSTMConfig.from_dict(sizes, ffn_proj_factor=2.6667)))
    weights["embedding.weight"] = weights.pop("backbone.embeddings.weight")
    saved = {**sizes, "mode": "train", "chunkwise_kernel": "parallel--triton_limit_headdim"}
    config, converted = convert_weights(weights, saved)
    assert (config.ffn_size, config.mode, config.return_last_states) == (512, "inference", True)
    create_model(config).load_weights(list(converted.items()))


def test_weights_of_this_package_keep_their_names(theirs):
    for config, weights in (
        (HF_CONFIG, parameters(xLSTM(HF_CONFIG))),
        convert_weights(theirs, STACK_CONFIG),
    ):
        again, converted = convert_weights(weights, dataclasses.asdict(config))
        assert again == config
        assert converted == weights


def test_quantized_weights_are_not_compared(theirs):
    config, weights = convert_weights(theirs, STACK_CONFIG)
    values = {"quantization": {"group_size": 32, "bits": 4}}
    for given, one in ((HF_CONFIG, parameters(xLSTM(HF_CONFIG))), (config, weights)):
        quantized = {**one, "lm_head.scales": mx.zeros((2,))}
        _, converted = convert_weights(quantized, {**dataclasses.asdict(given), **values})
        assert converted == quantized


# --- errors ------------------------------------------------------------------------------------

OUT_NORM, CONV = "backbone.out_norm.weight", f"{SLSTM}conv1d.conv.weight"


@pytest.mark.parametrize(
    ("is_stack", "changes", "message"),
    [
        (False, {OUT_NORM: None}, f"missing weights: '{OUT_NORM}'$"),
        (False, {"x": (1,), "y": (1,)}, "unexpected weights: 'x', 'y'$"),
        (False, dict.fromkeys("abcde", (1,)), "'a', 'b', 'c' and 2 more"),
        (False, {OUT_NORM: (7,)}, rf"'{OUT_NORM}' must have shape \(8,\), got \(7,\)"),
        (True, {CONV: None}, f"missing weights: '{CONV}'$"),
        (True, {f"{MLSTM}x": (1,)}, f"unexpected weights: '{MLSTM}x'$"),
        (True, {CONV: (8, 4)}, rf"'{CONV}' must have shape \(8, 1, 4\), got \(8, 4\)"),
        (
            True,
            {f"{SLSTM}slstm_cell._recurrent_kernel_": (2, 3)},
            r"must have shape \(2, 16, 4\) or \(2, 4, 16\), got \(2, 3\)",
        ),
    ],
)
def test_errors_name_the_key(is_stack, changes, message, theirs):
    weights = dict(theirs) if is_stack else parameters(xLSTM(HF_CONFIG))
    for name, shape in changes.items():
        weights.pop(name, None)
        if shape is not None:
            weights[name] = mx.zeros(shape)
    config = STACK_CONFIG if is_stack else dataclasses.asdict(HF_CONFIG)
    with pytest.raises(ValueError, match=f"^checkpoint: .*{message}"):
        convert_weights(weights, config)


@pytest.mark.parametrize(("names", "listed"), [((), "none"), (("w", "v"), "'v', 'w'")])
def test_an_unknown_origin(names, listed):
    with pytest.raises(ValueError, match=f"unknown origin: .*got {listed}$"):
        convert_weights(dict.fromkeys(names, mx.zeros((1,))), {})
