"""Counts of a profiled launch, against kernels whose counts follow from their text."""

from __future__ import annotations

import mlx.core as mx
import pytest

from embercoach.simulator import activate
from embercoach.simulator.profile.counts import (
    LaunchProfile,
    LineCounts,
    MemoryCounts,
    combined,
    merged_vectors,
)
from tests.simulator.evaluation import launch

THREADS = 64  # two simdgroups


def profiled(
    body: str,
    *,
    threads: int = THREADS,
    threadgroup: int = THREADS,
    size: int = 4096,
    dtype: mx.Dtype = mx.float32,
    header: str = "",
    atomic: bool = False,
) -> LaunchProfile:
    with activate(profile=True) as recorder:
        launch(
            "uint i = thread_position_in_grid.x;\n" + body,
            {"x": mx.ones((size,), dtype)},
            {"y": ((size,), mx.int32 if atomic else dtype)},
            threads=threads,
            threadgroup=threadgroup,
            build={"header": header, "atomic_outputs": atomic},
            init_value=0,
        )
    (profile,) = recorder.profiles
    return profile


def line(profile: LaunchProfile, number: int) -> LineCounts:
    (found,) = (one for one in profile.lines if (one.part, one.line) == ("body", number))
    return found


def access(profile: LaunchProfile, buffer: str, kind: str = "read") -> MemoryCounts:
    (found,) = (
        memory
        for one in profile.lines
        for memory in one.memory
        if (memory.buffer, memory.access) == (buffer, kind)
    )
    return found


def test_stretches_that_a_simdgroup_touches():
    stretches = {"i": (4, 2, 1), "i * 2": (8, 4, 2), "i * 33": (32, 32, 32)}
    profile = profiled("\n".join(f"y[{n} * 64 + i] = x[{i}];" for n, i in enumerate(stretches)))
    for number, expected in enumerate(stretches.values(), 2):
        (found,) = (one for one in line(profile, number).memory if one.buffer == "x")
        assert (found.width, found.issued, found.lanes) == (4, 2, THREADS)
        assert (found.sectors, found.lines64, found.lines128) == tuple(2 * n for n in expected)


def test_width_of_an_access():
    body = "auto v = ((const device half4*)x)[i]; ((device half4*)y)[i] = v;"
    found = access(profiled(body, dtype=mx.float16), "x")
    assert (found.width, found.sectors) == (8, 2 * 8)


@pytest.mark.parametrize(("index", "cycles"), [("(i % 32) * 2", 2), ("(i % 32) * 33", 1)])
def test_bank_conflicts(index, cycles):
    body = f"""threadgroup float t[1056];
        for (uint k = i; k < 1056; k += {THREADS}) t[k] = 0.0f;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[i] = t[{index}];"""
    profile = profiled(body)
    assert access(profile, "t").bank_cycles == 2 * cycles
    assert profile.threadgroup_bytes == 4 * 1056


def test_bytes_that_threadgroups_move():
    body = "float s = 0.0f; for (uint k = 0; k < 64; ++k) { s += x[k]; } y[i] = s;"
    profile = profiled(body, threads=256)
    x, y = (buffer for buffer in profile.buffers if buffer.name in ("x", "y"))
    assert (profile.threadgroups, profile.simdgroups) == (4, 8)
    assert (x.read, x.read_by_groups, x.written) == (256, 4 * 256, 0)
    assert (y.read, y.written, y.written_by_groups) == (0, 1024, 1024)


def test_operations_on_floats():
    body = """float s = x[i];
        for (uint k = 0; k < 100; ++k) {
            s = metal::fma(s, 1.5f, 2.0f);
        }
        y[i] = metal::exp(s) + metal::sqrt(s);"""
    profile = profiled(body)
    fused = line(profile, 4)
    assert (fused.issued["float32"], fused.lanes["float32"]) == (2 * 100, 64 * 100)
    assert fused.flops == 64 * 200
    last = line(profile, 6)
    # An addition, and what exp takes in addition to exp2.
    assert (last.issued["special"], last.issued["float32"], last.flops) == (4, 2 + 2 * 3, 64 * 3)


@pytest.mark.parametrize(
    ("dtype", "name", "transposed", "width", "issued", "sectors"),
    [
        # 8 rows of 32 bytes, in whole stretches
        (mx.float32, "float", False, 8, 1, 8),
        # 8 rows of 16 bytes
        (mx.float16, "half", False, 4, 1, 8),
        # a lane's elements are in two rows: two accesses of 4 rows each
        (mx.float32, "float", True, 4, 2, 8),
    ],
)
def test_matrix_load_and_store_are_one_access_of_a_lane(
    dtype, name, transposed, width, issued, sectors
):
    more = ", 64, ulong2(0, 0), true" if transposed else ", 64"
    body = f"""simdgroup_{name}8x8 m;
        simdgroup_load(m, x{more});
        simdgroup_store(m, y, 64);"""
    profile = profiled(body, threads=32, threadgroup=32, dtype=dtype)
    reads = line(profile, 3).memory
    assert sum(one.issued for one in reads) == issued
    assert {(one.width, one.lanes) for one in reads} == {(width, 32)}
    assert sum(one.sectors for one in reads) == sectors
    assert not line(profile, 3).issued.get("shuffle", 0)
    written = access(profile, "y", "write")
    size = dtype.size
    assert (written.width, written.issued, written.sectors) == (2 * size, 1, 8)


