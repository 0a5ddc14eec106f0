"""Both passes of the chunked mLSTM: the order of its products and kernels.

A chunk's steps are multiplied with each other as matrices, and so is what chunks add to the states
and read of them; kernels do what lies between: gates, weights, the recurrence over chunks.

    U = (weighted k)^T v                    what each chunk adds
    C = scan(U)                             the state before each chunk
    A, R = rows(q k^T, q, n)                normalised weights
    h = A v + R C

Backward, the states are computed again, the gradients in the states follow from the last chunk to
the first, and then, with A and E of `chunk_pairs`, W the weighted keys,

    dq = E k + weighted (dh C^T),   dk = E^T q + weighted (v dC^T),   dv = A^T dh + W dC

(Beck et al., "Tiled Flash Linear Attention", 2025, section 3; here with the gradient through the
normaliser, which other implementations take for a constant.) m counts as a constant: what it
changes is in `gate_gradients`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import mlx.core as mx

from xlstm_kernels import executors, products
from xlstm_kernels.mlstm import choice
from xlstm_kernels.mlstm.arguments import States, zero_states
from xlstm_kernels.mlstm.chunked.chunk_pairs import chunk_pairs
from xlstm_kernels.mlstm.chunked.chunk_rows import chunk_rows
from xlstm_kernels.mlstm.chunked.chunks import in_chunks, in_sequence, weights_from_start
from xlstm_kernels.mlstm.chunked.gate_gradients import Exponents, gate_gradients
from xlstm_kernels.mlstm.chunked.gates import LogGates, log_gates
from xlstm_kernels.mlstm.chunked.isolation import (
    isolated,
    isolated_cotangents,
    marked,
    replaced,
)
from xlstm_kernels.mlstm.chunked.normalizer import normalizer_gradients, row_dots
from xlstm_kernels.mlstm.chunked.state_reads import read_by_keys, read_by_queries
from xlstm_kernels.mlstm.chunked.state_scan import Scan, state_scan
from xlstm_kernels.mlstm.chunked.step_products import step_products
from xlstm_kernels.mlstm.chunked.weighted_rows import weighted_keys, weighted_queries

if TYPE_CHECKING:
    from xlstm_kernels.differentiation import Arrays
    from xlstm_kernels.mlstm.chunked.isolation import Spoilt
    from xlstm_kernels.mlstm.chunked.operation import Form
    from xlstm_kernels.products import Operand, Products


class Kept(NamedTuple):
    """Arrays that both passes use.

    Attributes:
        sums: of the normaliser, (B, NH, S) float32.
        scores: q k^T, (B, NH, NC, L, L).
        c: (B, NH, NC, DK, DV), the state before each chunk.
        n: (B, NH, NC, DK) float32, likewise.
        gates: the arrays of the log-gates.
    """

    sums: mx.array
    scores: mx.array
    c: mx.array
    n: mx.array
    gates: Arrays


@dataclass(frozen=True, slots=True)
class Call:
    """The arrays of a call: the states are zero, and no step is masked, unless they are given.

    q, k and v are zero where a step is masked: it may hold NaN. Others that are not finite are
    replaced, and known from `spoilt`, where the form isolates them.
    """

    form: Form
    backend: str
    q: mx.array
    k: mx.array
    v: mx.array
    i: mx.array
    f: mx.array
    states: States
    carried: bool
    mask: mx.array | None
    spoilt: Spoilt | None

    @staticmethod
    def of(arrays: Arrays, form: Form, backend: str, *, carried: bool, masked: bool) -> Call:
        """Take apart the arguments of an operation."""
        mask = arrays[-1] if masked else None
        inputs: Arrays = (*(_live(rows, mask) for rows in arrays[:3]), *arrays[3:5])
        given, spoilt = arrays[5:8] if carried else (), None
        if form.isolated:
            inputs, given, spoilt = isolated(
                inputs, given, mask, sigmoid_input=form.sigmoid_input, backend=backend
            )
        q, k, v, i, f = inputs
        states = States(*given) if carried else zero_states(q, v)
        return Call(form, backend, q, k, v, i, f, states, carried, mask, spoilt)

    @property
    def steps(self) -> int:
        """S."""
        return self.q.shape[2]

    @property
    def length(self) -> int:
        """Steps of a chunk."""
        return min(self.form.chunk_size or choice.GREATEST, self.steps, choice.GREATEST)

    @property
    def products(self) -> Products:
        """How its matrices are multiplied."""
        on_gpu = self.backend != executors.NATIVE or mx.default_device() == mx.gpu
        return products.chosen(self.q.dtype, self.form.precision, on_gpu=on_gpu)

    def gates(self) -> LogGates:
        """The log-gates, in chunks."""
        gates = log_gates(
            self.i,
            self.f,
            self.states.m,
            self.mask,
            chunk_size=self.length,
            sigmoid_input=self.form.sigmoid_input,
            backend=self.backend,
        )
        if self.spoilt is None:
            return gates
        return gates._replace(floor=replaced(gates.floor, in_chunks(self.spoilt.rows, self.length)))


def _live(rows: mx.array, mask: mx.array | None) -> mx.array:
    """`rows` (B, NH, S, D), zero where a step is masked."""
    return rows if mask is None else replaced(rows, mx.logical_not(mx.expand_dims(mask, 1)), 0.0)


def _states(
    call: Call, k: mx.array, v: Operand, gates: LogGates, multiply: Products, backend: str
) -> tuple[Operand, Scan]:
    """The keys by their weight at the chunk's end, and the states before each chunk."""
    keys, n_added = weighted_keys(k, gates, multiply.dtype, backend=backend)
    weighted = multiply.operand(keys)
    added = weighted.transposed @ v
    c, n, _ = call.states
    return weighted, state_scan(added, n_added, gates, c, n, given=call.carried, backend=backend)


