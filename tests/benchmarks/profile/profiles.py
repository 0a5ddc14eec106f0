"""Counts of the cases in the simulator: ``python -m tests.benchmarks.profile.profiles``."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import mlx.core as mx
from msgspec import to_builtins
from msgspec.structs import replace

from embercoach.simulator import activate
from embercoach.simulator.profile.counts import (
    BufferCounts,
    LaunchProfile,
    LineCounts,
    MemoryCounts,
    merged_vectors,
)
from tests.benchmarks.profile.case import Case
from tests.benchmarks.profile.cases import cases
from xlstm_kernels.executors.metal import MetalExecutor

#: Seconds of a simulation.
TIMEOUT = 300.0
_TOTALS = ("issued", "lanes", "sectors", "lines64", "lines128", "bank_cycles", "contention")


def profiled(case: Case) -> LaunchProfile:
    """Simulate a case; return the counts of the launch that is timed.

    Raises:
        RuntimeError: if the simulated launch is not one, or MLX refuses it.
    """
    launched = (case.simulated or case.draw)()
    mx.eval(launched.inputs)
    with activate(profile=True, timeout=TIMEOUT) as recorder:
        mx.eval(MetalExecutor().run(launched.kernel, launched.inputs, launched.launch))
    if len(recorder.profiles) != 1:
        raise RuntimeError(f"{case.name} must make one launch, got {len(recorder.profiles)}")
    ended = {finding.kind for finding in recorder.findings} & {"crash", "timeout"}
    if ended:
        raise RuntimeError(f"{case.name} did not end: {ended}")
    return scaled(compact(recorder.profiles[0]), case.scale)


def compact(profile: LaunchProfile) -> LaunchProfile:
    """The same counts as those of one line, without the source."""
    issued: Counter[Any] = Counter()
    lanes: Counter[Any] = Counter()
    for line in profile.lines:
        issued.update(line.issued)
        lanes.update(line.lanes)
    whole = LineCounts(
        "body",
        1,
        dict(issued),
        dict(lanes),
        sum(line.flops for line in profile.lines),
        sum(line.barriers for line in profile.lines),
        tuple(_merged(one for line in profile.lines for one in merged_vectors(line.memory))),
    )
    return replace(profile, lines=(whole,), source={}, launched_at=None)


def _merged(memory: Iterable[MemoryCounts]) -> Iterable[MemoryCounts]:
    found: dict[tuple[object, ...], MemoryCounts] = {}
    for one in memory:
        key = (one.space, one.access, one.buffer, one.width)
        before = found.get(key)
        found[key] = (
            one
            if before is None
            else replace(
                one, **{name: getattr(one, name) + getattr(before, name) for name in _TOTALS}
            )
        )
    return found.values()


def scaled(profile: LaunchProfile, factor: int) -> LaunchProfile:
    """The counts of a launch that does the same `factor` times, on as much more memory."""
    if factor == 1:
        return profile
    lines = [
        replace(
            line,
            issued={kind: factor * count for kind, count in line.issued.items()},
            lanes={kind: factor * count for kind, count in line.lanes.items()},
            flops=factor * line.flops,
            barriers=factor * line.barriers,
            memory=tuple(
                replace(one, **{name: factor * getattr(one, name) for name in _TOTALS})
                for one in line.memory
            ),
        )
        for line in profile.lines
    ]
    sizes = [name for name in BufferCounts.__struct_fields__ if name not in ("name", "space")]
    return replace(
        profile,
        grid=(factor * profile.grid[0], *profile.grid[1:]),
        threadgroups=factor * profile.threadgroups,
        simdgroups=factor * profile.simdgroups,
        lines=tuple(lines),
        buffers=tuple(
            replace(buffer, **{name: factor * getattr(buffer, name) for name in sizes})
            for buffer in profile.buffers
        ),
    )


def record(profile: LaunchProfile) -> dict[str, Any]:
    """As an object of JSON."""
    return to_builtins(profile)


def read(given: dict[str, Any]) -> LaunchProfile:
    """The inverse of `record`, after JSON."""
    lines = [
        LineCounts(**{**line, "memory": tuple(MemoryCounts(**one) for one in line["memory"])})
        for line in given["lines"]
    ]
    return LaunchProfile(
        **{
            **given,
            "grid": tuple(given["grid"]),
            "threadgroup": tuple(given["threadgroup"]),
            "lines": tuple(lines),
            "buffers": tuple(BufferCounts(**buffer) for buffer in given["buffers"]),
        }
    )


def main() -> int:
    """Write the counts of all cases; return 1 if one has none."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.profile.profiles")
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--case", action="append", help="names that contain this; default all")
    options = parser.parse_args()
    mx.set_default_device(mx.cpu)
    known = json.loads(options.json.read_text()) if options.json.exists() else {}
    failed = []
    for name, case in cases().items():
        if options.case and not any(part in name for part in options.case):
            continue
        begin = time.perf_counter()
        try:
            known[name] = record(profiled(case))
        except (RuntimeError, ValueError) as error:
            failed.append(name)
            sys.stdout.write(f"{name}: {str(error)[:300]}\n")
            continue
        sys.stdout.write(f"{name:40} {time.perf_counter() - begin:7.2f} s\n")
        sys.stdout.flush()
        options.json.write_text(json.dumps(known))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
