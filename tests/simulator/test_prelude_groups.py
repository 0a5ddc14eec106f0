"""Functions over simdgroups and quadgroups, simdgroup matrices, atomics and barriers."""

from __future__ import annotations

import numpy as np
import pytest

from embercoach.simulator.session.record import KernelFault
from tests.simulator.evaluation import bfloat_bits, evaluate, from_bfloat_bits

RANDOM = np.random.default_rng(22)
LANES = np.arange(32)
START = "uint i = thread_position_in_grid.x; uint lane = thread_index_in_simdgroup; (void)lane;\n"


def lanes(call: str, x: np.ndarray, dtype: type | None = None, threads: int = 32) -> np.ndarray:
    """A call with ``x``, ``i`` and ``lane`` in each thread."""
    body = f"{START}auto x = xs[i]; out[i] = {call};"
    outputs = {"out": ((threads,), dtype or x.dtype)}
    return evaluate(body, {"xs": x}, outputs, threads=threads, checks=True)["out"]


def table(calls: dict[str, np.ndarray], x: np.ndarray, threads: int = 32) -> None:
    """Each call in each thread gives what is wanted."""
    body = f"{START}auto x = xs[i];\n"
    body += "\n".join(f"out[{n * threads} + i] = {call};" for n, call in enumerate(calls))
    outputs = {"out": ((len(calls), threads), x.dtype)}
    got = evaluate(body, {"xs": x}, outputs, threads=threads, checks=True)["out"]
    for (call, wanted), row in zip(calls.items(), got, strict=True):
        assert row.tolist() == np.broadcast_to(np.asarray(wanted), threads).tolist(), call


def butterfly(x: np.ndarray) -> np.ndarray:
    """The sum that every lane gets: with lane ^ 1, then ^ 2, 4, 8 and 16."""
    width = len(x)
    step = 1
    while step < width:
        x = x + x[np.arange(width) ^ step]
        step *= 2
    return x


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_sum_is_a_butterfly(dtype: str) -> None:
    x = (RANDOM.normal(0, 1, 32) * 10.0 ** RANDOM.integers(-2, 3, 32)).astype(dtype)
    wanted = butterfly(x)
    assert len(set(wanted.tolist())) == 1
    assert lanes("simd_sum(x)", x).tolist() == wanted.tolist()
    quads = np.concatenate([butterfly(part) for part in x.reshape(8, 4)])
    assert lanes("quad_sum(x)", x).tolist() == quads.tolist()


def test_sum_of_bfloat_is_rounded_once() -> None:
    bits = bfloat_bits(RANDOM.normal(0, 1, 32).astype(np.float32))
    got = lanes("as_type<ushort>(simd_sum(as_type<bfloat>(x)))", bits)
    assert got.tolist() == bfloat_bits(butterfly(from_bfloat_bits(bits))).tolist()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", [np.int32, np.int16, np.uint8, np.uint32])
def test_reductions_and_prefixes_of_integers(dtype: type) -> None:
    x = RANDOM.integers(0, 100, 32).astype(dtype)
    ones = np.where(LANES % 5 == 0, 2, 1).astype(dtype)
    table(
        {
            "simd_sum(x)": x.sum(dtype=dtype),
            "simd_max(x)": x.max(),
            "simd_min(x)": x.min(),
            "simd_and(x)": np.bitwise_and.reduce(x),
            "simd_or(x)": np.bitwise_or.reduce(x),
            "simd_xor(x)": np.bitwise_xor.reduce(x),
            "simd_prefix_inclusive_sum(x)": np.cumsum(x, dtype=dtype),
            "simd_prefix_exclusive_sum(x)": np.cumsum(x, dtype=dtype) - x,
            "quad_max(x)": x.reshape(8, 4).max(1).repeat(4),
            "quad_prefix_inclusive_sum(x)": np.cumsum(x.reshape(8, 4), 1, dtype=dtype).ravel(),
        },
        x,
    )
    table(
        {
            "simd_product(x)": np.prod(ones, dtype=dtype),
            "simd_prefix_inclusive_product(x)": np.cumprod(ones, dtype=dtype),
            "simd_prefix_exclusive_product(x)": np.cumprod(ones, dtype=dtype) // ones,
            "quad_product(x)": ones.reshape(8, 4).prod(1, dtype=dtype).repeat(4),
        },
        ones,
    )


