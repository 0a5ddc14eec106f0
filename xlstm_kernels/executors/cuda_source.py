"""Translation of a kernel's Metal text into the CUDA C++ that `mx.fast.cuda_kernel` takes.

A lexer, not a parser: the dialects differ in words. Comments and strings stay as they are. What
Metal's library has, `prelude.cuh` defines in a namespace `metal`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xlstm_kernels.kernel import Kernel


@dataclass(frozen=True, slots=True)
class CudaSource:
    """A kernel's input names and text, as `mx.fast.cuda_kernel` takes them.

    Attributes:
        input_names: of the inputs; those without dimensions have a suffix.
        arguments: the shapes, strides and numbers of dimensions that the body names.
        body: of the function.
        header: what is before it.
    """

    input_names: tuple[str, ...]
    arguments: tuple[str, ...]
    body: str
    header: str


# Included, not copied: MLX copies and hashes the text of a kernel in each launch.
_PRELUDE = Path(__file__).resolve().with_name("prelude.cuh")

# Of any kernel a block of so many threads finds enough registers: 255 a thread at most, 65,536 in
# all. A kernel that is launched with more is compiled for so many.
_ALWAYS_FIT = 256

_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
    |(?P<directive>\#[ \t]*(?:include|pragma)[^\n]*)
    |(?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    |(?P<name>[A-Za-z_]\w*)
    |(?P<number>\.?\d(?:[eEpP][+-]|['.\w])*)
    |(?P<space>\s+)
    |(?P<mark>::|->|.)""",
    re.DOTALL | re.VERBOSE,
)

_SCALARS = {
    "uchar": "uint8_t",
    "ushort": "uint16_t",
    "uint": "uint32_t",
    "long": "int64_t",
    "ulong": "uint64_t",
    "half": "__half",
    "float16_t": "__half",
    "bfloat": "__nv_bfloat16",
    "bfloat16_t": "__nv_bfloat16",
}

_WORDS = _SCALARS | {
    "inline": "__device__ __forceinline__",
    "METAL_FUNC": "__device__ __forceinline__",
    # Pointers of CUDA have no address space.
    "device": "",
    "thread": "",
    "constant": "",
}

_VECTORS = frozenset(
    f"{scalar}{length}"
    for scalar in ("bool", "char", "short", "int", "float", *_SCALARS)
    for length in (2, 3, 4)
)

# Names of `prelude.cuh` that Metal text uses without `metal::`.
_LIBRARY = _VECTORS | {
    "as_type",
    "mem_flags",
    "simd_all",
    "simd_any",
    "simd_ballot",
    "simd_broadcast",
    "simd_broadcast_first",
    "simd_max",
    "simd_min",
    "simd_prefix_exclusive_sum",
    "simd_prefix_inclusive_sum",
    "simd_product",
    "simd_shuffle",
    "simd_shuffle_down",
    "simd_shuffle_rotate_down",
    "simd_shuffle_rotate_up",
    "simd_shuffle_up",
    "simd_shuffle_xor",
    "simd_sum",
    "simd_vote",
    "simdgroup_barrier",
    "threadgroup_barrier",
    "vec",
}


def _each(expression: str) -> str:
    return f"metal::uint3({', '.join(expression.replace('@', axis) for axis in 'xyz')})"


_MEMBER = "threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)"
_MEMBERS = "blockDim.x * blockDim.y * blockDim.z"
# MLX launches whole blocks: the grid has the threads of all of them.
_ATTRIBUTES = {
    "thread_position_in_grid": _each("blockIdx.@ * blockDim.@ + threadIdx.@"),
    "threads_per_grid": _each("gridDim.@ * blockDim.@"),
    "thread_position_in_threadgroup": _each("threadIdx.@"),
    "threads_per_threadgroup": _each("blockDim.@"),
    "threadgroup_position_in_grid": _each("blockIdx.@"),
    "threadgroups_per_grid": _each("gridDim.@"),
    "thread_index_in_threadgroup": _MEMBER,
    "thread_index_in_simdgroup": f"({_MEMBER}) % 32",
    "simdgroup_index_in_threadgroup": f"({_MEMBER}) / 32",
    "simdgroups_per_threadgroup": f"({_MEMBERS} + 31) / 32",
    "threads_per_simdgroup": "32u",
    "thread_execution_width": "32u",
}


