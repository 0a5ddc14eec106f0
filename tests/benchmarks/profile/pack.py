"""Kernels of the pack, each as an operator launches it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import mlx.core as mx
import numpy as np

import xlstm_kernels as pack
from tests.benchmarks.profile.case import Case, launch_of, random_array
from xlstm_kernels import DoubleFloat, linalg

F, H, B = mx.float32, mx.float16, mx.bfloat16


def one(name: str, kernel: str, call: Callable[[], object], nth: int = 0) -> Case:
    """A case of the nth launch of a kernel in a call."""
    return Case(name, "pack", partial(launch_of, call, f"xlstm_{kernel}", nth))


def gradient(function: Callable[..., mx.array], *arrays: mx.array) -> Callable[[], object]:
    """Return a call of the gradient of a function in all arrays."""

    def call() -> object:
        outputs = [random_array(function(*arrays).shape, function(*arrays).dtype)]
        return mx.vjp(lambda *a: [function(*a)], list(arrays), outputs)

    return call


def pack_cases() -> Iterator[Case]:
    yield from _rows()
    yield from _recurrences()
    yield from _others()


def _rows() -> Iterator[Case]:
    for rows in (1, 256, 4096):
        x = partial(random_array, (rows, 4096), B)
        yield one(f"soft_cap_{rows}", "soft_cap", lambda x=x: pack.soft_cap(x(), 15.0))
        weight = partial(random_array, (4096,), F)
        yield one(
            f"rms_norm_{rows}", "rms_norm_weighted", lambda x=x, w=weight: pack.rms_norm(x(), w())
        )
    x, weight = random_array((1024, 4096), B), random_array((4096,), F)
    yield one("rms_norm_gradient", "rms_norm_gradient_weighted", gradient(pack.rms_norm, x, weight))
    yield one(
        "soft_cap_gradient", "soft_cap_gradient", gradient(lambda x: pack.soft_cap(x, 15.0), x)
    )
    heads = random_array((1, 1024, 8, 512), B)
    flat = random_array((4096,), B)
    yield one(
        "multi_head_layer_norm",
        "layer_norm_weighted",
        lambda: pack.multi_head_layer_norm(heads, flat),
    )
    for steps in (64, 4096):
        y = random_array((1, steps, 1024), B)
        yield one(
            f"causal_conv1d_{steps}",
            "causal_conv1d_silu",
            lambda y=y: pack.causal_conv1d(y, random_array((1024, 4), B), activation="silu"),
        )


def _mlstm(batch: int, heads: int, steps: int, keys: int, values: int) -> list[mx.array]:
    shapes = [(batch, heads, steps, width) for width in (keys, keys, values)]
    shapes += [(batch, heads, steps)] * 2
    return [random_array(shape, F, place) for place, shape in enumerate(shapes)]


def _recurrences() -> Iterator[Case]:
    key, value, gate = (8, 8, 256), (8, 8, 512), (8, 8)
    states = ((*key, 512), key, (*gate, 1))
    arrays = [random_array(s, B, n) for n, s in enumerate((key, key, value, gate, gate))]
    arrays += [random_array(s, F, n) for n, s in enumerate(states)]
    yield one("mlstm_step", "mlstm_step", lambda: pack.mlstm_step(*arrays))
    small = [a[:1, :1] for a in arrays]
    yield one("mlstm_step_small", "mlstm_step", lambda: pack.mlstm_step(*small))
    for name, sizes in (
        ("mlstm_sequence", (1, 4, 128, 128, 128)),
        ("mlstm_sequence_many", (4, 8, 128, 128, 128)),
    ):
        drawn = _mlstm(*sizes)
        yield one(name, "mlstm_sequence", lambda d=drawn: pack.mlstm_sequence(*d))
    drawn = _mlstm(1, 8, 1024, 128, 256)
    for kernel in ("gates", "chunk_rows", "state_scan", "weighted_keys"):
        yield one(
            f"mlstm_chunkwise_{kernel}", f"mlstm_{kernel}", lambda: pack.mlstm_chunkwise(*drawn)
        )
    for units, steps in ((64, 64), (256, 32)):
        wx = random_array((4, steps, 4, 4, units), F)
        r, b = random_array((4, 4, units, units), F, 1), random_array((4, 4, units), F, 2)
        yield one(f"slstm_{units}", "slstm", lambda wx=wx, r=r, b=b: pack.slstm(wx, r * 0.05, b))


def _others() -> Iterator[Case]:
    generator = np.random.default_rng(0)
    for rows, outputs, inner, bits in ((1, 4096, 4096, 4), (4, 4096, 4096, 8), (1, 512, 1024, 4)):
        w = mx.array(generator.integers(0, 2**32, (outputs, inner * bits // 32), dtype=np.uint32))
        scales = random_array((outputs, inner // 64), H)
        yield one(
            f"quantized_matvec_{rows}x{outputs}x{inner}_{bits}",
            "quantized_matvec",
            lambda w=w, s=scales, r=rows, i=inner, b=bits: pack.quantized_matvec(
                random_array((r, i), H), w, s, s, group_size=64, bits=b
            ),
        )
    z = random_array((2048, 2048, 2), F)
    yield one("complex_multiply", "complex_multiply", lambda: pack.complex_multiply(z, z))
    a = DoubleFloat(random_array((2**21,), F), mx.zeros((2**21,)))
    for name in ("add", "multiply", "divide"):
        operation = {"add": lambda: a + a, "multiply": lambda: a * a, "divide": lambda: a / a}[name]
        yield one(f"double_{name}", f"double_{name}", operation)
    m = DoubleFloat(random_array((256, 256), F), mx.zeros((256, 256)))
    yield one("double_matmul", "double_matmul", lambda: m @ m)
    for count, size in ((1024, 16), (64, 64), (8, 128)):
        g = generator.standard_normal((count, size, size)).astype(np.float32)
        spd = mx.array(g @ g.swapaxes(-1, -2) / size + np.eye(size, dtype=np.float32))
        yield one(f"cholesky_{count}x{size}", "cholesky", lambda spd=spd: linalg.cholesky(spd))
        rhs = random_array((count, size, 8), F)
        yield one(
            f"solve_triangular_{count}x{size}",
            "solve_triangular",
            lambda spd=spd, rhs=rhs: linalg.solve_triangular(spd, rhs),
        )
