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

    from embercoach.metal.porting.port_arguments import ArrayRole

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


@given(st.text(max_size=40))
def test_any_text_of_a_signature_makes_a_module(text: str) -> None:
    comment = "".join(c for c in text if c not in "\r\n\x00" and not "\ud800" <= c <= "\udfff")
    comment = comment.rstrip("\\")  # which would join the next line to the comment
    lines = f"// {comment}\n#include <metal_stdlib>\n"
    lines += kernel("y[id] = 1;", f"device float* y, // {comment}\n{AT}")
    module = ported(lines)
    ast.parse(module)
    assert all(line.isprintable() for line in module.replace("\t", " ").split("\n"))


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


def test_atomic_functions_that_only_load_are_refused() -> None:
    load = "y[id] = atomic_load_explicit(&n[id], memory_order_relaxed);"
    text = kernel(load, f"device uint* y, device atomic_uint* n, {AT}")
    with pytest.raises(PortError, match="`n` is loaded by atomic functions alone"):
        ported(text)


def test_atomic_functions_on_plain_memory_add_to_init_value() -> None:
    add = "atomic_fetch_add_explicit((device atomic_uint*)&y[0], id, memory_order_relaxed);"
    module = ported(kernel(add, f"device uint* y, {AT}"))
    assert "init_value: float = 0,\n" in module
    assert "atomic_outputs" not in module
    with pytest.raises(PortError, match="unclear use of `y`"):
        ported(kernel(f"uint first = y[0]; {add} y[1] = first;", f"device uint* y, {AT}"))


def test_the_header_has_what_kernels_use_and_no_kernels() -> None:
    above = "#pragma once\n#include <metal_stdlib>\nusing namespace metal;\n#define TWO 2\n"
    other = "kernel void g(texture2d<float> t [[texture(0)]]) {}\n"
    module = ported(other + kernel("y[id] = TWO;", above=above), ["f"])
    assert texts(module)["header"].strip() == "#pragma once\n\n#define TWO 2"
    with pytest.raises(PortError, match="no kernel `h`: the file has g, f"):
        ported(other + kernel("y[id] = 1;"), ["h"])


MACROS = """\
#define ONE T(1)
#define MAKE(NAME, T) \\
    kernel void NAME(device const T* x, device T* y, \\
                     uint id [[thread_position_in_grid]]) { \\
        y[id] = x[id] + ONE; \\
    }
MAKE(add_f, float)
#if __METAL_VERSION__ >= 310
MAKE(add_b, bfloat)
#endif
#if __METAL_VERSION__ < 300
MAKE(add_old, half)
#endif
kernel void twice(device float* y, uint id [[thread_position_in_grid]]) { y[id] *= 2; }
"""


def test_kernels_that_macros_make_are_written_out() -> None:
    module = ported(MACROS)
    for name in ("add_f", "add_b", "twice"):
        assert f"def {name}(" in module
    assert "add_old" not in module
    assert "MAKE" not in module
    assert texts(module)["header"].strip() == "#define ONE T(1)"
    source = texts(ported(MACROS, ["add_f"]))["source"].strip()
    assert source == "uint id = thread_position_in_grid.x;\ny[id] = x[id] + ONE;"


def test_a_kernel_is_ported_beside_others_that_are_not() -> None:
    broken = "kernel void g(device float* y) { y[0] = ; }\n"
    empty = "kernel void h(device float* y) {}\n"
    texture = "kernel void t(texture2d<float> t [[texture(0)]]) {}\n"
    found = ported_file(broken + empty + texture + kernel("y[id] = 1;"), (), {})
    assert texts(found.module)["source"].strip() == "y[thread_position_in_grid.x] = 1;"
    reasons = {name: (error.line, str(error)) for name, error in found.refused.items()}
    assert reasons == {
        "g": (1, "the parser does not understand this"),
        "h": (2, "`h` writes no array"),
        "t": (3, "MLX passes arrays only, got `t` of type `texture2d<float>`"),
    }


def test_an_included_file_is_part_of_the_header() -> None:
    files = {
        "a.h": '#pragma once\n#include "b.h"\nkernel void own(device float* y) { y[0] = 1; }\n',
        "b.h": '#include "a.h"\nstruct Pair { float a[2]; };\ninline float one() { return 1; }\n',
    }

    def read(_includer: str, target: str) -> tuple[str, str] | None:
        return (target, files[target]) if target in files else None

    text = '#include "b.h"\n' + kernel("y[id].a[1] = one();", f"device Pair* y, {AT}")
    module = ported_file(text, (), {}, read).module
    assert "inline float one()" in texts(module)["header"]
    assert "own" not in module
    files["b.h"] += '\n#include "missing.h"\n'
    with pytest.raises(PortError, match="cannot include") as raised:
        ported_file(text, (), {}, read)
    assert (raised.value.file, raised.value.line) == ("b.h", 5)


def test_a_copy_of_the_preamble_of_mlx_is_left_out() -> None:
    copy = "typedef bfloat bfloat16_t;\ntemplate <typename T> struct Limits { T max; };\n"
    copy += "struct Limits;\nuint elem_to_loc(uint i) { return i; }\nstruct Own { uint at; };\n"

    def read(_includer: str, target: str) -> tuple[str, str]:
        return target, copy

    text = '#include "utils.h"\n' + kernel("Own own = {id}; y[elem_to_loc(own.at)] = 1;")
    header = texts(ported_file(text, (), {}, read).module)["header"].strip()
    assert header == "struct Own { uint at; };"


