"""What linted code, a linted folder or a configuration names is read only where that is safe."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from pathlib import Path

import pytest

from embercoach import files
from embercoach.cli.entry import start
from embercoach.files import RefusedError, TooLargeError, read_bytes
from tests.robustness.outcome import time_limit

SECRET = "hunter2 is secret"
KERNEL = """\
from pathlib import Path
import os
import mlx.core as mx

{read}
kernel = mx.fast.metal_kernel(
    name=text, input_names=["inp"], output_names=["out"], source="out[0] = inp[0];"
)
"""
READS = {
    "read_text": "text = (Path(__file__).parent / {name!r}).read_text()",
    "open": "text = open(os.path.join(os.path.dirname(__file__), {name!r})).read()",
    "path-open": "with Path(__file__).parent.joinpath({name!r}).open() as f:\n    text = f.read()",
}
FOUND = (
    "import mlx.core as mx\n\n\n"
    "def f(x: mx.array) -> mx.array:\n    return mx.full((2,), mx.sum(x).item())\n"
    "\n\nfor x in data:\n    f(x)\n"
)
needs_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
needs_proc = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs procfs")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("CANARY", SECRET)
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "secret.py").write_text(f"NAME = {SECRET!r}\n")
    project = tmp_path / "above" / "project"
    (project / "package").mkdir(parents=True)
    (project / "embercoach.toml").write_text("")
    monkeypatch.chdir(project)
    return project


def lint(*arguments: str) -> tuple[int, str]:
    """The exit code of a check, and all that it prints."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), time_limit(20):
        code = start(["check", *(arguments or (".",))])
    output = out.getvalue() + err.getvalue()
    assert "internal error" not in output
    assert SECRET not in output
    return code, output


def write_kernel(name: str, form: str = "read_text") -> None:
    source = KERNEL.format(read=READS[form].format(name=name))
    Path("package", "k.py").write_text(source)


@pytest.mark.parametrize("form", READS)
def test_a_file_inside_the_project_is_read(project: Path, form: str) -> None:
    (project / "name.txt").write_text("my-kernel")
    write_kernel("../name.txt", form)
    code, output = lint()
    assert code == 1
    assert "KERNEL-NAME-001" in output


@pytest.mark.parametrize("form", READS)
@pytest.mark.parametrize("name", ["../../../secret", "{absolute}"])
def test_a_file_outside_the_project_is_not_read(project: Path, form: str, name: str) -> None:
    write_kernel(name.format(absolute=project.parents[1] / "secret"), form)
    code, output = lint()
    assert (code, "1 file" in output) == (0, True)


@pytest.mark.parametrize("folder", [".git", ".hg", ".GIT"])
def test_a_repositorys_own_folder_is_not_read(project: Path, folder: str) -> None:
    (project / folder).mkdir()
    (project / folder / "config").write_text(SECRET)
    write_kernel(f"../{folder}/config")
    assert lint()[0] == 0


@needs_proc
@pytest.mark.parametrize("name", ["/proc/self/environ", "/proc/kmsg", "/dev/zero", "/dev/stdin"])
def test_pseudo_files_are_not_read(project: Path, name: str) -> None:
    write_kernel(name)
    assert lint()[0] == 0


def link_out(project: Path) -> None:
    (project / "package" / "kernel").symlink_to(project.parents[1] / "secret")


def link_loop(project: Path) -> None:
    (project / "package" / "kernel").symlink_to("kernel")


def folder_link_out(project: Path) -> None:
    (project / "package" / "out").symlink_to(project.parents[1], target_is_directory=True)
    write_kernel("out/secret")


def pipe(project: Path) -> None:
    if not hasattr(os, "mkfifo"):
        pytest.skip("needs named pipes")
    os.mkfifo(project / "package" / "kernel")


def large(project: Path) -> None:
    with (project / "package" / "kernel").open("wb") as file:
        file.truncate(1 << 40)


ODD = [link_out, link_loop, folder_link_out, pipe, large]


@pytest.mark.parametrize("make", ODD)
def test_odd_files_are_not_read(project: Path, make: object) -> None:
    write_kernel("kernel")
    make(project)  # type: ignore[operator]
    assert lint()[0] == 0


def test_a_link_that_stays_inside_the_project_is_read(project: Path) -> None:
    (project / "name.txt").write_text("my-kernel")
    (project / "package" / "kernel").symlink_to(project / "name.txt")
    write_kernel("kernel")
    assert lint()[0] == 1


