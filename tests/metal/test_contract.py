"""The contract against the source that the installed MLX generates, over made-up kernels."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from embercoach.checks.programs.generated_signatures import UnknownFactError, function_name, head
from embercoach.metal.contract import (
    ATTRIBUTES,
    Input,
    KernelArguments,
    Output,
    TemplateArgument,
    signature,
)
from embercoach.metal.program.written_facts import read_unit
from tests.metal.generated_text import generated_source

mx = pytest.importorskip("mlx.core")

DTYPES = [
    "bool_",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "complex64",
]
# Some are part of others, of an attribute, or of what MLX passes for others.
NAMES = ("x", "y", "w_1", "out", "grid_size", "x_shape", "thread_position_in_grid", "K", "ax", "x_")
SHAPES = ((), (1,), (7,), (8,), (2, 3), (2, 4), (0,), (3, 0, 2), (1, 1, 1), (2, 2, 2))
#: Python numbers as inputs, and the dtypes that MLX gives them.
NUMBERS = {True: "bool_", 3: "int32", -(2**31): "int32", 0.5: "float32", 2j: "complex64"}
Given = tuple[int, ...] | complex


def made_by_mlx(kernel: KernelArguments, shapes: list[Given], output_dtypes: list[str]) -> list:
    """What MLX records for the kernel when a call of it is exported: name, source, launch, ...

    Args:
        kernel: the kernel.
        shapes: of each input the shape of an array, or a Python number.
        output_dtypes: MLX's names.
    """
    built = mx.fast.metal_kernel(
        name=kernel.name,
        input_names=[i.name for i in kernel.inputs],
        output_names=[o.name for o in kernel.outputs],
        source=kernel.source,
        header=kernel.header,
        atomic_outputs=kernel.atomic_outputs,
    )
    template = [
        (t.name, getattr(mx, t.value) if isinstance(t.value, str) else t.value)
        for t in kernel.template
    ]
    recorded: list[dict] = []

    def call(*arrays):
        following = iter(arrays)
        return built(
            inputs=[next(following) if isinstance(s, tuple) else s for s in shapes],
            template=template,
            grid=(1, 1, 1),
            threadgroup=(1, 1, 1),
            output_shapes=[(1,)] * len(output_dtypes),
            output_dtypes=[getattr(mx, dtype) for dtype in output_dtypes],
        )

    arrays = [
        mx.zeros(shape, dtype=getattr(mx, i.dtype))
        for i, shape in zip(kernel.inputs, shapes, strict=True)
        if isinstance(shape, tuple)
    ]
    mx.export_function(recorded.append, call, *arrays)
    (primitive,) = (r for r in recorded if r.get("name") == "CustomKernel")
    return primitive["arguments"]


@st.composite
def kernels(draw: st.DrawFn) -> tuple[KernelArguments, list[Given]]:
    """A kernel of any shape, together with the shapes of its inputs."""
    names = st.sampled_from(NAMES)
    shapes = draw(st.lists(st.sampled_from((*SHAPES, *NUMBERS)), max_size=4))
    inputs = tuple(
        Input.of_shape(draw(names), shape, draw(st.sampled_from(DTYPES)))
        if isinstance(shape, tuple)
        else Input.of_shape(draw(names), (), NUMBERS[shape])
        for shape in shapes
    )
    outputs = tuple(
        Output(draw(names), draw(st.sampled_from(DTYPES)))
        for _ in range(draw(st.integers(min_value=1, max_value=3)))
    )
    mentions = [*ATTRIBUTES, "my_grid_size", "thread_position", "threads_per", " ", "; // é\n"]
    mentions += ["x_shapes", "x_shape_1", "X_SHAPE", "x__ndim", "grid_sizes[0]", "x _strides"]
    mentions += [f"{n}{end}" for n in NAMES for end in ("", "_shape", "_strides", "_ndim", "_sh")]
    source = "".join(draw(st.lists(st.sampled_from(mentions), max_size=5)))
    values = st.booleans() | st.integers(-(2**31), 2**31 - 1) | st.sampled_from(DTYPES)
    template = tuple(
        TemplateArgument(f"T{i}", value)
        for i, value in enumerate(draw(st.lists(values, max_size=3)))
    )
    return KernelArguments(
        name=draw(st.sampled_from(["k", "my-kernel 1", "a_b"])),
        inputs=inputs,
        outputs=outputs,
        source=source,
        header=draw(st.sampled_from(["", "// x_shape grid_size\n", "#define N 3", "\n\n", "ü"])),
        template=template,
        atomic_outputs=draw(st.booleans()),
    ), shapes


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(kernels())
def test_text_equals_mlx(case) -> None:
    kernel, shapes = case
    arguments = made_by_mlx(kernel, shapes, [o.dtype for o in kernel.outputs])
    assert function_name(kernel) == arguments[0]
    assert generated_source(kernel) == arguments[1]


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(kernels())
def test_parameters_equal_the_parsed_source(case) -> None:
    """The facts of each parameter, read back from MLX's source by the C++ grammar."""
    kernel, shapes = case
    made = signature(kernel)
    if made.malformed or "-" in kernel.name:
        return
    source = made_by_mlx(kernel, shapes, [o.dtype for o in kernel.outputs])[1]
    opening = source.index("[[kernel]] void ")
    head = source[opening : source.index(") {\n", opening)] + ") {}"
    unit = read_unit(head)
    assert unit.parse_ok
    (function,) = unit.entry_points
    buffers = [p for p in made.parameters if p.role != "attribute"]
    assert [
        (p.name, p.address_space, p.type, p.pointer, [(a.name, a.arguments) for a in p.attributes])
        for p in function.parameters
    ] == [(p.name, p.address_space, p.type, True, [("buffer", str(p.index))]) for p in buffers] + [
        (a, None, ATTRIBUTES[a], False, [(a, None)]) for a in made.attributes()
    ]
    assert made.buffers == (len(buffers), len(buffers))


