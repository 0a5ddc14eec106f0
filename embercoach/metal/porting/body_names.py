"""The names in the body of a kernel: their uses, and edits of them.

Uses are those that C++ binds to a declaration, so that a local of the same name is left alone.
"""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING, NamedTuple

from embercoach.metal.contract import ATTRIBUTES
from embercoach.metal.program.declarators import unpack_initialized
from embercoach.metal.written.naming import NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from embercoach.metal.porting.entry_points import EntryPoint, KernelFile
    from embercoach.metal.program.tree import SyntaxNode
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
        self._parsed = file.parsed
        self._parents: dict[SyntaxNode, SyntaxNode] = {}
        self._uses: dict[int, list[SyntaxNode]] = {}
        self._unbound: set[str] = set()
        self._changed: dict[int, bool] = {}
        for part in kernel.body.below():
            self._parents.update((child, part) for child in part.parts)
            if part.kind in NAMES:
                self._note(part)
        self._taken = {d.name for d in file.scopes.declarations} | file.scopes.macros.mentioned

    def _note(self, part: SyntaxNode) -> None:
        declaration = self._file.scopes.bindings.get(part.start)
        if declaration is not None:
            self._uses.setdefault(id(declaration), []).append(part)
        elif part.kind != "field_identifier":
            self._unbound.add(self._parsed.word(part))

    def uses(self, declaration: Declaration) -> list[SyntaxNode]:
        """The names in the body that a declaration outside of it is bound to."""
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
        part, above = use, self._parents.get(use)
        while above is not None and _is_place(part, above):
            part, above = above, self._parents.get(above)
        if above is None:
            return False
        if above.kind in _WRITTEN:
            return part.role == _WRITTEN[above.kind]
        if above.kind == "argument_list":
            # Functions of the text and macros may take a reference.
            call = self._parents.get(above)
            callee = None if call is None else call.get("function")
            return callee is None or self._parsed.word(callee) in self._taken
        if above.kind == "init_declarator":
            return unpack_initialized(above)[0].is_address
        return above.kind in _CAPTURES

    def parent(self, part: SyntaxNode) -> SyntaxNode | None:
        """The part directly above one."""
        return self._parents.get(part)

    def binding(self, part: SyntaxNode) -> Declaration | None:
        """The declaration that a name is bound to."""
        return self._file.scopes.bindings.get(part.start)

    def locals(self) -> Iterator[Declaration]:
        """The declarations in the body."""
        extent = self._parsed.place(self._body)
        for declaration in self._file.scopes.declarations:
            if extent.start <= declaration.place.start < extent.end:
                yield declaration

    def unique(self, name: str) -> str:
        """A name that the file does not declare, made of another."""
        while name in self._taken or name in ATTRIBUTES:
            name += "_"
        return name

    @property
    def body(self) -> SyntaxNode:
        """The body, from brace to brace."""
        return self._body

    def replaced(self, part: SyntaxNode, text: str) -> Edit:
        """The edit that replaces a part."""
        place = self._parsed.place(part)
        return Edit(place.start, place.end, text)

    def before(self, part: SyntaxNode, text: str) -> Edit:
        """The edit that inserts a line in front of a statement."""
        place = self._parsed.place(part)
        start = place.start
        line = self._file.text.rfind("\n", 0, start) + 1
        indent = self._file.text[line:start]
        between = f"\n{indent}" if not indent.strip() else " "
        return Edit(start, start, f"{text}{between}")

    def renamed(self, use: SyntaxNode, attribute: str, component: str) -> Edit:
        """The edit that turns the use of a parameter into that of a thread attribute."""
        above = self._parents.get(use)
        if component and above is not None and above.kind == "field_expression":
            field = above.get("field")
            if use.role == "argument" and field is not None:
                # The first components of the attribute are those of the parameter.
                component = ""
        return self.replaced(use, attribute + component)

    def text(self, start: int, end: int, edits: Sequence[Edit]) -> str:
        """A stretch of the file with the edits in it applied."""
        pieces: list[str] = []
        done = start
        for edit in sorted(edits):
            if start <= edit.start and edit.end <= end:
                pieces += (self._file.text[done : edit.start], edit.text)
                done = edit.end
        return "".join(pieces) + self._file.text[done:end]

    def part_text(self, part: SyntaxNode, edits: Sequence[Edit]) -> str:
        """A part as written, with the edits in it applied."""
        place = self._parsed.place(part)
        return self.text(place.start, place.end, edits)

    def body_text(self, edits: Sequence[Edit]) -> str:
        """The statements of the body, edited, without the braces and their indentation."""
        place = self._parsed.place(self._body)
        text = self.text(place.start + 1, place.end - 1, edits)
        return dedent(text.strip("\n").rstrip()) if "\n" in text else text.strip()


def _is_place(part: SyntaxNode, above: SyntaxNode) -> bool:
    """Return whether an expression is a place in the one below it: ``id.x`` is one in ``id``."""
    if above.kind in ("field_expression", "subscript_expression"):
        return part.role == "argument"
    return above.kind in ("parenthesized_expression", "conditional_expression")
