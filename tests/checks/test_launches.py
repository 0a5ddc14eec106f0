"""What is known of launches: threads, template, inputs, outputs, and what is worth following."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from embercoach.checks import Project
from embercoach.checks.file_reports import reports_of
from embercoach.checks.programs.kernels import definitions
from embercoach.metal.contract import Input, TemplateArgument
from tests.checks.findings import IMPORTS

if TYPE_CHECKING:
    from embercoach.checks.programs.kernels import PythonKernel
    from embercoach.checks.programs.launches import Launch

KERNEL = """
import numpy as np
TG = 256
K = mx.fast.metal_kernel(name="k", input_names=[{names}], output_names=["y"], source="{body}"{more})
"""


def analysed(program: str) -> list[PythonKernel]:
    module = Project().open(Path("program.py"), IMPORTS + dedent(program))
    reports_of(module)
    return definitions(module, module.facts())


def defined(arguments: str, before: str = "", names: str = '"x"', more: str = "") -> PythonKernel:
    """A kernel, launched with some arguments in a function of an array and of integers."""
    lines = "".join(f"    {line}\n" for line in dedent(before).strip().splitlines())
    (kernel,) = analysed(
        KERNEL.format(names=names, body="y[0] = 1;", more=more)
        + f"def launch(x: mx.array, n: int, m: int, tg: int = 64):\n{lines}    K({arguments})\n"
    )
    return kernel


def launch_of(arguments: str, before: str = "", names: str = '"x"', more: str = "") -> Launch:
    (launch,) = defined(arguments, before, names, more).launches
    return launch


@pytest.mark.parametrize("grid", ["n", "(n, 1)", "m * (1, 2)", "sizes(n)"])
def test_threads_that_are_not_to_be_seen(grid: str) -> None:
    assert launch_of(f"grid={grid}").grid is None


@pytest.mark.parametrize(
    ("given", "before", "known"),
    [
        ("n > 1", "", Input("a", "bool", 0, 1)),
        ("mx.linspace(0, 1)", "", Input("a", "float32", 1, 50)),
        ("mx.arange(16).reshape((4, -1))", "", Input("a", "int32", 2, 16)),
        ("x.flatten()", "", Input("a", None, 1, None)),
        ("x.flatten(1)", "", Input("a")),
    ],
)
def test_inputs(given: str, before: str, known: Input) -> None:
    launch = launch_of(f"inputs=[x, {given}]", before, '"x", "a"')
    assert launch.inputs is not None
    assert launch.inputs[1] == known


def test_inputs_of_another_number_are_unknown() -> None:
    assert launch_of("inputs=[1, 2]").inputs == (Input("x"),)
    assert launch_of("inputs=[1]", names="*names").inputs is None


@pytest.mark.parametrize(
    ("grid", "group", "tried", "assumed", "groups"),
    [
        ("(n, 1, 1)", "(min(n, 128), 1, 1)", [(128, 1, 1)], set(), (None, 1, 1)),
        ("g", "g", [(64, 1, 1), (256, 1, 1)], {0, 1, 2}, (None, None, None)),
        ("(n, 1, 1)", "(2048, 1, 1)", [], set(), ()),
    ],
)
def test_configurations(
    grid: str,
    group: str,
    tried: list[tuple[int, int, int]],
    assumed: set[int],
    groups: tuple[int | None, ...],
) -> None:
    found = defined(f"grid={grid}, threadgroup={group}").configurations
    assert [c.threadgroup for c in found] == tried
    for configuration in found:
        assert (configuration.assumed, configuration.groups) == (assumed, groups)


def test_the_kernel_of_a_launch() -> None:
    kernel = defined(
        'inputs=[1], output_dtypes=[mx.int8], template=[("N", 4)]', more=', header="int f();"'
    )
    known = kernel.arguments(kernel.launches[0])
    assert known is not None
    assert (known.name, known.source, known.header) == ("k", "y[0] = 1;", "int f();")
    assert known.inputs == (Input("x", "int32", 0, 1),)
    assert known.template == (TemplateArgument("N", 4),)
    whatever = kernel.arguments()
    assert whatever is not None
    assert (whatever.inputs, whatever.template) == ((Input("x"),), None)
