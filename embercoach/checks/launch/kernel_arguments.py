"""KERNEL-ARGS-004 to 006: what a launch takes, and the list that it returns."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from embercoach.analysis.calls.definitions import FunctionInfo
from embercoach.analysis.dataflow.scopes import (
    Expression,
    display,
    resolve_name,
    scope_at,
    scope_of,
)
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import SCOPES, children, statements_below
from embercoach.analysis.values.facts import (
    Argument,
    BinaryFact,
    CallFact,
    Fact,
    FactPlace,
    calls_of,
)
from embercoach.analysis.values.lattice import (
    Array,
    DType,
    Kernel,
    NoneValue,
    Number,
    Numpy,
    Sequence,
    Str,
    Symbol,
    Value,
    as_array,
    options,
)
from embercoach.checks.programs.kernels import launched
from embercoach.checks.programs.launch_sizes import is_float, symbolic
from embercoach.checks.programs.launches import count, item_node
from embercoach.checks.registry import VALUE, Report, check

#: Parameters that take arrays, and no lists of them.
ARRAYS_ALONE = frozenset({"array", "scalar|array"})
OF_LISTS = frozenset(dir(list))


@check("KERNEL-ARGS-004")
def results_as_arrays(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``kernel(...) * 2``, ``mx.sum(kernel(...))``, ``y = kernel(...)`` and ``y.shape``."""
    lists = _Lists(module, facts)
    if not lists.calls:
        return
    for place, node, what in lists.misuses(facts):
        yield Report.at(
            Fact(node, place),
            node=node,
            message=f"kernel launch returns a list: {what}",
            help="Take the output out of the list: `kernel(...)[0]`, or `(y,) = kernel(...)`",
        )


