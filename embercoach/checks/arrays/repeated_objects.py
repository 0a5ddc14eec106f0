"""NN-013: lists that hold one layer or cache several times."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from embercoach.analysis.calls.definitions import ClassInfo
from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.evaluate.members import member
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values.facts import Fact
from embercoach.analysis.values.inheritance import is_layer, is_layer_class
from embercoach.analysis.values.lattice import UNKNOWN, Class, Symbol, Value
from embercoach.checks.registry import Report, check

_CONSTRUCTORS = frozenset(("__init__", "__post_init__", "__new__"))


@check("NN-013")
def repeated_objects(module: Module, _: list[Fact]) -> Iterator[Report]:
    """``[KVCache()] * layers``: all entries are one object."""
    if not any(text in module.source for text in (")] *", ")]*", ")]] *", "* [", "*[")):
        return
    repeated: dict[cst.Call, cst.BinaryOperation] = {}
    for product in contents_of(module.tree).of(cst.BinaryOperation):
        if isinstance(product.operator, cst.Multiply):
            for side in (product.left, product.right):
                repeated.update((call, product) for call in _made(side))
    reported: set[cst.CSTNode] = set()
    for call, product in repeated.items():
        kind = _changing_kind(_callee(call, module))
        if kind is None or product in reported:
            continue
        reported.add(product)
        yield Report.in_file(
            module,
            product,
            message=f"`*` repeats one {kind}: all entries are the same object",
            help="Make one for each entry: `[... for _ in range(n)]`",
        )


def _callee(call: cst.Call, module: Module) -> Value:
    """Return what a call names, as the top level of the file binds it."""
    path = (dotted(call.func) or "").split(".")
    found = module.frame.lookup(path[0]) if path[0] else UNKNOWN
    for name in path[1:]:
        found = member(module.frame, found, name)
    return found


def _made(node: cst.BaseExpression) -> Iterator[cst.Call]:
    """Yield the calls whose results a list holds, also in tuples and lists in it."""
    pending = [node] if isinstance(node, cst.List) else []
    while pending:
        inner = pending.pop()
        for element in inner.elements:
            if isinstance(element.value, (cst.List, cst.Tuple)):
                pending.append(element.value)  # type: ignore[arg-type]
            elif isinstance(element.value, cst.Call):
                yield element.value


def _changing_kind(callee: Value) -> str | None:
    """Return what a call makes that later calls change: a layer, a cache or another object."""
    if isinstance(callee, Symbol):
        if is_layer_class(callee.name):
            return "layer"
        last = callee.name.rpartition(".")[2]
        return "cache" if last.endswith("Cache") and last[:1].isupper() else None
    if not isinstance(callee, Class):
        return None
    return (
        "layer"
        if is_layer(callee.info)
        else f"`{callee.info.name}`"
        if _changes(callee.info)
        else None
    )


def _changes(info: ClassInfo) -> bool:
    """Return whether methods of a class set attributes of an object that is made."""
    setters = (method for methods in info.setters.values() for method in methods)
    return any(method.name not in _CONSTRUCTORS for method in setters)
