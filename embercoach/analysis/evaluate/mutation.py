"""Methods that change a list or dict in place: what the name that holds it knows afterwards."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst
from msgspec.structs import replace

from embercoach.analysis.evaluate.dispatch import element_of
from embercoach.analysis.syntax.trees import dotted, walk
from embercoach.analysis.values.facts import StoreFact, first_value
from embercoach.analysis.values.lattice import (
    UNKNOWN,
    Class,
    Dict,
    Function,
    Instance,
    Sequence,
    Str,
    Unknown,
    Value,
    any_item,
    collected,
    join_all,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.evaluate.frame import Frame
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.facts import Argument


#: Longer lists of strings are not followed item by item.
MAX_LINES = 256


def is_text(value: Value) -> bool:
    """Return whether a sequence's items, if there are any, are known to be strings."""
    if type(value) is not Sequence or value.items is None:
        return False
    return all(type(item) is Str for item in value.items)


def escape(frame: Frame, callee: Value, arguments: tuple[Argument, ...]) -> None:
    """A call may add to lists of strings that it is given, or that its closure or owner holds.

    Likewise to dictionaries; of one that ``**`` passes it gets the entries only.
    """
    names = frame.names
    named = ((a.node.value, a) for a in arguments if type(a.node) is cst.Name and not a.star)
    paths = {name for name, argument in named if names.get(name) is argument.value}
    for value in (callee, *(a.value for a in arguments)):
        if type(value) is Function and value.info.outer is not None:
            paths |= _grown_beside(value.info)
    owned = type(callee) in (Function, Unknown)
    forget_lists(frame.module)
    for path, value in list(frame.names.items()):
        kind = type(value)
        if (kind is Sequence or kind is Dict) and (path in paths or (owned and "." in path)):
            frame.names[path] = open_ended(value)


def open_ended(value: Value) -> Value:
    """Return a list of strings, or a dictionary, to which others may have been added."""
    if type(value) is Dict:
        return replace(value, exact=False) if value.exact else value
    if type(value) is Sequence and value.kind == "list" and is_text(value):
        return Sequence("list", any_item(value), None, value.pulls)
    return value


def _grown_beside(info: FunctionInfo) -> set[str]:
    """Return the names to whose lists an inner function adds, or another that it may call."""
    found: set[str] = set()
    for other in info.module.functions:
        if other.outer is info.outer:
            if other.grown is None:
                other.grown = frozenset(_grown(other.node.body))
            found |= other.grown
    return found


def _grown(tree: cst.CSTNode) -> Iterator[str]:
    for node in walk(tree):
        if type(node) is cst.Call and type(node.func) is cst.Attribute:
            owner, name = node.func.value, node.func.attr.value
            if type(owner) is cst.Name and (name == "append" or name in MUTATORS | CHANGERS):
                yield owner.value
        elif type(node) is cst.AugAssign and type(node.target) is cst.Name:
            yield node.target.value
        elif type(node) is cst.Subscript and type(node.value) is cst.Name:
            yield node.value.value  # perhaps to put something into a dictionary


#: What an indented line adds to.
_ADDS = re.compile(
    r"^[ \t][^\n]*?\b(\w+)(?:\.(?:append|extend|insert|clear|pop|remove|reverse|sort)\(|[ \t]*\+="
    r"|\.(?:update|setdefault|popitem)\(|[ \t]*\|=|\[[^\n=]+\][ \t]*=)",
    re.MULTILINE,
)


def grown_by_functions(source: str) -> frozenset[str]:
    """Return the names to whose lists some indented line of a file adds."""
    return frozenset(_ADDS.findall(source))


def forget_lists(module: Module) -> None:
    """Functions may have added to the lists of strings that top-level names hold."""
    names = module.frame.names
    for name in module.grown:
        value = names.get(name)
        if type(value) is Sequence or type(value) is Dict:
            names[name] = open_ended(value)


def record(frame: Frame, owner: Value, name: str, value: Value) -> None:
    """Note what is assigned to an attribute, or put into it, with the class that has it."""
    if frame.gradient is not None:
        return  # marks hold for one run
    if isinstance(owner, (Instance, Class)) and (
        owner.info.module is frame.module or not owner.info.module.is_shared
    ):
        kept = open_ended(value) if frame.module.mentions_kernels else value
        if frame.traceless and owner.info.module.is_shared:
            frame.module.project.calls.note_attribute(owner.info, name, kept)
        else:
            owner.info.record(name, kept)


