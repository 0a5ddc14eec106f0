"""The accesses of a kernel to an array: reads and writes of elements, through pointers too.

``bodies`` decides from it whether an array is an input, an output or both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Literal, TypeAlias

from msgspec import Struct, field

from embercoach.metal.execution.parameter_uses import MAX_CALLS, OF_VALUES
from embercoach.metal.program.nodes import (
    Assign,
    Binary,
    Block,
    Call,
    Cast,
    Conditional,
    Construct,
    Declare,
    Evaluate,
    Expression,
    If,
    Index,
    Jump,
    Loop,
    Member,
    MetalFunction,
    Name,
    NumberLiteral,
    Opaque,
    OpaqueExpression,
    Program,
    Return,
    Switch,
    Unary,
    Variable,
)
from embercoach.metal.program.types import is_address
from embercoach.metal.program.walk import Node, Path, base, below, changed, children, with_path

_MAX_WORK = 200_000
_MAX_DEPTH = 40
_MAX_POINTERS = 40
#: Accesses of a kernel to one array that are compared with each other.
_MAX_ACCESSES = 128
#: Functions of Metal's library that write through an argument.
_WRITERS = frozenset({"sincos", "modf", "frexp", "fract"})
_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">=", "&&", "||"})
Key: TypeAlias = tuple[object, ...]


class Access(Struct, frozen=True, eq=False):
    """One access to an element.

    Attributes:
        element: the expression of it, with the component that is meant.
        path: the nodes around it.
        is_own: it is in the kernel's body, not in a function that is called.
    """

    kind: Literal["read", "store"]
    element: Expression
    path: Path
    is_own: bool


class ArrayFlow(Struct):
    """The accesses to an array, in the order of the text.

    Attributes:
        atomics: the atomic functions that access it.
        is_unclear: its address goes where it is not followed.
        is_passed: its address goes into a variable, a cast or a function.
    """

    accesses: list[Access] = field(default_factory=list)
    atomics: set[str] = field(default_factory=set)
    is_unclear: bool = False
    is_passed: bool = False


def array_flow(program: Program, function: MetalFunction, parameter: Variable) -> ArrayFlow:
    """Return what a kernel does with an array that is a parameter of it."""
    flow = _Follower(program, function, parameter).flow
    flow.is_unclear |= len(flow.accesses) > _MAX_ACCESSES
    return flow


class _Follower:
    def __init__(self, program: Program, function: MetalFunction, parameter: Variable) -> None:
        self.flow = ArrayFlow()
        self._problems = [one.spot.place.start for one in program.problems]
        self._seen: set[Variable] = set()
        self._variable(parameter, function.bodies, 0)

    def _variable(self, variable: Variable, bodies: Sequence[Block], depth: int) -> None:
        """Follow a pointer or a reference through the bodies that may use it."""
        if variable in self._seen:
            return
        self._seen.add(variable)
        is_pointer = not variable.type.reference
        is_far = depth > MAX_CALLS or len(self._seen) > _MAX_POINTERS
        self.flow.is_unclear |= is_far
        for body in bodies if not is_far else ():
            extent = body.spot.place
            self.flow.is_unclear |= any(extent.start <= at < extent.end for at in self._problems)
            for node, path in with_path(body):
                self.flow.is_unclear |= isinstance(node, Opaque)
                if isinstance(node, Name) and node.variable is variable:
                    self._climb(node, path, bodies, depth, is_pointer=is_pointer)

    def _climb(
        self, name: Name, path: Path, bodies: Sequence[Block], depth: int, *, is_pointer: bool
    ) -> None:
        """Follow a pointer, then an element, through the expressions around it."""
        current: Expression = name
        for at in range(len(path) - 1, -1, -1):
            parent = path[at]
            if is_pointer and isinstance(parent, Index) and parent.base is current:
                current, is_pointer = parent, is_address(parent.type)
            elif not is_pointer and _is_part(parent, current):
                assert isinstance(parent, (Index, Member))
                current, is_pointer = parent, is_address(parent.type)
            elif is_pointer and _is_moved(parent, current):
                self.flow.is_passed |= isinstance(parent, Cast)
                current = parent  # type: ignore[assignment]
            elif not is_pointer and isinstance(parent, Unary) and parent.operator == "&":
                current, is_pointer = parent, True
            elif is_pointer:
                self._pointer(current, parent, path[:at], bodies, depth)
                return
            else:
                self._element(current, parent, path[: at + 1], bodies, depth)
                return

    def _pointer(
        self, current: Node, parent: Node, path: Path, bodies: Sequence[Block], depth: int
    ) -> None:
        """Note where a pointer goes that is not used for an element here."""
        if isinstance(parent, Declare) and parent.variable.type.pointer:
            self.flow.is_passed = True
            self._variable(parent.variable, bodies, depth)
        elif isinstance(parent, Assign) and isinstance(parent.target, Name):
            if parent.value is current and parent.operator == "=":
                self.flow.is_passed = True
                self._variable(parent.target.variable, bodies, depth)
        elif isinstance(parent, Call) and current in parent.arguments:
            self.flow.is_passed = True
            self._called(parent, parent.arguments.index(current), (*path, parent), depth)
        else:
            number = isinstance(parent, Cast) and not is_address(parent.type)
            test = isinstance(parent, (If, Loop, Conditional, Evaluate)) or (
                isinstance(parent, Binary) and parent.operator in {*_COMPARISONS, "-"}
            )
            self.flow.is_unclear |= not (number or test)

    def _called(self, call: Call, place: int, path: Path, depth: int) -> None:
        """Follow an address into a call."""
        if call.functions and call.method is None:
            for function in call.functions:
                if place >= len(function.parameters) or not function.bodies:
                    self.flow.is_unclear = True
                    return
                self._variable(function.parameters[place], function.bodies, depth + 1)
        elif call.name.startswith("atomic_"):
            self.flow.atomics.add(call.name)
        elif call.name in ("simdgroup_load", "simdgroup_store") and place == 1:
            kind: Literal["read", "store"] = "read" if call.name.endswith("load") else "store"
            self.flow.accesses.append(Access(kind, call, path, is_own=False))
        else:
            self.flow.is_unclear = True

    def _element(
        self, element: Expression, parent: Node, path: Path, bodies: Sequence[Block], depth: int
    ) -> None:
        """Note the access to an element that the node above it makes."""
        is_own = depth == 0
        if isinstance(parent, Assign) and parent.target is element:
            if parent.operator != "=" or parent.postfix:
                self.flow.accesses.append(Access("read", element, path, is_own))
            self.flow.accesses.append(Access("store", element, path, is_own))
        elif isinstance(parent, Declare) and parent.variable.type.reference:
            self._variable(parent.variable, bodies, depth)
        elif isinstance(parent, Call) and self._by_reference(parent, element, depth):
            pass
        else:
            self.flow.accesses.append(Access("read", element, path, is_own))

    def _by_reference(self, call: Call, element: Expression, depth: int) -> bool:
        """Follow an element that a call may write to; return whether it may."""
        if call.method is not None or call.name in _WRITERS or element not in call.arguments:
            self.flow.is_unclear = True
            return True
        place = call.arguments.index(element)
        if any(place >= len(function.parameters) for function in call.functions):
            self.flow.is_unclear = True
            return True
        taken = [(f.parameters[place], f.bodies) for f in call.functions]
        if not any(variable.type.reference for variable, _ in taken):
            return False
        self.flow.is_passed = True
        for variable, bodies in taken:
            self.flow.is_unclear |= not bodies
            self._variable(variable, bodies, depth + 1)
        return True


def _is_part(parent: Node, current: Node) -> bool:
    return isinstance(parent, (Index, Member)) and parent.base is current


def _is_moved(parent: Node, current: Node) -> bool:
    """Return whether an expression is a pointer too, into the array of the one below it."""
    if isinstance(parent, Binary) and parent.operator in ("+", "-"):
        other = parent.right if parent.left is current else parent.left
        return not is_address(other.type)
    if isinstance(parent, Conditional):
        return parent.condition is not current
    return isinstance(parent, Cast) and is_address(parent.type)


def whole_element(access: Access) -> Access:
    """Return an access to all components of an element."""
    element = access.element
    while isinstance(element, Member):
        element = element.base
    return Access(access.kind, element, access.path, access.is_own)


def reads_before_stores(keys: Keys, flow: ArrayFlow) -> list[Access]:
    """Return the reads that may find what the thread itself has not written."""
    stores = [one for one in flow.accesses if one.kind == "store" and one.is_own]
    return [
        one
        for one in flow.accesses
        if one.kind == "read"
        and not (one.is_own and any(keys.is_covered(one, store) for store in stores))
    ]


def may_keep_values(keys: Keys, flow: ArrayFlow) -> bool:
    """Return whether some elements may keep their values, by data or by where the others are."""
    stores = [one for one in flow.accesses if one.kind == "store" and one.is_own]
    if any(map(keys.is_at_data, stores)) or (stores and all(map(keys.is_shifted, stores))):
        return True
    rounds = [keys.rounds(one) for one in stores]
    for one, key in zip(stores, rounds, strict=True):
        same = [
            id(other.element)
            for other, its in zip(stores, rounds, strict=True)
            if other is one or (key is not None and its == key)
        ]
        is_left = keys.is_for_data(one.path, same)
        if is_left and not any(keys.is_covered(one, other) for other in stores if other is not one):
            return True
    return False


class Keys:
    """Values that are the same wherever the kernel computes them, as keys that compare equal."""

    def __init__(self, function: MetalFunction, outer: Mapping[str, str]) -> None:
        """Read a kernel.

        Args:
            function: the kernel.
            outer: thread attributes at file scope, by the names that the file gives them.
        """
        self._body = function.bodies[0]
        self._outer = outer
        self._initial: dict[Variable, Expression] = {}
        #: How often each variable may get another value.
        self._changes: dict[Variable, int] = {}
        self._work, self._depth = _MAX_WORK, 0
        #: What decides the values that variables get after the first one; None for anything.
        self._sources: dict[Variable, list[Expression | None]] = {}
        for node, path in with_path(self._body):
            if isinstance(node, Declare) and node.initial is not None:
                self._initial[node.variable] = node.initial
            for variable in _changed_by(node):
                self._changes[variable] = self._changes.get(variable, 0) + 1
                value = node.value if isinstance(node, Assign) else None
                tests = (one.condition for one in path if isinstance(one, (If, Loop)))
                found = [value, *(test for test in tests if test is not None)]
                self._sources.setdefault(variable, []).extend(found)

    def _behind(self, node: Expression) -> Iterator[Node | None]:
        """Yield all that decides a value, through variables; None for what is not known."""
        pending: list[Node | None] = [node]
        seen: set[Variable] = set()
        while pending:
            current = pending.pop()
            yield current
            if current is None:
                continue
            pending.extend(children(current))
            if isinstance(current, Name) and current.variable not in seen:
                seen.add(current.variable)
                pending += self._sources.get(current.variable, ())
                initial = self._initial.get(current.variable)
                pending += [] if initial is None else [initial]

    def depends_on_data(self, node: Expression) -> bool:
        """Return whether elements of arrays decide a value; one at a fixed place is a scalar."""
        return any(
            one is None
            or isinstance(one, OpaqueExpression)
            or (isinstance(one, Index) and not _is_scalar(one))
            for one in self._behind(node)
        )

    def attributes_of(self, node: Expression) -> set[str]:
        """Return the thread attributes that decide a value."""
        variables = [one.variable for one in self._behind(node) if isinstance(one, Name)]
        found = {one.attribute or self._outer.get(one.name, "") for one in variables}
        return found - {""}

    def is_dense(self, access: Access) -> bool:
        """Return whether neighbours get the elements side by side, from the form of the index."""
        terms = self._terms(access)
        steps = [one for one in terms if isinstance(one, (Name, Member))]
        products = [one for one in terms if isinstance(one, Binary) and one.operator == "*"]
        return (
            len(steps) == 1
            and len(terms) == len(steps) + len(products)
            and all(map(self.attributes_of, terms))
        )

    def is_shifted(self, access: Access) -> bool:
        """Return whether all threads get elements from a common place on, such as a row's."""
        return any(
            not (isinstance(one, NumberLiteral) or self.attributes_of(one) or self._counts(one))
            for one in self._terms(access)
        )

    def _counts(self, term: Expression) -> bool:
        """Return whether a value is another one in each round of a loop."""
        behind = self._behind(term)
        return any(isinstance(one, Name) and self._is_counter(one.variable) for one in behind)

    def _terms(self, access: Access) -> list[Expression]:
        """Return what is added up to the place of an element."""
        terms: list[Expression] = []
        pending = self.offsets(access) or []
        while pending:
            one = pending.pop()
            initial = self.initial(one.variable) if isinstance(one, Name) else None
            if isinstance(one, Binary) and one.operator == "+":
                pending += (one.left, one.right)
            elif initial is not None:
                pending.append(initial)
            elif not (isinstance(one, NumberLiteral) and one.value == 0):
                terms.append(one)
        return terms

    def offsets(self, access: Access) -> list[Expression] | None:
        """Return what is added to an array's address for an element, None where it changes."""
        element: Expression = whole_element(access).element
        found: list[Expression] = []
        while not isinstance(element, Name) or element.variable.kind != "parameter":
            if isinstance(element, Index):
                found.insert(0, element.index)
                element = element.base
            elif isinstance(element, Member):
                element = element.base
            elif isinstance(element, Binary) and element.operator == "+":
                found.insert(0, element.right)
                element = element.left
            else:
                initial = self.initial(element.variable) if isinstance(element, Name) else None
                if initial is None:
                    return None
                element = initial
        return found

    def is_at_data(self, access: Access) -> bool:
        """Return whether elements of arrays decide where an element is."""
        offsets = self.offsets(access)
        return offsets is None or any(map(self.depends_on_data, offsets))

    def rounds(self, access: Access) -> Key | None:
        """Return the loops around an access and its place, equal for those to the same elements."""
        loops: list[Loop] = []
        frames: list[object] = []
        for node, inner in pairwise(access.path):
            if isinstance(node, Loop):
                frames.append(self.frame(node, inner, loops))
                loops.append(node)
        place = self.place(access, loops)
        return None if place is None or None in frames else (*frames, place)

    def is_for_data(self, path: Path, same: Sequence[int] = ()) -> bool:
        """Return whether data decide if a thread comes to the end of a path.

        Args:
            path: from the body on.
            same: by identity the elements whose use on the other ways is as good.
        """
        for node, inner in pairwise(path):
            skipped: list[Node | None] = []
            if isinstance(node, If) and inner is not node.condition:
                skipped = [node.otherwise if inner is node.then else node.then]
            elif isinstance(node, Conditional) and inner is not node.condition:
                return True
            elif isinstance(node, Block):
                at = next(at for at, one in enumerate(node.statements) if one is inner)
                skipped = [one for one in node.statements[:at] if self._leaves_for_data(one)]
            if isinstance(node, If) and not self.depends_on_data(node.condition):
                continue
            for one in skipped:
                if one is None or not any(id(part) in same for part in below(one)):
                    return True
        return False

    def _leaves_for_data(self, node: Node) -> bool:
        """Return whether data decide if a statement leaves the loop or the kernel around it."""
        return any(
            isinstance(inner, (Return, Jump))
            and any(
                isinstance(above, (If, Loop))
                and above.condition is not None
                and self.depends_on_data(above.condition)
                for above in path
            )
            for inner, path in with_path(node)
        )

    def initial(self, variable: Variable) -> Expression | None:
        """Return the first value of a variable that has no other."""
        return None if variable in self._changes else self._initial.get(variable)

    def place(self, access: Access, loops: Sequence[Loop] = ()) -> tuple[Key, Key] | None:
        """Return the address of an element and its component, None where it may change."""
        element, components = access.element, list[object]()
        while isinstance(element, Member):
            components.insert(0, element.field)
            element = element.base
        numbers = {one: at for at, loop in enumerate(loops) for one in _started(loop)}
        address = self._address(element, numbers)
        return None if address is None else (address, tuple(components))

    def _address(self, node: Expression, numbers: dict[Variable, int]) -> Key | None:
        """Return what is added up to an address."""
        return self._deeper(self._sum, node, numbers)

    def _deeper(
        self,
        rule: Callable[[Expression, dict[Variable, int]], Key | None],
        node: Expression,
        numbers: dict[Variable, int],
    ) -> Key | None:
        if self._depth == _MAX_DEPTH:
            return None
        self._depth += 1
        found = rule(node, numbers)
        self._depth -= 1
        return found

    def _sum(self, node: Expression, numbers: dict[Variable, int]) -> Key | None:
        if isinstance(node, Name):
            variable = node.variable
            if variable.kind == "parameter":
                return None if variable in self._changes else (variable,)
            initial = self.initial(variable)
            return None if initial is None else self._address(initial, numbers)
        if isinstance(node, Cast):
            inner = self._address(node.operand, numbers)
            return None if inner is None else (*inner, ("as", node.type.scalar, node.type.width))
        if isinstance(node, Unary) and node.operator == "&":
            return self._address(node.operand, numbers)
        if isinstance(node, Member):
            inner = self._address(node.base, numbers)
            return None if inner is None else (*inner, (".", node.field))
        pair = None
        if isinstance(node, Index):
            pair = node.base, node.index
        elif isinstance(node, Binary) and node.operator == "+":
            pair = node.left, node.right
            if not is_address(node.left.type):
                pair = node.right, node.left
        if pair is None:
            return None
        address, offset = self._address(pair[0], numbers), self._value(pair[1], numbers)
        if address is None or offset is None:
            return None
        return address if offset == (0,) else (*address, offset)

    def _value(self, node: Expression, numbers: dict[Variable, int]) -> Key | None:
        self._work -= 1
        return None if self._work < 0 else self._deeper(self._key, node, numbers)

    def _key(self, node: Expression, numbers: dict[Variable, int]) -> Key | None:
        if isinstance(node, NumberLiteral):
            return (node.value,)
        if isinstance(node, Name):
            return self._variable(node.variable, numbers)
        kind: Key
        parts: tuple[Expression, ...]
        if isinstance(node, Binary):
            kind, parts = (node.operator,), (node.left, node.right)
        elif isinstance(node, (Cast, Construct)):
            kind = (node.type.scalar, node.type.width)
            parts = (node.operand,) if isinstance(node, Cast) else node.parts
        elif isinstance(node, Member):
            kind, parts = (node.field,), (node.base,)
        elif isinstance(node, Call) and not node.functions and node.name in OF_VALUES:
            kind, parts = (node.name,), node.arguments
        elif (
            isinstance(node, Index)
            and isinstance(node.base, Name)
            and node.base.variable.kind == "parameter"
            and node.base.variable.constant  # nothing changes its elements
        ):
            kind, parts = ("[]",), (node.base, node.index)
        else:
            return None
        keys = [self._value(part, numbers) for part in parts]
        return None if None in keys else (kind, *keys)

    def _variable(self, variable: Variable, numbers: dict[Variable, int]) -> Key | None:
        if variable in numbers:
            return ("loop", numbers[variable])
        if variable in self._changes:
            return (variable,) if self._is_counter(variable) else None
        initial = self._initial.get(variable)
        return (initial is not None and self._value(initial, numbers)) or (variable,)

    def _is_counter(self, variable: Variable) -> bool:
        """Return whether only the step of its loop changes a variable."""
        return self._changes.get(variable) == 1 and variable in self._counters

    @cached_property
    def _counters(self) -> frozenset[Variable]:
        """The variables that the step of their loop changes."""
        loops = (node for node in below(self._body) if isinstance(node, Loop))
        return frozenset(
            variable
            for loop in loops
            if loop.step is not None
            for variable in changed(loop.step).intersection(_started(loop))
        )

    def is_covered(self, read: Access, store: Access) -> bool:
        """Return whether a thread that reads an element has written it before with a store."""
        common = 0
        while read.path[common] is store.path[common]:
            common += 1
            if common in (len(read.path), len(store.path)):
                return False
        block = read.path[common - 1]
        if not isinstance(block, Block) or not _is_in_order(
            block, store.path[common], read.path[common]
        ):
            return False
        frames = self._matched(store.path[common:], read.path[common:])
        if frames is None:
            return False
        ours, theirs = self.place(store, frames[0]), self.place(read, frames[1])
        if ours is None or theirs is None:
            return False
        return ours[0] == theirs[0] and theirs[1][: len(ours[1])] == ours[1]

    def _matched(self, store: Path, read: Path) -> tuple[list[Loop], list[Loop]] | None:
        """Return the loops around a store with those around a read that run the same rounds."""
        pending = pairwise(read)
        ours, theirs = list[Loop](), list[Loop]()
        for node, inner in pairwise(store):
            if isinstance(node, (Block, Evaluate)):
                continue
            if not isinstance(node, (Loop, If)):
                # The store is in an expression: it must not be one that may be skipped.
                return None
            if isinstance(node, Loop) and (inner is not node.body or _jumps(node.body)):
                return None
            key = self.frame(node, inner, ours)
            found = next(
                (
                    frame
                    for frame, below_it in pending
                    if key is not None
                    and isinstance(frame, (Loop, If))
                    and self.frame(frame, below_it, theirs) == key
                ),
                None,
            )
            if found is None:
                return None
            if isinstance(node, Loop) and isinstance(found, Loop):
                ours.append(node)
                theirs.append(found)
        return ours, theirs

    def frame(self, node: Loop | If, inner: Node, loops: Sequence[Loop]) -> Key | None:
        """Return what decides how often a statement runs in the statement around it."""
        outer = {one: at for at, loop in enumerate(loops) for one in _started(loop)}
        if isinstance(node, If):
            tested = self._value(node.condition, outer)
            return None if tested is None else ("if", tested, inner is node.then)
        started = list(_started(node))
        if len(started) != 1 or len(node.start) != 1 or not self._is_counter(started[0]):
            return None
        numbers = {**outer, started[0]: len(loops)}
        step = node.step
        if not isinstance(step, Assign) or node.condition is None or inner is not node.body:
            return None
        first = self._value(self._initial[started[0]], numbers)
        last, by = self._value(node.condition, numbers), self._value(step.value, numbers)
        found = (node.kind, first, last, step.operator, by)
        return None if None in found else found


