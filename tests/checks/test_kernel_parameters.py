"""What a body takes its parameters for, and launches pass: KERNEL-SIG-009, SPACE, RANK and more."""

from __future__ import annotations

import pytest

from tests.checks.findings import IMPORTS, codes, findings
from tests.checks.test_kernel_contract import INDEX, kernel, pointed


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("uint i = thread_position_in_grid; y[i] = 1;", "thread_position_in_grid"),
        ("int i; i = threads_per_grid; y[i] = 1;", "threads_per_grid"),
        ("y[thread_position_in_threadgroup] = 1;", "thread_position_in_threadgroup"),
        ("uint i = thread_position_in_grid + 1; y[i] = 1;", "thread_position_in_grid"),
        ("uint i = uint(thread_position_in_grid); y[i] = 1;", "thread_position_in_grid"),
        ("if (thread_position_in_grid < 4) y[0] = 1;", "thread_position_in_grid"),
        ("uint i = thread_index_in_simdgroup.x; y[i] = 1;", "thread_index_in_simdgroup"),
        ("uint i = thread_position_in_grid.w; y[i] = 1;", "thread_position_in_grid"),
    ],
)
def test_attributes_of_the_wrong_type(body: str, text: str) -> None:
    assert pointed(kernel(body), "KERNEL-SIG-009") == [("KERNEL-SIG-009", text)]


@pytest.mark.parametrize(
    "body",
    [
        "uint i = thread_position_in_grid[0]; y[i] = 1;",
        "uint i = dot(float3(thread_position_in_grid), float3(1)); y[i] = 1;",
        "if (all(thread_position_in_grid < 4)) y[0] = 1;",
        "bool b = all(thread_position_in_grid == 0); y[0] = b;",
    ],
)
def test_attributes_of_the_right_type(body: str) -> None:
    assert pointed(kernel(body), "KERNEL-SIG-009") == []


# Address spaces

FEW, MANY = "[mx.zeros((4,))]", "[mx.zeros((4, 4))]"


@pytest.mark.parametrize(
    ("body", "header", "passed"),
    [
        ("const constant float* p = x; y[0] = p[0];", "", FEW),
        ("y[0] = f(x);", "template <typename P> float f(P p) { return p[0]; }", FEW),
        ("const device float* p = x + row * 4; y[0] = p[0];", "", "[x]"),
        ("const device float* p = x; y[0] = p[0];", "", "[unknown]"),
    ],
)  # fmt: skip
def test_pointers_that_fit(body: str, header: str, passed: str) -> None:
    assert codes(kernel(body, header=header, passed=passed), "KERNEL-SPACE") == []


@pytest.mark.parametrize(
    ("body", "passed"),
    [
        (INDEX + "const device float* p = x + i; y[0] = p[0];", "[x]"),
        ("const device float* p = x; y[0] = p[0];", "[mx.zeros((unknown,))]"),
    ],
)
def test_pointers_that_fit_some_sizes(body: str, passed: str) -> None:
    assert codes(kernel(body, passed=passed), "KERNEL-SPACE") == ["KERNEL-SPACE-002"]


@pytest.mark.parametrize(
    ("body", "header", "text"),
    [
        ("float v[4]; float* p = v; y[0] = p[0];", "", "p"),
        ("float v = 1; const float4* p; float& r = v; y[0] = r;", "", "p r"),
        ("const half *p = nullptr; y[0] = x[0];", "", "p"),
        ("struct S { uint* at; }; y[0] = x[0];", "", "at"),
        (
            "y[0] = x[0];",
            "#define LOCAL thread\\ninline float f(LOCAL float* a) { return a[0]; }",
            "",
        ),
        ("auto p = x; auto& r = y[0]; r = p[0];", "", ""),
        ("// float* p = v;\ny[0] = x[0];".replace("\n", "\\n"), "", ""),
    ],
)
def test_pointers_without_a_space(body: str, header: str, text: str) -> None:
    found = [text for _, text in pointed(kernel(body, header=header), "KERNEL-SPACE")]
    assert found == text.split()


