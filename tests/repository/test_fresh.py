"""What a newcomer does, in environments that hold nothing yet: no mlx, no cache, a clean clone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repository.test_action import CHECK, INSTALL, outputs, play

ROOT = Path(__file__).parents[2]
#: What linting must do without.
HEAVY = {"mlx", "numpy", "torch"}
FAULTY = "import mlx.core as mx\n\n\ndef f(x: mx.array) -> list:\n    return x.tolist()\n"
FAULTY += "\n\ngradient = mx.grad(f)(mx.ones((2,)))\n"

pytestmark = pytest.mark.fresh


def run(*command: str | Path, cwd: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    """Run a command as it runs in a shell of its own: without this environment's packages."""
    foreign = ("GIT_", "PYTHON", "VIRTUAL_ENV")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=inherited | extra,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def git(*arguments: str, cwd: Path) -> None:
    who = ("-c", "user.name=Newcomer", "-c", "user.email=newcomer@example.org")
    result = run("git", *who, *arguments, cwd=cwd)
    assert result.returncode == 0, result.stderr


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean clone: nothing that is ignored, nothing that is not committed."""
    folder = tmp_path_factory.mktemp("clone") / "embercoach"
    git("clone", "--quiet", str(ROOT), str(folder), cwd=folder.parent)
    return folder


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pre-commit makes the environment of the hook."""
    return tmp_path_factory.mktemp("pre-commit")


def run_hook(clone: Path, hooks: Path, project: Path) -> subprocess.CompletedProcess[str]:
    """Run the hook on a project that names the clone, as users name the repository."""
    revision = run("git", "rev-parse", "HEAD", cwd=clone).stdout.strip()
    hook = {"repo": str(clone), "rev": revision, "hooks": [{"id": "embercoach"}]}
    configuration = hooks / "config.yaml"
    configuration.write_text(json.dumps({"repos": [hook]}), encoding="utf-8")
    command = [sys.executable, "-m", "pre_commit", "run", "--config", configuration]
    options = ["--all-files", "--verbose", "--color=never"]
    return run(*command, *options, cwd=project, PRE_COMMIT_HOME=str(hooks))


def installed(environment: Path) -> set[str]:
    python = environment / "bin" / "python"
    listed = run(python, "-m", "pip", "list", "--format=json", cwd=environment)
    return {package["name"] for package in json.loads(listed.stdout)}


def test_the_hook_passes_on_this_project(clone: Path, hooks: Path) -> None:
    result = run_hook(clone, hooks, clone)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Passed" in result.stdout
    assert "All clear" in result.stdout


def test_the_hook_fails_on_a_finding(clone: Path, hooks: Path, tmp_path: Path) -> None:
    (tmp_path / "faulty.py").write_text(FAULTY, encoding="utf-8")
    git("init", "--quiet", cwd=tmp_path)
    git("add", "faulty.py", cwd=tmp_path)
    result = run_hook(clone, hooks, tmp_path)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "faulty.py:5:12: HOST-PULL-001" in result.stdout


def test_the_hook_can_be_tried(clone: Path, tmp_path: Path) -> None:
    """As README says: from a clone, before anything is configured."""
    (tmp_path / "faulty.py").write_text(FAULTY, encoding="utf-8")
    git("init", "--quiet", cwd=tmp_path)
    git("add", "faulty.py", cwd=tmp_path)
    command = [sys.executable, "-m", "pre_commit", "try-repo", clone, "embercoach", "--all-files"]
    result = run(*command, cwd=tmp_path)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "faulty.py:5:12: HOST-PULL-001" in result.stdout


def test_the_environment_of_the_hook_is_small(clone: Path, hooks: Path, tmp_path: Path) -> None:
    (tmp_path / "clear.py").write_text("", encoding="utf-8")
    git("init", "--quiet", cwd=tmp_path)
    git("add", "clear.py", cwd=tmp_path)
    assert run_hook(clone, hooks, tmp_path).returncode == 0
    (environment,) = hooks.glob("*/py_env-*")
    names = installed(environment)
    assert "embercoach" in names
    assert not names & HEAVY


def test_a_newcomer_lints_and_reads_the_report(clone: Path, tmp_path: Path) -> None:
    """README, "Try it" and "Use it", in an environment that holds nothing but pip."""
    project, environment = tmp_path / "project", tmp_path / "environment"
    project.mkdir()
    (project / "faulty.py").write_text(FAULTY, encoding="utf-8")
    assert run(sys.executable, "-m", "venv", environment, cwd=tmp_path).returncode == 0
    python, embercoach = environment / "bin" / "python", environment / "bin" / "embercoach"
    made = run(python, "-m", "pip", "install", "--quiet", ".", cwd=clone)
    assert made.returncode == 0, made.stderr
    assert not installed(environment) & HEAVY
    tried = run(embercoach, "check", "examples/train_classifier.py", cwd=clone)
    assert (tried.returncode, tried.stderr) == (1, "")
    assert tried.stdout.rstrip().splitlines()[-2].startswith("Found ")
    used = run(embercoach, "check", ".", cwd=project)
    assert used.returncode == 1
    assert "HOST-PULL-001" in used.stdout
    assert run(embercoach, "report", "-o", "report.html", ".", cwd=project).returncode == 0
    report = (project / "report.html").read_text(encoding="utf-8")
    assert "HOST-PULL-001" in report
    assert "return x.tolist()" in report


def test_the_action_passes_on_this_project(clone: Path, tmp_path: Path) -> None:
    """Its steps for real: what it installs is the clone, and that is what it checks."""
    made = play(INSTALL, {"python": sys.executable}, tmp_path, SOURCE=str(clone))
    assert made.returncode == 0, made.stderr
    assert not installed(tmp_path / "embercoach") & HEAVY
    result = play(CHECK, {"paths": str(clone)}, tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert outputs(tmp_path)["errors"] == outputs(tmp_path)["warnings"] == "0"
    assert Path(outputs(tmp_path)["sarif-file"]).is_file()
    assert "All clear" in (tmp_path / "GITHUB_STEP_SUMMARY").read_text(encoding="utf-8")
