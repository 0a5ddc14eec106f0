"""GRAPH-BREAK: the host reads an array's value to branch, compare or print, also in other files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import libcst as cst
from msgspec.structs import replace

from embercoach.analysis.calls.binding import bind
from embercoach.analysis.calls.definitions import FunctionInfo
from embercoach.analysis.calls.functions import must_execute
from embercoach.analysis.calls.numpy_api import CONVERSIONS
from embercoach.analysis.calls.parameters import annotated_value, canonical_values, closure_of
from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.contexts import context_of
from embercoach.analysis.dataflow.layout import layout_of
from embercoach.analysis.dataflow.scopes import by_parameter, scope_of
from embercoach.analysis.dataflow.value_sources import value_in
from embercoach.analysis.evaluate.dispatch import evaluate
from embercoach.analysis.evaluate.frame import Frame
from embercoach.analysis.evaluate.must_execute import Read, without_raising
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values.facts import (
    Argument,
    CallFact,
    CompareFact,
    Fact,
    FormatFact,
    ProjectCall,
    TruthFact,
    calls_of,
)
from embercoach.analysis.values.inheritance import is_forward, is_layer
from embercoach.analysis.values.lattice import (
    NONE,
    UNKNOWN,
    Array,
    BoundMember,
    Dict,
    Function,
    LibraryObject,
    Sequence,
    Str,
    Value,
    any_item,
    as_array,
    as_number,
    definite_array,
    holds_arrays,
    options,
)
from embercoach.analysis.values.memo import kept_for_file
from embercoach.analysis.work import MOST_CALLERS, MOST_CALLS
from embercoach.checks.arrays.pull_reports import pull
from embercoach.checks.hoisted_reads import iteration_fix
from embercoach.checks.registry import ProposedFix, Report, check
from embercoach.checks.source_text import is_shown, mlx_alias
from embercoach.terminal_text import in_file

_METHODS = {"item": "GRAPH-BREAK-001", "tolist": "HOST-PULL-001"}
_RAISES, _WAITS = ": raises when traced", " in every forward pass"
_HELP = {
    "tests": "Select with mx.where, or move the test out of the model's forward pass",
    "pulls": "Keep the value an mx.array, or read it outside of the model's forward pass",
}


class _Read(NamedTuple):
    """A read that must execute in a function, or in one that it calls: where it is."""

    node: cst.CSTNode
    how: Read
    function: FunctionInfo


@check(*_METHODS.values(), "GRAPH-BREAK-002", "GRAPH-BREAK-003", "HOST-PULL-002")
def imported_read(fact: ProjectCall, module: Module) -> Iterator[Report]:
    """``guard(x)`` of another file, which raises if ``mx.any(mx.isnan(x))``, in a forward pass.

    In a compiled function, any read raises.
    """
    function = fact.place.function
    if function is None or fact.function.module is module or module.is_test:
        return
    is_traced = function.compiled or function.vmapped
    if not is_traced and not is_forward(function):
        return
    arrays = _arrays(fact.function, fact.arguments, is_bound=fact.is_bound)
    if is_traced:
        arrays |= _shown_arrays(fact)
    read = _read(fact.function, arrays)
    if read is None or read.node in module.detaching:
        return  # the gradient's rule reports what detaches it
    is_guard = not is_traced and _is_guard_of(read, fact.function)
    if not is_traced and not is_guard and not _is_unknown(read, arrays):
        return  # reported in its own file, where its use is known
    context = "compiled" if is_traced else "avoidable" if is_guard else "minor"
    name, file = fact.function.name, fact.function.module.path.name
    yield Report.at(
        fact,
        _code(read),
        message=in_file(name, file, f" {read.how} an array{_RAISES if is_traced else _WAITS}"),
        help=_HELP[read.how],
        context=context,
    )


def _arrays(
    info: FunctionInfo, arguments: tuple[Argument, ...], *, is_bound: bool
) -> frozenset[str]:
    """Return the parameters that certainly are arrays in a call, computed from traced ones."""
    values = bind(info, UNKNOWN if is_bound else None, arguments)
    arrays = ((name, definite_array(value)) for name, value in values.items())
    return frozenset(name for name, array in arrays if array is not None and array.traced)


def _shown_arrays(fact: ProjectCall) -> frozenset[str]:
    """The parameters that a compiled function passes its own for, and that are used as arrays."""
    function = fact.place.function
    own = {p.name for p in function.parameters} if function is not None else set()
    values = ((a.keyword, a.node) for a in fact.arguments if not a.star)
    passed = by_parameter(fact.function, values, is_bound=fact.is_bound)
    unknown = {id(a.node) for a in fact.arguments if a.value is UNKNOWN}
    names = frozenset(
        name
        for name, node in passed.items()
        if id(node) in unknown and isinstance(node, cst.Name) and node.value in own
    )
    if not names:
        return names
    used = must_execute(fact.function, frozenset(), ()).shown
    return frozenset(
        p.name
        for p in fact.function.parameters
        if p.name in names
        and (p.name in used or isinstance(annotated_value(fact.function, p), Array))
    )


@kept_for_file
def _read(info: FunctionInfo, arrays: frozenset[str], depth: int = 0) -> _Read | None:
    """Return the first read of an array that must execute when a function is called."""
    if not arrays or info.is_async:
        return None
    must = must_execute(info, arrays, ())
    for node, how in must.reads.items():
        return _Read(node, how, info)
    for call, arguments in [*must.calls.items()][: MOST_CALLERS if depth < MOST_CALLS else 0]:
        is_named = dotted(call.func) is not None
        callee = value_in(call.func, info, info.module) if is_named else UNKNOWN
        if isinstance(callee, Function):
            given = _arrays(callee.info, arguments, is_bound=callee.bound is not None)
            found = _read(callee.info, given, depth + 1) if given else None
            if found is not None:
                return found
    return None


def _is_guard_of(read: _Read, function: FunctionInfo) -> bool:
    """Return whether a function reads only to decide if it raises an exception.

    The methods of a layer may prepare a whole prompt, once for many tokens.
    """
    classes = (info.cls for info in (function, read.function))
    if any(cls is not None and is_layer(cls) for cls in classes):
        return False
    contents = contents_of(read.function.node.body, (cst.Lambda,))
    tests = [node.test for node in contents.of(cst.Assert)]
    tests += [node.test for node in contents.of(cst.If) if without_raising(node) is not None]
    return any(read.node in contents_of(test) for test in tests)


def _is_unknown(read: _Read, arrays: frozenset[str]) -> bool:
    """Return whether a function pulls a parameter of which its own file knows nothing."""
    info, node = read.function, read.node
    if not isinstance(node, cst.Call) or read.how != "pulls":
        return False
    is_method = isinstance(node.func, cst.Attribute) and node.func.attr.value in _METHODS
    pulled = cst.ensure_type(node.func, cst.Attribute).value if is_method else node.args[0].value
    used = arrays & contents_of(pulled).names
    frame = Frame(info.module, info, closure_of(info), record=False)
    frame.names.set_all(zip((p.name for p in info.parameters), canonical_values(info), strict=True))
    return bool(used) and as_array(evaluate(frame, pulled)) is None


def _code(read: _Read) -> str:
    if read.how == "tests":
        return "GRAPH-BREAK-003"
    func = read.node.func if isinstance(read.node, cst.Call) else None
    name = func.attr.value if isinstance(func, cst.Attribute) else ""
    if name in CONVERSIONS:
        return "HOST-PULL-002"
    return _METHODS.get(name, "GRAPH-BREAK-002")


CASTS = {"builtins.int", "builtins.float", "builtins.bool", "builtins.complex", "operator.index"}
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


@check("GRAPH-BREAK-001", of=(".item",))
def item_call(fact: CallFact, module: Module) -> Iterator[Report]:
    """``x.item()``."""
    callee = fact.callee
    assert isinstance(callee, BoundMember)
    if fact.array is not None and fact.receiver_node is not None:
        yield pull(
            fact,
            "GRAPH-BREAK-001",
            module,
            "`.item()`",
            value=callee.owner,
            help="Keep the value an mx.array",
            array_node=fact.receiver_node,
        )


@check("GRAPH-BREAK-002", of=(*CASTS, "math."))
def scalar_cast(fact: CallFact, module: Module) -> Iterator[Report]:
    """``float(x)``, ``int(x)``, ``math.sqrt(x)``."""
    name = fact.symbol
    if name is None:
        return
    for argument in fact.arguments:
        if definite_array(argument.value) is None:
            continue
        short = name.removeprefix("builtins.")
        instead = f"mx.{name[5:]}" if name.startswith("math.") else ".astype(...)"
        yield pull(
            fact,
            "GRAPH-BREAK-002",
            module,
            f"`{short}()` on an mx.array",
            value=argument.value,
            help=f"Use {instead} on the device",
            array_node=argument.node,
        )
        return


@check("GRAPH-BREAK-003", "GRAPH-BREAK-004", "GRAPH-BREAK-005")
def truth_test(fact: TruthFact, module: Module) -> Iterator[Report]:
    """``if x:``, ``while x > 0:``, ``assert x``, ``a and b``."""
    if definite_array(fact.value) is None:
        yield from mixed_test(fact, module)
        return
    if _compares_none(fact.node):
        return  # GRAPH-BREAK-009: it raises
    if _compares_reduced(fact.node, module):
        return  # GRAPH-BREAK-007: the reduction synchronizes first, and more often
    if fact.form == "assert":
        code, operation = "GRAPH-BREAK-005", "`assert` on an mx.array"
        help_text = "Assert shapes and dtypes, which are known without evaluation, or drop it"
    elif fact.form in ("not", "and", "or", "chained"):
        chained = fact.form == "chained"
        code = "GRAPH-BREAK-004"
        operation = (
            "chained comparison of mx.arrays" if chained else f"`{fact.form}` on an mx.array"
        )
        help_text = (
            "Keep the guard, and select with mx.where or branch on a host value such as a shape"
            if fact.guarded
            else "Use mx.logical_and, mx.logical_or or mx.logical_not (or `&`, `|`) on the device"
        )
    else:
        code, operation = "GRAPH-BREAK-003", f"{_FORMS[fact.form]} on an mx.array"
        help_text = "Select with mx.where on the device, or branch on a host value such as a shape"
    yield pull(
        fact,
        code,
        module,
        operation,
        value=fact.value,
        help=help_text,
        array_node=fact.node,
    )


def _compares_reduced(node: cst.BaseExpression, module: Module) -> bool:
    """Test whether a side of a comparison is ``max(x)`` or ``min(x)`` of an array."""
    if not isinstance(node, cst.Comparison):
        return False
    sides = (node.left, *(target.comparator for target in node.comparisons))
    facts = (calls_of(module).get(side) for side in sides)
    return any(f is not None and f.symbol in INSTEAD and _arrays_of(f) for f in facts)


def _compares_none(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Comparison) and any(
        isinstance(t.comparator, cst.Name) and t.comparator.value == "None"
        for t in node.comparisons
    )


_FORMS = {
    "if": "`if`",
    "while": "`while`",
    "ternary": "ternary `if`",
    "comprehension": "comprehension `if`",
    "guard": "`case` guard",
}


@check("GRAPH-BREAK-006", "GRAPH-BREAK-009")
def comparison(fact: CompareFact, module: Module) -> Iterator[Report]:
    """``v in x``, ``x in [arrays]``, ``x == None``."""
    if fact.operator in ("in", "not in"):
        inside = fact.right.value
        if isinstance(inside, Dict) or (isinstance(inside, Sequence) and inside.kind == "set"):
            return  # arrays hash by identity: nothing is compared
        if isinstance(fact.left.value, Str):
            return  # a key: what was inferred for an array is a dictionary
        array = definite_array(inside) or (
            fact.left.array if isinstance(inside, Sequence) else None
        )
        if array is None and not (
            isinstance(inside, Sequence) and definite_array(any_item(inside))
        ):
            return
        in_array = definite_array(inside) is not None
        report = pull(
            fact,
            "GRAPH-BREAK-006",
            module,
            f"`{fact.operator}` on an mx.array",
            value=inside if in_array else fact.left.value,
            help="Use mx.any(x == v), or a Python set of host values",
            replaced=True,
            subject=fact.right.node if in_array else fact.left.node,
        )
        yield replace(report, change=_membership_change(fact, module) if in_array else None)
    elif fact.operator in ("==", "!=") and NONE in (fact.left.value, fact.right.value):
        instead = "is None" if fact.operator == "==" else "is not None"
        yield Report.at(
            fact,
            "GRAPH-BREAK-009",
            message=f"`{fact.operator} None` on an mx.array raises a TypeError",
            help=f"Use `{instead}`",
            change=_none_change(fact, module, instead),
        )


def _membership_change(fact: CompareFact, module: Module) -> ProposedFix | None:
    """``mx.any(x == v).item()``: one synchronization instead of one per element."""
    mx = mlx_alias(module)
    value = fact.left
    if mx is None or len(fact.node.comparisons) != 1 or is_shown(module, fact.node):
        return None
    if value.number is None and (value.array is None or not value.is_certain):
        return None
    sides = []
    for one in (fact.right.node, value.node):
        if not isinstance(one, (cst.Name, cst.Attribute, cst.Subscript, cst.Call, cst.Integer)):
            return None
        sides.append(module.parsed.code(one))
    negated = "not " if fact.operator == "not in" else ""
    text = f"{negated}{mx}.any({sides[0]} == {sides[1]}).item()"
    return ProposedFix(f"Use `{mx}.any`", False, ((fact.node, text),))


def _none_change(fact: CompareFact, module: Module, instead: str) -> ProposedFix | None:
    """Not a safe fix: code that raised for arrays now takes the other branch."""
    if fact.right.value is not NONE or len(fact.node.comparisons) != 1:
        return None
    text = f"{module.parsed.code(fact.left.node)} {instead}"
    return ProposedFix(f"Use `{instead}`", False, ((fact.node, text),))


@check("GRAPH-BREAK-007", of=INSTEAD)
def builtin_reduction(fact: CallFact, module: Module) -> Iterator[Report]:
    """``max(x)``, ``sorted(x)``, ``any(x)``: a truth test or a graph node per element."""
    name = fact.symbol
    if name is None:
        return
    arrays = _arrays_of(fact)
    if not arrays or fact.keyword("key") is not None:
        return
    short = name.removeprefix("builtins.")
    value = arrays[0].value
    if short == "sum":
        yield Report.at(
            fact,
            message="builtin `sum()` adds one graph node per element",
            help=f"Use {INSTEAD[name]}",
            context=context_of(fact.place, module),
            subject=arrays[0].node,
        )
        return
    yield pull(
        fact,
        "GRAPH-BREAK-007",
        module,
        f"builtin `{short}()` on an mx.array",
        value=any_item(value) if isinstance(value, Sequence) else value,
        help=f"Use {INSTEAD[name]}",
        replaced=True,
        subject=arrays[0].node,
    )


def _arrays_of(fact: CallFact) -> list[Argument]:
    """The arguments of a builtin that are arrays, or the list of arrays that is its only one."""
    positional = [a for a in fact.arguments if a.keyword is None]
    if fact.symbol == "builtins.sum":
        return [a for a in positional[:1] if definite_array(a.value) is not None]
    arrays = [a for a in positional if definite_array(a.value) is not None]
    if not arrays and len(positional) == 1:
        inner = positional[0].value
        if isinstance(inner, Sequence) and definite_array(any_item(inner)) is not None:
            return positional
    return arrays


@check("GRAPH-BREAK-008", of=(*TEXT, *LOGGERS, "."))
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
            yield _formatting(fact, module, argument.value, argument.node, shown)
            return


@check("GRAPH-BREAK-008")
def formatted_text(fact: FormatFact, module: Module) -> Iterator[Report]:
    """``f"{x}"``, ``"%s" % x``."""
    shown = "f-string" if fact.form == "fstring" else "`%` formatting"
    report = _formatting(fact, module, fact.value, fact.node, shown)
    if isinstance(fact.node, cst.Name) and fact.node.value in fact.place.array_names:
        report = replace(report, change=iteration_fix(module, fact.place, fact.node))
    yield report


def _is_plain(value: Value) -> bool:
    return definite_array(value) is not None or isinstance(value, Sequence)


def _formatting(fact: Fact, module: Module, value: Value, node: cst.CSTNode, shown: str) -> Report:
    return pull(
        fact,
        "GRAPH-BREAK-008",
        module,
        f"{shown} of an mx.array",
        value=value,
        help="Print shapes and dtypes, or print every k steps after mx.eval",
        array_node=node,
    )


def mixed_test(fact: TruthFact, module: Module) -> Iterator[Report]:
    """``done = False``, then ``while not done: done = mx.all(x == end)``; ``if stop(loss):``."""
    numbers = [as_number(o) for o in options(fact.value) if type(o) is not Array]
    if any(number is None or number.kind != "bool" for number in numbers):
        return
    if fact.form == "assert":
        return
    if isinstance(fact.node, cst.Name) and _is_parameter(fact.node.value, fact.place.function):
        return
    array = next(o for o in options(fact.value) if type(o) is Array)
    is_operand = fact.form in ("not", "and", "or")
    operation = f"`{fact.form}` on" if is_operand else "test of"
    report = pull(
        fact,
        "GRAPH-BREAK-004" if is_operand else "GRAPH-BREAK-003",
        module,
        f"{operation} a possible mx.array",
        value=array,
        help="Read the array where it is assigned, or all elements by one .tolist() before",
        array_node=fact.node,
    )
    if isinstance(fact.node, cst.Name) and _is_tested_around(fact.node, fact, module):
        message = f"{operation} a possible mx.array only costs a device-to-host copy"
        report = replace(report, context="minor", message=message)
    yield report


def _is_tested_around(node: cst.Name, fact: TruthFact, module: Module) -> bool:
    """Test whether an ``if`` around, or one that an ``elif`` belongs to, has tested the array."""
    name, statement = node.value, fact.place.statement
    reaching = scope_of(module, fact.place.function).reaching
    held = reaching.before(statement, name)
    for level in layout_of(module, fact.place.function).outward(statement):
        owner = level.owner
        if isinstance(owner, cst.If) and name in contents_of(owner.test).names:
            return held is not None and held == reaching.before(owner, name)
        if isinstance(owner, (cst.For, cst.While)):
            break
    return False


def _is_parameter(name: str, function: FunctionInfo | None) -> bool:
    """Test whether a name is a parameter here, or in a function around: callers may pass bools."""
    while function is not None:
        if any(parameter.name == name for parameter in function.parameters):
            return True
        function = function.outer
    return False
