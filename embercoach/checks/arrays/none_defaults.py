"""PARAM-003: parameters whose default None raises where the function uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.dataflow.contents import Contents, contents_of, root_name
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.dataflow.scopes import passed_arguments
from embercoach.analysis.dataflow.value_sources import sources_of
from embercoach.analysis.syntax.trees import dotted
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.facts import Fact

_LONGEST = 24  # characters of a name that a message quotes
_ATTENTION = "scaled_dot_product_attention"


@check("PARAM-003")
def unusable_default(module: Module, _: list[Fact]) -> Iterator[Report]:
    """``scales + [1.0]`` of a parameter ``scales=None``."""
    if module.is_test or ("=None" not in module.source and "= None" not in module.source):
        return
    for function in module.functions:
        if not isinstance(function.node, cst.FunctionDef):
            continue
        contents = contents_of(function.node.body)
        for parameter in function.parameters:
            name, default = parameter.name, parameter.default
            if default is None or dotted(default) != "None" or name in function.rebound:
                continue
            uses = contents.uses(name) if name not in contents.stored else []
            if any(_is_asked(use, contents) for use in uses):
                continue
            found = (u for u in uses if _raises(u, contents) and _is_reached(u, contents))
            use = next(found, None)
            if use is None or _is_passed_by_all(name, function, module):
                continue
            yield Report.in_file(
                module,
                use,
                function=function,
                message=f"the default None of `{name[:_LONGEST]}` raises an error here",
                help="Give it a default that can be used, test for None, or require it",
            )


def _is_passed_by_all(name: str, function: FunctionInfo, module: Module) -> bool:
    """Return whether a function has callers in this file alone, which all pass an argument."""
    if not function.name.startswith("_") and function.outer is None:
        return False
    callers = sources_of(module).callers(function)
    return bool(callers) and all(
        name in passed_arguments(call) or any(argument.star for argument in call.node.args)
        for call in callers
    )


_QUESTIONS = ("isinstance", "hasattr", "getattr", "callable", "bool", "type")
_TESTED = (cst.If, cst.While, cst.IfExp, cst.Assert)
_BRANCHES = (
    *(cst.If, cst.IfExp, cst.Try, cst.TryStar, cst.While, cst.Match, cst.With),
    *(cst.FunctionDef, cst.Lambda, cst.ClassDef, cst.BooleanOperation, cst.CompFor),
)


def _is_asked(use: cst.Name, contents: Contents) -> bool:
    """Return whether a use may be a question for None."""
    inner: cst.CSTNode = use
    for outer in contents.above(use):
        if isinstance(outer, (cst.BooleanOperation, cst.Comparison, cst.Match, cst.Del)):
            return True
        if isinstance(outer, cst.UnaryOperation) and isinstance(outer.operator, cst.Not):
            return True
        if isinstance(outer, _TESTED) and inner is outer.test:
            return True
        if isinstance(outer, cst.Call) and last_name(outer) in _QUESTIONS:
            return True
        inner = outer
    return False


def _is_reached(use: cst.Name, contents: Contents) -> bool:
    """Return whether each call of a function that returns evaluates a use."""
    if any(isinstance(outer, _BRANCHES) for outer in contents.above(use)):
        return False
    for node in contents:
        if node is use:
            return True
        if isinstance(node, (cst.Return, cst.Yield, cst.Raise)) and use not in contents_of(node):
            return False
    return False


_OF_VALUES = frozenset(
    (
        *("len", "range", "enumerate", "zip", "list", "tuple", "sum", "sorted", "min", "max"),
        *("int", "float", "iter", "reversed", "set"),
    )
)


def _raises(use: cst.Name, contents: Contents) -> bool:
    """Return whether None raises where a name is used."""
    parent = contents.parent_of(use)
    if isinstance(parent, cst.BinaryOperation):
        is_operand = isinstance(parent.operator, (cst.Modulo, cst.BitOr)) and parent.right is use
        return not is_operand
    if isinstance(parent, cst.UnaryOperation):
        return isinstance(parent.operator, cst.Minus)
    call = contents.parent_of(parent) if isinstance(parent, cst.Arg) else None
    if not isinstance(parent, cst.Arg) or not isinstance(call, cst.Call):
        return isinstance(parent, (cst.For, cst.StarredElement))
    is_builtin = isinstance(call.func, cst.Name) and call.func.value in _OF_VALUES
    is_scale = parent.keyword is not None and parent.keyword.value == "scale"
    is_attention = last_name(call) == _ATTENTION and root_name(call.func) == "mx"
    is_taken = is_builtin and parent.keyword is None
    return is_taken or (is_scale and is_attention) or bool(parent.star)
