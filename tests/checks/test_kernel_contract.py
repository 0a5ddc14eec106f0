"""What MLX makes of a kernel's names and texts: KERNEL-NAME, KERNEL-SIG-006 to 009 and others."""

from __future__ import annotations

import pytest

from tests.checks.findings import findings, pointed

INDEX = "uint i = thread_position_in_grid.x; "


def kernel(
    body: str,
    *,
    header: str = "",
    inputs: str = '["x"]',
    outputs: str = '["y"]',
    passed: str = "[x]",
    name: str = '"k"',
    more: str = "",
    launch: str = "",
) -> str:
    """A kernel and a launch of it, in a function of an array ``x``."""
    return (
        f"K = mx.fast.metal_kernel(name={name}, input_names={inputs}, output_names={outputs},\n"
        f"    header='''{header}''', source='''{body}''', {more})\n"
        "def launch(x):\n"
        f"    return K(inputs={passed}, grid=(x.size, 1, 1), threadgroup=(32, 1, 1),\n"
        "             output_shapes=[x.shape], output_dtypes=[x.dtype],\n"
        f"             {launch})[0]\n"
    )


# Names


@pytest.mark.parametrize(
    ("program", "text"),
    [
        (kernel("", name='"my-kernel"'), '"my-kernel"'),
        (kernel("", name='"my kernel"'), '"my kernel"'),
        (kernel("", name='"größe"'), '"größe"'),
        (kernel("", inputs='["x.y"]'), '"x.y"'),
        (kernel("", inputs='["2x"]'), '"2x"'),
        (kernel("", inputs='["half"]'), '"half"'),
        (kernel("", outputs='["kernel"]'), '"kernel"'),
        (kernel("y[grid_size.x] = 1;", inputs='["grid_size"]'), '"grid_size"'),
        (kernel("y[0] = max(x[0], 1.0f);", inputs='["x", "max"]'), '"max"'),
        (kernel("y[0] = N[0];", header="#define N 4", inputs='["N"]'), '"N"'),
        (kernel("y[0] = T(x[0]);", inputs='["x", "T"]', launch="template=[('T', mx.float16)],"),
         '"T"'),
        (kernel("y[0] = x_shape[0];", inputs='["x", "x_shape"]', passed="[mx.ones((4, 4)), x]"),
         '"x_shape"'),
        ('NAMES = ["x", "x"]\n' + kernel("", inputs="NAMES"), '"x"'),
    ],
)  # fmt: skip
def test_names_that_clash(program: str, text: str) -> None:
    found = pointed(program, "KERNEL-NAME-001")
    assert found == [("KERNEL-NAME-001", text)]


@pytest.mark.parametrize(
    "program",
    [
        kernel("{ auto max = [](float a) { return a; }; y[0] = max(1); }", inputs='["x", "max"]'),
        kernel("y[0] = N[0];", header="#define N(a) a", inputs='["N"]'),
        kernel("y[0] = x_shape[0];", inputs='["x", "x_shape"]'),
    ],
)
def test_names_that_are_fine(program: str) -> None:
    assert pointed(program, "KERNEL-NAME-001") == []


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("struct complex64_t { float re; float im; };", "complex64_t"),
        ("template <typename T> struct Limits { T top; };", "Limits"),
        ("enum Limits { LOW, HIGH };", "Limits"),
        ("typedef half float16_t;", None),
        ("namespace mine { struct Limits { float top; }; }", None),
        ("template <> struct Limits<int2> { int top; };", None),
        ("#ifdef OWN\\nstruct Limits { float top; };\\n#endif", None),
    ],
)
def test_types_of_the_preamble(header: str, name: str | None) -> None:
    found = pointed(kernel("y[0] = x[0];", header=header), "KERNEL-NAME-001")
    assert found == ([] if name is None else [("KERNEL-NAME-001", name)])


