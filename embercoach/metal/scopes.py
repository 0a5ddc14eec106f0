"""Scopes: which declaration a name stands for, and which names no declaration covers.

The walk leans to silence. A name counts as declared where C++ might find it in a way that is not
followed here: a member of a base class, a name that a macro may declare, a function at file scope
that comes later.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from embercoach.metal import declarators
from embercoach.metal.facts import Declaration, Use
from embercoach.metal.macros import Macros

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tree_sitter import Node

    from embercoach.metal.declarators import Declarator
    from embercoach.metal.facts import (
        AttributeMark,
        Call,
        DeclarationKind,
        Directive,
        Function,
        Place,
        UseKind,
    )
    from embercoach.metal.syntax import Syntax

    Rule = Callable[["ScopeWalk", Node], None]

# Nested statements that are followed: kernels nest far less, and Python's stack is finite.
_MAX_NESTING = 150
# Their insides are no names, or no names of this text.
_SKIPPED = frozenset(
    {
        "attribute_declaration",
        "attribute_specifier",
        "comment",
        "field_designator",
        "literal_suffix",
        "preproc_call",
        "preproc_def",
        "preproc_function_def",
        "string_literal",
    }
)


class NestingError(Exception):
    """The text nests deeper than is followed."""


@dataclass(slots=True)
class Scope:
    """One scope of the walk.

    Attributes:
        maybe: names that a macro call may have declared here.
        open: any name may resolve here, as in a class whose bases are not followed.
        template: holds template parameters; what a template declares lands outside.
    """

    names: dict[str, Declaration] = field(default_factory=dict)
    maybe: set[str] = field(default_factory=set)
    open: bool = False
    template: bool = False


@dataclass(slots=True)
class Scopes:
    """What the walk over one text found.

    Attributes:
        bindings: start byte of each declared or used name to its declaration in the text.
        qualifying: names that may stand before ``::``, None where nobody asked.
        free: uses that no declaration covers, in the order of the text.
    """

    macros: Macros
    declarations: list[Declaration] = field(default_factory=list)
    bindings: dict[int, Declaration] = field(default_factory=dict)
    free: list[Use] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    directives: list[Directive] = field(default_factory=list)
    marks: list[AttributeMark] = field(default_factory=list)
    qualifying: frozenset[str] | None = None


class ScopeWalk:
    """The state of one walk; the rules for each kind of node come from outside."""

    def __init__(
        self,
        syntax: Syntax,
        rules: Mapping[str, Rule],
        outer: frozenset[str] = frozenset(),
        macros: Macros | None = None,
    ) -> None:
        self.syntax = syntax
        self.found = Scopes(macros or Macros())
        self.scopes = [Scope()]
        # Above zero inside the arguments of a macro, where a name may be anything.
        self.quiet = 0
        # The scope that gets all names in the arguments of the macro around.
        self.collecting: Scope | None = None
        self._rules = rules
        self._outer = outer | self.found.macros.mentioned
        self._pending: list[tuple[str, UseKind, Place, bool]] = []
        self._nesting = 0

    def visit(self, node: Node | None) -> None:
        """Visit a node. Those without a rule are flattened, so that depth stays small.

        Raises:
            NestingError: the text nests too deep.
        """
        pending = [] if node is None else [node]
        while pending:
            current = pending.pop()
            rule = self._rules.get(current.type)
            if rule is not None:
                self._nesting += 1
                if self._nesting > _MAX_NESTING:
                    raise NestingError
                rule(self, current)
                self._nesting -= 1
            elif current.type not in _SKIPPED:
                pending.extend(reversed(current.children))

    def visit_children(self, node: Node, *, but: frozenset[str] = frozenset()) -> None:
        """Visit the children of a node, except those in the named fields."""
        for index, child in enumerate(node.children):
            if not but or node.field_name_for_child(index) not in but:
                self.visit(child)

    def push(self, scope: Scope | None = None) -> Scope:
        """Enter a scope."""
        self.scopes.append(scope or Scope())
        return self.scopes[-1]

    def pop(self) -> None:
        """Leave the innermost scope."""
        self.scopes.pop()

    @property
    def at_file_scope(self) -> bool:
        """Whether what is declared now lands at the text's file scope."""
        return self.syntax.root.type == "translation_unit" and all(
            scope.template for scope in self.scopes[1:]
        )

    def declare(
        self,
        name: Node,
        kind: DeclarationKind,
        owner: Node | None = None,
        parts: Declarator | None = None,
        value: Node | None = None,
    ) -> None:
        """Declare a name in the innermost scope that it can live in.

        Args:
            name: the node of the name.
            kind: what it is.
            owner: the declaration that holds its type.
            parts: its declarator, taken apart.
            value: its initializer.
        """
        level = len(self.scopes) - 1
        while kind != "template" and level > 0 and self.scopes[level].template:
            level -= 1
        words = self.syntax.words
        declaration = Declaration(
            name=words(name),
            kind=kind,
            place=self.syntax.place(name),
            type=declarators.type_words(self.syntax, owner) if owner else "",
            address_space=declarators.address_space(self.syntax, owner) if owner else None,
            pointer=parts.pointer if parts else False,
            dimensions=tuple(words(d) for d in parts.dimensions) if parts else (),
            value=words(value) if value else None,
            depth=level,
            fixed=declarators.is_fixed(self.syntax, owner) if owner else False,
        )
        self.scopes[level].names[declaration.name] = declaration
        if self.syntax.holds(name):
            self.found.declarations.append(declaration)
        self.found.bindings[name.start_byte] = declaration

    def use(self, node: Node, kind: UseKind) -> None:
        """Look a used name up, and note it where nothing declares it."""
        name = self.syntax.words(node)
        for scope in reversed(self.scopes):
            declaration = scope.names.get(name)
            if declaration is not None:
                self.found.bindings[node.start_byte] = declaration
                return
            if scope.open or name in scope.maybe:
                return
        if not self.quiet and name not in self._outer and self.syntax.holds(node):
            self._pending.append(
                (name, kind, self.syntax.place(node), _is_variable(self.syntax, node))
            )

    def finish(self) -> Scopes:
        """The findings, with the uses that stayed free."""
        first: dict[str, Declaration] = {}
        for declaration in self.found.declarations:
            first.setdefault(declaration.name, declaration)
        whole_file = self.syntax.root.type == "translation_unit"
        for name, kind, place, variable in self._pending:
            # At file scope a template may find what comes later.
            if not (whole_file and name in self.scopes[0].names):
                other = first.get(name)
                elsewhere = other.place if other else None
                self.found.free.append(Use(name, kind, place, elsewhere, variable))
        return self.found


def _is_variable(syntax: Syntax, node: Node) -> bool:
    """Whether the name is indexed, assigned or counted up."""
    parent = syntax.parent(node)
    if parent is None:
        return False
    if parent.type == "assignment_expression":
        return parent.child_by_field_name("left") == node
    if parent.type == "subscript_expression":
        return parent.child_by_field_name("argument") == node
    return parent.type == "update_expression"
