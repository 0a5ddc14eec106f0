"""Fixed files keep their owner, mode and links, and their content if anything goes wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from embercoach.fixes import writing
from embercoach.fixes.writing import create_file, distinct, replace_file

unix = pytest.mark.skipif(sys.platform == "win32", reason="needs owners and limits of Unix")


def test_content_and_mode(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    path.chmod(0o754)
    replace_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o754
    assert list(tmp_path.iterdir()) == [path]


def test_a_symlink_stays_one(tmp_path: Path) -> None:
    target = tmp_path / "real" / "a.py"
    target.parent.mkdir()
    target.write_bytes(b"old")
    link = tmp_path / "link.py"
    link.symlink_to(target)
    replace_file(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


@pytest.mark.parametrize("new", [b"", b"new", b"same length", b"much longer than before" * 99])
def test_hard_links_stay_links(tmp_path: Path, new: bytes) -> None:
    path, other = tmp_path / "a.py", tmp_path / "other.py"
    path.write_bytes(b"same length")
    path.chmod(0o640)
    other.hardlink_to(path)
    replace_file(path, new)
    assert path.read_bytes() == other.read_bytes() == new
    assert path.samefile(other)
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(tmp_path.iterdir()) == [path, other]


@unix
def test_the_owner_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    if os.geteuid() != 0:
        pytest.skip("only root may give files away")
    os.chown(path, 12345, 54321)
    path.chmod(0o664)
    replace_file(path, b"new")
    status = path.stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (12345, 54321, 0o664)
    assert path.read_bytes() == b"new"


@unix
def test_an_owner_that_no_new_file_can_have_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    inode = path.stat().st_ino
    real = Path.lstat

    def of_another(self: Path) -> os.stat_result:
        status = real(self)
        return os.stat_result([*status[:4], status.st_uid + 1, *status[5:10]])

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "lstat", lambda self: (of_another if self == path else real)(self))
    monkeypatch.setattr(os, "chown", refuse)
    replace_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_ino == inode
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="needs extended attributes")
def test_attributes_stay(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    try:
        os.setxattr(path, "user.note", b"mine")
    except OSError:
        pytest.skip("this file system has none")
    replace_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert os.getxattr(path, "user.note") == b"mine"


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """As good as a full disk: the system lets no file grow beyond this."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@unix
@pytest.mark.parametrize("links", [1, 2])
def test_a_full_disk_leaves_the_old_content(tmp_path: Path, links: int) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old" * 1_000)
    if links == 2:
        (tmp_path / "b.py").hardlink_to(path)
    with largest_file(5_000), pytest.raises(OSError, match="large"):
        replace_file(path, b"new" * 10_000)
    assert path.read_bytes() == b"old" * 1_000
    assert len(list(tmp_path.iterdir())) == links


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_what_cannot_be_undone_is_kept_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    """The disk fails at the first, second or third time that a file is overwritten."""
    path = tmp_path / "a.py"
    path.write_bytes(b"old content")
    (tmp_path / "b.py").hardlink_to(path)
    monkeypatch.setattr(writing.tempfile, "tempdir", str(tmp_path))
    real, calls = os.write, 0

    def write(descriptor: int, data: bytes) -> int:
        nonlocal calls
        calls += 1
        if calls >= failing:
            raise OSError(28, "No space left on device")
        return real(descriptor, data[:4])

    monkeypatch.setattr(writing.os, "write", write)
    with pytest.raises(OSError, match="old content is now in") as error:
        replace_file(path, b"new content that is longer")
    (kept,) = tmp_path.glob("embercoach-*")
    assert kept.read_bytes() == b"old content"
    assert str(kept) in str(error.value)


def test_a_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")

    def fail(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="No space"):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_without_room_for_new_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")

    def refuse(_: Path) -> tuple[int, Path]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(writing, "create", refuse)
    replace_file(path, b"new")
    assert path.read_bytes() == b"new"


def test_a_file_that_may_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(PermissionError):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"


def test_a_pipe_is_not_written(tmp_path: Path) -> None:
    if not hasattr(os, "mkfifo"):
        pytest.skip("needs named pipes")
    os.mkfifo(tmp_path / "a.py")
    with pytest.raises(OSError, match="not a regular file"):
        replace_file(tmp_path / "a.py", b"new")


def test_a_new_file_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        create_file(tmp_path / "link", b"new")
    assert not (tmp_path / "elsewhere").exists()
    create_file(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


def test_links_of_a_file_are_one(tmp_path: Path) -> None:
    names = {name: str(tmp_path / name) for name in ("a", "b", "c", "d", "gone")}
    for name in "bd":
        Path(names[name]).write_bytes(b"")
    Path(names["a"]).symlink_to("b")
    Path(names["c"]).hardlink_to(names["b"])
    kept = distinct(names.values())
    assert kept == [names["b"], names["d"], names["gone"]]


KILLED = """\
import os, signal, sys
from pathlib import Path
from embercoach.fixes import writing
writing._take_place = lambda new, target: os.kill(os.getpid(), signal.SIGKILL)
writing.replace_file(Path(sys.argv[1]), b"new")
"""


@unix
def test_the_draft_of_a_killed_run_is_removed_by_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    subprocess.run([sys.executable, "-c", KILLED, path], check=False)
    (draft,) = {*tmp_path.iterdir()} - {path}
    host, process = draft.name.split("-")[1:3]
    living = draft.with_name(draft.name.replace(process, str(os.getpid())))
    other = draft.with_name(draft.name.replace(host, "0" * 8))
    similar, link = draft.with_suffix(".py"), draft.with_name(draft.name.replace(process, "1" * 9))
    for kept in (living, other, similar):
        kept.touch()
    link.symlink_to(path)
    replace_file(path, b"new")
    assert {*tmp_path.iterdir()} == {path, living, other, similar, link}
