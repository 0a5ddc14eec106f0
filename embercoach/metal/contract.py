"""The Metal function that MLX 0.32.4 makes of the arguments of ``mx.fast.metal_kernel``.

This is the only module that knows the rules of that code generator. They are MLX's, not Metal's:

* each input becomes a ``const`` pointer, in ``constant`` space when it has fewer than eight
  elements and in ``device`` space otherwise; a 0-d input becomes a reference;
* ``x_shape``, ``x_strides`` and ``x_ndim`` are passed when that text occurs anywhere in ``source``
  (not in ``header``), and only for inputs that have a dimension;
* outputs are ``device`` pointers, ``device atomic<T>*`` with ``atomic_outputs``;
* each of twenty thread attributes is passed when its name occurs anywhere in ``source``;
* template arguments become the template parameters of the function.

Every fact about an input may be unknown; what follows from it is then unknown too, never guessed.
The tests compare with the source that the installed MLX generates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from math import prod
from types import MappingProxyType
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

Role = Literal["input", "shape", "strides", "ndim", "output", "attribute"]
AddressSpace = Literal["constant", "device"]
Declarator = Literal["*", "&", ""]
TemplateKind = Literal["int", "bool", "typename"]

CONSTANT_BELOW = 8
"""Inputs with fewer elements than this are passed in the ``constant`` address space."""

MAX_BUFFERS = 31
"""Entries of Metal's buffer table for one function: indices 0 to 30."""

MAX_THREADGROUP_BYTES = 32_768
"""Threadgroup memory of one threadgroup, on every GPU that MLX runs on."""

MAX_THREADS = 1024
"""Threads of a threadgroup that any GPU takes at most."""

