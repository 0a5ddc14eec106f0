"""Both passes of the chunked mLSTM, of tensors: see `xlstm_kernels.mlstm.chunked.passes`.

Its products of matrices are PyTorch's, of float32 whatever the inputs are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import mlx.core as mx
import torch
from torch.nn.functional import pad

from xlstm_kernels.mlstm.chunked import (
    chunk_pairs,
    chunk_rows,
    gates,
    normalizer,
    running_maximum,
    state_reads,
    state_scan,
    weighted_rows,
)
from xlstm_kernels.mps.launching import launched


class Call(NamedTuple):
    """The tensors and settings of a call.

    q, k (B, NH, S, DK) and v (B, NH, S, DV) have at least one step, as the gates i and f (B, NH,
    S). The initial states c (B, NH, DK, DV), n (B, NH, DK) and m (B, NH, 1) are float32. `length`
    is the steps of a chunk, `mask` (B, S) booleans, or None for all True.
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    i: torch.Tensor
    f: torch.Tensor
    c: torch.Tensor
    n: torch.Tensor
    m: torch.Tensor
    eps: float
    length: int
    mask: torch.Tensor | None = None
    normalizer_grad: bool = True

    def log_gates(self) -> Any:
        """The log-gates in chunks: `LogGates`, of tensors."""
        masks = () if self.mask is None else (self.mask,)
        kernel = gates.KERNELS[bool(masks), False]
        return gates.LogGates(
            *launched(kernel, self.i, self.f, self.m, *masks, chunk_size=self.length)
        )

    def live(self, tensor: torch.Tensor) -> torch.Tensor:
        """(B, NH, S, ...), zero where a step is masked: it may hold NaN."""
        if self.mask is None:
            return tensor
        mask = self.mask.reshape(self.mask.shape[0], 1, -1, *[1] * (tensor.ndim - 3))
        return torch.where(mask, tensor, 0)

    def in_chunks(self, tensor: torch.Tensor) -> torch.Tensor:
        """(B, NH, S, ...) as (B, NH, NC, L, ...), the last chunk filled up with zeros."""
        missing = -tensor.shape[2] % self.length
        if missing:
            tensor = pad(tensor, (*[0, 0] * (tensor.ndim - 3), 0, missing))
        return tensor.unflatten(2, (-1, self.length))

    def in_sequence(self, chunks: torch.Tensor) -> torch.Tensor:
        """(B, NH, NC, L, ...) as (B, NH, S, ...)."""
        return chunks.flatten(2, 3)[:, :, : self.q.shape[2]]


def forward_pass(call: Call) -> tuple[torch.Tensor, ...]:
    """Return h (B, NH, S, DV), the last c, n and m, and the normaliser's sums (B, NH, S)."""
    log_gates = call.log_gates()
    q, k, v = (call.in_chunks(call.live(rows)) for rows in (call.q, call.k, call.v))
    _, c_before, n_before, c_end, n_end = _states(call, k, v, log_gates)
    within, of_state, sums = launched(
        chunk_rows.KERNELS[True],
        _product(q, k.mT),
        q,
        n_before,
        *log_gates.exponents,
        log_gates.floor,
        call.eps,
        dtype=mx.float32,
    )
    h = _product(within, v) + _product(of_state, c_before)
    return (
        call.in_sequence(h).to(call.v.dtype),
        *(c_end, n_end, log_gates.m),
        call.in_sequence(sums),
    )


