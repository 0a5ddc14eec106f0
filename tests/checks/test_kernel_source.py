"""KERNEL-SIG and KERNEL-BUFFER: what is flagged, what is not, and where in the string."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent
from typing import TYPE_CHECKING

import pytest

from embercoach.checks import Project, check_source
from embercoach.fixes.application import apply
from tests.checks.findings import IMPORTS
from tests.checks.findings import findings as kernel_findings
from tests.checks.findings import pointed as kernel_pointed

if TYPE_CHECKING:
    from embercoach.finding import Finding

INDEX = "uint i = thread_position_in_grid.x;"


def source_of(program: str) -> str:
    return "import textwrap\n" + dedent(program).lstrip("\n")


#: What ``kernel_source`` tells; other checks have other things to say about the same programs.
CODES = (
    *(f"KERNEL-SIG-00{number}" for number in range(1, 6)),
    "KERNEL-SIG-011",
    "KERNEL-BUFFER-001",
)


def findings(program: str) -> list[Finding]:
    return kernel_findings(source_of(program), CODES)


def pointed(program: str) -> list[tuple[str, str]]:
    return kernel_pointed(source_of(program), CODES)


def kernel(body: str, names: str = 'input_names=["x"], output_names=["y"]', more: str = "") -> str:
    """A kernel and a launch of it without template arguments."""
    return (
        f'K = mx.fast.metal_kernel(name="k", {names}, source="""\n{body}\n""", {more})\n'
        "def launch(x):\n"
        "    return K(inputs=[x], grid=(x.size, 1, 1), threadgroup=(32, 1, 1),\n"
        "             output_shapes=[x.shape], output_dtypes=[x.dtype])[0]\n"
    )


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        ("kernel void f(device float* a) { a[0] = 1; }", "KERNEL-SIG-001", "f"),
        ("[[kernel]] void f(device float* a) { a[0] = cap; }", "KERNEL-SIG-001", "f"),
        ("float h(float v) { return v; }\n" + INDEX + " y[i] = h(x[i]);", "KERNEL-SIG-001", "h"),
        ("device float* p [[ buffer(1) ]]; p[0] = x[0];", "KERNEL-SIG-002", "[[ buffer(1) ]]"),
        ('#include "mine.h"\n y[0] = x[0];', "KERNEL-SIG-003", '#include "mine.h"'),
        ("using namespace metal; y[0] = x[0];", "KERNEL-SIG-004", "using namespace metal;"),
        ("y[x_size] = x[0];", "KERNEL-SIG-005", "x_size"),
        ("if (y_shape[0] > 1) y[0] = x[0];", "KERNEL-SIG-005", "y_shape"),
        ("{ float v = x[0]; } y[0] = v;", "KERNEL-SIG-005", "v"),
        ("u32 v = 1; y[0] = v;", "KERNEL-SIG-005", "u32"),
        ("y[0] = 1;\n#ifdef x\n#if x\n#endif\n#endif", "KERNEL-SIG-011", "x"),
    ],
)
def test_flagged(body: str, code: str, text: str | None) -> None:
    assert pointed(kernel(body)) == [(code, text or "[[thread_position_in_grid]]")]


@pytest.mark.parametrize(
    "body",
    [
        "struct S { float get() { return v; } float v; }; S s; y[0] = s.get();",
        "auto f = [](float v) { return v; }; y[0] = f(x[0]);",
        "[[maybe_unused]] float a = 1; switch (1) { case 1: [[fallthrough]]; default: y[0] = a; }",
        "using number = float; y[0] = number(x[0]);",
    ],
)
def test_silent(body: str) -> None:
    assert findings(kernel(body)) == []


STRINGS = {
    "concatenated": 'S = "y[0] =" " cap;"',
    "dedented and stripped": 'S = textwrap.dedent("""\n    y[0] = cap;\n    """).strip()',
    "formatted": 'S = "y[{n}] = cap;".format(n=3)',
}


@pytest.mark.parametrize("string", STRINGS.values(), ids=STRINGS)
def test_findings_point_into_strings(string: str) -> None:
    program = string + (
        '\nK = mx.fast.metal_kernel(name="k", input_names=["x"], output_names=["y"], source=S)\n'
        "def launch(x):\n"
        "    return K(inputs=[x], grid=(x.size, 1, 1), threadgroup=(32, 1, 1),\n"
        "             output_shapes=[x.shape], output_dtypes=[x.dtype])[0]\n"
    )
    assert pointed(program) == [("KERNEL-SIG-005", "cap")]


@pytest.mark.parametrize(
    ("line", "test"),
    [
        ("#if N > 2", "`#if` reads 0"),
        ("#if 0\n#elif y_ndim + N", "`#elif` reads 0"),
        ("#ifdef N", "`#ifdef` is always false"),
        ("#ifndef N", "`#ifndef` is always true"),
        ("#if M || defined(N)", "`#if` is always false"),
        ("#if M || defined N", "`#if` is always false"),
        ("#define PART N\n#if PART", None),
    ],
)
def test_preprocessor_reads_no_template_arguments(line: str, test: str | None) -> None:
    program = kernel(f"{line}\n#endif\ny[0] = N;").replace("grid=", 'template=[("N", 4)], grid=')
    expected = [] if test is None else [f"{test}: template argument `N` is not a macro"]
    assert [found.message for found in findings(program)] == expected


def test_header_may_define_what_the_preprocessor_reads() -> None:
    body = "#if x\n#endif\ny[0] = 1;"
    assert findings(kernel(body, more='header="#include \\"mine.h\\""')) == []
    assert pointed(kernel("y[0] = 1;", more='header="#if x\\n#endif"')) == [("KERNEL-SIG-011", "x")]


@pytest.mark.parametrize("newline", ["\r\n", "\r"])
def test_other_line_breaks(newline: str) -> None:
    text = "import mlx.core as mx\n" + kernel(
        "  uint a = 1;\n  #include <metal_stdlib>\n  y[0] = a;"
    )
    source = text.replace("\n", newline)
    (found,) = check_source(source, Path("program.py"), Project()).findings
    assert (found.code, found.line, found.column) == ("KERNEL-SIG-003", 4, 3)


BUILDERS = {
    "lazily": "K = None\ndef get():\n    global K\n    if K is None:\n        K = {build}",
    "by an annotated builder": "from collections.abc import Callable\n"
    "def make(source: str) -> Callable[..., list[mx.array]]:\n    return {build}\nK = make(S)",
    "behind a cache": "from functools import lru_cache\n@lru_cache(maxsize=None)\n"
    "def make(source):\n    return {build}\nK = make(S)",
    "as an attribute": "class M:\n    def __init__(self):\n        self.kernel = {build}",
}


@pytest.mark.parametrize("way", BUILDERS.values(), ids=BUILDERS)
def test_kernels_are_found_however_they_are_built(way: str) -> None:
    source = "source" if "(source" in way else "S"
    build = (
        f'mx.fast.metal_kernel(name="k", input_names=["x"], output_names=["y"], source={source})'
    )
    program = 'S = "uint i [[thread_position_in_grid]]; y[i] = x[i];"\n' + way.format(build=build)
    assert pointed(program) == [("KERNEL-SIG-002", "[[thread_position_in_grid]]")]


def test_many_kernels_of_one_builder_are_told_apart() -> None:
    lines = ["def make(names, source):"]
    lines.append(
        '    return mx.fast.metal_kernel(name="k", input_names=names, output_names=["y"],'
        " source=source)"
    )
    lines += [f'K{n} = make(["x{n}"], "y[0] = x{n}[0];")' for n in range(20)]
    lines.append('LAST = make(["x"], "y[0] = x1[0];")')
    assert pointed("\n".join(lines)) == [("KERNEL-SIG-005", "x1")]


def test_a_string_of_another_file_is_told_at_the_argument(tmp_path: Path) -> None:
    (tmp_path / "texts.py").write_text('BODY = "y[0] = x1[0];"\n')
    user = tmp_path / "user.py"
    text = (
        "import mlx.core as mx\nfrom texts import BODY\n"
        'K = mx.fast.metal_kernel(name="k", input_names=["x"], output_names=["y"],\n'
        "    source=BODY)\n"
    )
    user.write_text(text)
    (found,) = check_source(text, user, Project()).findings
    assert (found.code, found.line, found.column) == ("KERNEL-SIG-005", 4, 12)


def test_a_builder_of_another_file_is_told_at_the_string(tmp_path: Path) -> None:
    (tmp_path / "builders.py").write_text(
        "import mlx.core as mx\ndef make(source):\n"
        '    return mx.fast.metal_kernel(name="k", input_names=["x"], output_names=["y"],\n'
        "        source=source)\n"
    )
    user = tmp_path / "user.py"
    text = 'import mlx\nfrom builders import make\nK = make("y[0] = x1[0];")\n'
    user.write_text(text)
    project = Project()
    (found,) = check_source(text, user, project).findings
    assert (found.code, found.line, found.column) == ("KERNEL-SIG-005", 3, 18)
    builders = tmp_path / "builders.py"
    assert check_source(builders.read_text(), builders, project).findings == ()


WITH_TEMPLATE = """
S = "y[0] = T(x[0]) + N;"
K = mx.fast.metal_kernel(name="k", input_names=["x"], output_names=["y"], source=S)
def launch(x, how):
    return K(inputs=[x], grid=(1, 1, 1), threadgroup=(1, 1, 1), output_shapes=[(1,)],
             output_dtypes=[x.dtype]{template})