def note_store(frame: Frame, target: cst.CSTNode, value: Value) -> None:
    """Record what a function stores where its callers may see it."""
    if frame.record and frame.info is not None and frame.module.mentions_compile:
        frame.add(StoreFact(target, frame.place(), value))


def append(frame: Frame, node: cst.Call, owner: Sequence, arguments: tuple[Argument, ...]) -> None:
    """``xs.append(x)``: the list named so holds one more kind of item."""
    func = node.func
    if not arguments or not isinstance(func, cst.Attribute):
        return
    path = dotted(func.value)
    if path is None:
        return
    value = arguments[0].value
    note_store(frame, func, value)
    if type(value) is Str and is_text(owner) and len(owner.items or ()) < MAX_LINES:
        items = (*(owner.items or ()), value)
        frame.assign_path(path, Sequence(owner.kind, None, items))
        return
    item = value if owner.items == () else join_all((any_item(owner), value))
    grown = Sequence(owner.kind, item, None, owner.pulls | collected(value))
    frame.assign_path(path, grown)
    if isinstance(func.value, cst.Attribute) and isinstance(func.value.value, cst.Name):
        record(frame, frame.lookup(func.value.value.value), func.value.attr.value, grown)


def update(frame: Frame, node: cst.Call, owner: Dict, arguments: tuple[Argument, ...]) -> None:
    """``d.update(other, key=value)``: the dict named so holds what both hold."""
    path = dotted(node.func.value) if isinstance(node.func, cst.Attribute) else None
    if path is None:
        return
    known = dict(owner.known)
    item = owner.item
    exact = owner.exact
    for argument in arguments:
        exact = exact and (argument.keyword is not None or _is_exact(argument.value))
        value = argument.value
        if argument.keyword is not None:
            known[argument.keyword] = value
        elif isinstance(value, Dict):
            known.update(value.known)
            item = value.item if item is UNKNOWN else join_all((item, value.item))
        else:
            known = {key: join_all((held, UNKNOWN)) for key, held in known.items()}
            item = join_all((item, UNKNOWN))
    frame.assign_path(path, Dict(item, tuple(known.items()), exact))


def _is_exact(value: Value) -> bool:
    return type(value) is Dict and value.exact


def change(
    frame: Frame, node: cst.Call, owner: Dict, name: str, arguments: tuple[Argument, ...]
) -> None:
    """``d.pop(key)``, ``d.setdefault(key, value)``: which keys the dictionary named so has."""
    path = dotted(node.func.value) if isinstance(node.func, cst.Attribute) else None
    if path is None or not owner.exact:
        return
    key = first_value(arguments)
    text = key.text if isinstance(key, Str) else None
    if text is None or name not in ("pop", "setdefault"):
        frame.assign_path(path, open_ended(owner))
        return
    known = dict(owner.known)
    if name == "pop":
        known.pop(text, None)
    elif text not in known:
        known[text] = arguments[1].value if len(arguments) > 1 else UNKNOWN
    frame.assign_path(path, Dict(owner.item, tuple(known.items()), exact=True))


#: Methods, but for ``update``, that change which keys a dictionary has.
CHANGERS = frozenset(["pop", "setdefault", "popitem", "clear", "update"])
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
    if name == "extend" and len(arguments) == 1 and is_text(owner):
        more = arguments[0].value
        if type(more) is Sequence and is_text(more) and more.kind in ("list", "tuple", "iterator"):
            items = (*(owner.items or ()), *(more.items or ()))
            if len(items) <= MAX_LINES:
                frame.assign_path(path, Sequence(owner.kind, None, items))
                return
    if name == "extend" and arguments:
        added = [element_of(frame, arguments[0].value)]
    elif name in ("insert", "appendleft") and arguments:
        added = [arguments[-1].value]
    elif owner.items is None:
        return
    item = join_all([*added] if owner.items == () else [any_item(owner), *added])
    pulls = owner.pulls.union(*map(collected, added))
    frame.assign_path(path, Sequence(owner.kind, item, None, pulls))