def forward_pass(call: Call) -> tuple[Arrays, Kept]:
    """(h, c, n, m), and what both passes use; what nobody looks at of it is never evaluated."""
    form, backend = call.form, call.backend
    gates, multiply = call.gates(), call.products
    q, k, v = (in_chunks(rows, call.length) for rows in (call.q, call.k, call.v))
    values = multiply.operand(v)
    _, before = _states(call, k, values, gates, multiply, backend)
    scores = step_products(q, k, multiply.widened, backend=backend)
    rows = chunk_rows(
        scores,
        q,
        before.n,
        gates,
        mx.array(form.eps, dtype=mx.float32),
        multiply.dtype,
        normalize=form.normalize,
        backend=backend,
    )
    # A single chunk that begins with nothing reads no state: nothing waits for one.
    is_read = call.carried or call.length < call.steps
    of_state = multiply.operand(rows.of_state) @ multiply.operand(before.c) if is_read else None
    h = multiply.operand(rows.within).times(values, plus=of_state)
    outputs = in_sequence(h, call.steps).astype(call.v.dtype)
    kept = Kept(in_sequence(rows.sums, call.steps), scores, before.c, before.n, gates)
    last: Arrays = before.c_end, before.n_end
    if call.spoilt is not None:
        last = tuple(replaced(state, call.spoilt.end) for state in last)
    return (outputs, *last, gates.m), kept