def test_comments_stay_with_their_kernel() -> None:
    parameters = f"device const float* x, // [rows, columns]\n device float* y, {AT}"
    text = "// A license.\n#include <metal_stdlib>\n\n// The first.\n"
    text += kernel("y[id] = x[id];", parameters).replace(" f(", " g(")
    text += "/* The second. */\n" + kernel("y[id] = 1;")
    module = ported(text)
    assert module.startswith("# A license.\n")
    assert "HEADER" not in module
    assert "\n// The first.\nuint id" in module
    assert "\n/* The second. */\ny[" in module
    assert "x: array of dtype float32 ([rows, columns])." in module


@pytest.mark.parametrize(
    ("parameters", "body", "inputs", "expected"),
    [
        ("constant P& p", "y[id] = p.n + p.v.y + p.s[1];", ["n", "v", "s"],
         "n + v[1] + s[1]"),
        ("constant P* p, constant uint& n", "y[id] = p->n + n;", ["p_n", "n"], "p_n + n"),
        ("constant P& p", "P q = p; y[id] = q.n;", ["p"], "P q = p_view[0];"),
        ("constant uint2& d", "y[id] = d.x + g(d) + d[1];", ["d"],
         "d[0] + g(uint2(d[0], d[1])) + d[1]"),
        ("device const float* x, constant uint* x_shape", "y[id] = x[x_shape[0]];",
         ["x", "x_shape_"], "x[x_shape_[0]]"),
        ("constant uint2& e", "y[id] = FIRST;", ["e_values"],
         "const uint2 e = uint2(e_values[0], e_values[1]);"),
    ],
)  # fmt: skip
def test_structs_and_vectors_become_arrays_of_numbers(
    parameters: str, body: str, inputs: list[str], expected: str
) -> None:
    above = "#define FIRST e.x\nstruct P { uint n; float2 v; float s[2]; };\n"
    above += "float g(uint2 v) { return v.x; }\n"
    module = ported(kernel(body, f"{parameters}, device float* y, {AT}", above))
    assert f"input_names={inputs}".replace("'", '"') in module
    assert expected in texts(module)["source"]
    assert ("struct P" in texts(module)["header"]) == ("P q" in body)


def test_a_struct_that_a_function_needs_in_constant_memory_is_refused() -> None:
    above = "struct P { uint n[9]; };\nuint f(constant P& p) { return p.n[0]; }\n"
    text = kernel("y[id] = f(p);", f"constant P& p, device float* y, {AT}", above)
    with pytest.raises(PortError, match="a function takes `p` in constant memory"):
        ported(text)


def test_a_thread_attribute_at_file_scope_is_that_of_mlx() -> None:
    above = "uint3 block [[threadgroup_position_in_grid]];\n"
    source = source_of(kernel("y[block.x] = block.y;", "device float* y", above))
    assert source == "uint3 block = threadgroup_position_in_grid;\ny[block.x] = block.y;"


ROUNDS = "for (uint k = id; k < n; k += 8)"


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("y[id] = 1; y[id] += x[id];", "y"),
        ("device float* row = y + id * n; for (uint k = 0; k < n; ++k) row[k] = x[k];", "y"),
        (f"{ROUNDS} y[k] = x[k]; {ROUNDS} y[k] /= 2;", "y"),
        ("if (x[id] > 0) y[id] = 1; else y[id] = 0;", "y"),
        ("if (id < n) y[id] = 1;", "y"),
        ("set(y, id);", "y"),
        (f"{ROUNDS} y[k] = x[k]; y[id] = y[n - 1 - id];", "y_initial y"),
        ("y[x[0] > 0 ? id : 0] += 1;", "y_initial y"),
        ("if (x[id] > 0) y[id] = 1;", "y_initial y y_written"),
        ("if (x[id] < 0) return; y[id] = x[id];", "y_initial y y_written"),
        ("y[n + id] = x[id];", "y_initial y y_written"),
        ("y[2 * id] += 1;", "y_initial y y_written"),
    ],
)  # fmt: skip
def test_the_body_shows_what_an_array_is(body: str, names: str) -> None:
    above = "void set(device float* out, uint at) { out[at] = 1; }\n"
    parameters = f"device float* y, device const float* x, constant uint& n, {AT}"
    module = ported(kernel(body, parameters, above))
    kwargs = {
        node.arg: ast.literal_eval(node.value)
        for node in ast.walk(ast.parse(module))
        if isinstance(node, ast.keyword) and node.arg in ("input_names", "output_names")
    }
    found = [name for name in kwargs["input_names"] if name.startswith("y")]
    assert " ".join([*found, *kwargs["output_names"]]) == names


@pytest.mark.parametrize("body", ["y[x[id]] = 1;", "y[0] = id;\nif (x[id] > 0) { y[1] = id; }"])
def test_init_value_is_required_where_elements_may_be_left(body: str) -> None:
    module = ported(kernel(body, f"device float* y, device const uint* x, {AT}"), y="output")
    assert "init_value: float | None = None" in module
    text = kernel(f"z[0] = 1; {body}", f"device float* z, device float* y, device uint* x, {AT}")
    assert "init_value: float,\n" in ported(text)


@pytest.mark.parametrize(
    "body",
    [
        "\n".join(f"y[id + {n}] += 1;" for n in range(200)),
        "\n".join(f"device float* p{n} = {f'p{n - 1}' if n else 'y'} + id;" for n in range(200))
        + "\np199[0] = 1;",
    ],
)
def test_accesses_beyond_a_limit_are_unclear(body: str) -> None:
    with pytest.raises(PortError, match="unclear use of `y`"):
        ported(kernel(body))


def test_macros_that_grow_without_end_are_refused() -> None:
    text = "#define A(n) kernel void n(device float* y) { y[0] = 1; } A(n) A(n)\nA(x)\n"
    with pytest.raises(PortError, match="yield too much"):
        ported(text)
