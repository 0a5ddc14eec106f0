"""Functions that are differentiated, for which arguments, and the pulls that detach a gradient."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst
from msgspec import Struct

from embercoach.analysis.calls.functions import follow_gradient
from embercoach.analysis.calls.parameters import canonical_values
from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values.facts import Argument, FactPlace, keyword_value
from embercoach.analysis.values.gradient_marks import (
    DISCRETE,
    GRADIENT,
    LIVE,
    GradientMark,
    detached_at,
    differentiated,
    marks_of,
    unreached_layers,
)
from embercoach.analysis.values.inheritance import MODULE, called_method, is_layer
from embercoach.analysis.values.lattice import (
    NO_PULLS,
    NONE,
    TRACED,
    TREE,
    UNKNOWN,
    Function,
    Instance,
    LibraryObject,
    Number,
    Pulls,
    Sequence,
    Str,
    Symbol,
    Transformed,
    Tree,
    Union,
    Value,
    join,
)
from embercoach.analysis.work import Work, WorkExceededError

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo, FunctionParameter, Site
    from embercoach.analysis.evaluate.frame import Frame
    from embercoach.analysis.project.module import Module

#: Evaluations of expressions for one differentiated function and all that it calls.
_WORK = 20_000
#: The same for all of a file, more for its characters.
FILE_WORK = 60_000


class ImportedCall(NamedTuple):
    """A call of a function of another file, by the statement that makes it."""

    caller: FunctionInfo | None
    statement: cst.CSTNode
    function: FunctionInfo


@dataclass(slots=True, eq=False)
class GradientRun:
    """A differentiated function's run with marks on what the gradient is taken for.

    module: the file that is checked.
    of_parameters: the gradient is taken for the parameters of modules, whose results are marked.
    by_layer: the marks of results of layers name the call.
    results: of the calls so far, by function and arguments.
    is_complete: no call was of something unknown, whose result may depend on the arguments.
    imported: calls in the file of functions of others, with the pulls that detach their results.
    """

    module: Module
    of_parameters: bool
    by_layer: bool = False
    is_complete: bool = True
    work: Work = field(default_factory=lambda: Work(_WORK))
    imported: dict[ImportedCall, frozenset[cst.CSTNode]] = field(default_factory=dict)
    results: dict[tuple[FunctionInfo, tuple[Value, ...]], Value] = field(default_factory=dict)

    @property
    def spent(self) -> int:
        """Evaluations so far."""
        return _WORK - self.work.left

    def marks_of_layer(self, call: cst.Call, caller: FunctionInfo | None) -> Pulls:
        """Get the marks of what a layer returns, with its call if it is inside of another one."""
        if not self.of_parameters:
            return NO_PULLS
        is_inner = caller is not None and caller.cls is not None and is_layer(caller.cls)
        return LIVE | {GradientMark(layer=call)} if self.by_layer and is_inner else LIVE

    def note_imported(
        self, caller: FunctionInfo | None, statement: cst.CSTNode, info: FunctionInfo, result: Value
    ) -> None:
        """Note the result of a call that the checked file makes of another file's function."""
        pulls = detached_at(result)
        if pulls and info.module is not self.module:
            call = ImportedCall(caller, statement, info)
            self.imported[call] = self.imported.get(call, frozenset()) | pulls

    def note(
        self, callee: Value, receiver: Value | None, arguments: tuple[Argument, ...], result: Value
    ) -> None:
        """Note whether a call's result is known to depend on no more than its marks say."""
        if type(callee) is Symbol and callee.name.startswith("builtins."):
            return
        is_partly_unknown = type(result) is Union and UNKNOWN in result.options
        if result is UNKNOWN or type(result) is Tree or is_partly_unknown:
            self.is_complete = False
        elif self.is_complete and result is not NONE and not marks_of(result):
            given = (UNKNOWN if receiver is None else receiver, *(a.value for a in arguments))
            self.is_complete = not any(map(marks_of, given))


#: Methods and functions of dictionaries and lists.
_TREE_METHODS = frozenset({"items", "values", "keys", "get", "pop", "update", "copy"})
_TREE_FUNCTIONS = frozenset({"len", "isinstance", "list", "tuple", "dict", "sorted"})
#: A file with more differentiated functions is not followed further.
MOST_ROOTS = 64


class GradientRoot(Struct, frozen=True, eq=False):
    """A function that is differentiated.

    names: the parameters that the gradient is taken for.
    of_parameters: the gradient is taken for a module's parameters.
    first_result: only the first item of a returned tuple is differentiated.
    """

    info: FunctionInfo
    names: frozenset[str]
    of_parameters: bool
    first_result: bool
    node: cst.CSTNode
    place: FactPlace


class UnreachedLayer(NamedTuple):
    """A call of a layer, the operation that lets no gradient through, and its method."""

    layer: cst.Call
    operation: str
    method: FunctionInfo


