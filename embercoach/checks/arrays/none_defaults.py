"""PARAM-003: parameters whose default None raises where the function uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.dataflow.contents import Contents, contents_of, root_name
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.dataflow.scopes import passed_arguments
from embercoach.analysis.dataflow.value_sources import sources_of
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values.memo import kept_for_file
from embercoach.checks.arrays.project_calls import is_certain, may_be_another
from embercoach.checks.fallbacks import REFUSED, is_expected
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.facts import Fact, LocalCall, ProjectCall

_LONGEST = 24  # characters of a name that a message quotes
_ATTENTION = "scaled_dot_product_attention"


class _Use(NamedTuple):
    """A use that None raises in; ``is_value`` if only a call shows that None may come there.

    Code that reads attributes or items of a parameter, or calls it, needs it in any case: its
    default is for a signature that others have as well.
    """

    node: cst.CSTNode
    statement: cst.CSTNode
    is_value: bool


@check("PARAM-003")
def unusable_default(module: Module, _: list[Fact]) -> Iterator[Report]:
    """``scales + [1.0]`` of a parameter ``scales=None``."""
    if "=None" not in module.source and "= None" not in module.source:
        return
    for function in module.functions:
        for name, use in _raising(function).items():
            if use.is_value and not _is_passed_by_all(name, function, module):
                yield Report(
                    "PARAM-003",
                    use.node,
                    module.frame.place()._replace(statement=use.statement, function=function),
                    message=f"the default None of `{name[:_LONGEST]}` raises an error here",
                    help="Give it a default that can be used, test for None, or require it",
                    context="default",
                )


@check("PARAM-003")
def left_out(fact: LocalCall | ProjectCall, module: Module) -> Iterator[Report]:
    """``attend(x)`` of a function that reads ``mask.shape`` of its ``mask=None``."""
    function = fact.function
    raising = _raising(function)
    if not raising or any(argument.star for argument in fact.node.args):
        return
    passed = passed_arguments(fact)
    for name, use in raising.items():
        given = passed.get(name)
        is_handed_on = given is not None and use.is_value and _is_default(given, fact)
        if (given is not None and not is_handed_on) or (use.is_value and function.module is module):
            continue
        if not is_certain(fact, module) or (
            function.cls is not None and may_be_another(fact, function, function.cls, module)
        ):
            return
        if not is_expected(module, fact.place.statement, REFUSED, broadly=True):
            called = (last_name(fact.node) or function.name)[:_LONGEST]
            yield Report.at(
                fact,
                "PARAM-003",
                node=fact.node if given is None else given,
                message=f"`{called}()` fails without `{name[:_LONGEST]}`: it uses its default None",
                help=f"Pass `{name[:_LONGEST]}`, or test for None in the function",
            )


def _is_default(given: cst.BaseExpression, fact: LocalCall | ProjectCall) -> bool:
    """Return whether an argument is a parameter of the caller whose default is None."""
    function = fact.place.function
    if not isinstance(given, cst.Name) or function is None:
        return False
    contents = contents_of(function.node.body)
    is_open = given.value in _open(function) and given.value not in contents.stored
    return is_open and not any(_is_asked(one, contents) for one in contents.uses(given.value))


def _open(function: FunctionInfo) -> list[str]:
    """Return the parameters whose default is None."""
    return [
        parameter.name
        for parameter in function.parameters
        if parameter.default is not None
        and dotted(parameter.default) == "None"
        and parameter.name not in function.rebound
    ]


def _is_passed_by_all(name: str, function: FunctionInfo, module: Module) -> bool:
    """Return whether a function has callers in this file alone, which all pass an argument."""
    if not function.name.startswith("_") and function.outer is None:
        return False
    callers = sources_of(module).callers(function)
    return bool(callers) and all(
        name in passed_arguments(call) or any(argument.star for argument in call.node.args)
        for call in callers
    )


@kept_for_file
def _raising(function: FunctionInfo) -> dict[str, _Use]:
    """Return the first use that raises of each parameter whose default is None."""
    if not isinstance(function.node, cst.FunctionDef) or function.module.is_test:
        return {}
    names = _open(function)
    if not names:
        return {}
    contents = contents_of(function.node.body)
    found: dict[str, _Use] = {}
    for name in names:
        uses = contents.uses(name) if name in contents.names else []
        if name in contents.stored or any(_is_asked(use, contents) for use in uses):
            continue
        raising = (_use(use, contents) for use in uses if _is_reached(use, contents))
        first = next((one for one in raising if one is not None), None)
        if first is not None:
            found[name] = first
    return found


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


def _use(use: cst.Name, contents: Contents) -> _Use | None:
    """Return a use in which None raises."""
    parent = contents.parent_of(use)
    statement = contents.statement_of(use)
    if isinstance(parent, cst.BinaryOperation) and not (
        isinstance(parent.operator, (cst.Modulo, cst.BitOr)) and parent.right is use
    ):
        return _Use(use, statement, is_value=True)
    is_negated = isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Minus)
    if is_negated or isinstance(parent, (cst.For, cst.StarredElement)):
        return _Use(use, statement, is_value=True)
    if isinstance(parent, (cst.Attribute, cst.Subscript)) and parent.value is use:
        return _Use(use, statement, is_value=False)
    if isinstance(parent, cst.Call) and parent.func is use:
        return _Use(use, statement, is_value=False)
    call = contents.parent_of(parent) if isinstance(parent, cst.Arg) else None
    if not isinstance(parent, cst.Arg) or not isinstance(call, cst.Call):
        return None
    is_builtin = isinstance(call.func, cst.Name) and call.func.value in _OF_VALUES
    is_scale = parent.keyword is not None and parent.keyword.value == "scale"
    is_attention = last_name(call) == _ATTENTION and root_name(call.func) == "mx"
    if (is_builtin and parent.keyword is None) or (is_scale and is_attention) or parent.star:
        return _Use(use, statement, is_value=True)
    return None
