"""The gate ``.ci/run``: what it runs, where it stops, and how it finds README's command."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from runpy import run_path

import pytest

ROOT = Path(__file__).parents[2]
HEADING = "Test it"


command_under = run_path(str(ROOT / ".ci" / "readme_command.py"))["command_under"]


@pytest.mark.parametrize(
    "markdown",
    [
        "## Test it\n```sh\npytest -q\n```\n",
        "# A\n```\nnot this\n```\n## Test it\n\nSome words.\n\n```bash\npytest -q\n```\n\n## B\n",
        "## Test it ##\n~~~\npytest -q\n~~~\n",
        "### test IT\n````sh\npytest -q\n````\n```\nnot this\n```\n",
        "```\n## Test it\n```\n## Test it\n```\npytest -q\n```\n",
    ],
)
def test_finds_the_block_under_the_heading(markdown: str) -> None:
    assert command_under(markdown, HEADING) == "pytest -q"


def test_a_block_keeps_its_lines_and_its_comments() -> None:
    markdown = "## Test it\n```sh\n# first\npip install . &&\n  pytest\n```\n"
    assert command_under(markdown, HEADING) == "# first\npip install . &&\n  pytest"


@pytest.mark.parametrize(
    ("markdown", "message"),
    [
        ("# Nothing\n```\npytest\n```\n", "no heading 'Test it'"),
        ("## Test it\nwords\n## Else\n```\npytest\n```\n", "no fenced code block under"),
        ("## Test it\n```\npytest\n", "no fenced code block under"),
        ("## Test it\n```\n\n```\n", "is empty"),
        ("## Test it now\n```\npytest\n```\n", "no heading 'Test it'"),
    ],
)
def test_says_what_is_missing(markdown: str, message: str) -> None:
    with pytest.raises(LookupError, match=message):
        command_under(markdown, HEADING)


def test_readme_installs_and_tests() -> None:
    command = command_under((ROOT / "README.md").read_text(encoding="utf-8"), HEADING)
    assert "pip install" in command
    assert "pytest" in command


# A stand-in for the interpreter: it makes an empty environment, and passes all else on.
PYTHON = f"""#!/bin/sh
if [ "$1 $2" = "-m venv" ]; then mkdir -p .venv-ci/bin && : >.venv-ci/bin/activate
elif [ "$1 $2" = "-m tests.fuzz" ]; then echo python "$@" >>calls
elif [ "$1 $2" = "-m tests.accuracy.corpus" ]; then
    echo fetched
    case "$FAIL" in fetching) exit 1 ;; esac
else exec {sys.executable} "$@"; fi
"""
REFERENCES = "mlstm_kernels==2.0.6 xlstm==2.0.6 flashrnn==1.0.8"
HAS_ORACLES = sys.version_info >= (3, 11)
HAS_PACKAGES = HAS_ORACLES and sys.platform == "linux"
HAS_ATHERIS = (sys.platform, platform.machine()) == ("linux", "x86_64") and (
    sys.version_info < (3, 14)
)
EXTRAS = ",".join(["oracles"] * HAS_ORACLES + ["fuzz"] * HAS_ATHERIS)
INSTALLS = [
    *([f"pip install -q -e .[{EXTRAS}]"] if EXTRAS else []),
    *([f"pip install -q --no-deps {REFERENCES}"] if HAS_ORACLES else []),
    *(["pip install -q --no-deps mlx-vlm==0.7.10 mlx-audio==0.6.2"] if HAS_PACKAGES else []),
]
FUZZING = ["python -m tests.fuzz --seconds 8 --jobs 2"] if HAS_ATHERIS else []
LEFT_OUT = (
    "pytest -q -n auto --dist loadgroup --hypothesis-profile thorough "
    "-m exhaustive or corpus or docs or (generated and not metal and not browser)"
    + " or oracle"
    * HAS_ORACLES
)
SITE = "mkdocs build --strict -q -f .mkdocs.yml"
SUMMARY = "======== 3 passed, 1 skipped in 0.12s ========"


def executable(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with the gate, a README, and stand-ins for the tools that note their calls."""
    (tmp_path / ".ci").mkdir()
    for name in ("run", "readme_command.py"):
        text = (ROOT / ".ci" / name).read_text(encoding="utf-8")
        (tmp_path / ".ci" / name).write_text(text, encoding="utf-8")
    write_readme(tmp_path, f"echo tests >>calls; echo '{SUMMARY}'")
    for tool in ("pip", "pytest", "ruff", "mypy", "mkdocs", "embercoach"):
        executable(
            tmp_path / "bin" / tool,
            f'#!/bin/sh\necho {tool} "$@" >>calls\ncase "$FAIL" in {tool}) exit 1;; esac\n',
        )
    executable(tmp_path / "bin" / "python", PYTHON)
    return tmp_path