# Scalars and arrays


@pytest.mark.parametrize(
    ("body", "passed", "flagged"),
    [
        ("y[0] = x[0];", "[0.5]", True),
        ("auto p = x + 1; const device float* q = x; y[0] = q[0];", "[mx.array(1.0)]", True),
        ("y[0] = 2 * x;", "[mx.array([1.0])]", True),
        ("float v = x; y[0] = v;", "[mx.zeros((4, 4))]", True),
        ("y[0] = exp(x);", "[mx.zeros((1,))]", True),
        ("y[x] = 1;", "[mx.zeros((1,))]", True),
        ("auto p = y; p = p + x; p[0] = 1;", "[4]", False),
        ("auto p = y; p = x + 1 + p; p[0] = 1;", "[4]", False),
        ("device float* p = y + x; p[0] = 1;", "[4]", False),
        ("y[0] = x;", "[mx.zeros((1,))]", False),
    ],
)
def test_scalars_and_arrays(body: str, passed: str, flagged: bool) -> None:
    expected = ["KERNEL-RANK-001"] if flagged else []
    assert codes(kernel(body, passed=passed), "KERNEL-RANK") == expected


def test_a_kernel_of_another_kind_is_not_judged() -> None:
    program = kernel("y[0] = x[0];", passed="[0.5]")
    either = "either = mx.fast.metal_kernel if mx.metal.is_available() else mx.fast.cuda_kernel\n"
    assert codes(program, "KERNEL-RANK") == ["KERNEL-RANK-001"]
    assert codes(either + program.replace("mx.fast.metal_kernel(", "either("), "KERNEL-RANK") == []


# Strides

STRIDED = "ensure_row_contiguous=False"


@pytest.mark.parametrize(
    ("body", "passed", "more", "flagged"),
    [
        (INDEX + "auto p = x + i; y[i] = p[0];", "[x]", STRIDED, True),
        (INDEX + "y[i] = x[i];", "[x[:, 1:]]", STRIDED, True),
        (INDEX + "y[i] = x[i];", "[x[1:]]", STRIDED, False),
        (INDEX + "y[i] = x;", "[x]", STRIDED, False),
        (INDEX + "y[i] = x[i];", "[unknown]", STRIDED, False),
    ],
)
def test_strides(body: str, passed: str, more: str, flagged: bool) -> None:
    found = codes(kernel(body, passed=passed, more=more), "KERNEL-STRIDE")
    assert found == (["KERNEL-STRIDE-001"] if flagged else [])


READER = "template <typename P> float at(P p, uint i) { return p[i]; }\n"
OUTER = READER + "template <typename P> float twice(P p, uint i) { return 2 * at(p, i); }\n"
FIRST = "template <typename P> float first(P p) { return 1; }\n"


@pytest.mark.parametrize(
    ("header", "body", "flagged"),
    [
        (READER, "y[i] = at(x, i);", True),
        (OUTER, "y[i] = twice(x, i);", True),
        (FIRST, "y[i] = first(x);", False),
        (READER, "y[i] = at(x, i * x_strides[0]);", False),
    ],
)
def test_strides_in_functions(header: str, body: str, flagged: bool) -> None:
    program = kernel(INDEX + body, header=header, passed="[x.T]", more=STRIDED)
    assert codes(program, "KERNEL-STRIDE") == (["KERNEL-STRIDE-001"] if flagged else [])


