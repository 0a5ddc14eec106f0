"""Programs that launch kernels, for the tests of what runs programs: plugin, command, runner."""

from __future__ import annotations

import os
import subprocess
from importlib.metadata import entry_points
from pathlib import Path

from tests.processes import run_python

ROOT = Path(__file__).parents[2]
PLUGIN = "embercoach.simulator.pytest_plugin"

#: `turn` has a race on line 6 of its body; `length` deserves a note, on its line 4.
KERNELS = '''\
import mlx.core as mx

turn = mx.fast.metal_kernel(
    name="turn",
    input_names=["x"],
    output_names=["y"],
    source="""
        threadgroup float tile[64];
        uint t = thread_position_in_threadgroup.x;
        tile[t] = x[t];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        tile[t] = tile[63 - t];  // RACE
        y[t] = tile[t];
    """,
)
length = mx.fast.metal_kernel(
    name="length",
    input_names=["x"],
    output_names=["y"],
    source="""
        uint t = thread_position_in_threadgroup.x;
        if (t > 0) y[t] = x[t];
        y[0] = 64.0f;  // SAME
    """,
)
double = mx.fast.metal_kernel(
    name="double",
    input_names=["x"],
    output_names=["y"],
    source="uint i = thread_position_in_grid.x; y[i] = x[i] + x[i];",
)


def launch(kernel, x=None):
    x = mx.ones((64,)) if x is None else x
    (y,) = kernel(
        inputs=[x],
        grid=(64, 1, 1),
        threadgroup=(64, 1, 1),
        output_shapes=[(64,)],
        output_dtypes=[mx.float32],
    )
    mx.eval(y)
    return y
'''


def kernels_in(folder: Path) -> Path:
    """Put the kernels into a folder, as the module ``kernels``."""
    (folder / "kernels.py").write_text(KERNELS, encoding="utf-8")
    return folder


def python(
    *arguments: str, cwd: Path, env: dict[str, str] | None = None, fresh: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder, with this checkout on its path."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    clean = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "PYTEST_ADDOPTS")}
    environment = {**clean, "PYTHONPATH": path, "COLUMNS": "120", **(env or {})}
    return run_python(*arguments, cwd=cwd, env=environment, fresh=fresh)


def plugin() -> str:
    """What pytest knows our plugin by: an entry point's name, or the module where there is none."""
    installed = (e.name for e in entry_points(group="pytest11") if e.value == PLUGIN)
    return next(installed, PLUGIN)


def pytest(*arguments: str, cwd: Path, fresh: bool = False) -> subprocess.CompletedProcess[str]:
    """Run pytest in a folder with our plugin alone, as installed or as it lies here."""
    # In a fork, EmberCoach is imported before pytest can rewrite its assertions.
    options = (
        "-p",
        plugin(),
        "-p",
        "no:cacheprovider",
        "-Wignore::pytest.PytestAssertRewriteWarning",
    )
    env = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return python("-m", "pytest", *options, *arguments, cwd=cwd, env=env, fresh=fresh)