@pytest.mark.parametrize(
    "statement",
    ["from ....secret import NAME", "from ..linked import NAME", "from ..pipe import NAME"],
)
def test_imports_stay_inside_the_project(project: Path, statement: str) -> None:
    (project / "linked.py").symlink_to(project.parents[1] / "secret.py")
    if hasattr(os, "mkfifo"):
        os.mkfifo(project / "pipe.py")
    source = KERNEL.format(read=f"{statement} as text")
    (project / "package" / "k.py").write_text(source)
    assert lint("package")[0] == 0


def test_a_folders_links_that_lead_outside_are_skipped(project: Path) -> None:
    (project.parent / "other.py").write_text(FOUND)
    (project / "package" / "out.py").symlink_to(project.parent / "other.py")
    (project / "inside.py").write_text(FOUND)
    (project / "package" / "in.py").symlink_to(project / "inside.py")
    code, output = lint("package", "--output-format", "concise")
    assert code == 1
    assert "package/in.py" in output.replace(os.sep, "/")
    assert "out.py" not in output
    # The user named it.
    assert lint("package/out.py")[0] == 1


@needs_pipes
@pytest.mark.parametrize(
    ("name", "code"),
    [("a.py", 0), (".gitignore", 0), (".git/info/exclude", 0), ("embercoach.toml", 2)],
)
def test_pipes_in_a_folder_hang_nothing(project: Path, name: str, code: int) -> None:
    (project / ".git" / "info").mkdir(parents=True)
    (project / name).unlink(missing_ok=True)
    os.mkfifo(project / name)
    assert lint()[0] == code


@needs_pipes
@pytest.mark.parametrize("name", ["pipe", "/dev/stdin", "/dev/zero"])
@pytest.mark.parametrize("option", [(), ("--config",), ("--baseline",)])
def test_a_named_file_that_is_none_is_an_error(
    project: Path, name: str, option: tuple[str, ...]
) -> None:
    os.mkfifo(project / "pipe")
    with contextlib.ExitStack() as stack:
        if name == "/dev/stdin":
            reading, writing = os.pipe()
            stack.callback(os.close, writing)
            before = os.dup(0)
            os.dup2(reading, 0)
            os.close(reading)
            stack.callback(os.close, before)
            stack.callback(os.dup2, before, 0)
        code, output = lint(*option, name)
    assert code == 2
    assert "a regular file" in output


# The function itself.


def test_the_limit_is_inclusive(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    assert read_bytes(tmp_path / "a", limit=5) == b"12345"
    with pytest.raises(TooLargeError, match="larger than 4 bytes"):
        read_bytes(tmp_path / "a", limit=4)


@pytest.mark.parametrize("root", ["in", "in-side", "in/deeper"])
def test_a_root_is_a_folder_and_no_beginning_of_a_name(tmp_path: Path, root: str) -> None:
    (tmp_path / "in" / "deeper").mkdir(parents=True)
    (tmp_path / "in-side").mkdir()
    (tmp_path / "in" / "a").write_bytes(b"a")
    folder = str(tmp_path / root)
    if root == "in":
        assert read_bytes(tmp_path / "in" / "a", root=folder) == b"a"
    else:
        with pytest.raises(RefusedError, match="outside the project"):
            read_bytes(tmp_path / "in" / "a", root=folder)


@needs_proc
@pytest.mark.parametrize("path", ["/proc/self/environ", "/proc/self/cmdline"])
def test_the_whole_file_system_as_root_is_still_without_procfs(path: str) -> None:
    with pytest.raises(RefusedError):
        read_bytes(path, root="/")
    assert read_bytes(path) == b""


def test_a_file_that_is_exchanged_after_it_was_opened_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_bytes(b"harmless")
    (tmp_path / "secret").write_bytes(b"secret")
    real = os.path.realpath

    def exchanged(path: str, **kwargs: object) -> str:
        inside = tmp_path / "in" / "a"
        if inside.is_symlink():
            inside.unlink()
            inside.write_bytes(b"harmless")
        return real(path, **kwargs)  # type: ignore[arg-type]

    (tmp_path / "in" / "a").unlink()
    (tmp_path / "in" / "a").symlink_to(tmp_path / "secret")
    monkeypatch.setattr(files.os.path, "realpath", exchanged)
    with pytest.raises(RefusedError):
        read_bytes(tmp_path / "in" / "a", root=str(tmp_path / "in"))


@pytest.mark.skipif(sys.platform == "win32", reason="needs descriptors by number")
def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    before = os.dup(0)
    os.close(before)
    for limit in (1, 9):
        with contextlib.suppress(OSError):
            read_bytes(tmp_path / "a", limit=limit)
    after = os.dup(0)
    os.close(after)
    assert after == before