def _changed_by(node: Node) -> Iterator[Variable]:
    """Yield the variables that a node itself may change; not what pointers point to."""
    if isinstance(node, Assign):
        variable = base(node.target)
        if variable is not None and (isinstance(node.target, Name) or not variable.type.pointer):
            yield variable
    elif isinstance(node, Call):
        writes = node.method is not None or node.name in _WRITERS
        writes |= any(
            one.type.reference for function in node.functions for one in function.parameters
        )
        yield from (v for v in changed(node) if writes or v.type.dimensions)
    elif isinstance(node, OpaqueExpression) or (isinstance(node, Unary) and node.operator == "&"):
        yield from (v for v in changed(node) if not isinstance(node, Unary) or not v.type.pointer)


def _started(loop: Loop) -> Iterator[Variable]:
    """Yield the variables that a loop declares with a first value."""
    for one in loop.start:
        if isinstance(one, Declare) and one.initial is not None:
            yield one.variable


def _is_in_order(block: Block, first: Node, second: Node) -> bool:
    statements = list(block.statements)
    at = next((n for n, one in enumerate(statements) if one is first), None)
    then = next((n for n, one in enumerate(statements) if one is second), None)
    return at is not None and then is not None and at < then


def _jumps(node: Node) -> bool:
    return any(isinstance(inner, (Jump, Return, Switch)) for inner in below(node))


def _is_scalar(node: Index) -> bool:
    """Return whether an element is a scalar that is passed in a buffer: ``n[0]``."""
    array = node.base.variable if isinstance(node.base, Name) else None
    is_passed = array is not None and array.kind == "parameter"
    return is_passed and isinstance(node.index, NumberLiteral)
