"""Calls of every operator of the pack, with what they give by definition, in float64.

Definitions are those of the tests, in NumPy; of two operators, whose gradient no test writes out,
they are MLX operations in float64 on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import starmap

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

import xlstm_kernels as pack
from tests.benchmarks.gpu.case import Case, normal
from tests.benchmarks.gpu.complex_cases import complex_cases
from tests.benchmarks.gpu.double_float_cases import double_float_cases
from tests.benchmarks.gpu.quantized_cases import quantized_cases
from tests.benchmarks.gpu.slstm_cases import slstm_cases
from tests.xlstm_kernels.conv import oracle as conv
from tests.xlstm_kernels.mlstm import gradient_oracle as mlstm_gradient
from tests.xlstm_kernels.mlstm import oracle as mlstm
from tests.xlstm_kernels.norm import oracle as norm
from xlstm_kernels.mlstm.naive import mlstm_naive

Numbers = NDArray[np.float64]

#: Steps of the mLSTM whose normaliser's terms cancel more than so many times are not judged: no
#: arithmetic in float32 keeps the digits of such a sum.
MILD = 30.0


def sequence(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], Sequence[Numbers]]:
    """Inputs of an mLSTM that remembers: forget gates of 0.95."""

    def draw(generator: np.random.Generator) -> Sequence[Numbers]:
        arrays = list(normal(*shapes)(generator))
        arrays[4] = arrays[4] + 3.0
        return arrays

    return draw


def mlstm_cases(operator: Callable, name: str, **options: object) -> Iterator[Case]:
    """Forms of the mLSTM on a sequence: B, NH, S, DK, DV."""
    for batch, heads, steps, keys, values in ((1, 8, 257, 64, 64), (2, 4, 130, 128, 256)):
        gate = (batch, heads, steps)
        inputs = ((*gate, keys), (*gate, keys), (*gate, values), gate, gate)
        states = ((batch, heads, keys, values), (batch, heads, keys), (batch, heads, 1))
        shape = f"{name} {batch}x{heads}x{steps}x{keys}x{values}"
        mask = np.arange(steps) % 7 != np.arange(batch)[:, None]
        yield Case(
            shape,
            partial(_outputs, operator, options, None),
            sequence(*inputs),
            lambda *arrays: [mlstm.mlstm(*arrays).h],
            _mlstm_gradients,
            judged=partial(_mild, None),
        )
        for masked in (None, mask):
            yield Case(
                f"{shape}, states{'' if masked is None else ', mask'}",
                partial(_outputs, operator, {**options, "return_last_states": True}, masked),
                sequence(*inputs, *states),
                partial(_mlstm_values, masked),
                partial(_mlstm_gradients, mask=masked),
                states=3,
                judged=partial(_mild, masked),
            )


def mlstm_step_case(batch: int, heads: int, keys: int, values_of: int) -> Case:
    def call(*arrays: mx.array, backend: str) -> list[mx.array]:
        h, states = pack.mlstm_step(*arrays, backend=backend)
        return [h, *states]

    def stepwise(arrays: Sequence[Numbers]) -> list[Numbers]:
        return [*(array[:, :, None] for array in arrays[:5]), *arrays[5:]]

    def values(*arrays: Numbers) -> list[Numbers]:
        h, *states = _mlstm_values(None, *stepwise(arrays))
        return [h[:, :, 0], *states]

    def gradients(arrays: Sequence[Numbers], cotangents: Sequence[Numbers]) -> list[Numbers]:
        pulled = [cotangents[0][:, :, None], *cotangents[1:]]
        found = _mlstm_gradients(stepwise(arrays), pulled)
        return [*(array[:, :, 0] for array in found[:5]), *found[5:]]

    key, value, gate = (batch, heads, keys), (batch, heads, values_of), (batch, heads)
    states = ((*key, values_of), key, (*gate, 1))
    drawn = normal(key, key, value, gate, gate, *states)
    name = f"mlstm_step {batch}x{heads}x{keys}x{values_of}"
    return Case(name, call, drawn, values, gradients, states=3)


def _outputs(
    operator: Callable,
    options: dict[str, object],
    mask: NDArray[np.bool_] | None,
    *arrays: mx.array,
    backend: str,
) -> list[mx.array]:
    masked = None if mask is None else mx.array(mask)
    found = operator(*arrays, mask=masked, backend=backend, **options)
    if not options.get("return_last_states"):
        return [found]
    h, states = found
    return [h, *states]


def _mild(mask: NDArray[np.bool_] | None, *arrays: Numbers) -> Numbers:
    states = (*arrays[5:7], arrays[7][..., 0]) if arrays[5:] else None
    result = mlstm.mlstm(*arrays[:5], states, mask=mask)
    return (result.cancellation < MILD)[..., None].astype(np.float64)


def _mlstm_values(mask: NDArray[np.bool_] | None, *arrays: Numbers) -> list[Numbers]:
    *inputs, c, n, m = arrays
    result = mlstm.mlstm(*inputs, (c, n, m[..., 0]), mask=mask)
    return [result.h, result.c, result.n, result.m[..., None]]


def _mlstm_gradients(
    arrays: Sequence[Numbers], cotangents: Sequence[Numbers], mask: NDArray[np.bool_] | None = None
) -> list[Numbers]:
    q, v = arrays[0], arrays[2]
    states = arrays[5:] or (
        np.zeros((*q.shape[:2], q.shape[3], v.shape[3])),
        np.zeros((*q.shape[:2], q.shape[3])),
        np.zeros((*q.shape[:2], 1)),
    )
    dh, dc, dn, dm = cotangents if arrays[5:] else (*cotangents, *(0 * state for state in states))
    *others, in_m = mlstm_gradient.gradients(
        *arrays[:5], (*states[:2], states[2][..., 0]), (dh, dc, dn, dm[..., 0]), mask=mask
    )
    return [*others, in_m[..., None]][: len(arrays)]


def siging_cases() -> Iterator[Case]:
    gate = (2, 2, 150)
    inputs = ((*gate, 64), (*gate, 64), (*gate, 96), gate, gate)
    states = ((2, 2, 64, 96), (2, 2, 64))
    mask = np.arange(150) % 7 != np.arange(2)[:, None]
    for normalize in (True, False):
        for masked in (None, mask):
            define = partial(_siging, masked, normalize)
            options = {"return_last_states": True, "normalize": normalize}
            yield Case(
                f"mlstm_siging_chunkwise{'' if normalize else ', raw'}"
                f"{'' if masked is None else ', mask'}",
                partial(_outputs, pack.mlstm_siging_chunkwise, options, masked),
                sequence(*inputs, *states),
                partial(_in_float64, define),
                partial(_pulled_in_float64, define),
                states=2,
            )


def _siging(mask: NDArray[np.bool_] | None, normalize: bool, *arrays: mx.array) -> list[mx.array]:
    masked = None if mask is None else mx.array(mask)
    h, states = mlstm_naive(*arrays, sigmoid_input=True, normalize=normalize, mask=masked)
    return [h, *states]


def _soft_cap(values: mx.array) -> list[mx.array]:
    return [3.0 * mx.tanh(values / 3.0)]


def _in_float64(define: Callable, *arrays: Numbers) -> list[Numbers]:
    with mx.stream(mx.cpu):
        found = define(*(mx.array(array, dtype=mx.float64) for array in arrays))
        return [np.array(array) for array in found]


def _pulled_in_float64(
    define: Callable, arrays: Sequence[Numbers], cotangents: Sequence[Numbers]
) -> list[Numbers]:
    with mx.stream(mx.cpu):
        given, pulled = (
            [mx.array(array, dtype=mx.float64) for array in group] for group in (arrays, cotangents)
        )
        _, found = mx.vjp(define, given, pulled)
        mx.eval(found)
        return [np.array(array) for array in found]


def convolution_cases() -> Iterator[Case]:
    yield from _convolution_cases(2, 75, 70)
    yield from _convolution_cases(4, 1100, 128)  # a thread takes several channels
    yield _packed_convolution_case()
    yield _update_case()
    for steps, taps in ((1, 1), (1000, 37), (4097, 4097)):
        yield _long_convolution_case(steps, taps)


def _convolution_cases(batch: int, steps: int, channels: int) -> Iterator[Case]:
    x, weight, bias = (batch, steps, channels), (channels, 4), (channels,)
    states = (batch, 3, channels)
    for activation in (None, "silu"):
        suffix = f" {steps}" + ", silu" * bool(activation)

        def call(*arrays: mx.array, backend: str, act: str | None = activation) -> list[mx.array]:
            return [pack.causal_conv1d(*arrays, activation=act, backend=backend)]

        def call_with_states(
            *arrays: mx.array, backend: str, act: str | None = activation
        ) -> Sequence[mx.array]:
            return pack.causal_conv1d(*arrays, True, act, backend=backend)

        def gradients(
            arrays: Sequence[Numbers], cotangents: Sequence[Numbers], act: str | None = activation
        ) -> list[Numbers]:
            given = [*arrays, None, None][:4]
            pulled = cotangents if arrays[3:] else (*cotangents, np.zeros(states))
            return conv.causal_gradients(*given, act, pulled)[: len(arrays)]

        def values(*arrays: Numbers, act: str | None = activation) -> list[Numbers]:
            found = conv.causal(*[*arrays, None, None][:4], act)
            return list(found) if arrays[3:] else [found[0]]

        yield Case(f"causal_conv1d{suffix}", call, normal(x, weight), values, gradients)
        drawn = normal(x, weight, bias, states)
        yield Case(
            f"causal_conv1d{suffix}, bias, states", call_with_states, drawn, values, gradients
        )


def _packed_convolution_case() -> Case:
    """Sequences that end anywhere, and padding, whose number is negative."""
    x, weight, bias, states = (4, 1100, 128), (128, 4), (128,), (4, 3, 128)
    step, row = np.arange(1100), np.arange(4)[:, None]
    seq_idx = np.where(step % 71 > 66, -1, (step + row) // 29)

    def call(*arrays: mx.array, backend: str) -> list[mx.array]:
        numbers = mx.array(seq_idx.astype(np.int32))
        y = pack.causal_conv1d(*arrays, activation="silu", seq_idx=numbers, backend=backend)
        return [y]

    def values(*arrays: Numbers) -> list[Numbers]:
        return [conv.causal(*arrays, None, "silu", seq_idx)[0]]

    def gradients(arrays: Sequence[Numbers], cotangents: Sequence[Numbers]) -> list[Numbers]:
        pulled = (*cotangents, np.zeros(states))
        return conv.causal_gradients(*arrays, None, "silu", pulled, seq_idx)[:3]

    return Case("causal_conv1d, packed", call, normal(x, weight, bias), values, gradients)


def _long_convolution_case(steps: int, taps: int) -> Case:
    def call(*arrays: mx.array, backend: str) -> list[mx.array]:
        with pack.default_backend(backend):  # MLX operations on all of them
            return [pack.fft_conv(*arrays)]

    def gradients(arrays: Sequence[Numbers], cotangents: Sequence[Numbers]) -> list[Numbers]:
        return conv.long_causal_gradients(*arrays, *cotangents)

    drawn = normal((2, steps, 6), (6, taps), (6,))
    name = f"fft_conv {steps}, {taps} taps"
    return Case(name, call, drawn, lambda *arrays: [conv.long_causal(*arrays)], gradients)


def _update_case() -> Case:
    """The order of its arguments is that of Dao's."""

    def call(*arrays: mx.array, backend: str) -> Sequence[mx.array]:
        x, state, *others = arrays
        return pack.causal_conv1d_update(x, state, *others, "silu", backend=backend)

    def values(*arrays: Numbers) -> list[Numbers]:
        x, state, *others = arrays
        y, last = conv.causal(x[:, None], *others, state, "silu")
        return [y[:, 0], last]

    def gradients(arrays: Sequence[Numbers], cotangents: Sequence[Numbers]) -> list[Numbers]:
        x, state, *others = arrays
        pulled = cotangents[0][:, None], cotangents[1]
        in_x, *rest = conv.causal_gradients(x[:, None], *others, state, "silu", pulled)
        return [in_x[:, 0], rest[2], *rest[:2]]

    drawn = normal((5, 70), (5, 3, 70), (70, 4), (70,))
    return Case("causal_conv1d_update, silu", call, drawn, values, gradients)