ATTRIBUTES = MappingProxyType(
    {
        "dispatch_quadgroups_per_threadgroup": "uint",
        "dispatch_simdgroups_per_threadgroup": "uint",
        "dispatch_threads_per_threadgroup": "uint3",
        "grid_origin": "uint3",
        "grid_size": "uint3",
        "quadgroup_index_in_threadgroup": "uint",
        "quadgroups_per_threadgroup": "uint",
        "simdgroup_index_in_threadgroup": "uint",
        "simdgroups_per_threadgroup": "uint",
        "thread_execution_width": "uint",
        "thread_index_in_quadgroup": "uint",
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
)
"""Thread attributes that MLX passes on mention, with their types, in the order it passes them."""

MSL_TYPES = MappingProxyType(
    {
        "bool": "bool",
        "bool_": "bool",
        "int8": "int8_t",
        "int16": "int16_t",
        "int32": "int32_t",
        "int64": "int64_t",
        "uint8": "uint8_t",
        "uint16": "uint16_t",
        "uint32": "uint32_t",
        "uint64": "uint64_t",
        "float16": "float16_t",
        "bfloat16": "bfloat16_t",
        "float32": "float",
        "float64": "double",
        "complex64": "complex64_t",
    }
)
"""MLX dtype name to the type that is in the generated source.

MLX refuses ``float64`` inputs, and Metal has no ``double``: it can only come from a template.
"""


class Input(Struct, frozen=True):
    """One input of a kernel: what is known of the array that a call passes.

    Attributes:
        name: the name given in ``input_names``.
        dtype: MLX dtype name (``"float16"``), None when unknown.
        ndim: number of dimensions, 0 for Python scalars and 0-d arrays, None when unknown.
        size: number of elements, None when unknown.
        ranked: it has dimensions, if unknown how many.
    """

    name: str
    dtype: str | None = None
    ndim: int | None = None
    size: int | None = None
    ranked: bool = False

    def __post_init__(self) -> None:
        if self.ndim == 0 and self.size not in (None, 1):
            raise ValueError(f"input {self.name!r}: a 0-d array has one element, not {self.size}")

    @classmethod
    def of_shape(cls, name: str, shape: Sequence[int], dtype: str | None = None) -> Input:
        """Return the input of a known shape, such as ``(4, 128)``; ``()`` is a scalar."""
        return cls(name, dtype, len(shape), prod(shape))

    @property
    def elements(self) -> int | None:
        """Number of elements, None when unknown."""
        return 1 if self.ndim == 0 else self.size

    @property
    def address_space(self) -> AddressSpace | None:
        """Where MLX puts the input, None when its size is unknown."""
        if self.elements is None:
            return None
        return "constant" if self.elements < CONSTANT_BELOW else "device"

    @property
    def declarator(self) -> Declarator | None:
        """``&`` for a 0-d input, ``*`` for others, None when the rank is unknown."""
        if self.ndim is None:
            # Any size but one rules out a 0-d array.
            return "*" if self.ranked or self.size not in (None, 1) else None
        return "&" if self.ndim == 0 else "*"


class Output(Struct, frozen=True):
    """One output of a kernel; ``dtype`` is an MLX dtype name, None when unknown."""

    name: str
    dtype: str | None = None


class TemplateArgument(Struct, frozen=True):
    """One pair of ``template=[...]``: a bool, an int, an MLX dtype name, or None when unknown."""

    name: str
    value: bool | int | str | None = None

    @property
    def kind(self) -> TemplateKind | None:
        """The declared kind of the template parameter, None when the value is unknown."""
        if self.value is None:
            return None
        if isinstance(self.value, bool):
            return "bool"
        return "int" if isinstance(self.value, int) else "typename"

    @property
    def argument(self) -> str | None:
        """The text between the angle brackets, None when unknown."""
        if isinstance(self.value, str):
            return MSL_TYPES.get(self.value)
        return None if self.value is None else str(int(self.value))


class KernelArguments(Struct, frozen=True):
    """The arguments of one ``metal_kernel(...)`` and of one call of what it returns.

    Attributes:
        source: the body, as the string that MLX gets.
        template: the template pairs of the call, ``()`` for none, None when unknown.
    """

    name: str
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    source: str
    header: str = ""
    template: tuple[TemplateArgument, ...] | None = ()
    atomic_outputs: bool = False


class SignatureParameter(Struct, frozen=True):
    """One parameter of the generated function.

    Attributes:
        owner: the input, output or attribute that it stems from.
        type: element type in Metal (``float16_t``), None when unknown.
        address_space: None for attributes, and for inputs of unknown size.
        declarator: None when the rank of an input is unknown.
        index: buffer index, None for attributes and where an earlier parameter is uncertain.
        certain: False when the parameter exists only if the input is not 0-d, which is unknown.
    """

    name: str
    role: Role
    owner: str
    type: str | None
    address_space: AddressSpace | None
    declarator: Declarator | None
    index: int | None = None
    certain: bool = True

    @property
    def text(self) -> str:
        """The parameter as MLX writes it; what is unknown is shown as a choice in brackets."""
        if self.role == "attribute":
            return f"{self.type} {self.name} [[{self.name}]]"
        const = "" if self.role == "output" else "const "
        space = self.address_space or "<constant or device>"
        kind = self.type or f"<dtype of {self.owner}>"
        declarator = "<* or &>" if self.declarator is None else self.declarator
        index = "?" if self.index is None else self.index
        return f"{const}{space} {kind}{declarator} {self.name} [[buffer({index})]]"


class Signature(Struct, frozen=True, dict=True):
    """The parameter list of the generated function and what follows from it.

    Attributes:
        parameters: in the order of the generated source.
        template: None when the template arguments of the call are unknown.
        buffers: fewest and most buffer slots that the function takes.
        malformed: MLX ends the parameter list too early, so the source does not compile: two or
            more outputs, no attribute, and a shape, strides or ndim parameter. None: may be.
    """

    parameters: tuple[SignatureParameter, ...]
    template: tuple[TemplateArgument, ...] | None
    buffers: tuple[int, int]
    malformed: bool | None

    @cached_property
    def by_name(self) -> dict[str, SignatureParameter]:
        """The first parameter of each name."""
        return {parameter.name: parameter for parameter in reversed(self.parameters)}

    @property
    def names(self) -> frozenset[str]:
        """Every name that may be in scope in the body, uncertain ones included."""
        templates = () if self.template is None else (t.name for t in self.template)
        return frozenset(self.by_name).union(templates)

    @property
    def certain_names(self) -> frozenset[str]:
        """The names that are in scope whatever the unknown facts turn out to be."""
        templates = () if self.template is None else (t.name for t in self.template)
        return frozenset(p.name for p in self.parameters if p.certain).union(templates)

    def attributes(self) -> tuple[str, ...]:
        """Return names of the thread attributes that are passed, in order."""
        return tuple(p.name for p in self.parameters if p.role == "attribute")


def shape_names(name: str) -> tuple[str, str, str]:
    """Return the names of an input's shape, strides and rank parameters, in MLX's order."""
    return f"{name}_shape", f"{name}_strides", f"{name}_ndim"


def signature(kernel: KernelArguments) -> Signature:
    """Return the signature that MLX generates for this kernel."""
    bare = [*_input_parameters(kernel), *_output_parameters(kernel)]
    buffers = tuple(_indexed(bare))
    attributes = tuple(
        SignatureParameter(name, "attribute", name, ATTRIBUTES[name], None, "")
        for name in ATTRIBUTES
        if name in kernel.source  # MLX looks for substrings of the body
    )
    certain = sum(p.certain for p in buffers)
    return Signature(
        parameters=buffers + attributes,
        template=kernel.template,
        buffers=(certain, len(buffers)),
        malformed=_malformed(kernel, buffers, attributes),
    )


def _input_parameters(kernel: KernelArguments) -> Iterator[SignatureParameter]:
    metadata: tuple[tuple[Role, str, Declarator], ...] = (
        ("shape", "int", "*"),
        ("strides", "int64_t", "*"),
        ("ndim", "int", "&"),
    )
    for given in kernel.inputs:
        kind = MSL_TYPES.get(given.dtype) if given.dtype else None
        yield SignatureParameter(
            given.name, "input", given.name, kind, given.address_space, given.declarator
        )
        if given.declarator == "&":
            continue
        certain = given.declarator == "*"
        for name, (role, type_, declarator) in zip(shape_names(given.name), metadata, strict=True):
            if name in kernel.source:
                yield SignatureParameter(
                    name, role, given.name, type_, "constant", declarator, certain=certain
                )


def _output_parameters(kernel: KernelArguments) -> Iterator[SignatureParameter]:
    for output in kernel.outputs:
        kind = MSL_TYPES.get(output.dtype) if output.dtype else None
        if kind and kernel.atomic_outputs:
            kind = f"atomic<{kind}>"
        yield SignatureParameter(output.name, "output", output.name, kind, "device", "*")


def _indexed(parameters: Sequence[SignatureParameter]) -> Iterator[SignatureParameter]:
    """Number the buffers; after an uncertain one the numbers are unknown."""
    known = True
    for index, p in enumerate(parameters):
        known = known and p.certain
        yield replace(p, index=index if known else None)


def _malformed(
    kernel: KernelArguments,
    buffers: tuple[SignatureParameter, ...],
    attributes: tuple[SignatureParameter, ...],
) -> bool | None:
    """Return whether MLX closes the parameter list before the last output (seen in 0.32.4).

    It decides by comparing the buffer index, which counts shape buffers, with the number of inputs
    and outputs, so an extra buffer makes it close at an output that is not the last.
    """
    extras = [p for p in buffers if p.role in ("shape", "strides", "ndim")]
    if len(kernel.outputs) < 2 or attributes or not extras:
        return False
    return True if any(p.certain for p in extras) else None
