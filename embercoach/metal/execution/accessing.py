"""Reads and writes of memory, and conversions of what is read."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from embercoach.metal.execution.arithmetic import wrap
from embercoach.metal.execution.path_state import (
    Bundle,
    Cells,
    Pointer,
    Result,
    State,
    elements_of,
    ratio,
)
from embercoach.metal.execution.values import (
    ALL_AXES,
    ANYWHERE,
    GROUP,
    WITHIN,
    ZERO,
    LaneValue,
    ValueOrigin,
    value_of,
)
from embercoach.metal.program.types import FLOATS, INTEGERS, NAMED, Type

if TYPE_CHECKING:
    from embercoach.metal.execution.machine import Machine
    from embercoach.metal.program.nodes import Call, Cast, Expression, Index, Member, Spot, Variable

#: Operations whose result has a quotient where an operand has one, and how deep they are looked at.
_ARITHMETIC = frozenset({"*", "+", "-", "&", "min", "max"})
_DEPTH = 6
_READ_ONLY = frozenset({"input", "metadata", "constant"})


def given_pointer(m: Machine, variable: Variable) -> Pointer:
    """Return the value of a pointer that nothing was assigned to."""
    place = place_of_variable(m, variable)
    if variable.kind in ("local", "template", "unknown"):
        # It was never set.
        return place._replace(root=None, known=False)
    return place._replace(type=_plain(place.type))


def holds_pointer(variable: Variable) -> bool:
    """Return whether a variable is a pointer, which may be moved."""
    given = variable.kind in ("input", "output") or variable.type.pointer
    return given and not variable.type.reference


def place_of_variable(m: Machine, variable: Variable) -> Pointer:
    """Return the memory of a variable; for a buffer the memory that it points to."""
    kind = m.resolved(variable.type)
    if variable.kind in ("input", "output", "metadata"):
        pointee = _pointee(m.root_type(variable))
        memory = kind.space if kind.space == "constant" else "device"
        return Pointer(variable, memory, ZERO, pointee)  # type: ignore[arg-type]
    given = variable.kind == "parameter" and kind.space not in (None, "thread")
    if given and (kind.pointer or kind.reference):
        plain = replace(kind, reference=False)
        return Pointer(variable, kind.space, ZERO, plain)  # type: ignore[arg-type]
    if not kind.pointer and kind.space == "threadgroup":
        return Pointer(variable, "threadgroup", ZERO, kind)
    if variable.kind == "constant":
        return Pointer(variable, "constant", ZERO, kind)
    return Pointer(variable, "thread", ZERO, kind)


# A kernel has few types, and asks for those made of them with every access.
@lru_cache(maxsize=256)
def _plain(kind: Type) -> Type:
    return replace(kind, pointer=False, dimensions=())


@lru_cache(maxsize=256)
def _pointee(kind: Type) -> Type:
    return replace(kind, pointer=False)


@lru_cache(maxsize=256)
def _first(kind: Type) -> Type:
    return replace(kind, dimensions=kind.dimensions[1:])


@lru_cache(maxsize=256)
def with_width(kind: Type, width: int) -> Type:
    """Return a type with another number of components."""
    return replace(kind, width=width)


def decayed(place: Pointer) -> Pointer:
    """Return the pointer to the first element of an array."""
    return place._replace(type=_first(place.type))


def load(m: Machine, state: State, place: Pointer, spot: Spot) -> Result:
    """Return the value at a place; of an array the pointer to its first element."""
    if place.type.dimensions:
        return decayed(place)
    if place.memory == "thread":
        return _load_private(m, state, place, spot)
    if place.root is None:
        return m.pool.unknown("load")
    m.tick(spot)
    bound = m.globals.get(place.root)
    if isinstance(bound, Cells):
        at = place.offset.constant
        known = None if at is None else bound.known.get((place.member, at))
        if isinstance(known, LaneValue) and place.type.width == 1:
            return known
    width = place.type.width
    is_bounded = place.root.kind not in _READ_ONLY or place.root.name in m.sized_inputs
    if is_bounded and place.memory != "constant":
        m.note(state, "read", place, None, spot)
    parts = [_loaded(m, state, place, k) for k in range(width)]
    return parts[0] if width == 1 else Bundle(tuple(parts))


def _loaded(m: Machine, state: State, place: Pointer, component: int) -> LaneValue:
    root = place.root
    if root is None or not place.known:
        return m.pool.unknown("load")
    version = m.versions.get(root, 0)
    shared = place.memory == "threadgroup" or version > 0
    bits = GROUP if shared else 0
    index = place.offset.origin
    blurred = index.blurred or _is_coarse(place.offset, _DEPTH)
    origin = ValueOrigin(frozenset(), blurred, index.single, index.axes)
    if shared:
        axes = m.tainted.get(root, 0) if place.memory == "threadgroup" else ALL_AXES
        origin = origin.joined(ValueOrigin(axes=axes))
        interval = state.threadgroup if place.memory == "threadgroup" else state.device
        key = (version, m.epoch, interval)
    else:
        key = (0, 0, 0)
    operands = (root, place.member, place.offset, component, *key)
    return m.pool.result("load", operands, place.offset.bits | bits, origin)


def _is_coarse(index: LaneValue, depth: int) -> bool:
    """Return whether an index has a quotient by an unknown number.

    The launch may choose the divisor such that all threads of a group have the same quotient.
    """
    for symbol, _ in index.terms if depth else ():
        if not symbol.bits & WITHIN:
            continue
        parts = [part for part in symbol.operands if isinstance(part, LaneValue)]
        if symbol.operation == "/" and len(parts) == 2 and not parts[1].exact:
            return True
        if symbol.operation in _ARITHMETIC and any(_is_coarse(p, depth - 1) for p in parts):
            return True
    return False


def store(m: Machine, state: State, place: Pointer, value: Result, spot: Spot) -> None:
    """Put something in a place."""
    if place.memory == "thread":
        _store_private(m, state, place, value, spot)
        return
    m.tick(spot)
    if place.root is None:
        m.epoch += 1
        return
    m.versions[place.root] = m.versions.get(place.root, 0) + 1
    written = value if isinstance(value, LaneValue) else None
    if isinstance(value, Bundle):
        written = m.pool.symbol("vector", value.parts)
    m.taint(state, place, written)
    m.note(state, "write", place, written, spot)


def update(m: Machine, state: State, place: Pointer, value: LaneValue | None, node: Call) -> None:
    """Record an atomic access."""
    if place.memory == "thread":
        return
    m.tick(node.spot)
    if place.root is None:
        m.epoch += 1
        return
    m.versions[place.root] = m.versions.get(place.root, 0) + 1
    m.taint(state, place, None)
    m.note(state, "atomic", place, value, node)


def _outside(m: Machine, state: State, place: Pointer, spot: Spot, *, write: bool) -> None:
    """Record an access to a private array that goes out of it."""
    if place.root is None or not place.offset.exact or place.member or not place.known:
        return
    count = elements_of(place.root.type) if place.root.kind == "local" else None
    if count is None or not place.root.type.dimensions:
        return
    offsets = place.offset.offsets
    low, high = (offsets, offsets) if isinstance(offsets, int) else (min(offsets), max(offsets))
    if low < 0 or high + place.type.width > count:
        m.note(state, "write" if write else "read", place, None, spot)


def _load_private(m: Machine, state: State, place: Pointer, spot: Spot) -> Result:
    root = place.root
    binding = None if root is None else state.variables.get(root)
    width = place.type.width
    at = place.offset.constant if place.known else None
    if binding is None and root is not None and place.type.pointer and root.type.pointer:
        return given_pointer(m, root)
    if isinstance(binding, Cells):
        _outside(m, state, place, spot, write=False)
        if _whole_structure(place):
            return _inside(binding, place.member)
        parts = [_cell(m, binding, place, at, k) for k in range(width)]
        if width == 1:
            return parts[0]
        return Bundle(tuple(p if isinstance(p, LaneValue) else m.pool.unknown() for p in parts))
    if isinstance(binding, Bundle):
        if width == len(binding.parts):
            return binding
        if width == 1:
            if at is not None and 0 <= at < len(binding.parts):
                return binding.parts[at]
            return m.pool.symbol("component", (*binding.parts, place.offset))
    if isinstance(binding, LaneValue | Pointer) and width == 1 and at == 0 and not place.member:
        return binding
    return m.pool.unknown("private")


def _whole_structure(place: Pointer) -> bool:
    scalar = place.type.scalar
    return scalar is not None and scalar not in NAMED and not place.type.pointer


def _inside(cells: Cells, member: str) -> Cells:
    if not member:
        return cells
    known = {
        (name[len(member) :], index): value
        for (name, index), value in cells.known.items()
        if name.startswith(member)
    }
    return Cells(known, cells.stale)


def _cell(m: Machine, cells: Cells, place: Pointer, at: int | None, k: int) -> LaneValue | Pointer:
    if at is not None:
        known = cells.known.get((place.member, at + k))
        if isinstance(known, LaneValue | Pointer):
            return known
    bits = 0 if cells.stale is None else cells.stale
    origin = ValueOrigin()
    for value in cells.known.values():
        if isinstance(value, LaneValue):
            bits |= value.bits
            origin = origin.joined(value.origin)
    if at is not None and cells.stale is None:
        # Nobody wrote it yet.
        bits = ANYWHERE
    # It may well be one that is the same for all threads.
    origin = origin.joined(ValueOrigin(blurred=True))
    bits |= place.offset.bits
    return m.pool.fresh("cell", (), bits, origin.joined(ValueOrigin(axes=ALL_AXES)))


def _store_private(m: Machine, state: State, place: Pointer, value: Result, spot: Spot) -> None:
    root = place.root
    if root is None:
        return
    binding = state.variables.get(root)
    if isinstance(binding, Bundle):
        state.variables[root] = _with_components(m, binding, place, value)
        return
    kind = m.resolved(root.type)
    if isinstance(binding, Cells) or kind.dimensions or place.member:
        cells = binding if isinstance(binding, Cells) else Cells()
        _outside(m, state, place, spot, write=True)
        state.variables[root] = _with_cells(cells, place, value)
        return
    if kind.width > 1 and place.type.width == 1:
        empty = Bundle(tuple(m.pool.unknown("private") for _ in range(kind.width)))
        state.variables[root] = _with_components(m, empty, place, value)
        return
    state.variables[root] = value


def _with_components(m: Machine, old: Bundle, place: Pointer, value: Result) -> Bundle:
    at = place.offset.constant if place.known else None
    width = len(old.parts)
    new: tuple[Result, ...] = value.parts if isinstance(value, Bundle) else (value,)
    if len(new) == 1 and place.type.width == width:
        new = new * width
    if at is None or at < 0 or at + len(new) > width:
        return Bundle(tuple(m.pool.unknown("private") for _ in range(width)))
    made = tuple(v if isinstance(v, LaneValue) else m.pool.unknown("private") for v in new)
    return Bundle((*old.parts[:at], *made, *old.parts[at + len(made) :]))


def _with_cells(old: Cells, place: Pointer, value: Result) -> Cells:
    at = place.offset.constant if place.known else None
    if at is None:
        return Cells({}, ANYWHERE)
    known = dict(old.known)
    if isinstance(value, Cells):
        known = {key: part for key, part in known.items() if not key[0].startswith(place.member)}
        for (name, index), part in value.known.items():
            known[(place.member + name, index + at)] = part
        stale = old.stale if value.stale is None else (old.stale or 0) | value.stale
        return Cells(known, stale)
    parts = value.parts if isinstance(value, Bundle) else (value,) * place.type.width
    known.update({(place.member, at + k): part for k, part in enumerate(parts)})
    return Cells(known, old.stale)


def components_at(m: Machine, place: Pointer, k: int, width: int) -> Pointer:
    """Return a component, or several next to each other, of a vector in memory."""
    root = place.root
    kind = with_width(place.type, width)
    factor = 1 if root is None else ratio(kind.scalar, m.root_type(root).scalar)
    if factor is None or not place.known:
        return place._replace(type=kind, offset=m.pool.unknown("offset"), known=False)
    offset = place.offset.offsets
    step = k * factor
    moved = offset + step if isinstance(offset, int) else tuple([o + step for o in offset])
    return place._replace(type=kind, offset=value_of(moved, place.offset.terms))


def is_vector(kind: Type) -> bool:
    """Return whether members of the type are components."""
    return kind.width > 1 and not kind.dimensions and not kind.pointer


#: The components of a vector by their letters.
COMPONENTS = {letter: k for text in ("xyzw", "rgba") for k, letter in enumerate(text)}


def number(m: Machine, state: State, result: Result, node: Expression) -> LaneValue:
    """Return a result as one number."""
    if isinstance(result, LaneValue):
        return result
    if isinstance(result, Pointer):
        passed = result.root is not None and result.root.kind in ("input", "metadata")
        if passed and result.offset.constant == 0:
            # A 0-d input is a reference: its name represents its value.
            scalar = replace(result.type, width=1, dimensions=(), pointer=False, reference=False)
            loaded = load(m, state, result._replace(type=scalar), node.spot)
            return loaded if isinstance(loaded, LaneValue) else m.pool.unknown()
        return m.pool.symbol("address", (result.root, result.member, result.offset))
    if isinstance(result, Bundle):
        return m.pool.symbol("vector", result.parts)
    return m.pool.unknown()


def converted(m: Machine, value: LaneValue, origin: Type, kind: Type) -> LaneValue:
    """Return a number in another type."""
    integer = value.terms and kind.scalar in INTEGERS and kind.scalar != "bool"
    if integer and m.scalar(origin) in FLOATS:
        return m.pool.symbol("integer", (value, kind.scalar))
    return wrap(m.pool, value, kind.scalar)


def fitted(m: Machine, state: State, value: Result, kind: Type, node: Expression) -> Result:
    """Return the value that a variable of a type takes."""
    if kind.pointer or isinstance(value, Cells):
        return value
    if isinstance(value, Pointer):
        if kind.scalar is None:
            return value
        value = number(m, state, value, node)
    if kind.width > 1:
        parts = value.parts if isinstance(value, Bundle) else (value,) * kind.width
        return Bundle(tuple([wrap(m.pool, part, kind.scalar) for part in parts]))
    if isinstance(value, Bundle):
        return value if kind.scalar is None else number(m, state, value, node)
    return converted(m, value, node.type, kind)


def component(m: Machine, state: State, vector: Result, index: LaneValue, node: Index) -> LaneValue:
    """Return a component of a vector by its number."""
    if not isinstance(vector, Bundle):
        return m.pool.symbol("component", (number(m, state, vector, node.base), index))
    at = index.constant
    if at is not None and 0 <= at < len(vector.parts):
        return vector.parts[at]
    return m.pool.symbol("component", (*vector.parts, index))


def swizzled(m: Machine, vector: Result, node: Member) -> Result:
    """Components of a vector by their letters."""
    at = [COMPONENTS.get(letter, 0) for letter in node.field]
    if not at:
        return m.pool.unknown("part")
    if isinstance(vector, Bundle) and max(at) < len(vector.parts):
        parts = tuple([vector.parts[k] for k in at])
    else:
        whole_one = vector if isinstance(vector, LaneValue) else m.pool.unknown("part")
        parts = tuple([m.pool.symbol("component", (whole_one, k)) for k in at])
    return parts[0] if len(parts) == 1 else Bundle(parts)


def cast(m: Machine, state: State, node: Cast, operand: Result) -> Result:
    """Return an operand's value in another type."""
    kind = m.resolved(node.type)
    if isinstance(operand, Pointer):
        if not kind.pointer:
            return converted(m, number(m, state, operand, node), node.operand.type, kind)
        return operand._replace(type=replace(kind, pointer=False))
    if node.bits:
        return m.pool.symbol("bits", (number(m, state, operand, node), kind))
    if isinstance(operand, Bundle):
        return Bundle(tuple(converted(m, p, node.operand.type, kind) for p in operand.parts))
    if isinstance(operand, LaneValue):
        made = converted(m, operand, node.operand.type, kind)
        return Bundle((made,) * kind.width) if kind.width > 1 else made
    return operand
