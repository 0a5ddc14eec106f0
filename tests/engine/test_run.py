"""Runs: what is found, what goes wrong with single files, and that the others don't mind."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from embercoach import rulebook
from embercoach.config import Configurations, Settings
from embercoach.engine.check_run import RunResult, joined, run
from embercoach.engine.checkouts import Plan
from embercoach.files import read_bytes
from embercoach.finding import Step
from embercoach.rulebook import Rule, RulePageError

pytestmark = pytest.mark.usefixtures("planted")
forked = pytest.mark.skipif(sys.platform != "linux", reason="needs forked processes")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, content: str | bytes) -> None:
    data = content.encode() if isinstance(content, str) else content
    Path(name).write_bytes(data)


def check(*paths: str, **options: object) -> RunResult:
    settings = Settings(root=Path.cwd())
    return run(paths or (".",), settings, cache=False, **options)  # type: ignore[arg-type]


def problems(result: RunResult) -> list[str]:
    return [f"{p.path}:{p.line}:{p.column}: {p.message}" for p in result.problems]


BAD_FILES: dict[str, tuple[bytes, str]] = {
    "syntax": (b"import mlx\nx = (1\n", "2:5: syntax error: '(' was never closed"),
    "indent": (b"import mlx\nif x:\npass\n", "3:1: syntax error: expected an indented block"),
    "null": (b"import mlx\nx = '\0'\n", "2:6: source contains a null byte"),
    "bytes": (b"import mlx\nx = '\xff'\n", "2:6: byte 0xff cannot be decoded as utf-8"),
    "cookie": (b"# coding: nope\nimport mlx\n", "1:1: unknown encoding: nope"),
    "value": (b"import mlx\ncrash_value\n", "1:1: internal error while checking: ValueError: p"),
    "deep": (b"import mlx\ncrash_deep\n", "1:1: internal error while checking: RecursionError: "),
    "memory": (b"import mlx\ncrash_memory\n", "1:1: internal error while checking: MemoryError"),
}


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=forked)])
def test_a_bad_file_does_not_keep_others_from_being_checked(project: Path, jobs: int) -> None:
    for number in range(12):
        write(f"good{number:02}.py", "import mlx\nbad_pull\n")
    for name, (content, _) in BAD_FILES.items():
        write(f"{name}.py", content)
    result = check(jobs=jobs)
    reported = {line.split(".py:")[0]: line.split(".py:")[1] for line in problems(result)}
    assert reported.keys() == BAD_FILES.keys()
    for name, (_, expected) in BAD_FILES.items():
        assert reported[name].startswith(expected), reported[name]
    assert [f.path for f in result.findings] == [f"good{number:02}.py" for number in range(12)]
    assert result.files_checked == 12


@forked
def test_a_process_that_dies_is_told_with_its_file(project: Path) -> None:
    for number in range(30):
        write(f"good{number:02}.py", "import mlx\nbad_pull\n")
    write("killer.py", "import mlx\ncrash_process\n")
    result = check(jobs=2)
    assert problems(result) == [
        "killer.py:1:1: internal error while checking: the process was ended by SIGKILL"
    ]
    assert len(result.findings) == 30


def test_a_rule_without_a_proper_page(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("a.py", "import mlx\nbad_pull\n")

    def broken(code: str) -> Rule:
        raise RulePageError(f"{code}.md: metadata is not TOML")

    monkeypatch.setattr(rulebook, "rule", broken)
    (line,) = problems(check())
    assert line.startswith("a.py:1:1: internal error: the page of a rule is missing or invalid: ")
    assert line.endswith("GRAPH-BREAK-001.md: metadata is not TOML")


def test_debug_tells_where_it_went_wrong(project: Path) -> None:
    write("a.py", "import mlx\ncrash_value\n")
    (line,) = problems(check(debug=True))
    assert "ValueError: planted\nTraceback (most recent call last):" in line
    assert "check_planted" in line


GOOD_FILES: dict[str, bytes] = {
    "bom": b"\xef\xbb\xbfimport mlx\nbad_pull\n",
    "latin": b"# coding: latin-1\nimport mlx; '\xe9'; bad_pull\n",
    "crlf": b"import mlx\r\nbad_pull\r\n",
    "cr": b"import mlx\rbad_pull\r",
    "feed": b"import mlx\n\x0c\nbad_pull\n",
    "noend": b"import mlx\nbad_pull",
    "long": b"import mlx\nx = '" + b"a" * 1_900_000 + b"'\nbad_pull\n",
    "kernel": b"metal_kernel\nbad_pull\n",
}


def test_odd_files_are_checked(project: Path) -> None:
    for name, content in GOOD_FILES.items():
        write(f"{name}.py", content)
    write("empty.py", b"")
    result = check()
    assert problems(result) == []
    places = {f.path.removesuffix(".py"): (f.line, f.column) for f in result.findings}
    assert places == {
        "bom": (2, 1),
        "latin": (2, 18),
        "crlf": (2, 1),
        "cr": (2, 1),
        "feed": (3, 1),
        "noend": (2, 1),
        "long": (3, 1),
        "kernel": (2, 1),
    }
    assert (result.files_checked, result.files_skipped) == (8, 1)


def test_files_without_the_words_are_not_even_decoded(project: Path) -> None:
    write("a.py", b"bad_pull \xff\0 (")
    write("b.py", "import mlx\nbad_pull  # embercoach: skip-file\n")
    write("c.py", "import mlx\ndef f(:  # embercoach: skip-file\n")
    result = check()
    assert (result.findings, result.problems, result.files_skipped) == ((), (), 3)


def test_unreadable_files_are_told(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("a.py", "import mlx\nbad_pull\n")
    write("b.py", "import mlx\nbad_pull\n")
    real = os.open

    def refuse(path: str | Path, flags: int) -> int:
        if str(path).endswith("a.py"):
            raise PermissionError(13, "Permission denied")
        return real(path, flags)

    monkeypatch.setattr("embercoach.files.os.open", refuse)
    result = check()
    assert problems(result) == ["a.py:1:1: cannot be read: Permission denied"]
    assert [f.path for f in result.findings] == ["b.py"]


def test_a_file_that_goes_away_meanwhile(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("a.py", "import mlx\nbad_pull\n")
    monkeypatch.setattr("embercoach.engine.inspection.read_bytes", lambda _: read_bytes("gone"))
    assert problems(check()) == ["a.py:1:1: cannot be read: No such file or directory"]


def test_standard_input(project: Path) -> None:
    data = b"import mlx\nbad_pull\nbad_scalar\n"
    result = check(stdin=("some/where.py", data))
    assert [(f.path, f.line) for f in result.findings] == [
        ("some/where.py", 2),
        ("some/where.py", 3),
    ]
    settings = Settings(root=project, per_file_profiles=(("some/**", "ember"),))
    result = run((), settings, stdin=("some/where.py", data))
    assert [f.severity for f in result.findings] == ["error", "error"]
    assert not list(project.iterdir())
    write("near.txt", "it")
    result = check(stdin=("-", b"import mlx\n# needs near.txt\n"))
    assert [f.message for f in result.findings] == ["with it"]
    assert problems(check(stdin=("-", b"import mlx\n("))) == [
        "-:2:1: syntax error: '(' was never closed"
    ]


def test_severity_and_selection_by_file(project: Path) -> None:
    for name in ("a.py", "b.py"):
        write(name, "import mlx\nbad_pull\nbad_scalar\n")
    settings = Settings(
        root=project,
        enabled=frozenset({"GRAPH-BREAK-001", "PYTHON-SCALAR-002"}),
        per_file_ignores=(("a.py", ("GRAPH-BREAK",)), ("!b.py", ("NOQA",))),
        per_file_profiles=(("*.py", "ember"), ("b.py", "recommended")),
    )
    result = run((".",), settings, cache=False)
    assert [(f.path, f.code, f.severity) for f in result.findings] == [
        ("a.py", "PYTHON-SCALAR-002", "error"),
        ("b.py", "GRAPH-BREAK-001", "warning"),
        ("b.py", "PYTHON-SCALAR-002", "note"),
    ]


def test_steps_and_places_beside_come_along_from_the_cache_too(project: Path) -> None:
    write("a.py", "import mlx\norigin_1\n  # beside_3\n\norigin_4\nbad_pull\n")
    for cached in (0, 1):
        result = run((".",), Settings(root=project))
        (finding,) = result.findings
        assert result.cached == cached
        assert finding.flow == (
            Step(2, 1, 2, 8, "origin_ is planted"),
            Step(5, 1, 5, 8, "origin_ is planted"),
        )
        assert finding.related == (Step(3, 5, 3, 12, "beside_ is planted"),)
        assert isinstance(hash(finding), int)


def test_progress_is_told(project: Path) -> None:
    for number in range(6):
        write(f"f{number}.py", "import mlx\n" if number % 2 else "")
    reported: list[tuple[int, int]] = []
    plan = Plan((".",), Configurations.fixed(Settings(root=project)))
    plan.run(cache=False, on_progress=lambda done, total: reported.append((done, total)))
    assert reported == [(4, 6), (5, 6), (6, 6)]


def test_results_add_up(project: Path) -> None:
    write("a.py", "import mlx\nbad_pull\n")
    write("b.py", "import mlx\nbad_shape\n(\n")
    write("c.py", "import mlx\nbad_shape  # noqa: HOST-PULL\n")
    parts = [check(name) for name in ("c.py", "a.py", "b.py")]
    assert joined(parts) == joined([*parts, RunResult()]) == check()