"""


@pytest.mark.parametrize(
    ("template", "names"),
    [
        (", template=None", ["T", "N"]),
    ],
)
def test_template_arguments(template: str, names: list[str]) -> None:
    found = pointed(WITH_TEMPLATE.format(template=template))
    assert sorted(name for _, name in found) == sorted(names)


BUILD = """
def build(given):
    return mx.fast.metal_kernel(name="k", input_names={names}, output_names=["y"], source={source},
                                header={header})
"""
UNKNOWN = {
    "a file": {"source": "open(given).read()"},
}


@pytest.mark.parametrize("parts", UNKNOWN.values(), ids=UNKNOWN)
def test_what_is_not_known_is_silent(parts: dict[str, str]) -> None:
    known = {"names": '["x"]', "source": '"y[0] = a[0];"', "header": '""'}
    assert len(findings(BUILD.format(**known))) == 1
    assert findings(BUILD.format(**{**known, **parts})) == []


HOLES = {
    "a number with a suffix": ("n: int", 'f"uint a = {n}u; y[a] = cap[0];"'),
    "a float": ("n: float", 'f"float a = {n}f; y[0] = a * cap[0];"'),
    "a formatted number": ("n: float", 'f"float a = {n:.4f}; y[0] = a * cap[0];"'),
    "a number by format": ("n: int", '"y[{}] = cap[0];".format(n)'),
    "a number by replace": ("n: int", '"y[INDEX] = cap[0];".replace("INDEX", str(n))'),
    "a number in a dedented text": ("n: int", 'textwrap.dedent(f"""\n  y[{n}] =\n    cap[0];""")'),
}


@pytest.mark.parametrize(("parameter", "source"), HOLES.values(), ids=HOLES)
def test_numbers_may_be_unknown(parameter: str, source: str) -> None:
    program = f"""
