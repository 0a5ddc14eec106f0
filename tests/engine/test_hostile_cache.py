"""A cache that somebody else left in the project: nothing elsewhere changes, nothing ends a run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from embercoach.config import Settings
from embercoach.engine.cache import FOLDER, VERSIONS, _digest, restored
from embercoach.engine.check_run import run
from tests.robustness.outcome import time_limit

pytestmark = pytest.mark.usefixtures("planted")
needs_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
DEEP = b"[" * 100_000


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    (project / "a.py").write_text("import mlx\nbad_pull\n")
    return project


def check() -> tuple[list[str], int]:
    """The codes found, and how many files came from the cache."""
    with time_limit(20):
        result = run((".",), Settings(root=Path.cwd()))
    assert not result.problems
    return [finding.code for finding in result.findings], result.cached


FRESH = (["GRAPH-BREAK-001"], 0)
WARM = (["GRAPH-BREAK-001"], 1)


def cache_file(project: Path) -> Path:
    (file,) = (project / FOLDER).glob("results-*")
    return file


def old_results(folder: Path, count: int = VERSIONS + 3) -> list[Path]:
    folder.mkdir(exist_ok=True)
    files = [folder / f"results-{number:024x}" for number in range(count)]
    for file in files:
        file.write_bytes(b"precious")
        os.utime(file, (1, 1))
    return files


def test_a_linked_folder_is_neither_read_nor_changed(project: Path, tmp_path: Path) -> None:
    check()
    elsewhere = (project / FOLDER).rename(tmp_path / "elsewhere")
    files = old_results(elsewhere)
    before = sorted(elsewhere.iterdir())
    (project / FOLDER).symlink_to(elsewhere)
    assert check() == FRESH
    assert check() == FRESH
    assert all(file.read_bytes() == b"precious" for file in files)
    assert sorted(elsewhere.iterdir()) == before


def test_a_dangling_link_stays_one(project: Path, tmp_path: Path) -> None:
    (project / FOLDER).symlink_to(tmp_path / "nowhere")
    assert check() == FRESH
    assert not (tmp_path / "nowhere").exists()


def test_linked_results_are_not_read_and_not_written_through(project: Path, tmp_path: Path) -> None:
    check()
    file = cache_file(project)
    precious = file.rename(tmp_path / "precious")
    content = precious.read_bytes()
    file.symlink_to(precious)
    assert check() == FRESH
    assert precious.read_bytes() == content
    # The link is replaced by a file.
    assert check() == WARM


@needs_pipes
def test_results_in_a_pipe_hang_nothing(project: Path) -> None:
    check()
    file = cache_file(project)
    file.unlink()
    os.mkfifo(file)
    assert check() == FRESH
    assert check() == WARM


@needs_pipes
def test_only_results_are_pruned(project: Path, tmp_path: Path) -> None:
    folder = project / FOLDER
    own = old_results(folder)
    outside = tmp_path / "outside"
    outside.write_text("precious")
    others = [folder / name for name in ("results-", "results-notes.txt", f"results-{'A' * 24}")]
    for other in others:
        other.write_text("mine")
    link, pipe, inner = (folder / f"results-{'f' * 23}{n}" for n in "abc")
    link.symlink_to(outside)
    os.mkfifo(pipe)
    inner.mkdir()
    assert check() == FRESH
    assert sum(file.exists() for file in own) == VERSIONS - 1
    assert all(path.exists() for path in (*others, outside, link, pipe, inner))


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs owners")
def test_a_folder_of_another_user_is_not_used(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check()
    content = cache_file(project).read_bytes()
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    (project / "b.py").write_text("import mlx\n")
    assert check() == FRESH
    assert cache_file(project).read_bytes() == content


def test_a_huge_file_is_not_read(project: Path) -> None:
    check()
    with cache_file(project).open("r+b") as file:
        file.truncate(1 << 40)
    assert check() == FRESH
    assert check() == WARM


def forge(project: Path, change: Any) -> None:
    """Change a good cache's header or payload, and sign it."""
    file = cache_file(project)
    _, line, body = file.read_bytes().split(b"\n", 2)
    header = json.loads(line)
    body = change(header, body) or body
    rest = json.dumps(header).encode() + b"\n" + body
    file.write_bytes(_digest([rest]) + b"\n" + rest)


def entry(header: Any) -> Any:
    return header["entries"]["a.py"]


def replaced(body: bytes) -> Any:
    def change(header: Any, _: bytes) -> bytes:
        entry(header)[3:] = [0, len(body)]
        return body

    return change


FINDING = ["GRAPH-BREAK-001", 2, 1, 2, 9, "message", "help", "default", None, [], []]


