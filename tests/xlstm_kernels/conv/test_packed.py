"""causal_conv1d of sequences packed into rows, and its gradients."""

from __future__ import annotations

import itertools
import math

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.conftest import GRADIENTS
from tests.xlstm_kernels.conv import oracle
from xlstm_kernels import causal_conv1d_fn
from xlstm_kernels.conv import causal_runs
from xlstm_kernels.conv.causal_conv1d import causal_conv1d

ACTIVATIONS = pytest.mark.parametrize("activation", ["silu", None])


@pytest.fixture
def drawn(draw):
    """x, weight, bias, and a cotangent of y."""

    def arrays(batch, steps, channels, width, dtype=mx.float32, other=None):
        x, others = (batch, steps, channels), ((channels, width), (channels,))
        primals = [draw(x, dtype), *(draw(shape, other or dtype) for shape in others)]
        return primals, draw(x, dtype)

    return arrays


@pytest.fixture
def judge(wide, relative_error):
    """Hold y and the gradients to the definition's."""

    def compare(primals, cotangent, numbers, activation, device):
        y, *gradients = computed(primals, cotangent, numbers, activation, device)
        x, weight, bias = (None if primal is None else wide(primal) for primal in primals)
        numbers = np.array(numbers).astype(np.int64)
        exact, _ = oracle.causal(x, weight, bias, None, activation, numbers)
        final = np.zeros((x.shape[0], weight.shape[1] - 1, x.shape[2]))
        pulled = (wide(cotangent), final)
        slopes = oracle.causal_gradients(x, weight, bias, None, activation, pulled, numbers)
        assert y.dtype == primals[0].dtype
        assert relative_error(y, exact) < GRADIENTS[y.dtype]
        given = [primal for primal in primals if primal is not None]
        for gradient, primal, slope in zip(gradients, given, slopes, strict=False):
            assert gradient.dtype == primal.dtype
            assert relative_error(gradient, slope) < GRADIENTS[primal.dtype]

    return compare


def computed(primals, cotangent, numbers, activation, device):
    """y, and the gradients in those of x, weight and bias that there are."""
    numbers = numbers if isinstance(numbers, mx.array) else mx.array(numbers)

    def operator(*arrays):
        return causal_conv1d(*arrays, activation=activation, seq_idx=numbers, backend=device)

    (y,), gradients = mx.vjp(
        operator, [array for array in primals if array is not None], [cotangent]
    )
    return [y, *gradients]


@pytest.fixture
def judge_cuts(drawn, judge):
    """Rows that each have another place where their second sequence begins, their third behind."""

    def judged(places, steps, channels, width, activation, device):
        step, begin = np.arange(steps), np.array(places)[:, None]
        numbers = (step >= begin).astype(np.int32) + (step >= begin + 2)
        judge(*drawn(len(places), steps, channels, width), numbers, activation, device)

    return judged


def random_numbers(shape, seed=3):
    """Sequences of a few steps each, numbers that return, and padding."""
    generator = np.random.default_rng(seed)
    numbers = np.cumsum(generator.random(shape) < 0.15, axis=1) % 3
    return np.where(generator.random(shape) < 0.1, -1 - numbers, numbers).astype(np.int32)


# --- the oracle itself -------------------------------------------------------------------------


def test_golden_values(device):
    """Taps 1, 10, 100: the digits of y, read from the left, are present, past, and before that."""
    x, weight = mx.array([[[1.0], [2.0], [3.0], [4.0], [5.0]]]), mx.array([[1.0, 10.0, 100.0]])
    numbers, cotangent = mx.array([[4, 4, 4, -1, 4]]), mx.ones((1, 5, 1))
    y, in_x, in_weight = computed([x, weight, None], cotangent, numbers, None, device)
    assert y.flatten().tolist() == [100, 210, 321, 0, 503]
    assert in_x.flatten().tolist() == [111, 110, 101, 0, 100]
    assert in_weight.flatten().tolist() == [1 + 3, 1 + 2, 1 + 2 + 3 + 5]


# --- values ------------------------------------------------------------------------------------


@ACTIVATIONS
@pytest.mark.parametrize("width", [4, 1, 2, 3, 5])
def test_boundaries_at_every_step_of_runs(width, activation, device, judge_cuts):
    """Runs of 16 steps, and of their halos."""
    judge_cuts(range(38), 37, 3, width, activation, device)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("channels", [8, 6, 5])
def test_boundaries_at_every_step_of_packed_runs(channels, monkeypatch, simulator, judge_cuts):
    """Runs of 8 steps, whose threads take several channels, and of 16 steps."""
    monkeypatch.setattr(causal_runs, "_BUSY_THREADS", 0)
    judge_cuts(range(22), 21, channels, 4, "silu", "metal")


