"""The body of a kernel as MLX gets it: names edited, declarations added, outputs initialized."""

from __future__ import annotations

from bisect import bisect_left
from textwrap import dedent
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from embercoach.metal.contract import ATTRIBUTES, Input, Output, shape_names
from embercoach.metal.execution.parameter_uses import OutputUses, output_uses, parameter_uses
from embercoach.metal.porting.entry_points import (
    ArrayArgument,
    AttributeArgument,
    PortError,
    TemplateParameter,
    ThreadgroupArgument,
    arguments_of,
)
from embercoach.metal.program.lowering import SignatureNames, lower_body
from embercoach.metal.program.texts import unpack_initialized
from embercoach.metal.program.written_names import NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from embercoach.metal.porting.entry_points import Argument, ArrayRole, EntryPoint, KernelFile
    from embercoach.metal.program.texts import SyntaxNode
    from embercoach.metal.text_facts import Declaration

#: The child of each that is written.
_WRITTEN = {
    "assignment_expression": "left",
    "update_expression": "argument",
    "pointer_expression": "argument",
}
#: A name in these is more than a value.
_CAPTURES = frozenset({"lambda_capture_specifier", "for_range_loop", "initializer_list"})


class Edit(NamedTuple):
    """Characters ``start`` to ``end`` of the file, and what replaces them."""

    start: int
    end: int
    text: str


class KernelNames:
    """The names in one kernel's body."""

    def __init__(self, file: KernelFile, kernel: EntryPoint) -> None:
        self._file = file
        self._body = kernel.body
        self.parsed = file.parsed
        self._uses: dict[int, list[SyntaxNode]] = {}
        self._unbound: set[str] = set()
        self._changed: dict[int, bool] = {}
        for part in kernel.body.below():
            if part.kind in NAMES:
                self._note(part)
        self._taken = {d.name for d in file.scopes.declarations} | file.scopes.macros.mentioned

    def _note(self, part: SyntaxNode) -> None:
        declaration = self._file.scopes.bindings.get(part.start)
        if declaration is not None:
            self._uses.setdefault(id(declaration), []).append(part)
        elif part.kind != "field_identifier":
            self._unbound.add(self.parsed.word(part))

    def uses(self, declaration: Declaration) -> list[SyntaxNode]:
        """Return the names in the body that a declaration outside of it is bound to."""
        return self._uses.get(id(declaration), [])

    def is_clear(self, declaration: Declaration) -> bool:
        """Return whether all uses of a declaration are known: none may be in a macro."""
        name = declaration.name
        return name not in self._unbound and name not in self._file.scopes.macros.mentioned

    def is_changed(self, declaration: Declaration) -> bool:
        """Return whether the body may write to a variable, or takes its address."""
        key = id(declaration)
        if key not in self._changed:
            self._changed[key] = any(map(self._is_written, self.uses(declaration)))
        return self._changed[key]

    def _is_written(self, use: SyntaxNode) -> bool:
        """Return whether a use is more than its value, components of it included."""
        part, above = use, self.parsed.parent(use)
        while above is not None and _is_place(part, above):
            part, above = above, self.parsed.parent(above)
        if above is None:
            return False
        if above.kind in _WRITTEN:
            return part.role == _WRITTEN[above.kind]
        if above.kind == "argument_list":
            # Functions of the text and macros may take a reference.
            call = self.parsed.parent(above)
            callee = None if call is None else call.get("function")
            return callee is None or self.parsed.word(callee) in self._taken
        if above.kind == "init_declarator":
            return unpack_initialized(above)[0].is_address
        return above.kind in _CAPTURES

    def binding(self, part: SyntaxNode) -> Declaration | None:
        """Return the declaration that a name is bound to."""
        return self._file.scopes.bindings.get(part.start)

    def locals(self) -> Iterator[Declaration]:
        """Yield the declarations in the body."""
        extent = self.parsed.place(self._body)
        for declaration in self._file.scopes.declarations:
            if extent.start <= declaration.place.start < extent.end:
                yield declaration

    def unique(self, name: str) -> str:
        """Return a name that the file does not declare, made of another."""
        while name in self._taken or name in ATTRIBUTES:
            name += "_"
        return name

    @property
    def body(self) -> SyntaxNode:
        """The body, from brace to brace."""
        return self._body

    def replaced(self, part: SyntaxNode, text: str) -> Edit:
        """Return the edit that replaces a part."""
        place = self.parsed.place(part)
        return Edit(place.start, place.end, text)

    def before(self, part: SyntaxNode, text: str) -> Edit:
        """Return the edit that inserts a line in front of a statement."""
        place = self.parsed.place(part)
        start = place.start
        line = self._file.flat.text.rfind("\n", 0, start) + 1
        indent = self._file.flat.text[line:start]
        between = f"\n{indent}" if not indent.strip() else " "
        return Edit(start, start, f"{text}{between}")

    def renamed(self, use: SyntaxNode, attribute: str, component: str) -> Edit:
        """Return the edit that turns the use of a parameter into that of a thread attribute."""
        above = self.parsed.parent(use)
        if component and above is not None and above.kind == "field_expression":
            field = above.get("field")
            if use.role == "argument" and field is not None:
                # The first components of the attribute are those of the parameter.
                component = ""
        return self.replaced(use, attribute + component)

    def text(self, start: int, end: int, edits: Sequence[Edit]) -> str:
        """Return a stretch of the file with the edits in it applied."""
        pieces: list[str] = []
        done = start
        for edit in sorted(edits):
            if start <= edit.start and edit.end <= end:
                pieces += (self._file.flat.text[done : edit.start], edit.text)
                done = edit.end
        return "".join(pieces) + self._file.flat.text[done:end]

    def part_text(self, part: SyntaxNode, edits: Sequence[Edit]) -> str:
        """Return a part as written, with the edits in it applied."""
        place = self.parsed.place(part)
        return self.text(place.start, place.end, edits)

    def body_text(self, edits: Sequence[Edit]) -> str:
        """Return the statements of the body, edited, without the braces and their indentation."""
        place = self.parsed.place(self._body)
        text = self.text(place.start + 1, place.end - 1, edits)
        return dedent(text.strip("\n").rstrip()) if "\n" in text else text.strip()


