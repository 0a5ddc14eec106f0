"""The calls that are timed: each operator of the pack at several sizes, and its comparisons."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import prod

import mlx.core as mx

import xlstm_kernels as pack
from tests.benchmarks.gpu import plain, wide
from tests.benchmarks.gpu.figures import COMPILED, FAST
from tests.benchmarks.gpu.program import Program, Shape, Shapes
from xlstm_kernels.conv.causal_conv1d import causal_conv1d_reference
from xlstm_kernels.recurrent.slstm.naive import slstm_step_naive

CAP = 15.0
#: Steps of a chunk of the comparison in MLX operations, and how many chunks there are at least.
PLAIN_CHUNK = 64
PLAIN_CHUNKS = 32


@dataclass(frozen=True, slots=True)
class Sizes:
    """Shapes by group: mLSTM (B, NH, S, DK, DV), steps without S, sLSTM (B, T, N, D).

    Products with quantized matrices (M, N, K): M rows of K, a matrix (N, K).
    """

    mlstm: Shapes
    sequence: Shapes
    steps: Shapes
    slstm: Shapes
    rows: Shapes
    heads: Shapes
    convolutions: Shapes
    updates: Shapes
    quantized: Shapes
    long_convolutions: Shapes


SIZES = {
    "large": Sizes(
        mlstm=(
            (8, 8, 8192, 256, 512),
            (1, 8, 8192, 256, 512),
            (8, 16, 1024, 64, 64),
            (1, 4, 4096, 256, 256),
        ),
        sequence=((8, 16, 1024, 64, 64),),
        steps=((8, 8, 256, 512), (1, 8, 256, 512)),
        slstm=((16, 512, 8, 64), (8, 1024, 4, 128), (8, 1024, 4, 256)),
        rows=((256, 4096), (2048, 4096), (32768, 4096)),
        heads=((1, 256, 8, 512), (1, 32768, 8, 512)),
        convolutions=((1, 1024, 1024), (8, 1024, 1024), (8, 4096, 4096)),
        updates=((256, 4096),),
        quantized=((1, 4096, 4096), (8, 4096, 4096), (1, 16384, 4096), (8, 16384, 4096)),
        long_convolutions=((8, 1025, 1024), (1, 8192, 1024), (1, 32768, 256)),
    ),
    "medium": Sizes(
        mlstm=((1, 8, 2048, 128, 256), (4, 8, 1024, 64, 64)),
        sequence=((1, 8, 512, 64, 64),),
        steps=((1, 8, 256, 512),),
        slstm=((8, 256, 4, 64), (4, 256, 4, 128)),
        rows=((256, 4096), (4096, 4096)),
        heads=((1, 256, 8, 512), (1, 4096, 8, 512)),
        convolutions=((1, 1024, 1024), (4, 2048, 2048)),
        updates=((64, 4096),),
        quantized=((1, 4096, 4096), (8, 4096, 4096)),
        long_convolutions=((1, 1025, 1024), (1, 8192, 256)),
    ),
    "tiny": Sizes(
        mlstm=((1, 2, 256, 16, 16),),
        sequence=((1, 1, 128, 16, 16),),
        steps=((2, 2, 16, 32),),
        slstm=((2, 8, 2, 16),),
        rows=((16, 256),),
        heads=((1, 16, 2, 64),),
        convolutions=((1, 32, 64),),
        updates=((4, 64),),
        quantized=((2, 16, 64),),
        long_convolutions=((1, 40, 8),),
    ),
}


def chunkwise(sizes: Sizes) -> Iterator[Program]:
    for shape in sizes.mlstm:
        default = _mlstm("mlstm_chunkwise", shape, pack.mlstm_chunkwise)
        yield default
        yield replace(
            default,
            operator='mlstm_chunkwise, precision="high"',
            ours=partial(pack.mlstm_chunkwise, precision="high"),
            others={},
            like=default.operator,
        )


def sequence(sizes: Sizes) -> Iterator[Program]:
    for shape in sizes.sequence:
        yield _mlstm("mlstm_sequence", shape, pack.mlstm_sequence)


def siging(sizes: Sizes) -> Iterator[Program]:
    for shape in sizes.mlstm[1:] or sizes.mlstm:
        yield _mlstm("mlstm_siging_chunkwise", shape, pack.mlstm_siging_chunkwise, False)


def _mlstm(
    name: str, shape: Shape, operator: Callable[..., object], exponential: bool = True
) -> Program:
    *gate, keys, values = shape
    key, value = (*gate, keys), (*gate, values)
    gates: Shape = tuple(gate)
    length = max(PLAIN_CHUNK, shape[2] // PLAIN_CHUNKS)
    others = partial(plain.chunkwise, length=length, exponential=exponential)
    return Program(
        name,
        shape,
        operator,
        ((key, None), (key, None), (value, None), (gates, mx.float32), (gates, mx.float32)),
        (value, None),
        {COMPILED: others},
        compiled=False,  # hundreds of operations: each chunk is compiled
        forget=4,
    )


def steps(sizes: Sizes) -> Iterator[Program]:
    for shape in sizes.steps:
        batch, heads, keys, values = shape
        gate, key, value = (batch, heads), (batch, heads, keys), (batch, heads, values)
        inputs = tuple((one, None) for one in (key, key, value, gate, gate))
        states = tuple((one, mx.float32) for one in (shape, key, gate))
        yield Program(
            "mlstm_step",
            shape,
            pack.mlstm_step,
            (*inputs, *states),
            None,
            {COMPILED: plain.step},
            moved=0,
            moved_states=2 * prod(shape),
            forget=4,
        )


def slstm(sizes: Sizes) -> Iterator[Program]:
    def ours(wx: mx.array, r: mx.array, b: mx.array, backend: str) -> mx.array:
        return pack.slstm(wx, r * r.shape[-1] ** -0.5, b, backend=backend)[0][0]

    step = mx.compile(slstm_step_naive)

    def theirs(wx: mx.array, r: mx.array, b: mx.array) -> mx.array:
        batch, steps, gates, heads, units = wx.shape
        wx, r, b = (array.astype(mx.float32) for array in (wx, r * units**-0.5, b))
        states, outputs = mx.zeros((gates, batch, heads, units)), []
        for at in range(steps):
            states = step(wx[:, at], r, b, states)
            outputs.append(states[0])
        return mx.stack(outputs, axis=1)

    for shape in sizes.slstm:
        batch, length, heads, units = shape
        drawn = ((batch, length, 4, heads, units), (4, heads, units, units), (4, heads, units))
        yield Program(
            "slstm",
            shape,
            ours,
            tuple((one, None) for one in drawn),
            (shape, mx.float32),
            {COMPILED: theirs},
            compiled=False,  # thousands of operations: each step is compiled
        )


def norms(sizes: Sizes) -> Iterator[Program]:
    for shape in sizes.rows:
        yield _memory_bound(
            "rms_norm",
            shape,
            pack.rms_norm,
            (shape, shape[-1:]),
            {COMPILED: plain.rms_norm, FAST: partial(mx.fast.rms_norm, eps=plain.EPS)},
        )
    for shape in sizes.heads:
        flat = (*shape[:2], shape[2] * shape[3])
        for name, operator, fast, centered in (
            ("multi_head_layer_norm", pack.multi_head_layer_norm, _fast_layer_norm, True),
            ("multi_head_rms_norm", pack.multi_head_rms_norm, _fast_rms_norm, False),
        ):
            theirs = partial(plain.head_norm, centered=centered)
            contestants = {COMPILED: theirs, FAST: fast}
            yield _memory_bound(name, shape, operator, (shape, flat[-1:]), contestants, flat)

        def gated(x: mx.array, weight: mx.array, gate: mx.array, backend: str) -> mx.array:
            return pack.multi_head_layer_norm(x, weight, gate=gate, backend=backend)

        yield _memory_bound(
            "multi_head_layer_norm, gate",
            shape,
            gated,
            (shape, flat[-1:], flat),
            {COMPILED: partial(plain.head_norm, centered=True)},
            flat,
        )


def _fast_layer_norm(x: mx.array, weight: mx.array) -> mx.array:
    return mx.fast.layer_norm(x, None, None, plain.EPS).flatten(2) * weight


def _fast_rms_norm(x: mx.array, weight: mx.array) -> mx.array:
    return mx.fast.rms_norm(x, None, plain.EPS).flatten(2) * weight


def convolutions(sizes: Sizes) -> Iterator[Program]:
    def theirs(x: mx.array, weight: mx.array, bias: mx.array) -> mx.array:
        return causal_conv1d_reference(x, weight, bias, None, "silu")[0]

    for shape in sizes.convolutions:
        weights = (shape[2], 4), (shape[2],)
        yield _memory_bound(
            "causal_conv1d, silu",
            shape,
            partial(pack.causal_conv1d, activation="silu"),
            (shape, *weights),
            {COMPILED: theirs},
        )
    for shape in sizes.updates:
        batch, channels = shape
        drawn = (shape, (batch, 3, channels), (channels, 4))
        yield Program(
            "causal_conv1d_update, silu",
            shape,
            partial(pack.causal_conv1d_update, activation="silu"),
            tuple((one, None) for one in drawn),
            None,
            {COMPILED: partial(pack.causal_conv1d_update, activation="silu", backend="native")},
            moved=8 * batch * channels,
        )

    for shape in sizes.long_convolutions:
        weights = (shape[2], shape[1]), (shape[2],)
        yield _memory_bound(
            "fft_conv", shape, _fft_conv, (shape, *weights), {COMPILED: plain.fft_conv}
        )


def _fft_conv(*arrays: mx.array, backend: str) -> mx.array:
    """`backend` is not used: on all of them, the operator consists of MLX operations."""
    return pack.fft_conv(*arrays)


def elementwise(sizes: Sizes) -> Iterator[Program]:
    def ours(values: mx.array, backend: str) -> mx.array:
        return pack.soft_cap(values, CAP, backend=backend)

    for shape in sizes.rows:
        theirs = partial(plain.soft_cap, cap=CAP)
        yield _memory_bound("soft_cap", shape, ours, (shape,), {COMPILED: theirs})


def double_float(sizes: Sizes) -> Iterator[Program]:
    """Elements, one long row, and a Gram matrix of rows."""
    shape = sizes.rows[:2][-1]
    row, rows = (1, prod(shape)), sizes.rows[0]
    for name, shapes in (
        ("exp", (shape,)),
        ("multiply", (shape, shape)),
        ("sum", (row,)),
        ("vecdot", (row, row)),
        ("matmul", (rows, rows[::-1])),
    ):
        yield Program(
            f"DoubleFloat {name}",
            shapes[0],
            partial(wide.ours, name),
            tuple((one, mx.float32) for one in shapes for _ in range(2)),
            None,
            {"float64, CPU": partial(wide.float64, name), "float32": partial(wide.float32, name)},
            compiled=False,
            only="float32",
        )


def quantized(sizes: Sizes) -> Iterator[Program]:
    group_size = 64
    for (rows, outputs, inner), bits in product(sizes.quantized, (4, 8)):
        options = {"group_size": group_size, "bits": bits}
        words, groups = outputs * inner * bits // 32, (outputs, inner // group_size)
        yield Program(
            f"quantized_matvec, {bits} bits",
            (rows, outputs, inner),
            partial(pack.quantized_matvec, **options),
            (
                ((rows, inner), None),
                ((outputs, words // outputs), mx.uint32),
                (groups, None),
                (groups, None),
            ),
            None,
            {COMPILED: partial(mx.quantized_matmul, **options)},
            moved=rows * (inner + outputs) + 2 * prod(groups),
            moved_states=words,
        )


def complex_numbers(sizes: Sizes) -> Iterator[Program]:
    """Compared with MLX's products of complex64, which are made of the pairs and taken apart."""
    for rows, columns in sizes.rows:
        shape = rows, columns // 2, 2
        program = _memory_bound(
            "complex_multiply",
            shape,
            pack.complex_multiply,
            (shape,) * 2,
            {"complex64": plain.complex_multiply},
        )
        # MLX's CUDA cannot compile the fused gradient: it converts complex numbers to real ones.
        yield replace(program, compiled=False)


def _memory_bound(
    name: str,
    shape: Shape,
    operator: Callable[..., object],
    inputs: Shapes,
    others: dict[str, Callable[..., object]],
    output: Shape | None = None,
) -> Program:
    """Every big input is read once, and the output written once."""
    moved = sum(map(prod, inputs)) + prod(output or shape)
    drawn = tuple((one, None) for one in inputs)
    return Program(name, shape, operator, drawn, (output or shape, None), others, moved)


#: By group, the names that `--check` takes as well.
PROGRAMS: dict[str, Callable[[Sizes], Iterator[Program]]] = {
    "mlstm_chunkwise": chunkwise,
    "mlstm_sequence": sequence,
    "mlstm_siging": siging,
    "mlstm_step": steps,
    "slstm": slstm,
    "convolutions": convolutions,
    "norms": norms,
    "elementwise": elementwise,
    "double_float": double_float,
    "quantized": quantized,
    "complex": complex_numbers,
}
