"""Bytes that launches read and write, counted exactly."""

from __future__ import annotations

import sys

import mlx.core as mx
import pytest

from embercoach.simulator import Limits, SimulatedLaunch, Traffic, activate
from tests.simulator.evaluation import launch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the simulator is tested on Linux")

I = "uint i = thread_position_in_grid.x;\n"  # noqa: E741  (what every body begins with)


def traffic_of(
    body: str,
    inputs: list[mx.array],
    shape: tuple[int, ...],
    dtype: mx.Dtype = mx.float32,
    *,
    threads: int,
    checks: bool = True,
    faults: tuple[str, ...] = (),
    limits: Limits | None = None,
    **call: object,
) -> SimulatedLaunch:
    """Run a body whose inputs are a, b, ... and whose output is `o`."""
    with activate(checks=checks, limits=limits or Limits()) as recorder:
        given = dict(zip("ab", inputs, strict=False))
        launch(I + body, given, {"o": (shape, dtype)}, threads=threads, threadgroup=32, **call)
    assert tuple(finding.kind for finding in recorder.findings) == faults
    (made,) = recorder.launches
    return made


@pytest.mark.parametrize(
    ("body", "read", "output"),
    [
        ("o[i] = a[i];", 256, (0, 256)),
        # Of one element by all threads, as a cache would not show it.
        ("o[i] = a[0] + a[i];", 512, (0, 256)),
        ("if (i < 10) { o[i] = a[i]; } else { o[i] = 1.0f; }", 40, (0, 256)),
        ("o[i] = a[i]; for (int k = 0; k < 3; ++k) { o[i] += a[i]; }", 1024, (768, 1024)),
        ("if (i < 16) ((device float4*)o)[i] = ((const device float4*)a)[i];", 256, (0, 256)),
        (
            (
                "threadgroup float tile[32]; float own[4];"
                "for (uint k = 0; k < 4; ++k) { own[(k + i) % 4] = k; }"
                "tile[i % 32] = a[i] + own[i % 4]; threadgroup_barrier(mem_flags::mem_threadgroup);"
                "o[i] = tile[31 - i % 32];"
            ),
            256,
            (0, 256),
        ),
    ],
    ids=["copy", "shared", "some", "again", "vectors", "threadgroup"],
)
def test_bytes_are_counted_for_each_thread(body, read, output):
    made = traffic_of(body, [mx.ones((64,))], (64,), threads=64)
    assert made.traffic == {"a": Traffic("device", read, 0), "o": Traffic("device", *output)}
    assert made.device_bytes == read + sum(output)
    assert made.accesses > 0


@pytest.mark.parametrize("dtype", [mx.float16, mx.complex64], ids=str)
def test_a_copy_reads_and_writes_each_element_once(dtype):
    made = traffic_of("o[i] = a[i];", [mx.ones((100,), dtype)], (100,), dtype, threads=100)
    size = 100 * dtype.size
    assert made.traffic == {"a": Traffic("device", size, 0), "o": Traffic("device", 0, size)}


def test_scalars_small_inputs_and_shapes_are_constants():
    body = "o[i] = a[i % 3] + b + a_shape[0];"
    made = traffic_of(body, [mx.ones((3,)), mx.array(2.0)], (40,), threads=40)
    assert made.traffic == {
        "a": Traffic("constant", 160, 0),
        "a_shape": Traffic("constant", 160, 0),
        "b": Traffic("constant", 160, 0),
        "o": Traffic("device", 0, 160),
    }
    assert made.device_bytes == 160


@pytest.mark.parametrize(
    ("operation", "counts"),
    [
        ("atomic_store_explicit(&o[i], 1u, memory_order_relaxed);", (0, 256)),
        ("if (atomic_load_explicit(&o[i], memory_order_relaxed)) return;", (256, 0)),
        ("atomic_exchange_explicit(&o[i], 1u, memory_order_relaxed);", (256, 256)),
    ],
)
def test_atomics_count_what_they_do(operation, counts):
    arguments = {"build": {"atomic_outputs": True}, "init_value": 0}
    made = traffic_of(operation, [mx.ones((8,))], (64,), mx.uint32, threads=64, **arguments)
    assert made.traffic["o"] == Traffic("device", *counts)


def test_unaligned_accesses_count():
    body = """
    float value = *(const device float*)((const device uchar*)a + i);
    *(device float*)((device uchar*)o + 6 * i + 1) = value;
    """
    made = traffic_of(
        body,
        [mx.ones((40,), mx.uint8)],
        (64,),
        mx.uint8,
        threads=10,
        faults=("misaligned-access", "misaligned-access"),
        init_value=0,
    )
    assert made.traffic == {"a": Traffic("device", 40, 0), "o": Traffic("device", 0, 40)}


def test_accesses_outside_do_not_count():
    body = "o[i] = a[i + 60];"
    made = traffic_of(body, [mx.ones((64,))], (64,), threads=64, faults=("out-of-bounds",))
    assert made.traffic == {"a": Traffic("device", 16, 0), "o": Traffic("device", 0, 256)}


def test_a_race_counts_as_what_is_accessed():
    """Its value is awaited, and with that every access takes the long way."""
    body = "o[i / 2] = a[i];"
    made = traffic_of(body, [mx.arange(64.0)], (32,), threads=64, faults=("device-race",))
    assert made.traffic == {"a": Traffic("device", 256, 0), "o": Traffic("device", 0, 256)}


def test_lanes_in_step_count_once():
    """Such a launch is run anew: the traffic is that of the run that gave the result."""
    body = """
    o[i] = a[i];
    float other = o[i ^ 1];
    o[i] = other;
    """
    made = traffic_of(body, [mx.ones((32,))], (32,), threads=32)
    assert {note.kind for note in made.notes} == {"lane-synchronous"}
    assert made.traffic == {"a": Traffic("device", 128, 0), "o": Traffic("device", 128, 256)}


def test_a_launch_without_threads_moves_nothing():
    made = traffic_of("o[i] = a[i];", [mx.ones((8,))], (0,), threads=0)
    assert made.traffic == {"a": Traffic("device", 0, 0), "o": Traffic("device", 0, 0)}


@pytest.mark.parametrize("threads", [0, 8])
def test_without_checks_nothing_counts(threads):
    made = traffic_of("o[i] = a[i];", [mx.ones((8,))], (threads,), threads=threads, checks=False)
    assert made.traffic == {}
    assert made.device_bytes == 0


def test_a_run_that_is_stopped_has_counted_until_then():
    body = "if (i == 0) { o[0] = 0.0f; while (o[0] < 1.0f) { o[0] = 0.5f * a[0]; } }"
    made = traffic_of(
        body, [mx.ones((8,))], (1,), threads=8, limits=Limits(seconds=0.1), faults=("timeout",)
    )
    # Wherever it was stopped, between two of its accesses.
    assert 0 <= made.traffic["o"].read - made.traffic["a"].read <= 4
    assert 0 <= made.traffic["a"].read + 4 - made.traffic["o"].written <= 4
    assert made.traffic["a"].read > 4000