def write_readme(checkout: Path, command: str) -> None:
    text = f"# X\n\n## {HEADING}\n```sh\n{command}\n```\n"
    (checkout / "README.md").write_text(text, encoding="utf-8")


def run_gate(checkout: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    inherited = {k: v for k, v in os.environ.items() if k not in {"GITHUB_ACTIONS", "FAIL"}}
    path = f"{checkout / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", str(checkout / ".ci" / "run")],
        env=inherited | {"PATH": path, "PYTHON": "python", "CI": "true"} | extra,
        cwd=checkout.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def calls(checkout: Path) -> list[str]:
    return (checkout / "calls").read_text(encoding="utf-8").splitlines()


def test_the_gate_runs_everything_and_ends_with_the_summary(checkout: Path) -> None:
    result = run_gate(checkout)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines()[-1] == SUMMARY
    called = calls(checkout)
    called.remove("mypy")  # beside pip, as the next one
    called.remove("mypy --config-file .ci/mypy_windows.toml")
    assert called == [
        "tests",
        "ruff format --check",
        "ruff check",
        *INSTALLS,
        LEFT_OUT,
        SITE,
        "embercoach check .",
        "embercoach check --profile ember xlstm_kernels",
        *FUZZING,
    ]
    assert ("Nothing is fuzzed" in result.stdout) == (not FUZZING)


@pytest.mark.parametrize(
    ("tool", "last", "step"),
    [
        ("ruff", "ruff format --check", "ruff format --check"),
        ("mypy", ["mypy", *INSTALLS][-1], "mypy"),
        ("fetching", ["mypy", *INSTALLS][-1], "packages from PyPI"),
        ("pytest", LEFT_OUT, LEFT_OUT),
        ("mkdocs", SITE, SITE),
        ("embercoach", "embercoach check .", "embercoach check ."),
    ],
)
def test_the_gate_stops_at_the_first_failure(
    tool: str, last: str, step: str, checkout: Path
) -> None:
    result = run_gate(checkout, FAIL=tool)
    assert result.returncode == 1
    assert calls(checkout)[-1] == last
    assert f"GATE FAILED at: {step} (exit 1)" in result.stderr


def test_failing_tests_fail_the_gate(checkout: Path) -> None:
    write_readme(checkout, "echo tests >>calls; echo '== 1 failed, 2 passed in 1.00s =='; exit 1")
    result = run_gate(checkout)
    assert result.returncode == 1
    assert calls(checkout) == ["tests"]
    assert "GATE FAILED" in result.stderr


def test_a_readme_command_that_tests_nothing_fails_the_gate(checkout: Path) -> None:
    write_readme(checkout, "echo installed")
    result = run_gate(checkout)
    assert result.returncode != 0
    assert "GATE FAILED at: the summary of README's tests" in result.stderr


def test_a_readme_without_the_command_fails_the_gate(checkout: Path) -> None:
    (checkout / "README.md").write_text("# X\n", encoding="utf-8")
    result = run_gate(checkout)
    assert result.returncode == 2
    assert "README.md: no heading 'Test it'" in result.stderr


def test_a_wrong_interpreter_is_named(checkout: Path) -> None:
    result = run_gate(checkout, PYTHON="no-such-python")
    assert result.returncode != 0
    assert "no Python 3.10 or newer found; tried: no-such-python" in result.stderr


def test_workflow_logs_are_grouped(checkout: Path) -> None:
    result = run_gate(checkout, GITHUB_ACTIONS="true")
    assert (
        result.stdout.count("::group::")
        == result.stdout.count("::endgroup::")
        == 10 + len(INSTALLS) + len(FUZZING)
    )


PARTED = """
import pytest

seen = []

@pytest.mark.parametrize("case", range(40))
def test_case(case, tmp_path):
    seen.append(case)

def test_the_last_sees_all():
    assert len(seen) == 40
"""


def test_a_module_of_parted_tests_runs_on_one_worker(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    conftest = ROOT / "tests" / "conftest.py"
    plugin = request.config.pluginmanager.get_plugin(str(conftest))
    assert [module for module in plugin.ON_ONE_WORKER if not (ROOT / module).is_file()] == []
    module = tmp_path / min(plugin.ON_ONE_WORKER)
    module.parent.mkdir(parents=True)
    module.write_text(PARTED)
    (tmp_path / "tests" / "conftest.py").write_text(conftest.read_text())
    (tmp_path / "pyproject.toml").write_text("[tool.pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "41 passed" in done.stdout, done.stdout
