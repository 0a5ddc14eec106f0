"""Language models by their definition: whole, in pieces, masked and packed."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import json
import math
import pickle

import mlx.core as mx
import numpy as np
import pytest
from mlx import nn
from mlx.utils import tree_flatten

from tests.xlstm_kernels.nn.conftest import (
    MASKS,
    VOCABULARY,
    check_gradients,
    check_logits,
    check_mask,
    check_pieces,
    draw_mask,
    expected_logits,
    loss_of,
)
from xlstm_kernels.nn import blocks, xLSTM, xLSTMBlockStackConfig, xLSTMConfig, xLSTMLMModel
from xlstm_kernels.nn import xLSTMLMModelConfig as Config
from xlstm_kernels.nn import xLSTMLMModelConfig as PaperConfig

# --- model -------------------------------------------------------------------------------------


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


def test_parameters_of_an_slstm_block(small_model):
    place = "backbone.blocks.1."
    found = {
        name.removeprefix(place): shape
        for name, shape in shapes(small_model()).items()
        if name.startswith(place)
    }
    gates = {f"slstm_layer.{gate}gate_preact.weight": (4, 8, 8) for gate in "ifzo"}
    assert found == {
        "norm_slstm.weight": (32,),
        "slstm_layer.conv1d.weight": (32, 4),
        "slstm_layer.conv1d.bias": (32,),
        **gates,
        "slstm_layer.slstm_cell.recurrent_weight": (4, 4, 8, 8),
        "slstm_layer.slstm_cell.bias": (4, 4, 8),
        "slstm_layer.multihead_norm.weight": (32,),
        "norm_ffn.weight": (32,),
        "ffn.proj_up_gate.weight": (48, 32),
        "ffn.proj_up.weight": (48, 32),
        "ffn.proj_down.weight": (32, 48),
    }


@pytest.fixture
def stack(draw_weights):
    """Make an `xLSTMLMModel`; by default, blocks of mLSTM, sLSTM and mLSTM, of width 16."""

    def small(**settings):
        mx.random.seed(7)
        defaults = {"embedding_dim": 16, "num_blocks": 3, "slstm_at": (1,), "ffn_dim": 24}
        settings = {**defaults, "vocab_size": VOCABULARY, "mlstm_inner_dim": 32, **settings}
        return draw_weights(xLSTMLMModel(Config(**settings)))

    return small


@pytest.fixture(params=["small_model", "stack"])
def make(request):
    return request.getfixturevalue(request.param)


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
def test_model_logits(settings, small_model, draw_tokens):
    check_logits(small_model(**settings), draw_tokens(2, 19))


def test_bfloat16(make, draw_tokens, relative_error):
    model, tokens = make(), draw_tokens(2, 19)
    model.set_dtype(mx.bfloat16)
    cache = model.init_cache(2)
    predicted = model(tokens, cache)
    assert predicted.dtype == mx.float32
    assert relative_error(predicted, expected_logits(model, tokens)) < 3e-2
    if isinstance(model, xLSTM):
        (*states, _), (conv, cell), (_, _, m) = cache
        inside, _ = model.backbone(tokens)
    else:
        (conv, *states), (_, cell), (*_, m) = cache
        inside = model.xlstm_block_stack(mx.ones((2, 3, 16), mx.bfloat16), cache)
    assert {state.dtype for state in (*states, m, cell)} == {mx.float32}
    assert conv.dtype == inside.dtype == mx.bfloat16
    assert model(tokens[:, :1], cache).dtype == mx.float32


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
        mx.eval(model(mx.zeros((1, steps), dtype=mx.int32), cache), cache)
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
        ({"slstm_at": (0, 2)}, lambda model: model),
    ],
    ids=["compiled", "called", "slstm_at"],
)
def test_step_by_step_is_the_whole(settings, transform, make, draw_tokens):
    model, tokens = make(**settings), draw_tokens(3, 13)
    check_logits(model, tokens)
    check_pieces(model, tokens, list(range(1, 13)), transform)


def test_many_tokens_are_evaluated_block_by_block(small_model, draw_tokens, monkeypatch):
    model, tokens = small_model(), draw_tokens(2, 8)
    expected = model(tokens)
    monkeypatch.setattr(blocks, "_MANY_TOKENS", 16)
    calls = spied(monkeypatch, "async_eval", "eval")
    assert mx.array_equal(model(tokens, model.init_cache(2)), expected)
    assert calls == ["async_eval", "eval"] * 3
    calls.clear()
    model(tokens[:, :7], model.init_cache(2))
    model(tokens)
    assert calls == []


def test_many_tokens_in_a_compiled_function_are_not(small_model, draw_tokens, monkeypatch):
    model, tokens = small_model(slstm_at=()), draw_tokens(2, 8)
    monkeypatch.setattr(blocks, "_MANY_TOKENS", 16)
    calls = spied(monkeypatch, "async_eval", "eval")
    logits = mx.compile(model)(tokens, model.init_cache(2))
    assert calls == ["async_eval"]
    assert mx.allclose(logits, model(tokens), atol=1e-5)


def spied(monkeypatch, *names) -> list[str]:
    """Return the names of these functions of MLX, in the order of later calls."""
    calls: list[str] = []

    def spy(name, function):
        return lambda *arrays: (calls.append(name), function(*arrays))[1]

    for name in names:
        monkeypatch.setattr(mx, name, spy(name, getattr(mx, name)))
    return calls


# --- masks -------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", MASKS)
def test_what_is_masked_is_not_there(where, make, draw_tokens):
    mask = draw_mask(where, [30, 29, 7, 1], 30)
    check_mask(make(), draw_tokens(4, 30), draw_tokens(4, 1), mask)


# --- training ----------------------------------------------------------------------------------


@pytest.mark.sampled(0)
@pytest.mark.parametrize("mode", ["train", "inference"])
def test_model_gradients(mode, small_model, draw_tokens, draw):
    check_gradients(small_model(mode=mode), draw_tokens(2, 18), draw)


@pytest.mark.sampled(0)
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
        ((mx.zeros((2, 3)),), TypeError, r"token ids \(B, S\), got mlx.core.float32"),
        (([[1, 2]],), TypeError, r"token ids \(B, S\), got list; convert it with mx.array"),
        (
            (mx.zeros((3,), mx.int32),),
            ValueError,
            r"token ids \(B, S\), got \(3,\); .*inputs\[None",
        ),
        (
            (mx.zeros((2, 3), mx.int32), mx.zeros((2, 3), mx.bool_)),
            TypeError,
            "cache must be a list, got an array; a mask is mask=",
        ),
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
def test_model_what_is_refused(arguments, error, message, small_model):
    with pytest.raises(error, match=message):
        small_model()(*arguments)


def test_a_cache_needs_a_mode_with_last_states(small_model, draw_tokens):
    model = small_model(mode="train_with_padding", return_last_states=False)
    with pytest.raises(ValueError, match="'train_with_padding' returns no last states"):
        model(draw_tokens(1, 5), model.init_cache(1))


def test_a_cache_that_cannot_be_changed(small_model, draw_tokens):
    model = small_model()
    with pytest.raises(TypeError, match="the cache must be a list, which is changed in place, got"):
        model(draw_tokens(1, 5), tuple(model.init_cache(1)))


# --- stack -------------------------------------------------------------------------------------


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
def test_stack_logits(settings, stack, draw_tokens):
    check_logits(stack(**settings), draw_tokens(2, 19))


def test_stack_gradients(stack, draw_tokens, draw):
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
        (
            {"slstm_at": (3,), "num_blocks": 3},
            ValueError,
            "each of slstm_at must be at most 2, got 3",
        ),
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


def test_stack_what_is_refused(stack, draw):
    model = stack()
    with pytest.raises(TypeError, match=r"xLSTMLMModel: inputs must be token ids \(B, S\)"):
        model(mx.zeros((2, 3)))
    with pytest.raises(ValueError, match="for each of 3 blocks, got 0"):
        model(mx.zeros((2, 3), mx.int32), [])
    with pytest.raises(ValueError, match=r"x must be \(B, S, 16\), got \(2, 3, 16, 1\)"):
        model.xlstm_block_stack.blocks[0].xlstm(draw((2, 3, 16, 1), mx.float32))


# --- packed ------------------------------------------------------------------------------------


LENGTHS = ((5, 1, 7), (2, 9, 2))  # of the sequences of each row
STEPS = 13
SIZES = {"vocab_size": VOCABULARY, "hidden_size": 16, "num_heads": 2, "num_hidden_layers": 2}
SLSTM = {"slstm_at": (0,), "slstm_num_heads": 2}
PAPER = {"vocab_size": VOCABULARY, "embedding_dim": 16, "num_blocks": 2, "mlstm_inner_dim": 32}
KINDS = {
    "slstm": lambda: xLSTM(xLSTMConfig(**SIZES, **SLSTM)),
    "paper": lambda: xLSTMLMModel(PaperConfig(**PAPER, slstm_at=(1,), ffn_dim=24)),
}


@pytest.fixture(params=KINDS)
def model(request, draw_weights):
    mx.random.seed(7)
    return draw_weights(KINDS[request.param]())


def numbered(lengths=LENGTHS, numbers=(4, 1, 4)):
    """seq_idx, of numbers that only differ between neighbours."""
    return mx.array([np.repeat(numbers, row).tolist() for row in lengths])


def alone(array):
    """The part of each sequence, (1, S, ...)."""
    for row, lengths in enumerate(LENGTHS):
        for begin, end in itertools.pairwise(np.cumsum([0, *lengths]).tolist()):
            yield array[row : row + 1, begin:end]


def joined(pieces):
    """The inverse of `alone`."""
    pieces = list(pieces)
    return mx.concatenate([mx.concatenate(pieces[at : at + 3], axis=1) for at in (0, 3)])


@pytest.mark.sampled(0)
def test_packed_logits(model, draw_tokens, device, relative_error, wide):
    tokens = draw_tokens(2, STEPS)
    expected = joined(model(one) for one in alone(tokens))
    assert relative_error(model(tokens, seq_idx=numbered()), wide(expected)) < 2e-6
    # Without seq_idx they see each other.
    assert relative_error(model(tokens), wide(expected)) > 1e-3


@pytest.mark.sampled(0)
def test_packed_gradients(model, draw_tokens, device, relative_error, wide):
    tokens, following = draw_tokens(2, STEPS), draw_tokens(2, STEPS)
    if isinstance(model, xLSTM):
        model.backbone.recompute_blocks = True  # which packing has to get through, too

    def loss(logits):
        return nn.losses.cross_entropy(logits, following, reduction="mean")

    one, actual = nn.value_and_grad(model, lambda: loss(model(tokens, seq_idx=numbered())))()
    other, exact = nn.value_and_grad(model, lambda: loss(joined(map(model, alone(tokens)))))()
    assert one.item() == pytest.approx(other.item(), rel=2e-6)
    for (name, gradient), (_, expected) in zip(
        tree_flatten(actual), tree_flatten(exact), strict=True
    ):
        assert relative_error(gradient, wide(expected)) < 5e-6, name


@pytest.mark.sampled(0)
def test_nan_reaches_no_other_sequence(model, draw_tokens, device, relative_error, wide):
    tokens = mx.minimum(draw_tokens(2, STEPS), VOCABULARY - 2)
    spoilt = mx.concatenate([tokens[:, :5], tokens[:, 5:6] + VOCABULARY, tokens[:, 6:]], axis=1)
    spoilt = mx.minimum(spoilt, VOCABULARY - 1)  # in the second sequence of each row
    embeddings = next(part for _, part in model.named_modules() if isinstance(part, nn.Embedding))
    embeddings.weight[VOCABULARY - 1] = math.nan
    clean, found = (list(alone(model(each, seq_idx=numbered()))) for each in (tokens, spoilt))
    for place, (expected, actual) in enumerate(zip(clean, found, strict=True)):
        if place % 3 == 1:
            assert mx.any(mx.isnan(actual)).item()
        else:
            assert relative_error(actual, wide(expected)) < 2e-6


@pytest.mark.parametrize("cut", [5])
def test_a_cache_goes_on_with_the_last_sequence(cut, model, draw_tokens, relative_error, wide):
    tokens, following = draw_tokens(2, STEPS), draw_tokens(2, 3)
    cache = model.init_cache(2)
    whole = model(tokens, cache, seq_idx=numbered())
    assert relative_error(whole, wide(model(tokens, seq_idx=numbered()))) < 2e-6
    after = model(following, cache.copy())
    for row in range(2):
        last = tokens[row : row + 1, STEPS - LENGTHS[row][-1] :]
        sequence = mx.concatenate([last, following[row : row + 1]], axis=1)
        assert relative_error(after[row : row + 1], wide(model(sequence)[:, -3:])) < 2e-6
    # The first sequence of a row goes on from the cache.
    seq_idx = mx.array([[0] * cut + [1] * (STEPS - cut)] * 2)
    packed = model(tokens, cache.copy(), seq_idx=seq_idx)
    expected = [model(tokens[:, :cut], cache), model(tokens[:, cut:])]
    assert relative_error(packed, wide(mx.concatenate(expected, axis=1))) < 2e-6


def test_masked_steps_belong_to_no_sequence(model, draw_tokens, relative_error, wide):
    """Padding on the left, on the right, where a sequence begins, and in place of a whole one."""
    tokens = draw_tokens(2, STEPS)
    mask = np.ones((2, STEPS), bool)
    mask[0, [0, 5, 6, 9]] = False
    mask[1, [1, 2, 3, 12]] = False
    cache = model.init_cache(2)
    predicted = model(tokens, cache, mx.array(mask), numbered(numbers=(4, 1, 0)))
    rows = [wide(predicted), mask, np.array(tokens)]
    for logits, live, ids in zip(*map(alone, rows), strict=True):
        if live.any():
            expected = model(mx.array(ids[live][None]))
            assert relative_error(mx.array(logits[live][None]), wide(expected)) < 2e-6


@pytest.mark.parametrize(
    ("seq_idx", "error", "message"),
    [
        (mx.zeros((2, STEPS)), TypeError, "seq_idx must be an array of integers, got .*float32"),
        ([[0] * STEPS] * 2, TypeError, "seq_idx must be an array of integers, got list"),
        (mx.zeros((1, STEPS), mx.int32), ValueError, r"seq_idx must have shape \(2, 13\)"),
    ],
)
def test_other_numbers_are_refused(seq_idx, error, message, model, draw_tokens):
    with pytest.raises(error, match=message):
        model(draw_tokens(2, STEPS), seq_idx=seq_idx)
