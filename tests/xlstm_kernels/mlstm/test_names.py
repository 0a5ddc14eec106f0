"""The mLSTM by name, mLSTMBackend, and the table that chooses forms and chunks."""

from __future__ import annotations

import dataclasses
import functools
import inspect

import mlx.core as mx
import pytest

from tests.xlstm_kernels.mlstm.comparing import Bars, Draw, Inputs, judge, wide
from xlstm_kernels.mlstm import choice
from xlstm_kernels.mlstm.backend import mLSTMBackend, mLSTMBackendConfig
from xlstm_kernels.mlstm.registry import (
    get_available_mlstm_kernels,
    get_available_mlstm_sequence_kernels,
    get_available_mlstm_step_kernels,
    get_mlstm_kernel,
    get_mlstm_sequence_kernel,
    get_mlstm_step_kernel,
)
from xlstm_kernels.mlstm.siging import mlstm_siging_chunkwise

# --- registry ----------------------------------------------------------------------------------


# Those of mlstm_kernels 2.0.6, then ours, and what follows eps by position.
AFTER_EPS = {
    "chunkwise--native_autograd": ["chunk_size"],
    "chunkwise--native_custbw": ["chunk_size", "autocast_kernel_dtype"],
    "chunkwise--triton_limit_chunk": ["chunk_size", "autocast_kernel_dtype"],
    "chunkwise--triton_xl_chunk": ["chunk_size", "chunk_size_inter", "chunk_size_intra"],
    "chunkwise--triton_xl_chunk_siging": ["normalize", "chunk_size", "chunk_size_inter"],
    "parallel--native_autograd": [],
    "parallel--native_custbw": ["autocast_kernel_dtype"],
    "parallel--native_stablef_autograd": [],
    "parallel--native_stablef_custbw": ["autocast_kernel_dtype"],
    "parallel--triton_limit_headdim": ["autocast_kernel_dtype"],
    "parallel--native_siging_autograd": ["stable_fgate", "normalize"],
    "parallel--native_siging_custbw": ["stable_fgate", "normalize", "autocast_kernel_dtype"],
    "chunkwise--metal_xl_chunk": ["chunk_size"],
    "chunkwise--metal_xl_chunk_siging": ["normalize", "chunk_size"],
    "parallel--metal": ["chunk_size"],
}
NAMES = list(AFTER_EPS)
SEQUENCE_NAMES = ["native_sequence__native", "native_sequence__triton", "native_sequence__metal"]
STEP_NAMES = ["native", "triton", "metal"]
SIGING_NAMES = [name for name in NAMES if "siging" in name]
REGISTRY_SIGING = "chunkwise--metal_xl_chunk_siging"
TRITON = {
    "chunk_size_inter": 64,
    "chunk_size_intra": 64,
    "siz_b_L_parallel": 32,
    "siz_b_L_loop": 32,
    "siz_b_DH_parallel": 64,
    "siz_b_DH_loop": 64,
    "num_warps_intra": 4,
    "num_warps_inter": 4,
    "num_stages_intra": 1,
    "num_stages_inter": 1,
    "recompute_states_in_bw": False,
    "autocast_kernel_dtype": "bfloat16",
    "stable_fgate": False,
}


@pytest.fixture
def inputs() -> Inputs:
    return Draw(2, 1, 37, 8, 8, initial=True, masked=True, seed=5).inputs()


def test_names():
    assert get_available_mlstm_kernels() == NAMES
    assert get_available_mlstm_sequence_kernels() == SEQUENCE_NAMES
    assert get_available_mlstm_step_kernels() == STEP_NAMES


