"""Discovery: which files are checked, which are skipped, and which problems are reported."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from embercoach.config import Configurations, Settings
from embercoach.engine.file_discovery import discover


def tree(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n", encoding="utf-8")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shown(*paths: str, force_exclude: bool = False, **settings: object) -> list[str]:
    options = Settings(root=Path.cwd(), **settings)  # type: ignore[arg-type]
    found = discover(paths, Configurations.fixed(options), force_exclude=force_exclude)
    assert found.problems == []
    assert all(file.path == Path.cwd() / file.shown for file, _ in found.files)
    return [file.shown for file, _ in found.files]


def test_suffixes_order_and_defaults(project: Path) -> None:
    tree(project, "b.py", "a/z.py", "a/c.pyi", "a.txt", "a/x.pyc", "c.ipynb", "noext")
    tree(project, ".ipynb_checkpoints/c-checkpoint.ipynb")
    tree(project, ".venv/lib/v.py", "a/__pycache__/p.py", "node_modules/n.py", ".hidden/h.py")
    tree(project, "dist/d.py", "site-packages/s.py", "x.py/inside.py")
    expected = [".hidden/h.py", "a/c.pyi", "a/z.py", "b.py", "c.ipynb", "x.py/inside.py"]
    assert shown(".") == expected
    assert shown() == []
    assert shown("a") == ["a/c.pyi", "a/z.py"]
    assert shown("./a/../b.py") == ["b.py"]
    assert shown(str(project / "b.py")) == [str(project / "b.py")]
    assert shown("a/..", "b.py", "./b.py") == expected


def test_a_named_file_is_taken_whatever_it_is(project: Path) -> None:
    tree(project, "script", ".venv/v.py", "dist/d.py")
    assert shown("script", ".venv/v.py", "dist/d.py") == [".venv/v.py", "dist/d.py", "script"]
    # So is a named folder.
    assert shown("dist") == ["dist/d.py"]
    assert shown("dist", "script", ".venv/v.py", force_exclude=True) == ["script"]


def test_exclude_patterns(project: Path) -> None:
    tree(project, "src/gen/a.py", "src/b.py", "gen/c.py", "tests/test_x.py", "top.py")
    assert shown(".", exclude=("gen",)) == ["src/b.py", "tests/test_x.py", "top.py"]
    assert shown(".", exclude=("/gen",)) == [
        "src/b.py",
        "src/gen/a.py",
        "tests/test_x.py",
        "top.py",
    ]
    assert shown(".", exclude=("src/**", "test_*.py")) == ["gen/c.py", "top.py"]
    assert shown("src/gen/a.py", "top.py", exclude=("gen",), force_exclude=True) == ["top.py"]


@pytest.fixture
def repository(project: Path) -> Path:
    subprocess.run(["git", "init", "-q", "."], check=True)
    tree(project, "a.py", "out/o.py", "sub/keep.py", "sub/drop.py", "sub/deep/x_gen.py", "b_gen.py")
    (project / ".gitignore").write_text("# comment\n\nout/\n*_gen.py\n/sub/drop.py\n")
    (project / "sub" / ".gitignore").write_text("!drop.py\n!deep/x_gen.py\nkeep.py\n")
    return project


def test_gitignore_agrees_with_git(repository: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--others", "--exclude-standard", "*.py"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert shown(".") == sorted(listed) == ["a.py", "sub/deep/x_gen.py", "sub/drop.py"]
    assert shown("sub") == ["sub/deep/x_gen.py", "sub/drop.py"]
    assert shown("sub/deep") == ["sub/deep/x_gen.py"]
    everything = ["a.py", "b_gen.py", "out/o.py", "sub/deep/x_gen.py", "sub/drop.py", "sub/keep.py"]
    assert shown(".", respect_gitignore=False) == everything
    # Named on purpose.
    assert shown("out") == ["out/o.py"]
    assert shown("b_gen.py") == ["b_gen.py"]
    (repository / ".git" / "info" / "exclude").write_text("a.py\n")
    assert shown(".") == ["sub/deep/x_gen.py", "sub/drop.py"]


def test_lines_that_are_no_patterns_are_passed_over(repository: Path) -> None:
    (repository / ".gitignore").write_bytes(b"!\n[z-a]\n\\\n*_gen.py\n\xff\xfe\n")
    assert "b_gen.py" not in shown(".")
    assert "out/o.py" in shown(".")


def test_gitignore_needs_a_repository(project: Path) -> None:
    tree(project, "a.py")
    (project / ".gitignore").write_text("a.py\n")
    assert shown(".") == ["a.py"]


def test_symlinks(project: Path) -> None:
    tree(project, "real/a.py", "outside/b.py")
    (project / "real" / "link.py").symlink_to(project / "outside" / "b.py")
    (project / "real" / "folder").symlink_to(project / "outside")
    (project / "real" / "self").symlink_to(project / "real")
    (project / "real" / ".#a.py").symlink_to("user@host.123")
    assert shown("real") == ["real/a.py", "real/link.py"]


def test_what_leads_outside_is_left_out_by_force_exclude(project: Path) -> None:
    """A hook names the files of a checkout, whose author may have made links."""
    tree(project, "repo/a.py", "secret.py")
    (project / "repo" / ".git").mkdir()
    (project / "repo" / "link.py").symlink_to("../secret.py")
    (project / "repo" / "inner.py").symlink_to("a.py")
    named = ("repo/a.py", "repo/inner.py", "repo/link.py")
    assert shown(*named) == sorted(named)
    assert shown(*named, force_exclude=True) == ["repo/a.py", "repo/inner.py"]


def test_a_link_is_no_ignore_file(project: Path) -> None:
    tree(project, "repo/a.py")
    (project / "repo" / ".git").mkdir()
    (project / "patterns").write_text("*.py\n")
    (project / "repo" / ".gitignore").symlink_to("../patterns")
    assert shown("repo") == ["repo/a.py"]


def problems(*paths: str) -> list[tuple[str, str]]:
    found = discover(paths, Configurations.fixed(Settings(root=Path.cwd())))
    return [(problem.path, problem.message) for problem in found.problems]


def test_what_cannot_be_looked_at(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(project, "ok.py", "closed/c.py")
    (project / "gone.py").symlink_to("nowhere")
    (project / "loop.py").symlink_to("loop.py")
    os.mkfifo(project / "pipe.py")
    assert problems("absent.py") == [("absent.py", "cannot be read: No such file or directory")]
    ((path, message),) = problems("a\0b.py")
    assert path == "a\0b.py"
    assert message.startswith("cannot be read: ")
    assert "embedded null" in message
    assert problems("gone.py") == [("gone.py", "dangling symbolic link")]
    message = "not a regular file; `embercoach check -` reads standard input"
    assert problems("pipe.py") == [("pipe.py", message)]
    found = discover(["."], Configurations.fixed(Settings(root=Path.cwd())))
    assert (found.problems, found.dangling) == ([], ["gone.py", "loop.py"])
    scandir = os.scandir

    def refuse(path: str) -> object:
        if path.endswith("closed"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert ("closed", "cannot be listed: Permission denied") in problems(".")
