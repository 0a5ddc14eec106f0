"""KERNEL-ARGS-005 and 006: values that a launch does not take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.analysis.facts.facts import Argument, CallFact, calls_of
from embercoach.analysis.facts.scopes import Expression, display, resolve_name, scope_at
from embercoach.analysis.sizes.symbolic import is_float, symbolic
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
from embercoach.checks.programs.kernels import count, launched
from embercoach.checks.registry import VALUE, Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    import libcst as cst

    from embercoach.analysis.facts.facts import Argument, CallFact
    from embercoach.analysis.project.module import Module

#: Integers of a template are C ints.
LEAST, MOST = -(2**31), 2**31 - 1
DOUBLE = "float64"
CPU = Symbol("mlx.core.cpu")
#: What makes a stream or device of a device, its first argument.
STREAMS = frozenset({"mlx.core.default_stream", "mlx.core.new_stream", "mlx.core.Device"})
PAIRS = 'Write a list of pairs: `template=[("T", x.dtype), ("N", 4)]`'


@check("KERNEL-ARGS-005", of=(VALUE,))
def template_form(fact: CallFact, module: Module) -> Iterator[Report]:
    """``template=[("N", 0.5)]``, ``template=("T", mx.float32)``."""
    argument = fact.keyword("template")
    if argument is None or not launched(fact):
        return
    code, value = "KERNEL-ARGS-005", argument.value
    if isinstance(value, Sequence) and value.kind in ("set", "iterator"):
        what = f"`template` must be a list, got {'a set' if value.kind == 'set' else 'an iterator'}"
        yield Report.at(fact, code, node=argument.node, message=what, help=PAIRS)
        return
    if count(value) is None or not isinstance(value, Sequence):
        return
    scope = scope_at(fact, module)
    for size, item in _written(Expression(argument.node, scope), value):
        node = argument.node if size is None else size.node
        problem = _no_pair(item)
        if problem is not None:
            yield Report.at(fact, code, node=node, message=problem, help=PAIRS)
            if not isinstance(item, Sequence):
                return  # the rest of `("T", mx.float32)` is not a pair either
        elif count(item) == 2 and isinstance(item, Sequence):
            part, known = _written(size, item)[1]
            unfit = _unfit(known, part)
            if unfit is not None:
                node = node if part is None else part.node
                message = f"template argument must be a dtype, int or bool, got {unfit[0]}"
                yield Report.at(fact, code, node=node, message=message, help=unfit[1])


def _no_pair(item: Value) -> str | None:
    """Return the problem of a template entry that is not a pair, None if it may be one."""
    if isinstance(item, (Str, DType, Number, NoneValue, Array)):
        return "`template` entry must be a (name, value) pair"
    parts = count(item)
    if parts is None or parts == 2:
        return None
    noun = "part" if parts == 1 else "parts"
    return f"`template` entry must be a (name, value) pair, got {parts} {noun}"


def _written(size: Expression | None, value: Sequence) -> list[tuple[Expression | None, Value]]:
    """The items of a list: their expressions, where they are written in the call, and values."""
    items = value.items or ()
    nodes = None if size is None else display(size.node)
    if size is None or nodes is None or len(nodes) != len(items):
        return [(None, item) for item in items]
    return [(size.at(node), item) for node, item in zip(nodes, items, strict=True)]


def _unfit(value: Value, size: Expression | None) -> tuple[str, str] | None:
    """Return the kind of a template value that MLX rejects, and the help; else None."""
    number = value if type(value) is Number else None
    if number is not None and isinstance(number.const, int) and number.kind != "bool":
        if LEAST <= number.const <= MOST:
            return None
        what, instead = "an int of more than 32 bits", "Pass it as an input: `inputs=[..., n]`"
    elif number is not None and number.kind in ("float", "complex"):
        if number.const is None and (size is None or not is_float(symbolic(size))):
            return None
        what, instead = f"a {number.kind}", "Pass it as an input; Python numbers are allowed there"
    elif isinstance(value, Str):
        what, instead = "a string", "Pass a dtype such as `mx.float32`, an int or a bool"
    elif isinstance(value, NoneValue):
        what, instead = "None", "Leave the pair out, or pass a bool or an int for None"
    elif isinstance(value, Numpy):
        kind = "scalar" if value.scalar else "array"
        what, instead = f"a NumPy {kind}", "Make it a Python number: `int(n)`"
    elif as_array(value) is not None and type(value) is Array:
        what, instead = "an array", "Pass it as an input: `inputs=[..., n]`"
    elif isinstance(value, Sequence):
        what = f"a {value.kind}"
        instead = "Pass its numbers one by one, or as an input array"
    else:
        return None
    return what, instead


@check("KERNEL-ARGS-006", of=(VALUE,))
def on_the_cpu(fact: CallFact, module: Module) -> Iterator[Report]:
    """``stream=mx.cpu``, ``output_dtypes=[mx.float64]``."""
    if not launched(fact):
        return
    for node, noun in _doubles(fact):
        yield Report.at(
            fact,
            "KERNEL-ARGS-006",
            node=node,
            message=f"float64 {noun}: float64 is available on the CPU only",
            help="Use float32, or a pair of float32 where that is too coarse",
        )
    argument = fact.keyword("stream")
    scope = scope_at(fact, module)
    if argument is not None and _is_cpu(argument, Expression(argument.node, scope), module):
        yield Report.at(
            fact,
            "KERNEL-ARGS-006",
            node=argument.node,
            message="kernel launched on the CPU: Metal kernels run on the GPU only",
            help="Leave `stream` out, or pass `mx.gpu` or a stream of it",
        )


def _doubles(fact: CallFact) -> Iterator[tuple[cst.CSTNode, str]]:
    """The inputs and outputs that are float64."""
    for name, noun in (("inputs", "kernel input"), ("output_dtypes", "kernel output")):
        argument = fact.keyword(name)
        if argument is None or not isinstance(argument.value, Sequence):
            continue
        nodes, items = display(argument.node) or (), argument.value.items or ()
        for index, item in enumerate(items):
            dtype = item.name if isinstance(item, DType) else getattr(as_array(item), "dtype", None)
            if dtype == DOUBLE:
                yield nodes[index] if len(nodes) == len(items) else argument.node, noun


def _is_cpu(argument: Argument, size: Expression, module: Module) -> bool:
    """Return whether it is the CPU, or a stream of it."""
    if argument.value == CPU:
        return True
    fact = calls_of(module).get(resolve_name(size).node)
    made = None if fact is None or fact.symbol not in STREAMS else fact.positional(0)
    return made is not None and made.value == CPU
