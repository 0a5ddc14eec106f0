"""How a text uses the position of its thread: attributes, guards, strides, barriers."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Literal

from embercoach.metal.contract import ATTRIBUTES
from embercoach.metal.declarators import unpack
from embercoach.metal.facts import AttributeUse, Barrier, Condition, Guard, Product, StrideLoop
from embercoach.metal.integer_operators import COMPARISONS
from embercoach.metal.numerals import whole_number
from embercoach.metal.scopes import NestingError
from embercoach.metal.syntax import walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

    from embercoach.metal.facts import Declaration
    from embercoach.metal.scopes import Scopes
    from embercoach.metal.syntax import Syntax

    ConditionKind = Literal["if", "else", "for", "while", "do", "switch", "conditional"]

BARRIERS = frozenset({"threadgroup_barrier", "simdgroup_barrier", "quadgroup_barrier"})

_LOOPS: dict[str, ConditionKind] = {
    "for_statement": "for",
    "while_statement": "while",
    "do_statement": "do",
    "switch_statement": "switch",
}
_OPERATIONS = ("binary_expression", "assignment_expression")
_GROUP_SIZES = frozenset({"threads_per_threadgroup", "dispatch_threads_per_threadgroup"})
# Values pass through a handful of variables; longer chains gain nothing.
_ROUNDS = 6
# Mentions that are read, those inside others again.
_MAX_READ = 400_000


class ThreadFacts:
    """The thread-dependent facts of one resolved text."""

    def __init__(self, syntax: Syntax, scopes: Scopes) -> None:
        self._syntax = syntax
        self._bindings = scopes.bindings
        self._mentions = tuple(_mentions(syntax, scopes))
        self._starts = [start for start, _ in self._mentions]
        self._read = 0
        self._derived: dict[Declaration, frozenset[str]] = {}
        self._derive()

    def attributes_of(self, node: Node | None) -> frozenset[str]:
        """The thread attributes that the value of an expression depends on."""
        return frozenset() if node is None else self._resolved(self._sources(node))

    def _sources(self, node: Node) -> tuple[Declaration | str, ...]:
        """The variables and attributes that an expression mentions."""
        first = bisect_left(self._starts, node.start_byte)
        last = bisect_left(self._starts, node.end_byte)
        self._read += last - first
        if self._read > _MAX_READ:
            raise NestingError
        return tuple(source for _, source in self._mentions[first:last])

    def _resolved(self, sources: tuple[Declaration | str, ...]) -> frozenset[str]:
        found: set[str] = set()
        for source in sources:
            if isinstance(source, str):
                found.add(source)
            else:
                found |= self._derived.get(source, frozenset())
        return frozenset(found)

    def _derive(self) -> None:
        """Follow attributes through initializers and assignments, whatever their order."""
        flows = [(target, self._sources(value)) for target, value in self._flows()]
        for _ in range(_ROUNDS):
            changed = False
            for target, sources in flows:
                old = self._derived.get(target, frozenset())
                new = old | self._resolved(sources)
                if new != old:
                    self._derived[target] = new
                    changed = True
            if not changed:
                return

    def _flows(self) -> Iterator[tuple[Declaration, Node]]:
        for node in self._syntax.of_kinds("init_declarator", "assignment_expression"):
            if node.type == "init_declarator":
                target, value = node.child_by_field_name("declarator"), "value"
                names = unpack(target).names if target is not None else ()
            else:
                target, value = node.child_by_field_name("left"), "right"
                base = _base(target)
                names = () if base is None else (base,)
            source = node.child_by_field_name(value)
            for name in names:
                declaration = self._bindings.get(name.start_byte)
                if declaration is not None and source is not None:
                    yield declaration, source

    def attribute_uses(self) -> Iterator[AttributeUse]:
        """Every mention of a thread attribute that no declaration shadows."""
        for node in self._syntax.of_kinds("identifier"):
            if node.start_byte in self._bindings:
                continue
            name = self._syntax.words(node)
            if name not in ATTRIBUTES:
                continue
            parent = self._syntax.parent(node)
            if parent is not None and parent.type == "attribute":
                continue
            member = None
            if parent is not None and parent.type == "field_expression":
                member = parent.child_by_field_name("field")
            component = None if member is None else self._syntax.words(member)
            yield AttributeUse(name, component, self._syntax.place(node))

    def products(self) -> Iterator[Product]:
        """Thread-dependent values times what is the same for all threads."""
        for node in self._syntax.of_kinds(*_OPERATIONS):
            sides = _factors(node)
            if sides is None:
                continue
            left, right, symbol = sides
            for value, other in ((left, right), (right, left)):
                attributes = self.attributes_of(value)
                if not attributes or self.attributes_of(other):
                    continue
                factor = self._syntax.words(other)
                if symbol.startswith("<<"):
                    by = whole_number(factor) if factor.isdecimal() else None
                    if value is right or by is None or by > 31:
                        continue
                    factor = str(1 << by)
                yield Product(attributes, factor, self._syntax.place(node))

    def spans_groups(self) -> bool:
        """Whether a group's position is multiplied by the size of a threadgroup."""
        for node in self._syntax.of_kinds(*_OPERATIONS):
            sides = _factors(node)
            if sides is None or sides[2] not in ("*", "*="):
                continue
            left, right = map(self.attributes_of, sides[:2])
            for position, size in ((left, right), (right, left)):
                if "threadgroup_position_in_grid" in position and size & _GROUP_SIZES:
                    return True
        return False

    def numbers(self) -> Iterator[int]:
        """The integers that the text writes, besides those that are sizes of arrays."""
        for node in self._syntax.of_kinds("number_literal"):
            if not self._syntax.holds(node):
                continue
            digits = self._syntax.words(node).rstrip("uUlL")
            number = whole_number(digits) if digits.isdecimal() else None
            if number is None:
                continue
            parent = self._syntax.parent(node)
            if parent is None or parent.type != "array_declarator":
                yield number

    def guards(self) -> Iterator[Guard]:
        """Conditions that let only some threads through."""
        for node in self._syntax.of_kinds("if_statement"):
            condition = node.child_by_field_name("condition")
            attributes = self.attributes_of(condition)
            if condition is None or not attributes:
                continue
            kind: Literal["return", "wrap"] = "return"
            if not _only_returns(node.child_by_field_name("consequence")):
                kind = "wrap"
                if not any(child.type in COMPARISONS for child in walk(condition)):
                    continue
            yield Guard(kind, self._inside(condition), attributes, self._syntax.place(node))

    def stride_loops(self) -> Iterator[StrideLoop]:
        """Loops whose counter starts at a thread-dependent value."""
        for node in self._syntax.of_kinds("for_statement"):
            counter = self._counter(node.child_by_field_name("initializer"))
            update = node.child_by_field_name("update")
            if counter is None or update is None:
                continue
            name, initial = counter
            start = self.attributes_of(initial)
            if not start:
                continue
            yield StrideLoop(
                variable=self._syntax.words(name),
                start=start,
                step=self._step(update),
                step_text=self._syntax.words(update),
                place=self._syntax.place(node),
            )

    def _step(self, update: Node) -> frozenset[str]:
        """Attributes in the step, without those that the counter itself stems from."""
        assignments = [n for n in walk(update) if n.type == "assignment_expression"]
        found: set[str] = set()
        for assignment in assignments:
            right = assignment.child_by_field_name("right")
            left = _base(assignment.child_by_field_name("left"))
            counter = None if left is None else self._bindings.get(left.start_byte)
            for leaf in walk(right) if right is not None else ():
                own = self._bindings.get(leaf.start_byte)
                if leaf.type == "identifier" and (own is None or own is not counter):
                    found |= self.attributes_of(leaf)
        return frozenset(found)

    def _counter(self, initializer: Node | None) -> tuple[Node, Node] | None:
        """The counter's name and first value."""
        if initializer is None:
            return None
        for node in walk(initializer):
            if node.type == "init_declarator":
                declarator = node.child_by_field_name("declarator")
                names = unpack(declarator).names if declarator is not None else ()
                value = node.child_by_field_name("value")
                return (names[0], value) if names and value is not None else None
            if node.type == "assignment_expression":
                base = _base(node.child_by_field_name("left"))
                value = node.child_by_field_name("right")
                return (base, value) if base is not None and value is not None else None
        return None

    def barriers(self) -> Iterator[Barrier]:
        """Every barrier with its flags and the conditions that it stands under."""
        for node in self._syntax.of_kinds("call_expression"):
            callee = node.child_by_field_name("function")
            if callee is None:
                continue
            name = self._syntax.words(callee).rpartition("::")[2].strip()
            if name in BARRIERS:
                arguments = node.child_by_field_name("arguments")
                conditions = tuple(self._conditions(node))
                place = self._syntax.place(node)
                yield Barrier(name, self._flags(arguments), conditions, place)

    def _flags(self, arguments: Node | None) -> tuple[str, ...] | None:
        """The names behind ``mem_flags::``, None where the argument is anything else."""
        if arguments is None or len(arguments.named_children) != 1:
            return None
        flags: list[str] = []
        pending = [arguments.named_children[0]]
        while pending:
            node = pending.pop(0)
            words = "".join(self._syntax.words(node).split())
            if node.type == "qualified_identifier" and "mem_flags::" in words:
                flags.append(words.rpartition("::")[2])
            elif node.type in ("binary_expression", "parenthesized_expression"):
                pending[:0] = node.named_children
            else:
                return None
        return tuple(flags)

    def _conditions(self, node: Node) -> Iterator[Condition]:
        """The conditions around a node, innermost first."""
        child, parent = node, self._syntax.parent(node)
        while parent is not None and parent.type not in (
            "function_definition",
            "lambda_expression",
        ):
            kind = _branch(parent, child)
            condition = parent.child_by_field_name("condition")
            if kind is not None and condition is not None:
                yield Condition(
                    kind,
                    self._inside(condition),
                    self.attributes_of(condition),
                    self._syntax.place(condition),
                )
            child, parent = parent, self._syntax.parent(parent)

    def _inside(self, condition: Node) -> str:
        """A condition's text without the parentheses around it."""
        words = self._syntax.words(condition)
        if condition.type in ("condition_clause", "parenthesized_expression"):
            words = words[1:-1]
        return " ".join(words.split())


