"""KERNEL-GRAD-001: a kernel on the way of a gradient, with nothing that says what its gradient is.

Followed are the functions of one file: from what is handed to ``mx.grad`` and the like, with the
parameters that the gradient is taken for, through calls, to launches whose inputs depend on them.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache

import libcst as cst
from msgspec import Struct

from embercoach.analysis.calls.constants import constants_passed
from embercoach.analysis.calls.definitions import FunctionInfo
from embercoach.analysis.calls.functions import must_execute
from embercoach.analysis.calls.kernel_objects import kernels_in
from embercoach.analysis.calls.transforms import IMMEDIATE, ROLES, TRANSFORMS
from embercoach.analysis.dataflow.scopes import by_parameter
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import SCOPES, children, dotted, target_names, walk
from embercoach.analysis.values.facts import Argument, CallFact, Fact
from embercoach.analysis.values.inheritance import called_method
from embercoach.analysis.values.lattice import (
    DType,
    Function,
    Instance,
    Number,
    Sequence,
    Symbol,
    Value,
)
from embercoach.checks.registry import Report, check

CUSTOM = "mlx.core.custom_function"
MODULE_TRANSFORM = "module_value_and_grad"
#: What of an array depends on no element of it.
STATIC = frozenset({"shape", "dtype", "ndim", "size", "nbytes", "itemsize"})
MAX_STEPS = 200


class GradientVisit(Struct, frozen=True):
    """A function that a gradient goes through, and the names in it that the gradient is for.

    given: what is known of other parameters, such as ``use_kernel=True``.
    """

    function: FunctionInfo
    names: frozenset[str]
    root: str
    given: frozenset[tuple[str, Value]] = frozenset()


@check("KERNEL-GRAD-001")
def differentiated_kernels(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """Launches that a gradient reaches."""
    calls: dict[FunctionInfo, list[CallFact]] = defaultdict(list)
    launches = False
    for fact in facts:
        if isinstance(fact, CallFact) and fact.place.function is not None:
            calls[fact.place.function].append(fact)
            launches = launches or _is_launch(fact)
    if not launches:
        return
    for launch, root in _reached(list(_roots(facts)), calls):
        yield Report.at(
            launch,
            message=f"gradient of `{root}` reaches a kernel without a VJP",
            help="Define a VJP with `@mx.custom_function`, or use `mx.stop_gradient` on the result",
        )


def _is_launch(fact: CallFact) -> bool:
    return not isinstance(fact.callee, Function) and any(True for _ in kernels_in(fact.callee))


def _reached(
    roots: list[GradientVisit], calls: dict[FunctionInfo, list[CallFact]]
) -> Iterator[tuple[CallFact, str]]:
    pending, seen = roots, set(roots)
    reported: set[cst.CSTNode] = set()
    while pending and len(seen) < MAX_STEPS:
        visit = pending.pop()
        own = calls[visit.function]
        if any(fact.symbol == "mlx.core.stop_gradient" for fact in own):
            continue
        names = _dependent(visit)
        running = must_execute(visit.function, names, visit.given).calls
        for fact in filter(_is_launch, own):
            inputs = fact.keyword("inputs")
            wanted = inputs is not None and _mentions(inputs.node, names)
            if wanted and fact.node in running and not _is_discrete(fact):
                if fact.node not in reported:
                    yield fact, visit.root
                reported.add(fact.node)
        for node, arguments in running.items():
            for following in _entered(node, arguments, visit, names):
                if following not in seen:
                    seen.add(following)
                    pending.append(following)


def _roots(facts: list[Fact]) -> Iterator[GradientVisit]:
    """Yield the functions that are differentiated, with the parameters that it is done for."""
    for fact in facts:
        if not isinstance(fact, CallFact) or not isinstance(fact.callee, Symbol):
            continue
        name = fact.callee.name
        kind, index = TRANSFORMS.get(name, ("", 0))
        if name not in IMMEDIATE and ROLES.get(kind) != "differentiated":
            continue
        argument = fact.positional(index)
        if argument is None or not isinstance(argument.value, Function):
            continue
        info = argument.value.info
        positions = None if name in IMMEDIATE else _positions(fact)
        yield from _visit(info, positions, argument.value.bound is not None)
        model = fact.positional(0)
        if kind == MODULE_TRANSFORM and model is not None and isinstance(model.value, Instance):
            yield from _model_visit(model.value, info)


def _model_visit(model: Instance, loss: FunctionInfo) -> Iterator[GradientVisit]:
    """Yield a model's own ``__call__``, where the loss calls the model that it is given."""
    method = called_method(model.info)
    if method is None or not method.parameters or not loss.parameters:
        return
    given = loss.parameters[0].name
    called = (n.func for n in walk(loss.node.body, SCOPES) if isinstance(n, cst.Call))
    if any(isinstance(func, cst.Name) and func.value == given for func in called):
        yield GradientVisit(method, frozenset((method.parameters[0].name,)), loss.name)


def _visit(
    info: FunctionInfo, positions: frozenset[int] | None, bound: bool
) -> Iterator[GradientVisit]:
    if _has_gradient(info):
        return
    parameters = info.parameters[1:] if bound else info.parameters
    names = frozenset(
        p.name for i, p in enumerate(parameters) if positions is None or i in positions
    )
    if names:
        yield GradientVisit(info, names, info.name if info.name != "<lambda>" else "the lambda")


