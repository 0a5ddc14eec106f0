"""The arguments of an MLX kernel that the parameters of a kernel become."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from embercoach.metal.contract import ATTRIBUTES, shape_names
from embercoach.metal.porting.entry_points import PortError
from embercoach.metal.program.types import DTYPES, SCALARS

if TYPE_CHECKING:
    from embercoach.metal.porting.entry_points import EntryPoint, KernelParameter

ArrayRole = Literal["input", "output", "updated"]

_OF_SCALAR = {scalar: dtype for dtype, scalar in DTYPES.items()}
#: Metal's types of elements, by all of their names, to MLX's dtypes.
_DTYPE_OF = {name: _OF_SCALAR[kind.scalar] for name, kind in SCALARS.items() if kind.scalar}
_ATOMIC = {f"atomic_{kind}": kind for kind in ("int", "uint", "ulong", "float", "bool")}
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
        is_view: the body sees elements of another type than MLX passes.
        is_atomic: the kernel uses atomic functions on it.
        is_reference: written with ``&``.
    """

    parameter: KernelParameter
    role: ArrayRole
    dtype: str
    element: str
    is_view: bool = False
    is_atomic: bool = False
    is_reference: bool = False

    @property
    def name(self) -> str:
        """The name in the kernel."""
        return self.parameter.name

    @property
    def initial(self) -> str:
        """The input that holds the first values of an updated array."""
        return f"{self.name}_initial"

    @property
    def is_scalar(self) -> bool:
        """Return whether a 0-d array is passed."""
        return self.role == "input" and self.is_reference


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


def arguments_of(kernel: EntryPoint) -> tuple[Argument, ...]:
    """Each parameter as an argument; writable arrays are outputs until their uses are known.

    Raises:
        PortError: MLX has no argument of that kind, or another of that name.
    """
    templates = {one.name for one in kernel.template if one.kind == "dtype"}
    found = tuple(_argument(parameter, templates) for parameter in kernel.parameters)
    _check_names(kernel, found)
    return found


def _argument(parameter: KernelParameter, templates: set[str]) -> Argument:
    marks = [mark.name for mark in parameter.marks]
    if "function_constant" in marks:
        raise PortError(
            f"`{parameter.name}` depends on a function constant: MLX always passes it",
            parameter.place,
        )
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
    return _array(parameter, templates)


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


def _array(parameter: KernelParameter, templates: set[str]) -> ArrayArgument:
    declarator = parameter.declarator
    if declarator.dimensions or declarator.pointers + declarator.reference != 1:
        message = f"`{parameter.name}` must be a pointer or a reference to a number"
        raise PortError(message, parameter.place)
    written = "".join(parameter.declaration.type.split()).removeprefix("metal::")
    if parameter.declaration.type == "unsigned int":
        written = "uint"
    element = _ATOMIC.get(written, written)
    if written.startswith("atomic<") and written.endswith(">"):
        element = written[len("atomic<") : -1]
    base = element
    if element not in templates:
        packed = element.removeprefix("packed_")
        if packed[-1:] in ("2", "3", "4") and packed[:-1] in _DTYPE_OF:
            base = packed[:-1]
        if base not in _DTYPE_OF:
            message = f"MLX has no dtype for `{parameter.declaration.type}`"
            raise PortError(f"{message}: pass the fields as separate arguments", parameter.place)
    is_reference = declarator.reference
    if is_reference and base != element:
        message = f"`{parameter.name}` is a reference to a vector: write a pointer"
        raise PortError(message, parameter.place)
    return ArrayArgument(
        parameter,
        "input" if parameter.constant else "output",
        _DTYPE_OF.get(base, base),
        element,
        is_view=base != element,
        is_atomic=element != written,
        is_reference=is_reference,
    )


def _check_names(kernel: EntryPoint, arguments: tuple[Argument, ...]) -> None:
    """Refuse names that MLX would declare a second time."""
    metadata: dict[str, str] = {}
    for one in arguments:
        if isinstance(one, ArrayArgument):
            metadata |= dict.fromkeys(shape_names(one.name), one.name)
            metadata |= dict.fromkeys(shape_names(one.initial), one.name)
            metadata[one.initial] = one.name
    declared = [one.declaration for one in kernel.parameters]
    declared += [one.declaration for one in kernel.template if one.declaration is not None]
    for declaration in declared:
        name = declaration.name
        if name in metadata:
            message = f"`{name}` is a name that MLX generates for `{metadata[name]}`: rename it"
            raise PortError(message, declaration.place)
    for one in arguments:
        if not isinstance(one, AttributeArgument) and one.parameter.name in ATTRIBUTES:
            message = f"`{one.parameter.name}` is the name of a thread attribute: rename it"
            raise PortError(message, one.parameter.place)
