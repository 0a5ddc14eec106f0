"""Raw entries of the table: what a function or class in MLX's files declares, and no more."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from embercoach.analysis.mlx_api.result_expressions import UNKNOWN, Result, union_of
from embercoach.analysis.mlx_api.stub_annotations import (
    Accepts,
    accepts_of,
    join_kinds,
    last_name,
    result_of,
)

Resolve = Callable[[str], "str | None"]  # a class's name in its module -> its qualified name
_ACTIVATION = "_make_activation_module"  # MLX's decorator that makes `__call__` of a function


@dataclass(frozen=True, slots=True)
class RawParam:
    """One parameter; kind is normal, positional_only, keyword_only, variadic or keywords."""

    name: str
    accepts: Accepts
    has_default: bool
    kind: str


@dataclass(slots=True)
class RawEntry:
    """One public name as MLX's files declare it; `like` names the function a layer applies."""

    kind: str
    returns: Result = UNKNOWN
    params: list[RawParam] = field(default_factory=list)
    bases: list[str] = field(default_factory=list)
    like: str = ""


def read_callable(node: ast.FunctionDef, resolve: Resolve, *, owned: bool = False) -> RawEntry:
    """The entry of a function, or of a method or property where it is `owned` by a class."""
    decorators = {last_name(item) for item in node.decorator_list}
    params = list(_params(node.args))
    if owned and "staticmethod" not in decorators:
        params = params[1:]
    returns = result_of(node.returns, resolve)
    if "property" in decorators:
        return RawEntry("property", returns)
    return RawEntry("method" if owned else "function", returns, params)


def merge_overloads(first: RawEntry, second: RawEntry) -> RawEntry:
    """One entry that takes what either takes; parameters are matched by place, then by name."""
    longer, shorter = sorted((first, second), key=lambda entry: -len(entry.params))
    places, others = _by_place(longer), _by_place(shorter)
    merged = [
        _merge_params(param, other)
        for param, other in zip_longest(places, others)
        if param is not None
    ]
    names = {param.name for param in shorter.params}
    keywords = [param for param in longer.params if param.kind not in _PLACED]
    merged += [
        param if param.name in names else replace(param, has_default=True) for param in keywords
    ]
    returns = union_of([first.returns, second.returns])
    return RawEntry(first.kind, returns, merged)


_PLACED = {"normal", "positional_only"}


def _by_place(entry: RawEntry) -> list[RawParam]:
    return [param for param in entry.params if param.kind in _PLACED]


def _merge_params(param: RawParam, other: RawParam | None) -> RawParam:
    if other is None:
        return replace(param, has_default=True)
    kinds = {*param.accepts.kinds.split("|"), *other.accepts.kinds.split("|")}
    accepts = Accepts(join_kinds(kinds), param.accepts.nullable or other.accepts.nullable)
    return replace(param, accepts=accepts, has_default=param.has_default or other.has_default)


def _params(args: ast.arguments) -> Iterator[RawParam]:
    positional = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(positional) - len(args.defaults)) + list(args.defaults)
    for index, (arg, default) in enumerate(zip(positional, defaults, strict=True)):
        kind = "positional_only" if index < len(args.posonlyargs) else "normal"
        yield RawParam(arg.arg, accepts_of(arg.annotation, default), default is not None, kind)
    if args.vararg:
        accepts = accepts_of(args.vararg.annotation)
        yield RawParam(args.vararg.arg, accepts, True, "variadic")
    for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        accepts = accepts_of(arg.annotation, default)
        yield RawParam(arg.arg, accepts, default is not None, "keyword_only")
    if args.kwarg:
        yield RawParam(args.kwarg.arg, accepts_of(args.kwarg.annotation), True, "keywords")


def class_entries(
    node: ast.ClassDef, qualname: str, resolve: Resolve, *, dunders: frozenset[str] | None = None
) -> dict[str, RawEntry]:
    """A class and its public members by qualified name; its parameters are `__init__`'s.

    `dunders` are the special methods to keep; None keeps all of them.
    """
    entries = {qualname: RawEntry("class", Result("instance", target=qualname))}
    for member in node.body:
        if not isinstance(member, ast.FunctionDef) or _is_setter(member):
            continue
        entry = read_callable(member, resolve, owned=True)
        name = f"{qualname}.{member.name}"
        if member.name == "__init__":
            entries[qualname].params = entry.params
        elif _is_kept(member.name, dunders):
            known = entries.get(name)
            entries[name] = merge_overloads(known, entry) if known else entry
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and last_name(decorator.func) == _ACTIVATION:
            param = RawParam("x", Accepts("any"), False, "normal")
            entries[f"{qualname}.__call__"] = RawEntry(
                "method", params=[param], like=ast.unparse(decorator.args[0])
            )
    return entries


#: Special methods that a wheel's stubs name or not by the Python that they were made with.
_BY_PYTHON = frozenset({"__buffer__", "__release_buffer__"})


def _is_kept(name: str, dunders: frozenset[str] | None) -> bool:
    if name.startswith("__"):
        return name not in _BY_PYTHON if dunders is None else name in dunders
    return not name.startswith("_")


def _is_setter(node: ast.FunctionDef) -> bool:
    return any(isinstance(d, ast.Attribute) and d.attr == "setter" for d in node.decorator_list)


def self_assignments(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr, ast.FunctionDef]]:
    """Attributes that a class's `__init__` assigns one by one: name, value, the method."""
    for method in node.body:
        if not isinstance(method, ast.FunctionDef) or method.name != "__init__":
            continue
        for statement in ast.walk(method):
            if not isinstance(statement, ast.Assign):
                continue
            for target in statement.targets:
                if isinstance(target, ast.Attribute) and last_name(target.value) == "self":
                    yield target.attr, statement.value, method