def test_shuffles_move_values_between_lanes() -> None:
    x = RANDOM.integers(0, 1000, 32).astype(np.int32)
    quad = LANES & ~3
    table(
        {
            "simd_shuffle(x, 31 - lane)": x[::-1],
            "simd_shuffle(x, 5)": x[5],
            "simd_broadcast(x, 7)": x[7],
            "simd_broadcast_first(x)": x[0],
            "simd_shuffle_xor(x, 6)": x[LANES ^ 6],
            "simd_shuffle_down(x, 3)": np.where(LANES + 3 < 32, x[(LANES + 3) % 32], x),
            "simd_shuffle_up(x, 3)": np.where(LANES >= 3, x[LANES - 3], x),
            "simd_shuffle_rotate_down(x, 3)": x[(LANES + 3) % 32],
            "simd_shuffle_rotate_up(x, 3)": x[(LANES - 3) % 32],
            "simd_shuffle_and_fill_down(x, -x, 3)": np.where(
                LANES + 3 < 32, x[(LANES + 3) % 32], -x[(LANES + 3) % 32]
            ),
            "simd_shuffle_and_fill_up(x, -x, 3)": np.where(
                LANES >= 3, x[(LANES - 3) % 32], -x[(LANES - 3) % 32]
            ),
            "simd_shuffle_and_fill_up(x, -x, 1, 8)": np.where(
                LANES % 8 >= 1, x[LANES - 1], -x[(LANES & ~7) + (LANES - 1) % 8]
            ),
            "quad_shuffle(x, 3 - (lane & 3))": x[quad + 3 - (LANES & 3)],
            "quad_broadcast(x, 2)": x[quad + 2],
            "quad_shuffle_xor(x, 1)": x[LANES ^ 1],
            "quad_shuffle_down(x, 1)": np.where(LANES % 4 < 3, x[(LANES + 1) % 32], x),
            "quad_shuffle_rotate_up(x, 1)": x[quad + (LANES - 1) % 4],
            "simd_shuffle(int2(x, -x), 9).y": -x[9],
            "int(simd_shuffle(half(x), 3))": int(np.float16(x[3])),
            "int(simd_sum(float4(x, 1, 2, 3)).x)": x.sum(),
            # MLX's own, of types that Metal does not shuffle.
            "int(simd_shuffle_down(int64_t(x) << 20, 1) >> 20)": np.append(x[1:], x[31]),
            "int(simd_shuffle(complex64_t(x, -x), 4).imag)": -x[4],
            "int(simd_shuffle_up(x > 500, 1))": np.append(x[0] > 500, x[:-1] > 500),
        },
        x,
    )


def test_votes() -> None:
    x = RANDOM.integers(0, 2, 32).astype(np.uint32)
    bits = int((x.astype(np.uint64) << LANES.astype(np.uint64)).sum())
    quads = (x.reshape(8, 4) << np.arange(4)).sum(1).astype(int)
    table(
        {
            "uint(simd_vote::vote_t(simd_ballot(x == 1)))": bits,
            "uint(simd_vote::vote_t(simd_active_threads_mask()))": 0xFFFFFFFF,
            "simd_ballot(x == 1).any()": 1,
            "simd_ballot(x < 2).all()": 1,
            "simd_all(x < 2)": 1,
            "simd_all(x == 1)": 0,
            "simd_any(x == 1)": 1,
            "simd_any(x == 2)": 0,
            "simd_is_first()": LANES == 0,
            "quad_vote::vote_t(quad_ballot(x == 1))": quads.repeat(4),
            "quad_all(x == 1)": (quads == 15).repeat(4),
            "quad_any(x == 1)": (quads != 0).repeat(4),
            "quad_is_first()": LANES % 4 == 0,
        },
        x,
    )


