"""The chunked mLSTM: checks, and an operation whose gradient is the backward pass."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.arguments import host_integer, require_mask
from xlstm_kernels.differentiation import Arrays, Gradient, Operation, gradient_of, on_backend
from xlstm_kernels.mlstm import choice
from xlstm_kernels.mlstm.arguments import (
    States,
    initial_states,
    require_sequence,
    zero_states,
)
from xlstm_kernels.mlstm.chunked.passes import Call, Kept, backward_pass, forward_pass
from xlstm_kernels.packing import reset_gates
from xlstm_kernels.products import Precision

Result = mx.array | tuple[mx.array, States]


@dataclass(frozen=True, slots=True)
class Form:
    """The settings that do not depend on arrays.

    Attributes:
        chunk_size: steps of a chunk, None to choose.
        eps: added to the normaliser.
        sigmoid_input: the input gate is a sigmoid, and nothing is stabilised.
        normalize: whether h is divided by the normaliser.
        normalizer_grad: whether gradients flow through the normaliser.
        precision: of the products of matrices.
        isolated: what is not finite reaches no other sequence, and no earlier step.
    """

    chunk_size: int | None
    eps: float
    sigmoid_input: bool = False
    normalize: bool = True
    normalizer_grad: bool = True
    precision: Precision = Precision.DEFAULT
    isolated: bool = False

    def chosen(self, q: mx.array, v: mx.array, backend: str) -> Form:
        """The same with a chunk size, from the table if the caller gave none."""
        if self.chunk_size is not None:
            return self
        row = choice.chosen(q, v, backend, form=choice.CHUNKWISE)
        return replace(self, chunk_size=row.chunk_size)


def run(
    operator: str,
    form: Form,
    inputs: tuple[mx.array, mx.array, mx.array, mx.array, mx.array],
    given: tuple[mx.array | None, mx.array | None, mx.array | None],
    return_last_states: bool,
    mask: mx.array | None,
    seq_idx: mx.array | None,
    backend: str | None,
) -> Result:
    """Check the arguments that all chunked forms share, and compute.

    Args:
        operator: names itself in messages.
        form: what is fixed before arrays come in.
        inputs: q, k, v, i and f.
        given: the initial c, n and m.
        return_last_states: whether to return the last states as well.
        mask: (B, S) booleans, or None.
        seq_idx: (B, S) integers, or None.
        backend: as a caller gave it.
    """
    require_sequence(operator, *inputs)
    q, k, v, i, f = inputs
    states = initial_states(operator, q, v, given)
    require_mask(operator, mask, (q.shape[0], q.shape[2]), "(B, S)")
    f = reset_gates(operator, f, seq_idx, mask)
    resolved = executors.resolve(backend)
    if not q.shape[2]:
        h, last = mx.zeros(v.shape, dtype=v.dtype), states or zero_states(q, v)
    else:
        form = replace(form.chosen(q, v, resolved), isolated=seq_idx is not None)
        operation = _operation(form, resolved, states is not None, mask is not None)
        masks = () if mask is None else (mask,)
        h, c, n, m, *_ = operation(q, k, v, i, f, *(states or ()), *masks)
        last = States(c, n, m)
    return (h, last) if return_last_states else h


def require_chunk_size(operator: str, chunk_size: int | None) -> int | None:
    """Return a chunk size of at least 1, or None.

    Raises:
        TypeError: for anything else that is not an integer.
        ValueError: for one below 1.
    """
    return None if chunk_size is None else host_integer(operator, "chunk_size", chunk_size, least=1)


def require_precision(operator: str, precision: str) -> Precision:
    """Return the precision of that name.

    Raises:
        ValueError: for an unknown name.
    """
    try:
        return Precision(precision)
    except ValueError:
        names = ", ".join(repr(each.value) for each in Precision)
        raise ValueError(
            f"{operator}: precision must be one of {names}, got {precision!r}"
        ) from None


def sequence_gradient(form: Form, backend: str, *, carried: bool, masked: bool) -> Gradient:
    """The gradient, by chunks, of any (q, k, v, i, f[, c, n, m][, mask]) -> (h, c, n, m)."""

    def gradient(primals: Arrays, cotangents: Arrays) -> Arrays:
        chosen = form.chosen(primals[0], primals[2], backend)
        operation = _operation(chosen, backend, carried, masked)
        masks = primals[-1:] if masked else ()
        differentiated = list(primals[:-1] if masked else primals)
        _, gradients = mx.vjp(
            lambda *arrays: operation(*arrays, *masks)[:_RESULTS], differentiated, [*cotangents]
        )
        return (*gradients, *map(mx.zeros_like, masks))

    return gradient


@functools.cache
def _operation(form: Form, backend: str, carried: bool, masked: bool) -> Operation:
    """The differentiable (q, k, v, i, f[, c, n, m][, mask]) -> (h, c, n, m, what is kept)."""
    operator = "mlstm_siging_chunkwise" if form.sigmoid_input else "mlstm_chunkwise"
    count = 5 + 3 * carried + masked

    def called(executor: str, arrays: Arrays) -> Call:
        return Call.of(arrays, form, executor, carried=carried, masked=masked)

    def forward(executor: str, *arrays: mx.array) -> Arrays:
        results, kept = forward_pass(called(executor, arrays))
        rest = (*kept[1:-1], *kept.gates)
        small = sum(array.nbytes for array in rest) <= _KEPT_BYTES
        return *results, kept.sums, *(rest if small or backend == executors.NATIVE else ())

    def gradient(executor: str, *arrays: mx.array) -> Arrays:
        h, c, n, _, sums, *rest = arrays[count + _RESULTS :]
        kept = Kept(sums, rest[0], rest[1], rest[2], tuple(rest[3:])) if rest else None
        cotangents = arrays[count : count + _RESULTS]
        return backward_pass(called(executor, arrays[:count]), cotangents, (h, c, n, sums), kept)

    def formed_again(*arrays: mx.array) -> Arrays:
        call = called(executors.NATIVE, arrays[:count])
        (h, c, n, _), kept = forward_pass(call)
        return backward_pass(call, arrays[count:], (h, c, n, kept.sums), kept)

    def second(arrays: Arrays, cotangents: Arrays) -> Arrays:
        # What the first pass gave depends on its inputs: its share is in their gradients.
        given, results = arrays[: count + _RESULTS], arrays[count + _RESULTS :]
        return (
            *gradient_of(formed_again)(given, cotangents),
            *(mx.zeros_like(result) for result in results),
        )

    def operation(function: Operation, rule: Gradient, *, of_outputs: bool) -> Operation:
        launch = functools.partial(function, backend)
        native = functools.partial(function, executors.NATIVE)
        return on_backend(backend, launch, native, rule, operator=operator, of_outputs=of_outputs)

    chosen = operation(gradient, second, of_outputs=False)

    def pull_back(primals: Arrays, cotangents: Arrays, outputs: Arrays) -> Arrays:
        gradients: Arrays = chosen(*primals, *cotangents[:_RESULTS], *outputs)
        return gradients

    return operation(forward, pull_back, of_outputs=True)


_RESULTS = 4  # h, c, n and m; nothing that is kept has a cotangent
_KEPT_BYTES = 2**26  # kernels form more than that again: memory matters, and reading takes long too