def two_kernels(names: tuple[str, str], bodies: tuple[str, str]) -> str:
    return "\n".join(
        f'K{i} = mx.fast.metal_kernel(name={n}, input_names=["x"], output_names=["y"], source={s})'
        for i, (n, s) in enumerate(zip(names, bodies, strict=True))
    )


def built_by_a_function(name: str, source: str, before: str = "") -> str:
    return (
        "def build(n):\n"
        f"    {before or 'pass'}\n"
        f'    return mx.fast.metal_kernel(name={name}, input_names=["x"], output_names=["y"],\n'
        f"        source={source})\n"
    )


@pytest.mark.parametrize(
    ("program", "count"),
    [
        (two_kernels(('"a"', '"a"'), ('"y[0] = 1;"', '"y[0] = 2;"')), 1),
        (built_by_a_function('"a"', 'f"y[0] = {OTHER};"'), 0),
        # What is known, or told by the name, is not what varies.
        (built_by_a_function('f"a_{n}"', 'f"y[{n}] = {OTHER};"') + "build(3)\n", 0),
        (built_by_a_function('"a"', 'f"y[{n}] = {OTHER};"') + "build(3)\n", 1),
        (built_by_a_function('"a"', 'f"y[{OTHER}] = {n};"'), 1),
    ],
)
def test_shared_names(program: str, count: int) -> None:
    found = [code for code, _ in pointed(program, "KERNEL-NAME-002")]
    assert found == ["KERNEL-NAME-002"] * count


# The signature


@pytest.mark.parametrize(
    ("header", "body", "text"),
    [
        ("#define TID thread_position_in_grid.x\n", "y[TID] = x[TID];", "TID"),
        ("#define A B\n#define B thread_index_in_simdgroup\n", "y[A] = x[A];", "A"),
        ("#define LENGTH x_shape[0]\n", INDEX + "y[i] = LENGTH;", "LENGTH"),
        ("#define AT(i) x[(i) * x_strides[0]]\n", INDEX + "y[i] = AT(i);", "AT"),
        ("inline float f() { return x[0]; }\n", INDEX + "y[i] = f();", "x"),
        ("inline uint f() { return thread_position_in_grid.x; }\n", INDEX + "y[i] = f();",
         "thread_position_in_grid"),
        ("inline int f(int n) { return n * x_ndim; }\n", INDEX + "y[i] = f(x_ndim);", "x_ndim"),
    ],
)  # fmt: skip
def test_names_out_of_the_headers_reach(header: str, body: str, text: str) -> None:
    program = kernel(body, header=header.replace("\n", "\\n"))
    assert pointed(program, "KERNEL-SIG-006") == [("KERNEL-SIG-006", text)]


@pytest.mark.parametrize(
    ("header", "body"),
    [
        ("#define TID thread_position_in_grid.x\n", "\n#undef TID\nint TID = 1; y[TID] = 1;"),
        ("struct S { float x; float f() { return x; } };\n", "S s; y[0] = s.f();"),
    ],
)
def test_names_in_the_headers_reach(header: str, body: str) -> None:
    program = kernel(body.replace("\n", "\\n"), header=header.replace("\n", "\\n"))
    assert pointed(program, "KERNEL-SIG-006") == []


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("uint grid_size = 4; " + INDEX + "y[i] = x[grid_size];", "grid_size"),
        ("float x = 1; y[0] = x;", "x"),
        (INDEX + "device float* y = nullptr; y[i] = 1;", "y"),
        ("uint3 thread_position_in_grid = uint3(0); y[0] = x[0];", "thread_position_in_grid"),
        (INDEX + "y[i] = x[i % grid_size.x];", "grid_size"),
        (INDEX + "y[i] = x[i + grid_origin.x];", "grid_origin"),
        (INDEX + "if (i > 0) { typedef float T; y[i] = T(x[i]); } typedef half U; y[i] = U(1);",
         "U"),
    ],
)  # fmt: skip
def test_collisions_with_parameters(body: str, text: str) -> None:
    program = kernel(body, launch="template=[('U', mx.float16)],")
    assert pointed(program, "KERNEL-SIG-007") == [("KERNEL-SIG-007", text)]


