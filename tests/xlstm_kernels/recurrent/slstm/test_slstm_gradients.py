"""Gradients of the sLSTM in every input, against those of the definition in float64."""

from __future__ import annotations

import math
from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.recurrent.slstm.gradient_case import BARS, OPTIONS, Case, judge
from tests.xlstm_kernels.recurrent.slstm.inputs import Inputs, one_unit
from xlstm_kernels import products
from xlstm_kernels.recurrent.slstm import gradient as gradient_module
from xlstm_kernels.recurrent.slstm import sequence as sequence_module
from xlstm_kernels.recurrent.slstm.layout import most_threads
from xlstm_kernels.recurrent.slstm.sequence import slstm, slstm_step

WIDTHS = (33, 1, 8, 64, 65, 130)

# --- values ------------------------------------------------------------------------------------


@pytest.mark.parametrize("units", WIDTHS)
@pytest.mark.parametrize("masked", [True, False])
def test_gradients(units, masked, device, draw_case):
    case = draw_case((2, 5, 3, units), masked=masked)
    judge(case.computed(device), case.expected())


@pytest.mark.parametrize("units", [8, 65])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=list(OPTIONS))
@pytest.mark.parametrize("masked", [True, False])
def test_options(units, options, masked, device, draw_case):
    case = draw_case((2, 5, 3, units), masked=masked)
    found, expected = case.computed(device, **options), case.expected(**options)
    judge(found, expected)
    if options:
        exact = case.expected()
        assert np.linalg.norm(exact.wx - expected.wx) > 0.01 * np.linalg.norm(exact.wx)
    if "cut" in options:
        assert not mx.any(found[3][0]).item()
        assert mx.all(mx.any(found[1], axis=-1)).item()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("units", [70, 160])
@pytest.mark.parametrize("masked", [True, False])
def test_more_threads(units, masked, simulator, draw_case, check_case, monkeypatch):
    """As on CUDA, where a head may have 512: more slices of the rows, three of them for 160."""
    monkeypatch.setattr(sequence_module, "most_threads", lambda *_: 512)
    monkeypatch.setattr(gradient_module, "most_threads", lambda *_: 512)
    check_case(draw_case((2, 4, 1, units), masked=masked), "metal")
    launched = {launch.kernel.removesuffix("_masked") for launch in simulator.launches}
    assert launched == {"xlstm_slstm", "xlstm_slstm_gradient"}


@pytest.mark.parametrize(
    ("dtype", "bar"), [(mx.float16, 2e-3), (mx.bfloat16, 1e-2)], ids=["float16", "bfloat16"]
)
def test_halves(dtype, bar, device, draw_case, check_case):
    """Inputs are float32 to the last bit, whatever held them, so results are as close as ever."""
    case = draw_case((2, 6, 3, 40), dtype=dtype, masked=True)
    bars = dict.fromkeys("ifzoRb", bar) | dict.fromkeys("ycnm", 1e-5)
    found = check_case(case, device, bars)
    assert [gradient.dtype for gradient in found] == [dtype] * 3 + [mx.float32]


@pytest.mark.parametrize(
    ("backend", "units", "threads"),
    [("metal", 64, 256), ("metal", 65, 256), ("cuda", 64, 256), ("cuda", 65, 512),
     ("cuda", 512, 512), ("cuda", 513, 256)],
)  # fmt: skip
def test_threads(backend, units, threads):
    """Never more than any kernel may have on Metal; on CUDA more where registers suffice."""
    assert most_threads(backend, units) == threads


# --- limits ------------------------------------------------------------------------------------


@pytest.mark.parametrize("f", [-math.inf, -100.0, 100.0, math.inf])
@pytest.mark.parametrize("i", [-math.inf, -100.0, 100.0])
@pytest.mark.parametrize("fresh", [False, True])
def test_gates_at_their_limits(fresh, i, f, device, draw_case):
    case = draw_case((1, 6, 1, 5), fresh=fresh)
    case = replace(case, inputs=case.inputs.limited(i, f))
    judge(case.computed(device), case.expected(), {name: 2 * bar for name, bar in BARS.items()})


def test_nothing_let_in(device, draw_case):
    """From nothing, nothing: the gradients in the initial c and n go through all the same."""
    off = -math.inf
    inputs = one_unit((off, 1, 1, 1), (off, off, 1, 1), (off, 2, 1, 1))
    drawn = draw_case((1, 3, 1, 1))
    of_states, of_last = drawn.cotangents
    for kept in (2, 3):
        some = inputs._replace(wx=inputs.wx[:, :kept])
        case = Case(some, mx.zeros((4, 1, 1, 1)), (of_states[:, :, :kept], of_last))
        judge(case.computed(device), case.expected())


@pytest.mark.parametrize("m", [-3.0, 3.0])
def test_memory_that_nothing_counts(m, device, draw_case):
    """c without an n, as no sequence leaves it: the exponent of f' stops at zero."""
    case = draw_case((1, 2, 1, 4))
    states = np.array(case.initial)
    states[2], states[3] = 0, m
    inputs = case.inputs._replace(b=0 * case.inputs.b, r=0.1 * case.inputs.r)
    case = replace(case, inputs=inputs, initial=mx.array(states))
    judge(case.computed(device), case.expected())


