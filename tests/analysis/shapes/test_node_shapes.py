"""Values that checks ask for by the nodes of expressions."""

from __future__ import annotations

import libcst as cst
import pytest

from embercoach.analysis.shapes.node_shapes import ArrayAxes, value_at
from embercoach.analysis.syntax.trees import walk
from tests.analysis.inference import module_of


def asked(source: str, *, call: str = "") -> object:
    """The value that the argument of ``reveal`` has, in all runs or in those by a call."""
    module = module_of(source)
    calls = {module.parsed.code(n): n for n in walk(module.tree) if isinstance(n, cst.Call)}
    (node,) = (n.args[0].value for text, n in calls.items() if text.startswith("reveal("))
    return value_at(module, node, calls.get(call))


SOME = ArrayAxes(None, has_some=True)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("mx.zeros(()) + 1", ArrayAxes(())),
        ("mx.ones((2, n))", ArrayAxes((2, None), has_some=True)),
        ("mx.expand_dims(x, 0)", SOME),
        ("mx.ones((2, 3)).shape", (2, 3)),
        ("x.shape", None),
        ("[(mx.ones(4).size, 1.5), 'k', x + x]", ((4, ArrayAxes(())), "k", ArrayAxes(None))),
        ("[1] * 1000", None),
    ],
)
def test_an_expression_has_a_value(expression: str, value: object) -> None:
    assert asked(f"def f(x: mx.array, n: int):\n    reveal({expression})\n") == value


@pytest.mark.parametrize(
    ("call", "value"),
    [
        ("f(mx.ones(3))", ArrayAxes((3,), has_some=True)),
        ("f(mx.ones((2, 3)))", ArrayAxes((2, 3), has_some=True)),
        ("f(mx.ones(3 + 0))", SOME),  # which runs nothing that has not been run
        ("", ArrayAxes(None)),  # other files may call it
    ],
)
def test_a_parameter_has_the_axes_that_a_call_passes(call: str, value: object) -> None:
    calls = "f(mx.ones(3))\nf(mx.ones((2, 3)))\nf(mx.ones(3 + 0))"
    assert asked(f"def f(x: mx.array):\n    reveal(x)\n{calls}", call=call) == value
