"""``pytest --embercoach-simulate``: whose findings are whose, the report, and the cost."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.simulator.programs import KERNELS, kernels_in, plugin, python
from tests.simulator.programs import pytest as run_pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the simulator is tested on Linux")

SIMULATE = "--embercoach-simulate"
RACE = next(n for n, line in enumerate(KERNELS.splitlines(), 1) if "// RACE" in line)
SUITE = """\
import unittest

import pytest

from kernels import double, launch, length, turn


@pytest.fixture
def warm():
    return launch(turn)


@pytest.fixture
def last():
    yield
    launch(turn)


@pytest.fixture
def broken():
    launch(turn)
    raise KeyError("mine")


def test_race():
    launch(turn)


def test_right():
    assert launch(double).tolist() == [2.0] * 64


def test_note():
    launch(length)


def test_fixture(warm):
    assert warm.shape == (64,)


def test_teardown(last):
    pass


def test_setup(broken):
    pass


def test_own_failure():
    launch(turn)
    raise ValueError("mine")


@pytest.mark.embercoach_allow("threadgroup-race", reason="the test is about it")
def test_allowed():
    launch(turn)


@pytest.mark.embercoach_allow("SIM-RACE-001")
def test_allowed_by_code():
    launch(turn)


@pytest.mark.embercoach_allow("write-to-input")
def test_allowed_another():
    launch(turn)


@pytest.mark.xfail(strict=True)
def test_expected():
    launch(turn)


@pytest.mark.skip
def test_skipped():
    launch(turn)


class TestUnittest(unittest.TestCase):
    def test_race(self):
        launch(turn)

    def test_own_failure(self):
        launch(turn)
        self.assertEqual(1, 2)

    def test_right(self):
        launch(double)
"""
OUTCOMES = {
    "test_race": "FAILED",
    "test_right": "PASSED",
    "test_note": "PASSED",
    "test_fixture": "FAILED",
    "test_setup": "ERROR",
    "test_own_failure": "FAILED",
    "test_allowed": "PASSED",
    "test_allowed_by_code": "PASSED",
    "test_allowed_another": "FAILED",
    "test_expected": "XFAIL",
    "TestUnittest::test_race": "FAILED",
    "TestUnittest::test_own_failure": "FAILED",
    "TestUnittest::test_right": "PASSED",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return kernels_in(tmp_path)


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a session with every sort of test prints."""
    folder = kernels_in(tmp_path_factory.mktemp("project"))
    (folder / "test_all.py").write_text(SUITE, encoding="utf-8")
    result = run_pytest(SIMULATE, "-rA", "--strict-markers", "test_all.py", cwd=folder)
    assert result.returncode == 1, result.stdout + result.stderr
    return result.stdout


def section(reported: str, name: str) -> str:
    """The text under a heading such as ``____ test_race ____``."""
    pattern = rf"^_+ {re.escape(name)} _+\n(.*?)(?=^_{{3,}}|^={{3,}})"
    found = re.search(pattern, reported, re.MULTILINE | re.DOTALL)
    assert found, reported
    return found[1]


def test_who_fails(reported: str) -> None:
    found = re.findall(r"^(PASSED|FAILED|ERROR|XFAIL) test_all\.py::(\S+)", reported, re.MULTILINE)
    outcomes = {name: outcome for outcome, name in found}
    # Teardown has an outcome of its own: its test has passed, and then fails.
    assert outcomes.pop("test_teardown") == "ERROR"
    assert outcomes == OUTCOMES
    assert "6 passed, 1 skipped, 1 xfailed, 2 errors" in reported


def test_a_finding_is_told_with_its_place(reported: str) -> None:
    text = section(reported, "test_race")
    assert "threadgroup-race (SIM-RACE-001) in kernel 'turn', body line 6:" in text
    assert "tile[t] = tile[63 - t];" in text
    assert re.search(r"launched at .+kernels\.py:\d+", text)
    assert "Traceback" not in text
    assert "pytest_session.py" not in text


def test_the_short_summary_names_the_kernel(reported: str) -> None:
    lines = reported.splitlines()
    (line,) = (line for line in lines if line.startswith("FAILED test_all.py::test_race "))
    assert "threadgroup-race" in line


