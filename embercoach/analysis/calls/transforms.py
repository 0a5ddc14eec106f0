"""Transforms of functions: ``mx.compile``, ``mx.grad``, ``mx.vmap``, and their use in threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.calls.binding import bind
from embercoach.analysis.calls.call_results import named_result
from embercoach.analysis.calls.parameters import plain
from embercoach.analysis.dataflow import gradient_roots
from embercoach.analysis.evaluate import dispatch
from embercoach.analysis.evaluate.dispatch import element_of
from embercoach.analysis.values.facts import (
    Argument,
    CompiledCall,
    CompileFact,
    Fact,
    keyword_value,
)
from embercoach.analysis.values.inheritance import called_method
from embercoach.analysis.values.lattice import (
    TRACED,
    UNKNOWN,
    Array,
    BoundMember,
    BoundTransform,
    Function,
    Instance,
    LibraryObject,
    Sequence,
    Symbol,
    Transformed,
    Tree,
    Value,
    is_traced,
    join_all,
)

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo, Site
    from embercoach.analysis.evaluate.frame import Frame


class ThreadStart(Fact, frozen=True, eq=False):
    """``threading.Thread(target=f, args=(x,))`` or ``executor.submit(f, x)``.

    passed: the keywords and expressions of the arguments that are known; of ``map``, whole.
    has_result: the caller gets what the function returns.
    """

    node: cst.Call
    function: FunctionInfo
    is_bound: bool
    passed: tuple[tuple[str | None, cst.BaseExpression], ...]
    has_result: bool


#: Transform by qualified name: which role it gives the function, and at which argument.
TRANSFORMS: dict[str, tuple[str, int]] = {
    "mlx.core.compile": ("compile", 0),
    "mlx.core.vmap": ("vmap", 0),
    "mlx.core.grad": ("grad", 0),
    "mlx.core.value_and_grad": ("value_and_grad", 0),
    "mlx.core.checkpoint": ("same", 0),
    "mlx.core.custom_function": ("same", 0),
    "mlx.nn.value_and_grad": ("module_value_and_grad", 1),
    "mlx.nn.utils.checkpoint": ("same", 1),
    "mlx.nn.checkpoint": ("same", 1),
    "functools.lru_cache": ("same", 0),
    "functools.cache": ("same", 0),
    "functools.wraps": ("same", 0),
    "functools.partial": ("partial", 0),
}
IMMEDIATE = {"mlx.core.vjp", "mlx.core.jvp"}
ROLES = {
    "compile": "compiled",
    "vmap": "vmapped",
    "grad": "differentiated",
    "value_and_grad": "differentiated",
    "module_value_and_grad": "differentiated",
    "checkpoint": "differentiated",
}
CHECKPOINTS = {"mlx.core.checkpoint", "mlx.nn.utils.checkpoint", "mlx.nn.checkpoint"}


#: A function that is transformed more often is followed no further.
MOST_TRANSFORMED = 16


def wrapped(kind: str, inner: Value, taken: int = 0) -> Value:
    """Return a callable around another, as deep as is followed."""
    depth = 0
    value = inner
    while isinstance(value, Transformed):
        value, depth = value.inner, depth + 1
    return inner if depth >= MOST_TRANSFORMED else Transformed(kind, inner, taken)


def mark(frame: Frame, site: Site, value: Value, role: str | None) -> None:
    """Give a function its role: compiled, vmapped or differentiated."""
    if role is None:
        return
    info: FunctionInfo | None = None
    if isinstance(value, Function):
        info = value.info
    elif isinstance(value, Instance):
        info = called_method(value.info)
    elif isinstance(value, Transformed):
        mark(frame, site, value.inner, role)
    if info is not None:
        setattr(info, role, True)
        if role == "vmapped" and info.module is frame.module:
            # All arguments are arrays, or trees of them.
            for parameter in info.parameters[1 if info.is_method else 0 :]:
                if (
                    parameter.annotation is None
                    and parameter.default is None
                    and not parameter.star
                ):
                    parameter.observe(TRACED)
        if info.module is frame.module:
            info.role_sites.setdefault(role, site)


def transform(frame: Frame, node: cst.Call, name: str, arguments: tuple[Argument, ...]) -> Value:
    """``mx.compile(f)`` and the like: the function gets its role, and a wrapper comes back."""
    kind, index = TRANSFORMS[name]
    positional = [a.value for a in arguments if a.keyword is None and not a.star]
    named = keyword_value(arguments, "fun", "fn", "f", "func")
    inner = positional[index] if len(positional) > index else named
    if inner is None:
        # ``lru_cache(maxsize=4)``, meant to be a decorator.
        return Symbol(name) if kind in ("compile", "same") else UNKNOWN
    if kind == "partial":
        if isinstance(inner, Symbol) and inner.name in TRANSFORMS and len(positional) == 1:
            given = tuple(a for a in arguments if a.keyword is not None or a.star)
            return BoundTransform(inner.name, given) if given else inner
        return wrapped("partial", inner, len(positional) - 1)
    if kind == "same" and name.startswith("functools."):
        return inner
    if name in CHECKPOINTS:
        kind = "checkpoint"
    role, site = ROLES.get(kind), (node, frame.statement)
    mark(frame, site, inner, role)
    if role == "differentiated":
        if (compiled := compiled_by(inner)) is not None:
            compiled.differentiated_compiled = True
        gradient_roots.note(frame, site, kind, inner, arguments)
    if kind == "compile" and frame.record:
        frame.add(CompileFact(node, frame.place(), inner, arguments))
    return wrapped(kind, inner)


def compiled_by(value: Value) -> FunctionInfo | None:
    """Return the function of ``mx.compile(f)``."""
    is_compiled = isinstance(value, Transformed) and value.transform == "compile"
    inner = value.inner if isinstance(value, Transformed) and is_compiled else None
    return inner.info if isinstance(inner, Function) else None


def decorate(frame: Frame, decorator: cst.Decorator, applied: Value, value: Value) -> Value:
    """Apply a transform, perhaps with arguments of ``partial``, that decorates a function."""
    if not isinstance(applied, (Symbol, BoundTransform)):
        return value
    kind = TRANSFORMS.get(applied.name, ("", 0))[0]
    if kind not in ROLES:
        return value
    site = decorator.decorator, decorator
    arguments = applied.arguments if isinstance(applied, BoundTransform) else ()
    mark(frame, site, value, ROLES[kind])
    if ROLES[kind] == "differentiated":
        gradient_roots.note(frame, site, kind, value, arguments)
    if kind == "compile" and frame.record and isinstance(value, (Function, Transformed)):
        function = value.info if isinstance(value, Function) else None
        place = frame.place()._replace(statement=decorator)
        frame.add(CompileFact(decorator.decorator, place, value, arguments, function))
    return wrapped(kind, value)


def immediate(frame: Frame, node: cst.Call, arguments: tuple[Argument, ...]) -> None:
    """``mx.vjp(f, primals, cotangents)`` differentiates right away."""
    if arguments:
        site = node, frame.statement
        mark(frame, site, arguments[0].value, "differentiated")
        gradient_roots.note(frame, site, "vjp", arguments[0].value, arguments)


def call(
    frame: Frame, node: cst.Call, callee: Transformed, arguments: tuple[Argument, ...]
) -> Value:
    """Return the result of calling what a transform returned."""
    if frame.record and callee.transform == "compile":
        frame.add(CompiledCall(node, frame.place(), callee, arguments))
    if callee.transform == "partial":
        # Which arguments the partial call has taken already is not known here.
        inner = callee.inner
        if isinstance(inner, Symbol):
            return named_result(inner.name, arguments)
        taken = (Argument(UNKNOWN, node, None, ""),) * callee.taken
        is_function = isinstance(inner, Function)
        return dispatch.call(frame, node, inner, (*taken, *arguments)) if is_function else UNKNOWN
    inner = callee.inner
    if ROLES.get(callee.transform) == "differentiated" and compiled_by(inner) is not None:
        assert isinstance(inner, Transformed)
        inner = inner.inner  # MLX runs it uncompiled
    result = dispatch.call(frame, node, inner, arguments) if _callable(inner) else UNKNOWN
    if callee.transform.endswith("value_and_grad"):
        value = result if result is not UNKNOWN else TRACED
        traced = any(is_traced(v) for v in (result, *(a.value for a in arguments)))
        is_tree = callee.transform.startswith("module")
        gradient = Tree(traced) if is_tree else Array(traced=traced)
        return Sequence("tuple", join_all((value, gradient)), (value, gradient))
    if callee.transform == "grad":
        is_array = bool(arguments) and type(arguments[0].value) is Array
        return Array(traced=any(is_traced(a.value) for a in arguments)) if is_array else UNKNOWN
    return result


def call_partial(
    frame: Frame, node: cst.Call, callee: BoundTransform, arguments: tuple[Argument, ...]
) -> Value:
    """``partial(mx.compile, inputs=state)(f)``."""
    return transform(frame, node, callee.name, (*arguments, *callee.arguments))


def _callable(value: Value) -> bool:
    return isinstance(value, (Function, Instance, Transformed, BoundMember, LibraryObject))


#: Functions that take one to run in another thread: its keyword, and its place.
THREAD_STARTERS = {
    "threading.Thread": ("target", 1),
    "threading.Timer": ("function", 1),
    "asyncio.to_thread": ("func", 0),
}
#: Methods that take one, and its place: of an executor whose type is not known, and of a loop.
_METHODS = {"submit": 0, "map": 0, "run_in_executor": 1}
_THREADS, _PROCESSES = "ThreadPoolExecutor", "ProcessPoolExecutor"


def start_thread(name: str, frame: Frame, node: cst.Call, arguments: tuple[Argument, ...]) -> Value:
    """``threading.Thread(target=f)`` runs ``f`` in another thread."""
    keyword, index = THREAD_STARTERS[name]
    positional = [a for a in arguments if a.keyword is None and not a.star]
    named = keyword_value(arguments, keyword)
    target = named or (positional[index].value if len(positional) > index else UNKNOWN)
    is_awaited = index == 0
    given = positional[1:] if is_awaited else _listed(arguments)
    _mark_threaded(frame, node, target, given, has_result=is_awaited)
    return UNKNOWN


def _listed(arguments: tuple[Argument, ...]) -> list[Argument]:
    """Return the items of ``args=(x, y)``."""
    given = next((a for a in arguments if a.keyword == "args"), None)
    if given is None or not isinstance(given.node, (cst.Tuple, cst.List)):
        return []
    nodes = [element.value for element in given.node.elements]
    known = given.value.items if isinstance(given.value, Sequence) else None
    values = known if known is not None and len(known) == len(nodes) else [UNKNOWN] * len(nodes)
    return [Argument(v, n, None, "") for v, n in zip(values, nodes, strict=True)]


def submit(frame: Frame, node: cst.Call, arguments: tuple[Argument, ...]) -> None:
    """``executor.submit(f, x)`` does too, in a file that makes executors of threads alone."""
    name = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
    index = _METHODS.get(name)
    if index is None or len(arguments) <= index or arguments[index].keyword is not None:
        return
    source = frame.module.source
    is_default = index == 1  # asyncio's own executor is one of threads
    if (_THREADS in source or is_default) and _PROCESSES not in source:
        is_map = name == "map"
        given = [a for a in arguments[index + 1 :] if not a.star and not (is_map and a.keyword)]
        if is_map:
            given = [a._replace(value=element_of(frame, a.value)) for a in given]
        target = arguments[index].value
        _mark_threaded(frame, node, target, given, has_result=True)


def _mark_threaded(
    frame: Frame,
    node: cst.Call,
    value: Value,
    given: list[Argument],
    *,
    has_result: bool,
) -> None:
    mark(frame, (node, frame.statement), value, "threaded")
    if isinstance(value, Function) and frame.record and value.info.module is frame.module:
        is_bound = value.bound is not None
        passed = tuple((a.keyword, a.node) for a in given)
        frame.add(ThreadStart(node, frame.place(), value.info, is_bound, passed, has_result))
        values = bind(value.info, value.bound, tuple(given))
        for parameter in value.info.parameters:
            taken = values.get(parameter.name)
            if taken is not None and taken is not UNKNOWN and not parameter.star:
                parameter.observe(plain(taken))