def build({parameter}):
    return mx.fast.metal_kernel(name="k", input_names=["x"], output_names=["y"], source={source})
"""
    assert pointed(program) == [("KERNEL-SIG-005", "cap")]


@pytest.mark.parametrize(
    ("parameter", "source"),
    [
        ("n: int", 'f"y[0] = cap{n}[0];"'),
        ("n: int", 'f"y[0] = {n}cap[0];"'),
        ("n: int", 'f"y[{n}] = 1;".replace("1", "cap[0]")'),
    ],
)
def test_other_parts_may_not(parameter: str, source: str) -> None:
    program = f"""
def build({parameter}):
    return mx.fast.metal_kernel(name="k", input_names=["x"], output_names=["y"], source={source})
"""
    assert findings(program) == []


def test_marks_are_marks_whatever_stands_beside_them() -> None:
    program = """
def build(text, n):
    source = f"{text} uint i [[thread_position_in_grid]]; device float* a [[buffer({n})]];"
    return mx.fast.metal_kernel(name="k", input_names=["x"], output_names=["y"], source=source)
"""
    assert pointed(program) == [
        ("KERNEL-SIG-002", "[[thread_position_in_grid]]"),
        ("KERNEL-SIG-002", "[[buffer("),
    ]


def test_the_shape_of_a_scalar_is_not_there() -> None:
    names = 'input_names=["x", "n"], output_names=["y"]'
    program = kernel("y[0] = x[0] + n_shape[0];", names).replace("inputs=[x]", "inputs=[x, 3]")
    (found,) = findings(program)
    assert "scalar `n` has no shape" in found.message


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("out0", "`y`"),
        ("input1_shape", "`scale_shape`"),
        ("x_size", "x_shape"),
        ("y_shape", "template"),
        ("scales", "Did you mean `scale`"),
        ("simd_lane_id", "`thread_index_in_simdgroup`"),
        ("warpSize", "`threads_per_simdgroup`"),
        ("__ldg(x)", "Read the element itself"),
        ("atomicAdd(x, 1)", "`atomic_fetch_add_explicit("),
        ("__shfl_down_sync(1, 2, 3)", "`simd_shuffle_down(v, delta)`"),
        ("make_float2(1, 2)", "`float2`"),
        ("__ballot_sync(1, 2)", "`uint(simd_vote::vote_t(simd_ballot(v)))`"),
    ],
)
def test_the_way_out(name: str, advice: str) -> None:
    names = 'input_names=["x", "scale"], output_names=["y"]'
    program = f"""
    K = mx.fast.metal_kernel(name="k", {names}, source="y[0] = x[0] + scale[0] + {name}[0];")
    """
    (found,) = findings(program)
    assert advice in found.help


def test_arrays_that_the_launch_sizes() -> None:
    (found,) = kernel_findings(kernel("extern __shared__ float s[]; y[0] = 1;"), ("KERNEL-MSL",))
    assert "template argument as the size" in found.help


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y[0] = rsqrtf(x[0]);", "y[0] = rsqrt(x[0]);"),
        ("y[0] = __expf(x[0]) + fmaxf(x[1], 0);", "y[0] = fast::exp(x[0]) + fmax(x[1], 0);"),
        (
            "__syncthreads(); y[0] = 1;",
            "threadgroup_barrier(mem_flags::mem_threadgroup); y[0] = 1;",
        ),
        (
            "__shared__ float s[4]; __shared__ int n; s[n] = 1;",
            "threadgroup float s[4]; threadgroup int n; s[n] = 1;",
        ),
        (
            "extern  __shared__ float s[4]; __shared__ int n; s[n] = 1;",
            "threadgroup float s[4]; threadgroup int n; s[n] = 1;",
        ),
        ("extern __shared__ float s[]; s[0] = 1;", "extern __shared__ float s[]; s[0] = 1;"),
    ],
)
def test_words_of_cuda_become_metal(body: str, expected: str) -> None:
    found = kernel_findings(kernel(body), ("KERNEL-SIG", "KERNEL-MSL"))
    fixed, _ = apply(IMPORTS + kernel(body), [one.fix for one in found if one.fix])
    assert fixed == IMPORTS + kernel(expected)


@pytest.mark.parametrize(
    ("inputs", "terms", "flagged"), [(8, 4, True), (8, 3, False), (31, 1, True)]
)
def test_buffers(inputs: int, terms: int, flagged: bool) -> None:
    names = [f"a{n}" for n in range(inputs)]
    ends = ["[0]", "_shape[0]", "_strides[0]", "_ndim"][:terms]
    body = " + ".join(name + end for name in names for end in ends)
    program = (
        f'K = mx.fast.metal_kernel(name="k", input_names={names}, output_names=["y"],\n'
        f'    source="""y[0] = {body};""")'
    )
    assert [f.code for f in findings(program)] == ["KERNEL-BUFFER-001"] * flagged


def test_indented_kernels() -> None:
    body = indent("y[0] = cap;", " " * 12)
    program = f"""
class A:
    def build(self):
        if True:
            self.k = mx.fast.metal_kernel(
                name="k", input_names=["x"], output_names=["y"], source=f\'\'\'
{body}
                \'\'\')
    def run(self, x):
        return self.k(inputs=[x], grid=(1, 1, 1), threadgroup=(1, 1, 1), output_shapes=[(1,)],
                      output_dtypes=[x.dtype])
"""
    assert pointed(program) == [("KERNEL-SIG-005", "cap")]
