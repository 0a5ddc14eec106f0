"""GRAD-001 to GRAD-004: guarded values, results without a gradient, gradients of own functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import libcst as cst

from embercoach.analysis.calls.definitions import FunctionInfo
from embercoach.analysis.dataflow.contents import contents_of, root_name
from embercoach.analysis.dataflow.function_summaries import frame_of, reached_by
from embercoach.analysis.dataflow.gradient_roots import DifferentiatedResult, GradientRoot
from embercoach.analysis.dataflow.scopes import scope_of
from embercoach.analysis.dataflow.value_sources import returned_by as results_of
from embercoach.analysis.evaluate.dispatch import evaluate
from embercoach.analysis.project.module import Module
from embercoach.analysis.shapes.node_shapes import ArrayAxes, is_scalar, returned_by
from embercoach.analysis.syntax.trees import SCOPES, dotted
from embercoach.analysis.values import promotion
from embercoach.analysis.values.facts import (
    BinaryFact,
    CallFact,
    Fact,
    LocalCall,
    ProjectCall,
    calls_of,
)
from embercoach.analysis.values.gradient_marks import detached_at, zero_by
from embercoach.analysis.values.inheritance import is_forward
from embercoach.analysis.values.lattice import (
    Array,
    Function,
    Str,
    Symbol,
    Transformed,
    Value,
    as_array,
)
from embercoach.analysis.values.memo import kept_for_file
from embercoach.checks.registry import Located, Report, check
from embercoach.terminal_text import in_file

_CASTS = frozenset(("builtins.float", "builtins.int", "builtins.bool", "builtins.complex"))
_METHODS = {"item": "GRAPH-BREAK-001", "tolist": "HOST-PULL-001"}
_CONVERSIONS = frozenset(("array", "asarray", "asanyarray", "ascontiguousarray"))


@check("GRAPH-BREAK-001", "GRAPH-BREAK-002", "HOST-PULL-001", "HOST-PULL-002", "HOST-PULL-003")
def imported_pull(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``features(model(x))`` of another file, which computes with NumPy."""
    reported: set[cst.CSTNode] = set()
    for result in module.differentiated:
        lost = frozenset(n for n in detached_at(result.value) if n not in reported)
        for where, function, nodes in _calls(result, lost, facts, module):
            named = [(code, node) for node in nodes if (code := _code(node, function)) is not None]
            if not named or where.node in reported:
                continue
            reported.add(where.node)
            file = function.module.path.name
            code, _ = min(named, key=lambda one: one[0])
            yield Report.at(
                where,
                code,
                message=in_file(function.name, file, " detaches the gradient"),
                help="Compute it with mlx.core: MLX differentiates no values of the host",
                context="differentiated",
            )


def _calls(
    result: DifferentiatedResult, lost: frozenset[cst.CSTNode], facts: list[Fact], module: Module
) -> Iterator[tuple[Located, FunctionInfo, frozenset[cst.CSTNode]]]:
    """Yield the calls of functions of other files whose pulls reach a result."""
    root = result.root
    if root.info.module is not module:
        if lost:
            yield root, root.info, lost
        return
    for call, nodes in result.imported.items():
        for fact in facts if nodes & lost else ():
            if (
                type(fact) is ProjectCall
                and fact.function is call.function
                and fact.place.statement is call.statement
            ):
                yield fact, call.function, nodes & lost
                break


def _code(node: cst.CSTNode, function: FunctionInfo) -> str | None:
    """Return the code of what reads an array, a call in a function or in what that calls."""
    if not isinstance(node, cst.Call):
        return None
    if isinstance(node.func, cst.Attribute) and node.func.attr.value in _METHODS:
        return _METHODS[node.func.attr.value]
    callee = evaluate(frame_of(function), node.func)
    name = callee.name if isinstance(callee, Symbol) else ""
    if name in _CASTS:
        return "GRAPH-BREAK-002"
    if not name.startswith("numpy."):
        return None
    return "HOST-PULL-002" if name.removeprefix("numpy.") in _CONVERSIONS else "HOST-PULL-003"