def test_a_shapes_name_is_taken_where_the_input_has_dimensions() -> None:
    body = "int x_ndim = 2; y[0] = x_ndim;"
    assert pointed(kernel(body), "KERNEL-SIG-007") == []
    indexed = kernel(body.replace("y[0] = ", "y[0] = x[0] + "))
    assert [code for code, _ in pointed(indexed, "KERNEL-SIG-007")] == ["KERNEL-SIG-007"]
    known = kernel(body, passed="[mx.zeros((4, 4))]")
    assert pointed(known, "KERNEL-SIG-007") == [("KERNEL-SIG-007", "x_ndim")]


@pytest.mark.parametrize(
    "body",
    [
        INDEX + "for (uint x = 0; x < 4; ++x) { y[i] = x; }",
        "#define grid_size 4\n" + INDEX + "y[i] = x[grid_size];",
    ],
)
def test_no_collisions(body: str) -> None:
    assert pointed(kernel(body), "KERNEL-SIG-007") == []


TWO = '["y", "z"]'


@pytest.mark.parametrize(
    ("body", "outputs", "passed", "flagged"),
    [
        ("y[0] = x_shape[0]; z[0] = 1;", TWO, "[x]", True),
        ("y[0] = x_shape[0]; z[0] = 1;", TWO, "[mx.zeros((4,))]", True),
        ("y[0] = x_shape[0]; z[0] = 1; // grid_size", TWO, "[x]", False),
        ("y[0] = x[0]; z[0] = 1; // x_shape", TWO, "[x]", False),
    ],
)
def test_the_broken_parameter_list(body: str, outputs: str, passed: str, flagged: bool) -> None:
    program = kernel(body, outputs=outputs, passed=passed)
    expected = [("KERNEL-SIG-008", "x_shape")] if flagged else []
    assert pointed(program, "KERNEL-SIG-008") == expected


# Gradients

SQUARE = kernel(INDEX + "y[i] = x[i] * x[i];")
LAYER = """
class Square(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = mx.ones((4,))
    def __call__(self, x):
        return launch(x * self.weight)
"""


FLAGGED = """
class Flagged(nn.Module):
    def __init__(self, fast=False):
        super().__init__()
        self.fast = {}
    def __call__(self, x):
        return launch(x) if self.fast else x
"""


@pytest.mark.parametrize(
    "program",
    [
        "mx.grad(lambda a, x: launch(x).sum(), argnums=1)",
        "mx.vjp(launch, [mx.ones((4,))], [mx.ones((4,))])",
        "def f(w, x):\n    y = w * x\n    z = y + 1\n    return launch(z).sum()\nmx.grad(f)",
        "def f(w):\n    def g(x):\n        return launch(x * w)\n    return g(2)\nmx.grad(f)",
        "def f(w):\n    return mx.compile(launch)(w) + launch(x=w)\nmx.grad(f)",
        LAYER + "model = Square()\ndef loss(model, x):\n    return model(x).sum()\n"
        "g = nn.value_and_grad(model, loss)",
        # What is known to run.
        "def f(x, fast=True):\n    return launch(x) if fast else x\nmx.grad(lambda x: f(x))",
        (
            "def f(x, how):\n    if how != 'metal':\n        return x\n    return launch(x)\n"
            "mx.grad(lambda x: f(x, how='metal'))"
        ),
        (
            "FAST = True\ndef f(x):\n"
            "    return launch(x) if FAST and mx.metal.is_available() else x\n"
            "mx.grad(f)"
        ),
        "def f(x):\n    if x is None:\n        return 1\n    return launch(x)\nmx.grad(f)",
        "def f(x):\n    if x.ndim > 2:\n        raise ValueError\n    return launch(x)\nmx.grad(f)",
        (
            "def f(x):\n    if mx.default_device() != mx.gpu:\n        return x\n"
            "    return launch(x)\n"
            "mx.grad(f)"
        ),
        "def f(x):\n    for _ in range(3):\n        x = launch(x)\n    return x\nmx.grad(f)",
        (
            "def f(x):\n    try:\n        return launch(x)\n"
            "    except ValueError:\n        return x\nmx.grad(f)"
        ),
        FLAGGED.format("True") + "m = Flagged()\nmx.grad(lambda x: m(x))",
        # A custom function without a gradient of its own is differentiated as it stands.
        "@mx.custom_function\ndef f(x):\n    return launch(x)\nmx.grad(lambda x: f(x).sum())",
        "@mx.custom_function\ndef f(x):\n    return launch(x)\nmx.grad(f)",
    ],
)
def test_gradients_through_kernels(program: str) -> None:
    found = [code for code, _ in pointed_anywhere(SQUARE + program, "KERNEL-GRAD")]
    assert found == ["KERNEL-GRAD-001"]


