"""copy: every element, bit for bit."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xlstm_kernels.memory import memcpy
from xlstm_kernels.memory.memcpy import copy

SHAPES = [(), (1,), (7,), (8,), (0,), (3, 0), (33,), (5, 7, 3), (1025,)]
FLOATING = [mx.float32, mx.float16, mx.bfloat16]
OTHERS = [mx.bool_, mx.uint8, mx.uint16, mx.uint32, mx.uint64]
SIGNED = [mx.int8, mx.int16, mx.int32, mx.int64]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(shape, device, precision, draw):
    x = draw(shape, precision.dtype)
    copied = copy(x, backend=device)
    assert (copied.shape, copied.dtype) == (x.shape, x.dtype)
    assert mx.array_equal(copied, x)


@pytest.mark.parametrize("size", [3, 100])
@pytest.mark.parametrize("dtype", [*FLOATING, *OTHERS, *SIGNED], ids=str)
def test_bits(dtype, size, device):
    """Any bits, so NaN of every kind, infinities, both zeros, and the ends of the integers."""
    generator = np.random.default_rng(7)
    if dtype == mx.bool_:
        x = mx.array(generator.integers(0, 2, size).astype(bool))
    else:
        raw = generator.integers(0, 256, size * dtype.size).astype(np.uint8)
        raw[: 2 * dtype.size] = [0xFF] * dtype.size + [0] * (dtype.size - 1) + [0x80]
        x = mx.array(raw).view(dtype)
    copied = copy(x, backend=device)
    assert (copied.dtype, copied.shape) == (dtype, (size,))
    assert mx.array_equal(copied.view(mx.uint8), x.view(mx.uint8))


@given(shape=st.lists(st.integers(0, 12), max_size=4))
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_shape(shape, device, draw):
    x = draw(tuple(shape), mx.float32)
    assert mx.array_equal(copy(x, backend=device), x)


def test_strided_input(device, draw):
    x = draw((6, 5, 4), mx.float32).transpose(2, 0, 1)[::-1, ::2]
    assert mx.array_equal(copy(x, backend=device), x)


def test_memory_is_accessed_once(simulator, draw):
    x = draw((33, 31), mx.float32)
    mx.eval(copy(x))
    (launch,) = simulator.launches
    assert launch.device_bytes == 2 * x.nbytes


def test_the_signature_that_the_comment_shows():
    """A reader is told what MLX writes: it must be what MLX writes."""
    source = memcpy._MEMCPY.generated_source(mx.zeros((12,)), mx.array(12, dtype=mx.int64))
    for line in (
        "const device float* source [[buffer(0)]],",
        "const constant int64_t& element_count [[buffer(1)]],",
        "device float* copied [[buffer(2)]],",
        "uint3 thread_position_in_grid [[thread_position_in_grid]],",
        "uint3 threads_per_grid [[threads_per_grid]]) {",
    ):
        assert line in source
    small = memcpy._MEMCPY.generated_source(mx.zeros((7,)), mx.array(7, dtype=mx.int64))
    assert "const constant float* source [[buffer(0)]]," in small


def test_gradient(device, draw):
    x, cotangent = draw((5, 3), mx.float32), draw((5, 3), mx.float32)
    (copied,), (gradient,) = mx.vjp(lambda x: copy(x, backend=device), [x], [cotangent])
    assert mx.array_equal(copied, x)
    assert mx.array_equal(gradient, cotangent)
    squares = mx.grad(mx.grad(lambda v: mx.square(copy(v, backend=device)).sum()))
    assert squares(mx.array(3.0)).item() == 2


def test_compile(device, draw):
    x = draw((40,), mx.float32)
    assert mx.array_equal(mx.compile(lambda v: copy(v, backend=device))(x), x)


def test_vmap_and_jvp(draw):
    x, tangent = draw((4, 5), mx.float32), draw((4, 5), mx.float32)
    assert mx.array_equal(mx.vmap(lambda v: copy(v, backend="native"))(x), x)
    _, (pushed,) = mx.jvp(lambda v: copy(v, backend="native"), [x], [tangent])
    assert mx.array_equal(pushed, tangent)


@pytest.mark.parametrize("dtype", [mx.complex64, mx.float64], ids=str)
def test_rejects_other_dtypes(dtype):
    with pytest.raises(TypeError, match="copy: x must be bool, integer, or a float of 32 or 16"):
        copy(mx.zeros((3,), dtype=dtype))


def test_rejects_what_is_no_array():
    with pytest.raises(TypeError, match=r"copy: x must be an mlx\.core\.array, got list"):
        copy([1.0])


def test_rejects_unknown_backends():
    with pytest.raises(ValueError, match="unknown backend 'cuda'"):
        copy(mx.ones((3,)), backend="cuda")
