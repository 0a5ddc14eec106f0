from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from embercoach.metal.contract import Input, KernelArguments, Output, TemplateArgument
from embercoach.simulator.build.objects import build
from embercoach.simulator.build.toolchain import Toolchain
from embercoach.simulator.model import SimulatorError
from embercoach.simulator.reporting.compiler_errors import (
    LAUNCHED,
    CompileError,
    CompilerError,
    findings_of,
    read_errors,
)
from embercoach.simulator.rewrite.translation import Rewritten, rewrite
from tests.metal.generated_text import generated_source
from tests.rows import each_row

X = Input.of_shape("x", (16,), "float32")
C = Input.of_shape("c", (4,), "float32")
Y = Output("y", "float32")


def generated(body: str, header: str = "", template: tuple[TemplateArgument, ...] = ()) -> str:
    return generated_source(KernelArguments("k", (X, C), (Y,), body, header, template))


@pytest.fixture
def errors(toolchain: Toolchain, object_cache: Path):
    def compiled(
        body: str, header: str = "", template: tuple[TemplateArgument, ...] = ()
    ) -> CompileError:
        with pytest.raises(CompileError) as caught:
            build(
                generated(body, header, template),
                "k",
                body,
                header,
                checks=True,
                toolchain=toolchain,
                cache=object_cache,
            )
        return caught.value

    return compiled


def test_an_error_is_printed_like_a_linter(errors) -> None:
    error = errors("\n\tuint i = thread_position_in_grid.x;\n\ty[i] = z[i];\n")
    assert str(error) == (
        "kernel 'k' does not compile: 1 error\n"
        "\n"
        "body:3:9: error: use of undeclared identifier 'z'\n"
        "  3 | \ty[i] = z[i];\n"
        "    | \t       ^\n"
        "\n"
        "MLX generates this function for it:\n"
        "  [[kernel]] void custom_kernel_k_float_floatc_float(\n"
        "    const device float* x [[buffer(0)]],\n"
        "    const constant float* c [[buffer(1)]],\n"
        "    device float* y [[buffer(2)]],\n"
        "    uint3 thread_position_in_grid [[thread_position_in_grid]]) {"
    )


@pytest.mark.parametrize(
    ("body", "header", "place", "message"),
    [
        ("y[0] = x;", "", ("body", 1, 8), "from incompatible type 'const device float *'"),
        (
            "threadgroup float a[2]; device float* p = a;",
            "",
            ("body", 1, 39),
            "'device float *' with an lvalue of type 'float threadgroup[2]'",
        ),
        ("x[0] = 1;", "", ("body", 1, 6), "not assignable"),
        ("y[0] = 1;", "int f() { return g; }\n", ("header", 1, 18), "undeclared identifier 'g'"),
        ("/* é */ y[0] = q;", "", ("body", 1, 16), "undeclared identifier 'q'"),
        ("float f() { return 1; } y[0] = f();", "", ("body", 1, 11), "not allowed here"),
        ("threadgroup float a[2] = {1};", "", ("body", 1, 1), "initializer"),
        ("double d = 1;", "", ("body", 1, 1), "double"),
        (
            "y[0] = f(x);",
            "float f(threadgroup const float* p) { return p[0]; }\n",
            ("body", 1, 8),
            "no matching function",
        ),
        (
            "y[0] = 1;",
            "float f() { threadgroup float a[2]; return a[0]; }\n",
            ("header", 1, 31),
            "outside of a kernel function",
        ),
    ],
)
def test_an_error_is_at_its_place(
    errors, body: str, header: str, place: tuple[str, int, int], message: str
) -> None:
    first = errors(body, header).diagnostics[0]
    assert message in first.message
    assert "__" not in first.message
    assert (first.part, first.line, first.column) == place
    assert first.excerpt == (body if place[0] == "body" else header.split("\n", maxsplit=1)[0])


@each_row(
    "body, remedy",
    [
        ("y[0] = z;", "Declare it"),
        ("y[0] = rsqrtf(x[0]);", "Use `rsqrt`"),
        ("y[threadIdx.x] = 1;", "Use `thread_position_in_threadgroup`"),
        ("__shared__ float a[2];", "Write `threadgroup`"),
        ("atomic_store_explicit(&y[0], 1, memory_order_relaxed);", "Pass `atomic_outputs=True`"),
        ("x[0] = 1;", "Write to an output"),
        ("float f() { return 1; } y[0] = f();", "Pass only the function's statements"),
        ("threadgroup float a[2] = {1};", "Store its first values in the body"),
        ("y[0] = dot(x[0]);", "Pass arguments of the types"),
        ("y[0] = 1", "Correct the syntax"),
        ("y[0] = x;", "MLX's signature has the types"),
    ],
)
def test_an_error_has_a_remedy_and_the_signature(errors, body: str, remedy: str) -> None:
    error = errors(body)
    found = findings_of(error, LAUNCHED, None)[0]
    assert remedy in found.help
    parameters = "const device float* x, const constant float* c, device float* y"
    assert f"MLX's signature: {parameters}" in found.details


