"""KERNEL-ARGS, KERNEL-GRID and KERNEL-CACHE: what is flagged, what is not, and where."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from tests.checks.findings import codes

FAMILY = ("KERNEL-ARGS", "KERNEL-CACHE", "KERNEL-GRID")
BODIES = {
    "EACH": "uint i = thread_position_in_grid.x; if (i < x_shape[0]) y[i] = x[i];",
    "ALIASED": "uint3 at = thread_position_in_grid; y[at.x] = x[at.x];",
    "STRIDED": "for (uint i = thread_position_in_grid.x; i < n; i += threads_per_grid.x) y[i] = 1;",
    "STEPPED": "for (uint i = thread_position_in_grid.x; i < n; i += 4096) y[i] = x[i];",
    "OWN_STRIDE": "uint n = threadgroups_per_grid.x; y[thread_position_in_grid.x] = x[n];",
    "BY_256": "uint i = thread_position_in_grid.x * 256;"
    " for (int k = 0; k < 256; ++k) y[i + k] = 1;",
    "BY_SHIFT": "uint i = thread_position_in_grid.x << 8; y[i] = x[i];",
    "BY_N": "uint i = thread_position_in_grid.x; for (int k = 0; k < N; ++k) y[i * N + k] = x[i];",
    "INTERLEAVED": "uint i = thread_position_in_grid.x;"
    " for (int k = 0; k < 256; ++k) y[i + n * k] = 1;",
    "ROWS": "uint row = threadgroup_position_in_grid.x; uint lane = thread_index_in_threadgroup;"
    " for (uint i = lane; i < 99; i += 256) y[row] += x[row * 99 + i];",
    "ROWS_OF_GROUP": "uint row = threadgroup_position_in_grid.x * threads_per_threadgroup.x"
    " + thread_position_in_threadgroup.x; y[row] = x[row];",
    "SHARED": "uint lane = thread_position_in_threadgroup.x; uint all = threads_per_threadgroup.x;"
    " for (uint i = lane; i < 99; i += all) y[i] = x[i];",
    "SHARED_Y": "uint lane = thread_position_in_threadgroup.y;"
    " for (uint i = lane; i < 99; i += threads_per_threadgroup.y) y[i] = x[i];",
    "TILES": "uint at = threadgroup_position_in_grid.x * 128; y[at] = x[at];",
    "COMPARED": "uint i = thread_position_in_grid.x; uint n = threads_per_grid.x;"
    " if (i < n) y[i] = 2 * x[i];",
    "OF_CUDA": "uint i = threadgroup_position_in_grid.x * threads_per_threadgroup.x"
    " + thread_position_in_threadgroup.x; if (i >= threads_per_grid.x) return; y[i] = 2 * x[i];",
    "UNROLLED": "uint i = thread_position_in_grid.x; uint n = threads_per_grid.x;"
    " y[i] = x[i]; y[i + n] = x[i + n];",
    "BLOCKS": "uint at = threadgroup_position_in_grid.x * BLOCK; y[at] = x[at];",
}
FUNCTIONS = """
def ceildiv(a, b):
    \"\"\"Rounded up.\"\"\"
    return (a + b - 1) // b