def test_a_clip_shows_nan(device, draw_case):
    """What is not a number must not become the limit; other heads don't see it."""
    case = draw_case((1, 4, 2, 5))
    wx = np.array(case.inputs.wx)
    wx[0, 2, 3, 0, 1] = math.nan
    case = replace(case, inputs=case.inputs._replace(wx=mx.array(wx)))
    bad = np.isnan(np.array(case.computed(device, clipval=0.1)[0]))
    assert bad[0, 1, :, 0].any()
    assert not bad[:, :, :, 1].any()


# --- masks -------------------------------------------------------------------------------------


def test_masked_steps_may_hold_anything(device, draw_case, check_case):
    """And have no gradient, whatever comes back to the y of zero that they show."""
    case = draw_case((2, 6, 2, 8), masked=True)
    live = case.mask[:, :, None, None, None]
    padded = mx.where(live, case.inputs.wx, mx.array(math.nan))
    of_y = mx.where(live[:, :, 0], case.cotangents[0][0], mx.array(1e9))
    cotangents = mx.concatenate([of_y[None], case.cotangents[0][1:]]), case.cotangents[1]
    spoilt = replace(case, inputs=case.inputs._replace(wx=padded), cotangents=cotangents)
    found = check_case(spoilt, device, definition=case)
    gone = ~np.array(case.mask)
    assert gone.any()
    assert not np.array(found[0])[gone].any()


# --- states ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(0, 3, 2, 5), (2, 3, 0, 5), (2, 3, 2, 0), (2, 0, 2, 5)], ids=str)
def test_nothing_to_do(shape, device, draw_case):
    case = draw_case(shape)
    results, found = case.run(device)
    for array, like in zip((*results, *found), (*case.cotangents, *case.arrays), strict=True):
        assert array.shape == like.shape
    if not shape[1]:
        assert mx.array_equal(found[3], case.cotangents[1][:, :, 0])


@pytest.mark.parametrize("masked", [True, False])
def test_gradients_with_factors_in_parts(masked, monkeypatch, draw_case):
    """By the operations of the native backend, as on a GPU that multiplies in TF32."""
    monkeypatch.setattr(products, "_rounds_to_tf32", lambda: True)
    case = draw_case((2, 5, 3, 33), masked=masked)
    judge(case.computed("native"), case.expected())


# --- memory ------------------------------------------------------------------------------------


def test_strided_inputs_and_cotangents(device, draw, draw_inputs, check_case):
    """As they lie in memory: time reversed, every other unit, heads and units exchanged."""
    wx = draw((2, 6, 3, 4, 10), mx.float32).transpose(0, 1, 3, 2, 4)[:, ::-1, :, :, ::2]
    _, r, b = draw_inputs((2, 6, 3, 5))
    case = Case(
        Inputs(wx, r.swapaxes(-1, -2), b.transpose(2, 1, 0).transpose(2, 1, 0)),
        draw((2, 3, 5, 4), mx.float32).transpose(3, 0, 1, 2) + mx.array(2.0),
        (
            draw((2, 6, 5, 3, 4), mx.float32).transpose(4, 0, 1, 3, 2)[:, :, ::-1],
            draw((1, 2, 3, 5, 4), mx.float32).transpose(4, 1, 0, 2, 3),
        ),
        draw((6, 2), mx.float32).T > 0,
    )
    check_case(case, device)


# --- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("clipval", ["1", True, mx.array(1.0)], ids=str)
def test_rejects_limits_that_are_no_numbers(clipval, draw_inputs):
    wx, r, b = draw_inputs((1, 1, 1, 2))
    with pytest.raises(TypeError, match="slstm: gradient_recurrent_clipval must be a number, got"):
        slstm(wx, r, b, gradient_recurrent_clipval=clipval)
    with pytest.raises(TypeError, match="slstm_step: gradient_recurrent_clipval must be a number"):
        slstm_step(wx[:, 0], r, b, gradient_recurrent_clipval=clipval)


@pytest.mark.parametrize(
    ("clipval", "message"),
    [(-0.5, "must not be negative, got -0.5"), (math.nan, "finite"), (math.inf, "finite")],
)
def test_rejects_limits(clipval, message, draw_inputs):
    with pytest.raises(ValueError, match=f"slstm: gradient_recurrent_clipval .*{message}"):
        slstm(*draw_inputs((1, 1, 1, 2)), gradient_recurrent_clipval=clipval)


@pytest.mark.parametrize("cut", [1, None, "yes"])
def test_rejects_cuts(cut, draw_inputs):
    with pytest.raises(TypeError, match="slstm: gradient_recurrent_cut must be a bool, got"):
        slstm(*draw_inputs((1, 1, 1, 2)), gradient_recurrent_cut=cut)