def backward_pass(
    call: Call, given: tuple[torch.Tensor, ...], cotangents: tuple[torch.Tensor, ...]
) -> tuple[torch.Tensor, ...]:
    """The exact gradients in q, k, v, i, f and the initial c, n and m.

    `given` is what the forward pass returned, the cotangents are those of h, c, n and m.
    """
    h, c_last, n_last, _, sums = given
    h_cotangent, *of_states, m_cotangent = cotangents
    c_cotangent, n_cotangent = (cotangent.contiguous() for cotangent in of_states)
    log_gates = call.log_gates()
    rows = (call.q, call.k, call.v, h_cotangent)
    q, k, v, dh = (call.in_chunks(call.live(each)) for each in rows)
    weighted, c_before, n_before, *_ = _states(call, k, v, log_gates)
    inverse, bias, by_eps = launched(
        normalizer.GRADIENTS,
        *(call.in_chunks(h), dh, call.in_chunks(sums), log_gates.floor, call.eps),
    )
    if not call.normalizer_grad:
        bias, by_eps = torch.zeros_like(bias), torch.zeros_like(by_eps)
    reading, n_pulled = launched(
        weighted_rows.QUERIES, q, log_gates.prefix, inverse, bias, dtype=mx.float32
    )
    c_behind, n_behind, c_start, n_start = launched(
        state_scan.KERNELS[True, True],
        _product(reading.mT, dh),
        n_pulled,
        log_gates.prefix,
        c_cotangent,
        n_cotangent,
    )
    of_values, of_scores, key_dots, past_dots = launched(
        chunk_pairs.CHUNK_PAIRS,
        _product(q, k.mT),
        _product(dh, v.mT),
        *log_gates.exponents,
        inverse,
        bias,
        q.shape[-1] ** -0.5,
        dtype=mx.float32,
    )
    by_query, from_start = launched(
        state_reads.QUERIES,
        *(_product(dh, c_before.mT), n_before, q, log_gates.prefix, inverse, bias),
    )
    by_key, to_end = launched(
        state_reads.KEYS, _product(v, c_behind.mT), n_behind, k, *log_gates.exponents
    )
    dq = _product(of_scores, k) + by_query
    dk = _product(of_scores.mT, q) + by_key
    dv = _product(of_values.mT, dh) + _product(weighted, c_behind)
    (dots,) = launched(normalizer.DOTS, c_before, c_behind)
    across = log_gates.prefix[..., -1].exp() * (
        dots.sum(dim=-1) + (n_before * n_behind).sum(dim=-1)
    )
    # The last states are scaled by exp(-m).
    last = m_cotangent - _inner(c_last, n_last, c_cotangent, n_cotangent)
    if not call.normalizer_grad:
        last = torch.zeros_like(last)
    by_m = call.in_sequence(by_eps) + pad(last, (call.q.shape[2] - 1, 0))
    admit = key_dots + to_end
    forget = past_dots + from_start.flip(-1).cumsum(dim=-1).flip(-1)
    forget = forget + pad(to_end.cumsum(dim=-1)[..., :-1], (1, 0)) + across[..., None]
    di, df, dm = _gate_gradients(call, log_gates, admit, forget, by_m)
    dm = dm + _inner(call.c, call.n, c_start, n_start)
    of_rows = (
        call.in_sequence(gradient).to(tensor.dtype)
        for gradient, tensor in ((dq, call.q), (dk, call.k), (dv, call.v))
    )
    return *of_rows, di.to(call.i.dtype), df.to(call.f.dtype), c_start, n_start, dm


def _states(
    call: Call, k: torch.Tensor, v: torch.Tensor, log_gates: Any
) -> tuple[torch.Tensor, ...]:
    """The keys by their weight at the chunk's end, c and n before each chunk, and at the end."""
    weighted, n_added = launched(weighted_rows.KEYS, k, *log_gates.exponents, dtype=mx.float32)
    scanned = launched(
        state_scan.KERNELS[True, False],
        *(_product(weighted.mT, v), n_added, log_gates.prefix, call.c, call.n),
    )
    return (weighted, *scanned)


def _gate_gradients(
    call: Call,
    log_gates: Any,
    admit: torch.Tensor,
    forget: torch.Tensor,
    by_m: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The gradients in i, f, and the initial m, of those in log i', log f' and each m."""
    chosen = call.in_sequence(log_gates.admitted) == 0
    (flowing,) = launched(running_maximum.KERNEL, by_m, log_gates.admitted)
    passed = torch.where(chosen, torch.zeros_like(flowing), flowing)
    of_i = call.in_sequence(admit) + flowing - passed
    of_f = (call.in_sequence(forget) + passed) * torch.sigmoid(-call.f.float())
    return call.live(of_i), call.live(of_f), passed[..., :1]


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.matmul(a.float(), b.float()).contiguous()


def _inner(
    c: torch.Tensor, n: torch.Tensor, c_cotangent: torch.Tensor, n_cotangent: torch.Tensor
) -> torch.Tensor:
    """<C, c> + <n, n'>: (B, NH, 1)."""
    of_rows = (c * c_cotangent).sum(dim=-1) + n * n_cotangent
    return of_rows.sum(dim=-1, keepdim=True)
