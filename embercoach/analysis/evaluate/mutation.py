"""Methods that change a list or dict in place: what the name that holds it knows afterwards."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst
from msgspec.structs import replace

from embercoach.analysis.evaluate.dispatch import element_of
from embercoach.analysis.syntax.trees import dotted, walk
from embercoach.analysis.values.facts import Argument, StoreFact, first_value
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
from embercoach.analysis.values.memo import kept_for_file

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.evaluate.frame import Frame
    from embercoach.analysis.project.module import Module


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
            # Another inner function of the same one may be called by it.
            beside = (o for o in value.info.module.functions if o.outer is value.info.outer)
            paths = paths.union(*map(_grown_by, beside))
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


@kept_for_file
def _grown_by(info: FunctionInfo) -> frozenset[str]:
    """Return the names to whose lists a function adds."""
    found: set[str] = set()
    for node in walk(info.node.body):
        if type(node) is cst.Call and type(node.func) is cst.Attribute:
            owner, name = node.func.value, node.func.attr.value
            if type(owner) is cst.Name and name in MUTATORS:
                found.add(owner.value)
        elif type(node) is cst.AugAssign and type(node.target) is cst.Name:
            found.add(node.target.value)
        elif type(node) is cst.Subscript and type(node.value) is cst.Name:
            found.add(node.value.value)  # perhaps to put something into a dictionary
    return frozenset(found)


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


@kept_for_file
def _mentions_compile(module: Module) -> bool:
    return "compile" in module.source


def note_store(frame: Frame, target: cst.CSTNode, value: Value) -> None:
    """Record what a function stores where its callers may see it."""
    if frame.record and frame.info is not None and _mentions_compile(frame.module):
        frame.add(StoreFact(target, frame.place(), value))


#: Methods that change which keys a dictionary has.
_OF_DICTS = frozenset(["pop", "setdefault", "popitem", "clear", "update"])
#: Methods that add to a list, and those that change its items in another way.
_ADDING = frozenset(["append", "extend", "insert", "appendleft"])
_OF_LISTS = _ADDING | {"remove", "pop", "popleft", "clear", "reverse", "sort"}
MUTATORS = _OF_DICTS | _OF_LISTS


def change(
    frame: Frame,
    node: cst.Call,
    owner: Sequence | Dict,
    name: str,
    arguments: tuple[Argument, ...],
) -> None:
    """``xs.append(x)``, ``d.update(other)``: what the name knows that holds the list or dict."""
    func = node.func
    if not isinstance(func, cst.Attribute) or (path := dotted(func.value)) is None:
        return
    if name not in (_OF_LISTS if isinstance(owner, Sequence) else _OF_DICTS):
        return
    if name == "append" and arguments:
        note_store(frame, func, arguments[0].value)
    changed: Value | None
    if isinstance(owner, Sequence):
        changed = _changed_list(frame, owner, name, arguments)
    else:
        changed = _changed_dict(owner, name, arguments)
    if changed is None:
        return
    frame.assign_path(path, changed)
    holder = None if name != "append" or is_text(changed) else func.value
    if isinstance(holder, cst.Attribute) and isinstance(holder.value, cst.Name):
        record(frame, frame.lookup(holder.value.value), holder.attr.value, changed)


def _changed_list(
    frame: Frame, owner: Sequence, name: str, arguments: tuple[Argument, ...]
) -> Sequence | None:
    """Return a list with one more kind of item; of strings, with those that are added."""
    value = arguments[-1].value if arguments and name in _ADDING else None
    if value is None and (name == "append" or owner.items is None):
        return None
    texts = _texts(name, value) if value is not None and is_text(owner) else None
    if texts is not None and len(owner.items or ()) + len(texts) <= MAX_LINES:
        return Sequence(owner.kind, None, (*(owner.items or ()), *texts))
    added = [] if value is None else [element_of(frame, value) if name == "extend" else value]
    item = join_all(added if owner.items == () else [any_item(owner), *added])
    return Sequence(owner.kind, item, None, owner.pulls.union(*map(collected, added)))


def _texts(name: str, value: Value) -> tuple[Value, ...] | None:
    """Return the strings that a method adds at the end of a list; None if it may add others."""
    if name == "append" and type(value) is Str:
        return (value,)
    if name != "extend" or type(value) is not Sequence or not is_text(value):
        return None
    return value.items if value.kind in ("list", "tuple", "iterator") else None


def _updated(owner: Dict, arguments: tuple[Argument, ...]) -> Dict:
    """``d.update(other, key=value)``: what both hold."""
    known = dict(owner.known)
    item = owner.item
    exact = owner.exact
    for argument in arguments:
        value = argument.value
        if argument.keyword is not None:
            known[argument.keyword] = value
        elif isinstance(value, Dict):
            known.update(value.known)
            item = value.item if item is UNKNOWN else join_all((item, value.item))
            exact = exact and value.exact
        else:
            known = {key: join_all((held, UNKNOWN)) for key, held in known.items()}
            item = join_all((item, UNKNOWN))
            exact = False
    return Dict(item, tuple(known.items()), exact)


def _changed_dict(owner: Dict, name: str, arguments: tuple[Argument, ...]) -> Value | None:
    """``d.pop(key)``, ``d.setdefault(key, value)``: which keys a known dictionary has."""
    if name == "update":
        return _updated(owner, arguments)
    if not owner.exact:
        return None
    key = first_value(arguments)
    text = key.text if isinstance(key, Str) else None
    if text is None or name not in ("pop", "setdefault"):
        return open_ended(owner)
    known = dict(owner.known)
    if name == "pop":
        known.pop(text, None)
    elif text not in known:
        known[text] = arguments[1].value if len(arguments) > 1 else UNKNOWN
    return Dict(owner.item, tuple(known.items()), exact=True)
