"""The line of a Python file that a kernel's line comes from, if that is certain."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from embercoach.simulator.model import KernelFinding
from embercoach.simulator.reporting import messages
from embercoach.simulator.reporting.compiler_errors import CompileError, CompilerError
from embercoach.simulator.reporting.messages import LineSpan, call_at, line_of, place_of, report

HEAD = "import mlx.core as mx\n\n"
BUILD = (
    "mx.fast.metal_kernel(name={name!r}, input_names=['x'], output_names=['y'], source={source})\n"
)
BODY = '"""\n    uint i = 0;\n    y[9] = x[i];\n"""'


@pytest.fixture(autouse=True)
def _few_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search in the modules that a test imports, not in all that a session has."""
    monkeypatch.setattr(messages, "sys", SimpleNamespace(modules={}))


def build(name: str, source: str) -> str:
    return BUILD.format(name=name, source=source)


def finding(path: Path, line: int | None, excerpt: str, part: str = "body") -> KernelFinding:
    return KernelFinding(
        kind="out-of-bounds",
        kernel="copy",
        part=part,  # type: ignore[arg-type]
        line=line,
        thread=None,
        message="m",
        excerpt=excerpt,
        launched_at=(str(path), 1),
    )


@pytest.mark.parametrize(
    ("code", "line", "excerpt", "text"),
    [
        # Triple quotes; the body's first line is empty.
        (HEAD + build("copy", BODY), 3, "y[9] = x[i];", "y[9] = x[i];"),
        # On the line of the quotes.
        (HEAD + build("copy", '"y[0] = x[0];"'), 1, "y[0] = x[0];", "y[0] = x[0];"),
        # Adjacent literals, a line each.
        (HEAD + build("copy", '(\n    "uint i = 0;\\n"\n    "y[9] = x[i];"\n)'), 2, "y[9] = x[i];",
         "y[9] = x[i];"),
        # An f-string, where the line holds no field.
        (HEAD + "n = 3\n" + build("copy", 'f"""\n  uint i = {n};\n  y[9] = x[i];\n"""'), 3,
         "y[9] = x[i];", "y[9] = x[i];"),
        # A constant that is used elsewhere.
        (HEAD + f"BODY = {BODY}\n" + build("copy", "BODY"), 3, "y[9] = x[i];", "y[9] = x[i];"),
        # Two kernels with the same text: the name tells which.
        (HEAD + build("other", BODY) + build("copy", BODY), 3, "y[9] = x[i];", "y[9] = x[i];"),
        # Words before and behind on the line.
        (HEAD + build("copy", '"""uint i = 0;\n  y[9] = x[i]; // copies\n"""'), 2,
         "y[9] = x[i]; // copies", "y[9] = x[i]; // copies"),
    ],
)  # fmt: skip
def test_a_line_is_found(code: str, line: int, excerpt: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(code, encoding="utf-8")
    place = place_of(finding(path, line, excerpt))
    assert place is not None
    assert place.path == str(path)
    shown = code.split("\n")[place.line - 1]
    assert shown[place.column - 1 : place.end_column - 1] == text
    # It is the last literal that has the text: in the case of two kernels the second.
    assert place.line == max(n for n, one in enumerate(code.split("\n"), 1) if text in one)


@pytest.mark.parametrize(
    ("code", "line", "excerpt", "part"),
    [
        # Put together from pieces: the line is another one.
        (
            HEAD + f"BODY = {BODY}\n" + build("copy", '"int a;\\n" + BODY'),
            4,
            "y[9] = x[i];",
            "body",
        ),
        # Filled in.
        (HEAD + build("copy", 'f"y[{1}] = x[{1}];"'), 1, "y[1] = x[1];", "body"),
        # Two literals have it, and neither is named.
        (HEAD + f"A = {BODY}\nB = {BODY}\n", 3, "y[9] = x[i];", "body"),
        # The kernel has another name.
        (HEAD + build("other", BODY), 3, "y[9] = x[i];", "body"),
        (HEAD + build("copy", BODY), None, "y[9] = x[i];", "body"),
        (HEAD + build("copy", BODY), 3, "", "body"),
        (HEAD + build("copy", BODY), 3, "y[9] = x[i];", "generated"),
        (HEAD + build("copy", BODY), 30, "y[9] = x[i];", "body"),
        ("metal_kernel = (\n", 1, "(", "body"),
        ("metal_kernel = '\0'\n", 1, "(", "body"),
    ],
)
def test_what_is_not_sure_is_not_told(
    code: str, line: int | None, excerpt: str, part: str, tmp_path: Path
) -> None:
    path = tmp_path / "module.py"
    path.write_text(code, encoding="utf-8")
    assert place_of(finding(path, line, excerpt, part)) is None


def test_a_module_that_was_imported_is_searched(tmp_path: Path) -> None:
    (tmp_path / "their_kernels.py").write_text(
        "class Fast:\n    def metal_kernel(self, **_): ...\nfast = Fast()\n"
        'fast.metal_kernel(name="copy", source="""\n  y[9] = x[9];\n""")\n'
    )
    module = SimpleNamespace(__file__=str(tmp_path / "their_kernels.py"))
    messages.sys.modules["their_kernels"] = module
    found = place_of(finding(tmp_path / "gone.py", 2, "y[9] = x[9];"))
    assert found == LineSpan(str(tmp_path / "their_kernels.py"), 5, 3, 15)


@pytest.mark.parametrize("folder", [".", "metal"])
def test_a_metal_file_that_the_module_names_is_searched(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "metal").mkdir()
    monkeypatch.chdir(tmp_path / folder)
    module, text = tmp_path / "module.py", tmp_path / "metal" / "copy.metal"
    module.write_text(f"import x\nBODY = open('{'metal/' if folder == '.' else ''}copy.metal')\n")
    text.write_text("uint i = 0;\n  y[9] = x[i];\n")
    found = finding(module, 2, "y[9] = x[i];")
    assert place_of(found) == LineSpan(str(text), 2, 3, 15)
    line = line_of(found)
    assert line is not None
    assert line.shown() == "copy.metal:2"


@pytest.mark.parametrize(
    ("code", "called"),
    [
        ("    (y,) = _copy(\n        grid=(1, 1, 1))", "_copy"),
        ("    print('é', self.kernels[0](grid=g)[0], f())", "self.kernels[0]"),
        ("    y = copy(x)", "copy"),
        ("    y = x", "y = x"),
    ],
)
def test_a_launch_has_a_column(code: str, called: str, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(f"def f():\n{code}\n", encoding="utf-8")
    place = call_at(str(path), 2)
    assert code.split("\n", maxsplit=1)[0][place.column - 1 : place.end_column - 1] == called


def test_code_without_a_file_has_the_first_column() -> None:
    assert call_at("<string>", 3) == LineSpan("<string>", 3, 1, 1)


def test_texts_name_the_line_of_the_file_and_that_of_the_source(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(HEAD + build("copy", BODY), encoding="utf-8")
    found = finding(path, 3, "y[9] = x[i];")
    line = line_of(found)
    assert line is not None
    assert line.shown() == "module.py:5 (body line 3)"
    assert f"in kernel 'copy', {path}:5 (body line 3):" in report(found)
    error = CompilerError("error", "body", 3, 10, "no", "    y[9] = x[i];")
    loaded = SimpleNamespace(__file__=str(path))
    messages.sys.modules["module"] = loaded
    text = str(CompileError("copy", [error], "void f()"))
    assert f"{path}:5:10 (body line 3): error: no\n  5 |     y[9] = x[i];\n" in text