def test_a_fixtures_finding_fails_the_test_and_says_so(reported: str) -> None:
    assert "'turn'" in section(reported, "test_fixture")
    assert "'turn'" in section(reported, "ERROR at teardown of test_teardown")
    assert "in its teardown" in section(reported, "ERROR at teardown of test_teardown")


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("test_own_failure", 'ValueError("mine")'),
        ("TestUnittest.test_own_failure", "1 != 2"),
        ("ERROR at setup of test_setup", 'KeyError("mine")'),
    ],
)
def test_a_failure_of_the_tests_own_stays(name: str, own: str, reported: str) -> None:
    text = section(reported, name)
    assert own in text
    assert re.search(r"^-+ EmberCoach simulator -+$", text, re.MULTILINE)
    assert "threadgroup-race (SIM-RACE-001)" in text


def test_the_summary(reported: str) -> None:
    _, _, end = reported.partition("= EmberCoach simulator =")
    assert "note same-value-write in kernel 'length', body line 4: y[0] = 64.0f;" in end
    (line,) = re.findall(r"^\d+ launches of .*$", end, re.MULTILINE)
    assert re.fullmatch(
        r"14 launches of 3 kernels \(\d+\.\d\d s in them\), 9 findings in 9 tests, "
        r"2 allowed, 1 note",
        line,
    )
    assert "embercoach: Metal kernels run on this CPU and are checked" in reported


def test_notes_fail_nothing(reported: str) -> None:
    before, _, _ = reported.partition("= EmberCoach simulator =")
    assert "same-value-write" not in before


def test_kernels_of_imports_and_conftests_are_seen(project: Path) -> None:
    (project / "conftest.py").write_text("from kernels import launch, turn\nlaunch(turn)\n")
    (project / "test_a.py").write_text(
        "from kernels import launch, turn\nlaunch(turn)\n\n\ndef test_nothing():\n    pass\n"
    )
    result = run_pytest(SIMULATE, cwd=project)
    assert "1 passed" in result.stdout
    assert result.returncode == 1
    assert "1 finding before collection:" in result.stdout
    assert "1 finding collecting test_a.py:" in result.stdout
    assert "2 launches of 1 kernel" in result.stdout


@pytest.mark.sampled(0)
def test_the_configuration_allows(project: Path) -> None:
    (project / "test_a.py").write_text(
        "from kernels import launch, turn\n\n\ndef test_race():\n    launch(turn)\n"
    )
    (project / "pytest.ini").write_text("[pytest]\nembercoach_allow = threadgroup-race\n")
    result = run_pytest(SIMULATE, cwd=project)
    assert result.returncode == 0, result.stdout
    assert "0 findings, 1 allowed" in result.stdout
    (project / "pytest.ini").write_text("[pytest]\n")
    (project / "pyproject.toml").write_text(
        "[tool.embercoach.simulator]\nallow = ['threadgroup-race']\n"
    )
    assert run_pytest(SIMULATE, cwd=project).returncode == 0
    (project / "pyproject.toml").write_text("")
    assert run_pytest(SIMULATE, cwd=project).returncode == 1


def test_without_checks_nothing_is_found(project: Path) -> None:
    (project / "test_a.py").write_text(
        "from kernels import launch, turn\n\n\ndef test_race():\n    launch(turn)\n"
    )
    result = run_pytest(SIMULATE, "--embercoach-no-checks", cwd=project)
    assert result.returncode == 0, result.stdout
    assert "run on this CPU and are not checked" in result.stdout