def _positions(fact: CallFact) -> frozenset[int]:
    """The positions of the parameters that a gradient is taken for; of ``nn``'s it is the model."""
    argnums = fact.argument(1, "argnums")
    if argnums is None or TRANSFORMS[fact.callee.name][0] == MODULE_TRANSFORM:  # type: ignore[attr-defined]
        return frozenset((0,))
    values = argnums.value.items if isinstance(argnums.value, Sequence) else (argnums.value,)
    known = [v.const for v in values or () if isinstance(v, Number)]
    return frozenset(n for n in known if isinstance(n, int))


def _is_discrete(launch: CallFact) -> bool:
    """Return whether all outputs are integers, which have no gradient."""
    dtypes = launch.keyword("output_dtypes")
    if dtypes is None or not isinstance(dtypes.value, Sequence) or not dtypes.value.items:
        return False
    return all(
        isinstance(d, DType) and d.name is not None and d.name.startswith(("int", "uint", "bool"))
        for d in dtypes.value.items
    )


def _entered(
    node: cst.Call, arguments: tuple[Argument, ...], visit: GradientVisit, names: frozenset[str]
) -> Iterator[GradientVisit]:
    """Yield the functions of linted files that a call enters with what depends on the names."""
    for info in _called(node, visit.function):
        if _has_gradient(info):
            continue
        found = _given(node, info, names)
        known = frozenset(constants_passed(info, arguments))
        if info.outer is visit.function:
            own = {p.name for p in info.parameters}
            found |= names - own
            known |= {(name, value) for name, value in visit.given if name not in own}
        if found:
            yield GradientVisit(info, frozenset(found), visit.root, known)


def _has_gradient(info: FunctionInfo) -> bool:
    """Return whether a function is a custom one that something gives a ``.vjp`` or ``.jvp``.

    Without, MLX differentiates what the function does.
    """
    return CUSTOM in info.decorators and info.name in _given_gradients(info.module)


@lru_cache(maxsize=4)
def _given_gradients(module: Module) -> frozenset[str]:
    """Return the names of which a file mentions ``name.vjp`` or ``name.jvp``."""
    found: set[str] = set()
    for node in walk(module.tree):
        if isinstance(node, cst.Attribute) and node.attr.value in ("vjp", "jvp"):
            path = dotted(node.value)
            if path is not None:
                found.add(path.rpartition(".")[2])
    return frozenset(found)


def _called(node: cst.Call, function: FunctionInfo) -> list[FunctionInfo]:
    """Return the functions that a call may enter, by the name of the callee."""
    callee = node.func
    name = callee.value if isinstance(callee, cst.Name) else None
    if isinstance(callee, cst.Attribute):
        name = callee.attr.value
    plain = [info for info in function.calls if info.name == name]
    if plain:
        return plain if len(plain) == 1 else []
    return [info for info in function.calls if info.name == "__call__" and name is not None]


def _given(node: cst.Call, info: FunctionInfo, names: frozenset[str]) -> set[str]:
    """Return the parameters that are passed something that depends on the names."""
    parameters = [p.name for p in info.parameters if not p.star]
    plain = itertools.takewhile(lambda argument: not argument.star, node.args)
    pairs = ((a.keyword.value if a.keyword else None, a.value) for a in plain)
    given = by_parameter(info, pairs, is_bound=info.is_method)
    found = {name for name in parameters if name in given and _mentions(given[name], names)}
    if info.is_method and parameters and _mentions(node.func, names):
        found.add(parameters[0])
    return found


def _dependent(visit: GradientVisit) -> frozenset[str]:
    """Get the names of a function that depend on some of them, whatever the order of statements."""
    names = set(visit.names)
    bindings = list(_bindings(visit.function.node.body))
    while True:
        before = len(names)
        for targets, value in bindings:
            if not names.issuperset(targets) and _mentions(value, frozenset(names)):
                names.update(targets)
        if len(names) == before:
            return frozenset(names)


def _bindings(body: cst.CSTNode) -> Iterator[tuple[list[str], cst.CSTNode]]:
    for node in walk(body, SCOPES):
        if isinstance(node, cst.Assign):
            for target in node.targets:
                yield list(target_names(target.target)), node.value
        elif isinstance(node, (cst.AnnAssign, cst.AugAssign, cst.NamedExpr)):
            if node.value is not None:
                yield list(target_names(node.target)), node.value
        elif isinstance(node, (cst.For, cst.CompFor)):
            yield list(target_names(node.target)), node.iter


def _mentions(node: cst.CSTNode, names: frozenset[str]) -> bool:
    """Return whether the value of an expression depends on one of the names, not only its shape."""
    if isinstance(node, cst.Name):
        return node.value in names
    if isinstance(node, cst.Attribute):
        return node.attr.value not in STATIC and _mentions(node.value, names)
    if isinstance(node, (cst.Comparison, cst.Lambda, cst.FormattedString)):
        return False
    if isinstance(node, cst.Arg):
        return _mentions(node.value, names)
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "len":
        return False
    return any(_mentions(child, names) for child in children(node))
