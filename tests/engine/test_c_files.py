"""Metal and Objective-C files in the engine: found, read, suppressed, cached, annotated."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embercoach.config import Configurations, Settings
from embercoach.engine.check_run import RunResult, run
from embercoach.engine.file_discovery import discover
from embercoach.engine.languages import Language
from embercoach.engine.noqa_writing import annotate_files
from embercoach.engine.suppressions import read_directives

BAD = "kernel void f(device float* x [[buffer(31)]], int i [[thread_position_in_grid]]) {}\n"
INDEX, TYPE = "KERNEL-UNIT-002", "KERNEL-UNIT-005"
COPY = "HOST-COPY-001"
HOST = """\
#include <torch/extension.h>
void f(torch::Tensor x) {
  [d newBufferWithBytes:x.data_ptr()];
}
"""
METAL: Language = "metal"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(*paths: str, cache: bool = False, jobs: int = 1, **options: object) -> RunResult:
    settings_ = Settings(root=Path.cwd(), **options)  # type: ignore[arg-type]
    return run(paths or (".",), settings_, jobs=jobs, cache=cache)


def reported(result: RunResult) -> list[tuple[str, int, str]]:
    return [(f.path, f.line, f.code) for f in result.findings]


def test_folders_are_searched(project: Path) -> None:
    for name in ("a.metal", "b/c.mm", "b/d.m", "e.metallib", "f.h", "build/g.metal", ".venv/h.mm"):
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(BAD)
    settings = Settings(root=project, exclude=("build", ".venv"))
    shown = [file.shown for file, _ in discover(["."], Configurations.fixed(settings)).files]
    assert shown == ["a.metal", "b/c.mm", "b/d.m"]


def test_all_kinds_of_files_together(project: Path) -> None:
    (project / "a.metal").write_text(BAD)
    (project / "b.mm").write_text(HOST + "id<MTLDevice> d;\n")
    (project / "c.py").write_text(
        "import mlx.core as mx\n\n\ndef f(x: mx.array):\n    return x.item()\n"
    )
    (project / "d.m").write_text("y = [x 1];\n")
    expected = [("a.metal", 1, INDEX), ("a.metal", 1, TYPE), ("b.mm", 3, COPY)]
    for jobs in (1, 2):
        result = check(jobs=jobs)
        assert [f for f in reported(result) if not f[0].endswith(".py")] == expected
        assert any(f.path == "c.py" for f in result.findings)
        assert (result.files_checked, result.files_skipped, result.problems) == (3, 1, ())


def test_per_file_settings(project: Path) -> None:
    (project / "a.metal").write_text(BAD)
    assert reported(check(per_file_ignores=(("*.metal", (TYPE,)),))) == [("a.metal", 1, INDEX)]
    assert reported(check(exclude=("*.metal",))) == []


def test_a_broken_encoding_is_told(project: Path) -> None:
    (project / "a.metal").write_bytes(b"// ok\n// \xff\n" + BAD.encode())
    (problem,) = check().problems
    assert (problem.path, problem.line, problem.column) == ("a.metal", 2, 4)
    assert "0xff" in problem.message


def test_what_does_not_parse_is_no_problem(project: Path) -> None:
    (project / "a.metal").write_text("kernel void f( { } ]] (\n")
    (project / "b.mm").write_text("[[[ MTL }}} @\n")
    result = check()
    noted = [("a.metal", 1, "KERNEL-SYNTAX-002")]
    assert (reported(result), result.problems, result.files_checked) == (noted, (), 2)


BODY = """\
threadgroup float a[64];
uint t = thread_position_in_threadgroup.x;
a[t] = x[t];
y[t] = a[63 - t];
"""
READS = """\
import mlx.core as mx
from pathlib import Path

kernel = mx.fast.metal_kernel(name="k", input_names=["x"], output_names=["y"],
                              source=(Path(__file__).parent / "body{suffix}").read_text())
kernel(inputs=[mx.ones((64,))], grid=(64, 1, 1), threadgroup=(64, 1, 1),
       output_shapes=[(64,)], output_dtypes=[mx.float32])