def _is_place(part: SyntaxNode, above: SyntaxNode) -> bool:
    """Return whether an expression is a place in the one below it: ``id.x`` is one in ``id``."""
    if above.kind in ("field_expression", "subscript_expression"):
        return part.role == "argument"
    return above.kind in ("parenthesized_expression", "conditional_expression")


_PLAIN = frozenset({"expression_statement", "declaration"})
_CONDITIONAL = frozenset({"conditional_expression", "&&", "||", "lambda_expression"})
#: Parts of an index that has the same value wherever it is computed.
_PURE = frozenset(
    {
        *("subscript_argument_list", "identifier", "number_literal", "binary_expression"),
        *("parenthesized_expression", "field_expression", "field_identifier"),
    }
)


class InitialCopy(Struct, frozen=True):
    """The copy of an array's first values.

    Attributes:
        edits: the line in front of the first use of the thread's element; none for a whole copy.
        prologue: the lines in front of the body for a whole copy.
    """

    edits: tuple[Edit, ...] = ()
    prologue: tuple[str, ...] = ()


def copied(
    array: ArrayArgument, names: KernelNames, edits: list[Edit], *, is_atomic: bool
) -> InitialCopy:
    """Return the copy that an updated array needs.

    Args:
        array: an updated one.
        names: of the kernel.
        edits: those of the body so far, which apply to the index of an element as well.
        is_atomic: MLX declares the outputs as atomic.
    """
    if not (array.is_view or array.is_atomic or array.is_reference):
        index = _own_element(array, names)
        statement = None if index is None else _first_statement(array, names)
        if index is not None and statement is not None and _is_declared(index, statement, names):
            element = names.part_text(index, edits)
            line = f"{array.name}{element} = {array.initial}{element};"
            return InitialCopy((names.before(statement, line),))
    return InitialCopy(prologue=_whole(array, is_atomic=is_atomic))


