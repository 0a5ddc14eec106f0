"""CALL: calls that functions of the project refuse, and results that cannot be unpacked."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import NamedTuple

import libcst as cst

from embercoach.analysis.calls.definitions import ClassInfo, FunctionInfo
from embercoach.analysis.calls.signatures import Signature, generated_signature, signature_of
from embercoach.analysis.dataflow.contents import contents_of, root_name
from embercoach.analysis.dataflow.layout import layout_of
from embercoach.analysis.dataflow.origins import Stop
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.dataflow.scopes import assignment_counts, display
from embercoach.analysis.dataflow.value_sources import returned_by, sources_of
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values.facts import ClassCall, LocalCall, ProjectCall, calls_of
from embercoach.analysis.values.inheritance import lineage, subclasses
from embercoach.analysis.values.lattice import (
    UNKNOWN,
    Array,
    ModuleRef,
    Transformed,
    Union,
    Value,
)
from embercoach.analysis.values.memo import kept_for_file
from embercoach.checks.fallbacks import REFUSED, is_attempted
from embercoach.checks.registry import Report, check

#: Parameters that a help text lists, and characters of a name that a message quotes.
_MOST_LISTED, _LONGEST = 4, 24
_CONSTRUCTORS = ("__init__", "__call__")
#: Methods that Python calls in another way than by their parameters.
_SPECIAL = frozenset(("__new__", "__init_subclass__", "__class_getitem__"))


class _Refusal(NamedTuple):
    """An expression that a signature refuses, the problem, and the remedy."""

    node: cst.CSTNode
    problem: str
    remedy: str


@check("CALL-001", unless=REFUSED)
def refused_by_function(fact: LocalCall | ProjectCall, module: Module) -> Iterator[Report]:
    """``attention(x, mask=mask)`` of a function of the project without ``mask``."""
    if not _is_certain(fact, module):
        return
    function = fact.function
    signature = signature_of(function, is_bound=fact.is_bound)
    refusal = None if signature is None else _refusal(fact.node, signature)
    if refusal is None or function.name in _SPECIAL:
        return
    if function.cls is None and isinstance(fact.node.func, cst.Attribute):
        owner = sources_of(module).of(fact, fact.node.func.value)
        # A function that a class takes as a method gets the instance, too.
        if not isinstance(sources_of(module).value(owner), ModuleRef):
            return
    if function.cls is not None and _may_be_another(fact, function, function.cls, module):
        return
    is_made = function.name == "__init__" and last_name(fact.node) != "__init__"
    name = function.cls.name if is_made and function.cls is not None else _name(fact.node, function)
    yield _reported(fact, refusal, name)


@check("CALL-001", unless=REFUSED)
def refused_by_class(fact: ClassCall, module: Module) -> Iterator[Report]:
    """``ModelArgs(dim=8, layers=2)`` of a dataclass without ``layers``."""
    signature = generated_signature(fact.cls)
    refusal = None if signature is None else _refusal(fact.node, signature)
    if refusal is not None:
        yield _reported(fact, refusal, fact.cls.name)


def _is_certain(fact: LocalCall | ProjectCall, module: Module) -> bool:
    """Return whether a call can be of no other function, and passes all its arguments itself."""
    if isinstance(fact, ProjectCall) and not fact.is_certain:
        return False
    known = calls_of(module).get(fact.node)
    callee: Value = UNKNOWN if known is None else known.callee
    while isinstance(callee, Transformed) and callee.transform != "partial":
        callee = callee.inner
    return not isinstance(callee, (Transformed, Union))


def _reported(fact: LocalCall | ProjectCall | ClassCall, refusal: _Refusal, name: str) -> Report:
    return Report.at(
        fact,
        node=refusal.node,
        message=f"`{name[:_LONGEST]}()` {refusal.problem}",
        help=refusal.remedy,
    )


def _name(call: cst.Call, function: FunctionInfo) -> str:
    return last_name(call) or function.name


def _refusal(call: cst.Call, signature: Signature) -> _Refusal | None:
    """Return the first argument that a signature refuses, or the one that the call misses."""
    stars = {argument.star for argument in call.args if argument.star}
    plain = [argument for argument in call.args if not argument.star and argument.keyword is None]
    named = {a.keyword.value: a for a in call.args if a.keyword is not None}
    for name, argument in named.items():
        if name not in signature.keywords and not signature.has_any:
            return _Refusal(
                argument.value, f"has no parameter `{name[:_LONGEST]}`", _near(name, signature)
            )
    if "*" in stars:
        return None
    places = signature.places
    if len(plain) > len(places) and not signature.has_more:
        node = plain[len(places)].value
        most = f"at most {len(places)} positional" if places else "no positional"
        return _Refusal(node, f"takes {most} arguments, got {len(plain)}", _listed(signature))
    taken = set(places[: len(plain)])
    twice = next((name for name in named if name in taken and name in signature.keywords), None)
    if twice is not None:
        problem = f"gets the argument `{twice[:_LONGEST]}` twice"
        return _Refusal(named[twice].value, problem, "Pass it by place or by keyword, not both")
    if stars:
        return None
    missing = [n for n in signature.required if n not in taken and n not in named]
    if missing:
        return _Refusal(call, f"misses the argument `{missing[0][:_LONGEST]}`", _listed(signature))
    return None


def _near(name: str, signature: Signature) -> str:
    near = get_close_matches(name, signature.keywords, n=1)
    return f"Did you mean `{near[0][:_LONGEST]}`?" if near else _listed(signature)


def _listed(signature: Signature) -> str:
    names = list(dict.fromkeys((*signature.places, *signature.keywords)))
    if not names:
        return "Remove the arguments, or add the parameters to the function"
    shown = [f"`{name[:_LONGEST]}`" for name in names[:_MOST_LISTED]]
    return f"Its parameters: {', '.join(shown)}{', ...' if len(names) > len(shown) else ''}"[:100]


def _may_be_another(
    fact: LocalCall | ProjectCall, function: FunctionInfo, cls: ClassInfo, module: Module
) -> bool:
    """Return whether the method of a subclass may be meant, or one that replaces it."""
    name = function.name
    if assignment_counts(module)[name] or assignment_counts(function.module)[name]:
        return True
    func = fact.node.func
    is_class = name == "__init__" and last_name(fact.node) != name
    if is_class:
        return _is_made_otherwise(cls)
    owner = func.value if isinstance(func, cst.Attribute) and func.attr.value == name else None
    if _is_fixture(func if owner is None else owner, fact, module):
        return True
    if isinstance(owner, cst.Call) and last_name(owner) == "super":
        # It may be another base, of a class with several, or below one.
        return any(len(one.bases) > 1 for one in (cls, *subclasses(cls, module)))
    return _is_stub(function) or any(name in one.methods for one in subclasses(cls, module))


def _is_fixture(owner: cst.BaseExpression, fact: LocalCall | ProjectCall, module: Module) -> bool:
    """Return whether an object is a parameter of a test: several fixtures may have its name."""
    name, function = root_name(owner), fact.place.function
    return module.is_test and any(
        p.name == name and p.annotation is None
        for p in (() if function is None else function.parameters[function.is_method :])
    )


def _is_made_otherwise(cls: ClassInfo) -> bool:
    classes = [*lineage(cls)]
    return bool(cls.node.decorators) or any(
        one.node.keywords or "__new__" in one.methods for one in classes
    )


def _is_constant(value: cst.BaseExpression | None) -> bool:
    return value is None or dotted(value) in ("None", "True", "False")


def _is_stub(function: FunctionInfo) -> bool:
    """Return whether a method has no body but a docstring, ``pass``, ``...`` and ``raise``."""
    if isinstance(function.node, cst.Lambda):
        return False
    return all(
        isinstance(statement, (cst.Pass, cst.Raise))
        or (isinstance(statement, cst.Return) and _is_constant(statement.value))
        or (
            isinstance(statement, cst.Expr)
            and isinstance(statement.value, (cst.BaseString, cst.Ellipsis))
        )
        for statement in contents_of(function.node.body).statements
    )


#: Characters of a name that a message quotes.
_LONGEST = 24


class _Result(NamedTuple):
    """A return statement, with how many results it has; 0 for one array."""

    statement: cst.CSTNode
    size: int


@check("CALL-003")
def uneven_results(fact: LocalCall | ProjectCall, module: Module) -> Iterator[Report]:
    """``q, k, v = split(x)`` of a function that returns two for an empty array."""
    statement, function = fact.place.statement, fact.function
    if type(statement) is not cst.Assign or statement.value is not fact.node:
        return
    if isinstance(fact, ProjectCall) and not fact.is_certain:
        return
    targets = display(statement.targets[0].target)
    if targets is None or len(targets) < 2:
        return
    results = _results(function, module)
    uneven = next((one for one in results if one.size != len(targets)), None)
    if uneven is None or all(one.size != len(targets) for one in results):
        return
    if _is_chosen(function) or is_attempted(module, statement):
        return
    what = f"{uneven.size} results" if uneven.size else "one array"
    stop = Stop(uneven.statement, uneven.statement, f"here it returns {what}")
    yield Report.at(
        fact,
        message=f"`{last_name(fact.node)[:_LONGEST]}()` may return {what}, not {len(targets)}",
        help="Return as many results on all paths",
        related=(stop,) if function.module is module else (),
    )


@kept_for_file
def _results(function: FunctionInfo, module: Module) -> tuple[_Result, ...]:
    """Return the results of a function of which it is known how many they are."""
    found: list[_Result] = []
    for value, statement in returned_by(function):
        items, known = display(value), calls_of(module).get(value)
        if items is not None:
            found.append(_Result(statement, len(items)))
        elif known is not None and type(known.result) is Array:
            found.append(_Result(statement, 0))
    return tuple(found)


@kept_for_file
def _is_chosen(function: FunctionInfo) -> bool:
    """Return whether options or attributes decide which results there are."""
    layout = layout_of(function.module, function)
    own = {p.name for p in function.parameters if p.default is not None or p.star}
    own.update(p.name for p in function.parameters[: function.is_method])
    tests = [
        level.owner.test
        for _, statement in returned_by(function)
        for level in layout.outward(statement)
        if isinstance(level.owner, cst.If)
    ]
    return any(not own.isdisjoint(contents_of(test).names) for test in tests)
