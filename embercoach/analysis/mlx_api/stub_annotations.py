"""Reads type annotations of MLX's stubs and sources (as `ast`) into the table's two languages.

`result_of` gives a result expression (see `results`), `accepts_of` the set of kinds of value a
parameter takes. Both need `Names`, since `array` in a stub and `mx.array` in a source are one.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from embercoach.analysis.mlx_api.result_expressions import UNKNOWN, Result, union_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# Order in which the kinds of a parameter are written, joined by "|".
KINDS = (
    "scalar",
    "bool",
    "int",
    "ints",
    "float",
    "str",
    "dtype",
    "stream",
    "callable",
    "array",
    "list[array]",
    "tree",
)
_SCALARS = {"bool", "int", "float", "complex"}
_STREAMS = {"Stream", "ThreadLocalStream", "Device", "DeviceType", "StreamOrDevice"}
_SEQUENCES = {"list", "tuple", "List", "Tuple", "Sequence"}
_ATOMS = {
    "array": "array",
    "Dtype": "dtype",
    "Device": "device",
    "Stream": "stream",
    "bool": "bool",
    "int": "int",
    "float": "float",
    "complex": "complex",
    "str": "str",
    "bytes": "bytes",
    "None": "none",
    "NDArray": "numpy",
    "ModuleType": "module",
    "Callable": "callable",
}


@dataclass(frozen=True, slots=True)
class Accepts:
    """The kinds that a parameter takes, in table form, and whether None is one."""

    kinds: str
    nullable: bool = False


def members(annotation: ast.expr) -> list[ast.expr]:
    """The parts of a union, in any of its spellings; the annotation itself where it is none."""
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        return members(annotation.left) + members(annotation.right)
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return members(ast.parse(annotation.value, mode="eval").body)
    if isinstance(annotation, ast.Subscript):
        head = last_name(annotation.value)
        if head == "Union":
            return [part for item in _items(annotation) for part in members(item)]
        if head == "Optional":
            return [*members(annotation.slice), ast.Constant(None)]
        if head == "Annotated":
            return members(_items(annotation)[0])
    return [annotation]


def last_name(node: ast.expr) -> str:
    """The last part of a dotted name (`array` of `mlx.core.array`), `None` of None, else ""."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Constant) and node.value is None:
        return "None"
    return ""


def result_of(annotation: ast.expr | None, resolve: Callable[[str], str | None]) -> Result:
    """The result expression of a return annotation; `resolve` finds a class's qualified name."""
    if annotation is None:
        return UNKNOWN
    parts = members(annotation)
    return union_of([_single_result(part, resolve) for part in parts])


def _single_result(node: ast.expr, resolve: Callable[[str], str | None]) -> Result:
    if isinstance(node, ast.Subscript):
        return _container_result(node, resolve)
    name = last_name(node)
    if name == "scalar":
        return union_of([Result(kind) for kind in sorted(_SCALARS)])
    if name in _ATOMS:
        return Result(_ATOMS[name])
    if name in {"list", "tuple", "dict"}:
        items = (UNKNOWN,) * (2 if name == "dict" else 1)
        return Result(name, items, variadic=name == "tuple")
    target = resolve(name)
    return Result("instance", target=target) if target else UNKNOWN


def _container_result(node: ast.Subscript, resolve: Callable[[str], str | None]) -> Result:
    head = last_name(node.value)
    items = _items(node)
    if head == "Callable":
        return Result("callable")
    if head in {"tuple", "Tuple"}:
        variadic = isinstance(items[-1], ast.Constant) and items[-1].value is ...
        parts = tuple(result_of(item, resolve) for item in (items[:1] if variadic else items))
        if variadic and parts == (Result("int"),):
            return Result("shape")
        return Result("tuple", parts, variadic)
    if head in {"list", "List"}:
        return Result("list", (result_of(items[0], resolve),))
    if head in {"dict", "Dict"}:
        return Result("dict", tuple(result_of(item, resolve) for item in items))
    return UNKNOWN


def accepts_of(annotation: ast.expr | None, default: ast.expr | None = None) -> Accepts:
    """Return the kinds that a parameter takes, by annotation or else by default."""
    if annotation is None:
        return _accepts_of_default(default)
    kinds: set[str] = set()
    nullable = isinstance(default, ast.Constant) and default.value is None
    for part in members(annotation):
        if last_name(part) == "None":
            nullable = True
        else:
            kinds |= _single_accepts(part)
    return Accepts(join_kinds(kinds), nullable)


def _single_accepts(node: ast.expr) -> set[str]:
    if isinstance(node, ast.Subscript):
        return {_container_accepts(node)}
    name = last_name(node)
    if name in _STREAMS:
        return {"stream"}
    if name in {"NDArray", "ArrayLike", "DLPackCompatible"}:
        return set()  # comes with `array` wherever it occurs
    if name == "DtypeCategory":
        return {"dtype"}
    if name in {"array", "scalar", "str"} or name in _SCALARS:
        return {name}
    return {{"Dtype": "dtype", "Callable": "callable", "tuple": "ints"}.get(name, "any")}


def _container_accepts(node: ast.Subscript) -> str:
    head = last_name(node.value)
    if head == "Callable":
        return "callable"
    if head == "Literal":
        return "str"
    leaves = {last_name(leaf) for leaf in _leaves(node)}
    if head in {"dict", "Dict"} and "array" in leaves:
        return "tree"
    if head in _SEQUENCES and leaves == {"int"}:
        return "ints"
    if head in _SEQUENCES and leaves == {"array"}:
        return "list[array]"
    return "any"


def _leaves(node: ast.expr) -> Iterable[ast.expr]:
    """The innermost types of nested containers, without `...`."""
    if isinstance(node, ast.Subscript):
        for item in _items(node):
            yield from _leaves(item)
    elif not (isinstance(node, ast.Constant) and node.value is ...):
        yield node


def _accepts_of_default(default: ast.expr | None) -> Accepts:
    if isinstance(default, ast.UnaryOp):
        default = default.operand
    if not isinstance(default, ast.Constant):
        return Accepts("any")
    if default.value is None:
        return Accepts("any", nullable=True)
    name = type(default.value).__name__
    return Accepts(name if name in KINDS else "any")


def join_kinds(kinds: set[str]) -> str:
    """Write a set of kinds in table form: numbers of several types are one `scalar`."""
    kinds = set(kinds)
    if "any" in kinds or not kinds:
        return "any"
    if len(kinds & _SCALARS) > 1 or "complex" in kinds or "scalar" in kinds:
        kinds = (kinds - _SCALARS) | {"scalar"}
    if "ints" in kinds:
        kinds.discard("int")
    return "|".join(kind for kind in KINDS if kind in kinds)


def _items(node: ast.Subscript) -> list[ast.expr]:
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