def test_a_partial_simdgroup_reduces_over_the_lanes_it_has() -> None:
    x = RANDOM.integers(1, 100, 40).astype(np.int32)
    body = f"""{START}
    sum[i] = simd_sum(xs[i]);
    least[i] = simd_min(xs[i]);
    first[i] = simd_broadcast_first(xs[i]);
    before[i] = simd_prefix_exclusive_sum(xs[i]);
    mask[i] = uint(simd_vote::vote_t(simd_active_threads_mask()));
    """
    names = ("sum", "least", "first", "before", "mask")
    outputs = {name: ((40,), np.uint32 if name == "mask" else np.int32) for name in names}
    got = evaluate(body, {"xs": x}, outputs, threads=40, threadgroup=40, checks=True)
    parts = [x[:32], x[32:]]

    def each(values: list[int]) -> list[int]:
        return [values[0]] * 32 + [values[1]] * 8

    assert got["sum"].tolist() == each([part.sum() for part in parts])
    assert got["least"].tolist() == each([part.min() for part in parts])
    assert got["first"].tolist() == each([part[0] for part in parts])
    before = np.concatenate([np.cumsum(part) - part for part in parts])
    assert got["before"].tolist() == before.tolist()
    assert got["mask"].tolist() == each([0xFFFFFFFF, 0xFF])


def test_a_shuffle_from_a_lane_that_takes_no_part_is_a_finding() -> None:
    body = f"{START} if (lane < 16) out[i] = simd_shuffle(xs[i], 20); else out[i] = 0;"
    with pytest.raises(KernelFault, match="divergent-simd"):
        evaluate(body, {"xs": np.zeros(32)}, {"out": ((32,), np.float32)}, threads=32, checks=True)