def test_profiled_launches_are_listed_and_not_checked(project: Path) -> None:
    (project / "test_a.py").write_text(
        "from kernels import launch, turn\n\n\ndef test_race():\n    launch(turn)\n"
    )
    result = run_pytest(SIMULATE, "--embercoach-profile", "M1 Pro", cwd=project)
    assert result.returncode == 0, result.stdout
    assert "run on this CPU and are profiled for the M1 Pro" in result.stdout
    assert re.search(r"kernel 'turn' at \S+kernels.py:\d+: [\d.]+ us predicted", result.stdout)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("files", "options", "words"),
    [
        ({"test_a.py": "import pytest\n@pytest.mark.embercoach_allow('thread-race')\n"
          "def test_a(): pass\n"}, [SIMULATE],
         "test_a.py::test_a: embercoach_allow: unknown kind of finding 'thread-race'; did you"),
        ({"test_a.py": "import pytest\n@pytest.mark.embercoach_allow\ndef test_a(): pass\n"},
         [SIMULATE], "embercoach_allow takes kinds of findings"),
        ({"pytest.ini": "[pytest]\nembercoach_allow = crush\n"}, [SIMULATE],
         "--embercoach-simulate: unknown kind of finding 'crush'; did you mean 'crash'?"),
        ({"pyproject.toml": "[tool.embercoach.simulator]\ntimout = 3\n"}, [SIMULATE],
         "unknown key 'timout'; did you mean 'timeout'?"),
        ({}, ["--embercoach-no-checks"], "--embercoach-no-checks needs --embercoach-simulate"),
        ({}, ["--embercoach-profile", "M1"], "--embercoach-profile needs --embercoach-simulate"),
        ({}, [SIMULATE, "--embercoach-profile", "M0"], "profile must be True or one of M1, M1 Pro"),
    ],
)  # fmt: skip
def test_mistakes_of_usage(
    files: dict[str, str], options: list[str], words: str, project: Path
) -> None:
    for name, text in files.items():
        (project / name).write_text(text)
    result = run_pytest(*options, cwd=project)
    assert result.returncode == 4, result.stdout + result.stderr
    assert words in result.stdout + result.stderr
    assert "Traceback" not in result.stdout + result.stderr


def test_the_compiler_of_a_project_needs_permission(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "embercoach.toml").write_text("[simulator]\ncompiler = 'no-such-clang'\n")
    (project / "test_a.py").write_text("def test_nothing():\n    pass\n")
    result = run_pytest(SIMULATE, cwd=project)
    assert result.returncode == 0, result.stdout
    assert "EmberCoach: simulator.compiler is ignored without --allow-compiler" in result.stdout
    monkeypatch.setenv("EMBERCOACH_ALLOW_COMPILER", "1")
    result = run_pytest(SIMULATE, cwd=project)
    assert result.returncode == 4
    assert "no compiler 'no-such-clang'" in result.stdout + result.stderr


COST = """\
import sys


def test_nothing_is_loaded():
    heavy = {"mlx", "numpy", "libcst", "rich", "click", "tree_sitter", "elftools", "ziglang"}
    assert not heavy & sys.modules.keys()
    ours = {name for name in sys.modules if name.startswith("embercoach")}
    assert ours == {"embercoach", "embercoach.simulator", "embercoach.simulator.pytest_plugin"}
"""


def test_without_the_flag_it_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_cost.py").write_text(COST)
    result = run_pytest("--strict-markers", cwd=tmp_path, fresh=True)
    assert result.returncode == 0, result.stdout
    assert "EmberCoach" not in result.stdout


def test_the_marker_is_known_without_the_flag(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(
        "import pytest\n\n\n@pytest.mark.embercoach_allow('crash')\ndef test_a():\n    pass\n"
    )
    assert run_pytest("--strict-markers", cwd=tmp_path).returncode == 0
    reported = run_pytest("--markers", cwd=tmp_path).stdout
    assert "@pytest.mark.embercoach_allow(kind, ..., reason=...)" in reported
    assert SIMULATE in run_pytest("--help", cwd=tmp_path).stdout


def test_mlx_is_as_before_when_the_session_ends(project: Path) -> None:
    (project / "test_a.py").write_text("def test_a():\n    pass\n")
    (project / "run.py").write_text(
        "import sys\nimport mlx.core as mx\nimport pytest\nbefore = mx.fast.metal_kernel\n"
        "assert pytest.main(sys.argv[1:]) == 0\nassert mx.fast.metal_kernel is before\n"
    )
    result = python("run.py", "-p", plugin(), SIMULATE, cwd=project)
    assert result.returncode == 0, result.stdout + result.stderr
