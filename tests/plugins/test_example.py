"""The package in ``examples/own-rules``, installed by pip into an environment."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "own-rules"
CODE = "ACME-NORM-001"
SOURCE = """\
import mlx.core as mx


def norm(x: mx.array, eps: float) -> mx.array:
    scale = mx.rsqrt(x.square().mean(-1, keepdims=True) + eps)
    other = mx.rsqrt(mx.mean(mx.square(x), -1, keepdims=True) + eps)
    power = mx.rsqrt(eps + (x**2).mean(-1, keepdims=True))
    return x * other + power * x


def no_norm(x: mx.array, y: mx.array) -> mx.array:
    cube = mx.rsqrt(mx.mean(x**3, -1, keepdims=True) + 1)
    return y * mx.rsqrt(mx.mean(mx.square(x), -1, keepdims=True) + 1) + x * cube
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment's interpreter, which also imports what this one does."""
    folder = tmp_path_factory.mktemp("environment")
    builder = venv.EnvBuilder()
    builder.create(folder)
    made = Path(builder.ensure_directories(folder).env_exe)
    asked = [made, "-c", "import site; print(site.getsitepackages()[-1])"]
    site_packages = Path(subprocess.check_output(asked, text=True).strip())
    ours = sysconfig.get_path("purelib")
    (site_packages / "ours.pth").write_text(f"import site; site.addsitedir({ours!r})\n", "utf-8")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    install += ["--no-build-isolation", "--disable-pip-version-check"]
    subprocess.run([*install, "-t", site_packages, EXAMPLE], check=True, timeout=120)
    return made


def run(python: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-m", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_installed_it_is_loaded(python: Path, tmp_path: Path) -> None:
    (tmp_path / "norm.py").write_text(SOURCE, encoding="utf-8")
    done = run(python, tmp_path, "embercoach", "check", "--output-format", "json")
    findings = json.loads(done.stdout)["findings"]
    lines = [one["line"] for one in findings if one["code"] == CODE]
    assert (done.returncode, lines) == (1, [8, 8])
    done = run(python, tmp_path, "embercoach", "rules", "--plugins")
    assert done.stdout.startswith(f"acme-rules 1.0.0: {CODE} (")


def test_a_module_of_the_current_folder_does_not_replace_it(python: Path, tmp_path: Path) -> None:
    (tmp_path / "norm.py").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "acme_rules.py").write_text("raise SystemExit('was run')\n", encoding="utf-8")
    done = run(python, tmp_path, "embercoach", "check", "--no-cache")
    assert CODE in done.stdout
    assert "was run" not in done.stderr


def test_a_simulation_reads_a_configuration_that_names_it(python: Path, tmp_path: Path) -> None:
    (tmp_path / "embercoach.toml").write_text(f'ignore = ["{CODE}"]\n', encoding="utf-8")
    (tmp_path / "program.py").write_text("print('done')\n", encoding="utf-8")
    done = run(python, tmp_path, "embercoach", "simulate", "program.py")
    assert (done.returncode, "done" in done.stdout) == (0, True), done.stderr


def test_its_own_tests_pass(python: Path, tmp_path: Path) -> None:
    options = ("-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path))
    done = run(python, tmp_path, "pytest", *options, str(EXAMPLE / "tests"))
    assert "6 passed" in done.stdout, done.stdout
