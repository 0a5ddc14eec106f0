"""KERNEL-INDEX: unsigned numbers meant to go below 0, as the first thread shows."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Literal, TypeAlias

from embercoach.checks.programs.kernel_plans import values_of
from embercoach.checks.programs.metal_checks import MetalCode, MetalReport, once_at_each_start
from embercoach.checks.registry import check
from embercoach.metal import hazards
from embercoach.metal.program.nodes import (
    Assign,
    Binary,
    Block,
    Call,
    Cast,
    Conditional,
    Declare,
    Expression,
    If,
    Index,
    Jump,
    Loop,
    Member,
    Name,
    NumberLiteral,
    Program,
    Return,
    Switch,
    Unary,
    Variable,
)
from embercoach.metal.program.types import INTEGERS, is_address, is_integer, is_signed
from embercoach.metal.program.walk import (
    FLIPPED,
    Node,
    Path,
    Values,
    base,
    below,
    bodies,
    changed,
    fold,
    mentioned,
    with_path,
)
from embercoach.metal.tokens import ARITHMETIC, COMPARISONS

CODE = "KERNEL-INDEX-001"
#: Attributes that are 0 for some thread of every launch; one thread has all of them 0.
POSITIONS = frozenset(
    {
        *("quadgroup_index_in_threadgroup", "simdgroup_index_in_threadgroup"),
        *("thread_index_in_quadgroup", "thread_index_in_simdgroup", "thread_index_in_threadgroup"),
        *("thread_position_in_grid", "thread_position_in_threadgroup"),
        "threadgroup_position_in_grid",
    }
)
_SIZES = frozenset({"threads_per_grid", "threadgroups_per_grid", "threads_per_threadgroup"})
_WIDE = INTEGERS["int"][0]


#: An integer, or an infinite number: one beyond any that is written.
Quantity: TypeAlias = "int | float"
LARGE = inf
#: Beyond every integer of a kernel, and not of a float.
_MOST = 1 << 64


class FirstThread:
    """The values and conditions of a body in the first pass of its first thread."""

    def __init__(self, body: Node, values: Values) -> None:
        self.values = values
        self._initial: dict[Variable, Expression] = {}
        self._resolving: set[Variable] = set()
        nodes = tuple(below(body))
        # In the first turn of its loop a counter holds its first value.
        steps = {id(n.step) for n in nodes if isinstance(n, Loop) and _counts(n)}
        for node in nodes:
            if isinstance(node, Declare) and node.initial is not None:
                self._initial[node.variable] = node.initial
        for node in nodes:
            if isinstance(node, (Assign, Call, Unary)) and id(node) not in steps:
                for variable in _changed_here(node):
                    self._initial.pop(variable, None)

    def value(self, expression: Expression) -> Quantity | None:
        """Return the value of an integer expression without wrapping; None when unknown."""
        if isinstance(expression, NumberLiteral):
            return expression.value if isinstance(expression.value, int) else None
        if isinstance(expression, Name):
            return self._variable(expression)
        if isinstance(expression, Member):
            return self._component(expression)
        if isinstance(expression, Index):
            owner = base(expression)
            is_shape = owner is not None and owner.kind == "metadata" and _names_shape(owner)
            return LARGE if is_shape else None
        if isinstance(expression, Cast):
            wide = is_integer(expression.type) and _rank(expression) >= _WIDE
            found = self.value(expression.operand) if wide and not expression.bits else None
            return found if is_integer(expression.operand.type) else None
        if isinstance(expression, Unary):
            return self._unary(expression)
        if isinstance(expression, Binary):
            return self._binary(expression)
        if isinstance(expression, Conditional):
            chosen = self.holds(expression.condition)
            if chosen is None:
                return None
            return self.value(expression.then if chosen else expression.otherwise)
        return None

    def _variable(self, name: Name) -> Quantity | None:
        variable = name.variable
        known = self.values.get(variable)
        if known is not None:
            return known if isinstance(known, int) else None
        if variable.kind == "attribute" and name.type.width == 1:
            return _of_attribute(variable.attribute)
        if variable.kind in ("input", "parameter") and variable.type.reference:
            return LARGE if is_integer(variable.type) else None
        initial = self._initial.get(variable)
        wide = is_integer(variable.type) and _rank(name) >= _WIDE and variable.type.width == 1
        if initial is None or not wide or variable in self._resolving:
            return None
        self._resolving.add(variable)
        found = self.value(initial)
        self._resolving.discard(variable)
        return found

    def _component(self, member: Member) -> Quantity | None:
        inner = member.base
        if isinstance(inner, Name) and inner.variable.kind == "attribute":
            return _of_attribute(inner.variable.attribute) if len(member.field) == 1 else None
        if isinstance(inner, Name) and len(member.field) == 1:
            initial = self._initial.get(inner.variable)
            if isinstance(initial, (Name, Member)) and is_integer(initial.type):
                source = initial if isinstance(initial, Name) else initial.base
                if isinstance(source, Name) and source.variable.kind == "attribute":
                    return _of_attribute(source.variable.attribute)
        return None

    def _unary(self, expression: Unary) -> Quantity | None:
        if expression.operator == "!":
            holds = self.holds(expression.operand)
            return None if holds is None else int(not holds)
        found = self.value(expression.operand)
        if expression.operator == "-" and found is not None:
            return -found
        return found if expression.operator == "+" else None

    def _binary(self, expression: Binary) -> Quantity | None:
        if expression.operator in COMPARISONS or expression.operator in ("&&", "||"):
            holds = self.holds(expression)
            return None if holds is None else int(holds)
        if is_address(expression.left.type) or is_address(expression.right.type):
            return None
        left, right = self.value(expression.left), self.value(expression.right)
        if left is None or right is None:
            return 0 if expression.operator == "*" and 0 in (left, right) else None
        return _combined(expression.operator, left, right)

    def offset(self, address: Expression) -> tuple[Variable, Quantity] | None:
        """Return the buffer that an address lies in, and the element, not wrapped around."""
        if isinstance(address, Name):
            if _is_buffer(address.variable):
                return address.variable, 0
            initial = self._initial.get(address.variable)
            same = initial is not None and _points_alike(initial, address)
            return self.offset(initial) if initial is not None and same else None
        if isinstance(address, Binary) and address.operator in "+-":
            forward = is_address(address.left.type)
            base_, by = (address.left, address.right) if forward else (address.right, address.left)
            inner, step = self.offset(base_), self.value(by)
            if inner is None or step is None:
                return None
            moved = _combined(address.operator, inner[1], step)
            return None if moved is None else (inner[0], moved)
        return None

    def holds(self, condition: Expression) -> bool | None:
        """Return whether a condition holds, None when that is unknown."""
        if isinstance(condition, Binary):
            operator = condition.operator
            if operator in ("&&", "||"):
                sides = (self.holds(condition.left), self.holds(condition.right))
                decisive = operator == "||"
                if decisive in sides:
                    return decisive
                return None if None in sides else not decisive
            if operator in COMPARISONS:
                return self._compared(condition)
        if isinstance(condition, Unary) and condition.operator == "!":
            found = self.holds(condition.operand)
            return None if found is None else not found
        value = self.value(condition)
        return None if value is None else value != 0

    def _compared(self, condition: Binary) -> bool | None:
        left, right = self.value(condition.left), self.value(condition.right)
        if left is None or right is None:
            return None
        if (left < 0 or right < 0) and not (
            is_signed(condition.left.type) and is_signed(condition.right.type)
        ):
            return None
        order = _order(left, right)
        return None if order is None else COMPARISONS[condition.operator](order, 0)

    def reaches(self, node: Node, path: Path) -> bool:
        """Return whether the thread certainly reaches a node.

        Args:
            node: any node.
            path: the nodes around it, outermost first.
        """
        inside = (*path[1:], node)
        return all(self._enters(outer, inner) for outer, inner in zip(path, inside, strict=True))

    def _enters(self, outer: Node, inner: Node) -> bool:
        """Return whether the thread enters the child of a node, the first time."""
        if isinstance(outer, Block):
            return all(self._passes(s) for s in _before(outer, inner))
        if isinstance(outer, If):
            if inner is outer.condition:
                return True
            return self.holds(outer.condition) is (inner is outer.then)
        if isinstance(outer, Conditional):
            if inner is outer.condition:
                return True
            return self.holds(outer.condition) is (inner is outer.then)
        if isinstance(outer, Loop):
            started = inner in outer.start or inner is outer.condition or outer.kind == "do"
            condition = outer.condition
            return inner is not outer.step and (
                started or condition is None or self.holds(condition) is True
            )
        if isinstance(outer, Binary) and outer.operator in ("&&", "||") and inner is outer.right:
            return self.holds(outer.left) is (outer.operator == "&&")
        return not isinstance(outer, Switch)

    def _passes(self, statement: Node) -> bool:
        """Return whether the thread certainly continues after a statement."""
        if not any(isinstance(node, (Return, Jump, Switch)) for node in below(statement)):
            return True
        if isinstance(statement, If):
            holds = self.holds(statement.condition)
            if holds is None:
                return False
            taken = statement.then if holds else statement.otherwise
            return taken is None or self._passes(taken)
        if isinstance(statement, Block):
            return all(map(self._passes, statement.statements))
        return isinstance(statement, Loop) and not any(
            isinstance(node, (Return, Switch)) for node in below(statement)
        )


def _counts(loop: Loop) -> bool:
    """Return whether a loop declares a variable that its step changes."""
    first = loop.start[0] if len(loop.start) == 1 else None
    step = loop.step
    if not isinstance(first, Declare) or not isinstance(step, Assign):
        return False
    return isinstance(step.target, Name) and step.target.variable is first.variable


def _changed_here(node: Assign | Call | Unary) -> frozenset[Variable]:
    """Return the variables that one operation changes itself."""
    if isinstance(node, Assign):
        variable = base(node.target)
        return frozenset() if variable is None else frozenset({variable})
    return changed(node)


def _is_buffer(variable: Variable) -> bool:
    if variable.kind == "parameter":
        return variable.type.pointer and variable.type.space in ("device", "constant")
    return variable.kind in ("input", "output")


def _names_shape(variable: Variable) -> bool:
    return variable.name.endswith("_shape")


def _points_alike(one: Expression, other: Expression) -> bool:
    return (one.type.scalar, one.type.width) == (other.type.scalar, other.type.width)


def _before(block: Block, inner: Node) -> tuple[Node, ...]:
    for number, statement in enumerate(block.statements):
        if statement is inner:
            return block.statements[:number]
    return block.statements


def _of_attribute(name: str) -> Quantity | None:
    if name in POSITIONS:
        return 0
    return LARGE if name in _SIZES else None


def _rank(expression: Expression) -> int:
    return INTEGERS.get(expression.type.scalar or "", (0, False))[0]


def _combined(operator: str, left: Quantity, right: Quantity) -> Quantity | None:
    if operator == "*" and 0 in (left, right):
        return 0
    if operator in ARITHMETIC:
        if isinstance(left, float) or isinstance(right, float):
            left, right = (
                max(-_MOST, min(n, _MOST)) if isinstance(n, int) else n for n in (left, right)
            )
        found = ARITHMETIC[operator](left, right)
        return found if found == found else None  # noqa: PLR0124  (infinite less infinite)
    if isinstance(left, int) and isinstance(right, int) and right > 0 and left >= 0:
        return {"/": left // right, "%": left % right}.get(operator)
    return None


def _order(left: Quantity, right: Quantity) -> int | None:
    """Return a number with the sign of left minus right, None when unknown."""
    if left == right and isinstance(left, float):
        return None
    return (left > right) - (left < right)


_ALWAYS = {">=": True, "<": False}
#: Functions with a lower bound, and the number of their arguments.
_BOUNDING = {"max": 2, "clamp": 3}
_LESS = frozenset({"<", "<="})
_MORE = frozenset({">", ">="})


def settled_comparisons(program: Program, values: Values) -> Iterator[MetalReport]:
    """Comparisons with 0 that are meant to catch numbers below it, and can't.

    Those of a number that nothing is subtracted from are left out, and those next to a comparison
    with an upper bound, which catches the number that wrapped around.
    """
    for body in bodies(program):
        nodes = tuple(with_path(body))
        lowered = _lowered(body)
        for node, path in nodes:
            if not isinstance(node, Binary):
                continue
            found = _settled(node, values)
            if found is None:
                continue
            outcome, compared = found
            loop = _counting_down(path, node, compared)
            suspicious = loop or _subtracts(compared) or mentioned(compared) & lowered
            if suspicious and not _is_bounded(node, path, compared):
                harm = "the loop never ends" if loop else "below 0 it wraps around"
                yield MetalReport(
                    CODE,
                    node.spot,
                    f"comparison of unsigned `{compared.type.scalar}` is always "
                    f"{'true' if outcome else 'false'}: {harm}",
                    "Use `int`, or compare before subtracting: `i > 0`, `i >= k`",
                )


def void_bounds(program: Program, values: Values) -> Iterator[MetalReport]:
    """Lower bounds of 0 of unsigned differences, but under conditions on their operands."""
    for body in bodies(program):
        lowered = _lowered(body)
        for node, path in with_path(body):
            if isinstance(node, Call) and node.name in _BOUNDING and not node.template:
                bounded = _bounded_below(node, values)
                if bounded is None or _is_guarded(path, bounded):
                    continue
                if _subtracts(bounded) or mentioned(bounded) & lowered:
                    yield MetalReport(
                        CODE,
                        node.spot,
                        f"`{node.name}` with 0 has no effect: unsigned `{bounded.type.scalar}` "
                        "wraps around below 0",
                        "Convert before subtracting: `max(int(i) - 1, 0)`, or write "
                        "`max(i, 1u) - 1`",
                    )


def _bounded_below(call: Call, values: Values) -> Expression | None:
    """Return the number of ``max(number, 0u)`` or ``clamp(number, 0u, most)`` of unsigned type."""
    if any(is_signed(a.type) is not False or a.type.scalar == "bool" for a in call.arguments):
        return None
    if call.functions or len(call.arguments) != _BOUNDING[call.name]:
        return None
    number, least = call.arguments[:2]
    if call.name == "max" and fold(number, values) == 0:
        number, least = least, number
    known = fold(least, values) != 0 or fold(number, values) is not None
    return None if known else number


def _is_guarded(path: Path, number: Expression) -> bool:
    """Return whether a condition around a number asks for one of its variables."""
    names = mentioned(number)
    return any(
        isinstance(outer, (If, Conditional, Loop))
        and outer.condition is not None
        and names & mentioned(outer.condition)
        for outer in path
    )


def _settled(node: Binary, values: Values) -> tuple[bool, Expression] | None:
    """The outcome of a comparison with 0, and what is compared; None if it has no certain one."""
    for number, other, operator in (
        (node.left, node.right, node.operator),
        (node.right, node.left, FLIPPED.get(node.operator, "")),
    ):
        outcome = _ALWAYS.get(operator)
        unsigned = is_signed(number.type) is False and number.type.scalar != "bool"
        if outcome is not None and unsigned and fold(other, values) == 0:
            return None if fold(number, values) is not None else (outcome, number)
    return None


def _lowered(body: Node) -> frozenset[Variable]:
    """Return the variables that something is subtracted from, or that hold a difference."""
    found: set[Variable] = set()
    for node in below(body):
        if isinstance(node, Declare) and node.initial is not None and _subtracts(node.initial):
            found.add(node.variable)
        elif isinstance(node, Assign):
            variable = base(node.target)
            less = node.operator == "-=" or (node.operator == "=" and _subtracts(node.value))
            if less and variable is not None:
                found.add(variable)
    return frozenset(found)


def _subtracts(value: Expression) -> bool:
    return any(isinstance(inner, Binary) and inner.operator == "-" for inner in below(value))


def _counting_down(path: Path, node: Binary, compared: Expression) -> bool:
    """Return whether a comparison alone continues a loop that decrements its operand."""
    around = path[-1] if path else None
    if not isinstance(around, Loop) or around.condition is not node:
        return False
    if not isinstance(compared, Name):
        return False
    changes = {
        inner.operator
        for inner in below(around)
        if isinstance(inner, Assign)
        and isinstance(inner.target, Name)
        and inner.target.variable is compared.variable
    }
    return "-=" in changes and "+=" not in changes


def _is_bounded(node: Binary, path: Path, compared: Expression) -> bool:
    """Return whether another comparison excludes numbers that wrapped around."""
    names = mentioned(compared)
    top: Node = node
    for outer in reversed(path):
        if not isinstance(outer, Binary) or outer.operator not in ("&&", "||"):
            break
        top = outer
    return any(
        isinstance(inner, Binary)
        and inner is not node
        and inner.operator in (*_LESS, *_MORE, "==", "!=")
        and names & mentioned(inner)
        for inner in below(top)
    )


def wrapped_indices(program: Program, values: Values) -> Iterator[MetalReport]:
    """Elements of inputs and outputs in front of the first, which the first thread touches.

    Only accesses that it certainly reaches are reported: a condition that excludes it, or that is
    not understood, silences the code under it.
    """
    body = program.body
    if body is None:
        return
    thread = FirstThread(body, values)
    for node, path in with_path(body):
        if not isinstance(node, Index) or not is_address(node.base.type):
            continue
        found = thread.offset(node.base)
        index = thread.value(node.index)
        if found is None or found[1] != 0 or index is None or index >= 0:
            continue
        if thread.reaches(node, path) and not _is_address_of(path):
            number = "below 0" if isinstance(index, float) else f"{index}"
            wraps = " (wraps around)" if is_signed(node.index.type) is False else ""
            why = f"index is {number}{wraps} in the first thread"
            yield MetalReport(
                CODE,
                node.index.spot,
                hazards.out_of_bounds(_use(node, path), found[0].name, why),
                "Guard it: `i > 0 ? x[i - 1] : 0`, or `x[max(i, 1u) - 1]`",
            )


def _use(node: Index, path: Path) -> Literal["read", "write"]:
    around = path[-1] if path else None
    return "write" if isinstance(around, Assign) and around.target is node else "read"


def _is_address_of(path: Path) -> bool:
    """Return whether only the address of an element is taken."""
    around = path[-1] if path else None
    return getattr(around, "operator", "") == "&" and not isinstance(around, Binary)


@check(CODE)
def unsigned_numbers(code: MetalCode) -> Iterator[MetalReport]:
    """Comparisons that always have the same outcome, and indices that wrap around."""
    if "-" not in code.text.text:
        return

    reports: list[MetalReport] = []
    for kernel in code.kernels:
        values = values_of(kernel)
        for inspection in (settled_comparisons, void_bounds, wrapped_indices):
            reports += inspection(kernel.own, values)
    yield from once_at_each_start(reports)