class _Lists:
    """The calls of a file that certainly return what a launch returns."""

    def __init__(self, module: Module, facts: list[Fact]) -> None:
        self.module = module
        calls = [fact for fact in facts if isinstance(fact, CallFact)]
        self.calls: dict[cst.CSTNode, FactPlace] = {
            fact.node: fact.place for fact in calls if _launches(fact.callee)
        }
        self.functions: set[cst.CSTNode] = set()
        launching = {p.function for p in self.calls.values() if p.function is not None}
        self.returning = {info for info in launching if self._returns_lists(info)}
        self.functions.update(info.node for info in self.returning)

    def _returns_lists(self, info: FunctionInfo) -> bool:
        """Return whether all that a function of the file returns is a launch's result."""
        node = info.node
        if isinstance(node, cst.Lambda):
            return self.holds(node.body, info)
        if node.decorators or info.is_async:
            return False
        found: list[cst.Return] = []
        for current in statements_below(node.body):
            if isinstance(current, cst.Expr) and isinstance(current.value, cst.Yield):
                return False
            if isinstance(current, cst.Return):
                found.append(current)
        return bool(found) and all(r.value is not None and self.holds(r.value, info) for r in found)

    def holds(self, node: cst.CSTNode, function: FunctionInfo | None) -> bool:
        """Return whether an expression is such a list, itself or through its name."""
        scope = scope_of(self.module, function)
        node = resolve_name(Expression(node, scope)).node
        if not isinstance(node, cst.Call):
            return False
        return (
            node in self.calls or resolve_name(Expression(node.func, scope)).node in self.functions
        )

    def misuses(self, facts: list[Fact]) -> Iterator[tuple[FactPlace, cst.CSTNode, str]]:
        """Uses of such a list as an array: place, expression, and the error."""
        place = next(iter(self.calls.values()))
        wanted: set[FunctionInfo | None] = {place.function for place in self.calls.values()}
        if self.returning:
            wanted.add(None)
            wanted.update(f for f in self.module.functions if f.calls.keys() & self.returning)
        for fact in facts:
            if fact.place.function not in wanted:
                continue
            if isinstance(fact, BinaryFact):
                yield from self._in_arithmetic(fact)
            elif isinstance(fact, CallFact) and fact.symbol is not None:
                yield from self._as_argument(fact)
        for function in wanted:
            root = self.module.tree if function is None else function.node.body
            yield from self._members(root, place._replace(statement=root, function=function))

    def _in_arithmetic(self, fact: BinaryFact) -> Iterator[tuple[FactPlace, cst.CSTNode, str]]:
        for one, other in ((fact.left, fact.right), (fact.right, fact.left)):
            if fact.in_place and one is fact.left:
                continue
            if self.holds(one.node, fact.place.function) and other.array is not None:
                yield fact.place, one.node, "arithmetic with an array raises ValueError"
                return

    def _as_argument(self, fact: CallFact) -> Iterator[tuple[FactPlace, cst.CSTNode, str]]:
        for param, argument in fact.matched:
            if param.accepts in ARRAYS_ALONE and self.holds(argument.node, fact.place.function):
                name = (fact.symbol or "").replace("mlx.core.", "mx.")
                yield (
                    fact.place,
                    argument.node,
                    f"`{name}` takes an array",
                )

    def _members(
        self, root: cst.CSTNode, place: FactPlace
    ) -> Iterator[tuple[FactPlace, cst.CSTNode, str]]:
        """Attributes, signs and subscripts that arrays have, and lists have not."""
        pending = [(root, place)]
        while pending:
            node, place = pending.pop()
            if isinstance(node, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
                place = place._replace(statement=node)
            what = _use_of_array(node)
            if what is not None and self.holds(what[0], place.function):
                yield place, node, what[1]
            if not isinstance(node, SCOPES):
                pending.extend((child, place) for child in reversed(children(node)))


def _launches(callee: Value) -> bool:
    """Return whether what is called certainly is a kernel."""
    return all(isinstance(option, Kernel) for option in options(callee))


def _use_of_array(node: cst.CSTNode) -> tuple[cst.CSTNode, str] | None:
    """Return the operand and the error of an expression that a list does not support."""
    if isinstance(node, cst.Attribute) and node.attr.value not in OF_LISTS:
        return node.value, f"`.{node.attr.value}` raises AttributeError"
    if isinstance(node, cst.BinaryOperation):
        for side, other in ((node.left, node.right), (node.right, node.left)):
            repeated = isinstance(node.operator, cst.Multiply) and isinstance(other, cst.Integer)
            if isinstance(other, (cst.Integer, cst.Float)) and not repeated:
                return side, "arithmetic with a number raises TypeError"
    if isinstance(node, cst.UnaryOperation) and not isinstance(node.operator, cst.Not):
        return node.expression, "a unary operator raises TypeError"
    if isinstance(node, cst.Subscript):
        first = node.slice[0].slice
        wide = len(node.slice) > 1
        if wide or (isinstance(first, cst.Index) and isinstance(first.value, cst.Ellipsis)):
            return node.value, "indexing several axes raises TypeError"
    return None


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
    if argument is None or not launched(fact, module):
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
    if not launched(fact, module):
        return
    for node, noun in _doubles(fact):
        yield Report.at(
            fact,
            node=node,
            message=f"float64 {noun}: float64 is available on the CPU only",
            help="Use float32, or a pair of float32 where that is too coarse",
        )
    argument = fact.keyword("stream")
    scope = scope_at(fact, module)
    if argument is not None and _is_cpu(argument, Expression(argument.node, scope), module):
        yield Report.at(
            fact,
            node=argument.node,
            message="kernel launched on the CPU: Metal kernels run on the GPU only",
            help="Leave `stream` out, or pass `mx.gpu` or a stream of it",
        )


def _doubles(fact: CallFact) -> Iterator[tuple[cst.CSTNode, str]]:
    """Yield the inputs and outputs that are float64."""
    for name, noun in (("inputs", "kernel input"), ("output_dtypes", "kernel output")):
        argument = fact.keyword(name)
        if argument is None or not isinstance(argument.value, Sequence):
            continue
        for index, item in enumerate(argument.value.items or ()):
            dtype = item.name if isinstance(item, DType) else getattr(as_array(item), "dtype", None)
            if dtype == DOUBLE:
                yield item_node(argument, index), noun


def _is_cpu(argument: Argument, size: Expression, module: Module) -> bool:
    """Return whether it is the CPU, or a stream of it."""
    if argument.value == CPU:
        return True
    fact = calls_of(module).get(resolve_name(size).node)
    made = None if fact is None or fact.symbol not in STREAMS else fact.positional(0)
    return made is not None and made.value == CPU
