"""Tests of the code for Windows that run on any system: drives, signal masks, new interpreters."""

from __future__ import annotations

import errno
import ntpath
import os
import runpy
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from embercoach.config.settings import SimulatorSettings
from embercoach.engine import budget, workers
from embercoach.files import relative_path
from embercoach.fixes.writing import replace_file
from embercoach.report import locations
from embercoach.simulator import model
from embercoach.simulator.session.options import Options, begin

WINDOWS = SimpleNamespace(platform="win32")


@pytest.fixture
def drives(monkeypatch: pytest.MonkeyPatch) -> None:
    """The paths of Windows, with C:\\project as the current folder."""
    monkeypatch.setattr(ntpath, "abspath", partial(ntpath.join, "C:\\project"))
    monkeypatch.setattr(os, "path", ntpath)
    monkeypatch.setattr(os, "sep", "\\")


@pytest.mark.usefixtures("drives")
@pytest.mark.parametrize(
    ("path", "start", "expected"),
    [
        ("C:\\project\\a\\b.py", "C:\\project", "a\\b.py"),
        ("C:\\else\\b.py", "C:\\project", "..\\else\\b.py"),
        ("D:\\else\\b.py", "C:\\project", "D:\\else\\b.py"),
        ("\\\\host\\share\\b.py", "C:\\project", "\\\\host\\share\\b.py"),
        ("c:\\PROJECT\\b.py", "C:\\project", "b.py"),
    ],
)
def test_paths_of_other_drives_are_absolute(path: str, start: str, expected: str) -> None:
    assert relative_path(path, start) == expected


@pytest.mark.usefixtures("drives")
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src\\a b.py", "src/a b.py"),
        ("C:\\project\\src\\a.py", "src/a.py"),
        ("C:\\else\\a.py", "C:/else/a.py"),
        ("D:\\else\\a.py", "D:/else/a.py"),
    ],
)
def test_a_forge_gets_slashes(path: str, expected: str) -> None:
    assert locations.in_repository(path, "C:\\project") == expected


def test_an_empty_path_is_an_error() -> None:
    with pytest.raises(ValueError, match="no path"):
        relative_path("")


def test_the_url_of_a_drive_has_its_colon() -> None:
    assert locations.file_url("C:/a b/ä.py") == "file:///C:/a%20b/%C3%A4.py"


def doubler() -> partial[int]:
    return partial(int.__mul__, 2)


def test_workers_need_no_fork_and_no_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "sys", WINDOWS)
    monkeypatch.setattr(workers, "sys", WINDOWS)
    monkeypatch.setattr(workers, "signal", SimpleNamespace())
    tasks = list(range(6))
    found = dict(workers.spread(doubler, tasks, [1] * 6, [0, 0, 0, 1, 1, 1], 2))
    assert found == {number: 2 * number for number in tasks}


def test_the_stacks_of_windows_are_below_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPython refuses a stack of 256 MB or more there, and one is enough for what is not large."""
    monkeypatch.setattr(sys, "platform", "win32")
    module = runpy.run_path(str(workers.__file__))
    assert module["LARGE"] * workers.LEVEL <= module["STACK"] < 256 << 20


def test_a_process_ends_without_limits_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    armed: list[tuple[float, dict[str, bool]]] = []

    def arm(after: float, **options: bool) -> None:
        armed.append((after, options))

    monkeypatch.setattr(budget, "sys", WINDOWS)
    monkeypatch.setattr(budget, "faulthandler", SimpleNamespace(dump_traceback_later=arm))
    budget.end_at(20.0)
    assert armed == [((20.0 + budget.GRACE) * budget.WALL, {"exit": True})]


def test_a_process_without_a_task_waits_for_as_long_as_it_likes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []
    timer = SimpleNamespace(
        dump_traceback_later=lambda *_, **__: calls.append("armed"),
        cancel_dump_traceback_later=lambda: calls.append("canceled"),
    )
    monkeypatch.setattr(budget, "sys", WINDOWS)
    monkeypatch.setattr(budget, "faulthandler", timer)
    monkeypatch.setattr(budget, "resident", lambda: 0)
    assert workers._watched(len, "task") == 4
    assert calls[0] == "armed"
    assert calls[-1] == "canceled"


def test_the_memory_of_a_process_is_unknown_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "sys", WINDOWS)
    assert budget.resident() is None


def test_a_file_that_another_program_has_open_is_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")

    def refuse(self: Path, target: Path) -> Path:
        raise PermissionError(errno.EACCES, "sharing violation", str(target))

    monkeypatch.setattr(Path, "replace", refuse)
    replace_file(path, b"the new content")
    assert path.read_bytes() == b"the new content"
    assert list(tmp_path.iterdir()) == [path]


def test_the_simulator_refuses_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "sys", WINDOWS)
    with pytest.raises(model.SimulatorError, match="needs Linux or macOS"):
        begin(Options(SimulatorSettings()))