@pytest.mark.parametrize(
    ("callers", "flagged"),
    [
        ("def f(x):\n    return _launch(mx.contiguous(x))\n", False),
        ("def f(x):\n    return _launch(x + 1)\n", False),
        ("def f(x):\n    return _launch(x=x * 2)\n", False),
        ("def f(x):\n    return _launch(x)\n", True),
        ("def _g(x):\n    return _launch(x)\ndef f(x):\n    return _g(x)\n", True),
        ("def _g(x):\n    return _launch(x)\ndef f(x):\n    return _g(x - 1)\n", False),
        ("def f(x):\n    return _launch(x.T)\n", True),
        ("def f(x):\n    x = x.T\n    return _launch(mx.contiguous(x)) + _launch(x=x.T)\n", True),
    ],
)
def test_strides_by_the_callers_of_a_helper(callers: str, flagged: bool) -> None:
    program = kernel(INDEX + "y[i] = x[i];", more=STRIDED).replace("def launch", "def _launch")
    found = codes(program + callers, "KERNEL-STRIDE")
    assert found == (["KERNEL-STRIDE-001"] if flagged else [])


# Outputs

ADD = "atomic_fetch_add_explicit(&y[0], x[0], memory_order_relaxed);"
STORE = "atomic_store_explicit(&y[0], x[0], memory_order_relaxed);"
ATOMIC = "atomic_outputs=True"


@pytest.mark.parametrize(
    ("dtype", "more", "flagged"),
    [
        ("mx.float16", ATOMIC, True),
        ("mx.bfloat16", ATOMIC, True),
        ("mx.int64", ATOMIC, True),
        ("mx.uint8", ATOMIC, True),
    ],
)
def test_dtypes_of_atomic_outputs(dtype: str, more: str, flagged: bool) -> None:
    program = kernel(ADD, more=more).replace("[x.dtype]", f"[{dtype}]")
    expected = [("KERNEL-ATOMIC-001", dtype)] if flagged else []
    assert pointed(program, "KERNEL-ATOMIC") == expected


@pytest.mark.parametrize(
    ("body", "flagged"),
    [
        ("y[0] += 1;", True),
        ("y[0]++;", True),
        ("float v = y[0];" + ADD, True),
        (STORE + " float v = x[0] * y[0];", True),
        (STORE, False),
        ("device auto& place = y[0];", False),
    ],
)
def test_plain_access_to_atomic_outputs(body: str, flagged: bool) -> None:
    found = codes(kernel(body, more=ATOMIC), "KERNEL-ATOMIC")
    assert found == (["KERNEL-ATOMIC-002"] if flagged else [])


CAST = "(device atomic_float*)"


@pytest.mark.parametrize(
    ("body", "more", "flagged"),
    [
        (ADD, "", True),
        (STORE, "atomic_outputs=False", True),
        (ADD.replace("&y[0]", "y + uint(x[0])"), "", True),
        ("float v = atomic_load_explicit(&y[uint(x[0])], memory_order_relaxed);", "", True),
        (ADD.replace("&y", f"{CAST}&y"), "", False),
        (ADD.replace("&y[0]", f"{CAST}y + 1"), "", False),
        (ADD.replace("&y[0]", "reinterpret_cast<device atomic_float*>(y)"), "", False),
        (f"threadgroup atomic_int y1[4]; {ADD.replace('y', 'y1')}", "", False),
        ("threadgroup atomic_int t[4]; " + ADD.replace("&y[0]", "&t[uint(y[0])]"), "", False),
        (ADD, "atomic_outputs=flag", False),
        (ADD, "**options", False),
    ],
)
def test_atomic_functions_on_plain_outputs(body: str, more: str, flagged: bool) -> None:
    found = codes(kernel(body, more=more), "KERNEL-ATOMIC")
    assert found == (["KERNEL-ATOMIC-002"] if flagged else [])


@pytest.mark.parametrize("atomic", [True, False])
def test_atomic_outputs_by_place(atomic: bool) -> None:
    program = f'mx.fast.metal_kernel("k", ["x"], ["y"], "{ADD}", "", True, {atomic})'
    assert codes(program, "KERNEL-ATOMIC") == ["KERNEL-ATOMIC-002"] * (not atomic)