@pytest.mark.parametrize("name", [name for name in NAMES if name not in SIGING_NAMES])
def test_forms_for_sequences(name, inputs):
    kernel = get_mlstm_kernel(name)
    h, last = kernel(
        *inputs.sequence, *inputs.states, return_last_states=True, chunk_size=16, mask=inputs.mask
    )
    judge(inputs, h, last)
    only_h = kernel(
        *inputs.sequence,
        *inputs.states,
        False,
        1e-6,
        mask=inputs.mask,
        **{**TRITON, "chunk_size": 16},
    )
    assert mx.array_equal(only_h, h).item()


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_arguments_is_that_of_mlstm_kernels(name, inputs):
    kernel, given = get_mlstm_kernel(name), {"chunk_size": 16, "normalize": False, **TRITON}
    names = [*AFTER_EPS[name]]
    order = list(inspect.signature(kernel).parameters)
    assert order[8 : 10 + len(names)] == ["return_last_states", "eps", *names]
    states = (None, None, None)
    by_name = {key: given[key] for key in names}
    expected = kernel(*inputs.sequence, *states, eps=1e-3, **by_name)
    actual = kernel(*inputs.sequence, *states, False, 1e-3, *by_name.values())
    assert mx.array_equal(actual, expected).item()


@pytest.mark.parametrize("name", [NAMES[0], REGISTRY_SIGING])
def test_a_setting_of_nobody_is_refused(name, inputs):
    with pytest.raises(TypeError, match="unexpected keyword argument 'chunksize'"):
        get_mlstm_kernel(name)(*inputs.sequence, chunksize=16)
    with pytest.raises(TypeError, match="missing a required argument: 'f'"):
        get_mlstm_kernel(name)(*inputs.sequence[:4])


@pytest.mark.parametrize("name", SEQUENCE_NAMES)
def test_forms_step_by_step(name, inputs):
    kernel = functools.partial(get_mlstm_sequence_kernel(name), mask=inputs.mask)
    h, last = kernel(*inputs.sequence, *inputs.states, True)
    judge(inputs, h, last)
    assert mx.array_equal(kernel(*inputs.sequence, *inputs.states), h).item()
    _, rounded = kernel(*inputs.sequence, *inputs.states, True, 1e-6, mx.bfloat16)
    assert {state.dtype for state in rounded} == {mx.bfloat16}
    judge(inputs, h, rounded, Bars(states=5e-3))


def test_the_dtype_of_states_is_checked(inputs):
    kernel = get_mlstm_sequence_kernel("native_sequence__native")
    with pytest.raises(TypeError, match="dtype_state must be float32, float16 or bfloat16, got ml"):
        kernel(*inputs.sequence, dtype_state=mx.int32)


@pytest.mark.parametrize("name", STEP_NAMES)
def test_forms_of_one_step(name):
    inputs = Draw(2, 3, 1, 8, 8, initial=True, seed=9).inputs()
    q, k, v = (x[:, :, 0] for x in inputs.sequence[:3])
    step = get_mlstm_step_kernel(name)
    h, last = step(q, k, v, inputs.i, inputs.f, *inputs.states, 1e-6, mx.float32, chunk_size=64)
    judge(inputs, h[:, :, None], last)


def test_the_sigmoid_input_gate(inputs):
    kernel, states = get_mlstm_kernel(REGISTRY_SIGING), inputs.states[:2]
    settings = {"return_last_states": True, "chunk_size": 16}
    for normalize in (True, False):
        actual = kernel(*inputs.sequence, *states, normalize=normalize, **settings)
        expected = mlstm_siging_chunkwise(
            *inputs.sequence, *states, normalize=normalize, **settings
        )
        assert mx.array_equal(actual[0], expected[0]).item()
        assert len(actual[1]) == 2
    with pytest.raises(ValueError, match="has no state m; m_initial must be None"):
        kernel(*inputs.sequence, *inputs.states)


@pytest.mark.parametrize(
    ("get", "name", "message"),
    [
        (get_mlstm_kernel, "chunkwise--metal", f"mLSTM kernel .*; expected one of {NAMES[0]}, .*"),
        (get_mlstm_kernel, "native", f"kernel 'native'; expected one of {', '.join(NAMES)}$"),
        (
            get_mlstm_sequence_kernel,
            "triton",
            f"unknown mLSTM sequence kernel 'triton'; expected one of {', '.join(SEQUENCE_NAMES)}",
        ),
        (
            get_mlstm_step_kernel,
            "",
            "unknown mLSTM step kernel ''; expected one of native, triton, metal",
        ),
    ],
)
def test_unknown_names(get, name, message):
    with pytest.raises(ValueError, match=message):
        get(name)