def _matrix_places() -> np.ndarray:
    rows = (LANES // 4 & 4) + LANES // 2 % 4
    columns = (LANES // 4 & 2) * 2 + LANES % 2 * 2
    return np.stack([rows * 8 + columns, rows * 8 + columns + 1], 1)


def test_matrix_elements_lie_where_apple_puts_them() -> None:
    x = np.arange(64, dtype=np.float32)
    body = f"""{START}
    simdgroup_float8x8 m;
    simdgroup_load(m, xs);
    out[2 * i] = m.thread_elements()[0];
    out[2 * i + 1] = m.thread_elements()[1];
    """
    got = evaluate(body, {"xs": x}, {"out": ((32, 2), np.float32)}, threads=32, checks=True)
    assert got["out"].tolist() == _matrix_places().tolist()
    assert sorted(got["out"].ravel().tolist()) == x.tolist()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("scalar", ["float", "half", "bfloat"])
def test_matrix_products(scalar: str) -> None:
    a, b, c = (RANDOM.integers(-4, 5, (8, 8)).astype(np.float32) for _ in range(3))
    body = f"""{START}
    threadgroup {scalar} tile[64];
    tile[2 * i] = {scalar}(b[2 * i]);
    tile[2 * i + 1] = {scalar}(b[2 * i + 1]);
    threadgroup {scalar} left[64];
    left[i] = {scalar}(a[i]);
    left[i + 32] = {scalar}(a[i + 32]);
    simdgroup_barrier(mem_flags::mem_threadgroup);
    simdgroup_matrix<{scalar}, 8, 8> A, B;
    simdgroup_float8x8 C, D;
    simdgroup_load(A, left);
    simdgroup_load(B, tile);
    simdgroup_load(C, c);
    simdgroup_multiply_accumulate(D, A, B, C);
    simdgroup_store(D, out);
    simdgroup_multiply(D, A, B);
    simdgroup_store(D, out + 64);
    simdgroup_load(A, left, 8, 0, true);
    simdgroup_multiply(D, A, B);
    simdgroup_store(D, out + 128, 8, 0, true);
    D = make_filled_simdgroup_matrix<float, 8, 8>(2.5f);
    simdgroup_store(D, out + 192);
    simdgroup_store(simdgroup_float8x8(3.0f), out + 256);
    """
    outputs = {"out": ((5, 8, 8), np.float32)}
    got = evaluate(body, {"a": a, "b": b, "c": c}, outputs, threads=32, checks=True)["out"]
    wanted = [a @ b + c, a @ b, (a.T @ b).T, np.full((8, 8), 2.5), 3 * np.eye(8)]
    np.testing.assert_array_equal(got, wanted)


def test_matrices_load_from_inside_larger_ones() -> None:
    x = np.arange(16 * 24, dtype=np.float32).reshape(16, 24)
    body = f"""{START}
    for (uint k = i; k < 256; k += 32) out[k] = 0;
    simdgroup_barrier(mem_flags::mem_device);
    simdgroup_float8x8 m;
    simdgroup_load(m, xs, 24, ulong2(5, 3));
    simdgroup_store(m, out, 8);
    simdgroup_load(m, xs + 24, 24, ulong2(2, 1), true);
    simdgroup_store(m, out, 16, ulong2(8, 8));
    """
    outputs = {"out": ((16, 16), np.float32)}
    got = evaluate(body, {"xs": x}, outputs, threads=32, checks=True)["out"]
    assert np.array_equal(got.ravel()[:64].reshape(8, 8), x[3:11, 5:13])
    assert np.array_equal(got[8:, 8:], x[2:10, 2:10].T)


def test_device_atomics() -> None:
    body = f"""{START}
    uint x = xs[i];
    atomic_fetch_add_explicit(&out[0], x, memory_order_relaxed);
    atomic_fetch_sub_explicit(&out[1], x, memory_order_relaxed);
    atomic_fetch_max_explicit(&out[2], x, memory_order_relaxed);
    atomic_fetch_min_explicit(&out[3], x + 5, memory_order_relaxed);
    atomic_fetch_or_explicit(&out[4], x, memory_order_relaxed);
    atomic_fetch_xor_explicit(&out[5], x, memory_order_relaxed);
    atomic_fetch_and_explicit(&out[6], ~x, memory_order_relaxed);
    uint seen = atomic_load_explicit(&out[7], memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(
        &out[7], &seen, seen * 3 + 1, memory_order_relaxed, memory_order_relaxed)) {{}}
    atomic_exchange_explicit(&out[8], 77, memory_order_relaxed);
    atomic_store_explicit(&out[9], 78, memory_order_relaxed);
    """
    x = RANDOM.integers(0, 1 << 20, 64).astype(np.uint32)
    outputs = {"out": ((10,), np.uint32)}
    got = evaluate(
        body, {"xs": x}, outputs, threads=64, threadgroup=32, atomic=True, init=0, checks=True
    )["out"]
    wide = x.astype(np.uint64)
    three = 0
    for _ in range(64):
        three = (three * 3 + 1) % (1 << 32)
    assert got.tolist() == [
        int(wide.sum()) % (1 << 32),
        -int(wide.sum()) % (1 << 32),
        int(x.max()),
        0,
        int(np.bitwise_or.reduce(x)),
        int(np.bitwise_xor.reduce(x)),
        0,
        three,
        77,
        78,
    ]


def test_atomics_of_other_types_and_in_threadgroup_memory() -> None:
    body = f"""{START}
    threadgroup atomic_int count;
    threadgroup atomic_uint bins[4];
    threadgroup atomic_bool flag;
    if (i == 0) {{
      atomic_store_explicit(&count, -5, memory_order_relaxed);
      atomic_store_explicit(&flag, false, memory_order_relaxed);
    }}
    if (i < 4) atomic_store_explicit(&bins[i], 0, memory_order_relaxed);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&bins[i % 4], i, memory_order_relaxed);
    if (i == 9) atomic_store_explicit(&flag, true, memory_order_relaxed);
    atomic_fetch_add_explicit(&out[5], xs[i], memory_order_relaxed);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (i < 4) {{
      float value = float(atomic_load_explicit(&bins[i], memory_order_relaxed));
      atomic_store_explicit(&out[i], value, memory_order_relaxed);
    }}
    if (i == 0) {{
      int total = atomic_load_explicit(&count, memory_order_relaxed);
      if (!atomic_load_explicit(&flag, memory_order_relaxed)) total = 99;
      atomic_store_explicit(&out[4], total, memory_order_relaxed);
    }}
    """
    x = RANDOM.integers(0, 100, 32).astype(np.float32)
    got = evaluate(
        body, {"xs": x}, {"out": ((6,), np.float32)}, threads=32, atomic=True, init=0, checks=True
    )["out"]
    bins = [float(LANES[k == LANES % 4].sum()) for k in range(4)]
    assert got.tolist() == [*bins, 27.0, float(x.sum())]
