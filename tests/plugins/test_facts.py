"""The facts that checks of plugins get."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from embercoach.api import (
    Call,
    Check,
    Expression,
    Operation,
    Replacement,
    Report,
    RuleSet,
    on_call,
    on_operation,
)
from embercoach.checks import Project, check_source
from embercoach.finding import Finding
from embercoach.plugins.loading import make_plugin, register
from tests.plugins.packages import page

CODE = "ACME-EVAL-001"


def findings(check: Check, source: str, tmp_path: Path, name: str = "model.py") -> list[Finding]:
    """The findings of a check in a source; fails if it raises."""
    (tmp_path / f"{CODE}.md").write_text(page(CODE), encoding="utf-8")
    register([make_plugin("acme", "1", RuleSet("ACME", tmp_path, (check,)))])
    source = "import mlx.core as mx\nimport mlx.nn as nn\n" + dedent(source)
    report = check_source(source, tmp_path / name, Project())
    assert report.problem is None
    return [one for one in report.findings if one.code == CODE]


def calls(source: str, tmp_path: Path, of: str = "mlx.core.eval", name: str = "m.py") -> list[Call]:
    seen: list[Call] = []

    @on_call(CODE, of=(of,))
    def keep(call: Call) -> Iterator[Report]:
        seen.append(call)
        yield from ()

    findings(keep, source, tmp_path, name)
    return seen


def argument(expression: str, tmp_path: Path, head: str = "") -> Expression:
    """The argument of the one call of ``mx.eval``."""
    source = f"{dedent(head)}\ndef f(x: mx.array, n: int):\n    mx.eval({expression})\n"
    (call,) = calls(source, tmp_path)
    return call.arguments[0]


def about(expression: Expression) -> tuple[object, ...]:
    return expression.is_array, expression.dtype, expression.shape, expression.constant


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x", (True, None, None, None)),
        ("mx.zeros((2, n), dtype=mx.float64)", (True, "float64", (2, None), None)),
        ("mx.zeros(3).astype(mx.bfloat16)", (True, "bfloat16", (3,), None)),
        ("2 + 1", (False, None, None, 3)),
        ("'text'", (False, None, None, "text")),
        ("unknown", (False, None, None, None)),
    ],
)
def test_an_expression_has_what_is_known(
    source: str, expected: tuple[object, ...], tmp_path: Path
) -> None:
    found = argument(source, tmp_path)
    assert found.source == source
    assert about(found) == expected


def test_calls_and_operations_are_followed_through_names(tmp_path: Path) -> None:
    source = """
        def f(x: mx.array, flag: bool):
            a = mx.square(x)
            b = a
            c = b * 2
            d = a if flag else c
            mx.eval(b, c, d)
    """
    (call,) = calls(source, tmp_path)
    b, c, d = call.arguments
    assert b.call is not None
    assert (b.call.name, b.operation) == ("mlx.core.square", None)
    assert c.operation is not None
    assert (c.operation.operator, c.operation.left.source, c.call) == ("*", "b", None)
    assert c.operation.right.constant == 2
    assert c.operation.left.call is not None
    assert (d.call, d.operation) == (None, None)


@pytest.mark.parametrize(
    ("of", "names"),
    [
        ("mlx.core.sum", ["mlx.core.sum"]),
        ("mlx.", ["mlx.core.sum", "mlx.nn.relu"]),
        (".item", [".item"]),
        (".", [".item", ".reshape"]),
        ("mlx.core.su", []),
        ("numpy.", []),
    ],
)
def test_calls_are_selected_by_name_prefix_and_method(
    of: str, names: list[str], tmp_path: Path
) -> None:
    source = """
        def f(x: mx.array):
            total = mx.sum(x, axis=0)
            return nn.relu(total).reshape(1), x.item()
    """
    assert sorted(call.name for call in calls(source, tmp_path, of)) == names


def test_a_call_has_arguments_keywords_receiver_and_result(tmp_path: Path) -> None:
    source = """
        def f(x: mx.array, more: list, **options):
            return x.astype(mx.float16).sum(0, *more, keepdims=True, **options)
    """
    (call,) = calls(source, tmp_path, ".sum")
    assert [one.source for one in call.arguments] == ["0"]
    assert {name: one.constant for name, one in call.keywords.items()} == {"keepdims": True}
    assert call.receiver is not None
    assert (call.receiver.source, call.receiver.dtype) == ("x.astype(mx.float16)", "float16")
    assert call.result.source.startswith("x.astype(mx.float16).sum(0, ")
    assert call.result.dtype == "float16"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("mx.eval(x)", (None, False, False, False)),
        ("for _ in range(3): mx.eval(x)", (None, True, False, False)),
        (
            "class Trainer:\n  def step(self):\n    mx.eval(x)",
            ("Trainer.step", False, False, False),
        ),
        ("@mx.compile\ndef f(x):\n  mx.eval(x)", ("f", False, True, False)),
        ("def f(x):\n  mx.eval(x)\n  return x\nmx.grad(f)(x)", ("f", False, False, True)),
    ],
)
def test_a_place_has_its_function_and_roles(
    source: str, expected: tuple[object, ...], tmp_path: Path
) -> None:
    (call,) = calls(f"x = mx.ones(3)\n{source}\n", tmp_path)
    place = call.place
    assert (place.function, place.in_loop, place.is_compiled, place.is_differentiated) == expected
    assert not place.is_test
    (call,) = calls(f"x = mx.ones(3)\n{source}\n", tmp_path, name="test_model.py")
    assert call.place.is_test


def test_operations_have_operands(tmp_path: Path) -> None:
    seen: list[tuple[Any, ...]] = []

    @on_operation(CODE)
    def keep(operation: Operation) -> Iterator[Report]:
        left, right = operation.left, operation.right
        seen.append((left.source, operation.operator, right.source, operation.in_place))
        yield from ()

    findings(keep, "def f(x: mx.array):\n    y = x / 2\n    y @= x\n    return 1 + 1\n", tmp_path)
    assert seen == [("x", "/", "2", False), ("y", "@", "x", True)]


At = Callable[[Call], "Call | Expression"]


@pytest.mark.parametrize(
    ("at", "columns"), [(lambda c: c, (5, 26)), (lambda c: c.arguments[0], (15, 24))]
)
def test_a_report_has_its_place_and_fix(at: At, columns: tuple[int, int], tmp_path: Path) -> None:
    @on_call(CODE, of=("mlx.core.square",))
    def check(call: Call) -> Iterator[Report]:
        fix = Replacement("Use y", "y", safe=True)
        yield Report(at(call), "a message", "A help", fix)
        yield Report(at(call), "the same place", "A help")

    (found,) = findings(check, "def f(x: mx.array):\n    mx.square(mx.abs(x) )\n", tmp_path)
    assert (found.line, found.column, found.end_column) == (4, *columns)
    assert (found.message, found.help, found.context) == ("a message", "A help", "avoidable")
    assert found.fix is not None
    (edit,) = found.fix.edits
    assert (found.fix.title, found.fix.safe, edit.text) == ("Use y", True, "y")


def test_a_fix_that_breaks_the_source_is_not_offered(tmp_path: Path) -> None:
    @on_call(CODE, of=("mlx.core.square", "mlx.core.exp"))
    def check(call: Call) -> Iterator[Report]:
        text = "y)" if "square" in call.name else "y"
        yield Report(call, "a message", "A help", Replacement("Use y", text))

    found = findings(check, "def f(x: mx.array):\n    mx.square(x)\n    mx.exp(x)\n", tmp_path)
    assert [one.fix is None for one in found] == [True, False]