# --- what they run on --------------------------------------------------------------------------


def launched(simulator, call) -> bool:
    before = len(simulator.launches)
    mx.eval(call())
    return len(simulator.launches) > before


@pytest.mark.parametrize("name", [*NAMES, *SEQUENCE_NAMES])
def test_every_name_runs_kernels_where_they_can_run(name, simulator):
    inputs = Draw(1, 1, 5, 8, 8, seed=3).inputs()
    get = get_mlstm_sequence_kernel if name in SEQUENCE_NAMES else get_mlstm_kernel
    assert launched(simulator, lambda: get(name)(*inputs.sequence))
    assert not launched(simulator, lambda: get(name)(*inputs.sequence, backend="native"))


# --- backend -----------------------------------------------------------------------------------


METAL = {
    "chunkwise_kernel": "chunkwise--metal_xl_chunk",
    "sequence_kernel": "native_sequence__metal",
    "step_kernel": "metal",
}
BACKEND_SIGING = "chunkwise--triton_xl_chunk_siging"


def backend(**settings) -> mLSTMBackend:
    return mLSTMBackend(mLSTMBackendConfig(**settings))


def piece(inputs: Inputs, start: int, end: int) -> tuple[mx.array, ...]:
    return tuple(array[:, :, start:end] for array in inputs.sequence)


# --- the configuration -------------------------------------------------------------------------


def test_fields_and_defaults():
    assert dataclasses.asdict(mLSTMBackendConfig()) == {
        "chunkwise_kernel": "chunkwise--native_autograd",
        "sequence_kernel": "native_sequence__native",
        "step_kernel": "native",
        "mode": "train",
        "chunk_size": 64,
        "return_last_states": True,
        "autocast_kernel_dtype": "bfloat16",
        "eps": 1e-6,
        "inference_state_dtype": "float32",
        "normalize_siging": True,
        "normalizer_grad": True,
    }


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"chunkwise_kernel": "chunkwise"}, ValueError, "unknown mLSTM kernel 'chunkwise'"),
        ({"sequence_kernel": "metal"}, ValueError, "unknown mLSTM sequence kernel 'metal'"),
        ({"step_kernel": "fast"}, ValueError, "unknown mLSTM step kernel 'fast'"),
        (
            {"mode": "training"},
            ValueError,
            "mode must be one of 'train', 'train_with_padding', 'inference', got 'training'",
        ),
        ({"chunk_size": 0}, ValueError, "chunk_size must be at least 1, got 0"),
        ({"chunk_size": 64.0}, TypeError, "chunk_size must be an int, got float"),
        ({"eps": -1.0}, ValueError, "eps must not be negative"),
        ({"eps": "small"}, TypeError, "eps must be a number, got str"),
        (
            {"inference_state_dtype": "float64"},
            ValueError,
            "inference_state_dtype must be one of 'float32', 'bfloat16', 'float16', got 'float64'",
        ),
        ({"autocast_kernel_dtype": mx.float32}, ValueError, "autocast_kernel_dtype must be one of"),
        (
            {"chunkwise_kernel": "parallel--native_autograd"},
            ValueError,
            "'parallel--native_autograd' is not configured to return last states; set return_last_",
        ),
        (
            {"chunkwise_kernel": "parallel--triton_limit_headdim"},
            ValueError,
            r"set return_last_states=False .*, or mode 'inference'",
        ),
        ({"mode": "train_with_padding"}, ValueError, "'train_with_padding' returns no last states"),
    ],
)
def test_what_is_refused(settings, error, message):
    with pytest.raises(error, match=message):
        mLSTMBackendConfig(**settings)


# --- training ----------------------------------------------------------------------------------


def test_in_training_last_states_come_as_configured_or_asked_for():
    inputs = Draw(2, 1, 21, 8, 8, initial=True, masked=True, seed=1).inputs()
    arrays = (*inputs.sequence, *inputs.states)
    h, last = backend()(*arrays, mask=inputs.mask)
    judge(inputs, h, last)
    assert mx.array_equal(backend()(*arrays, False, mask=inputs.mask), h).item()
    silent = backend(return_last_states=False)
    assert mx.array_equal(silent(*arrays, mask=inputs.mask), h).item()
    assert mx.array_equal(silent(*arrays, True, mask=inputs.mask)[1].c, last.c).item()