def test_a_template_kernel_is_checked_as_instantiated(errors) -> None:
    body = 'static_assert(sizeof(T) == 4, "T must have\\nfour bytes");\ny[0] = T(0);'
    error = errors(body, "", (TemplateArgument("T", "float16"),))
    (found,) = error.diagnostics
    assert "T must have" in found.message
    assert (found.part, found.line) == ("body", 1)


def test_a_hidden_declaration_names_its_macro(errors) -> None:
    error = errors("ARRAY(a);\ny[0] = a[0];", "#define ARRAY(n) threadgroup float n[4]\n")
    assert "macro ARRAY" in error.diagnostics[0].message
    assert (error.diagnostics[0].part, error.diagnostics[0].line) == ("body", 1)


def test_a_body_that_does_not_end_is_told_at_its_end(errors) -> None:
    error = errors("y[0] = 1;\nif (true) {\n  y[1] = 2;")
    first = error.diagnostics[0]
    assert "expected '}'" in first.message
    assert (first.part, first.line, first.column) == ("body", 3, 12)


def test_what_clang_says_of_the_thunk_follows_from_the_rest(errors) -> None:
    error = errors("y[0] = 1; }\nvoid other() {\n  z = 3;")
    assert [(d.part, d.line) for d in error.diagnostics] == [("body", 3)]


def test_the_error_survives_pickling(errors) -> None:
    error = errors("y[0] = z;")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.diagnostics) == (str(error), error.diagnostics)


@pytest.fixture
def unit() -> Rewritten:
    body = "int a;\ny[0] = 1;"
    return rewrite(generated(body, "int h;\n"), body, "int h;\n")


def test_frames_and_warnings_are_no_errors(unit: Rewritten) -> None:
    first = unit.lines.body_start
    output = (
        "In file included from x.h:3:\n"
        f"kernel.metal:{first}:1: warning: odd [-Wodd]\n"
        f"kernel.metal:{first}:2: note: of the warning\n"
        f"kernel.metal:{first + 1}:3: fatal error: bad: error: worse\n"
        "and more of it\n"
        f"kernel.metal:1:1: note: see here\n"
        "1 warning and 1 error generated.\n"
    )
    (found,) = read_errors(output, unit)
    assert found == CompilerError(
        "error",
        "body",
        2,
        3,
        "bad: error: worse and more of it",
        "y[0] = 1;",
        (CompilerError("note", "header", 1, 1, "see here", "int h;"),),
    )


def test_an_error_in_the_library_is_told_at_the_line_that_led_there(unit: Rewritten) -> None:
    first = unit.lines.body_start
    output = (
        "/a/ember_math.h:7:9: error: no matching function for call to 'f'\n"
        f"kernel.metal:{first + 1}:8: note: in instantiation of 'g<_Float16>' requested here\n"
    )
    (found,) = read_errors(output, unit)
    assert (found.part, found.line, found.column) == ("body", 2, 8)
    assert found.message == (
        "no matching function for call to 'f' (in the Metal library, ember_math.h:7)"
    )


def test_an_error_of_a_name_that_metal_has_says_so(unit: Rewritten) -> None:
    output = f"kernel.metal:{unit.lines.body_start}:1: error: use of undeclared identifier 'erf'\n"
    known = output.replace("'erf'", "'simd_sum'")
    assert "simulator does not yet" in read_errors(known, unit)[0].message
    assert "simulator" not in read_errors(output.replace("erf", "my_erf"), unit)[0].message


@pytest.mark.parametrize(
    "output", ["zig: error: unknown argument '-fnew'\n", "/a/ember_math.h:7:9: error: bad\n"]
)
def test_an_error_that_is_not_the_users_is_no_compile_error(unit: Rewritten, output: str) -> None:
    with pytest.raises(SimulatorError, match="own Metal library") as caught:
        read_errors(output, unit)
    assert not isinstance(caught.value, CompileError)


@pytest.mark.parametrize(
    ("body", "columns"),
    [
        ("bfloat b = x[0]; y[0] = b;", [12]),
        ("bfloat b(0); b = x[0] * 2.0f; y[0] = b;", [23]),
        ("bfloat b(0), d = b * 1.5f; y[0] = x[0] + b + d;", [20]),
        ("bfloat4 v(0); v.x = x[0]; y[0] = v.x;", [21]),
    ],
)
def test_a_float_does_not_become_bfloat_by_itself(errors, body: str, columns: list[int]) -> None:
    found = errors(body).diagnostics
    assert [(d.part, d.line, d.column) for d in found] == [("body", 1, c) for c in columns]
    assert found[0].message == "no implicit conversion from float to bfloat; write bfloat(...)"


def test_other_conversions_to_bfloat_are_metals(toolchain: Toolchain, object_cache: Path) -> None:
    body = (
        "bfloat b = 0, g = 1.0bf, d = bfloat(x[0]), e = static_cast<bfloat>(x[0] * 2.0f);\n"
        "half h = x[0]; b = b * g; b += d; b++; b = -b; b = fma(b, g, d); b = b * 2;\n"
        "bfloat4 v = bfloat4(1.1f, x[0], 2, b); v *= b; y[0] = float(b) + e + h + v.x;\n"
    )
    source = generated(body)
    assert build(source, "k", body, "", checks=True, toolchain=toolchain, cache=object_cache)