CUSTOM = """
@mx.custom_function
def f(x):
    return launch(x)
@f.vjp
def g(x, cotangent, y):
    return cotangent
"""


@pytest.mark.parametrize(
    "program",
    [
        "mx.grad(lambda x: (x * launch(mx.ones((4,)))).sum())",
        "mx.grad(lambda w, x: (w * launch(x)).sum())",
        "mx.grad(lambda x: (x * launch(mx.zeros(x.shape, x.dtype))).sum())",
        "mx.grad(lambda x: (x * launch(mx.stop_gradient(x))).sum())",
        "mx.grad(lambda x: (x * launch(x > 0)).sum())",
        "square = mx.custom_function(launch)\nmx.grad(lambda x: square(x).sum())",
        CUSTOM + "mx.grad(lambda x: f(x).sum())",
        "def f(x, training):\n    return x if training else launch(x)\nmx.grad(f)",
        "mx.grad(unknown)",
        # What a flag decides.
        "def f(x, fast=False):\n    return launch(x) if fast else x\nmx.grad(lambda x: f(x))",
        "def f(x, fast):\n    if not fast:\n        return x\n    return launch(x)\nmx.grad(f)",
        (
            "def f(x, how='reference'):\n    return launch(x) if how == 'metal' else x\n"
            "mx.grad(lambda x: f(x))"
        ),
        "def f(x):\n    if x.shape[0] == 1:\n        return launch(x)\n    return x\nmx.grad(f)",
        "def f(x):\n    return fast() and launch(x)\nmx.grad(f)",
        (
            "def f(x, how):\n    match how:\n        case 'metal':\n            return launch(x)\n"
            "    return x\nmx.grad(f)"
        ),
        (
            "def f(x, fast=True):\n    fast = fast and x.ndim == 1\n"
            "    return launch(x) if fast else x\nmx.grad(lambda x: f(x))"
        ),
        FLAGGED.format("fast") + "m = Flagged()\nmx.grad(lambda x: m(x))",
        FLAGGED.format("True") + "def off(m):\n    m.fast = False\nm = Flagged()\n"
        "mx.grad(lambda x: m(x))",
    ],
)
def test_gradients_past_kernels(program: str) -> None:
    assert pointed_anywhere(SQUARE + program, "KERNEL-GRAD") == []


def test_indices_have_no_gradient() -> None:
    program = SQUARE.replace("[x.dtype]", "[mx.int32]") + "mx.grad(lambda x: x[launch(x)].sum())"
    assert pointed_anywhere(program, "KERNEL-GRAD") == []


def pointed_anywhere(program: str, family: str) -> list[tuple[str, int]]:
    return [(f.code, f.line) for f in findings(program, family)]