def test_training_with_padding_takes_any_length_and_has_no_last_states():
    inputs = Draw(1, 1, 21, 8, 8, seed=2).inputs()
    padded = backend(mode="train_with_padding", return_last_states=False)
    judge(inputs, padded(*inputs.sequence))
    with pytest.raises(ValueError, match=r"returns no last states; set .* or use mode 'train'"):
        padded(*inputs.sequence, return_last_states=True)
    assert len(padded(*inputs.sequence, mode="inference")) == 2
    with pytest.raises(ValueError, match=r"mode must be one of .*, got 'test'"):
        padded(*inputs.sequence, mode="test")


def test_a_parallel_form_gives_last_states_to_who_asks():
    inputs = Draw(1, 1, 21, 8, 8, seed=2).inputs()
    parallel = backend(chunkwise_kernel="parallel--metal", return_last_states=False)
    assert isinstance(parallel(*inputs.sequence), mx.array)
    judge(inputs, *parallel(*inputs.sequence, return_last_states=True))
    judge(inputs, *parallel(*inputs.sequence, mode="inference"))
    in_inference = backend(chunkwise_kernel="parallel--native_autograd", mode="inference")
    judge(inputs, *in_inference(*inputs.sequence))


@pytest.mark.parametrize("mode", ["train", "inference"])
@pytest.mark.sampled(0)
def test_the_settings_reach_every_form(mode, device):
    inputs = Draw(1, 1, 33, 8, 8, eps=1e-3, seed=4).inputs()
    configured = backend(eps=1e-3, chunk_size=16, mode=mode, **METAL)
    for end in (1, 8, 33):
        part = Inputs(*piece(inputs, 0, end), eps=1e-3)
        judge(part, *configured(*part.sequence))


# --- inference ---------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, METAL], ids=["native", "metal"])
def test_a_sequence_in_pieces_is_the_whole(settings, device):
    inputs = Draw(1, 2, 43, 8, 8, initial=True, seed=6).inputs()
    infer = backend(mode="inference", **settings)
    state, start, outputs = inputs.states, 0, []
    for length in (1, 20, 1, 5, 16):
        h, state = infer(*piece(inputs, start, start + length), *state)
        outputs.append(h)
        start += length
    judge(inputs, mx.concatenate(outputs, axis=2), state)


@pytest.mark.parametrize("steps", [1, 2, 20])
@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_the_dtype_of_states(steps, name):
    inputs = Draw(2, 1, steps, 8, 8, seed=8).inputs()
    exact, _ = backend(mode="inference")(*inputs.sequence)
    h, rounded = backend(mode="inference", inference_state_dtype=name)(*inputs.sequence)
    assert {state.dtype for state in rounded} == {getattr(mx, name)}
    assert mx.array_equal(h, exact).item()
    judge(inputs, h, rounded, Bars(states=5e-3))


@pytest.mark.parametrize(
    ("steps", "masked", "expected"),
    [
        (1, False, {"xlstm_mlstm_step"}),
        (1, True, {"xlstm_mlstm_sequence_masked"}),
        (16, False, {"xlstm_mlstm_sequence"}),
        (
            17,
            False,
            {
                f"xlstm_mlstm_{name}"
                for name in ("gates", "weighted_keys", "state_scan", "chunk_rows")
            },
        ),
    ],
)
@pytest.mark.sampled(4)
def test_each_length_has_its_kernel(steps, masked, expected, simulator):
    inputs = Draw(1, 1, steps, 8, 8, masked=masked, seed=8).inputs()
    mx.eval(backend(mode="inference", **METAL)(*inputs.sequence, mask=inputs.mask))
    launched = {launch.kernel for launch in simulator.launches}
    assert len(launched) == len(expected)
    assert all(any(name.startswith(one) for name in launched) for one in expected), launched
    before = len(simulator.launches)
    mx.eval(backend(mode="inference")(*inputs.sequence, mask=inputs.mask, backend="native"))
    assert len(simulator.launches) == before


