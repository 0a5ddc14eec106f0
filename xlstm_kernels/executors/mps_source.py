"""The whole Metal source of a launch, as `torch.mps.compile_shader` takes it.

MLX writes such a text around each body itself (`Kernel.generated_source`). This one is for PyTorch.
It has the same parameters in the same order, with two differences:

- it declares the names that MLX's headers give to bodies: float16_t and bfloat16_t;
- an array is in device memory whatever its size. The address of a buffer in constant memory must
  be a multiple of 4 bytes, and views of halves begin anywhere.

No PyTorch is needed here: the text follows from shapes and dtypes.
"""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import mlx.core as mx

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xlstm_kernels.kernel import Kernel, Launch, Setting

_TOKEN = re.compile(
    r"""(?://[^\n]*|/\*.*?\*/|\#[ \t]*(?:include|pragma)[^\n]*)
    |"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'
    |\.?\d(?:[eEpP][+-]|['.\w])*
    |(?P<name>[A-Za-z_]\w*)""",
    re.DOTALL | re.VERBOSE,
)


def names_in(text: str) -> frozenset[str]:
    """The names in a Metal text, without those in comments, strings and directives."""
    return frozenset(filter(None, (match["name"] for match in _TOKEN.finditer(text))))


Role: TypeAlias = Literal["input", "shape", "strides", "ndim", "output"]

_SIZED = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "int64", "float16", "bfloat16")
_TYPES = {mx.bool_: "bool", mx.float32: "float"} | {getattr(mx, n): f"{n}_t" for n in _SIZED}

# In alphabetic order, as MLX has them.
_ATTRIBUTES = {
    "dispatch_threads_per_threadgroup": "uint3",
    "simdgroup_index_in_threadgroup": "uint",
    "simdgroups_per_threadgroup": "uint",
    "thread_execution_width": "uint",
    "thread_index_in_simdgroup": "uint",
    "thread_index_in_threadgroup": "uint",
    "thread_position_in_grid": "uint3",
    "thread_position_in_threadgroup": "uint3",
    "threadgroup_position_in_grid": "uint3",
    "threadgroups_per_grid": "uint3",
    "threads_per_grid": "uint3",
    "threads_per_simdgroup": "uint",
    "threads_per_threadgroup": "uint3",
}

_PRELUDE = """#include <metal_stdlib>
using namespace metal;
typedef half float16_t;
typedef bfloat bfloat16_t;
"""


@dataclass(frozen=True, slots=True)
class ArrayMetadata:
    """The shape and dtype of an array: all that a launch rule and a source depend on."""

    shape: tuple[int, ...]
    dtype: mx.Dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Argument:
    """An array that a launch binds, or the shape, strides (in elements) or rank of an input."""

    role: Role
    place: int  # of the array among the inputs, or among the outputs


@dataclass(frozen=True, slots=True)
class MpsSource:
    """A text for `torch.mps.compile_shader`, which has one kernel."""

    text: str  # the source; the kernel has the name of the `Kernel`
    prelude: str  # what the text begins with, up to the end of the kernel's header
    arguments: tuple[Argument, ...]  # in the order of buffer indices


def mps_source(kernel: Kernel, inputs: Sequence[ArrayMetadata], launch: Launch) -> MpsSource:
    """Write the source of a launch, which the kernel's rule made of these inputs.

    Raise a KeyError for a dtype that PyTorch has not on MPS.
    """
    arrays = tuple((_TYPES[array.dtype], array.ndim == 0) for array in inputs)
    outputs = tuple(_TYPES[dtype] for dtype in launch.output_dtypes)
    return _written(kernel, arrays, outputs, launch.template)


def packed_integers(numbers: Sequence[int]) -> list[int]:
    """Return int32 numbers as int64 numbers of the same bytes, the first number in the low half.

    PyTorch passes a list of Python integers to a kernel as int64; shapes are int32.
    """
    even = [*numbers, *[0] * (len(numbers) % 2)]
    return [low | high << 32 for low, high in zip(even[::2], even[1::2], strict=True)]


@functools.cache
def _written(
    kernel: Kernel,
    arrays: tuple[tuple[str, bool], ...],
    outputs: tuple[str, ...],
    template: tuple[tuple[str, Setting], ...],
) -> MpsSource:
    used = names_in(kernel.body)
    declared = [*_input_parameters(kernel, arrays, used), *_output_parameters(kernel, outputs)]
    parameters = [f"{text} [[buffer({index})]]" for index, (_, text) in enumerate(declared)]
    parameters += [
        f"{kind} {name} [[{name}]]" for name, kind in _ATTRIBUTES.items() if name in used
    ]
    prelude = f"{_PRELUDE}{kernel.header}\n"
    signature = f"[[kernel]] void {kernel.name}(\n  " + ",\n  ".join(parameters) + ") {\n"
    front, end = "", ""
    if template:
        kinds = ", ".join(f"{_kind(value)} {name}" for name, value in template)
        values = ", ".join(_value(value) for _, value in template)
        instance = f"{kernel.name}<{values}>"
        front = f"template <{kinds}>\n"
        end = (
            f'\ntemplate [[host_name("{kernel.name}")]] [[kernel]] '
            f"decltype({instance}) {instance};\n"
        )
    text = f"{prelude}{front}{signature}{kernel.body}\n}}\n{end}"
    return MpsSource(text, prelude, tuple(argument for argument, _ in declared))


def _input_parameters(
    kernel: Kernel, arrays: tuple[tuple[str, bool], ...], used: frozenset[str]
) -> Iterator[tuple[Argument, str]]:
    asked: tuple[tuple[Role, str], ...] = (
        ("shape", "const constant int* {}_shape"),
        ("strides", "const constant int64_t* {}_strides"),
        ("ndim", "const constant int& {}_ndim"),
    )
    for place, (name, (kind, is_scalar)) in enumerate(zip(kernel.inputs, arrays, strict=True)):
        pointer = f"constant {kind}&" if is_scalar else f"device {kind}*"
        yield Argument("input", place), f"const {pointer} {name}"
        for role, text in asked:
            if not is_scalar and f"{name}_{role}" in used:
                yield Argument(role, place), text.format(name)


def _output_parameters(kernel: Kernel, kinds: tuple[str, ...]) -> Iterator[tuple[Argument, str]]:
    for place, (name, kind) in enumerate(zip(kernel.outputs, kinds, strict=True)):
        yield Argument("output", place), f"device {kind}* {name}"


def _kind(value: Setting) -> str:
    if isinstance(value, bool):
        return "bool"
    return "int" if isinstance(value, int) else "typename"


def _value(value: Setting) -> str:
    return str(int(value)) if isinstance(value, int) else _TYPES[value]