def thread_limit(threads: int) -> int:
    """The threads to compile a kernel for: a multiple of 128, lest each size compiles it anew."""
    return max(_ALWAYS_FIT, -(-threads // 128) * 128)


@cache
def cuda_source(kernel: Kernel, scalars: frozenset[str], threads: int) -> CudaSource:
    """Translate a kernel.

    Args:
        kernel: to translate.
        scalars: those of its inputs that have no dimension. MLX passes pointers to them.
        threads: the most threads of a block, from `thread_limit`.
    """
    pointers = {name: f"{name}_of_no_dimension" for name in scalars}
    lines = [f"    const auto {name} = *{pointer};" for name, pointer in sorted(pointers.items())]
    used = names_in(kernel.body)
    lines += [f"    const auto {n} = {text};" for n, text in _ATTRIBUTES.items() if n in used]
    header = f'#include "{_PRELUDE.as_posix()}"\n{_translated(kernel.header, file_scope=True)}\n'
    if threads > _ALWAYS_FIT or kernel.resident_threadgroups > 1:
        bounds = f"launch_bounds({threads}, {kernel.resident_threadgroups})"
        header += f"#undef __global__\n#define __global__ __attribute__((global, {bounds}))\n"
    return CudaSource(
        input_names=tuple(pointers.get(name, name) for name in kernel.inputs),
        arguments=tuple(
            argument
            for name in kernel.inputs
            for argument in (f"{name}_shape", f"{name}_strides", f"{name}_ndim")
            if argument in used
        ),
        body="\n".join([*lines, _translated(kernel.body, file_scope=False)]),
        header=header,
    )


def names_in(text: str) -> frozenset[str]:
    """The names in a Metal text, without those in comments, strings and directives."""
    return frozenset(token for kind, token in _tokens(text) if kind == "name")


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Each token of `text` with its kind; together they are `text`."""
    for match in _TOKEN.finditer(text):
        yield str(match.lastgroup), match.group()


def _translated(text: str, *, file_scope: bool) -> str:
    tokens = list(_tokens(text))
    meaningful = [i for i, (kind, _) in enumerate(tokens) if kind not in {"space", "comment"}]
    words = [tokens[i][1] for i in meaningful]
    depth = 0
    for place, i in enumerate(meaningful):
        kind, word = tokens[i]
        depth += (word in {"(", "{"}) - (word in {")", "}"})
        before = words[place - 1] if place else ""
        after = words[place + 1 :]
        if kind == "name" and word == "constant" and file_scope and depth == 0:
            tokens[i] = kind, "__device__ constexpr"
        elif kind == "name" and word == "threadgroup":
            tokens[i] = kind, "__shared__" if _declares_storage(after) else ""
        elif kind == "name":
            tokens[i] = kind, _name(word, before, after[:1])
        elif kind in {"directive", "string"}:
            tokens[i] = kind, _directive(word)
    return "".join(token for _, token in tokens)


def _name(name: str, before: str, after: list[str]) -> str:
    if before == "." and 2 <= len(name) <= 4 and set(name) <= set("xyzw"):
        return f"template swizzle<{', '.join(str('xyzw'.index(axis)) for axis in name)}>()"
    if before in {".", "->", "::"}:
        return name
    if name in _LIBRARY and (name != "vec" or after == ["<"]):
        return f"metal::{name}"
    return _WORDS.get(name, name)


def _declares_storage(after: list[str]) -> bool:
    """Return whether `threadgroup` before these words is of an array or number, not a pointer."""
    return next((word for word in after if word in "*&[;="), "*") not in "*&"


def _directive(text: str) -> str:
    """Clang's pragma for unrolling becomes CUDA's; Metal's includes and other pragmas vanish."""
    if text.startswith('"'):
        return '"unroll"' if text.startswith('"clang loop unroll') else text
    return "#pragma unroll" if "unroll" in text else ""
