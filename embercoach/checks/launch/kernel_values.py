"""KERNEL-ARGS-005 and 006: values that a launch does not take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.analysis.facts.facts import Argument, CallFact, calls_of
from embercoach.analysis.facts.scopes import Expression, display, resolve_name, scope_at
from embercoach.analysis.facts.symbolic import is_float, symbolic
from embercoach.analysis.values.joins import as_array
from embercoach.analysis.values.lattice import (
    Array,
    DType,
    NoneValue,
    Number,
    Numpy,
    Sequence,
    Str,
    Symbol,
    Value,
)
from embercoach.checks.programs.kernels import count, launched, report_at
from embercoach.checks.registry import check

if TYPE_CHECKING:
    from collections.abc import Iterator

    import libcst as cst

    from embercoach.analysis.project.module import Module
    from embercoach.checks.registry import Report

#: Integers of a template are C ints.
LEAST, MOST = -(2**31), 2**31 - 1
DOUBLE = "float64"
CPU = Symbol("mlx.core.cpu")
#: What makes a stream or device of a device, its first argument.
STREAMS = frozenset({"mlx.core.default_stream", "mlx.core.new_stream", "mlx.core.Device"})
RAISES_TYPE = "the call raises a TypeError"
PAIRS = 'write a list of pairs: `template=[("T", x.dtype), ("N", 4)]`'


@check("KERNEL-ARGS-005", on=CallFact)
def template_form(fact: CallFact, module: Module) -> Iterator[Report]:
    """``template=[("N", 0.5)]``, ``template=("T", mx.float32)``."""
    argument = fact.keyword("template")
    if argument is None or not launched(fact):
        return
    code, value = "KERNEL-ARGS-005", argument.value
    if isinstance(value, Sequence) and value.kind in ("set", "iterator"):
        what = f"`template` is {'a set' if value.kind == 'set' else 'an iterator'}, and a list is"
        yield report_at(code, fact, module, argument.node, f"{what} wanted: {RAISES_TYPE}", PAIRS)
        return
    if count(value) is None or not isinstance(value, Sequence):
        return
    scope = scope_at(fact, module)
    for size, item in _written(Expression(argument.node, scope), value):
        node = argument.node if size is None else size.node
        problem = _no_pair(item)
        if problem is not None:
            yield report_at(code, fact, module, node, f"{problem}: {RAISES_TYPE}", PAIRS)
            if not isinstance(item, Sequence):
                return  # the rest of `("T", mx.float32)` is no pair either
        elif count(item) == 2 and isinstance(item, Sequence):
            part, known = _written(size, item)[1]
            unfit = _unfit(known, part)
            if unfit is not None:
                node = node if part is None else part.node
                message = f"{unfit[0]} is no template argument, which is a dtype, an int or a bool"
                message = f"{message}: the call raises a ValueError"
                yield report_at(code, fact, module, node, message, unfit[1])


def _no_pair(item: Value) -> str | None:
    """What an entry of a template is that no pair is, None if it may be one."""
    if isinstance(item, (Str, DType, Number, NoneValue, Array)):
        return "an entry of `template` is no pair of a name and a value"
    parts = count(item)
    if parts is None or parts == 2:
        return None
    noun = "part" if parts == 1 else "parts"
    return f"an entry of `template` has {parts} {noun}, and a name and a value are wanted"


def _written(size: Expression | None, value: Sequence) -> list[tuple[Expression | None, Value]]:
    """The items of a list: their expressions, where they are written in the call, and values."""
    items = value.items or ()
    nodes = None if size is None else display(size.node)
    if size is None or nodes is None or len(nodes) != len(items):
        return [(None, item) for item in items]
    return [(size.at(node), item) for node, item in zip(nodes, items, strict=True)]


def _unfit(value: Value, size: Expression | None) -> tuple[str, str] | None:
    """Why MLX refuses a template value, and what to pass instead; None if it may take it."""
    number = value if type(value) is Number else None
    if number is not None and isinstance(number.const, int) and number.kind != "bool":
        if LEAST <= number.const <= MOST:
            return None
        what, instead = "a number of more than 32 bits", "pass it as an input: `inputs=[..., n]`"
    elif number is not None and number.kind in ("float", "complex"):
        if number.const is None and (size is None or not is_float(symbolic(size))):
            return None
        what, instead = f"a {number.kind}", "pass it as an input, which may be a Python number"
    elif isinstance(value, Str):
        what, instead = "a string", "pass a dtype such as `mx.float32`, an int or a bool"
    elif isinstance(value, NoneValue):
        what, instead = "None", "leave the pair out, or pass a bool or an int that stands for None"
    elif isinstance(value, Numpy):
        kind = "scalar" if value.scalar else "array"
        what, instead = f"a NumPy {kind}", "make it a Python number: `int(n)`"
    elif as_array(value) is not None and type(value) is Array:
        what, instead = "an array", "pass it as an input: `inputs=[..., n]`"
    elif isinstance(value, Sequence):
        what = f"a {value.kind}"
        instead = "pass its numbers one by one, or as an input array"
    else:
        return None
    return what, instead


@check("KERNEL-ARGS-006", on=CallFact)
def on_the_cpu(fact: CallFact, module: Module) -> Iterator[Report]:
    """``stream=mx.cpu``, ``output_dtypes=[mx.float64]``."""
    if not launched(fact):
        return
    for node, noun in _doubles(fact):
        yield report_at(
            "KERNEL-ARGS-006",
            fact,
            module,
            node,
            f"{noun} of the kernel is float64, which MLX has on the CPU alone: the launch raises a "
            "ValueError",
            "use float32, and a pair of float32 where that is too coarse",
        )
    argument = fact.keyword("stream")
    scope = scope_at(fact, module)
    if argument is not None and _is_cpu(argument, Expression(argument.node, scope), module):
        yield report_at(
            "KERNEL-ARGS-006",
            fact,
            module,
            argument.node,
            "the kernel is launched on the CPU, and kernels run on the GPU alone: the call raises "
            "a ValueError",
            "leave `stream` out, or pass `mx.gpu` or a stream of it",
        )


def _doubles(fact: CallFact) -> Iterator[tuple[cst.CSTNode, str]]:
    """The inputs and outputs that are float64."""
    for name, noun in (("inputs", "an input"), ("output_dtypes", "an output")):
        argument = fact.keyword(name)
        if argument is None or not isinstance(argument.value, Sequence):
            continue
        nodes, items = display(argument.node) or (), argument.value.items or ()
        for index, item in enumerate(items):
            dtype = item.name if isinstance(item, DType) else getattr(as_array(item), "dtype", None)
            if dtype == DOUBLE:
                yield nodes[index] if len(nodes) == len(items) else argument.node, noun


def _is_cpu(argument: Argument, size: Expression, module: Module) -> bool:
    """Whether it is the CPU, or a stream of it."""
    if argument.value == CPU:
        return True
    fact = calls_of(module).get(resolve_name(size).node)
    made = None if fact is None or fact.symbol not in STREAMS else fact.positional(0)
    return made is not None and made.value == CPU
