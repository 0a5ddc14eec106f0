"""``embercoach run --cuda``: its errors, and the report of compute-sanitizer. Needs no GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

#: A program in place of compute-sanitizer, which finds a race and says that it ran.
SANITIZER = """\
#!{python}
import json, os, sys
tool, record = sys.argv[sys.argv.index("--tool") + 1], sys.argv[sys.argv.index("--save") + 1]
assert os.environ["MLX_USE_CUDA_GRAPHS"] == "0"
note = {{
    "function": "ember_custom_kernel_race",
    "kernel": "race",
    "lines": {{"header_lines": 0, "body_start": 5, "body_lines": 2}},
    "body": "t[i] = x[i];\\nout[i] = t[63 - i];",
    "header": "",
    "launched_at": ["model.py", 10],
}}
with open(os.environ["EMBERCOACH_CUDA_LINES"], "w") as file:
    file.write(json.dumps(note) + "\\n")
access = (
    "<thread{{0}}><access>{{1}}</access><where><func>ember_custom_kernel_race</func>"
    "<path>kernel.metal</path><line>{{2}}</line></where></thread{{0}}>"
)
hazard = (
    "<record><kind>Hazard</kind><what><text>Potential RAW hazard detected</text>"
    + access.format(0, "Write", 5) + access.format(1, "Read", 6) + "</what></record>"
)
other = "<record><where><func>some_mlx_kernel</func><line>7</line></where></record>"
with open(record, "w") as file:
    found = 3 * hazard if tool == "racecheck" else ""
    file.write(f"<ComputeSanitizerOutput>{{found}}{{other}}</ComputeSanitizerOutput>")
print(tool, "ran", *sys.argv[-1:])
"""


def run(*words: str, folder: Path, path: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ)
    if path is not None:
        environment["PATH"] = f"{path}{os.pathsep}{environment['PATH']}"
    command = [sys.executable, "-m", "embercoach", "run", *words]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_says_what_cuda_needs(tmp_path):
    done = run("--cuda", "--", "python", "-c", "print('ran')", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("embercoach: this MLX has no CUDA: it needs Linux, an NVIDIA GPU")
    assert "ran" not in done.stdout


def test_says_that_the_driver_is_missing(tmp_path, monkeypatch):
    (tmp_path / "mlx").mkdir()
    (tmp_path / "mlx/__init__.py").touch()
    (tmp_path / "mlx/core.py").write_text("raise ImportError('libcuda.so.1: no such file')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = run("--cuda", "--", "python", "-c", "print('ran')", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        "embercoach: MLX for CUDA cannot be loaded: libcuda.so.1: no such file. It needs NVIDIA's "
        "driver\n"
    )


def test_wants_the_machine_to_be_named(tmp_path):
    done = run("--", "python", "-c", "print('ran')", folder=tmp_path)
    assert done.returncode == 2
    assert "Missing option '--cuda'" in done.stderr


def test_pytest_says_what_cuda_needs(tmp_path):
    (tmp_path / "test_nothing.py").write_text("def test_nothing(): pass\n")
    done = run("--cuda", "--", "pytest", folder=tmp_path)
    assert done.returncode == 4
    assert "--embercoach-cuda: this MLX has no CUDA" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="compute-sanitizer is a shell script here")
def test_reports_what_compute_sanitizer_finds_at_metal_lines(tmp_path):
    script = tmp_path / "bin" / "compute-sanitizer"
    script.parent.mkdir()
    script.write_text(SANITIZER.format(python=sys.executable))
    script.chmod(0o755)
    words = ("--cuda", "--sanitize", "--", "python", "-c", "pass")
    done = run(*words, folder=tmp_path, path=str(script.parent))
    assert done.returncode == 1, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()[:4]] == [
        *("memcheck", "racecheck", "synccheck", "initcheck")
    ]
    assert "threadgroup-race (SIM-RACE-001) in kernel 'race', body line 2" in done.stdout
    assert "    out[i] = t[63 - i];" in done.stdout.splitlines()
    assert "write at body line 1" in done.stdout
    assert done.stdout.endswith("Found 1 finding with compute-sanitizer.\n")


def test_says_that_compute_sanitizer_is_missing(tmp_path, monkeypatch):
    from embercoach.cuda import CudaError, sanitizer

    monkeypatch.setattr(sanitizer.shutil, "which", lambda _: None)
    with pytest.raises(CudaError, match="needs compute-sanitizer of the CUDA toolkit"):
        sanitizer.sanitizer_command("memcheck", ["python"], tmp_path / "r", tmp_path / "n")


def test_the_plugin_imports_no_mlx_before_it_is_asked_to():
    code = "import sys, embercoach.cuda.cuda_plugin; print('mlx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
