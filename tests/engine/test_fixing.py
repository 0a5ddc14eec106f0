"""Fixing files, and suppressing what is found in them."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embercoach.config import Settings
from embercoach.engine import fixing
from embercoach.engine.check_run import RunResult, run
from embercoach.engine.fixing import FixSummary, fix_files, fix_once
from embercoach.engine.inspection import Inspection
from embercoach.engine.noqa_writing import annotate_files, annotated
from embercoach.engine.suppressions import read_directives
from embercoach.engine.verdict import CoveredLines, Judge
from embercoach.finding import Finding

pytestmark = pytest.mark.usefixtures("planted")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fix(
    *, unsafe: bool = False, show_notes: bool = False, jobs: int = 1
) -> tuple[RunResult, FixSummary]:
    settings = Settings(root=Path.cwd(), show_notes=show_notes)
    check = partial(run, (".",), settings, jobs=jobs)
    return fix_files(check(), settings, check, unsafe=unsafe, jobs=jobs, debug=False)


def troubles(summary: FixSummary) -> list[str]:
    return [f"{p.path}: {p.message}" for p in summary.problems]


@pytest.mark.parametrize(
    ("unsafe", "show_notes", "expected", "fixed", "left"),
    [
        (False, False, "good_shape bad_bound bad_scalar", 1, 2),
        (False, True, "good_shape bad_bound bad_scalar", 1, 2),
        (True, True, "good_shape good_bound good_scalar", 3, 0),
    ],
)
def test_what_is_fixed(
    project: Path, unsafe: bool, show_notes: bool, expected: str, fixed: int, left: int
) -> None:
    path = project / "a.py"
    text = "import mlx\nx = [{}]\n"
    path.write_text(text.format("bad_shape, bad_bound, bad_scalar"))
    result, summary = fix(unsafe=unsafe, show_notes=show_notes)
    assert path.read_text() == text.format(", ".join(expected.split()))
    assert (summary.fixes, summary.files, summary.problems) == (fixed, 1, ())
    assert len(result.findings) == left
    again, nothing = fix(unsafe=unsafe, show_notes=show_notes)
    assert (nothing, again) == (FixSummary(), again)


def linked(project: Path, text: str) -> Path:
    """A file with a symbolic link before and a hard link behind it in the order of names."""
    path = project / "b.py"
    path.write_text(text)
    path.chmod(0o640)
    (project / "a.py").symlink_to("b.py")
    (project / "c.py").hardlink_to(path)
    return path


def still_linked(project: Path) -> bool:
    mode = (project / "b.py").stat().st_mode & 0o777
    return (project / "a.py").is_symlink() and (project / "c.py").samefile("b.py") and mode == 0o640


def test_links_to_a_file_are_fixed_with_it(project: Path) -> None:
    path = linked(project, "import mlx\nbad_shape\n")
    result, summary = fix()
    assert path.read_text() == "import mlx\ngood_shape\n"
    assert (summary, result.findings) == (FixSummary(1, 1), ())
    assert still_linked(project)


def test_links_to_a_file_are_suppressed_with_it(project: Path) -> None:
    path = linked(project, "import mlx\nbad_bound\n")
    settings = Settings(root=project)
    done, problems = annotate_files(run((".",), settings).findings)
    assert (done, problems) == (1, [])
    assert path.read_text().count("embercoach: ignore") == 1
    assert path.read_text().count("-") == 2
    assert run((".",), settings).findings == ()
    assert still_linked(project)


def test_suppressed_and_deselected_findings_are_not_fixed(project: Path) -> None:
    text = "import mlx\nbad_shape  # noqa: HOST-PULL-009\n"
    (project / "a.py").write_text(text)
    assert fix()[1] == FixSummary()
    assert (project / "a.py").read_text() == text


def test_idle_suppressions_are_removed(project: Path) -> None:
    (project / "a.py").write_text("import mlx\nbad_shape  # noqa: E501, DTYPE-001, FFT-NORM-001\n")
    _, summary = fix()
    assert (project / "a.py").read_text() == "import mlx\ngood_shape  # noqa: E501\n"
    assert summary.fixes == 2


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            b"# coding: latin-1\nimport mlx; '\xe9'\nbad_shape\n",
            b"# coding: latin-1\nimport mlx; '\xe9'\ngood_shape\n",
        )
    ],
)
def test_encoding_and_line_ends_stay(project: Path, before: bytes, after: bytes) -> None:
    (project / "a.py").write_bytes(before)
    fix()
    assert (project / "a.py").read_bytes() == after


def test_a_text_that_the_encoding_cannot_hold(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.engine import planted

    monkeypatch.setitem(planted.WORDS, "bad_shape", ("HOST-PULL-009", "good_日本", True))
    text = b"# coding: latin-1\nimport mlx\nbad_shape\n"
    (project / "a.py").write_bytes(text)
    _, summary = fix()
    assert (project / "a.py").read_bytes() == text
    (trouble,) = troubles(summary)
    assert trouble.startswith("a.py: a fix would break the file (iso-8859-1 cannot hold it: ")


def test_a_fix_that_breaks_the_file_is_left_out(project: Path) -> None:
    (project / "a.py").write_text("import mlx\nbad_twice\n")
    (project / "b.py").write_text("import mlx\nbad_break\n")
    _, summary = fix()
    assert (project / "b.py").read_text() == "import mlx\nbad_break\n"
    assert (project / "a.py").read_text() == "import mlx\ngood_shape\n"
    (trouble,) = troubles(summary)
    assert trouble == (
        "b.py: a fix would break the file (syntax error: '(' was never closed); left out: Write ("
    )


def test_a_file_that_changes_meanwhile_is_left_alone(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "a.py").write_text("import mlx\nbad_shape\n")
    real = fixing.fix_once

    def late(*args: object, **options: object) -> object:
        fixed = real(*args, **options)  # type: ignore[arg-type]
        (project / "a.py").write_text("import mlx\n# mine\nbad_shape\n")
        return fixed

    monkeypatch.setattr(fixing, "fix_once", late)
    _, summary = fix()
    assert (project / "a.py").read_text() == "import mlx\n# mine\nbad_shape\n"
    assert troubles(summary) == ["a.py: changed while it was being fixed, so it was not written"]


def test_a_file_that_cannot_be_written(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "a.py").write_text("import mlx\nbad_shape\n")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "is not writable")

    monkeypatch.setattr(fixing, "replace_file", refuse)
    _, summary = fix()
    assert summary.fixes == 0
    assert troubles(summary) == ["a.py: cannot be written: is not writable"]


def test_an_internal_error_is_told(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "a.py").write_text("import mlx\nbad_shape\n")

    def fail(*_: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(fixing, "settle", fail)
    _, summary = fix()
    assert troubles(summary) == ["a.py: internal error while fixing: ZeroDivisionError: planted"]


def test_fixing_without_writing(project: Path) -> None:
    settings = Settings(root=project)
    data = b"import mlx\r\nbad_twice\r\n"
    result = run((), settings, stdin=("-", data))
    (fixed,) = fix_once(result, settings, unsafe=False, jobs=1, debug=False, stdin=("-", data))
    assert fixed.data == b"import mlx\r\ngood_shape\r\n"
    assert (fixed.old, fixed.new) == (data.decode(), fixed.data.decode())
    assert list(project.iterdir()) == []


def finding(line: int, code: str = "GRAPH-BREAK-001", end_line: int | None = None) -> Finding:
    return Finding(
        code, line, 1, end_line or line, 2, "m", "h", "default", path="a.py", severity="warning"
    )


G = "GRAPH-BREAK-001"
D = "DTYPE-001"


@pytest.mark.parametrize(
    ("before", "findings", "after"),
    [
        ("x()  # noqa: E501\n", [finding(1)], f"x()  # noqa: E501  # embercoach: ignore[{G}]\n"),
        (
            f"x()  # embercoach: ignore[{D}] because\n",
            [finding(1)],
            f"x()  # embercoach: ignore[{D}, {G}] because\n",
        ),
        ("x = 1 + \\\n  y()\n", [finding(1)], f"x = 1 + \\\n  y()  # embercoach: ignore[{G}]\n"),
        (
            'k(\n  """\n  body\n  """,\n  1)\n',
            [finding(3)],
            f'k(\n  """\n  body\n  """,  # embercoach: ignore[{G}]\n  1)\n',
        ),
        (
            'k("""\n  body\n  """)\n',
            [finding(2)],
            f'k("""\n  body\n  """)  # embercoach: ignore[{G}]\n',
        ),
        (
            'k(f"""\n{\na}\n  """)\n',
            [finding(3)],
            f'k(f"""\n{{\na}}\n  """)  # embercoach: ignore[{G}]\n',
        ),
    ],
)
def test_suppressing(before: str, findings: list[Finding], after: str) -> None:
    newline = "\r\n" if "\r\n" in before else "\n"
    assert annotated(before, findings, newline) == after
    judge = Judge(Settings(root=Path("/p")))
    inspection = Inspection("checked", "", (), tuple(findings), read_directives(after))
    verdict = judge.judge(Path("/p/a.py"), "a.py", inspection)
    assert [f.code for f in verdict.findings if f.code in (G, D)] == []


PIECES = ["x()", "y(\n  1,\n)", 's = """\n  text\n"""', "a = 1 + \\\n  2", "if x:\n    y()"]


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=5), st.data())
def test_what_is_suppressed_stays_suppressed(pieces: list[str], data: st.DataObject) -> None:
    """Every finding's line gets a comment that covers it, and the code stays what it is."""
    import ast

    source = "\n".join(pieces) + "\n"
    lines = st.lists(st.integers(1, source.count("\n")), min_size=1, max_size=4)
    findings = [finding(line) for line in data.draw(lines)]
    after = annotated(source, findings)
    assert ast.dump(ast.parse(after)) == ast.dump(ast.parse(source))
    directives = read_directives(after)
    covered = CoveredLines(directives)
    assert all(covered.covers(f.code, f.line, f.end_line) for f in findings)
    # Done twice it adds the code once more to the list, and no second comment.
    assert len(read_directives(annotated(after, findings))) == len(directives)


def test_other_linters_leave_the_comment_alone(project: Path) -> None:
    path = project / "a.py"
    path.write_text("import os  # noqa: F401\nimport sys\n")
    done, problems = annotate_files([finding(1), finding(2), finding(2, D)])
    assert (done, problems) == (3, [])
    result = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--isolated", "--select=F,RUF100", "a.py"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "warning" not in result.stderr
    assert "`sys` imported but unused" in result.stdout
    assert "`os` imported" not in result.stdout
    assert "Found 1 error" in result.stdout


def test_a_file_that_cannot_be_suppressed(project: Path) -> None:
    done, problems = annotate_files([finding(1)])
    assert done == 0
    assert [p.path for p in problems] == ["a.py"]
