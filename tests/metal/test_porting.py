"""The text of ported kernels: renamed attributes, refusals, and literals of untrusted text."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embercoach.metal.porting.entry_points import PortError
from embercoach.metal.porting.ported_modules import ported_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from embercoach.metal.porting.kernel_arguments import ArrayRole

AT = "uint id [[thread_position_in_grid]]"


def kernel(body: str, parameters: str = f"device float* y, {AT}", above: str = "") -> str:
    return f"{above}kernel void f({parameters}) {{\n{body}\n}}\n"


def texts(module: str) -> dict[str, str]:
    """The source and header of a module's only kernel."""
    found = {}
    for node in ast.walk(ast.parse(module)):
        if isinstance(node, ast.keyword) and node.arg == "source":
            found["source"] = ast.literal_eval(node.value)
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "HEADER":
            found["header"] = ast.literal_eval(node.value)
    return found


def ported(text: str, names: Sequence[str] = (), **roles: ArrayRole) -> str:
    return ported_file(text, names, roles).module


def source_of(text: str) -> str:
    return texts(ported(text))["source"].strip()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("{ int id = 2; y[id] = 1; } y[0] = id;",
         "{ int id = 2; y[id] = 1; } y[0] = thread_position_in_grid.x;"),
        ("// id\ny[0] = s.id + id;", "// id\ny[0] = s.id + thread_position_in_grid.x;"),
        ("id += 1; y[0] = id;", "uint id = thread_position_in_grid.x;\nid += 1; y[0] = id;"),
        ("thread uint& i = id; y[i] = 1;",
         "uint id = thread_position_in_grid.x;\nthread uint& i = id; y[i] = 1;"),
    ],
)  # fmt: skip
def test_uses_of_an_attribute_are_renamed(body: str, expected: str) -> None:
    assert source_of(kernel(body)) == expected


def test_a_macro_that_mentions_an_attribute_keeps_its_name() -> None:
    text = kernel("y[HERE] = 1;", above="#define HERE (id + 1)\n")
    assert source_of(text) == "uint id = thread_position_in_grid.x;\ny[HERE] = 1;"


@pytest.mark.parametrize(
    ("type_", "use", "expected"),
    [
        ("uint2", "at.y", "thread_position_in_grid.y"),
        ("uint2", "at[1]", "thread_position_in_grid[1]"),
        ("uint3", "at.zyx.x", "thread_position_in_grid.zyx.x"),
    ],
)
def test_vectors_of_an_attribute_are_renamed(type_: str, use: str, expected: str) -> None:
    parameters = f"device float* y, {type_} at [[thread_position_in_grid]]"
    assert source_of(kernel(f"y[0] = {use};", parameters)) == f"y[0] = {expected};"


NAMES = st.sampled_from(["id", "other", "idx"])


@given(st.text(max_size=40))
def test_any_text_of_a_comment_arrives_unchanged(text: str) -> None:
    comment = "".join(c for c in text if c not in "\r*/\\\x00" and not "\ud800" <= c <= "\udfff")
    lines = kernel(f"/* {comment} */ y[id] = 1;")
    module = ported(lines)
    assert f"/* {comment} */" in texts(module)["source"]
    assert all(line.isprintable() for line in module.replace("\t", " ").split("\n"))


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("int x;", 1, "the file defines no kernel"),
        (kernel("y[id] = 1;", f"device float*, {AT}"), 1, "parameter without a name"),
        (kernel("", f"\ntexture2d<float> t [[texture(0)]], {AT}"), 2, "MLX passes arrays only"),
        (kernel("", f"sampler t [[sampler(0)]], {AT}"), 1, "MLX passes arrays only"),
        (kernel("", f"device Item* items, {AT}"), 1, "no dtype for"),
        (kernel("", f"device float** rows, {AT}"), 1, "must be a pointer or a reference"),
        (kernel("", f"float* y, {AT}"), 1, "without an address space"),
        (kernel("", f"float y, {AT}"), 1, "by value"),
        (kernel("y[0] = 1;", "device float* y, uint i [[stage_in]]"), 1, "attribute `stage_in`"),
        (kernel("y[0] = 1;", "device float* y, uint3 n [[grid_size]]"), 1, "stage-in data"),
        (kernel("", f"device const float* y, {AT}"), 1, "`f` writes no array"),
        (kernel("other(y);"), 1, "unclear use of `y`: pass --output y if"),
        (kernel("uint y_shape = 2; y[id] = y_shape;"), 2, "`y_shape` is a name that MLX declares"),
        (kernel("y[id] = 1;", above='#include "own.h"\n'), 1, 'MLX cannot include "own.h"'),
        ("namespace n {\n" + kernel("y[id] = 1;") + "}", 2, "kernel in a namespace"),
        ("#if FAST\n" + kernel("y[id] = 1;") + "#endif\n", 2, "under `#if`"),
        (kernel("y[id] = 1"), 3, "the parser does not understand this"),
        (
            kernel("y[id] = n;", above="constant int n [[function_constant(0)]];\n"
                   "inline int g() { return n; }\n"),
            2,
            "function constant `n` is used outside of kernels",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_ported_is_an_error_with_its_line(
    text: str, line: int, message: str
) -> None:
    with pytest.raises(PortError, match=message.replace("*", r"\*")) as raised:
        ported(text)
    assert raised.value.line == line


def test_a_role_decides_where_the_body_is_unclear() -> None:
    text = kernel("other(y);")
    assert 'output_names=["y"]' in ported(text, y="output")
    assert 'input_names=["y_initial"]' in ported(text, y="updated")
    with pytest.raises(PortError, match="no writable array `z`"):
        ported(text, y="output", z="output")


def test_the_header_has_what_kernels_use_and_no_kernels() -> None:
    above = "#pragma once\n#include <metal_stdlib>\nusing namespace metal;\n#define TWO 2\n"
    other = "kernel void g(texture2d<float> t [[texture(0)]]) {}\n"
    module = ported(other + kernel("y[id] = TWO;", above=above), ["f"])
    assert texts(module)["header"].strip() == "#pragma once\n\n#define TWO 2"
    with pytest.raises(PortError, match="no kernel `h`: the file has g, f"):
        ported(other + kernel("y[id] = 1;"), ["h"])