def report(*, directives: Any = (), cells: Any = None, problem: Any = None, **fields: Any) -> bytes:
    """The payload of one finding with some fields replaced."""
    finding = [fields.get(f"at_{number}", value) for number, value in enumerate(FINDING)]
    return json.dumps([[finding], list(directives), cells, problem]).encode()


DIRECTIVE = ["ignore", 1, 1, 5, 0, 5, "", [["DTYPE", 1, 2]], False, [[1, 2]]]


def directive(number: int, value: Any) -> bytes:
    changed = [*DIRECTIVE[:number], value, *DIRECTIVE[number + 1 :]]
    return json.dumps([[], [changed], None, None]).encode()


def test_the_forms_that_are_changed_below_are_good() -> None:
    assert restored("checked", "", report())
    assert restored("checked", "", directive(0, "ignore"))
    assert restored("checked", "", report(cells=[[1, 3], [1, 2]]))
    assert restored("checked", "", report(problem="analysis exceeded its budget"))
    assert restored("broken", "", b'["", 1, 1, "no"]')
    assert restored("skipped", "", b"[]")


PAYLOADS = {
    "nothing": b"",
    "no UTF-8": b"\xff\xfe",
    "no JSON": b"[[], [], null, null",
    "nested deeply": DEEP,
    "nested deeply within": b"[" + DEEP + b"]" * 100_001,
    "another value": b"7",
    "too few": b"[[], []]",
    "numbers for findings": b"[[1, 2], [], null, null]",
    "an end before the start": report(at_3=1),
    "a message of several lines": report(at_5="a\nb"),
    "an edit that ends before it starts": report(at_8=["title", True, [[5, 2, ""]]]),
    "an edit before the file": report(at_8=["title", True, [[-5, 2, ""]]]),
    "an odd step": report(at_9=[[1, 1, 1, 1]]),
    "an unknown kind of suppression": directive(0, "all"),
    "an object for a kind": directive(0, {}),
    "suppressions of nothing": directive(7, [["DTYPE", 1]]),
    "cells without a cell": report(cells=[[], []]),
    "more cells than lines": report(cells=[[1, 2], [1]]),
    "cells out of order": report(cells=[[2, 1], [1, 5]]),
}


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_a_payload_of_another_shape_is_a_miss(project: Path, payload: bytes) -> None:
    check()
    forge(project, replaced(payload))
    assert check() == FRESH
    assert check() == WARM


HEADERS = {
    "a start after the end": lambda header, _: entry(header).__setitem__(slice(3, 5), [9, 2]),
    "a negative start": lambda header, _: entry(header).__setitem__(3, -40),
    "an end beyond the file": lambda header, _: entry(header).__setitem__(4, 10**9),
    "texts for numbers": lambda header, _: entry(header).__setitem__(3, "0"),
    "a state that is not there": lambda header, _: entry(header).__setitem__(2, [99]),
    "a state counted from the end": lambda header, _: entry(header).__setitem__(2, [-1]),
    "an object for a kind": lambda header, _: entry(header).__setitem__(1, {}),
    "states that are numbers": lambda header, _: header.__setitem__("states", [[1, 2]]),
    "severities of nothing": lambda header, _: header.__setitem__(
        "severities", [[1, 2, 3, "note"]]
    ),
    "no severity": lambda header, _: header.__setitem__("severities", [["a", "b", "c", {}]]),
    "entries in a list": lambda header, _: header.__setitem__("entries", [1]),
}


@pytest.mark.parametrize("change", HEADERS.values(), ids=HEADERS)
def test_a_header_of_another_shape_is_a_miss(project: Path, change: Any) -> None:
    check()
    forge(project, change)
    assert check() == FRESH
    assert check() == WARM


NEEDS = ["/dev/zero", "/proc/kmsg", "pipe", "a\0b", "\ud800", "large", "x" * 5_000]


@needs_pipes
@pytest.mark.parametrize("name", NEEDS, ids=ascii)
def test_a_dependency_of_any_name_is_looked_at_safely(project: Path, name: str) -> None:
    check()
    os.mkfifo(project / "pipe")
    with (project / "large").open("wb") as file:
        file.truncate(1 << 40)

    def change(header: Any, _: bytes) -> None:
        header["states"] = [[name, "0" * 32]]
        entry(header)[2] = [0]

    forge(project, change)
    assert check() == FRESH


def test_names_that_no_file_has_go_when_the_cache_is_saved(project: Path) -> None:
    check()

    def change(header: Any, _: bytes) -> None:
        for name in ("a\0b", "\ud800", "x" * 5_000):
            header["entries"][name] = [*entry(header)]

    forge(project, change)
    (project / "a.py").write_text("import mlx\nbad_pull  \n")
    assert check() == FRESH
    _, line, _ = cache_file(project).read_bytes().split(b"\n", 2)
    assert list(json.loads(line)["entries"]) == ["a.py"]
