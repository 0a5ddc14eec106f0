"""Kernels written by hand as the rewriter would emit them, for tests of the runtime alone."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from msgspec.structs import replace

import embercoach.simulator
from embercoach.simulator.build.toolchain import Toolchain
from embercoach.simulator.child_process import Process
from embercoach.simulator.model import (
    Buffer,
    BuiltKernel,
    LaunchParameter,
    LaunchResult,
    Limits,
    SourceMap,
)

_RUNTIME = Path(embercoach.simulator.__file__).parent / "runtime"
_UNIT = """
#include "interface.h"
#define device __attribute__((opencl_global))
#define threadgroup __attribute__((opencl_local))
#define SHARED static __attribute__((section("msltg"), used)) threadgroup
#define PRELUDE static inline __attribute__((always_inline, nodebug, no_sanitize("thread")))
typedef unsigned int uint;
typedef unsigned char uchar;
typedef unsigned long ulong;
typedef _Float16 half;
typedef float float4 __attribute__((ext_vector_type(4)));
PRELUDE int simd_sum(int value) {{
  uint active;
  const unsigned char* lanes = ember_simd_exchange("simd_sum", &value, 4, &active);
  int sum = 0;
  for (int i = 0; i < 32; i++)
    if (active >> i & 1) sum += *(const int*)(lanes + i * EMBER_SLOT);
  return sum;
}}
PRELUDE int simd_shuffle(int value, uint lane) {{
  uint active;
  const unsigned char* lanes = ember_simd_exchange("simd_shuffle", &value, 4, &active);
  if (active >> lane & 1) return *(const int*)(lanes + lane * EMBER_SLOT);
  ember_inactive_lane("simd_shuffle", lane);
  return 0x01010101 * ember_fill();
}}
PRELUDE int quad_sum(int value) {{
  uint active;
  const unsigned char* lanes = ember_quad_exchange("quad_sum", &value, 4, &active);
  int sum = 0;
  for (int i = 0; i < 4; i++)
    if (active >> i & 1) sum += *(const int*)(lanes + i * EMBER_SLOT);
  return sum;
}}
#define RAW static __attribute__((noinline, nodebug, no_sanitize("thread")))
RAW int raw_add(int* where, int value) {{ int old = *where; *where = old + value; return old; }}
RAW int raw_load(int* where) {{ return *(volatile int*)where; }}
RAW void raw_store(int* where, int value) {{ *where = value; }}
template <class P> PRELUDE int atomic_add(P where, int value) {{
  ember_atomic((const void*)where, 4, EMBER_READ | EMBER_WRITE);
  return raw_add((int*)where, value);
}}
template <class P> PRELUDE int atomic_load(P where) {{
  ember_atomic((const void*)where, 4, EMBER_READ);
  return raw_load((int*)where);
}}
template <class P> PRELUDE void atomic_store(P where, int value) {{
  ember_atomic((const void*)where, 4, EMBER_WRITE);
  raw_store((int*)where, value);
}}
#define KERNEL(...) \\
  static __attribute__((noinline)) void kernel( \\
    const ember_thread* self, uint i, uint t, uint g, uint lane, __VA_ARGS__)
{header}
KERNEL({parameters});
extern "C" [[clang::sycl_external]] __attribute__((visibility("default"), no_sanitize("thread")))
void ember_kernel(const ember_thread* self, void* const* buffers) {{
  kernel(self, self->thread_position_in_grid[0], self->thread_index_in_threadgroup,
         self->threadgroup_position_in_grid[0], self->thread_index_in_simdgroup, {arguments});
}}
KERNEL({parameters}) {{
#line 1 "kernel.metal"
{body}
}}
"""


@dataclass(frozen=True, slots=True)
class Bench:
    """Compiles units and launches them.

    Attributes:
        toolchain: that compiles.
        process: that runs.
        folder: of objects.
    """

    toolchain: Toolchain
    process: Process
    folder: Path

    def build(
        self, body: str, buffers: dict[str, Buffer], *, checks: bool = True, header: str = ""
    ) -> BuiltKernel:
        """Compile a body that sees its buffers by name, and ``i``, ``t``, ``g`` and ``lane``."""
        kinds = {name: _kind(buffer) for name, buffer in buffers.items()}
        text = _UNIT.format(
            header=header,
            parameters=", ".join(f"device {kind}* {name}" for name, kind in kinds.items()),
            arguments=", ".join(
                f"(device {kind}*)buffers[{n}]" for n, kind in enumerate(kinds.values())
            ),
            body=body,
        )
        digest = hashlib.sha256(f"{checks}{text}".encode()).hexdigest()[:20]
        target = self.folder / f"{digest}.so"
        if not target.exists():
            self._compile(text, target, checks=checks)
        parameters = tuple(
            LaunchParameter(
                name, kind.removeprefix("const "), "device", "*", "const" in kind, False, n, ""
            )
            for n, (name, kind) in enumerate(kinds.items())
        )
        lines = SourceMap(0, 1, body.count("\n") + 1)
        return BuiltKernel("unit", target, parameters, body, lines, checks)

    def run(
        self,
        body: str,
        *buffers: Buffer,
        grid: tuple[int, int, int] | int = 64,
        threadgroup: tuple[int, int, int] | int = 64,
        checks: bool = True,
        header: str = "",
        limits: Limits | None = None,
    ) -> LaunchResult:
        """Compile and launch."""
        numbered = [replace(buffer, index=n) for n, buffer in enumerate(buffers)]
        named = {buffer.name: buffer for buffer in numbered}
        return self.process.run(
            self.build(body, named, checks=checks, header=header),
            numbered,
            (grid, 1, 1) if isinstance(grid, int) else grid,
            (threadgroup, 1, 1) if isinstance(threadgroup, int) else threadgroup,
            limits=limits or Limits(seconds=20),
        )

    def _compile(self, text: str, target: Path, *, checks: bool) -> None:
        with tempfile.TemporaryDirectory() as folder:
            unit, part = Path(folder) / "unit.cpp", Path(folder) / "unit.o"
            unit.write_text(text)
            compiler, flags = self.toolchain.compiler, self.toolchain.kernel_flags(checks=checks)
            files = ("-I", str(_RUNTIME), "-c", str(unit), "-o", str(part))
            subprocess.run([*compiler, *flags, *files], check=True)
            linker, flags = self.toolchain.linker, self.toolchain.link_flags()
            subprocess.run([*linker, *flags, "-o", str(target), str(part)], check=True)


def given(name: str, values: np.ndarray) -> Buffer:
    """An input."""
    flat = np.ascontiguousarray(values).reshape(-1)
    return Buffer(name, 0, "input", flat.view(np.uint8), flat.itemsize)


def wanted(name: str, count: int, dtype: str = "int32") -> Buffer:
    """An output without a content."""
    kind = np.dtype(dtype)
    return Buffer(
        name, 0, "output", np.empty(count * kind.itemsize, np.uint8), kind.itemsize, False
    )


def begun(name: str, values: np.ndarray) -> Buffer:
    """An output with a content."""
    flat = np.ascontiguousarray(values).reshape(-1)
    return Buffer(name, 0, "output", flat.view(np.uint8), flat.itemsize)


def works(bench: Bench) -> bool:
    """Whether a plain kernel gives its result, and nothing is found."""
    x = np.arange(64, dtype=np.int32)
    result = bench.run("y[i] = x[i] * 2;", given("x", x), wanted("y", 64))
    return result.findings == () and bool((result.outputs[0].view(np.int32) == 2 * x).all())


_KINDS = {1: "uchar", 2: "half", 4: "int", 8: "ulong"}


def _kind(buffer: Buffer) -> str:
    return f"{'const ' if buffer.role != 'output' else ''}{_KINDS[buffer.itemsize]}"


def is_running(pid: int) -> bool:
    """Whether a process does something: those that nobody has collected do not."""
    command = ["ps", "-o", "stat=", "-p", str(pid)]
    state = subprocess.run(command, check=False, capture_output=True, text=True).stdout.strip()
    return bool(state) and not state.startswith("Z")


def ends_soon(pid: int) -> bool:
    """Whether a process ends within seconds, on a busy machine too."""
    deadline = time.monotonic() + 20
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not is_running(pid)