@given(kernels())
def test_the_head_is_that_of_the_source(case) -> None:
    kernel, _ = case
    if not signature(kernel).malformed:
        assert generated_source(kernel).startswith(f"{kernel.header}{head(kernel)} {{\n")


def test_the_head_shows_what_is_unknown() -> None:
    template = (TemplateArgument("T"), TemplateArgument("N", 4))
    kernel = KernelArguments(
        "k", (Input("x", ndim=0),), (Output("o", "int8"),), "", template=template
    )
    assert head(kernel) == (
        "template <<typename, int or bool> T, int N>\n"
        "[[kernel]] void custom_kernel_k_...(\n"
        "  const constant <dtype of x>& x [[buffer(0)]],\n"
        "  device int8_t* o [[buffer(1)]])"
    )
    assert head(replace(kernel, template=None)).startswith("template <the launch's template")


def simple(source: str = "", **facts) -> KernelArguments:
    return KernelArguments("k", (Input("x", **facts),), (Output("o"), Output("p")), source)


def test_malformed_signature_is_mlx_own() -> None:
    """MLX opens the function body more than once where ``malformed`` says so."""
    outputs = (Output("o", "float32"), Output("p", "float32"))
    kernel = KernelArguments("k", (Input.of_shape("x", (9,), "float32"),), outputs, "x_shape")
    assert made_by_mlx(kernel, [(9,)], ["float32"] * 2)[1].count(") {\n") > 1
    assert signature(kernel).malformed is True


def test_unknown_template_leaves_the_scope_open() -> None:
    kernel = KernelArguments("k", (Input("x"),), (Output("o"),), "", template=None)
    made = signature(kernel)
    assert made.template is None
    assert made.names == {"x", "o"}


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (simple(), "the size of x"),
        (simple(size=9), "the dtype of x"),
        (simple(size=1, dtype="float32"), "the rank of x"),
        (simple(size=9, dtype="float32"), "the dtype of o"),
        (KernelArguments("k", (), (Output("o", "int8"),), "", template=None), "template arguments"),
        (
            KernelArguments("k", (), (Output("o", "int8"),), "", template=(TemplateArgument("N"),)),
            "N is",
        ),
    ],
)
def test_the_exact_name_needs_every_fact(kernel, message) -> None:
    with pytest.raises(UnknownFactError, match=message):
        function_name(kernel)


def test_parameter_text_shows_what_is_unknown() -> None:
    texts = [p.text for p in signature(simple("x_shape threads_per_grid")).parameters]
    assert texts == [
        "const <constant or device> <dtype of x><* or &> x [[buffer(0)]]",
        "const constant int* x_shape [[buffer(?)]]",
        "device <dtype of o>* o [[buffer(?)]]",
        "device <dtype of p>* p [[buffer(?)]]",
        "uint3 threads_per_grid [[threads_per_grid]]",
    ]


def test_scalar_with_elements_is_refused() -> None:
    with pytest.raises(ValueError, match="0-d array has one element"):
        Input("x", ndim=0, size=4)
