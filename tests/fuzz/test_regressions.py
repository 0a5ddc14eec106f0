"""Inputs that fuzzing has found: they led to an internal error, a traceback or a wrong place."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from embercoach.cli.entry import start
from embercoach.config import Overrides, load
from tests.fuzz import python_source
from tests.fuzz.metal_source import execute_body, execute_unit
from tests.fuzz.suppressions import execute as execute_comments

DIGITS = "1" * 5_000


@pytest.mark.parametrize(
    "text",
    [
        f"kernel void f(device int* x [[buffer(0)]]) {{ x[0] = {DIGITS}; }}\n",
        f"kernel void f(uint i [[thread_position_in_grid]]) {{ uint j = i << {DIGITS}; }}\n",
    ],
)
def test_metal_numbers_of_thousands_of_digits(text: str) -> None:
    execute_unit(text.encode())


def test_a_finding_ends_with_a_text_that_no_line_break_ends() -> None:
    execute_unit(
        b"kernel void f(device float* x [[buffer(0)]], int i [[thread_position_in_grid]]) {\n"
        b"  x[i] = 0.0f;\n}\n    void g(Tensor x) { [d h:x.p() length:n]; }\n    pass\nOther"
    )


@pytest.mark.parametrize("body", [f"y[0] = x[{DIGITS}];", f"y[0] = inp{DIGITS};"])
def test_kernel_bodies_with_numbers_of_thousands_of_digits(body: str) -> None:
    execute_body(body.encode())


@pytest.mark.parametrize(
    "statement",
    [
        f"a = [1, 2][:{DIGITS}]",
        f"a = [1, 2][-{DIGITS}:]",
        f"K(inputs=[x], grid=({DIGITS}, 1, 1), threadgroup=(32, 1, 1), output_shapes=[x.shape])",
        f"K(inputs=[x], grid=(n * {DIGITS}, 1, 1), threadgroup=(32, 1, 1), output_shapes=[(n,)])",
    ],
)
def test_python_numbers_of_thousands_of_digits(statement: str) -> None:
    head = (
        "import mlx.core as mx\n\n"
        "K = mx.fast.metal_kernel(name='k', input_names=['x'], output_names=['y'],\n"
        "    source='uint i = thread_position_in_grid.x; y[i] = x[i];')\n\n\n"
    )
    python_source.execute(f"{head}def launch(x: mx.array, n: int):\n    {statement}\n".encode())


@pytest.mark.parametrize(
    "program",
    [
        "def f(x: '\\N{nothing}') -> '\\N{nothing}':\n    return mx.sum(x).item()\n",
        "x: 'mx.' '\\N{nothing}' = mx.zeros(3)\nx.item()\n",
        "import dataclasses\n\n\n@dataclasses.dataclass\nclass A:\n    a: '\\N{nothing}' = 1\n",
        "f(**{'\\N{nothing}': mx.zeros(3)})\n",
    ],
)
def test_escapes_of_no_character(program: str) -> None:
    python_source.execute(f"import mlx.core as mx\n\n\n{program}".encode())


def test_a_carriage_return_ends_a_comment_of_metal() -> None:
    text = b"void f() { // embercoach: ignore[KERNEL]\rint a = 0; // embercoach: ignore\n}\n"
    execute_unit(text)
    execute_comments(text)


SAVED: dict[str, Any] = {
    "version": 1,
    "findings": [
        {
            "path": "a.py",
            "line": 1,
            "column": 1,
            "end_line": 1,
            "end_column": 2,
            "code": "LATER-001",
            "severity": "warning",
            "message": "m",
            "help": "h",
            "context": "default",
            "fix": None,
        }
    ],
    "problems": [],
    "summary": {
        "errors": 0,
        "warnings": 1,
        "notes": 0,
        "suppressed": 0,
        "fixable": 0,
        "fixable_unsafe": 0,
        "problems": 0,
        "files_checked": 1,
        "files_skipped": 0,
    },
}


@pytest.mark.parametrize(
    "options",
    [
        ["--statistics", "--output-format=text"],
        ["--statistics", "--output-format=json"],
        ["--output-format=markdown"],
        ["--output-format=sarif"],
    ],
)
def test_rules_that_a_later_release_has(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "saved.json"
    file.write_text(json.dumps(SAVED))
    assert start(["merge", str(file), *options]) == 1
    out, err = capsys.readouterr()
    assert "LATER-001" in out
    assert err == ""


@pytest.mark.parametrize("path", ["", "a\0b.py"], ids=["empty", "null"])
@pytest.mark.parametrize("form", ["text", "sarif", "github", "gitlab", "junit", "markdown"])
def test_saved_paths_that_are_no_paths(
    path: str, form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, report = tmp_path / "saved.json", tmp_path / "report"
    file.write_text(json.dumps(SAVED | {"findings": [SAVED["findings"][0] | {"path": path}]}))
    assert start(["merge", str(file), "--output-format", form, "-o", str(report)]) == 1
    assert report.stat().st_size
    assert capsys.readouterr().err == ""


def test_patterns_with_brackets_in_brackets_warn_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "embercoach.toml").write_text('exclude = ["[[a]"]\n')
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load([str(tmp_path)], Overrides())[0].settings.exclude == ("[[a]",)