def _mentions(syntax: Syntax, scopes: Scopes) -> Iterator[tuple[int, Declaration | str]]:
    """Byte offset of each name that can carry an attribute's value, in order."""
    for node in syntax.of_kinds("identifier"):
        declaration = scopes.bindings.get(node.start_byte)
        if declaration is not None:
            yield node.start_byte, declaration
        elif (name := syntax.words(node)) in ATTRIBUTES:
            yield node.start_byte, name


def _factors(node: Node) -> tuple[Node, Node, str] | None:
    """The sides and the operator of an operation that multiplies or shifts to the left."""
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    symbol = node.child_by_field_name("operator")
    if left is None or right is None or symbol is None:
        return None
    return (left, right, symbol.type) if symbol.type in ("*", "*=", "<<", "<<=") else None


def _base(target: Node | None) -> Node | None:
    """The variable that an assignment changes: ``a`` in ``a[i].x``."""
    while target is not None and target.type in ("subscript_expression", "field_expression"):
        target = target.child_by_field_name("argument")
    return target if target is not None and target.type == "identifier" else None


def _branch(parent: Node, child: Node) -> ConditionKind | None:
    """How the child stands under the parent's condition, None when it does not."""
    if parent.type == "if_statement":
        if child == parent.child_by_field_name("consequence"):
            return "if"
        return "else" if child == parent.child_by_field_name("alternative") else None
    if parent.type == "conditional_expression":
        return None if child == parent.child_by_field_name("condition") else "conditional"
    kind = _LOOPS.get(parent.type)
    return kind if child == parent.child_by_field_name("body") else None


def _only_returns(statement: Node | None) -> bool:
    if statement is not None and statement.type == "compound_statement":
        inner = [child for child in statement.named_children if child.type != "comment"]
        statement = inner[0] if len(inner) == 1 else None
    return statement is not None and statement.type == "return_statement"
