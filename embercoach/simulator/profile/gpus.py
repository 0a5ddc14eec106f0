"""Published figures of the GPUs that a profile is compared with, each with its source.

`None` is a figure of a GPU that no source gives. Of a family, waits and rates that no source gives
are fitted to times of an H200 (`tests.benchmarks.profile.calibrate`), and estimates for Apple GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from embercoach.simulator.profile.counts import Kind

_KIB, _MIB = 1 << 10, 1 << 20
#: Clocks, caches, registers and instruction throughputs of M1 and M2, measured.
_BENCHMARKS = "https://github.com/philipturner/metal-benchmarks"
_HOPPER = "https://resources.nvidia.com/en-us-hopper-architecture/nvidia-h100-tensor-c"
_H200 = "https://www.nvidia.com/en-us/data-center/h200/"


class Family(Struct, frozen=True):
    """The figures that GPUs of one architecture share, for each core.

    Attributes:
        threads: most threads at once.
        groups: most threadgroups at once.
        registers: 32-bit registers.
        threadgroup_bytes: threadgroup memory.
        cycles: of a core for one instruction of a simdgroup, by kind.
        latency: cycles until the next instruction can follow, by kind: those of a dependent one,
            less what others of the simdgroup hide; `memory` without the wait for the value.
        core_wait: cycles until a read of device memory has its value from a core's own cache.
        cache_wait: likewise from the cache that all cores share.
        device_wait: likewise from memory.
        requests: reads of device memory that one simdgroup has under way at once.
        ordered: part of writes and barriers that a later read waits for.
        threadgroup_wait: cycles of an access to threadgroup memory without conflicts.
        barrier_wait: cycles of a threadgroup barrier.
        read_cycles: of a core for each stretch of 128 bytes that it reads from the shared cache.
        write_cycles: likewise for those that it writes.
        partial_write: what a write costs that fills a part of a stretch of 32 bytes, in parts of a
            whole one.
        line_cycles: of a core for each stretch of 128 bytes that a simdgroup's access touches.
        start_cycles: of a core to start a threadgroup.
        atomic_seconds: between two atomics in the same part of the cache.
        atomic_parts: of the cache, which work at the same time.
        launch_seconds: between two launches that depend on each other.
        reached: part of the published memory bandwidth that a plain copy reaches.
        sharpness: the exponent of the norm that adds the times of resources.
        source: of the figures.
    """

    threads: int
    groups: int
    registers: int
    threadgroup_bytes: int
    cycles: Mapping[Kind, float]
    latency: Mapping[Kind, float]
    core_wait: float
    cache_wait: float
    device_wait: float
    requests: float
    ordered: float
    threadgroup_wait: float
    barrier_wait: float
    read_cycles: float
    write_cycles: float
    partial_write: float
    line_cycles: float
    start_cycles: float
    atomic_seconds: float
    atomic_parts: float
    launch_seconds: float
    reached: float
    sharpness: float
    source: str


class Gpu(Struct, frozen=True):
    """One GPU.

    Attributes:
        name: as users write it.
        cores: most that it is sold with.
        bandwidth: bytes a second of its memory.
        clock: cycles a second; None where unknown.
        cache: bytes of the last cache that all cores share; None where unknown.
        family: what it has in common with others.
        source: of cores and bandwidth.
        cache_bandwidth: bytes a second of that cache; None where unknown.
    """

    name: str
    cores: int
    bandwidth: float
    clock: float | None
    cache: int | None
    family: Family
    source: str
    cache_bandwidth: float | None = None

    @property
    def flops(self) -> float | None:
        """Float32 operations a second, 128 fused multiply-adds a cycle and core."""
        return None if self.clock is None else 256 * self.cores * self.clock


_APPLE = Family(
    threads=3072,
    groups=96,
    registers=208 * _KIB // 4,
    threadgroup_bytes=60 * _KIB,
    cycles={
        "float32": 0.25,
        "float16": 0.25,
        "special": 1.0,
        "division": 2.0,
        "convert": 1.0,
        "matrix": 5.0,
        "shuffle": 0.5,
        "integer": 0.25,
        "integer64": 1.0,
        "division_integer": 8.0,
        "control": 0.25,
        "memory": 0.5,
    },
    latency={
        "float32": 4.0,
        "float16": 3.0,
        "special": 6.0,
        "division": 14.0,
        "convert": 5.0,
        "matrix": 20.0,
        "shuffle": 8.0,
        "integer": 4.0,
        "integer64": 8.0,
        "division_integer": 40.0,
        "control": 4.0,
        "memory": 30.0,
    },
    core_wait=40.0,
    cache_wait=200.0,
    device_wait=400.0,
    requests=4.0,
    ordered=0.5,
    threadgroup_wait=30.0,
    barrier_wait=30.0,
    read_cycles=2.0,
    write_cycles=4.0,
    partial_write=0.3,
    line_cycles=2.0,
    start_cycles=100.0,
    atomic_seconds=1e-9,
    atomic_parts=16,
    launch_seconds=5e-6,
    reached=0.85,
    sharpness=3.0,
    source=_BENCHMARKS,
)

# Fitted to times of an H200: `docs/profile-validation.md`. No case has float16 or matrices.
_NVIDIA = Family(
    threads=2048,
    groups=32,
    registers=65536,
    threadgroup_bytes=228 * _KIB,
    cycles={
        "float32": 0.25,
        "float16": 0.25,
        "special": 2.2,
        "division": 2.6,
        "convert": 0.58,
        "matrix": 6.0,
        "shuffle": 0.43,
        "integer": 0.11,
        "integer64": 0.26,
        "division_integer": 5.1,
        "control": 0.098,
        "memory": 0.29,
    },
    latency={
        "float32": 3.7,
        "float16": 5.0,
        "special": 25.0,
        "division": 41.0,
        "convert": 5.0,
        "matrix": 60.0,
        "shuffle": 20.0,
        "integer": 1.5,
        "integer64": 2.2,
        "division_integer": 43.0,
        "control": 1.0,
        "memory": 1.1,
    },
    core_wait=49.0,
    cache_wait=250.0,
    device_wait=320.0,
    requests=7.1,
    ordered=0.39,
    threadgroup_wait=18.0,
    barrier_wait=32.0,
    read_cycles=4.0,
    write_cycles=4.0,
    partial_write=0.53,
    line_cycles=1.0,
    start_cycles=160.0,
    atomic_seconds=0.56e-9,
    atomic_parts=96,
    launch_seconds=0.81e-6,
    reached=0.95,
    sharpness=2.1,
    source=_HOPPER,
)


def _apple(
    name: str, cores: int, gigabytes: float, clock: float | None, cache: int | None, source: str
) -> Gpu:
    size = None if cache is None else cache * _MIB
    speed = None if clock is None else clock * 1e9
    return Gpu(name, cores, gigabytes * 1e9, speed, size, _APPLE, source)


_CHIPS = "https://gist.github.com/kellyshephard"
_M1 = "https://www.frontpagetech.com/2021/10/18/apple-announces-new-m1-pro-and-m1-max-chips-worst-naming-ever/"
_M1_ULTRA = (
    "https://www.notebookcheck.net/Apple-M1-Ultra-revealed-with-UltraFusion-architecture-a-20-core-CPU-"
    "and-up-to-a-64-core-GPU.607117.0.html"
)
_M2 = "https://technewsboy.com/apple-unveils-m2-pro-and-m2-max-processor-for-mac-devices-times-of-india"
_M2_ULTRA = (
    "https://propakistani.pk/2023/06/06/apple-m2-ultra-chip-unveiled-for-mac-pro-and-mac-studio/"
)
_M3 = "https://abachy.com/news/apples-m3-series-chips-enhanced-performance-and-advanced-gpus"
_M3_PRO = "https://www.macrumors.com/2023/10/31/apple-m3-pro-less-memory-bandwidth/"
_M3_ULTRA = "https://inforeader.com/i/?a=reader&rid=67c916097fa95&search=%23m3%2Bultra"
_M4 = "https://mactrast.com/?p=168123"
_M4_MAX = "https://sianzzz.com/apple-announces-m4-max-chip-debuting-on-the-macbook-pro"
_M5 = "https://www.fonearena.com/blog/466700/apple-m5-specs-features.html"
_M5_MAX = "https://www.lowyat.net/2026/385170/apple-m5-pro-m5-max"

#: Sources are reports of Apple's announcements; clocks and caches of M1 and M2 are those of
#: `metal-benchmarks`.
GPUS: Mapping[str, Gpu] = {
    gpu.name: gpu
    for gpu in (
        _apple("M1", 8, 68.25, 1.278, 8, _CHIPS),
        _apple("M1 Pro", 16, 200, 1.296, 24, _M1),
        _apple("M1 Max", 32, 400, 1.296, 48, _M1),
        _apple("M1 Ultra", 64, 800, 1.296, 96, _M1_ULTRA),
        _apple("M2", 10, 100, 1.398, 8, _M3),
        _apple("M2 Pro", 19, 200, 1.398, 24, _M2),
        _apple("M2 Max", 38, 400, 1.398, 48, _M2),
        _apple("M2 Ultra", 76, 800, None, None, _M2_ULTRA),
        _apple("M3", 10, 100, None, None, _M3),
        _apple("M3 Pro", 18, 150, None, None, _M3_PRO),
        _apple("M3 Max", 40, 400, None, None, _M3_PRO),
        _apple("M3 Ultra", 80, 819, None, None, _M3_ULTRA),
        _apple("M4", 10, 120, None, None, _M4),
        _apple("M4 Pro", 20, 273, None, None, _M4_MAX),
        _apple("M4 Max", 40, 546, None, None, _M4_MAX),
        _apple("M5", 10, 153, None, None, _M5),
        _apple("M5 Pro", 20, 307, None, None, _M5_MAX),
        _apple("M5 Max", 40, 614, None, None, _M5_MAX),
        Gpu("H200", 132, 4.8e12, 1.98e9, 50 * _MIB, _NVIDIA, _H200, 5.5e12),
    )
}
#: The one that a profile is compared with if none is named.
DEFAULT = "M2 Max"
