"""The parameters of a kernel as MLX passes them: arrays, attributes, threadgroup memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from embercoach.metal.contract import ATTRIBUTES, shape_names
from embercoach.metal.porting.entry_points import EntryPoint, KernelParameter, PortError
from embercoach.metal.program.types import DTYPES, NAMED, SCALARS, SIZES, Type

if TYPE_CHECKING:
    from embercoach.metal.program.nodes import MetalStruct

ArrayRole = Literal["input", "output", "updated"]

_OF_SCALAR = {scalar: dtype for dtype, scalar in DTYPES.items()}
_STAGE_IN = ("grid_size", "grid_origin")
_UNPORTABLE = ("texture", "depth", "sampler", "array", "visible_function_table")
#: Types that a thread attribute may have, to the same without a count of components.
_UNSIGNED = {n: kind.scalar for n, kind in SCALARS.items() if kind.scalar in ("uint", "ushort")}
_COMPONENTS = {1: ".x", 2: ".xy", 3: ""}


class ArrayArgument(Struct, frozen=True):
    """An input or output.

    Attributes:
        role: an ``updated`` array is an input, and an output that begins as its copy.
        dtype: an MLX dtype, or the name of a template argument.
        element: the element type as written, ``float4`` of a vector.
        name: what MLX calls it.
        is_view: the body sees elements of another type than MLX passes.
        is_atomic: the kernel uses atomic functions on it.
        is_reference: written with ``&``.
        size: values of the dtype in an element, 0 where that is not known.
        struct: that of the elements.
        keeps: data decide which elements of the output the kernel writes.
        written: the output that marks the elements of an updated array that threads copy.
        each: values of the dtype that a thread copies of an updated array, 0 for any number.
        field: the field of the parameter's struct that it holds; empty for all of it.
    """

    parameter: KernelParameter
    role: ArrayRole
    dtype: str
    element: str
    name: str
    is_view: bool = False
    is_atomic: bool = False
    is_reference: bool = False
    size: int = 1
    struct: MetalStruct | None = None
    keeps: bool = False
    written: str = ""
    each: int = 0
    field: str = ""

    @property
    def label(self) -> str:
        """The name that the caller sees."""
        return self.name if self.field else self.parameter.name

    @property
    def initial(self) -> str:
        """The input that holds the first values of an updated array."""
        return f"{self.name}_initial"

    @property
    def width(self) -> int:
        """The components of an element that is a vector, 1 for others."""
        return NAMED[self.element].width if self.element in NAMED else 1

    @property
    def is_vector(self) -> bool:
        """Return whether it is one vector, which is passed as an array of its components."""
        return self.role == "input" and self.is_reference and self.size > 1 and not self.is_view

    @property
    def is_scalar(self) -> bool:
        """Return whether a 0-d array is passed."""
        return self.role == "input" and self.is_reference and self.size == 1 and not self.is_view


class AttributeArgument(Struct, frozen=True):
    """A thread attribute.

    Attributes:
        attribute: MLX's name of it.
        component: the swizzle that has the type of the parameter: ``.x``, ``.xy`` or empty.
        is_exact: the swizzle has that very type; otherwise the body converts it.
    """

    parameter: KernelParameter
    attribute: str
    component: str
    is_exact: bool


class ThreadgroupArgument(Struct, frozen=True):
    """Threadgroup memory: the launch gives its number of elements as a template argument."""

    parameter: KernelParameter
    size: str


Argument = ArrayArgument | AttributeArgument | ThreadgroupArgument


def arguments_of(
    kernel: EntryPoint, types: Mapping[str, Type], structs: Mapping[str, MetalStruct]
) -> tuple[Argument, ...]:
    """Return each parameter as an argument; writable arrays are outputs until their uses are known.

    Args:
        kernel: one of a file's.
        types: those of its parameters, by name.
        structs: those that the file defines, by name.

    Raises:
        PortError: MLX has no argument of that kind.
    """
    templates = {one.name for one in kernel.template if one.kind == "dtype"}

    def argument(parameter: KernelParameter) -> Argument:
        return _plain_argument(parameter) or _array(
            parameter, types[parameter.name], templates, structs
        )

    return tuple(map(argument, kernel.parameters))


def _plain_argument(parameter: KernelParameter) -> AttributeArgument | ThreadgroupArgument | None:
    """Return a parameter as an argument other than an array of MLX's, None for an array."""
    marks = [mark.name for mark in parameter.marks]
    attribute = next((name for name in marks if name in ATTRIBUTES), None)
    if attribute is not None:
        return _attribute(parameter, attribute)
    written = parameter.declaration.type
    if written.removeprefix("metal::").startswith(_UNPORTABLE):
        raise PortError(
            f"MLX passes arrays only, got `{parameter.name}` of type `{written}`", parameter.place
        )
    space = parameter.declaration.address_space
    if space == "threadgroup":
        return _threadgroup(parameter)
    if space not in ("device", "constant"):
        what = "without an address space" if parameter.declarator.is_address else "by value"
        if marks and not parameter.declarator.is_address:
            what = f"with the attribute `{marks[0]}`"
        raise PortError(f"MLX passes no argument {what}: `{parameter.name}`", parameter.place)
    return None


def _attribute(parameter: KernelParameter, attribute: str) -> AttributeArgument:
    written = parameter.declaration.type
    base, width = written, 1
    if written[-1:] in ("2", "3") and written[:-1] in _UNSIGNED:
        base, width = written[:-1], int(written[-1])
    is_vector = ATTRIBUTES[attribute] == "uint3"
    if attribute in _STAGE_IN:
        raise PortError(f"`{attribute}` describes stage-in data, not the grid", parameter.place)
    if base not in _UNSIGNED or (width > 1 and not is_vector) or parameter.declarator.is_address:
        message = f"`{attribute}` cannot have the type `{written}`"
        raise PortError(message, parameter.place)
    component = _COMPONENTS[width] if is_vector else ""
    return AttributeArgument(parameter, attribute, component, _UNSIGNED[base] == "uint")