#: Losses of ``mlx.nn`` that return one number for each example by default.
UNREDUCED = frozenset(
    f"mlx.nn.losses.{name}"
    for name in (
        *("cross_entropy", "nll_loss", "kl_div_loss", "triplet_loss", "hinge_loss", "huber_loss"),
        *("log_cosh_loss", "cosine_similarity_loss", "margin_ranking_loss"),
    )
)
CUSTOM = "mlx.core.custom_function"


@check("GRAD-002", "GRAD-003")
def losses_without_gradient(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """Losses whose gradient is zero, and losses that are not scalars."""
    calls: dict[cst.CSTNode, CallFact] | None = None
    zeros: dict[cst.CSTNode, Report] = {}
    for result in module.differentiated:
        for zero in _zero_gradient(result, module):
            zeros.setdefault(zero.node, zero)
        root = result.root
        if not root.first_result:
            continue
        if root.info.module is module:
            if calls is None:
                calls = {fact.node: fact for fact in facts if isinstance(fact, CallFact)}
            found = list(_unreduced(root.info, calls, module))
            yield from found
            if found:
                continue
        yield from _not_scalar(result, module)
    yield from zeros.values()


@check("GRAD-002", of=("mlx.nn.value_and_grad", "mlx.nn.utils.value_and_grad"))
def loss_without_model(fact: CallFact, module: Module) -> Iterator[Report]:
    """``nn.value_and_grad(model, lambda model, scores: scores.mean())``."""
    model, loss = fact.argument(0, "model"), fact.argument(1, "fn")
    if model is None or loss is None or type(loss.value) is not Function:
        return
    info = loss.value.info
    if info.module is not module or not info.parameters or loss.value.bound is not None:
        return
    read = contents_of(info.node.body).names
    if not read.isdisjoint({root_name(model.node), info.parameters[0].name, "self"}):
        return
    if all(_calls_no_model(one, module) for one in reached_by(info)):
        calls = [call for call in calls_of(module).values() if _differentiates(call, info)]
        yield Report.at(
            calls[0] if len(calls) == 1 else fact,
            message=f"gradient of `{info.name[:24]}` is zero: it does not call the model",
            help="Call the model in the function that is differentiated",
        )


def _differentiates(call: CallFact, info: FunctionInfo) -> bool:
    """Return whether a call is one of the gradient of a function."""
    callee = call.callee
    inner = callee.inner if type(callee) is Transformed else None
    return type(inner) is Function and inner.info is info


def _calls_no_model(info: FunctionInfo, module: Module) -> bool:
    """Return whether a function calls only functions of MLX and Python, and those of the file."""
    known = {
        fact.node
        for fact in module.facts_of(info)
        if (isinstance(fact, CallFact) and _is_pure(fact))
        or (isinstance(fact, LocalCall) and not fact.is_bound)
    }
    return all(call in known for call in contents_of(info.node.body).calls)


def _is_pure(fact: CallFact) -> bool:
    return fact.array is not None or (fact.symbol or "").startswith(("mlx.", "builtins.", "math."))


_ROUNDING = frozenset(("round", "floor", "ceil", "sign"))
_THROUGH = "Add it straight through: `x + mx.stop_gradient(mx.{}(x) - x)`"
_DIFFERENTIABLE = "Use a differentiable loss, such as cross entropy of the logits"


def _zero_gradient(result: DifferentiatedResult, module: Module) -> Iterator[Report]:
    operation = zero_by(result.value) if result.is_complete else None
    if operation is None or type(result.value) is not Array:
        return
    shown = f"`{operation}`" if not operation.isidentifier() else f"`{operation}()`"
    yield Report.at(
        _only_call(operation, result.root.info, module) or result.root,
        "GRAD-002",
        message=f"gradient of {_named(result.root)} is zero: it passes through {shown}",
        help=_THROUGH.format(operation) if operation in _ROUNDING else _DIFFERENTIABLE,
    )


def _only_call(operation: str, root: FunctionInfo, module: Module) -> CallFact | None:
    """Return the call of an operation in the code that is differentiated, if there is one alone."""
    found = [
        fact
        for info in reached_by(root)
        if info.module is module
        for fact in module.facts_of(info)
        if isinstance(fact, CallFact) and _name(fact) == operation
    ]
    return found[0] if len(found) == 1 else None


def _name(fact: CallFact) -> str:
    """Return the last name of what a call calls: of a function, or of an array's method."""
    return "" if fact.entry is None else fact.entry.name.rpartition(".")[2]


def _not_scalar(result: DifferentiatedResult, module: Module) -> Iterator[Report]:
    returned = returned_by(module, result.root.info.node)
    if type(returned) is tuple and returned:
        returned = returned[0]
    if type(returned) is not ArrayAxes or not returned.has_some:
        return
    yield Report.at(
        result.root,
        "GRAD-003",
        message=f"result of {_named(result.root)} isn't a scalar: its gradient raises",
        help="Reduce the loss to a scalar: `mx.mean(...)` or `mx.sum(...)`",
    )


def _named(root: GradientRoot) -> str:
    name = root.info.name
    return "the lambda" if name == "<lambda>" else f"`{name[:24]}`"


def _unreduced(
    info: FunctionInfo, calls: dict[cst.CSTNode, CallFact], module: Module
) -> Iterator[Report]:
    """Yield the calls of losses without a reduction that a function returns."""
    for returned in _returned(info):
        for node in elementwise(returned, info):
            fact = calls.get(node)
            if fact is not None and fact.symbol in UNREDUCED and _is_unreduced(fact, module):
                short = fact.symbol.removeprefix("mlx.nn.losses.")
                yield Report.at(
                    fact,
                    "GRAD-003",
                    message=f"`{short}()` returns one loss per example: its gradient raises",
                    help='Pass `reduction="mean"`, or reduce the result with mx.mean',
                )


def _is_unreduced(fact: CallFact, module: Module) -> bool:
    if any(argument.star for argument in fact.arguments):
        return False
    targets = fact.argument(1, "targets")
    given = fact.keyword("reduction")
    if given is None:
        if sum(argument.keyword is None for argument in fact.arguments) > 2:
            return False
    elif not isinstance(given.value, Str) or given.value.text != "none":
        return False
    return targets is None or not is_scalar(module, targets.node)


def _returned(info: FunctionInfo) -> Iterator[cst.BaseExpression]:
    """Yield the expressions of which a function returns the value to be differentiated."""
    if isinstance(info.node, cst.Lambda):
        nodes: list[cst.BaseExpression] = [info.node.body]
    else:
        found = contents_of(info.node.body, SCOPES).of(cst.Return)
        nodes = [node.value for node in found if node.value is not None]
    for node in nodes:
        yield node.elements[0].value if isinstance(node, cst.Tuple) and node.elements else node


def elementwise(
    node: cst.BaseExpression, info: FunctionInfo, *, through_calls: bool = False
) -> Iterator[cst.BaseExpression]:
    """An expression and its operands, through names that are bound once, and through calls."""
    pending, seen = [node], set[str]()
    while pending:
        current = pending.pop()
        yield current
        if isinstance(current, cst.BinaryOperation):
            pending += [current.left, current.right]
        elif isinstance(current, cst.UnaryOperation):
            pending.append(current.expression)
        elif isinstance(current, cst.Call) and through_calls:
            pending += [a.value for a in current.args if a.keyword is None]
            if isinstance(current.func, cst.Attribute):
                pending.append(current.func.value)
        elif isinstance(current, cst.Name) and current.value not in seen:
            seen.add(current.value)
            pending += bound_once(info, current.value)


def bound_once(info: FunctionInfo, name: str) -> list[cst.BaseExpression]:
    """Get the expression that a name of a function is assigned, if there is one binding alone."""
    bindings = scope_of(info.module, info).reaching.bindings.get(name, ())
    is_assigned = len(bindings) == 1 and bindings[0].kind == "assigned"
    return [b.value for b in bindings if is_assigned and b.value is not None]


@check("GRAD-004")
def custom_gradients(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``(x,) = primals`` in the VJP of a custom function of one argument."""
    if "custom_function" not in module.source:
        return
    for info in module.functions:
        function = _custom_function(info, ("vjp", "jvp"))
        places = [p for p in info.parameters if not p.star and not p.keyword_only]
        if function is None or not places or _arguments(function) != 1:
            continue
        primals = places[0].name
        contents = contents_of(info.node.body, SCOPES)
        if any(_tests_type(call, primals) for call in contents.calls):
            continue
        for node in contents.of(cst.Assign, cst.Subscript):
            if _unpacks(node, primals):
                yield Report.in_file(
                    module,
                    node,
                    function=info,
                    context=None,
                    message=f"`{primals[:16]}` is the array itself, not a tuple of arguments",
                    help=f"Use `{primals}` as the array, without unpacking or indexing it",
                )


@check("GRAD-010")
def missing_gradients(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``return cotangent * w`` in the VJP of a custom function of two arguments."""
    if "custom_function" not in module.source:
        return
    for info in module.functions:
        function = _custom_function(info, ("vjp",))
        arguments = 0 if function is None else _arguments(function)
        for value, statement in results_of(info) if arguments > 1 else ():
            number = _gradients(value)
            if number and number < arguments and function is not None:
                name = function.parameters[number].name
                yield Report.in_file(
                    module,
                    statement,
                    function=info,
                    context=None,
                    message=f"the VJP returns {number} of {arguments} gradients: that of "
                    f"`{name[:16]}` is the cotangent",
                    help="Return a tuple with a gradient for each argument",
                )


def _gradients(value: cst.BaseExpression) -> int | None:
    """Return how many gradients a VJP returns; None if its result may be any tuple."""
    if isinstance(value, cst.Tuple):
        is_known = all(isinstance(element, cst.Element) for element in value.elements)
        return len(value.elements) if is_known else None
    return 1 if isinstance(value, (cst.BinaryOperation, cst.UnaryOperation)) else None


def _custom_function(info: FunctionInfo, transforms: tuple[str, ...]) -> FunctionInfo | None:
    """Return the custom function that a function is the VJP or JVP of."""
    if isinstance(info.node, cst.Lambda):
        return None
    for decorator in info.node.decorators:
        node = decorator.decorator
        if not isinstance(node, cst.Attribute) or node.attr.value not in transforms:
            continue
        frame = info.closure or info.module.frame
        if not isinstance(node.value, cst.Name):
            continue
        value = frame.lookup(node.value.value)
        if isinstance(value, Function) and CUSTOM in value.info.decorators:
            return None if value.info.is_method else value.info
    return None


def _arguments(function: FunctionInfo) -> int:
    """Return how many arguments a function takes; 0 if that depends on the call."""
    parameters = function.parameters
    is_fixed = not any(p.star or p.keyword_only or p.default is not None for p in parameters)
    return len(parameters) if is_fixed else 0


def _tests_type(node: cst.Call, primals: str) -> bool:
    """Return whether a call asks what the primals are: ``isinstance(primals, tuple)``."""
    return (
        isinstance(node.func, cst.Name)
        and node.func.value in ("isinstance", "type", "hasattr", "len")
        and bool(node.args)
        and isinstance(node.args[0].value, cst.Name)
        and node.args[0].value.value == primals
    )


def _unpacks(node: cst.CSTNode, primals: str) -> bool:
    """Return whether a node is ``(x,) = primals`` or ``primals[0]``."""
    if isinstance(node, cst.Assign):
        target = node.targets[0].target
        is_one = isinstance(target, (cst.Tuple, cst.List)) and len(target.elements) == 1
        return is_one and isinstance(node.value, cst.Name) and node.value.value == primals
    if isinstance(node, cst.Subscript) and len(node.slice) == 1:
        index = node.slice[0].slice
        is_first = isinstance(index, cst.Index) and isinstance(index.value, cst.Integer)
        return is_first and isinstance(node.value, cst.Name) and node.value.value == primals
    return False


#: Functions whose gradient is infinite or NaN at the edge of where they are defined.
RISKY = frozenset(
    ("sqrt", "rsqrt", "log", "log2", "log10", "log1p", "reciprocal", "arccos", "arcsin", "arctanh")
)
#: Names of small thresholds.
_SMALL = ("eps", "tol", "tiny", "epsilon", "threshold")
_COMPARISONS = frozenset(("greater", "greater_equal", "less", "less_equal", "equal", "not_equal"))
#: A clamped value is safe to divide by.
_CLAMPS = frozenset(("maximum", "clip", "where"))
#: The remedies by the operation.
_DIVISION, _POWER = "a division by 0", "a power of 0"
_EPSILON = "Add an epsilon under the root: `mx.sqrt(mx.sum(x * x, -1) + 1e-12)`"
_CLAMP = "Clamp the argument instead: `mx.sqrt(mx.maximum(x, 1e-12))`"


@check("GRAD-001", of=("mlx.core.where",))
def guarded_gradient(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.where(x > 0, mx.sqrt(x), 0)``."""
    info = fact.place.function
    places = _positional(fact)
    if info is None or len(places) != 3 or not _has_gradient(info):
        return
    texts = _Texts(module, info)
    guards = texts.guards(places[0])
    if not guards:
        return
    operations = _operations(module, info)
    for node in (*texts.operands(places[1]), *texts.operands(places[2])):
        risk = _risk(operations.get(node))
        if risk is None:
            continue
        made = map(_risk, map(operations.get, (node, *texts.values(risk.value))))
        roots = [root for root in made if root is not None and root.masks_result]
        if any(texts.is_shifted(root.value) for root in roots):
            continue
        of_argument = texts.of(risk.value) in guards and not texts.is_clamped(risk.value)
        if of_argument or (risk.masks_result and texts.of(node) in guards):
            message = f"gradient is NaN where `mx.where` masks {risk.operation}"
            yield _report(
                fact, message, _masked(risk, has_root=not risk.masks_result and bool(roots))
            )
            return


@check("GRAD-001", of=("mlx.core.maximum",))
def clamped_gradient(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.maximum(mx.sqrt(x * x), 1e-6)`` in a differentiated function."""
    info = fact.place.function
    places = _positional(fact)
    if info is None or len(places) != 2 or not info.differentiated:
        return
    texts = _Texts(module, info)
    operations = _operations(module, info)
    for clamped, bound in (places, places[::-1]):
        if not texts.is_small(bound, False):
            continue
        for node in (clamped, *texts.values(clamped)):
            risk = _risk(operations.get(node))
            if risk is None or not risk.masks_result or texts.is_shifted(risk.value):
                continue
            if "norm" not in risk.operation or texts.is_difference(risk.value):
                message = f"gradient is NaN where `mx.maximum` masks {risk.operation}"
                yield _report(fact, message, _EPSILON if "norm" in risk.operation else _CLAMP)
                return


def _positional(fact: CallFact) -> list[cst.BaseExpression]:
    return [a.node for a in fact.arguments if a.keyword is None and not a.star]


def _report(fact: CallFact, message: str, help_text: str) -> Report:
    return Report.at(fact, "GRAD-001", message=message, help=help_text)


def _masked(risk: Risk, *, has_root: bool) -> str:
    """The remedy where a condition masks the result of an operation, of a root if it has one."""
    if has_root or "norm" in risk.operation:
        return _EPSILON
    shown = risk.operation.strip("`")
    if risk.operation == _DIVISION:
        shown = "x / mx.where(n > 0, n, 1)"
    elif risk.operation == _POWER:
        shown = "mx.where(x > 0, x, 1) ** 0.5"
    else:
        shown = shown.replace("()", "(mx.where(x > 0, x, 1))")
    return f"Mask the argument as well: `{shown}`"


@kept_for_file
def _operations(module: Module, info: FunctionInfo) -> dict[cst.CSTNode, CallFact | BinaryFact]:
    facts = module.facts_of(info)
    return {fact.node: fact for fact in facts if isinstance(fact, (CallFact, BinaryFact))}


def _has_gradient(info: FunctionInfo) -> bool:
    """Return whether a gradient is taken through a function, or commonly is."""
    if info.differentiated:
        return True
    outer: FunctionInfo | None = info
    while outer is not None:
        if is_forward(outer):
            return True
        outer = outer.outer
    return False


class Risk(NamedTuple):
    """An operation without a finite gradient for some ``value``.

    masks_result: that is where its result is 0.
    """

    value: cst.BaseExpression
    operation: str
    masks_result: bool = False


def _risk(fact: Fact | None) -> Risk | None:
    if isinstance(fact, CallFact):
        return _risk_of_call(fact)
    if isinstance(fact, BinaryFact):
        if fact.operator == "/" and _is_float(fact.right.value):
            return Risk(fact.right.node, _DIVISION)
        if fact.operator == "**" and _is_float(fact.left.value) and _is_root(fact.right.node):
            return Risk(fact.left.node, _POWER)
    return None


def _risk_of_call(fact: CallFact) -> Risk | None:
    symbol = fact.symbol
    name = symbol.removeprefix("mlx.core.") if symbol is not None else ""
    receiver = fact.receiver_node
    if symbol is None and receiver is not None and _is_float(fact.receiver):
        func = fact.node.func
        name = func.attr.value if isinstance(func, cst.Attribute) else ""
        is_risky = name in RISKY and not fact.arguments
        return Risk(receiver, f"`{name}()`", name == "sqrt") if is_risky else None
    first, second = fact.positional(0), fact.positional(1)
    if first is None:
        return None
    if name in RISKY and _is_float(first.value):
        return Risk(first.node, f"`mx.{name}()`", name == "sqrt")
    if name == "linalg.norm" and _is_float(first.value) and fact.argument(1, "ord") is None:
        return Risk(first.node, "`mx.linalg.norm()`", True)
    if name == "divide" and second is not None and _is_float(second.value):
        return Risk(second.node, _DIVISION)
    if name == "power" and second is not None and _is_root(second.node):
        return Risk(first.node, _POWER)
    return None


def _is_float(value: Value | None) -> bool:
    """Return whether a value may be an array of floats that is not a constant."""
    array = None if value is None else as_array(value)
    return array is not None and not array.literal and array.dtype not in promotion.INTEGERS


def _is_root(node: cst.BaseExpression) -> bool:
    """Return whether an exponent is below 1: the derivative at 0 is infinite."""
    if isinstance(node, cst.UnaryOperation):
        return isinstance(node.operator, cst.Minus)
    return isinstance(node, cst.Float) and float(node.value) < 1


class _Texts:
    """Expressions of a function by their text, through names that are bound once."""

    def __init__(self, module: Module, info: FunctionInfo) -> None:
        self._module = module
        self._info = info

    def guards(self, condition: cst.BaseExpression) -> frozenset[str]:
        """Return the values that a condition compares with 0 or a small number."""
        found = set()
        for left, right in self._comparisons(condition):
            for subject, bound in ((left, right), (right, left)):
                if self.is_small(bound, _has_abs(subject)):
                    found |= self._names_of(_without_abs(subject))
        return frozenset(found)

    def _names_of(self, node: cst.BaseExpression) -> set[str]:
        """Return an expression's text, and that of what its name is bound to."""
        texts = map(self.of, (node, *self.values(node)))
        return {text for text in texts if text is not None}

    def _comparisons(
        self, node: cst.BaseExpression
    ) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
        if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
            target = node.comparisons[0]
            if not isinstance(target.operator, (cst.In, cst.NotIn, cst.Is, cst.IsNot)):
                yield node.left, target.comparator
        elif isinstance(node, cst.Name):
            for value in bound_once(self._info, node.value):
                if isinstance(value, (cst.Comparison, cst.BinaryOperation, cst.Call)):
                    yield from self._comparisons(value)
        elif isinstance(node, cst.BinaryOperation):
            yield from self._comparisons(node.left)
            yield from self._comparisons(node.right)
        elif isinstance(node, cst.Call):
            name = _called(node)
            places = [a.value for a in node.args if a.keyword is None and not a.star]
            if name in _COMPARISONS and len(places) == 2:
                yield places[0], places[1]
            elif name in ("logical_and", "logical_or", "logical_not"):
                for place in places:
                    yield from self._comparisons(place)

    def is_small(self, node: cst.BaseExpression, of_abs: bool) -> bool:
        """Return whether a bound is 0, a small number, or 1 for an absolute value."""
        if isinstance(node, cst.UnaryOperation):
            return self.is_small(node.expression, True)
        if isinstance(node, (cst.Integer, cst.Float)):
            number = abs(float(node.value.replace("_", "")))
            return number < 0.01 or (of_abs and number == 1)
        if isinstance(node, cst.Call):
            name = _called(node)
            if name == "array" and node.args:
                return self.is_small(node.args[0].value, of_abs)
            return name in ("zeros", "zeros_like") or (of_abs and name in ("ones", "ones_like"))
        path = dotted(node)
        if path is not None and any(word in path.lower() for word in _SMALL):
            return True
        values = self.values(node)
        return any(not isinstance(v, cst.Name) and self.is_small(v, of_abs) for v in values)

    def operands(self, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """Return the operations that a value is made of, element by element."""
        return elementwise(node, self._info, through_calls=True)

    def of(self, node: cst.BaseExpression) -> str | None:
        """Return the text of a name, a path or an expression without numbers alone."""
        if isinstance(node, (cst.Integer, cst.Float)):
            return None
        path = dotted(node)
        return path if path is not None else self._module.parsed.code(node)

    def values(self, node: cst.BaseExpression) -> list[cst.BaseExpression]:
        """Return the expression that a name is bound to, if once."""
        return bound_once(self._info, node.value) if isinstance(node, cst.Name) else []

    def is_shifted(self, node: cst.BaseExpression) -> bool:
        """Return whether something that may be a small number is added to a value."""
        for value in (node, *self.values(node)):
            if not isinstance(value, cst.BinaryOperation):
                continue
            parts = (value.left, value.right)
            if isinstance(value.operator, cst.Add) and any(self.is_small(v, False) for v in parts):
                return True
        return self.is_clamped(node)

    def is_difference(self, node: cst.BaseExpression) -> bool:
        """Return whether a value is a difference, which is 0 for two equal vectors."""
        values = (node, *self.values(node))
        operators = [v.operator for v in values if isinstance(v, cst.BinaryOperation)]
        return any(isinstance(operator, cst.Subtract) for operator in operators)

    def is_clamped(self, node: cst.BaseExpression) -> bool:
        """Return whether a name has been given a value that is never zero."""
        if not isinstance(node, cst.Name):
            return False
        return any(
            not _CLAMPS.isdisjoint(map(_called, contents_of(value).calls))
            for value in bound_once(self._info, node.value)
        )


def _has_abs(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Call) and _called(node) in ("abs", "fabs")


def _without_abs(node: cst.BaseExpression) -> cst.BaseExpression:
    if _has_abs(node) and isinstance(node, cst.Call) and len(node.args) == 1:
        return node.args[0].value
    return node


def _called(node: cst.Call) -> str:
    """Return the last name of what is called."""
    return (dotted(node.func) or "").rpartition(".")[2]
