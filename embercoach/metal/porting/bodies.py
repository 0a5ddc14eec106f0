"""The body of a kernel as MLX gets it: attributes renamed, missing declarations added."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from embercoach.metal.contract import ATTRIBUTES, Input, Output, shape_names
from embercoach.metal.inspections.output_uses import OutputUses, output_uses
from embercoach.metal.inspections.parameter_uses import parameter_uses
from embercoach.metal.porting.arguments import (
    ArrayArgument,
    AttributeArgument,
    ThreadgroupArgument,
    arguments_of,
)
from embercoach.metal.porting.body_names import KernelNames
from embercoach.metal.porting.entry_points import PortError, TemplateParameter
from embercoach.metal.porting.initial_copies import copied
from embercoach.metal.program.lowering import SignatureNames, lower_body

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from embercoach.metal.porting.arguments import Argument, ArrayRole
    from embercoach.metal.porting.body_names import Edit
    from embercoach.metal.porting.entry_points import EntryPoint, KernelFile


@dataclass(frozen=True, slots=True)
class PortedKernel:
    """A kernel as arguments of ``mx.fast.metal_kernel``.

    Attributes:
        source: the body.
        template: its template arguments, sizes of threadgroup memory included.
        spaces: inputs whose address the body passes on, with the address space that it must have.
        is_one_threadgroup: the copies of updated arrays need a launch of one threadgroup.
    """

    kernel: EntryPoint
    arrays: tuple[ArrayArgument, ...]
    template: tuple[TemplateParameter, ...]
    source: str
    spaces: Mapping[str, str]
    is_one_threadgroup: bool

    @property
    def inputs(self) -> tuple[ArrayArgument, ...]:
        """The arrays that the caller passes, updated ones included."""
        return tuple(one for one in self.arrays if one.role != "output")

    @property
    def outputs(self) -> tuple[ArrayArgument, ...]:
        """The arrays that the kernel returns, updated ones included."""
        return tuple(one for one in self.arrays if one.role != "input")

    @property
    def is_atomic(self) -> bool:
        """Return whether MLX declares the outputs as atomic."""
        return any(one.is_atomic for one in self.outputs)


def ported(file: KernelFile, kernel: EntryPoint, roles: Mapping[str, ArrayRole]) -> PortedKernel:
    """Port one kernel.

    Args:
        file: the file that defines it.
        kernel: one of the file's.
        roles: of writable arrays, by name, where the caller knows better than the body shows.

    Raises:
        PortError: it cannot be ported.
    """
    return _Port(file, kernel, roles).result()


class _Port:
    def __init__(
        self, file: KernelFile, kernel: EntryPoint, roles: Mapping[str, ArrayRole]
    ) -> None:
        self._file = file
        self._kernel = kernel
        self._roles = roles
        self._names = KernelNames(file, kernel)
        self._edits: list[Edit] = []
        self._prologue: list[str] = []

    def result(self) -> PortedKernel:
        arguments = arguments_of(self._kernel)
        self._check_locals(arguments)
        arrays = self._with_roles([one for one in arguments if isinstance(one, ArrayArgument)])
        if all(one.role == "input" for one in arrays):
            raise PortError(f"`{self._kernel.name}` writes no array", self._kernel.place)
        is_atomic = any(one.is_atomic and one.role != "input" for one in arrays)
        arrays = tuple(_seen(one, is_atomic=is_atomic) for one in arrays)
        sizes = []
        for one in arguments:
            if isinstance(one, AttributeArgument):
                self._attribute(one)
            elif isinstance(one, ThreadgroupArgument):
                size = self._names.unique(one.size)
                sizes.append(TemplateParameter(size, "int"))
                kind, name = one.parameter.declaration.type, one.parameter.name
                self._prologue.append(f"threadgroup {kind} {name}[{size}];")
        for array in arrays:
            self._array(array)
        is_one_threadgroup = self._copies(arrays, is_atomic=is_atomic)
        template = (*self._kernel.template, *self._function_constants(), *sizes)
        return PortedKernel(
            self._kernel,
            arrays,
            template,
            "\n".join((*self._prologue, self._names.body_text(self._edits))),
            self._spaces(arrays),
            is_one_threadgroup,
        )

    def _check_locals(self, arguments: Sequence[Argument]) -> None:
        """Refuse locals with names that MLX declares on mention."""
        arrays = [one for one in arguments if isinstance(one, ArrayArgument)]
        taken = set(ATTRIBUTES)
        for one in arrays:
            taken.update((one.initial, *shape_names(one.name), *shape_names(one.initial)))
        for declaration in self._names.locals():
            if declaration.name in taken:
                message = f"`{declaration.name}` is a name that MLX declares: rename the local"
                raise PortError(message, declaration.place)

    def _with_roles(self, arrays: Sequence[ArrayArgument]) -> tuple[ArrayArgument, ...]:
        """The arrays with the roles that the body shows, or that the caller gave."""
        writable = [one for one in arrays if one.role == "output"]
        elements = [edit for one in writable for edit in self._elements(one, one.name)]
        outputs = tuple(Output(one.name) for one in writable)
        names = SignatureNames((), outputs, None)
        program = lower_body(self._names.body_text(elements), self._file.header, names)
        uses = output_uses(program)
        found: list[ArrayArgument] = []
        for one in arrays:
            role = one.role
            if role == "output":
                known = None if program.problems else uses.get(one.name, OutputUses())
                role = self._roles.get(one.name) or _role(one, known)
            found.append(replace(one, role=role))
        return tuple(found)

    def _elements(self, array: ArrayArgument, name: str) -> list[Edit]:
        """The edits that name an array, which is a pointer in MLX unless it is a 0-d input."""
        element = f"{name}[0]" if array.is_reference and not array.is_scalar else name
        if element == array.name:
            return []
        declaration = array.parameter.declaration
        if not self._names.is_clear(declaration):
            message = f"cannot rename `{array.name}`: a macro may use it"
            raise PortError(message, declaration.place)
        uses = self._names.uses(declaration)
        return [self._names.replaced(use, element) for use in uses]

    def _attribute(self, one: AttributeArgument) -> None:
        names, declaration = self._names, one.parameter.declaration
        uses, is_clear = names.uses(declaration), names.is_clear(declaration)
        if one.is_exact and is_clear and not names.is_changed(declaration):
            self._edits += (names.renamed(use, one.attribute, one.component) for use in uses)
        elif uses or not is_clear:
            if declaration.name in ATTRIBUTES:
                message = f"`{declaration.name}` is changed or converted: rename the parameter"
                raise PortError(message, declaration.place)
            value = one.attribute + one.component
            value = value if one.is_exact else f"{declaration.type}({value})"
            self._prologue.append(f"{declaration.type} {declaration.name} = {value};")

    def _array(self, array: ArrayArgument) -> None:
        """Name an array; one whose element type differs from MLX's is seen through a pointer."""
        name = array.name
        if array.is_view:
            name = self._names.unique(f"{array.name}_view")
            constant = "const " if array.role == "input" else ""
            space = array.parameter.declaration.address_space
            pointer = f"{constant}{space} {array.element}*"
            self._prologue.append(f"{pointer} {name} = reinterpret_cast<{pointer}>({array.name});")
        self._edits += self._elements(array, name)

    def _copies(self, arrays: Sequence[ArrayArgument], *, is_atomic: bool) -> bool:
        """Add the copies of updated arrays; whether a launch must have one threadgroup."""
        is_one_threadgroup = False
        for array in arrays:
            if array.role == "updated":
                copy = copied(array, self._names, self._edits, is_atomic=is_atomic)
                self._edits += copy.edits
                self._prologue += copy.prologue
                is_one_threadgroup = is_one_threadgroup or not copy.edits
        return is_one_threadgroup

    def _function_constants(self) -> list[TemplateParameter]:
        """The function constants that the body uses."""
        found = []
        for one in self._file.function_constants:
            assert one.declaration is not None
            if not self._names.is_clear(one.declaration):
                message = f"function constant `{one.name}` is used by a macro"
                raise PortError(message, one.declaration.place)
            if self._names.uses(one.declaration):
                found.append(one)
        return found

    def _spaces(self, arrays: Sequence[ArrayArgument]) -> dict[str, str]:
        """The address spaces that inputs must be in, since their addresses are passed on."""
        inputs = [one for one in arrays if one.role == "input" and not one.is_scalar]
        names = SignatureNames(tuple(Input(one.name) for one in inputs), (), None)
        program = lower_body(self._names.body_text(()), self._file.header, names)
        passed = {use.variable.name for use in parameter_uses(program) if use.manner != "element"}
        return {
            one.name: str(one.parameter.declaration.address_space)
            for one in inputs
            if one.is_view or one.name in passed or program.problems
        }


def _seen(array: ArrayArgument, *, is_atomic: bool) -> ArrayArgument:
    """An array as the body sees it: MLX declares all outputs as atomic, or none."""
    is_other = is_atomic and array.role != "input" and not array.is_atomic
    return replace(array, is_view=True) if is_other else array


def _role(array: ArrayArgument, uses: OutputUses | None) -> ArrayRole:
    """The role of a writable array.

    Args:
        array: declared without ``const``.
        uses: None where the body is not understood.

    Raises:
        PortError: the uses do not show it.
    """
    if uses is not None and array.is_atomic:
        return "output"
    if uses is None or uses.escapes or uses.atomic_updates:
        name = array.name
        message = f"unclear use of `{name}`: pass --input, --output or --update {name}"
        raise PortError(message, array.parameter.place)
    if uses.updates or (uses.stores and uses.reads):
        return "updated"
    return "output" if uses.stores else "input"