@pytest.mark.sampled(4)
@ACTIVATIONS
@pytest.mark.parametrize("channels", [3, 4])
def test_boundaries_around_threadgroups(channels, activation, monkeypatch, simulator, judge_cuts):
    """The first run of a threadgroup has its halo, and g of that, from memory."""
    monkeypatch.setattr(causal_runs, "_BUSY_THREADS", 0)
    judge_cuts(range(120, 140), 150, channels, 4, activation, "metal")
    assert all(launch.grid[1] > 2 * launch.threadgroup[1] for launch in simulator.launches)


@pytest.mark.parametrize("width", [4, 5])
@ACTIVATIONS
def test_each_sequence_is_as_if_alone_to_the_last_bit(width, activation, device, drawn):
    (x, weight, bias), _ = drawn(1, 150, 35, width)
    places = [0, 1, 3, 6, 10, 15, 16, 17, 31, 32, 33, 48, 90, 127, 128, 129, 131, 150]
    packed = causal_conv1d_fn(
        mx.swapaxes(x, 1, 2), weight, bias, cu_seqlens=places, activation=activation, backend=device
    )
    alone = [
        causal_conv1d(x[:, begin:end], weight, bias, activation=activation, backend=device)
        for begin, end in itertools.pairwise(places)
    ]
    assert mx.array_equal(mx.swapaxes(packed, 1, 2), mx.concatenate(alone, axis=1))


@pytest.mark.parametrize("dtype", [mx.int8, mx.int64, mx.uint8, mx.uint32, mx.uint64])
def test_dtypes_of_numbers(dtype, device, drawn, judge):
    primals, cotangent = drawn(2, 20, 5, 4)
    numbers = mx.array(np.abs(random_numbers((2, 20)))).astype(dtype)
    judge(primals, cotangent, numbers, None, device)


def test_numbers_that_differ_in_high_bits(device):
    numbers = mx.array([[0, 2**32, 2**40]], dtype=mx.int64)
    y = causal_conv1d(mx.ones((1, 3, 2)), mx.ones((2, 3)), seq_idx=numbers, backend=device)
    assert y.tolist() == [[[1, 1]] * 3]


@pytest.mark.parametrize("layout", ["transposed", "reversed", "broadcast"])
def test_strided_inputs(layout, device, draw, judge):
    x = draw((2, 66, 45), mx.float32).transpose(0, 2, 1)[:, ::-1, ::2]
    weight, bias = draw((4, 33), mx.float32).transpose(1, 0), draw((66,), mx.float32)[::2]
    cotangent = draw((33, 2, 45), mx.float32).transpose(1, 2, 0)
    numbers = {
        "transposed": mx.array(random_numbers((45, 2))).transpose(1, 0),
        "reversed": mx.array(random_numbers((2, 90)))[:, ::-2],
        "broadcast": mx.broadcast_to(mx.array(random_numbers((1, 45))), (2, 45)),
    }[layout]
    primals = [x, weight, bias]
    judge(primals, cotangent, numbers, "silu", device)


@ACTIVATIONS
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_nan_crosses_no_boundary(bad, activation, device, drawn):
    (x, weight, bias), _ = drawn(1, 150, 3, 4)
    numbers = mx.array([[0] * 30 + [1] * 99 + [-1] * 11 + [2] * 10])
    spoilt = mx.expand_dims(mx.logical_or(numbers == 1, numbers < 0), axis=2)
    clean, found = (
        causal_conv1d(v, weight, bias, activation=activation, seq_idx=numbers, backend=device)
        for v in (x, mx.where(spoilt, mx.array(bad), x))
    )
    of_second = mx.expand_dims(numbers == 1, axis=2)
    assert mx.all(mx.where(of_second, mx.logical_not(mx.isfinite(found)), clean == found)).item()


# --- launches and transformations --------------------------------------------------------------


def test_one_launch_in_each_direction(simulator, drawn):
    """Where x is transposed, too, which is not copied."""
    (x, weight, bias), cotangent = drawn(2, 20, 33, 4)
    turned = mx.contiguous(x.transpose(0, 2, 1)).transpose(0, 2, 1)
    mx.eval(computed([turned, weight, bias], cotangent, random_numbers((2, 20)), "silu", "metal"))
    assert [launch.kernel.removeprefix("xlstm_causal_conv1d") for launch in simulator.launches] == [
        "_bias_silu_packed",
        "_gradient_bias_silu_packed",
    ]
    assert all(launch.traffic["values"].read == x.nbytes for launch in simulator.launches)
