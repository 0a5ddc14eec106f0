"""What the grammar cannot read in linear time is kept from it, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from embercoach import checks
from embercoach.metal.work_budget import TOO_INTRICATE
from tests.benchmarks.metal_growth import HEAD, kernel

DOUBLE = kernel("double d = 0; x[i] = d;")
LINE = HEAD.count("\n") + 3


def _doubles(text: str) -> list[int]:
    report = checks.check_metal(text)
    assert report.problem is None
    return [found.line for found in report.findings if found.code == "KERNEL-MSL-001"]


@pytest.mark.parametrize("rest", ["/*", "/*/", "/* a\n" * 3000, "/* " * 7000, "#define A /* b\n"])
def test_an_open_comment_hides_only_what_stands_in_it(rest: str) -> None:
    assert _doubles(HEAD + DOUBLE + rest + DOUBLE) == [LINE]


@pytest.mark.parametrize(
    "literal",
    [
        'constant char* s = "/*";',
        'constant char* s = "\\"/*";',
        "constant int c = '/*';",
        "constant int c = '\"'; // /*",
        'constant char* s = R"(/*)";',
        'constant char* s = R"x( )" /* )x";',
        "constant int c = 1'000; // don't /*",
    ],
)
def test_a_literal_or_line_comment_opens_no_comment(literal: str) -> None:
    text = f"{HEAD}{literal}\n{DOUBLE}"
    line = text.splitlines().index("double d = 0; x[i] = d;") + 1
    assert _doubles(text) == [line]


def test_text_that_the_grammar_reads_in_quadratic_time_is_a_problem() -> None:
    report = checks.check_metal(HEAD + DOUBLE + "-)" * 10_000)
    assert report.problem == TOO_INTRICATE
    report = checks.check_objective_c("#import <a.h>\n" + "&..." * 5_000)
    assert report.problem == TOO_INTRICATE


@pytest.mark.parametrize("place", ["header", "source"])
def test_a_kernel_in_python_that_takes_too_long_to_parse_is_a_problem(
    place: str, tmp_path: Path
) -> None:
    texts = {"source": "b[0] = a[0];", "header": "", place: "!}" * 10_000}
    source = (
        "import mlx.core as mx\n\nkernel = mx.fast.metal_kernel(\n"
        '    name="k", input_names=["a"], output_names=["b"],\n'
        f"    source={texts['source']!r}, header={texts['header']!r},\n)\n"
    )
    report = checks.check_source(source, tmp_path / "a.py", checks.Project())
    assert report.problem == TOO_INTRICATE