# --- with a sigmoid input gate -----------------------------------------------------------------


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("mode", ["train", "inference"])
def test_a_sigmoid_input_gate_has_no_m(mode, normalize, relative_error):
    inputs = Draw(2, 1, 21, 8, 8, seed=10).inputs()
    infer = backend(chunkwise_kernel=BACKEND_SIGING, mode=mode, normalize_siging=normalize)
    expected, last = mlstm_siging_chunkwise(
        *inputs.sequence, return_last_states=True, normalize=normalize
    )
    first, state = infer(*piece(inputs, 0, 20))
    assert len(state) == 2
    second, state = infer(*piece(inputs, 20, 21), *state)
    assert relative_error(mx.concatenate((first, second), axis=2), wide(expected)) < 2e-6
    assert relative_error(state[0], wide(last[0])) < 1e-6


# --- choice ------------------------------------------------------------------------------------


def call(steps: int, keys: int = 8, values: int = 8) -> tuple[mx.array, mx.array]:
    """q and v, of which nothing but the shape is looked at."""
    return mx.zeros((1, 1, steps, keys)), mx.zeros((1, 1, steps, values))


@pytest.mark.parametrize(
    ("steps", "masked", "by_kernels", "native"),
    [
        (1, False, choice.STEP, choice.STEP),
        (1, True, choice.SEQUENCE, choice.SEQUENCE),
        (2, False, choice.SEQUENCE, choice.CHUNKWISE),
        (16, True, choice.SEQUENCE, choice.CHUNKWISE),
        (17, False, choice.CHUNKWISE, choice.CHUNKWISE),
    ],
)
def test_forms(steps, masked, by_kernels, native):
    assert choice.chosen(*call(steps), "metal", masked=masked).form == by_kernels
    assert choice.chosen(*call(steps), "cuda", masked=masked).form == by_kernels
    assert choice.chosen(*call(steps), "native", masked=masked).form == native


@pytest.mark.parametrize(
    ("steps", "state", "gpu", "cpu"),
    [
        (1, (64, 64), 64, 32),
        (2047, (64, 64), 64, 32),
        (2048, (64, 64), 128, 32),
        (8191, (128, 256), 128, 32),
        (8192, (256, 256), 256, 64),
    ],
)
def test_chunks(steps, state, gpu, cpu, monkeypatch):
    def size(backend):
        return choice.chosen(*call(steps, *state), backend, form=choice.CHUNKWISE).chunk_size

    assert size("metal") == gpu
    monkeypatch.setattr(mx, "default_device", lambda: mx.gpu)
    assert size("native") == gpu
    monkeypatch.setattr(mx, "default_device", lambda: mx.cpu)
    assert size("native") == cpu


@pytest.mark.parametrize(
    ("name", "mode", "steps"),
    [
        ("chunkwise--native_custbw", "train", 20),
        (REGISTRY_SIGING, "train", 20),
        ("chunkwise--native_custbw", "inference", 3),
        ("chunkwise--native_custbw", "inference", 1),
    ],
)
def test_gradients_for_which_the_normaliser_is_a_constant(name, mode, steps):
    inputs = Draw(1, 2, steps, 8, 8, seed=3).inputs()
    settings = {"chunkwise_kernel": name, "mode": mode}

    def gradients(function):
        def loss(*arrays: mx.array) -> mx.array:
            result = function(*arrays)
            return mx.sum(mx.sin(result[0] if isinstance(result, tuple) else result))

        return mx.grad(loss, argnums=[0, 1, 2])(*inputs.sequence)

    constant = gradients(backend(**settings, normalizer_grad=False))
    kernel = functools.partial(get_mlstm_kernel(name), normalizer_grad=False)
    for one, other in zip(constant, gradients(kernel), strict=True):
        assert mx.allclose(one, other, rtol=1e-4, atol=1e-6).item()
    assert not mx.allclose(constant[0], gradients(backend(**settings))[0], rtol=1e-2).item()
