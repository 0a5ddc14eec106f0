"""The gate `.ci/run`: what it runs, where it stops, and how it finds README's command."""

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


# A stand-in for the interpreter: it makes an empty environment, and passes on the rest.
PYTHON = f"""#!/bin/sh
if [ "$1 $2" = "-m venv" ]; then mkdir -p .venv-ci/bin && : >.venv-ci/bin/activate
elif [ "$1 $2" = "-m tests.fuzz" ]; then echo python "$@" >>calls
elif [ "$1 $2" = "-m tests.accuracy.corpus" ]; then case "$FAIL" in corpus) exit 1 ;; esac
else exec {sys.executable} "$@"; fi
"""
HAS_ORACLES = sys.version_info >= (3, 11)
HAS_ATHERIS = (sys.platform, platform.machine()) == ("linux", "x86_64") and (
    sys.version_info < (3, 14)
)
EXTRAS = ",".join(["dev"] + ["oracles"] * HAS_ORACLES + ["fuzz"] * HAS_ATHERIS)
SAMPLE = (
    "pytest -q -n auto --dist loadgroup --hypothesis-profile thorough --sample-seconds 185 "
    "--sample-seed 7 -m dev or exhaustive or corpus or docs or "
    "(generated and not metal and not browser)" + " or oracle" * HAS_ORACLES
)
SITE = "mkdocs build --strict -q -f .mkdocs.yml"
FUZZ = "python -m tests.fuzz --seconds 8 --jobs 2"
#: In the background, in this order.
STATIC = [
    "ruff format --check",
    "ruff check",
    "mypy",
    "mypy --config-file .ci/mypy_windows.toml",
    "embercoach check .",
    "embercoach check --profile ember xlstm_kernels",
]
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
    chosen = {"PATH": path, "PYTHON": "python", "CI": "true", "SAMPLE_SEED": "7"}
    return subprocess.run(
        ["bash", str(checkout / ".ci" / "run")],
        env=inherited | chosen | extra,
        cwd=checkout.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def calls(checkout: Path) -> list[str]:
    return (checkout / "calls").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("forge", [{}, {"GITHUB_ACTIONS": "true"}], ids=["here", "on GitHub"])
def test_the_gate_runs_everything_and_ends_with_the_summary(
    checkout: Path, forge: dict[str, str]
) -> None:
    result = run_gate(checkout, **forge)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines()[-1] == SUMMARY
    called = calls(checkout)
    assert called[:2] == ["tests", "pip install -q embercoach[dev]"]
    assert [call for call in called if call in STATIC] == STATIC
    *installed, site = [call for call in called[2:] if call.startswith(("pip", "mkdocs"))]
    assert site == SITE
    assert installed[0] == f"pip install -q embercoach[{EXTRAS}]"
    assert [call.split()[3:6] for call in installed[1:]] == (
        [["--no-deps", "mlstm_kernels==2.0.6", "xlstm==2.0.6"]] * HAS_ORACLES
    )
    assert called[3 + len(STATIC) + len(installed) :] == [SAMPLE] + [FUZZ] * HAS_ATHERIS
    if forge:
        assert result.stdout.count("::group::") == result.stdout.count("::endgroup::") > 10


@pytest.mark.parametrize(
    ("failing", "step"),
    [
        ("ruff", "ruff format --check"),
        ("corpus", "python -m tests.accuracy.corpus"),
        ("pytest", SAMPLE.replace("-m dev", "-m 'dev").split(" -m ")[0]),
        ("mkdocs", SITE),
    ],
)
def test_a_failing_step_fails_the_gate_and_is_named(
    failing: str, step: str, checkout: Path
) -> None:
    result = run_gate(checkout, FAIL=failing)
    assert result.returncode == 1
    assert f"GATE FAILED at: {step}" in result.stderr
    assert (SAMPLE in calls(checkout)) == (failing == "pytest")


@pytest.mark.parametrize(
    ("readme", "said"),
    [
        ("echo '== 1 failed, 2 passed in 1.00s =='; exit 1", "GATE FAILED at: echo '== 1 failed"),
        ("echo installed", "GATE FAILED at: the summary of README's tests"),
        (None, "README.md: no heading 'Test it'"),
    ],
)
def test_a_readme_whose_tests_fail_or_are_missing_fails_the_gate(
    readme: str | None, said: str, checkout: Path
) -> None:
    if readme is None:
        (checkout / "README.md").write_text("# X\n", encoding="utf-8")
    else:
        write_readme(checkout, readme)
    result = run_gate(checkout)
    assert result.returncode != 0
    assert said in result.stderr


def test_an_interpreter_that_is_missing_is_named(checkout: Path) -> None:
    result = run_gate(checkout, PYTHON="no-such-python")
    assert result.returncode != 0
    assert "no Python 3.10 or newer found; tried: no-such-python" in result.stderr