class DifferentiatedResult(NamedTuple):
    """The result of a differentiated function, with the marks of its gradient.

    is_complete: no call was of something unknown, whose result may depend on the arguments.
    imported: calls in the file of functions of others, with the pulls that detach their results.
    unreached: the calls of layers that get no gradient.
    """

    root: GradientRoot
    value: Value
    is_complete: bool
    imported: dict[ImportedCall, frozenset[cst.CSTNode]]
    unreached: tuple[UnreachedLayer, ...]


def note(
    frame: Frame, site: Site, kind: str, function: Value, arguments: tuple[Argument, ...]
) -> None:
    """Note a function that ``kind``, one of the transforms, differentiates.

    Args:
        frame: the frame of the transform's call.
        site: the call, or the decorator.
        kind: the transform, ``"grad"`` or ``"vjp"`` for example.
        function: what is differentiated.
        arguments: those of the call.
    """
    found = _function(function)
    if found is None or not frame.record:
        return
    info, taken = found
    parameters = [p for p in info.parameters if not p.star][taken:]
    of_parameters = kind == "module_value_and_grad"
    if of_parameters:
        names: frozenset[str] = frozenset()
        if arguments:
            _seed_module(frame, parameters, info, arguments[0])
    elif kind in ("grad", "value_and_grad"):
        names = _chosen(parameters, arguments)
    else:
        names = frozenset(p.name for p in parameters)
    if kind != "checkpoint":
        for parameter in parameters:
            if parameter.name in names and parameter.name not in info.seeds:
                nodes = contents_of(info.node.body)
                is_tree = any(
                    _is_name(used, parameter.name) for node in nodes for used in _trees_in(node)
                )
                info.seeds[parameter.name] = TREE if is_tree else TRACED
    if len(frame.module.gradient_roots) < MOST_ROOTS:
        first_result = kind not in ("vjp", "jvp", "checkpoint")
        place = frame.place()
        root = GradientRoot(info, names, of_parameters, first_result, site[0], place)
        frame.module.gradient_roots.append(root)


def _function(value: Value) -> tuple[FunctionInfo, int] | None:
    """Return the function that a value calls, and how many of its parameters are taken already."""
    taken = 0
    while isinstance(value, Transformed):
        if value.transform not in ("same", "compile", "partial", "checkpoint"):
            return None
        taken += value.taken
        value = value.inner
    if isinstance(value, Instance):
        method = called_method(value.info)
        return None if method is None else (method, taken + 1)
    if isinstance(value, Function):
        return value.info, taken + (value.bound is not None)
    return None


def _chosen(parameters: list[FunctionParameter], arguments: tuple[Argument, ...]) -> frozenset[str]:
    """Return the parameters that ``argnums`` and ``argnames`` choose; the first one by default."""
    by_name = keyword_value(arguments, "argnames")
    by_place = keyword_value(arguments, "argnums")
    positional = [a.value for a in arguments if a.keyword is None]
    if by_place is None and len(positional) > 1:
        by_place = positional[1]
    named = {v.text for v in _each(by_name) if isinstance(v, Str)}
    places = {v.const for v in _each(by_place) if isinstance(v, Number)}
    if by_name is None and by_place is None:
        places = {0}
    chosen = {p.name for i, p in enumerate(parameters) if i in places or p.name in named}
    return frozenset(chosen)


def _each(value: Value | None) -> tuple[Value, ...]:
    if value is None:
        return ()
    return value.items or () if isinstance(value, Sequence) else (value,)


def _seed_module(
    frame: Frame, parameters: list[FunctionParameter], info: FunctionInfo, model: Argument
) -> None:
    """Note that the first argument of ``nn.value_and_grad`` is a module, in the loss too."""
    path = dotted(model.node)
    value = model.value
    if value is UNKNOWN:
        value = MODULE
        if path is not None:
            for known in (path, *_copies(frame, path)):
                _show_module(frame, known)
    first = parameters[0] if parameters else None
    if first is None or not isinstance(value, (Instance, LibraryObject)):
        return
    same_name = path is not None and path.rpartition(".")[2] == first.name
    is_model = same_name or _is_model(info, first.name)
    if is_model or any(_is_model(*one) for one in _passed_to(frame, info, first.name)):
        info.seeds.setdefault(first.name, value)


def _show_module(frame: Frame, path: str) -> None:
    """A name or attribute of unknown kind holds a module from here on, in closures too."""
    frame.names[path] = MODULE
    owner, _, name = path.rpartition(".")
    instance = frame.names.get(owner) if owner else None
    if isinstance(instance, Instance) and instance.info.module is frame.module:
        known = instance.info.attributes.get(name)
        if known is not None:
            instance.info.shown_modules.add(name)
            instance.info.attributes[name] = MODULE if known is UNKNOWN else join(known, MODULE)