def _own_element(array: ArrayArgument, names: KernelNames) -> SyntaxNode | None:
    """Return the brackets with the one index at which a thread uses an array, None for several."""
    declaration = array.parameter.declaration
    if not names.is_clear(declaration):
        return None
    found: dict[tuple[object, ...], SyntaxNode] = {}
    for use in names.uses(declaration):
        above = names.parsed.parent(use)
        index = None if above is None else above.get("indices")
        if index is None or use.role != "argument":
            return None
        key = _fixed(index, names)
        if key is None:
            return None
        found.setdefault(key, index)
    return next(iter(found.values())) if len(found) == 1 else None


def _fixed(index: SyntaxNode, names: KernelNames) -> tuple[object, ...] | None:
    """Return the text and the variables of an index, None where it may change."""
    key: list[object] = [names.part_text(index, ())]
    for part in index.below():
        if part.named and part.kind not in _PURE:
            return None
        if part.kind == "identifier":
            declaration = names.binding(part)
            if declaration is None or names.is_changed(declaration):
                return None
            key.append(id(declaration))
    return tuple(key)


def _first_statement(array: ArrayArgument, names: KernelNames) -> SyntaxNode | None:
    """Return the statement that uses an array first, if every thread that uses it runs this one."""
    uses = [use.start for use in names.uses(array.parameter.declaration)]
    block = names.body
    while True:
        users = [part for part in block.inner if _holds(part, uses)]
        first = users[0]
        if first.kind in _PLAIN:
            is_certain = _CONDITIONAL.isdisjoint(part.kind for part in first.below())
            return first if is_certain else None
        inner = first if first.kind == "compound_statement" else first.get("consequence")
        if len(users) > 1 or inner is None or inner.kind != "compound_statement":
            return None
        if not inner.start <= uses[0] <= uses[-1] < inner.end:
            return None
        block = inner


def _is_declared(index: SyntaxNode, statement: SyntaxNode, names: KernelNames) -> bool:
    """Return whether the variables of an index are declared in front of a statement."""
    start = names.replaced(statement, "").start
    bindings = [names.binding(part) for part in index.below() if part.kind == "identifier"]
    return all(one is not None and one.place.start < start for one in bindings)


def _holds(part: SyntaxNode, uses: list[int]) -> bool:
    """Return whether one of the sorted uses is in a part."""
    first = bisect_left(uses, part.start)
    return first < len(uses) and uses[first] < part.end


def _whole(array: ArrayArgument, *, is_atomic: bool) -> tuple[str, ...]:
    shape, _, ndim = shape_names(array.initial)
    copy = f"{array.name}[copy_index] = {array.initial}[copy_index];"
    if is_atomic:
        copy = (
            f"atomic_store_explicit(&{array.name}[copy_index], {array.initial}[copy_index], "
            "memory_order_relaxed);"
        )
    return (
        "{",
        "    uint copy_size = 1;",
        f"    for (int axis = 0; axis < {ndim}; ++axis) {{",
        f"        copy_size *= {shape}[axis];",
        "    }",
        "    uint3 copy_threads = threads_per_threadgroup;",
        "    uint copy_step = copy_threads.x * copy_threads.y * copy_threads.z;",
        "    for (uint copy_index = thread_index_in_threadgroup; copy_index < copy_size;",
        "         copy_index += copy_step) {",
        f"        {copy}",
        "    }",
        "}",
        "threadgroup_barrier(mem_flags::mem_device);",
    )


class PortedKernel(Struct, frozen=True):
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
        arguments = arguments_of(self._with_attributes())
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

    def _with_attributes(self) -> EntryPoint:
        """Return the kernel with the thread attributes at file scope that it uses."""
        names = self._names
        used = [
            one
            for one in self._file.attributes
            if names.uses(one.declaration) or not names.is_clear(one.declaration)
        ]
        return replace(self._kernel, parameters=(*self._kernel.parameters, *used))

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
        """Return the arrays with the roles that the body shows, or that the caller gave."""
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
        """Get the edits that name an array, which is a pointer in MLX unless it is a 0-d input."""
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
        """Return the function constants that the body uses."""
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
        """Return the address spaces that inputs must be in, since their addresses are passed on."""
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
    """Return an array as the body sees it: MLX declares all outputs as atomic, or none."""
    is_other = is_atomic and array.role != "input" and not array.is_atomic
    return replace(array, is_view=True) if is_other else array


def _role(array: ArrayArgument, uses: OutputUses | None) -> ArrayRole:
    """Return the role of a writable array.

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
