"""GRAPH-BREAK: an array's value is taken on the host, where the program decides or prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.contexts import HARM, context_of
from embercoach.analysis.facts.facts import CallFact, CompareFact, Fact, FormatFact, TruthFact
from embercoach.analysis.values.joins import as_array, definite_array, holds_arrays
from embercoach.analysis.values.lattice import (
    NONE,
    BoundMember,
    Dict,
    LibraryObject,
    Sequence,
    Str,
    Value,
)
from embercoach.checks.registry import Change, Report, check
from embercoach.checks.source_text import code_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.project.module import Module

CASTS = {"builtins.int", "builtins.float", "builtins.bool", "builtins.complex", "operator.index"}
REDUCTIONS = {"builtins.max", "builtins.min", "builtins.sorted", "builtins.any", "builtins.all"}
TEXT = {"builtins.print", "builtins.str", "builtins.repr", "builtins.format"}
LOGGER = LibraryObject("logging.Logger")
LOGGERS = {"logging.debug", "logging.info", "logging.warning", "logging.error"}
INSTEAD = {
    "builtins.max": "mx.max(x) or mx.maximum(a, b)",
    "builtins.min": "mx.min(x) or mx.minimum(a, b)",
    "builtins.any": "mx.any(x)",
    "builtins.all": "mx.all(x)",
    "builtins.sorted": "mx.sort(x)",
    "builtins.sum": "mx.sum(x), or mx.stack(xs).sum(axis=0)",
}


def pull(
    code: str,
    fact: Fact,
    module: Module,
    node: cst.CSTNode,
    value: Value,
    what: str,
    help_text: str,
    *,
    subject: cst.CSTNode | None = None,
) -> Report:
    """A report of a host synchronisation, with the harm that it does where it stands."""
    context = context_of(fact.place, module.is_test, value=value, pull=node, subject=subject)
    told = f"{what}: {HARM[context]}"
    return Report(code, node, fact.place, told, help_text, context, subject=subject)


@check("GRAPH-BREAK-001", on=CallFact, of=(".item",))
def item_call(fact: CallFact, module: Module) -> Iterator[Report]:
    """``x.item()``."""
    callee = fact.callee
    assert isinstance(callee, BoundMember)
    if as_array(callee.owner) is not None and fact.receiver_node is not None:
        yield pull(
            "GRAPH-BREAK-001",
            fact,
            module,
            fact.node,
            callee.owner,
            "`.item()` waits for the array and copies its value to the host",
            "keep the value an mx.array as long as arithmetic goes on; read it once, after "
            "mx.eval, where the host really needs it",
            subject=fact.receiver_node,
        )


@check("GRAPH-BREAK-002", on=CallFact, of=(*CASTS, "math."))
def scalar_cast(fact: CallFact, module: Module) -> Iterator[Report]:
    """``float(x)``, ``int(x)``, ``math.sqrt(x)``."""
    name = fact.symbol
    if name is None:
        return
    for argument in fact.arguments:
        if definite_array(argument.value) is None:
            continue
        short = name.removeprefix("builtins.")
        instead = (
            f"use mx.{name[5:]} where MLX has it"
            if name.startswith("math.")
            else "use .astype(...) for a conversion on the device"
        )
        yield pull(
            "GRAPH-BREAK-002",
            fact,
            module,
            fact.node,
            argument.value,
            f"`{short}()` of an mx.array evaluates it to make a Python number",
            f"{instead}; keep the value an mx.array until the host needs it",
            subject=argument.node,
        )
        return


@check("GRAPH-BREAK-003", "GRAPH-BREAK-004", "GRAPH-BREAK-005", on=TruthFact)
def truth_test(fact: TruthFact, module: Module) -> Iterator[Report]:
    """The truth value of an array decides where the program goes."""
    if _compares_none(fact.node):
        return  # GRAPH-BREAK-009 tells that it raises
    if fact.form == "assert":
        code, what = "GRAPH-BREAK-005", "`assert` takes the truth value of an mx.array"
        help_text = "in tests that is fine; in library code check shapes and dtypes, or drop it"
    elif fact.form in ("not", "and", "or", "chained"):
        shown = "a chained comparison" if fact.form == "chained" else f"`{fact.form}`"
        code, what = "GRAPH-BREAK-004", f"{shown} takes the truth value of an mx.array"
        help_text = (
            "use mx.logical_and, mx.logical_or or mx.logical_not (or `&`, `|`): they work "
            "element by element and stay on the device"
        )
    else:
        code, what = "GRAPH-BREAK-003", f"the {_FORMS[fact.form]} takes an mx.array's truth value"
        help_text = (
            "choose with mx.where on the device, or decide on something that the host knows; "
            "an array of more than one element has no truth value and raises"
        )
    yield pull(code, fact, module, fact.node, fact.value, what, help_text, subject=fact.node)


def _compares_none(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Comparison) and any(
        isinstance(t.comparator, cst.Name) and t.comparator.value == "None"
        for t in node.comparisons
    )


_FORMS = {
    "if": "`if` condition",
    "while": "`while` condition",
    "ternary": "conditional expression",
    "comprehension": "comprehension's `if`",
    "guard": "`case` guard",
}


@check("GRAPH-BREAK-006", "GRAPH-BREAK-009", on=CompareFact)
def comparison(fact: CompareFact, module: Module) -> Iterator[Report]:
    """``v in x``, ``x in [arrays]``, ``x == None``."""
    if fact.operator in ("in", "not in"):
        inside = fact.right
        if isinstance(inside, Dict) or (isinstance(inside, Sequence) and inside.kind == "set"):
            return  # arrays hash by identity: nothing is compared
        array = definite_array(inside) or (
            as_array(fact.left) if isinstance(inside, Sequence) else None
        )
        if array is None and not (isinstance(inside, Sequence) and definite_array(inside.item)):
            return
        yield pull(
            "GRAPH-BREAK-006",
            fact,
            module,
            fact.node,
            inside if definite_array(inside) is not None else fact.left,
            f"`{fact.operator}` compares array elements and takes the truth value of each result",
            "use mx.any(x == v), or a Python set of host values",
        ).about(fact.right_node if definite_array(inside) is not None else fact.left_node)
    elif fact.operator in ("==", "!=") and NONE in (fact.left, fact.right):
        context = context_of(fact.place, module.is_test)
        instead = "is None" if fact.operator == "==" else "is not None"
        yield Report(
            "GRAPH-BREAK-009",
            fact.node,
            fact.place,
            f"`{fact.operator} None` of an mx.array raises a TypeError: arrays compare elements",
            f"write `{instead}`",
            context,
            _none_change(fact, module, instead),
        )


def _none_change(fact: CompareFact, module: Module, instead: str) -> Change | None:
    """Not a safe fix: what raised for arrays goes on with the other branch."""
    if fact.right is not NONE or len(fact.node.comparisons) != 1:
        return None
    text = f"{code_of(module, fact.left_node)} {instead}"
    return Change(f"Use `{instead}`", False, ((fact.node, text),))


@check("GRAPH-BREAK-007", on=CallFact, of=INSTEAD)
def builtin_reduction(fact: CallFact, module: Module) -> Iterator[Report]:
    """``max(x)``, ``sorted(x)``, ``any(x)``: a truth test or a node an element."""
    name = fact.symbol
    if name is None:
        return
    positional = [a for a in fact.arguments if a.keyword is None]
    arrays = [a for a in positional if definite_array(a.value) is not None]
    if not arrays and len(positional) == 1:
        inner = positional[0].value
        if isinstance(inner, Sequence) and definite_array(inner.item) is not None:
            arrays = positional
    if name == "builtins.sum":
        arrays = [a for a in positional[:1] if definite_array(a.value) is not None]
    if not arrays or fact.keyword("key") is not None:
        return
    short = name.removeprefix("builtins.")
    what = (
        "builtin `sum()` walks over the array and adds one graph node an element"
        if short == "sum"
        else f"builtin `{short}()` of arrays takes a truth value at each comparison"
    )
    value = arrays[0].value
    if short == "sum":
        yield Report(
            "GRAPH-BREAK-007",
            fact.node,
            fact.place,
            what,
            f"use {INSTEAD[name]}",
            _context_without_pull(fact, module),
            subject=arrays[0].node,
        )
        return
    yield pull(
        "GRAPH-BREAK-007",
        fact,
        module,
        fact.node,
        value if definite_array(value) is not None else value.item,  # type: ignore[attr-defined]
        what,
        f"use {INSTEAD[name]}",
    ).about(arrays[0].node)


def _context_without_pull(fact: CallFact, module: Module) -> str:
    """Builtin ``sum`` builds a graph and evaluates nothing: it is legal in compiled functions."""
    return context_of(fact.place, module.is_test, value=NONE)


@check("GRAPH-BREAK-008", on=CallFact)
def text_call(fact: CallFact, module: Module) -> Iterator[Report]:
    """``print(x)``, ``str(x)``, ``"{}".format(x)``, ``logging.info("%s", x)``."""
    name = fact.symbol
    callee = fact.callee
    is_format = (
        isinstance(callee, BoundMember)
        and isinstance(callee.owner, Str)
        and callee.name == "format"
    )
    is_log = isinstance(callee, BoundMember) and callee.owner == LOGGER
    if not is_format and not is_log and name not in TEXT and name not in LOGGERS:
        return
    for argument in fact.arguments:
        if holds_arrays(argument.value) and _is_plain(argument.value):
            shown = (
                "`.format()`"
                if is_format
                else "logging"
                if is_log
                else f"`{(name or '').removeprefix('builtins.')}()`"
            )
            yield _formatting(fact, module, fact.node, argument.value, argument.node, shown)
            return


@check("GRAPH-BREAK-008", on=FormatFact)
def formatted_text(fact: FormatFact, module: Module) -> Iterator[Report]:
    """``f"{x}"``, ``"%s" % x``."""
    shown = "an f-string" if fact.form == "fstring" else "`%` formatting"
    yield _formatting(fact, module, fact.node, fact.value, fact.node, shown)


def _is_plain(value: Value) -> bool:
    return definite_array(value) is not None or isinstance(value, Sequence)


def _formatting(
    fact: Fact,
    module: Module,
    node: cst.CSTNode,
    value: Value,
    subject: cst.CSTNode,
    shown: str,
) -> Report:
    return pull(
        "GRAPH-BREAK-008",
        fact,
        module,
        node,
        value,
        f"{shown} evaluates the mx.array to write its elements",
        "print shapes and dtypes (they are known without waiting), or print every k steps after "
        "mx.eval",
        subject=subject,
    )
