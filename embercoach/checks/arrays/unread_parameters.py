"""PARAM: parameters that are overwritten or not passed on, and defaults of None that raise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from embercoach.analysis.calls.definitions import FunctionInfo, FunctionParameter
from embercoach.analysis.calls.signatures import signature_of
from embercoach.analysis.dataflow.contents import Contents, contents_of, root_name
from embercoach.analysis.dataflow.layout import reads_of
from embercoach.analysis.dataflow.reaching import Binding, last_name
from embercoach.analysis.dataflow.scopes import passed_arguments, scope_of
from embercoach.analysis.dataflow.value_sources import sources_of
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values.facts import CallFact, Fact, LocalCall, ProjectCall
from embercoach.analysis.values.inheritance import lineage
from embercoach.checks.registry import Report, check

#: What a method may call the mask of its attention.
_MASKS = frozenset(
    ("mask", "attention_mask", "attn_mask", "causal_mask", "key_padding_mask", "padding_mask")
)
_ATTENTION = "mlx.core.fast.scaled_dot_product_attention"
#: Characters of a name that a message quotes, and of the function's.
_LONGEST, _LONGEST_CALLEE = 30, 28


@check("PARAM-001")
def overwritten_parameter(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``mask = create_attention_mask(h)`` of a function with a parameter ``mask``."""
    for function in module.functions:
        if not isinstance(function.node, cst.FunctionDef) or _is_override(function):
            continue
        for parameter in _own_parameters(function):
            if parameter.name not in function.rebound:
                continue
            held = scope_of(module, function).reaching.bindings.get(parameter.name, ())
            if len(held) > 1 and _is_overwritten(held, function, module):
                yield _overwritten(held[1], function)


def _own_parameters(function: FunctionInfo) -> Iterator[FunctionParameter]:
    """Yield the parameters but for the instance, gathering ones, and those named as unused."""
    for parameter in function.parameters[function.is_method :]:
        if not parameter.star and not parameter.name.startswith("_"):
            yield parameter


def _is_override(function: FunctionInfo) -> bool:
    """Return whether a base of the project gives a method its parameters."""
    cls = function.cls
    return cls is not None and any(
        function.name in one.methods for one in lineage(cls) if one is not cls
    )


def _readers(name: str, function: FunctionInfo, module: Module) -> list[cst.CSTNode]:
    """Return the statements that read a name, or update what it holds."""
    bindings = scope_of(module, function).reaching.bindings.get(name, ())
    updates = [b.statement for b in bindings if b.kind == "updated"]
    return [*reads_of(module, function).get(name, ()), *updates]


def _is_overwritten(bindings: Sequence[Binding], function: FunctionInfo, module: Module) -> bool:
    """Return whether something reads a name, and never as the caller has passed it."""
    reaching = scope_of(module, function).reaching
    given, first = bindings[:2]
    if first.value is not None and given.name in contents_of(first.value).names:
        return False  # most of them
    readers = _readers(given.name, function, module)
    return (
        given.kind == "parameter"
        and bool(readers)
        and all(
            held is not None and given not in held
            for held in (reaching.before(reader, given.name) for reader in readers)
        )
    )


def _overwritten(binding: Binding, function: FunctionInfo) -> Report:
    name = binding.name[:_LONGEST]
    return Report.in_file(
        function.module,
        binding.node,
        "PARAM-001",
        function=function,
        context=None,
        message=f"parameter `{name}` is overwritten before it is read",
        help=f"Assign it under `if {name} is None:`, or remove the parameter",
    )


@check("PARAM-002", of=(_ATTENTION,))
def attention_without_mask(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.fast.scaled_dot_product_attention(q, k, v, scale=s)`` of a method with ``mask``."""
    yield from _not_passed(fact, module)


@check("PARAM-002")
def parameter_not_passed(fact: LocalCall | ProjectCall, module: Module) -> Iterator[Report]:
    """``self.attention(x)`` of a block with ``mask``, which the attention takes, too."""
    yield from _not_passed(fact, module)


def _not_passed(fact: CallFact | LocalCall | ProjectCall, module: Module) -> Iterator[Report]:
    """Report a parameter that nothing reads at the first call that leaves it out."""
    function = fact.place.function
    left_out = () if function is None else _left_out(fact)
    if function is None or not left_out or _is_general(function):
        return
    if last_name(fact.node) == function.name:
        return  # a wrapper may decide what it passes on
    for parameter in _own_parameters(function):
        name = parameter.name
        if name not in left_out or name in contents_of(function.node.body).names:
            continue
        if next(one for one in module.facts_of(function) if name in _left_out(one)) is fact:
            callee = last_name(fact.node)[:_LONGEST_CALLEE]
            yield Report.at(
                fact,
                "PARAM-002",
                message=f"`{name[:_LONGEST]}` is never read: `{callee}()` does not get it",
                help=f"Pass it on: `{name[:_LONGEST]}={name[:_LONGEST]}`, or remove the parameter",
            )


_LITERALS = (cst.Integer, cst.Float, cst.SimpleString)
_CONSTANTS = frozenset(("True", "False", "None"))


@check("PARAM-002")
def constant_passed(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``save(donate=True)`` in a function with a parameter ``donate`` that nothing reads."""
    for function in module.functions:
        given = (p.name for p in function.parameters if p.default is not None)
        written = [name for name in given if f"{name}=" in module.source]
        if not written:
            continue
        contents = contents_of(function.node.body)
        names = contents.names.intersection(written)
        if not names or _is_general(function):
            continue
        unread = {name for name in names if not contents.uses(name)}
        for call in contents.calls if unread else ():
            if last_name(call) == function.name:
                continue  # a wrapper may decide what it passes on
            for argument in call.args:
                name = "" if argument.keyword is None else argument.keyword.value
                if name in unread and _is_constant(argument.value):
                    unread.discard(name)
                    yield Report.in_file(
                        module,
                        argument.value,
                        function=function,
                        context=None,
                        message=f"`{name[:_LONGEST]}` is never read: a constant is passed for it",
                        help=f"Pass it on: `{name[:_LONGEST]}={name[:_LONGEST]}`",
                    )


def _is_constant(node: cst.BaseExpression) -> bool:
    is_name = isinstance(node, cst.Name) and node.value in _CONSTANTS
    return is_name or isinstance(node, _LITERALS)


def _is_general(function: FunctionInfo) -> bool:
    """Return whether other functions decide which parameters there are, or may read them."""
    signature = signature_of(function, is_bound=function.is_method)
    return signature is None or signature.has_more or signature.has_any or _is_override(function)


def _left_out(fact: Fact) -> frozenset[str]:
    """Return the parameters with defaults that a call leaves out, as far as its callee is known."""
    if isinstance(fact, CallFact):
        is_unmasked = fact.symbol == _ATTENTION and fact.keyword("mask") is None
        return _MASKS if is_unmasked else frozenset()
    if not isinstance(fact, (LocalCall, ProjectCall)) or any(a.star for a in fact.node.args):
        return frozenset()
    if isinstance(fact, ProjectCall) and not fact.is_certain:
        return frozenset()
    taken = {p.name for p in fact.function.parameters if p.default is not None}
    return frozenset(taken - passed_arguments(fact).keys()) if taken else frozenset()


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
    is_attention = last_name(call) == _ATTENTION.rpartition(".")[2] and root_name(call.func) == "mx"
    is_taken = is_builtin and parent.keyword is None
    return is_taken or (is_scale and is_attention) or bool(parent.star)