upwards = lambda a, b: -(-a // b)
def whole(n, t):
    return ceildiv(n, t) * t
TG = 256
"""


def program(function: str) -> str:
    """The function, and the kernels and functions that it may use."""
    kernels = [
        f"{name} = mx.fast.metal_kernel(\n"
        f'    name="{name.lower()}", input_names=["x"], output_names=["y"],\n'
        f'    source="""{"" if "uint n" in body else "uint n = x_shape[0]; "}{body}""",\n'
        '    header="#define BLOCK 64u\\n")\n'
        for name, body in BODIES.items()
        if name in function
    ]
    return "import math\nimport numpy as np\n" + "".join(kernels) + FUNCTIONS + function


def launching(kernel: str, grid: str, threadgroup: str, before: str = "", more: str = "") -> str:
    return program(
        "def launch(x: mx.array, n, tpg):\n"
        f"{indent(dedent(before).strip(), '    ')}\n"
        f"    return {kernel}(inputs=[x], grid={grid}, threadgroup={threadgroup},\n"
        f"        output_shapes=[x.shape], output_dtypes=[x.dtype]{more})[0]\n"
    )


COUNTED_IN_GROUPS = [
    ("EACH", "(math.ceil(n / tpg), 1, 1)", "(tpg, 1, 1)", ""),
    ("EACH", "(int(np.ceil(n / tpg)), 1, 1)", "(tpg, 1, 1)", ""),
    ("EACH", "(-(-n // tpg), 1, 1)", "(tpg, 1, 1)", ""),
    ("EACH", "(n // tpg + 1, 1, 1)", "(tpg, 1, 1)", ""),
    ("EACH", "(ceildiv(b=tpg, a=n), 1, 1)", "(tpg, 1, 1)", ""),
    ("EACH", "(upwards(n, tpg), 1, 1)", "(tpg, 1, 1)", ""),
    ("EACH", "(max(1, ceildiv(n, tpg)), 1, 1)", "(tpg, 1, 1)", ""),
    ("EACH", "(ceildiv(n, tpg), 1, 1)", "(min(n, tpg), 1, 1)", ""),
    ("COMPARED", "((n + 255) // 256, 1, 1)", "(256, 1, 1)", ""),
    ("OF_CUDA", "((n + 255) // 256, 1, 1)", "(256, 1, 1)", ""),
    ("ROWS", "(ceildiv(n, tpg), 1, 1)", "(tpg, 1, 1)", ""),
    ("ROWS", "(x.shape[0], 1, 1)", "(256, 1, 1)", ""),
    ("ROWS", "(rows, 1, 1)", "(tpg, 1, 1)", "rows, columns = x.shape"),
    ("ROWS", "(a * b, 1, 1)", "(32, 1, 1)", "a = x.shape[0]\nb = int(x.shape[1])"),
    ("SHARED", "(1, 1, 1)", "(32, 1, 1)", ""),
    ("SHARED", "(1, 1, 1)", "(tpg, 1, 1)", ""),
    ("SHARED", "grid", "(min(n, 64), 1, 1)", "grid = (1, 1, 1)"),
    ("SHARED_Y", "(32, 1, 1)", "(32, 4, 1)", ""),
    ("TILES", "((n + 127) // 128, 1, 1)", "(32, 1, 1)", ""),
    ("BLOCKS", "((n + 63) // 64, 1, 1)", "(32, 1, 1)", ""),
    ("TILES", "(ceildiv(n, a), ceildiv(n, tpg), 1)", "(tpg, a, 1)", "a = 16"),
]


@pytest.mark.parametrize(("kernel", "grid", "threadgroup", "before"), COUNTED_IN_GROUPS)
def test_grids_counted_in_threadgroups(
    kernel: str, grid: str, threadgroup: str, before: str
) -> None:
    found = codes(launching(kernel, grid, threadgroup, before), FAMILY)
    assert found == ["KERNEL-GRID-001"]


COUNTED_IN_THREADS = [
    ("EACH", "(whole(n, tpg), 1, 1)", "(tpg, 1, 1)", ""),
    ("EACH", "((n + 255) // 256 * 256, 1, 1)", "(256, 1, 1)", ""),
    ("EACH", "(groups * tpg, 1, 1)", "(tpg, 1, 1)", "groups = ceildiv(n, tpg)"),
    ("EACH", "((n + 255) // 256, 1, 1)", "(1, 1, 1)", ""),
    ("EACH", "(ceildiv(n, 1), 1, 1)", "(1, 1, 1)", ""),
    ("BY_256", "((n + 255) // 256, 1, 1)", "(256, 1, 1)", ""),
    ("BY_SHIFT", "((n + 255) // 256, 1, 1)", "(256, 1, 1)", ""),
    ("INTERLEAVED", "((n + 255) // 256, 1, 1)", "(256, 1, 1)", ""),
    ("ROWS_OF_GROUP", "(x.shape[0], 1, 1)", "(256, 1, 1)", ""),
    ("UNROLLED", "((n + 255) // 256, 1, 1)", "(256, 1, 1)", ""),
    ("SHARED", "(32, 1, 1)", "(32, 4, 1)", ""),
    ("SHARED_Y", "(1, 4, 1)", "(32, 4, 1)", ""),
    ("EACH", "(1, 1, 1)", "(256, 1, 1)", ""),
    ("BY_256", "(1, 1, 1)", "(256, 1, 1)", ""),
    ("TILES", "((n + 63) // 64, 1, 1)", "(32, 1, 1)", ""),
]


@pytest.mark.parametrize(("kernel", "grid", "threadgroup", "before"), COUNTED_IN_THREADS)
def test_grids_counted_in_threads(kernel: str, grid: str, threadgroup: str, before: str) -> None:
    assert codes(launching(kernel, grid, threadgroup, before), "KERNEL-GRID-001") == []


@pytest.mark.parametrize("template", ['[("N", tpg)]', '[("T", x.dtype), ("N", t)]', '[("N", 256)]'])
def test_threads_that_take_as_many_as_the_template_says(template: str) -> None:
    size = "256" if "256" in template else "tpg"
    text = launching(
        "BY_N",
        f"(ceildiv(n, {size}), 1, 1)",
        f"({size}, 1, 1)",
        "t = tpg",
        f", template={template}",
    )
    assert codes(text, FAMILY) == []


CALL = {
    "inputs": "[x]",
    "grid": "(x.size, 1, 1)",
    "threadgroup": "(32, 1, 1)",
    "output_shapes": "[x.shape]",
    "output_dtypes": "[x.dtype]",
}


def calling(changes: dict[str, str | None], before: str = "") -> str:
    arguments = {k: v for k, v in {**CALL, **changes}.items() if v is not None}
    words = ", ".join(f"{k}={v}" for k, v in arguments.items())
    return program(
        "def launch(x: mx.array, n: int, xs: list[mx.array], shape: tuple[int, ...], *, config,\n"
        "           how):\n"
        f"{indent(dedent(before).strip(), '    ')}\n"
        f"    return EACH({words})[0]\n"
    )


@pytest.mark.parametrize(
    ("changes", "before", "code"),
    [
        ({"inputs": "x"}, "", "KERNEL-ARGS-001"),
        ({"output_shapes": "x.shape"}, "", "KERNEL-ARGS-003"),
        ({"output_shapes": "shape"}, "", "KERNEL-ARGS-003"),
        ({"output_shapes": "(n, 4)"}, "", "KERNEL-ARGS-003"),
        ({"output_shapes": "[n]"}, "", "KERNEL-ARGS-003"),
        ({"output_dtypes": "mx.float32"}, "", "KERNEL-ARGS-003"),
        ({"output_dtypes": "x.dtype"}, "", "KERNEL-ARGS-003"),
        ({"inputs": "[[1, 2]]"}, "", "KERNEL-ARGS-003"),
        ({"inputs": "[x.shape]"}, "", "KERNEL-ARGS-003"),
        ({"template": '{"T": x.dtype}'}, "", "KERNEL-ARGS-003"),
        ({"output_shape": "[x.shape]"}, "", "KERNEL-ARGS-003"),
        ({"grid": "(np.ceil(n / 2), 1, 1)"}, "", "KERNEL-GRID-002"),
        ({"threadgroup": "(32.0, 1, 1)"}, "", "KERNEL-GRID-002"),
        ({"threadgroup": "(n // 2.0, 1, 1)"}, "", "KERNEL-GRID-002"),
        ({"grid": "n"}, "", "KERNEL-GRID-003"),
        ({"threadgroup": "256"}, "", "KERNEL-GRID-003"),
        ({"grid": "(n,)"}, "", "KERNEL-GRID-003"),
        ({"grid": "(n, 1, 1, 1)"}, "", "KERNEL-GRID-003"),
        ({"grid": "(n, 0, 1)"}, "", "KERNEL-GRID-003"),
        ({"grid": "(-n, zero - 1, 1)"}, "zero = 0", "KERNEL-GRID-003"),
    ],
)
def test_launches_that_fail(changes: dict[str, str | None], before: str, code: str) -> None:
    assert codes(calling(changes, before), FAMILY) == [code]


@pytest.mark.parametrize(
    ("changes", "before"),
    [
        ({"inputs": "[x, *xs]"}, ""),
        ({"inputs": "given"}, "given = []\ngiven.extend(xs)"),
        ({"inputs": "given"}, "given = [x, x]\ndel given[1]"),
        ({"inputs": "given"}, "given = [x, x]\ngiven.pop()"),
        ({"template": "None", "verbose": "True"}, ""),
        ({"grid": "(math.ceil(n / 2), int(n / 2), round(n / 2))"}, ""),
        ({"grid": "(np.prod(x.shape), 1, 1)"}, ""),
        ({"grid": "(*shape, 1)"}, ""),
        ({"grid": "(max(n - 1, 0), 1, 1)"}, ""),
    ],
)
def test_launches_that_do_not(changes: dict[str, str | None], before: str) -> None:
    assert codes(calling(changes, before).replace("**how=how", "**how"), FAMILY) == []


def test_arguments_by_place() -> None:
    text = program(
        "def launch(x: mx.array):\n    return EACH([x], (1, 1, 1), threadgroup=(1, 1, 1))\n"
    )
    assert codes(text, FAMILY) == ["KERNEL-ARGS-003"]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ('input_names="x", output_names=["y"]', 1),
        ('input_names=["x"], output_names="y"', 1),
        ('input_names=["x"]', 1),
        ('input_names=["x"], output_names=["y"], threadgroup_names=["t"]', 1),
        ('input_names=["x"], output_names=["y"], compile_options=None, atomic_outputs=True', 0),
    ],
)
def test_building(arguments: str, found: int) -> None:
    text = (
        "def build(how):\n    return mx.fast.metal_kernel(name='k', "
        f"source='y[0] = x[0];', {arguments})\n"
    )
    assert codes(text, FAMILY) == ["KERNEL-ARGS-003"] * found


def test_lists_of_callers_are_not_counted() -> None:
    """Of all callers of a helper, one may be seen, and its list is not that of the others."""
    text = program(
        "def run(kernel, inputs, names):\n"
        "    return kernel(inputs=inputs, grid=(1, 1, 1), threadgroup=(1, 1, 1),\n"
        "                  output_shapes=names, output_dtypes=[mx.float32])\n"
        "def one(x, kernel):\n    return run(kernel, [x, x], [(1,), (1,)])\n"
        "def two(xs, shapes):\n    return run(EACH, xs, shapes)\n"
    )
    assert codes(text, FAMILY) == []


BUILD = 'mx.fast.metal_kernel(name="k", input_names=["x"], output_names=["y"], source=S)'
LAUNCH = (
    "(inputs=[x], grid=(1, 1, 1), threadgroup=(1, 1, 1), output_shapes=[(1,)],"
    " output_dtypes=[x.dtype])[0]"
)
EVERY_TIME = {
    "by a factory with a name for it": """
        def make(n):
            k = {build}
            return k
        def run(x):
            return make(3){launch}
    """,
    "by a factory in a loop": """
        def make(n):
            return {build}
        def run(xs):
            for x in xs:
                k = make(3)
                yield k{launch}
    """,
    "by a method": """
        class Layer(nn.Module):
            def __call__(self, x):
                k = self.build(x.shape[-1])
                return k{launch}
            def build(self, n):
                return {build}
    """,
    "a local name": """
        def run(x):
            k = {build}
            return k{launch}
    """,
    "on a condition": """
        def run(x, y):
            if y:
                k = {build}
                return k{launch}
    """,
    "where there is Metal": """
        def run(x):
            if mx.metal.is_available():
                k = {build}
                return k{launch}
    """,
}
ONCE = {
    "lazily": """
        k = None
        def run(x):
            global k
            if k is None:
                k = {build}
            return k{launch}
    """,
    "lazily, by its truth": """
        k = None
        def run(x):
            global k
            if not k:
                k = {build}
            return k{launch}
    """,
    "in a dictionary": """
        KS = {{}}
        def run(x, key):
            if key not in KS:
                KS[key] = {build}
            return KS[key]{launch}
    """,
    "kept after the launch": """
        KS = {{}}
        def run(x, key):
            k = KS.get(key)
            if k is None:
                k = {build}
                KS[key] = k
            return k{launch}
    """,
    "kept on every path": """
        KS = {{}}
        def run(x, key):
            if key in KS:
                return KS[key]{launch}
            k = {build}
            KS[key] = k
            return k{launch}
    """,
    "by a factory that keeps its kernels": """
        KS = {{}}
        def make(key):
            if key in KS:
                return KS[key]
            k = {build}
            KS[key] = k
            return k
        def run(x):
            k = make(3)
            return k{launch}
    """,
    "by a factory that is cached later": """
        import functools
        def make():
            return {build}
        make = functools.cache(make)
        def run(x):
            return make(){launch}
    """,
    "by a factory, kept": """
        class Layer:
            def build(self):
                return {build}
            def __call__(self, x):
                if self.k is None:
                    self.k = self.build()
                return self.k{launch}
    """,
    "by a cached function": """
        import functools
        @functools.lru_cache(maxsize=None)
        def run(x):
            k = {build}
            return k{launch}
    """,
    "for a function inside": """
        def make():
            k = {build}
            def run(x):
                return k{launch}
            return run
    """,
    "in a compiled function": """
        @mx.compile
        def run(x):
            k = {build}
            return k{launch}
    """,
    "in main": """
        def main():
            x = mx.ones(3)
            k = {build}
            print(k{launch}.shape)
    """,
}


def built(text: str) -> str:
    return 'S = "y[0] = x[0];"\n' + dedent(text).format(build=BUILD, launch=LAUNCH)


@pytest.mark.parametrize("text", EVERY_TIME.values(), ids=EVERY_TIME)
def test_kernels_built_at_every_call(text: str) -> None:
    assert codes(built(text), FAMILY) == ["KERNEL-CACHE-001"]


@pytest.mark.parametrize("text", ONCE.values(), ids=ONCE)
def test_kernels_built_once(text: str) -> None:
    assert codes(built(text), FAMILY) == []


@pytest.mark.parametrize(
    "call",
    [
        'mx.fast.metal_kernel("k", ["x"], ["y"])',
        "k(inputs=[x], grid=1, threadgroup=G, output_shapes=[(1,)], output_dtypes=[t])",
    ],
)
def test_a_test_of_errors_may_make_them(call: str) -> None:
    start = (
        "import pytest\nt = mx.float32\nG = (1, 1, 1)\n"
        'k = mx.fast.metal_kernel("k", ["x"], ["y"], "y[0] = x[0];")\n'
    )
    assert codes(f"{start}def f(x):\n    {call}\n", "KERNEL-")
    tested = f"{start}def f(x):\n    with pytest.raises(TypeError):\n        {call}\n"
    assert codes(tested, "KERNEL-") == []
