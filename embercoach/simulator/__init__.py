"""Runs Metal kernels on a CPU, from the source that MLX generates, and checks them.

    from embercoach import simulator

    with simulator.activate() as recorder:
        ...  # code that builds and calls mx.fast.metal_kernel kernels
    for finding in recorder.findings:
        print(simulator.report(finding))

Nothing of MLX or NumPy is imported before it is needed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from embercoach.simulator.model import (
        CODE_OF_KIND,
        KernelFinding,
        Limits,
        SimulatorError,
        Traffic,
    )
    from embercoach.simulator.reporting.messages import report
    from embercoach.simulator.session.activation import activate, is_active
    from embercoach.simulator.session.record import KernelFault, Recorder, SimulatedLaunch

_HOMES = {
    "activate": "session.activation",
    "is_active": "session.activation",
    "CODE_OF_KIND": "model",
    "KernelFinding": "model",
    "Limits": "model",
    "SimulatorError": "model",
    "Traffic": "model",
    "KernelFault": "session.record",
    "SimulatedLaunch": "session.record",
    "Recorder": "session.record",
    "report": "reporting.messages",
}

__all__ = [
    "CODE_OF_KIND",
    "KernelFault",
    "KernelFinding",
    "Limits",
    "Recorder",
    "SimulatedLaunch",
    "SimulatorError",
    "Traffic",
    "activate",
    "is_active",
    "report",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in {"mlx", "numpy"}:
            raise
        from embercoach.installation import install_command
        from embercoach.simulator.model import require_unix

        require_unix()
        raise ImportError(
            f"the simulator needs {error.name}, which is not installed; "
            f"install it with: {install_command('simulator')}"
        ) from error


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
