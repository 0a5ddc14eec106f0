"""Makes a case of a kernel with one output, from its text."""

from __future__ import annotations

import re
from collections.abc import Sequence

import mlx.core as mx

from tests.benchmarks.profile.case import Case, Launched, random_array
from xlstm_kernels.kernel import Kernel, Launch, Setting

F, H, U = mx.float32, mx.float16, mx.uint32
Shape = tuple[int, ...]
GROUP = "microbenchmark"
#: Declarations of what a body may use without its own.
POSITIONS = {
    "i": "uint i = thread_position_in_grid.x;\n",
    "lane": "uint lane = thread_index_in_simdgroup;\nuint row = thread_position_in_grid.x / 32;\n",
    "member": (
        "uint member = thread_position_in_threadgroup.x;\n"
        "uint group = threadgroup_position_in_grid.x;\n"
    ),
}
#: One header for both dialects: what the CUDA executor's prelude lacks.
ATOMICS = """\
#ifdef __CUDACC__
#define COUNT(p) atomicAdd(p, 1u)
#else
#define COUNT(p) atomic_fetch_add_explicit((device atomic_uint*)(p), 1u, memory_order_relaxed)
#endif
"""


def micro(
    name: str,
    body: str,
    inputs: Sequence[tuple[Shape, mx.Dtype] | mx.array],
    output: tuple[Shape, mx.Dtype],
    grid: Shape,
    threadgroup: Shape = (256,),
    *,
    header: str = "",
    init_value: float | None = None,
    **template: Setting,
) -> Case:
    """A case of one output `y`, and inputs `a`, `b`, `c`."""
    threads, group = ((*size, 1, 1)[:3] for size in (grid, threadgroup))
    launch = Launch(threads, group, (output[0],), (output[1],), tuple(template.items()))
    names = tuple("abcd"[: len(inputs)])
    for word, declaration in POSITIONS.items():
        if re.search(rf"\b{word}\b", body) and not re.search(rf"uint {word}\b", body):
            body = declaration + body
    kernel = Kernel(f"micro_{name}", names, ("y",), body, lambda *_: launch, header, init_value)

    def draw() -> Launched:
        arrays = [
            given if isinstance(given, mx.array) else random_array(*given, seed=place)
            for place, given in enumerate(inputs)
        ]
        return Launched(kernel, tuple(arrays), launch)

    return Case(name, GROUP, draw)
