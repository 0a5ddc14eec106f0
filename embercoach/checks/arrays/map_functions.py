"""API-028: functions that MLX calls with more or fewer arguments than they take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import libcst as cst

from embercoach.analysis.calls.definitions import FunctionInfo
from embercoach.analysis.calls.signatures import Signature, signature_of
from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.scopes import bodies_of, resolved
from embercoach.analysis.dataflow.value_sources import Source, sources_of
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values.facts import CallFact, Fact
from embercoach.analysis.values.inheritance import find_method, is_layer, is_module
from embercoach.analysis.values.lattice import Function, Instance, Unknown, Value, options
from embercoach.analysis.values.memo import kept_for_file
from embercoach.checks.fallbacks import REFUSED
from embercoach.checks.registry import Located, Report, check
from embercoach.checks.source_text import mlx_alias


class _Callback(NamedTuple):
    """A parameter that takes a function, and the arguments that MLX calls that with."""

    place: int
    name: str
    given: tuple[str, ...]


_FILTER = ("module", "key", "value")
_LEAF = ("leaf",)
#: By methods of ``nn.Module``.
_OF_MODULES = {
    "apply": (_Callback(0, "map_fn", ("array",)), _Callback(1, "filter_fn", _FILTER)),
    "apply_to_modules": (_Callback(0, "apply_fn", ("path", "module")),),
    "filter_and_map": (
        _Callback(0, "filter_fn", _FILTER),
        _Callback(1, "map_fn", ("value",)),
        _Callback(2, "is_leaf_fn", _FILTER),
    ),
}
#: By functions of MLX; a map over several trees gets a leaf of each.
_OF_FUNCTIONS = {
    "mlx.utils.tree_map": (_Callback(0, "fn", _LEAF), _Callback(-1, "is_leaf", _LEAF)),
    "mlx.utils.tree_map_with_path": (
        _Callback(0, "fn", ("path", "leaf")),
        _Callback(-1, "is_leaf", _LEAF),
    ),
    "mlx.utils.tree_flatten": (_Callback(-1, "is_leaf", _LEAF),),
    "mlx.utils.tree_reduce": (_Callback(0, "fn", ("result", "leaf")),),
    "mlx.nn.quantize": (_Callback(-1, "class_predicate", ("path", "module")),),
}
_MAPS = ("mlx.utils.tree_map", "mlx.utils.tree_map_with_path")


@check("API-028", of=tuple(_OF_FUNCTIONS), unless=REFUSED)
def refused_by_callback(fact: CallFact, module: Module) -> Iterator[Report]:
    """``tree_map(lambda x: 0.5 * x, old, new)``."""
    symbol = fact.symbol or ""
    if symbol not in _OF_FUNCTIONS or any(argument.star for argument in fact.arguments):
        return
    first, *others = _OF_FUNCTIONS[symbol]
    trees = sum(argument.keyword is None for argument in fact.arguments) - 1
    if symbol in _MAPS and trees > 1:
        first = first._replace(given=first.given + _LEAF * (trees - 1))
    for callback in (first, *others):
        argument = fact.keyword(callback.name)
        if argument is None and callback.place >= 0:
            argument = fact.positional(callback.place)
        value = None if argument is None else argument.value
        if argument is not None and isinstance(value, Function):
            function = _Given(value.info, is_bound=value.bound is not None)
            yield from _refused(callback, argument.node, function, fact)


@check("API-028", unless=REFUSED)
def refused_by_callback_of_module(module: Module, _: list[Fact]) -> Iterator[Report]:
    """``model.apply(lambda path, x: x.astype(mx.float16))``."""
    if "mlx" not in module.source or not any(f".{one}(" in module.source for one in _OF_MODULES):
        return
    for function, contents in bodies_of(module):
        for call in contents.calls if not contents.names.isdisjoint(_OF_MODULES) else ():
            func = call.func
            name = func.attr.value if isinstance(func, cst.Attribute) else ""
            if not isinstance(func, cst.Attribute) or name not in _OF_MODULES:
                continue
            owner = Source(func.value, contents.statement_of(call), function, module)
            for callback in _OF_MODULES[name]:
                node = _argument(call, callback)
                given = None if node is None else _function(node, function, module)
                if node is None or given is None:
                    continue
                reports = [*_refused(callback, node, given, owner)]
                if reports and _is_for_module(name, owner, given.info):
                    yield from reports


class _Given(NamedTuple):
    """A function that is passed, and whether an instance comes first."""

    info: FunctionInfo
    is_bound: bool


def _argument(call: cst.Call, callback: _Callback) -> cst.BaseExpression | None:
    if any(argument.star for argument in call.args):
        return None
    named = (a.value for a in call.args if a.keyword and a.keyword.value == callback.name)
    plain = [argument.value for argument in call.args if argument.keyword is None]
    return next(named, plain[callback.place] if callback.place < len(plain) else None)


def _function(
    node: cst.BaseExpression, around: FunctionInfo | None, module: Module
) -> _Given | None:
    """Return the function of the file that an expression is: a lambda, a name or a method."""
    cls = None if around is None else around.cls
    if isinstance(node, cst.Attribute):
        method = find_method(cls, node.attr.value) if cls and dotted(node.value) == "self" else None
        return None if method is None else _Given(method, is_bound=method.is_method)
    info = _by_node(module).get(resolved(node, around, module))
    return None if info is None or info.cls is not None else _Given(info, is_bound=False)


@kept_for_file
def _by_node(module: Module) -> dict[cst.CSTNode, FunctionInfo]:
    return {function.node: function for function in module.functions}


def _refused(
    callback: _Callback, node: cst.BaseExpression, function: _Given, where: Located
) -> Iterator[Report]:
    signature = signature_of(function.info, is_bound=function.is_bound)
    if signature is None or _takes(len(callback.given), signature):
        return
    count = len(callback.given)
    yield Report.at(
        where,
        node=node,
        message=f"MLX calls this function with {count} argument{'s' * (count != 1)}, "
        f"it takes {_counted(signature)}",
        help=f"Take {', '.join(f'the {one}' for one in callback.given[:_MOST_LISTED])} alone",
    )


_MOST_LISTED = 4  # arguments that a help text lists


def _takes(count: int, signature: Signature) -> bool:
    by_place = [name for name in signature.required if name in signature.places]
    if len(by_place) < len(signature.required):
        return False
    return len(by_place) <= count and (signature.has_more or count <= len(signature.places))


def _counted(signature: Signature) -> str:
    required, most = len(signature.required), len(signature.places)
    if signature.has_more:
        return f"at least {required}"
    return f"{required}" if required >= most else f"{required} to {most}"


def _is_for_module(name: str, owner: Source, info: FunctionInfo) -> bool:
    """Return whether a method is that of ``nn.Module``: by its object, or by what is passed."""
    found = [*options(sources_of(owner.module).value(owner))]
    if all(map(_is_layer, found)):
        return True
    is_open = all(isinstance(one, Unknown) or _is_layer(one) for one in found)
    return is_open and (name not in _COMMON or _names_mlx(info))


#: Methods of a name that objects of other libraries have as well.
_COMMON = ("apply",)


def _is_layer(value: Value) -> bool:
    if isinstance(value, Instance):
        own = (find_method(value.info, name) for name in _OF_MODULES)
        return is_layer(value.info) and not any(own)
    return is_module(value)


def _names_mlx(info: FunctionInfo) -> bool:
    """Return whether a function names MLX, also in an annotation."""
    return mlx_alias(info.module) in contents_of(info.node).names
