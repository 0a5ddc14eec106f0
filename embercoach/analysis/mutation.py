"""Methods that change a list or dict in place: what the name that holds it knows afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.iteration import element_of
from embercoach.analysis.lattice import (
    join_all,
    pulls_of,
)
from embercoach.analysis.paths import dotted
from embercoach.analysis.values import (
    UNKNOWN,
    Dict,
    Sequence,
    Value,
)

if TYPE_CHECKING:
    from embercoach.analysis.facts import Argument
    from embercoach.analysis.frame import Frame


def append(frame: Frame, node: cst.Call, owner: Sequence, arguments: tuple[Argument, ...]) -> None:
    """``xs.append(x)``: the list named so holds one more kind of item."""
    func = node.func
    if not arguments or not isinstance(func, cst.Attribute):
        return
    path = dotted(func.value)
    if path is None:
        return
    value = arguments[0].value
    item = value if owner.items == () else join_all((owner.item, value))
    grown = Sequence(owner.kind, item, None, owner.pulls | pulls_of(value))
    frame.assign_path(path, grown)


def update(frame: Frame, node: cst.Call, owner: Dict, arguments: tuple[Argument, ...]) -> None:
    """``d.update(other, key=value)``: the dict named so holds what both hold."""
    path = dotted(node.func.value) if isinstance(node.func, cst.Attribute) else None
    if path is None:
        return
    known = dict(owner.known)
    item = owner.item
    for argument in arguments:
        value = argument.value
        if argument.keyword is not None:
            known[argument.keyword] = value
        elif isinstance(value, Dict):
            known.update(value.known)
            item = value.item if item is UNKNOWN else join_all((item, value.item))
        else:
            known = {key: join_all((held, UNKNOWN)) for key, held in known.items()}
            item = join_all((item, UNKNOWN))
    frame.assign_path(path, Dict(item, tuple(known.items())))


#: Methods that change which items a list has.
MUTATORS = frozenset(
    ["extend", "insert", "remove", "pop", "popleft", "clear", "reverse", "sort", "appendleft"]
)


def mutate(
    frame: Frame, node: cst.Call, owner: Sequence, name: str, arguments: tuple[Argument, ...]
) -> None:
    """``xs.extend(ys)``: how many items the list named so has is no longer known."""
    path = dotted(node.func.value) if isinstance(node.func, cst.Attribute) else None
    if path is None:
        return
    added: list[Value] = []
    if name == "extend" and arguments:
        added = [element_of(frame, arguments[0].value)]
    elif name in ("insert", "appendleft") and arguments:
        added = [arguments[-1].value]
    elif owner.items is None:
        return
    item = join_all([*added] if owner.items == () else [owner.item, *added])
    pulls = owner.pulls.union(*map(pulls_of, added))
    frame.assign_path(path, Sequence(owner.kind, item, None, pulls))
