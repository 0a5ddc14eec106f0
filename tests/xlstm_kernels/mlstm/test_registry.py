"""The mLSTM by name: which names there are, what they run, and what they run on."""

from __future__ import annotations

import functools
import inspect

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.mlstm.comparing import Draw, Inputs, judge
from xlstm_kernels.mlstm.registry import (
    get_available_mlstm_kernels,
    get_available_mlstm_sequence_kernels,
    get_available_mlstm_step_kernels,
    get_mlstm_kernel,
    get_mlstm_sequence_kernel,
    get_mlstm_step_kernel,
)
from xlstm_kernels.mlstm.siging import mlstm_siging_chunkwise

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
SIGING = "chunkwise--metal_xl_chunk_siging"
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


@pytest.mark.parametrize("name", [NAMES[0], SIGING])
def test_a_setting_of_nobody_is_refused(name, inputs):
    with pytest.raises(TypeError, match="unexpected keyword argument 'chunksize'"):
        get_mlstm_kernel(name)(*inputs.sequence, chunksize=16)
    with pytest.raises(TypeError, match="missing a required argument: 'f'"):
        get_mlstm_kernel(name)(*inputs.sequence[:4])


def test_numpy_integers_are_chunk_sizes(inputs):
    for name in (NAMES[0], SIGING):
        kernel = get_mlstm_kernel(name)
        expected = kernel(*inputs.sequence, chunk_size=16)
        assert mx.array_equal(kernel(*inputs.sequence, chunk_size=np.int32(16)), expected).item()
        for size in (np.True_, True, mx.array(16), 16.0):
            with pytest.raises(TypeError, match="chunk_size must be an int, got"):
                kernel(*inputs.sequence, chunk_size=size)


@pytest.mark.parametrize("name", SEQUENCE_NAMES)
def test_forms_step_by_step(name, inputs):
    kernel = functools.partial(get_mlstm_sequence_kernel(name), mask=inputs.mask)
    h, last = kernel(*inputs.sequence, *inputs.states, True)
    judge(inputs, h, last)
    assert mx.array_equal(kernel(*inputs.sequence, *inputs.states), h).item()
    _, rounded = kernel(*inputs.sequence, *inputs.states, True, 1e-6, mx.bfloat16)
    assert [state.dtype for state in rounded] == [mx.bfloat16, mx.bfloat16, mx.float32]
    assert mx.array_equal(rounded.c, last.c.astype(mx.bfloat16)).item()


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
    kernel, states = get_mlstm_kernel(SIGING), inputs.states[:2]
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


# --- what they run on ----------------------------------------------------------------------------


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
