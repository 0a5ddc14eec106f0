"""The machine that kernels really run on: a compiler, and a child process for the compiled code."""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING

from embercoach.simulator.build import objects
from embercoach.simulator.build.toolchain import find_toolchain
from embercoach.simulator.process.child_process import Process

if TYPE_CHECKING:
    from collections.abc import Sequence

    from embercoach.simulator.build.toolchain import Toolchain
    from embercoach.simulator.model import Buffer, BuiltKernel, LaunchResult, Limits
    from embercoach.simulator.session.capture import Capture, Extent


class LocalRunner:
    """Compiles each text once, and runs one launch at a time, from whatever thread."""

    def __init__(self, toolchain: Toolchain) -> None:
        self._toolchain = toolchain
        self._process = Process(toolchain)
        self._lock = threading.Lock()
        self._built: dict[tuple[str, str, str, bool, bool], BuiltKernel] = {}

    def build(
        self, captured: Capture, *, checks: bool, limits: Limits, profile: bool = False
    ) -> BuiltKernel:
        """Compile what MLX generated, or find what was made of the same text before."""
        definition = captured.definition
        key = (definition.name, captured.source, captured.math_mode, checks, profile)
        with self._lock:
            if key not in self._built:
                self._built[key] = objects.build(
                    captured.source,
                    definition.name,
                    definition.body,
                    definition.header,
                    checks=checks,
                    profile=profile,
                    toolchain=self._toolchain,
                    math_mode=captured.math_mode,
                    seconds=limits.seconds,
                )
            return self._built[key]

    def run(
        self,
        kernel: BuiltKernel,
        bound: Sequence[Buffer],
        grid: Extent,
        threadgroup: Extent,
        *,
        limits: Limits,
    ) -> LaunchResult:
        """Run every thread in the child process."""
        return self._process.run(kernel, bound, grid, threadgroup, limits=limits)


@functools.cache
def host(toolchain: Toolchain | None) -> LocalRunner:
    """The machine of a compiler, one for the whole process."""
    return LocalRunner(toolchain or find_toolchain())
