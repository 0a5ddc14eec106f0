"""The cache: right after every change, silent about every damage."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from embercoach.config import Settings
from embercoach.engine import cache as cache_module
from embercoach.engine import cache as fingerprint_module
from embercoach.engine.cache import FOLDER, Cache, States
from embercoach.engine.check_run import RunResult, run
from embercoach.engine.inspection import Inspection, digest_of
from embercoach.kernel_builder import KernelBuilder

pytestmark = pytest.mark.usefixtures("planted")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    # What a file's neighbour was before the run started is beyond doubt after two seconds only.
    monkeypatch.setattr(cache_module, "UNSETTLED", -(10**18))
    (tmp_path / "a.py").write_text("import mlx\nbad_pull\n")
    (tmp_path / "b.py").write_text("import mlx\nbad_shape\nbad_pull  # noqa: GRAPH-BREAK-001\n")
    (tmp_path / "c.py").write_text("import numpy\n")
    (tmp_path / "d.py").write_text("import mlx\ndef f(:\n")
    return tmp_path


def check(*paths: str, **settings: object) -> RunResult:
    return run(paths or (".",), Settings(root=Path.cwd(), **settings))  # type: ignore[arg-type]


def plain(result: RunResult) -> tuple[object, ...]:
    return (result.findings, result.problems, result.suppressed, result.files_skipped)


def cache_file(project: Path) -> Path:
    (file,) = (project / FOLDER).glob("results-*")
    return file


def test_a_warm_run_says_the_same(project: Path) -> None:
    cold = check()
    warm = check()
    assert plain(warm) == plain(cold)
    assert [f.code for f in cold.findings] == ["GRAPH-BREAK-001", "HOST-PULL-009"]
    assert [p.message for p in cold.problems] == ["syntax error: invalid syntax"]
    assert (cold.suppressed, cold.files_checked, cold.files_skipped) == (1, 2, 1)
    assert (cold.cached, warm.cached) == (0, 3)
    assert (project / FOLDER / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172")
    assert (project / FOLDER / ".gitignore").read_text() == "*\n"


def test_a_change_is_seen_even_with_the_same_size_and_time(project: Path) -> None:
    check()
    path = project / "a.py"
    before = path.stat()
    path.write_text("import mlx\nbad_pulk\n".replace("bad_pulk", "ok__pull"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    result = check()
    assert [f.code for f in result.findings] == ["HOST-PULL-009"]
    assert result.cached == 2


def test_settings_are_applied_after_the_cache(project: Path) -> None:
    check()
    for settings in (
        {"profile": "ember"},
        {"enabled": frozenset({"GRAPH-BREAK-001"})},
        {"per_file_ignores": (("a.py", ("GRAPH",)),)},
        {"per_file_profiles": (("a.py", "ember"),)},
    ):
        warm = check(**settings)
        assert warm.cached == 3
        cold = run((".",), Settings(root=project, **settings), cache=False)  # type: ignore[arg-type]
        assert plain(cold) == plain(warm)
        assert cold.cached == 0
    assert check(profile="ember").findings[0].severity == "error"
    assert check(per_file_ignores=(("a.py", ("GRAPH",)),)).findings[0].path == "b.py"


def test_a_dependency_that_changes_appears_or_goes(project: Path) -> None:
    (project / "a.py").write_text("import mlx\n# needs other.txt\n")
    other = project / "other.txt"
    seen = []
    for content in (None, "one", "two", None, "one"):
        if content is None:
            other.unlink(missing_ok=True)
        else:
            other.write_text(content)
        result = check("a.py")
        seen.append([f.message for f in result.findings])
        assert result.cached == 0
        assert plain(check("a.py")) == plain(result)
        assert check("a.py").cached == 1
    assert seen == [[], ["with one"], ["with two"], [], ["with one"]]
    other.unlink()
    other.mkdir()
    assert check("a.py").cached == 0


def test_a_dependency_written_just_now_is_not_trusted(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_module, "UNSETTLED", 2_000_000_000)
    (project / "a.py").write_text("import mlx\n# needs other.txt\n")
    (project / "other.txt").write_text("one")
    check("a.py", "b.py")
    assert check("a.py", "b.py").cached == 1
    old = (project / "other.txt").stat().st_mtime_ns - 10**10
    os.utime(project / "other.txt", ns=(old, old))
    check("a.py", "b.py")
    assert check("a.py", "b.py").cached == 2


def test_the_cache_moves_with_the_project(
    project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (project / "a.py").write_text("import mlx\n# needs other.txt\n")
    (project / "other.txt").write_text("one")
    check()
    elsewhere = tmp_path_factory.mktemp("new") / "project"
    project.rename(elsewhere)
    monkeypatch.chdir(elsewhere)
    assert check().cached == 3


def test_internal_errors_are_not_kept(project: Path) -> None:
    (project / "a.py").write_text("import mlx\ncrash_value\n")
    assert len(check().problems) == 2
    assert check().cached == 2


def test_results_of_files_that_are_gone_go_too(project: Path) -> None:
    check()
    (project / "b.py").unlink()
    (project / "a.py").write_text("import mlx\n")
    check()
    cache = Cache(project, fingerprint_module.fingerprint(), States(0))
    assert sorted(cache.entries) == ["a.py", "d.py"]


def test_a_run_over_part_of_the_project_keeps_the_rest(project: Path) -> None:
    check()
    (project / "a.py").write_text("import mlx\n")
    check("a.py")
    assert check().cached == 3


def test_another_program_means_another_cache(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check()
    for number in range(5):
        monkeypatch.setattr(
            "embercoach.engine.check_run.fingerprint", lambda *_, n=number: f"{n:024x}"
        )
        assert check().cached == 0
        assert check().cached == 3
    assert len(list((project / FOLDER).glob("results-*"))) == cache_module.VERSIONS
    assert (project / FOLDER / f"results-{4:024x}").exists()


def test_other_kernel_builders_mean_another_cache(project: Path) -> None:
    one, other = (
        (KernelBuilder("pack.Kernel", (("source", origin),)),) for origin in ("body", "text")
    )
    check()
    assert check(kernel_builders=one).cached == 0
    assert check(kernel_builders=other).cached == 0
    assert check(kernel_builders=one).cached == 3
    assert check().cached == 3


def test_the_fingerprint_knows_every_deciding_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def compute() -> str:
        fingerprint_module.program.cache_clear()
        return fingerprint_module.fingerprint.__wrapped__()

    plain_one = compute()
    assert compute() == plain_one
    read = Path.read_bytes
    root = Path(fingerprint_module.__file__).parents[1]
    for name in (
        "checks/arrays/graph_break.py",
        "analysis/values/lattice.py",
        "finding.py",
        "fixes/source_file.py",
    ):
        changed = root / name
        assert changed.exists()

        def altered(self: Path, changed: Path = changed) -> bytes:
            return read(self) + (b"#" if self == changed else b"")

        monkeypatch.setattr(Path, "read_bytes", altered)
        assert compute() != plain_one
    monkeypatch.setattr(Path, "read_bytes", read)
    monkeypatch.setattr(sys, "version_info", (3, 99, 0))
    assert compute() != plain_one


def damaged(data: bytes, seed: int) -> bytes:
    generator = random.Random(seed)
    kind = seed % 5
    if kind == 0:
        return data[: generator.randrange(len(data))]
    if kind == 1:
        return b""
    if kind == 2:
        return generator.randbytes(200)
    if kind == 3:
        return b"[]\n" + data
    position = generator.randrange(len(data))
    return data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


@pytest.mark.parametrize("seed", range(15))
def test_a_damaged_cache_is_rebuilt_in_silence(project: Path, seed: int) -> None:
    expected = plain(check())
    file = cache_file(project)
    file.write_bytes(damaged(file.read_bytes(), seed))
    result = check()
    assert (plain(result), result.cached) == (expected, 0)
    assert check().cached == 3


@pytest.mark.parametrize("content", ["{}", '{"states": [], "entries": {"a": []}}', "null", "[1]"])
def test_a_well_formed_file_of_another_kind(project: Path, content: str) -> None:
    check()
    file = cache_file(project)
    body = f"{json.dumps(json.loads(content))}\n".encode()
    file.write_bytes(cache_module._digest([body]) + b"\n" + body)
    assert check().cached == 0
    assert check().cached == 3


def test_a_folder_that_cannot_be_written(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert plain(check()) == plain(check())
    assert not (project / FOLDER).exists()
    monkeypatch.undo()


def test_a_file_in_the_folders_place(project: Path) -> None:
    (project / FOLDER).write_text("mine")
    assert plain(check()) == plain(check())
    assert (project / FOLDER).read_text() == "mine"


def test_without_the_cache_nothing_is_written(project: Path) -> None:
    run((".",), Settings(root=project), cache=False)
    assert not (project / FOLDER).exists()


def put(cache: Cache, name: str) -> None:
    inspection = Inspection("checked", digest_of(name.encode()), (), "[[],[]]")
    cache.put(name, inspection)


def test_two_processes_results_are_merged(project: Path) -> None:
    for name in ("x1", "x2"):
        (project / name).touch()
    one, two = Cache(project, "f", States(0)), Cache(project, "f", States(0))
    put(one, str(project / "x1"))
    put(two, str(project / "x2"))
    one.save()
    two.save()
    assert sorted(Cache(project, "f", States(0)).entries) == ["x1", "x2"]


def save_often(folder: str) -> int:
    root = Path(folder)
    broken = 0
    for number in range(30):
        # Asked first: another process may write the file as soon as it was not read.
        written = (root / FOLDER / "results-f").exists()
        cache = Cache(root, "f", States(0))
        broken += written and not cache.entries
        path = root / f"file{os.getpid()}_{number}"
        path.touch()
        put(cache, str(path))
        cache.save()
    return broken


@pytest.mark.skipif(sys.platform != "linux", reason="needs forked processes")
def test_writing_at_the_same_time_never_breaks_the_file(tmp_path: Path) -> None:
    import multiprocessing

    with ProcessPoolExecutor(3, multiprocessing.get_context("fork")) as pool:
        assert sum(pool.map(save_often, [str(tmp_path)] * 3)) == 0
    # Of two that save in the same moment one loses its results: how often depends on the machine.
    # But the last one of all is a process's last one.
    assert any(name.endswith("_29") for name in Cache(tmp_path, "f", States(0)).entries)
    assert not list((tmp_path / FOLDER).glob(".writing-*"))


WARM = """
import sys
from embercoach.cli import entry
for form in ("text", "concise", "json", "github"):
    code = entry.start(["check", sys.argv[1], "--output-format", form])
heavy = {"libcst", "rich", "mlx", "numpy", "tree_sitter", "multiprocessing", "tokenize_"}
print(code, sorted(heavy & sys.modules.keys()), file=sys.stderr)
"""


def test_a_warm_run_imports_nothing_heavy(tmp_path: Path) -> None:
    """With the real checks, in a process of its own."""
    source = (
        "import mlx.core as mx\n\n\ndef f(x: mx.array):\n    return mx.full(2, mx.sum(x).item())\n"
        "\n\nfor x in data:\n    f(x)\n"
    )
    for number in range(5):
        (tmp_path / f"m{number}.py").write_text(source)
    root = str(Path(__file__).parents[2])
    results = [
        subprocess.run(
            [sys.executable, "-c", WARM, str(tmp_path)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": root, "NO_COLOR": "1", "FORCE_COLOR": ""},
            capture_output=True,
            text=True,
            check=True,
        )
        for _ in range(2)
    ]
    assert results[0].stdout == results[1].stdout
    assert results[1].stdout.count("GRAPH-BREAK-001") >= 4
    assert results[1].stderr == "1 []\n"
    assert "libcst" in results[0].stderr
    assert "tree_sitter" not in results[0].stderr, "Metal's grammar is for kernels alone"
