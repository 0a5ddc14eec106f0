"""``pytest --embercoach-simulate``: whose findings are whose, the report, and the cost."""

from __future__ import annotations

import io
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import mlx.core as mx
import pytest

from tests.simulator.programs import kernels_in, plugin
from tests.simulator.programs import pytest as run_pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the simulator is tested on Linux")

SIMULATE = "--embercoach-simulate"
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
    "FAILED": "test_race test_fixture test_own_failure test_allowed_another "
    "TestUnittest::test_race TestUnittest::test_own_failure",
    "PASSED": "test_right test_note test_allowed test_allowed_by_code TestUnittest::test_right",
    "ERROR": "test_setup",
    "XFAIL": "test_expected",
}
RACE = "from kernels import launch, turn\n\n\ndef test_race():\n    launch(turn)\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with the module `kernels`."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(kernels_in(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def session(*options: str, **files: str) -> tuple[int, str]:
    """The exit code and the text of a session in this process, with more modules."""
    for name, text in files.items():
        Path(f"{name}.py").write_text(text, encoding="utf-8")
    arguments = ("-p", plugin(), "-p", "no:cacheprovider", "--capture=sys", "--rootdir=.")
    printed = io.StringIO()
    with warnings.catch_warnings(), redirect_stdout(printed), redirect_stderr(printed):
        warnings.simplefilter("default")
        code = pytest.main([*arguments, *options])
    return int(code), printed.getvalue()


def section(reported: str, name: str) -> str:
    """The text under a heading such as ``____ test_race ____``."""
    pattern = rf"^_+ {re.escape(name)} _+\n(.*?)(?=^_{{3,}}|^={{3,}})"
    found = re.search(pattern, reported, re.MULTILINE | re.DOTALL)
    assert found, reported
    return found[1]


def test_a_session_reports_who_fails_and_where(project: Path) -> None:
    before = mx.fast.metal_kernel
    code, reported = session(SIMULATE, "-rA", "--strict-markers", test_all=SUITE)
    assert code == 1
    assert mx.fast.metal_kernel is before

    found = re.findall(r"^(PASSED|FAILED|ERROR|XFAIL) test_all\.py::(\S+)", reported, re.MULTILINE)
    outcomes = {name: outcome for outcome, name in found}
    # Teardown has its own outcome: its test has passed, and then fails.
    assert outcomes.pop("test_teardown") == "ERROR"
    assert outcomes == {
        name: outcome for outcome, all_ in OUTCOMES.items() for name in all_.split()
    }
    assert "6 passed, 1 skipped, 1 xfailed, 2 errors" in reported
    (line,) = re.findall(r"^FAILED test_all\.py::test_race .*", reported, re.MULTILINE)
    assert "threadgroup-race" in line

    text = section(reported, "test_race")
    place = re.search(r"in kernel 'turn', kernels\.py:(\d+) \(body line 6\):", text)
    assert place
    (line,) = Path("kernels.py").read_text(encoding="utf-8").splitlines()[int(place[1]) - 1 :][:1]
    assert line.strip() == "tile[t] = tile[63 - t];  // RACE"
    assert "tile[t] = tile[63 - t];" in text
    assert re.search(r"launched at .+kernels\.py:\d+", text)
    assert "Traceback" not in text
    assert "pytest_session.py" not in text
    assert "'turn'" in section(reported, "test_fixture")
    assert "in its teardown" in section(reported, "ERROR at teardown of test_teardown")
    for name, own in (
        ("test_own_failure", 'ValueError("mine")'),
        ("TestUnittest.test_own_failure", "1 != 2"),
        ("ERROR at setup of test_setup", 'KeyError("mine")'),
    ):
        text = section(reported, name)
        assert own in text
        assert re.search(r"^-+ EmberCoach simulator -+$", text, re.MULTILINE)
        assert "threadgroup-race (SIM-RACE-001)" in text

    start, _, end = reported.partition("= EmberCoach simulator =")
    assert "same-value-write" not in start
    assert re.search(
        r"note same-value-write in kernel 'length', kernels\.py:\d+ \(body line 4\): y\[0\] = 64",
        end,
    )
    (line,) = re.findall(r"^\d+ launches of .*$", end, re.MULTILINE)
    assert re.fullmatch(
        r"14 launches of 3 kernels \(\d+\.\d\d s in them\), 9 findings in 9 tests, "
        r"2 allowed, 1 note",
        line,
    )
    assert "embercoach: Metal kernels run on this CPU and are checked" in reported


def test_kernels_of_imports_and_conftests_are_seen(project: Path) -> None:
    launches = "from kernels import launch, turn\nlaunch(turn)\n"
    test = f"{launches}def test_nothing():\n    pass\n"
    code, printed = session(SIMULATE, conftest=launches, test_a=test)
    assert code == 1
    assert "1 passed" in printed
    assert "1 finding before collection:" in printed
    assert "1 finding collecting test_a.py:" in printed
    assert "2 launches of 1 kernel" in printed


def test_the_configuration_allows(project: Path) -> None:
    (project / "pytest.ini").write_text("[pytest]\nembercoach_allow = threadgroup-race\n")
    code, printed = session(SIMULATE, test_a=RACE)
    assert code == 0
    assert "0 findings, 1 allowed" in printed
    (project / "pytest.ini").write_text("[pytest]\n")
    settings = project / "pyproject.toml"
    settings.write_text("[tool.embercoach.simulator]\nallow = ['threadgroup-race']\n")
    assert session(SIMULATE)[0] == 0


@pytest.mark.parametrize(
    ("option", "header", "summary"),
    [
        (["--embercoach-no-checks"], "run on this CPU and are not checked", ""),
        (
            ["--embercoach-profile", "M1 Pro"],
            "run on this CPU and are profiled for the M1 Pro",
            r"kernel 'turn' at \S+kernels.py:\d+: [\d.]+ us predicted",
        ),
    ],
    ids=["unchecked", "profiled"],
)
def test_without_checks_nothing_is_found(
    project: Path, option: list[str], header: str, summary: str
) -> None:
    code, printed = session(SIMULATE, *option, test_a=RACE)
    assert code == 0
    assert header in printed
    assert re.search(summary, printed)


@pytest.mark.sampled(3)
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
    code, printed = session(*options)
    assert code == 4
    assert words in printed
    assert "Traceback" not in printed


def test_the_compiler_of_a_project_needs_permission(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "embercoach.toml").write_text("[simulator]\ncompiler = 'no-such-clang'\n")
    code, printed = session(SIMULATE, test_a="def test_nothing():\n    pass\n")
    assert code == 0
    assert "EmberCoach: simulator.compiler is ignored without --allow-compiler" in printed
    monkeypatch.setenv("EMBERCOACH_ALLOW_COMPILER", "1")
    code, printed = session(SIMULATE)
    assert code == 4
    assert "no compiler 'no-such-clang'" in printed


COST = """\
import sys
import pytest


@pytest.mark.embercoach_allow('crash')
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