def _copies(frame: Frame, name: str) -> Iterator[str]:
    """Paths that the body assigns a name to: ``self.model = model``."""
    if frame.info is None or isinstance(frame.info.node, cst.Lambda):
        return
    for statement in contents_of(frame.info.node.body).statements:
        if isinstance(statement, cst.Assign) and _is_name(statement.value, name):
            for target in statement.targets:
                path = dotted(target.target)
                if path is not None:
                    yield path


def _passed_to(frame: Frame, info: FunctionInfo, name: str) -> Iterator[tuple[FunctionInfo, str]]:
    """Yield the parameters that get a parameter of a function: ``lambda m: loss(m)``."""
    for node in contents_of(info.node.body).calls:
        if isinstance(node.func, cst.Name):
            callee = frame.lookup(node.func.value)
            if isinstance(callee, Function) and callee.bound is None:
                pairs = zip(node.args, callee.info.parameters, strict=False)
                yield from (
                    (callee.info, parameter.name)
                    for argument, parameter in pairs
                    if argument.keyword is None and _is_name(argument.value, name)
                )


def _is_model(info: FunctionInfo, name: str) -> bool:
    """Return whether a parameter is named as a model, or called."""
    if "model" in name:
        return True
    return any(_is_name(call.func, name) for call in contents_of(info.node.body).calls)


def _trees_in(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the parts of a node that it uses as only a dictionary or a list is used."""
    if isinstance(node, cst.Attribute) and node.attr.value in _TREE_METHODS:
        yield node.value
    elif isinstance(node, cst.Subscript):
        index = node.slice[0].slice
        key = index.value if isinstance(index, cst.Index) else None
        if isinstance(key, (cst.SimpleString, cst.FormattedString)):
            yield node.value
    elif isinstance(node, (cst.For, cst.CompFor)):
        yield from contents_of(node.iter)
    elif isinstance(node, cst.Call):
        known = isinstance(node.func, cst.Name) and node.func.value in _TREE_FUNCTIONS
        yield from (a.value for a in node.args if known or a.star)
    elif isinstance(node, (cst.If, cst.IfExp, cst.While)):
        yield node.test
    elif isinstance(node, cst.ComparisonTarget) and isinstance(node.operator, (cst.In, cst.NotIn)):
        yield node.comparator


def _is_name(node: cst.CSTNode, name: str) -> bool:
    return isinstance(node, cst.Name) and node.value == name


def differentiated_results(module: Module) -> tuple[DifferentiatedResult, ...]:
    """Return the results of the functions that a file differentiates, one for each way it does so.

    Raises:
        WorkExceededError: these functions together take more work than they may.
    """
    found: dict[tuple[object, ...], DifferentiatedResult] = {}
    left = FILE_WORK + len(module.source) // 2
    for root in module.gradient_roots:
        key = root.info, root.names, root.of_parameters, root.first_result
        if key not in found:
            run = GradientRun(module, root.of_parameters)
            result = _result(root, run)
            unreached = _unreached(root, result, run)
            left -= run.spent
            if left < 0:
                raise WorkExceededError
            found[key] = DifferentiatedResult(
                root, result, run.is_complete, run.imported, unreached
            )
    return tuple(found.values())


def _unreached(root: GradientRoot, result: Value, run: GradientRun) -> tuple[UnreachedLayer, ...]:
    """The layers that get no gradient though others do: by a second run that distinguishes them.

    The operation that has none is in a layer: what a loss makes of its labels is left aside.
    """
    marks = [mark for mark in marks_of(result) if isinstance(mark, GradientMark)]
    is_partial = GRADIENT in marks and any(mark.zero_by in DISCRETE for mark in marks)
    if not (root.of_parameters and run.is_complete and is_partial):
        return ()
    second = GradientRun(run.module, of_parameters=True, by_layer=True)
    layers = unreached_layers(_result(root, second))
    run.work.left -= second.spent
    found = [
        UnreachedLayer(layer, operation, method)
        for layer, operation in layers.items()
        if operation in DISCRETE and (method := _method_with(operation, second)) is not None
    ]
    return tuple(found)


def _method_with(operation: str, run: GradientRun) -> FunctionInfo | None:
    """Return the method of a layer that calls an operation."""
    for info, _ in run.results:
        is_layers = info.cls is not None and is_layer(info.cls)
        if is_layers and operation in map(last_name, contents_of(info.node.body).calls):
            return info
    return None


def _result(root: GradientRoot, run: GradientRun) -> Value:
    """Return the part of a function's result that is differentiated, with its marks."""
    values = [
        differentiated(value) if parameter.name in root.names else value
        for parameter, value in zip(root.info.parameters, canonical_values(root.info), strict=True)
    ]
    result: Value = UNKNOWN
    with suppress(WorkExceededError):
        result = follow_gradient(root.info, tuple(values), run)
    if root.first_result and isinstance(result, Sequence) and result.items:
        return result.items[0]
    return result