def norm_cases() -> Iterator[Case]:
    for columns in (64, 1000):
        flat = (2 * columns,)
        for kind, operator in (
            ("layer", pack.multi_head_layer_norm),
            ("rms", pack.multi_head_rms_norm),
        ):
            for names in ((), ("weight",), ("weight", "bias", "gate")):
                shapes = [(3, 50, *flat) if name == "gate" else flat for name in names]
                yield Case(
                    ", ".join([f"multi_head_{kind}_norm {columns}", *names]),
                    partial(_norm, operator, names),
                    normal((3, 50, 2, columns), *shapes),
                    partial(_norm_values, kind, names),
                    partial(_norm_gradients, kind, names),
                )
    for columns in (5, 512, 5000):
        for names in ((), ("weight",)):
            yield Case(
                ", ".join([f"rms_norm {columns}", *names]),
                partial(_norm, pack.rms_norm, names),
                normal((70, columns), *[(columns,)] * len(names)),
                partial(_norm_values, "rms", names),
                partial(_norm_gradients, "rms", names),
            )


def _norm(
    operator: Callable, names: Sequence[str], x: mx.array, *others: mx.array, backend: str
) -> list[mx.array]:
    named = dict(zip(names, others, strict=True))
    return [operator(x, eps=norm.EPS, backend=backend, **named)]