def backward_pass(call: Call, cotangents: Arrays, given: Arrays, kept: Kept | None) -> Arrays:
    """The gradients in the arrays of the call, exactly, as the kernels or their references do.

    Args:
        call: of the forward pass.
        cotangents: of h, c, n and m.
        given: h, c, n and the normaliser's sums, as the forward pass gave them.
        kept: of the forward pass, or None to form it again.
    """
    form, backend, length = call.form, call.backend, call.length
    gates = call.gates() if kept is None else LogGates(*kept.gates)
    multiply = call.products
    cotangents = (_live(cotangents[0], call.mask), *cotangents[1:])
    h, c_last, n_last, sums = given
    if call.spoilt is not None:
        cotangents, *reached = isolated_cotangents(cotangents, call.spoilt, backend=backend)
        c_last, n_last = (replaced(state, call.spoilt.end, 0.0) for state in (c_last, n_last))
    h_cotangent, c_cotangent, n_cotangent, m_cotangent = cotangents
    q, k, v, dh = (in_chunks(rows, length) for rows in (call.q, call.k, call.v, h_cotangent))
    queries, keys, values, pulled = (multiply.operand(rows) for rows in (q, k, v, dh))
    weighted, before = _states(call, k, values, gates, multiply, backend)
    c_before, n_before = (before.c, before.n) if kept is None else (kept.c, kept.n)
    of_h = normalizer_gradients(
        in_chunks(h, length),
        dh,
        in_chunks(sums, length),
        gates,
        form.eps,
        normalize=form.normalize,
        through=form.normalizer_grad,
        backend=backend,
    )
    reading, n_pulled = weighted_queries(
        q, gates, of_h.inverse, of_h.bias, multiply.dtype, backend=backend
    )
    behind = state_scan(
        multiply.operand(reading).transposed @ pulled,
        n_pulled,
        gates,
        c_cotangent,
        n_cotangent,
        reverse=True,
        backend=backend,
    )
    wide = multiply.widened
    pairs = chunk_pairs(
        step_products(q, k, wide, backend=backend) if kept is None else kept.scores,
        step_products(dh, v, wide, backend=backend),
        gates,
        of_h.inverse,
        of_h.bias,
        q.shape[-1],
        multiply.dtype,
        backend=backend,
    )
    slopes = multiply.operand(pairs.scores)
    c_behind = multiply.operand(behind.c)
    c_read = pulled @ multiply.operand(c_before).transposed
    by_query, from_start = read_by_queries(
        c_read, n_before, q, gates, of_h.inverse, of_h.bias, backend=backend
    )
    by_key, to_end = read_by_keys(values @ c_behind.transposed, behind.n, k, gates, backend=backend)
    dq = slopes.times(keys, plus=by_query)
    dk = slopes.transposed.times(queries, plus=by_key)
    dv = multiply.operand(pairs.values).transposed.times(pulled, plus=weighted @ c_behind)
    across = weights_from_start(gates)[..., -1] * (
        mx.sum(row_dots(c_before, behind.c, backend=backend), axis=-1)
        + mx.sum(n_before * behind.n, axis=-1)
    )
    initial = States(behind.c_end, behind.n_end, _inner(call.states, behind.c_end, behind.n_end))
    by_m = None
    if form.normalizer_grad:
        # The last states are scaled by exp(-m).
        last_states = States(c_last, n_last, gates.m)
        last = m_cotangent - _inner(last_states, c_cotangent, n_cotangent)
        by_eps = in_sequence(of_h.by_eps, call.steps)
        by_m = mx.concatenate([by_eps[..., :-1], by_eps[..., -1:] + last], axis=-1)
    of_gates = gate_gradients(
        call.i,
        call.f,
        gates,
        call.mask,
        Exponents(pairs.key_dots, pairs.past_dots, from_start, to_end, across),
        initial.m,
        by_m,
        sigmoid_input=form.sigmoid_input,
        backend=backend,
    )
    rows = (in_sequence(gradient, call.steps).astype(call.q.dtype) for gradient in (dq, dk, dv))
    gradients = (*rows, of_gates.i.astype(call.i.dtype), of_gates.f.astype(call.f.dtype))
    initial = initial._replace(m=of_gates.m)
    if call.spoilt is not None:
        of_rows, of_steps = gradients[:3], gradients[3:]
        gradients = (
            *(marked(gradient, reached[0], backend=backend) for gradient in of_rows),
            *(replaced(gradient, reached[0]) for gradient in of_steps),
        )
        initial = States(*(replaced(gradient, reached[1]) for gradient in initial))
    return (
        *gradients,
        *(initial if call.carried else ()),
        *(() if call.mask is None else (mx.zeros_like(call.mask),)),
    )


def _inner(states: States, c: mx.array, n: mx.array) -> mx.array:
    """<C, c> + <n, n'>: (B, NH, 1)."""
    of_rows = mx.sum(states.c * c, axis=-1)  # a sum of sums rounds less than one of all
    return mx.sum(of_rows + states.n * n, axis=-1, keepdims=True)