"""
RACE = "KERNEL-RACE-001"


def test_a_finding_in_a_body_is_placed_in_its_file(project: Path) -> None:
    (project / "k.py").write_text(READS.format(suffix=".metal"))
    body = project / "body.metal"
    body.write_text(BODY)
    for cache in (False, True, True):
        (finding,) = check("k.py", cache=cache).findings
        assert (finding.path, finding.line, finding.code) == ("body.metal", 4, RACE)
        assert finding.message.endswith("write at body.metal:3")
        assert finding.help.endswith("\nk.py:5 reads this file")
        assert [(step.line, step.column) for step in finding.related] == [(3, 1)]
    assert check(per_file_ignores=(("*.metal", (RACE,)),)).findings == ()
    body.write_text(BODY.replace("- t];", f"- t];  // embercoach: ignore[{RACE}]"))
    result = check(cache=True)
    assert (result.findings, result.suppressed) == ((), 1)
    body.write_text(BODY.replace("threadgroup", "\nthreadgroup", 1))
    assert reported(check(cache=True)) == [("body.metal", 5, RACE)]
    assert annotate_files(check().findings) == (1, [])
    assert f"// embercoach: ignore[{RACE}]" in body.read_text()
    assert reported(check()) == []


def test_a_finding_in_another_file_names_it(project: Path) -> None:
    (project / "k.py").write_text(READS.format(suffix=".txt"))
    (project / "body.txt").write_text(BODY)
    (finding,) = check().findings
    assert (finding.path, finding.line) == ("k.py", 5)
    assert finding.message.startswith("body.txt:4: data race on ")


LONG = """\
kernel void f(
    device float* x [[buffer(31)]],
    int i [[thread_position_in_grid]]) {
  x[i] = 0;
}
"""


@pytest.mark.parametrize(
    ("source", "left"),
    [
        (BAD.replace("\n", f"  // embercoach: ignore[{INDEX}, {TYPE}] why\n"), []),
        (BAD.replace("\n", "  // embercoach: ignore\n"), []),
        (f"// embercoach: ignore[KERNEL-UNIT] see https://example.org\n{BAD}", []),
        (f"// embercoach: skip-file\n{BAD}", []),
        (f"// embercoach: ignore[KERNEL-UNIT]\n{LONG}", []),
        (
            LONG.replace("= 0;", "= 0;  // embercoach: ignore[KERNEL-UNIT]"),
            [INDEX, TYPE, "NOQA-001"],
        ),
        (BAD.replace("\n", f"  /* embercoach: ignore[{INDEX}] */\n"), [INDEX, TYPE]),
        (BAD.replace("\n", "  // embercoach: ignore[KERNEL-UNTI]\n"), [INDEX, TYPE, "NOQA-002"]),
    ],
)
def test_suppressions(project: Path, source: str, left: list[str]) -> None:
    (project / "a.metal").write_text(source)
    assert [f.code for f in check().findings] == sorted(left, key=lambda c: c.startswith("NOQA"))


def test_suppressions_in_objective_c(project: Path) -> None:
    source = HOST.replace("];", f"];  // embercoach: ignore[{COPY}]")
    (project / "a.mm").write_text(f"#import <Metal/Metal.h>\n{source}")
    assert reported(check()) == []
    text = f'auto s = R"(\n// embercoach: skip-file\n{BAD})";\n'
    (project / "a.mm").write_text(f"#import <Metal/Metal.h>\n{text}")
    assert [f.code for f in check().findings] == [INDEX, TYPE]


def test_unused_suppressions_have_fixes(project: Path) -> None:
    from embercoach.engine.fixing import fix_files

    path = project / "a.metal"
    path.write_text("int n() { return 1; }  // embercoach: ignore[KERNEL-RACE-001] why // TODO\n")
    own = Settings(root=project)
    result, summary = fix_files(check(), own, check, unsafe=False, jobs=1, debug=False)
    assert (summary.fixes, reported(result)) == (1, [])
    assert path.read_text() == "int n() { return 1; }  // TODO\n"


@pytest.mark.parametrize("source", [BAD, LONG])
def test_suppressions_are_written(project: Path, source: str) -> None:
    path = project / "a.metal"
    path.write_text(source)
    found = check().findings
    assert annotate_files(found) == (len(found), [])
    assert path.read_text().count("// embercoach: ignore[") == len({f.line for f in found})
    assert reported(check()) == []


@settings(max_examples=50)
@given(st.text(alphabet="x(){};/*\\\"' \n\tembercoach: ignore[A-1]", max_size=80))
def test_any_text_can_be_read(source: str) -> None:
    for language in (METAL, "objective-c"):
        for directive in read_directives(source, language):  # type: ignore[arg-type]
            assert 0 <= directive.removal <= directive.removal_end <= len(source)
            assert source.split("\n")[directive.line - 1][directive.column - 1 :].startswith("//")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_suppression_ends_with_its_line(end: str) -> None:
    line = "x(); // embercoach: ignore[HOST-COPY-001]"
    for language in (METAL, "objective-c"):
        found = read_directives(end.join([line] * 3), language)  # type: ignore[arg-type]
        assert [(one.line, one.column) for one in found] == [(1, 6), (2, 6), (3, 6)]
