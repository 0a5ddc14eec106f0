"""The copies of the caller's values that an updated array begins with.

An array that a kernel reads and writes is an input and an output for MLX. Where each thread has
elements that no other thread uses, it copies them in front of their first use; otherwise the
threads of one threadgroup copy the whole array.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

from embercoach.metal.contract import shape_names
from embercoach.metal.porting.array_flows import Access, ArrayFlow, Keys, whole_element
from embercoach.metal.program.nodes import (
    Assign,
    Binary,
    Block,
    Call,
    Conditional,
    Expression,
    If,
    Jump,
    Loop,
    Name,
    Return,
    Switch,
)
from embercoach.metal.program.walk import Node, Path, below

if TYPE_CHECKING:
    from embercoach.metal.porting.bodies import Edit, KernelNames
    from embercoach.metal.porting.port_arguments import ArrayArgument


_MANY_MARKS = 4


class InitialCopy(Struct, frozen=True):
    """The copy of an array's first values.

    Attributes:
        edits: the lines in front of the first use of the thread's elements; none for a whole copy.
        prologue: the lines in front of the body for a whole copy.
        written: an output that marks the elements that threads copy; empty where all are copied.
        is_single: a thread copies one element.
    """

    edits: tuple[Edit, ...] = ()
    written: str = ""
    is_single: bool = False
    prologue: tuple[str, ...] = ()


def copied(
    array: ArrayArgument,
    names: KernelNames,
    edits: list[Edit],
    keys: Keys | None,
    flow: ArrayFlow | None,
    *,
    is_atomic: bool,
) -> InitialCopy:
    """Return the copy that an updated array needs.

    Args:
        array: an updated one.
        names: of the kernel.
        edits: those of the body so far, which apply to the elements as well.
        keys: the values in the kernel, None where it is not understood.
        flow: what it does with the array.
        is_atomic: MLX declares the outputs as atomic.
    """
    if keys is not None and flow is not None and names.is_clear(array.parameter.declaration):
        own = not (array.is_atomic or array.is_reference or flow.is_unclear or flow.atomics)
        if own and all(one.is_own for one in flow.accesses):
            found = _Copies(array, names, edits, keys, flow).copy()
            if found.edits:
                return found
    return InitialCopy(prologue=whole_copy(array, is_atomic=is_atomic))


class _Copies:
    def __init__(
        self,
        array: ArrayArgument,
        names: KernelNames,
        edits: list[Edit],
        keys: Keys,
        flow: ArrayFlow,
    ) -> None:
        self._array = array
        self._names = names
        self._edits = edits
        self._accesses = sorted(map(whole_element, flow.accesses), key=_start)
        self._keys = keys
        self._written = ""

    def copy(self) -> InitialCopy:
        """Return the copy of each element by its thread, an empty one where that is not certain."""
        first = self._accesses[0]
        path = self._statement(first)
        guards = None if path is None else _guards(first, len(path) - 1)
        if path is None or guards is None:
            return InitialCopy()
        elements = self._elements(path, guards)
        if not all(map(self._is_private, elements)):
            return InitialCopy()
        statement = self._names.statement_of(first.element, path)
        if not elements or statement is None:
            return InitialCopy()
        is_all = len(elements) == 1 and self._keys.is_dense(elements[0]) and not guards
        if not is_all or self._keys.is_for_data(path):
            self._written = self._names.unique(f"{self._array.name}_written")
        start = self._names.parsed.place(statement).start
        lines = [self._lines(one, start) for one in elements]
        if None in lines or not all(_is_pure(one) and _is_before(one, start) for one in guards):
            return InitialCopy()
        shown = [line for several in lines for line in several or ()]
        if guards:
            tests = " && ".join(
                f"({self._text(one)})" if len(guards) > 1 else self._text(one) for one in guards
            )
            shown = [f"if ({tests}) {{", *(f"    {line}" for line in shown), "}"]
        return InitialCopy(
            tuple(self._names.before(statement, shown)),
            self._written,
            not (self._written or any(isinstance(node, Loop) for node in path)),
        )

    def _statement(self, first: Access) -> Path | None:
        """Return the path to the innermost statement that a thread runs once for each element."""
        path = first.path
        for at in range(len(path) - 1, 0, -1):
            loops = [node for node in path[:at] if isinstance(node, Loop)]
            if _is_statement(path[at - 1], path[at]) and self._is_once(first, loops, path):
                return path[: at + 1]
        return None

    def _is_once(self, first: Access, loops: list[Loop], path: Path) -> bool:
        """Return whether each round of the loops has another element."""
        if not loops:
            return True
        frame = self._keys.frame(loops[0], path[path.index(loops[0]) + 1], ())
        place = self._keys.place(first, loops)
        if len(loops) > 1 or frame is None or place is None:
            return False
        moved = [offset for offset in place[0][1:] if _has_round(offset)]
        return len(moved) == 1 and _is_moved(moved[0])

    def _elements(self, path: Path, guards: list[Expression]) -> list[Access]:
        """Return an access to each element to copy, none where others may be used."""
        found: list[Access] = []
        for one in self._accesses:
            if any(self._is_copied(one, copy, path) for copy in found):
                continue
            if self._keys.place(one) is None or (found and not self._exists(one, path, guards)):
                return []
            found.append(one)
        stores = [one for one in self._accesses if one.kind == "store"]
        for copy in found:
            # Another thread may store an element that this one only reads.
            if not any(one is copy or self._is_copied(one, copy, path) for one in stores):
                return []
        is_apart = len(found) == 1 or not self._names.mentions("barrier", "atomic")
        return found if is_apart else []

    def _exists(self, one: Access, path: Path, guards: list[Expression]) -> bool:
        """Return whether an element exists in front of a statement, where another one does."""
        block = path[-2]
        if not isinstance(block, Block):
            return False
        at = next((at for at, node in enumerate(one.path) if node is block), None)
        if at is None or any(isinstance(node, Loop) for node in path):
            return False
        first, last = (
            next(at for at, node in enumerate(block.statements) if node is part)
            for part in (path[-1], one.path[at + 1])
        )
        passed = block.statements[first:last]
        leaves = any(isinstance(node, (Return, Jump)) for part in passed for node in below(part))
        return not leaves and _guards(one, at + 1) == guards

    def _is_private(self, one: Access) -> bool:
        """Return whether threads of a threadgroup have separate elements."""
        return any(name.startswith("thread_") for name in self._keys.attributes_of(one.element))

    def _is_copied(self, one: Access, copy: Access, path: Path) -> bool:
        """Return whether an access is to an element that is copied in front of a statement."""
        if any(node is path[-1] for node in one.path):
            return self._keys.place(one) == self._keys.place(copy) is not None
        return self._keys.is_covered(one, Access("store", copy.element, path, is_own=True))

    def _lines(self, one: Access, start: int) -> list[str] | None:
        """Return the statements that copy an element and mark it."""
        offsets = self._keys.offsets(one)
        element = one.element
        if offsets is None or not all(_is_before(part, start) for part in (element, *offsets)):
            return None
        texts = [
            f"({self._text(one)})" if len(offsets) > 1 and _is_loose(one) else self._text(one)
            for one in offsets
        ]
        array, size = self._array, self._array.size
        index = " + ".join(texts) or "0"
        places, value = [index], f"{array.initial}[{index}]"
        if array.is_view:
            if self._written and not 1 <= size <= _MANY_MARKS:
                return None
            places = [f"{size} * ({index}) + {at}" for at in range(size)]
            value = f"reinterpret_cast<const device {array.element}*>({array.initial})[{index}]"
        if array.width > 1:
            values = (f"{array.initial}[{place}]" for place in places[: array.width])
            value = f"{array.element}({', '.join(values)})"
        marks = [f"{self._written}[{place}] = true;" for place in places if self._written]
        return [f"{self._text(element)} = {value};", *marks]

    def _text(self, part: Expression) -> str:
        place = part.spot.place
        return self._names.text(place.start, place.end, self._edits)


def _is_statement(above: Node, node: Node) -> bool:
    """Return whether a node is a statement in the one above it."""
    if isinstance(above, If):
        return node is not above.condition
    return isinstance(above, Block) or (isinstance(above, Loop) and node is above.body)


def _guards(access: Access, at: int) -> list[Expression] | None:
    """Return the conditions under which a statement of a path makes an access; None for others."""
    guards: list[Expression] = []
    for node, inner in pairwise((*access.path[at:], access.element)):
        is_right = isinstance(node, Binary) and inner is node.right
        if isinstance(node, Binary) and is_right and node.operator == "&&":
            guards.append(node.left)
        elif (
            (isinstance(node, Binary) and is_right and node.operator == "||")
            or (isinstance(node, (If, Conditional)) and inner is not node.condition)
            or (isinstance(node, Loop) and inner is node.step)
            or isinstance(node, Switch)
        ):
            return None
    return guards


def _start(access: Access) -> int:
    return access.element.spot.place.start


def _has_round(offset: object) -> bool:
    return isinstance(offset, tuple) and (offset[:1] == ("loop",) or any(map(_has_round, offset)))


def _is_moved(offset: object) -> bool:
    """Return whether an offset differs between rounds: their number, times or plus constants."""
    if offset == ("loop", 0):
        return True
    if not isinstance(offset, tuple) or len(offset) != 3 or offset[0] not in (("+",), ("*",)):
        return False
    moved = [part for part in offset[1:] if _has_round(part)]
    others = [part for part in offset[1:] if not _has_round(part)]
    is_multiple = offset[0] == ("*",)
    is_plain = not is_multiple or (others and isinstance(others[0][0], int) and others[0][0] > 0)
    return len(moved) == 1 and bool(is_plain) and _is_moved(moved[0])


def _is_before(part: Expression, start: int) -> bool:
    """Return whether the variables of an expression are declared in front of a place."""
    return all(
        node.variable.kind != "local" or node.variable.spot.place.start < start
        for node in below(part)
        if isinstance(node, Name)
    )


def _is_loose(part: Expression) -> bool:
    return isinstance(part, (Binary, Conditional)) and getattr(part, "operator", "") != "*"


def _is_pure(part: Expression) -> bool:
    return not any(isinstance(node, (Assign, Call)) for node in below(part))


def whole_copy(array: ArrayArgument, *, is_atomic: bool) -> tuple[str, ...]:
    """Return the lines with which the threads of one threadgroup copy an array."""
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
