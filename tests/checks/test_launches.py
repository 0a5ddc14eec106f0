"""What is known of launches: threads, template, inputs, outputs, and what is worth following."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from embercoach.analysis.values.lattice import Shape
from embercoach.checks import Project
from embercoach.checks.file_reports import reports_of
from embercoach.checks.programs.kernels import definitions
from embercoach.checks.programs.launches import (
    Launch,
    configurations,
    kernel_of,
    launches_of,
    program_of,
)
from embercoach.metal.contract import Input, Output, TemplateArgument
from tests.checks.findings import IMPORTS

if TYPE_CHECKING:
    from embercoach.analysis.project.module import Module
    from embercoach.checks.programs.kernels import Definition

KERNEL = """
import numpy as np
TG = 256
K = mx.fast.metal_kernel(name="k", input_names=[{names}], output_names=["y"], source="{body}"{more})
"""


def analysed(program: str) -> tuple[Module, list[Definition]]:
    module = Project().open(Path("program.py"), IMPORTS + dedent(program))
    reports_of(module)
    return module, definitions(module, module.facts())


def defined(
    arguments: str, before: str = "", names: str = '"x"', more: str = ""
) -> tuple[Definition, Module]:
    """A kernel, launched with some arguments in a function of an array and of integers."""
    lines = "".join(f"    {line}\n" for line in dedent(before).strip().splitlines())
    module, (definition,) = analysed(
        KERNEL.format(names=names, body="y[0] = 1;", more=more)
        + f"def launch(x: mx.array, n: int, m: int, tg: int = 64):\n{lines}    K({arguments})\n"
    )
    return definition, module


def launch_of(arguments: str, before: str = "", names: str = '"x"', more: str = "") -> Launch:
    definition, module = defined(arguments, before, names, more)
    (launch,) = launches_of(definition, module)
    return launch


@pytest.mark.parametrize(
    ("grid", "before", "known", "limits"),
    [
        ("(256, 2, 1)", "", (256, 2, 1), (256, 2, 1)),
        ("(TG * 2, 1, 1)", "", (512, 1, 1), (512, 1, 1)),
        ("(n, 1, 1)", "", (None, 1, 1), (None, 1, 1)),
        ("(tg, 1, 1)", "", (None, 1, 1), (None, 1, 1)),
        ("(min(n, TG), 1, 1)", "", (None, 1, 1), (256, 1, 1)),
        ("(t, 1, 1)", "t = min(512, min(n, m), 64)", (None, 1, 1), (64, 1, 1)),
        ("shape", "shape = [32, 4, n]", (32, 4, None), (32, 4, None)),
        ("(t, 1, 1)", "t = 64\nif n: t = 128", (None, 1, 1), (None, 1, 1)),
        ("(t, 1, 1)", "t = 1\nwhile t < n: t *= 2", (None, 1, 1), (None, 1, 1)),
    ],
)
def test_threads(
    grid: str, before: str, known: tuple[int | None, ...], limits: tuple[int | None, ...]
) -> None:
    launch = launch_of(f"inputs=[x], threadgroup={grid}", before)
    assert launch.threadgroup is not None
    assert tuple(entry.known for entry in launch.threadgroup) == known
    assert tuple(entry.limit for entry in launch.threadgroup) == limits
    assert launch.grid is None


@pytest.mark.parametrize("grid", ["n", "(n, 1)", "m * (1, 2)", "sizes(n)"])
def test_threads_that_are_not_to_be_seen(grid: str) -> None:
    assert launch_of(f"grid={grid}").grid is None


@pytest.mark.parametrize(
    ("template", "known"),
    [
        ("", {}),
        ("template=None", {}),
        (
            'template=[("T", mx.float16), ("N", 4), ("B", True)]',
            {"T": "float16", "N": 4, "B": True},
        ),
        ('template=[("T", x.dtype), ("N", n)]', {"T": None, "N": None}),
        ("template=pairs", None),
        ("**more", None),
    ],
)
def test_template(template: str, known: dict[str, object] | None) -> None:
    assert launch_of(template, "pairs, more = settings()").template == known


@pytest.mark.parametrize(
    ("given", "before", "known"),
    [
        ("x", "", Input("a")),
        ("x.astype(mx.float16)", "", Input("a", "float16")),
        ("3", "", Input("a", "int32", 0, 1)),
        ("0.5", "", Input("a", "float32", 0, 1)),
        ("n > 1", "", Input("a", "bool", 0, 1)),
        ("n", "", Input("a", "int32", 0, 1)),
        ("mx.array(0.5)", "", Input("a", "float32", 0, 1)),
        ("mx.array(n)", "", Input("a", "int32", 0, 1)),
        ("mx.array([n])", "", Input("a", "int32", 1, 1)),
        ("mx.array([n, m, 3], dtype=mx.uint32)", "", Input("a", "uint32", 1, 3)),
        ("sizes", "sizes = mx.array([n, m, 3]).astype(mx.uint32)", Input("a", "uint32", 1, 3)),
        ("mx.zeros((4, n))", "", Input("a", "float32", 2, None)),
        ("mx.ones(16)", "", Input("a", "float32", 1, 16)),
        ("mx.array([x, x])", "", Input("a", ranked=True)),
        ("mx.array([[1, 2], [n, m]])", "", Input("a", "int32", 2, 4)),
        ("mx.array([[1, 2], [n]])", "", Input("a", "int32", ranked=True)),
        ("mx.array(unknown())", "", Input("a")),
        ("mx.array([unknown()])[0]", "", Input("a")),
        ("mx.exp(-mx.array([x, x]))", "", Input("a", ranked=True)),
        ("mx.exp(mx.array([x, x]) * 2)", "", Input("a", ranked=True)),
        ("mx.arange(16)", "", Input("a", "int32", 1, 16)),
        ("mx.arange(2, 16, 3)", "", Input("a", "int32", 1, 5)),
        ("mx.arange(n)", "", Input("a", "int32", 1, None)),
        ("mx.linspace(0, 1, 16)", "", Input("a", "float32", 1, 16)),
        ("mx.linspace(0, 1)", "", Input("a", "float32", 1, 50)),
        ("mx.ones((16,)) / 16", "", Input("a", "float32", 1, 16)),
        ("mx.ones((4, 1)) + mx.ones((4,))", "", Input("a", "float32", 2, 16)),
        ("mx.ones((4,)) * x", "", Input("a", ranked=True)),
        ("x * 2", "", Input("a")),
        ("x.reshape(1)", "", Input("a", None, 1, 1)),
        ("x.reshape(4, -1)", "", Input("a", None, 2, None)),
        ("mx.arange(16).reshape((4, -1))", "", Input("a", "int32", 2, 16)),
        ("mx.reshape(mx.arange(16), (2, 8))", "", Input("a", "int32", 2, 16)),
        ("mx.reshape(x, n)", "", Input("a", None, 1, None)),
        ("mx.random.normal((4, 4))", "", Input("a", "float32", 2, 16)),
        ("mx.array(x)", "", Input("a")),
        ("x.flatten()", "", Input("a", None, 1, None)),
        ("x.flatten(1)", "", Input("a")),
        ("np.float32(n)", "", Input("a", None, 0, 1)),
        ("unknown(x)", "", Input("a")),
    ],
)
def test_inputs(given: str, before: str, known: Input) -> None:
    launch = launch_of(f"inputs=[x, {given}]", before, '"x", "a"')
    assert launch.inputs is not None
    assert launch.inputs[1] == known


def test_inputs_of_another_number_are_unknown() -> None:
    assert launch_of("inputs=[1, 2]").inputs == (Input("x"),)
    assert launch_of("inputs=[1]", names="*names").inputs is None


def test_outputs() -> None:
    shapes = "output_shapes=[(4, TG)], output_dtypes=[mx.float16]"
    launch = launch_of(shapes, more=", atomic_outputs=True, ensure_row_contiguous=False")
    assert launch.outputs == (Output("y", "float16"),)
    assert launch.output_sizes == {"y": 1024}
    assert (launch.atomic_outputs, launch.ensure_row_contiguous) == (True, False)
    assert launch_of("output_shapes=[x.shape]").output_sizes == {"y": None}
    partly = launch_of("output_shapes=[(n, 4)]")
    assert partly.shapes is not None
    assert partly.shapes[0].shape == Shape((None, 4))


@pytest.mark.parametrize(
    ("argument", "known"),
    [("", False), ("init_value=0", True), ("init_value=None", False), ("**n", None)],
)
def test_init_value(argument: str, known: bool | None) -> None:
    assert launch_of(argument).has_init_value is known


@pytest.mark.parametrize(
    ("grid", "group", "tried", "assumed", "groups"),
    [
        ("(n, 1, 1)", "(256, 1, 1)", [(256, 1, 1)], set(), (None, 1, 1)),
        ("(n, 1, 1)", "(min(n, 128), 1, 1)", [(128, 1, 1)], set(), (None, 1, 1)),
        ("(1000, 4, 1)", "(256, 2, 1)", [(256, 2, 1)], set(), (4, 2, 1)),
        ("(32, 1, 1)", "(256, 1, 1)", [(32, 1, 1)], set(), (1, 1, 1)),
        ("(n, m, 1)", "(n, 1, 1)", [(64, 1, 1), (256, 1, 1)], {0}, (1, None, 1)),
        ("(n, m, 1)", "(tg, 8, 1)", [(64, 8, 1), (128, 8, 1)], {0}, (None, None, 1)),
        ("(n, m, 1)", "(32, m, 1)", [(32, 1, 1)], {1}, (None, 1, 1)),
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
    found = configurations(*defined(f"grid={grid}, threadgroup={group}"))
    assert [c.threadgroup for c in found] == tried
    for configuration in found:
        assert (configuration.assumed, configuration.groups) == (assumed, groups)


def test_equal_configurations_are_one_and_there_are_few() -> None:
    call = "    K(inputs=[x], grid=(n, 1, 1), threadgroup=({}, 1, 1), output_dtypes=[mx.{}])\n"
    program = KERNEL.format(names='"x"', body="y[0] = 1;", more="") + "def launch(x, n):\n"
    module, (kernel,) = analysed(program + call.format(64, "int32") * 3)
    assert len(configurations(kernel, module)) == 1
    dtypes = ("int8", "int16", "int32", "uint8", "uint16", "uint32")
    module, (kernel,) = analysed(program + "".join(call.format(64, name) for name in dtypes))
    assert [c.outputs for c in configurations(kernel, module)] == [
        (Output("y", name),) for name in dtypes[:4]
    ]


def test_a_kernel_that_is_not_launched_is_followed_too() -> None:
    module, (kernel,) = analysed(KERNEL.format(names='"x"', body="y[0] = 1;", more=""))
    found = configurations(kernel, module)
    assert [c.threadgroup for c in found] == [(64, 1, 1), (256, 1, 1)]
    assert all(c.inputs == (Input("x"),) and c.assumed == {0, 1, 2} for c in found)


def test_the_kernel_of_a_launch() -> None:
    definition, module = defined(
        'inputs=[1], output_dtypes=[mx.int8], template=[("N", 4)]', more=', header="int f();"'
    )
    (launch,) = launches_of(definition, module)
    known = kernel_of(definition, launch)
    assert known is not None
    assert (known.name, known.source, known.header) == ("k", "y[0] = 1;", "int f();")
    assert known.inputs == (Input("x", "int32", 0, 1),)
    assert known.template == (TemplateArgument("N", 4),)
    whatever = kernel_of(definition)
    assert whatever is not None
    assert (whatever.inputs, whatever.template) == ((Input("x"),), None)


def test_the_program_of_a_launch() -> None:
    definition, module = defined("output_dtypes=[mx.int8]")
    (launch,) = launches_of(definition, module)
    program = program_of(definition, launch)
    assert program is not None
    assert program.variables["y"].type.scalar == "char"
    assert program_of(definition, launch) is program


def test_a_kernel_of_unknown_text_is_none() -> None:
    definition, _ = defined("inputs=[x]", more=", header=what()")
    assert kernel_of(definition) is None
    assert program_of(definition) is None