def _threadgroup(parameter: KernelParameter) -> ThreadgroupArgument:
    if parameter.declarator.pointers != 1 or parameter.declarator.dimensions:
        message = f"threadgroup parameter `{parameter.name}` must be a pointer"
        raise PortError(message, parameter.place)
    return ThreadgroupArgument(parameter, f"{parameter.name}_size")


def _array(
    parameter: KernelParameter,
    kind: Type,
    templates: set[str],
    structs: Mapping[str, MetalStruct],
) -> ArrayArgument:
    declarator = parameter.declarator
    if declarator.dimensions or declarator.pointers + declarator.reference != 1:
        message = f"`{parameter.name}` must be a pointer or a reference to a number"
        raise PortError(message, parameter.place)
    scalar = (kind.scalar or "").removeprefix("atomic_")
    struct = structs.get(scalar)
    base, size = _of_matrix(scalar)
    dtype: str | None = scalar if scalar in templates else _OF_SCALAR.get(base)
    size *= 4 if kind.width == 3 and not kind.packed else kind.width
    if struct is not None:
        dtype, size = _layout(struct, structs) or ("uint8", 0)
    if dtype is None:
        raise PortError(f"MLX has no dtype for `{parameter.declaration.type}`", parameter.place)
    is_vector = kind.width > 1 and declarator.reference and parameter.constant
    return ArrayArgument(
        parameter,
        "input" if parameter.constant else "output",
        dtype,
        parameter.declaration.type,
        parameter.name,
        is_view=not is_vector and (kind.width > 1 or base != scalar or struct is not None),
        is_atomic=scalar != kind.scalar,
        is_reference=declarator.reference,
        size=kind.width if is_vector else size,
        struct=struct,
    )


def _of_matrix(scalar: str) -> tuple[str, int]:
    """Return the scalar of a matrix (``float4x4``) and how many it has; any other as it is."""
    if scalar not in NAMED or scalar[-2:-1] != "x" or not scalar[-3:-2].isdigit():
        return scalar, 1
    rows = int(scalar[-1])
    return scalar[:-3], int(scalar[-3]) * (4 if rows == 3 else rows)


def _layout(struct: MetalStruct, structs: Mapping[str, MetalStruct]) -> tuple[str, int] | None:
    """Return the dtype of a struct's fields and their number; None for several or for padding."""
    found, count = set[tuple[str, int]](), 0
    for one in struct.fields:
        kind, times = one.type, 1
        for dimension in kind.dimensions:
            times *= dimension or 0
        inner = structs.get(kind.scalar or "")
        parts = None if inner in (None, struct) else _layout(inner, structs)
        if parts is not None:
            dtype, width, count = parts[0], 1, count + times * parts[1]
        elif kind.scalar in SIZES and (kind.packed or kind.width != 3):
            dtype, width = _OF_SCALAR[str(kind.scalar)], 1 if kind.packed else kind.width
            count += times * kind.width
        else:
            return None
        if kind.pointer or times == 0:
            return None
        found.add((dtype, width))
    return (next(iter(found))[0], count) if len(found) == 1 else None


def field_argument(array: ArrayArgument, field: str, name: str) -> ArrayArgument | None:
    """Return a field of a struct as an array or a scalar, None where MLX has none like it.

    Args:
        array: the struct, which the kernel only reads.
        field: one of its fields.
        name: what MLX calls it.
    """
    assert array.struct is not None
    kind = next((one.type for one in array.struct.fields if one.name == field), None)
    if kind is None or kind.pointer or kind.scalar not in SIZES or len(kind.dimensions) > 1:
        return None
    if kind.dimensions and kind.width > 1:
        return None
    return replace(
        array,
        dtype=_OF_SCALAR[str(kind.scalar)],
        element=f"{kind.scalar}{kind.width}" if kind.width > 1 else kind.scalar,
        name=name,
        is_view=False,
        is_reference=not kind.dimensions,
        size=kind.width,
        struct=None,
        field=field,
    )


def generated_names(arguments: tuple[Argument, ...]) -> dict[str, str]:
    """Return the names that MLX declares for arrays, each with its array."""
    found: dict[str, str] = {}
    for one in arguments:
        if isinstance(one, ArrayArgument):
            for name in (one.initial, *shape_names(one.name), *shape_names(one.initial)):
                found[name] = one.name
    return found


def with_own_names(
    kernel: EntryPoint, arguments: tuple[Argument, ...], unique: Callable[[str], str]
) -> tuple[Argument, ...]:
    """Return the arguments with other names for arrays whose names MLX would declare again.

    Raises:
        PortError: it declares the name of something else.
    """
    generated = {**dict.fromkeys(ATTRIBUTES, ""), **generated_names(arguments)}
    for parameter in kernel.template:
        if parameter.declaration is not None and parameter.name in generated:
            message = f"`{parameter.name}` is a name that MLX generates: rename it"
            raise PortError(message, parameter.declaration.place)
    found: list[Argument] = []
    for one in arguments:
        name = one.parameter.name
        if isinstance(one, ArrayArgument):
            found.append(replace(one, name=unique(f"{one.name}_")) if name in generated else one)
        elif name in generated and not (isinstance(one, AttributeArgument) and name in ATTRIBUTES):
            raise PortError(
                f"`{name}` is a name that MLX generates: rename it", one.parameter.place
            )
        else:
            found.append(one)
    return tuple(found)
