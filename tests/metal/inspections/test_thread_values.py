"""Thread-dependent values, and uses of inputs, outputs and attributes that are told apart."""

from __future__ import annotations

import pytest

from embercoach.checks.launch.kernel_grid import ThreadValues
from embercoach.metal.contract import Input, Output
from embercoach.metal.execution.parameter_uses import (
    attribute_mismatches,
    output_uses,
    parameter_uses,
)
from embercoach.metal.program.lowering import SignatureNames, lower_body


@pytest.mark.parametrize(
    ("loop", "step"), [("uint j; for (j = i; j < n; j += stride) {}", {"threads_per_threadgroup"})]
)
def test_stride_loops(loop, step) -> None:
    values = ThreadValues(
        f"uint i = thread_position_in_grid.x; uint stride = threads_per_threadgroup.x; {loop}", ""
    )
    (found,) = values.stride_loops()
    assert found.step_text.removeprefix("++").startswith("j")
    assert (set(found.start), set(found.step)) == ({"thread_position_in_grid"}, step)


@pytest.mark.parametrize(("expression", "factor"), [("i << 3", "8"), ("i *= N", "N")])
def test_products(expression, factor) -> None:
    source = f"uint i = thread_position_in_grid.x; out[0] = {expression};"
    (found,) = ThreadValues(source, "").products()
    assert (set(found.attributes), found.factor) == ({"thread_position_in_grid"}, factor)


@pytest.mark.parametrize("expression", ["n * 4", "i * i", "i + 4", "n << i", "1 << i", "i << 40"])
def test_no_products(expression) -> None:
    source = f"uint i = thread_position_in_grid.x; out[0] = {expression};"
    assert list(ThreadValues(source, "").products()) == []


@pytest.mark.parametrize(("factor", "spans"), [("threads_per_threadgroup.x", True), ("size", True)])
def test_groups_that_are_spanned(factor, spans) -> None:
    source = (
        "uint size = threads_per_threadgroup.x;"
        f"uint at = threadgroup_position_in_grid.x * {factor}; out[at] = 1;"
    )
    assert ThreadValues(source, "").spans_groups() == spans


NAMES = SignatureNames((Input("x"), Input("s")), (Output("y"),))
HEADER = (
    "inline float f(const device float* p) { return p[0]; } inline float g(float v) { return v; }"
)


def uses(body: str) -> list[tuple[str, str, str | None]]:
    found = parameter_uses(lower_body(body, HEADER, NAMES))
    return [(use.variable.name, use.manner, use.space) for use in found]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("const constant float* p; p = s;", [("s", "address", "constant")]),
        ("float v = -s;", [("s", "number", None)]),
        ("float v = float(s);", [("s", "number", None)]),
        ("ulong v = ulong(x);", [("x", "unclear", None)]),
        ("if (s) {}", [("s", "unclear", None)]),
        ("float v = true ? s : 2;", [("s", "number", None)]),
    ],
)
def test_manners(body: str, expected: list[tuple[str, str, str | None]]) -> None:
    assert uses(body) == expected


@pytest.mark.parametrize(
    ("body", "stores", "updates", "reads", "atomic", "escapes"),
    [
        ("y[0] = y[0] + 1;", 0, 1, 0, 0, 0),
        ("atomic_store_explicit(&y[1], 1, memory_order_relaxed);", 0, 0, 0, 0, 1),
    ],
)
def test_outputs(
    body: str, stores: int, updates: int, reads: int, atomic: int, escapes: int
) -> None:
    found = output_uses(lower_body(body, "", NAMES)).get("y")
    counts = (
        (0,) * 5
        if found is None
        else tuple(
            map(
                len, (found.stores, found.updates, found.reads, found.atomic_updates, found.escapes)
            )
        )
    )
    assert counts == (stores, updates, reads, atomic, escapes)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("uint i = thread_position_in_grid;", ["initializes the uint `i`"]),
        ("uint i = thread_index_in_simdgroup.x;", ["has no component `.x`"]),
        ("while (thread_position_in_grid < 3) {}", ["is used as a condition"]),
        ("switch (thread_position_in_grid) { default: break; }", ["is used in a switch"]),
    ],
)
def test_attributes(body: str, expected: list[str]) -> None:
    program = lower_body(body, "", NAMES)
    assert [found.what for found in attribute_mismatches(program)] == expected