def _norm_values(kind: str, names: Sequence[str], x: Numbers, *others: Numbers) -> list[Numbers]:
    heads = x if x.ndim == 4 else x[None, :, None]
    found = norm.oracle(heads, kind, **dict(zip(names, others, strict=True)))
    return [found if x.ndim == 4 else found[0]]


def _norm_gradients(
    kind: str, names: Sequence[str], arrays: Sequence[Numbers], cotangents: Sequence[Numbers]
) -> list[Numbers]:
    x, *others = arrays
    (pulled,) = cotangents
    heads = x if x.ndim == 4 else x[None, :, None]
    pulled = pulled if x.ndim == 4 else pulled[None]
    found = norm.gradients(heads, kind, pulled, **dict(zip(names, others, strict=True)))
    return [found["x"].reshape(x.shape), *(found[name] for name in names)]


def elementwise_cases() -> Iterator[Case]:
    for shape in ((7,), (33, 129), (2**11, 2**11 + 1)):
        yield Case(
            f"soft_cap {shape}",
            lambda values, backend: [pack.soft_cap(values, 3.0, backend=backend)],
            normal(shape),
            partial(_in_float64, _soft_cap),
            partial(_pulled_in_float64, _soft_cap),
        )


#: By group: what is checked in one process.
GROUPS: dict[str, Callable[[], Iterator[Case]]] = {
    "mlstm_chunkwise": partial(mlstm_cases, pack.mlstm_chunkwise, "mlstm_chunkwise"),
    "mlstm_sequence": partial(mlstm_cases, pack.mlstm_sequence, "mlstm_sequence"),
    "mlstm_siging": siging_cases,
    # The second one is so big that a thread takes several columns.
    "mlstm_step": lambda: starmap(mlstm_step_case, [(3, 4, 64, 96), (8, 16, 40, 256)]),
    "slstm": slstm_cases,
    "convolutions": convolution_cases,
    "norms": norm_cases,
    "elementwise": elementwise_cases,
    "double_float": double_float_cases,
    "quantized": quantized_cases,
    "complex": complex_cases,
}
