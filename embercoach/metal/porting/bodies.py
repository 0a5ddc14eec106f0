"""The body of a kernel as MLX gets it: names edited, declarations added, outputs initialized."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from textwrap import dedent
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from embercoach.metal.contract import ATTRIBUTES
from embercoach.metal.porting.array_flows import (
    ArrayFlow,
    Keys,
    array_flow,
    may_keep_values,
    reads_before_stores,
)
from embercoach.metal.porting.entry_points import (
    EntryPoint,
    KernelFile,
    PortError,
    TemplateParameter,
)
from embercoach.metal.porting.initial_copies import InitialCopy, copied, whole_copy
from embercoach.metal.porting.port_arguments import (
    Argument,
    ArrayArgument,
    ArrayRole,
    AttributeArgument,
    ThreadgroupArgument,
    arguments_of,
    field_argument,
    generated_names,
    with_own_names,
)
from embercoach.metal.program.lowering import lower_unit
from embercoach.metal.program.nodes import Block, Expression, If, Loop
from embercoach.metal.program.texts import SyntaxNode, unpack_initialized
from embercoach.metal.program.types import NAMED, SCALARS, Type, is_address
from embercoach.metal.program.written_names import NAMES

if TYPE_CHECKING:
    from embercoach.metal.program.walk import Path
    from embercoach.metal.text_facts import Declaration

#: The child of each that is written.
_WRITTEN = {
    "assignment_expression": "left",
    "update_expression": "argument",
    "pointer_expression": "argument",
}
_MAX_BUFFERS = 31
#: A thread attribute gets a short name from so many uses on.
_MANY_USES = 2
#: MLX passes arrays of fewer elements in constant memory.
_SMALL = 8
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
        self._whole, self._body = kernel.whole, kernel.body
        self.parsed = file.parsed
        self._uses: dict[int, list[SyntaxNode]] = {}
        self._unbound: set[str] = set()
        self._changed: dict[int, bool] = {}
        self._named = [part for part in kernel.body.below() if part.kind in NAMES]
        for part in self._named:
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

    def locals(self) -> Iterator[Declaration]:
        """Yield the declarations in the body."""
        extent = self.parsed.place(self._body)
        for declaration in self._file.scopes.declarations:
            if extent.start <= declaration.place.start < extent.end:
                yield declaration

    def unique(self, name: str, but: str = "") -> str:
        """Return a name that the file does not declare, made of another; ``but`` it may be."""
        while name != but and (name in self._taken or name in ATTRIBUTES):
            name += "_"
        return name

    def is_free(self, name: str) -> bool:
        """Return whether the kernel may declare the name of a field as a separate one."""
        extent = self.parsed.place(self._whole)
        declared = (
            one.name
            for one in self._file.scopes.declarations
            if one.kind != "field"
            and (one.depth == 0 or extent.start <= one.place.start < extent.end)
        )
        known = name in self._file.scopes.macros.mentioned or name in ATTRIBUTES or name in NAMED
        return not known and name not in self._unbound and name not in set(declared)

    def component(self, use: SyntaxNode, array: ArrayArgument) -> Edit:
        """Return the edit that turns the use of a vector into that of its components."""
        above = self.parsed.parent(use)
        field = None if above is None or use.role != "argument" else above.get("field")
        word = "" if field is None else self.parsed.word(field)
        if above is not None and len(word) == 1 and word in "xyzwrgba":
            at = "xyzwrgba".index(word) % 4
            return self.replaced(above, f"{array.name}[{at}]")
        if above is not None and above.kind == "subscript_expression" and use.role == "argument":
            return self.replaced(use, array.name)
        values = ", ".join(f"{array.name}[{at}]" for at in range(array.size))
        return self.replaced(use, f"{array.element}({values})")

    def replaced(self, part: SyntaxNode, text: str) -> Edit:
        """Return the edit that replaces a part."""
        place = self.parsed.place(part)
        return Edit(place.start, place.end, text)

    def mentions(self, *words: str) -> bool:
        """Return whether the file has a name with one of these words."""
        return any(word in name for word in words for name in (*self._unbound, *self._taken))

    def statement_of(self, element: Expression, path: Path) -> SyntaxNode | None:
        """Return the part that is the last statement of a path to an element."""
        start = element.spot.place.start
        use = next((one for one in self._named if self.parsed.place(one).start == start), None)
        around = [] if use is None else [use, *self.parsed.around(use)]
        statements = [
            part
            for part, above in pairwise(around)
            if above.start >= self._body.start and _is_statement(part, above)
        ]
        depth = sum(
            isinstance(node, (Block, If, Loop)) and not isinstance(inner, Block)
            for node, inner in pairwise(path)
        )
        return statements[-depth] if len(statements) >= depth else None

    def before(self, part: SyntaxNode, lines: Sequence[str]) -> Iterator[Edit]:
        """Yield the edits that insert lines in front of a statement, in braces if it is alone."""
        place, text = self.parsed.place(part), self._file.flat.text
        line = text[text.rfind("\n", 0, place.start) + 1 : place.start]
        indent = line[: len(line) - len(line.lstrip())]
        above = self.parsed.parent(part)
        if above is None or above.kind != "compound_statement":
            inner = "".join(f"\n{indent}    {one}" for one in (*lines, ""))
            yield Edit(place.start, place.start, f"{{{inner}")
            yield Edit(place.end, place.end, f"\n{indent}}}")
        else:
            between = " " if line.strip() else f"\n{indent}"
            yield Edit(place.start, place.start, "".join(f"{one}{between}" for one in lines))

    def renamed(self, use: SyntaxNode, attribute: str, component: str) -> Edit:
        """Return the edit that turns the use of a parameter into that of a thread attribute."""
        above = self.parsed.parent(use)
        if component and above is not None and above.kind == "field_expression":
            field = above.get("field")
            if use.role == "argument" and field is not None:
                # The first components of the attribute are those of the parameter.
                component = ""
        elif component in (".xy", "") and above is not None and use.role == "argument":
            component = "" if above.kind == "subscript_expression" else component
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

    def body_text(self, edits: Sequence[Edit]) -> str:
        """Return the statements of the body, edited, without the braces and their indentation."""
        place = self.parsed.place(self._body)
        text = self.text(place.start + 1, place.end - 1, edits)
        return dedent(text.strip("\n").rstrip()) if "\n" in text else text.strip()


def _is_statement(part: SyntaxNode, above: SyntaxNode) -> bool:
    """Return whether a part is a statement of a block, or alone in a loop or a condition."""
    if part.kind in ("compound_statement", "else_clause"):
        return False
    alone = part.role in ("body", "consequence") or above.kind == "else_clause"
    return above.kind == "compound_statement" or alone


def _is_place(part: SyntaxNode, above: SyntaxNode) -> bool:
    """Return whether an expression is a place in the one below it: ``id.x`` is one in ``id``."""
    if above.kind in ("field_expression", "subscript_expression"):
        return part.role == "argument"
    return above.kind in ("parenthesized_expression", "conditional_expression")


class PortedKernel(Struct, frozen=True):
    """A kernel as arguments of ``mx.fast.metal_kernel``.

    Attributes:
        source: the body.
        template: its template arguments, sizes of threadgroup memory included.
        spaces: inputs whose address the body passes on, with the address space that it must have.
        is_one_threadgroup: the copies of updated arrays need a launch of one threadgroup.
        adds_up: atomic functions access an output, whose first values are those of ``init_value``.
    """

    kernel: EntryPoint
    arrays: tuple[ArrayArgument, ...]
    template: tuple[TemplateParameter, ...]
    source: str
    spaces: Mapping[str, str]
    is_one_threadgroup: bool
    adds_up: bool

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
        self._program = lower_unit(file.flat.text)
        self._edits: list[Edit] = []
        self._prologue: list[str] = []
        self._flows: dict[str, ArrayFlow] = {}
        self._keys: Keys | None = None

    def result(self) -> PortedKernel:
        kernel, types = self._with_attributes(), self._types()
        arguments = arguments_of(kernel, types, self._program.structs)
        arguments = tuple(part for one in arguments for part in self._parts(one))
        arguments = with_own_names(kernel, arguments, self._names.unique)
        self._check_locals(arguments)
        arrays = tuple(self._with_role(one) for one in arguments if isinstance(one, ArrayArgument))
        if all(one.role == "input" for one in arrays):
            raise PortError(f"`{self._kernel.name}` writes no array", self._kernel.place)
        if len(arrays) > _MAX_BUFFERS:
            message = (
                f"`{self._kernel.name}` has {len(arrays)} arrays, Metal {_MAX_BUFFERS} buffers"
            )
            raise PortError(message, self._kernel.place)
        is_atomic = any(one.is_atomic and one.role != "input" for one in arrays)
        arrays = tuple(self._bound(_seen(one, is_atomic=is_atomic)) for one in arrays)
        sizes = []
        for one in arguments:
            if isinstance(one, AttributeArgument):
                self._attribute(one)
            elif isinstance(one, ThreadgroupArgument):
                size = self._names.unique(one.size)
                sizes.append(TemplateParameter(size, "int"))
                kind, name = one.parameter.declaration.type, one.parameter.name
                self._prologue.append(f"threadgroup {kind} {name}[{size}];")
        spaces = {one.name: space for one in arrays if (space := self._space(one))}
        for array in arrays:
            self._array(array, spaces.get(array.name))
        arrays, is_one_threadgroup = self._copies(arrays, is_atomic=is_atomic)
        template = (*self._kernel.template, *self._function_constants(), *sizes)
        return PortedKernel(
            self._kernel,
            arrays,
            template,
            "\n".join((*self._prologue, self._names.body_text(self._edits))),
            spaces,
            is_one_threadgroup,
            is_atomic or any(one.atomics for one in self._flows.values()),
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

    def _types(self) -> dict[str, Type]:
        """Return the types of the parameters, and note what the body does with them."""
        parameters = self._kernel.parameters
        types = {
            one.name: SCALARS.get(one.declaration.type)
            or NAMED.get(one.declaration.type.removeprefix("metal::"))
            or Type(one.declaration.type)
            for one in parameters
        }
        for function in self._program.functions.get(self._kernel.name, ()):
            if function.entry and [v.name for v in function.parameters] == list(types):
                outer = {
                    one.name: mark.name
                    for one in self._file.attributes
                    for mark in one.marks
                    if mark.name in ATTRIBUTES
                }
                self._keys = Keys(function, outer)
                for variable in function.parameters:
                    types[variable.name] = variable.type
                    if is_address(variable.type) or variable.type.reference:
                        self._flows[variable.name] = array_flow(self._program, function, variable)
        return types

    def _parts(self, argument: Argument) -> tuple[Argument, ...]:
        """Return an argument, or those of the fields that the body uses of a struct."""
        if not isinstance(argument, ArrayArgument) or argument.struct is None:
            return (argument,)
        declaration = argument.parameter.declaration
        if argument.role != "input" or not self._names.is_clear(declaration):
            return (argument,)
        fields: dict[str, ArrayArgument] = {}
        for use in self._names.uses(declaration):
            above = self._names.parsed.parent(use)
            field = None if above is None or use.role != "argument" else above.get("field")
            if above is None or above.kind != "field_expression" or field is None:
                return (argument,)
            word = self._names.parsed.word(field)
            if not (word.isascii() and word.isidentifier()):
                return (argument,)
            name = word if self._names.is_free(word) else f"{argument.name}_{word}"
            part = field_argument(argument, word, self._names.unique(name, but=word))
            is_pointer = not argument.is_reference
            if part is None or above.has("->") != is_pointer or not self._is_value(above, part):
                return (argument,)
            fields.setdefault(word, part)
        return tuple(fields.values())

    def _is_value(self, part: SyntaxNode, field: ArrayArgument) -> bool:
        """Return whether the use of a field takes its value, or an element of an array."""
        above = self._names.parsed.parent(part)
        if above is None or above.kind == "pointer_expression":
            return False
        return field.is_reference or (
            above.kind == "subscript_expression" and part.role == "argument"
        )

    def _check_locals(self, arguments: Sequence[Argument]) -> None:
        """Refuse locals with names that MLX declares on mention."""
        taken = {*ATTRIBUTES, *generated_names(tuple(arguments))}
        for declaration in self._names.locals():
            if declaration.name in taken:
                message = f"`{declaration.name}` is a name that MLX declares: rename the local"
                raise PortError(message, declaration.place)

    def _with_role(self, array: ArrayArgument) -> ArrayArgument:
        """Return an array with the role that the body shows, or that the caller gave."""
        if array.role == "input":
            return array
        role = self._roles.get(array.parameter.name)
        if role is None:
            role = self._role(array)
            flow = self._flows.get(array.parameter.name)
            if role == "output" and self._keys is not None and flow is not None:
                keeps = not flow.atomics and may_keep_values(self._keys, flow)
                array = replace(array, keeps=keeps)
        return replace(array, role=role)

    def _role(self, array: ArrayArgument) -> ArrayRole:
        """Return the role of a writable array that the body shows."""
        name = array.parameter.name
        flow = self._flows.get(name, ArrayFlow(is_unclear=True))
        if flow.atomics and all("_load" in word for word in flow.atomics) and not flow.is_unclear:
            message = f"`{name}` is loaded by atomic functions alone, MLX has no such inputs"
            raise PortError(message, array.parameter.place)
        if array.is_atomic:
            return "output"
        reads = None
        if self._keys is not None and not flow.is_unclear:
            reads = reads_before_stores(self._keys, flow)
        if reads is None or (reads and flow.atomics):
            raise PortError(
                f"unclear use of `{name}`: pass --output {name} if the kernel fills a new array, "
                f"--update {name} if it changes the caller's values",
                array.parameter.place,
            )
        if not flow.atomics and not any(one.kind == "store" for one in flow.accesses):
            return "input"
        return "updated" if reads else "output"

    def _space(self, array: ArrayArgument) -> str | None:
        """Return the address space that an input must be in, None for any."""
        if array.role == "updated" and array.is_view and array.width == 1:
            return "device"
        if array.role != "input" or array.is_scalar or array.field:
            return None
        flow = self._flows.get(array.parameter.name)
        declared = str(array.parameter.declaration.address_space)
        is_passed = flow is None or flow.is_passed or flow.is_unclear
        if not array.is_view:
            return declared if is_passed else None
        is_small = array.is_reference and 0 < array.size < _SMALL
        space = "constant" if is_small else "device"
        if not array.is_reference and is_passed and array.size < _SMALL:
            return declared
        if is_passed and space != declared:
            name = array.parameter.name
            message = f"a function takes `{name}` in {declared} memory, MLX passes {space} memory"
            raise PortError(message, array.parameter.place)
        return space

    def _bound(self, array: ArrayArgument) -> ArrayArgument:
        """Return an array as MLX passes it, under another name where the body keeps the name."""
        flow = self._flows.get(array.parameter.name)
        if array.is_vector and not array.field and (flow is None or flow.is_passed):
            array = replace(array, is_view=True)
        is_renamed = array.is_view or (array.is_reference and not array.is_scalar)
        if is_renamed and not self._names.is_clear(array.parameter.declaration):
            array = replace(array, name=self._names.unique(f"{array.name}_values"))
        return array

    def _elements(self, array: ArrayArgument, name: str) -> list[Edit]:
        """Get the edits that name an array, which is a pointer in MLX unless it is a 0-d input."""
        element = f"{name}[0]" if array.is_reference and not array.is_scalar else name
        if element == array.parameter.name and not array.field:
            return []
        uses = self._names.uses(array.parameter.declaration)
        if array.field:
            above = [self._names.parsed.parent(use) for use in uses]
            fields = [(part, part.get("field")) for part in above if part]
            word = self._names.parsed.word
            uses = [part for part, field in fields if field and word(field) == array.field]
        if array.is_vector:
            return [self._names.component(use, array) for use in uses]
        return [self._names.replaced(use, element) for use in uses]

    def _attribute(self, one: AttributeArgument) -> None:
        names, declaration = self._names, one.parameter.declaration
        uses, is_clear = names.uses(declaration), names.is_clear(declaration)
        is_once = len(uses) < _MANY_USES or declaration.name in ATTRIBUTES
        if is_once and one.is_exact and is_clear and not names.is_changed(declaration):
            self._edits += (names.renamed(use, one.attribute, one.component) for use in uses)
        elif uses or not is_clear:
            if declaration.name in ATTRIBUTES:
                message = f"`{declaration.name}` is changed or converted: rename the parameter"
                raise PortError(message, declaration.place)
            value = one.attribute + one.component
            value = value if one.is_exact else f"{declaration.type}({value})"
            self._prologue.append(f"{declaration.type} {declaration.name} = {value};")

    def _array(self, array: ArrayArgument, space: str | None) -> None:
        """Name an array; one whose element type differs from MLX's is seen through a pointer."""
        name, value = array.parameter.name, array.name
        is_clear = self._names.is_clear(array.parameter.declaration)
        constant = "const " if array.role == "input" else ""
        kind = f"{constant}{space or 'device'} {array.element}"
        if array.is_view:
            value = f"reinterpret_cast<{kind}*>({value})"
            if is_clear:
                name = self._names.unique(f"{array.name}_view")
                self._prologue.append(f"{kind}* {name} = {value};")
        if is_clear:
            self._edits += self._elements(array, name if array.is_view else value)
        elif array.is_vector:
            values = ", ".join(f"{value}[{at}]" for at in range(array.size))
            self._prologue.append(f"const {array.element} {name} = {array.element}({values});")
        elif value != name:
            mark, value = ("&", f"*{value}") if array.is_reference else ("*", value)
            self._prologue.append(f"{kind}{mark} {name} = {value};")

    def _copies(
        self, arrays: Sequence[ArrayArgument], *, is_atomic: bool
    ) -> tuple[tuple[ArrayArgument, ...], bool]:
        """Add the copies of updated arrays; whether a launch must have one threadgroup."""
        copies: dict[str, InitialCopy] = {}
        for one in arrays:
            if one.role == "updated" or one.keeps:
                flow = self._flows.get(one.parameter.name)
                copy = copied(one, self._names, self._edits, self._keys, flow, is_atomic=is_atomic)
                if one.role == "updated" or copy.edits:
                    copies[one.name] = copy
        outputs = [one.name for one in arrays if one.role == "output"]
        if is_atomic or not copies.keys() >= set(outputs):
            # The marks begin as zeros, the other outputs as the caller wants.
            for name, copy in list(copies.items()):
                if copy.written:
                    del copies[name]
        found: list[ArrayArgument] = []
        whole = False
        for one in arrays:
            chosen = copies.get(one.name)
            if chosen is None and one.role == "updated":
                chosen = InitialCopy(prologue=whole_copy(one, is_atomic=is_atomic))
            if chosen is None:
                found.append(one)
                continue
            self._edits += chosen.edits
            self._prologue += chosen.prologue
            whole |= not chosen.edits
            each = one.size if chosen.is_single else 0
            found.append(
                replace(one, role="updated", keeps=False, written=chosen.written, each=each)
            )
        return tuple(found), whole

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


def _seen(array: ArrayArgument, *, is_atomic: bool) -> ArrayArgument:
    """Return an array as the body sees it: MLX declares all outputs as atomic, or none."""
    is_other = is_atomic and array.role != "input" and not array.is_atomic
    return replace(array, is_view=True) if is_other else array
