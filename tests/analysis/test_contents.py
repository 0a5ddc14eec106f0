"""Contents of bodies: nodes of each kind, names that are bound, and the work that counts."""

from __future__ import annotations

from textwrap import dedent

import libcst as cst
import pytest

from embercoach.analysis.dataflow.contents import contents_of, head_contents
from embercoach.analysis.work import Work, WorkExceededError, begin_checks

BODY = dedent(
    """
    for step in range(3):
        total += model(x, scale=step)
        self.state["last"], (rows[0], count) = total, pair
        del cache[step]
    late = lambda y: y
    def inner():
        hidden = step
    """
)


def test_nodes_of_a_kind_come_in_the_order_of_the_text() -> None:
    contents = contents_of(cst.parse_module(BODY))
    assert [cst.ensure_type(call.func, cst.Name).value for call in contents.calls] == [
        "range",
        "model",
    ]
    assert [type(node) for node in contents.of(cst.For, cst.FunctionDef)] == [
        cst.For,
        cst.FunctionDef,
    ]
    assert contents.calls[1] in contents
    assert contents_of(contents.calls[1]).names == {"model", "x", "scale", "step"}


def test_closed_kinds_are_not_entered() -> None:
    contents = contents_of(cst.parse_module(BODY), (cst.FunctionDef, cst.Lambda))
    assert "hidden" not in contents.names
    assert "y" not in contents.names


def test_names_that_are_bound_and_changed() -> None:
    contents = contents_of(cst.parse_module(BODY))
    assert contents.assigned == {"total", "count", "late"}
    assert contents.changed == {"self", "rows", "cache"}
    assert contents.stored >= {"step", "total", "count", "late", "inner", "hidden", "self", "rows"}
    assert "self" in contents.stored_paths
    assert len(contents.values_of({"late", "count"})) == 2


def test_uses_are_no_labels() -> None:
    contents = contents_of(cst.parse_module("scale = f(scale=x.scale)\n"))
    (use,) = contents.uses("scale")
    assert contents.statement_of(use) is contents.statements[0]
    assert isinstance(next(contents.above(use)), cst.AssignTarget)


def test_the_head_of_a_statement_has_no_body() -> None:
    loop = cst.parse_module(BODY).body[0]
    assert head_contents(loop).names == {"step", "range"}


def test_walks_count_as_work() -> None:
    begin_checks(Work(1))
    try:
        with pytest.raises(WorkExceededError):
            contents_of(cst.parse_module(BODY))
    finally:
        begin_checks(Work(1 << 62))