def test_matrix_of_threadgroup_memory_has_no_conflicts():
    body = """threadgroup float t[64];
        t[i] = x[i];
        t[i + 32] = x[i + 32];
        simdgroup_barrier(mem_flags::mem_threadgroup);
        simdgroup_float8x8 m;
        simdgroup_load(m, t);
        simdgroup_store(m, y, 64);"""
    profile = profiled(body, threads=32, threadgroup=32)
    (read,) = line(profile, 7).memory
    # 64 words of 32 banks
    assert (read.width, read.issued, read.bank_cycles) == (8, 1, 2)


def test_a_vector_that_is_used_by_components_is_one_read():
    body = "uint4 v = ((const device uint4*)x)[i]; y[i] = v.x + v.y + v.z + v.w;"
    profile = profiled(body, dtype=mx.uint32)
    (found,) = merged_vectors(one for one in line(profile, 2).memory if one.buffer == "x")
    # 32 lanes read 512 bytes
    assert (found.issued, found.sectors) == (2, 2 * 16)


def test_elements_side_by_side_are_separate_reads():
    profile = profiled("y[i] = x[2 * i] + x[2 * i + 1];")
    reads = [one for one in line(profile, 2).memory if one.buffer == "x"]
    assert len(list(merged_vectors(reads))) == 2
    assert {(one.issued, one.sectors) for one in reads} == {(2, 2 * 8)}
    (found,) = combined(reads)
    assert found.components == 2


@pytest.mark.parametrize(
    ("index", "is_long"),
    [
        ("(k + i / 8) * 64 + i % 8", False),
        ("(ulong(k) * (x_shape[0] + 0x100000000ul) >> 36) % 64", True),
    ],
)
def test_indices_have_the_width_of_their_type(index, is_long):
    body = f"float s = 0; for (uint k = 0; k < 16; ++k) s += x[{index}]; y[i] = s;"
    assert bool(line(profiled(body), 2).issued.get("integer64", 0)) is is_long


def test_kinds_of_instructions():
    kinds = {
        "x[i] * 3.0f": ("float32", 1),
        "x[i] / 3.0f": ("division", 1),
        "metal::rsqrt(x[i])": ("special", 1),
        "float(half(x[i]) * half(2))": ("float16", 1),
        "float(bfloat(x[i]) * bfloat(2))": ("float16", 1),
        "float(i / x_shape[0])": ("division_integer", 1),
        "simd_sum(x[i])": ("shuffle", 5),
        "simd_shuffle_xor(x[i], 1)": ("shuffle", 1),
    }
    body = "\n".join(f"y[{64 * n} + i] = {expression};" for n, expression in enumerate(kinds))
    profile = profiled(body)
    issued = [line(profile, 2 + n).issued[kind] for n, (kind, _) in enumerate(kinds.values())]
    assert issued == [2 * count for _, count in kinds.values()]


def test_matrices():
    body = """metal::simdgroup_float8x8 a, b, c = metal::simdgroup_float8x8(0.0f);
        metal::simdgroup_load(a, x);
        metal::simdgroup_load(b, x + 64);
        metal::simdgroup_multiply_accumulate(c, a, b, c);
        metal::simdgroup_store(c, y);"""
    found = line(profiled(body, threads=32, threadgroup=32), 5)
    assert found.issued["matrix"] == 1
    assert found.flops == 1024
    assert "float32" not in found.issued


def test_lanes_that_are_active():
    body = """if (i % 4 == 0) {
            y[i] = metal::exp(x[i]);
        } else {
            y[i] = 1.0f;
        }"""
    profile = profiled(body)
    assert line(profile, 3).issued["special"] == 2
    assert line(profile, 3).lanes["special"] == THREADS // 4


def test_contention_of_atomics():
    add = "atomic_fetch_add_explicit(&y[{}], 1, memory_order_relaxed);"
    profile = profiled(f"{add.format('i')}\n{add.format('i / 8')}", atomic=True)
    for number, contention in ((2, 1), (3, 8)):
        (found,) = line(profile, number).memory
        assert (found.issued, found.lanes, found.contention) == (2, THREADS, 2 * contention)


def test_barriers_count_simdgroups():
    body = """for (uint k = 0; k < 3; ++k) {
            threadgroup_barrier(mem_flags::mem_none);
        }
        y[i] = x[i];"""
    assert line(profiled(body), 3).barriers == 6


def test_header_lines_have_their_own_counts():
    header = "inline float twice(float v) {\n    return v + v;\n}\n"
    profile = profiled("y[i] = twice(x[i]);", header=header)
    (found,) = (one for one in profile.lines if one.part == "header" and one.flops)
    assert (found.line, found.issued["float32"]) == (2, 2)
    assert profile.source["header"][1].strip() == "return v + v;"


def test_registers_grow_with_values_that_stay():
    few = profiled("y[i] = x[i];")
    reads = " ".join(f"float v{k} = x[i + {k}];" for k in range(24))
    sums = " + ".join(f"v{k} * metal::exp(v{23 - k})" for k in range(24))
    many = profiled(f"{reads}\nthreadgroup_barrier(mem_flags::mem_none);\ny[i] = {sums};")
    assert few.registers is not None
    assert many.registers is not None
    assert many.registers >= few.registers + 20