@pytest.mark.parametrize(
    ("body", "more", "flagged"),
    [
        ("atomic_fetch_max_explicit(y, x[0], memory_order_relaxed);", ATOMIC, True),
        ("y[0] = y[0] + x[0];", "", True),
        ("y[0] = max(y[0], x[0]);", "", True),
        (STORE + ADD, ATOMIC, False),
        ("clear(y); y[0] += x[0];", "", False),
        ("clear(&y[0]); y[0] += x[0];", "", False),
    ],
)
def test_updates_of_what_was_never_written(body: str, more: str, flagged: bool) -> None:
    found = codes(kernel(body, more=more), "KERNEL-INIT")
    assert found == (["KERNEL-INIT-001"] if flagged else [])
    for launch in ("init_value=0,", "**unknown,"):
        assert codes(kernel(body, more=more, launch=launch), "KERNEL-INIT") == []


GUARD = INDEX + "if (i >= uint(x_shape[0])) return; "


@pytest.mark.parametrize(
    ("body", "flagged"),
    [
        (GUARD + "if (x[i] > 0) y[i] = x[i];", True),
        (GUARD + "float v = exp(x[i]); if (v < 1) return; y[i] = v;", True),
        (GUARD + "bool keep = x[i] > 0; if (!keep) { return; } else { y[i] = 1; }", True),
        (GUARD + "for (uint k = 0; k < 4; ++k) { if (x[i] > k) y[4 * i + k] = k; }", True),
        (GUARD + "if (x[i] > 0) y[i] = x[i]; else y[i] = 0;", False),
        (GUARD + "if (x[i] == 3) y[0] = i;", False),
        (GUARD + "if (x[i] > 0) y[uint(x[i])] = 1;", False),
    ],
)
def test_stores_that_data_decide(body: str, flagged: bool) -> None:
    found = codes(kernel(body), "KERNEL-INIT")
    assert found == (["KERNEL-INIT-001"] if flagged else [])
    assert codes(kernel(body, launch="init_value=0,"), "KERNEL-INIT") == []


# Math modes


@pytest.mark.parametrize(
    ("mode", "body", "flagged"),
    [
        ('"fast"', "y[0] = -INFINITY;", True),
        ('"fast"', "y[0] = isnan(x[0]);", True),
        ('"fast"', "y[0] = metal::isinf(x[0]);", True),
        ('"fast"', "y[0] = numeric_limits<float>::infinity();", True),
        ('"fast"', "y[0] = -1e30f; // INFINITY", False),
    ],
)
def test_math_modes(mode: str, body: str, flagged: bool) -> None:
    program = kernel(body, more='compile_options={"math_mode": MODE}'.replace("MODE", mode))
    assert codes(program, "KERNEL-MATH") == (["KERNEL-MATH-001"] if flagged else [])


FAMILY = "KERNEL-ARGS-00"


def launching(more: str, inputs: str = "[x]", dtypes: str = "[x.dtype]", before: str = "") -> str:
    return (
        "import numpy as np\n"
        'K = mx.fast.metal_kernel(name="k", input_names=["x"], output_names=["y"],\n'
        '    source="uint i = thread_position_in_grid.x; y[i] = x[i];")\n'
        "def launch(x: mx.array, n: int, eps: float, pairs: list, name: str):\n"
        f"    {before or 'pass'}\n"
        f"    return K(inputs={inputs}, grid=(n, 1, 1), threadgroup=(32, 1, 1),\n"
        f"        output_shapes=[x.shape], output_dtypes={dtypes}, {more})[0]\n"
    )


def underlined(program: str) -> tuple[str, str, str]:
    """Code, source text and message of the one finding."""
    (found,) = findings(program, FAMILY)
    line = (IMPORTS + program).split("\n")[found.line - 1]
    return found.code, line[found.column - 1 : found.end_column - 1], found.message


@pytest.mark.parametrize(
    ("template", "text", "words"),
    [
        ('[("N", "float")]', '"float"', "a string"),
        ('[("T", x.dtype), ("N", name)]', "name", "a string"),
        ('[("N", None)]', "None", "None"),
        ('[("N", np.int32(n))]', "np.int32(n)", "a NumPy scalar"),
        ('[("N", x)]', "x", "an array"),
        ('[("N", mx.array(3))]', "mx.array(3)", "an array"),
        ('[("N", (n, 2))]', "n, 2", "a tuple"),
        ('[("N", x.shape)]', "x.shape", "a shape"),
        ('[("N", 2147483648)]', "2147483648", "more than 32 bits"),
        ('[("N", -2147483649)]', "-2147483649", "more than 32 bits"),
        ('[("N",)]', '"N",', "got 1 part"),
        ('[("T", x.dtype, 1)]', '"T", x.dtype, 1', "got 3 parts"),
        ('("T", x.dtype)', '"T"', "must be a (name, value) pair"),
        ("[x.dtype]", "x.dtype", "must be a (name, value) pair"),
        ('{("N", 4)}', '{("N", 4)}', "a set"),
    ],
)
def test_template_arguments_that_mlx_refuses(template: str, text: str, words: str) -> None:
    code, shown, message = underlined(launching(f"template={template}"))
    assert (code, shown) == ("KERNEL-ARGS-005", text)
    assert words in message


@pytest.mark.parametrize(
    "template",
    [
        "None",
        '[("N", eps)]',
        '[("N", int(n / 2))]',
        '[("N", n // 2), *pairs]',
        '[("N", x.item())]',
    ],
)
def test_template_arguments_that_mlx_takes(template: str) -> None:
    assert codes(launching(f"template={template}"), FAMILY) == []


def test_template_of_a_name() -> None:
    text = launching("template=how", before='how = [("N", 1.5)]')
    assert underlined(text)[:2] == ("KERNEL-ARGS-005", "how")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"inputs": "[x.astype(mx.float64)]"}, "x.astype(mx.float64)"),
        ({"inputs": "[mx.zeros(4, dtype=mx.float64)]"}, "mx.zeros(4, dtype=mx.float64)"),
        ({"dtypes": "[mx.float64]"}, "mx.float64"),
        ({"more": "stream=mx.cpu"}, "mx.cpu"),
        ({"more": "stream=mx.default_stream(mx.cpu)"}, "mx.default_stream(mx.cpu)"),
        ({"more": "stream=s", "before": "s = mx.new_stream(mx.cpu)"}, "s"),
        ({"more": "stream=mx.Device(mx.cpu)"}, "mx.Device(mx.cpu)"),
    ],
)
def test_what_the_gpu_does_not_do(given: dict[str, str], text: str) -> None:
    assert underlined(launching(**{"more": "", **given}))[:2] == ("KERNEL-ARGS-006", text)


@pytest.mark.parametrize(
    "given",
    [
        {"inputs": "[np.float64(eps)]"},
    ],
)
def test_what_the_gpu_does(given: dict[str, str]) -> None:
    assert codes(launching(**{"more": "", **given}), FAMILY) == []


@pytest.mark.parametrize("more", ["stream=mx.cpu", 'template=[("N", 0.5)]'])
def test_tests_of_the_errors_are_none(more: str) -> None:
    """Also where the function that raises is defined before, for the test alone."""
    program = launching(more)
    test = (
        "import pytest\ndef test_it(x):\n    with pytest.raises(ValueError):\n        launch(x)\n"
    )
    assert codes(program + test, FAMILY) != []
    local = "\n".join(f"    {line}" for line in program.splitlines())
    raising = "\n    with pytest.raises(ValueError):\n        launch(x)\n"
    assert codes(f"import pytest\ndef test_it(x):\n{local}{raising}", FAMILY) == []


@pytest.mark.parametrize(
    ("declaration", "advice"),
    [("float v", "Give it a value where it is declared"), ("threadgroup float v", "Write the ele")],
)
def test_a_value_where_metal_allows_one(declaration: str, advice: str) -> None:
    (found,) = findings(kernel(f"{declaration}; y[0] = v;"), "KERNEL-INIT")
    assert found.help.startswith(advice)
