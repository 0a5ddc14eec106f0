"""The context of a finding: it fails there, it costs time in code that recurs, or once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.layout import LEAVING, layout_of
from embercoach.analysis.dataflow.lazy_evaluation import evaluation_of, is_pull
from embercoach.analysis.dataflow.scopes import CONSTRUCTORS, scope_of
from embercoach.analysis.syntax.trees import SCOPES, dotted, keyed_path
from embercoach.analysis.values.facts import FactPlace, LocalCall, calls_by_function
from embercoach.analysis.values.inheritance import is_forward
from embercoach.analysis.values.lattice import Value, is_traced
from embercoach.analysis.values.memo import kept_for_file
from embercoach.analysis.work import MOST_CALLS

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.project.module import Module

#: Decorators that keep the result of a function.
_CACHED = frozenset(f"functools.{name}" for name in ("cache", "lru_cache", "cached_property"))


def runs_once(place: FactPlace, function: FunctionInfo) -> bool:
    """Test whether a statement only runs while an object is made, or what it makes is cached."""
    return function in _at_construction(function.module) or _fills_cache(place, function)


@kept_for_file
def _at_construction(module: Module) -> frozenset[FunctionInfo]:
    callers = {
        function: {call.place.function for call in calls}
        for function, calls in calls_by_function(module).items()
        # Other files may call what has a public name.
        if function.name.startswith("_") and not function.name.startswith("__")
    }
    found = {
        f
        for f in module.functions
        if (f.cls is not None and f.name in CONSTRUCTORS) or not _CACHED.isdisjoint(f.decorators)
    }
    for _ in range(MOST_CALLS):
        further = {f for f, given in callers.items() if f not in found and given <= found}
        if not further:
            break
        found |= further
    return frozenset(found)


def _fills_cache(place: FactPlace, function: FunctionInfo) -> bool:
    """Test whether a statement runs where a cache is empty: ``if self.table is None:``.

    The cache is an attribute, or an entry of a container, that the same ``if`` assigns.
    """
    for level in layout_of(function.module, function).outward(place.statement):
        if isinstance(level.owner, cst.If) and level.arm == "body":
            missing = set(_missing(level.owner.test))
            if missing and not missing.isdisjoint(_assigned(level.owner.body)):
                return True
    return False


def _missing(test: cst.BaseExpression) -> Iterator[str]:
    """The caches that a test finds empty: of ``self.table is None``, ``key not in self.tables``."""
    if isinstance(test, cst.BooleanOperation):
        yield from _missing(test.left)
        yield from _missing(test.right)
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return
    operator, right = test.comparisons[0].operator, dotted(test.comparisons[0].comparator)
    left = dotted(test.left)
    if isinstance(operator, cst.Is) and right == "None" and left is not None and "." in left:
        yield left
    elif isinstance(operator, cst.NotIn) and right is not None:
        yield f"{right}[]"


def _assigned(body: cst.BaseSuite) -> Iterator[str]:
    for statement in contents_of(body).statements:
        if isinstance(statement, cst.Assign):
            for target in statement.targets:
                is_entry = isinstance(target.target, cst.Subscript)
                owner = target.target.value if is_entry else target.target  # type: ignore[attr-defined]
                path = dotted(owner)
                if path is not None:
                    yield f"{path}[]" if is_entry else path


@kept_for_file
def hot_functions(module: Module) -> dict[FunctionInfo, LocalCall]:
    """Get the functions that a loop of the same file calls, here or through others, and the calls.

    Calls by a function that has loops, such as one epoch of a training, are not followed.
    """
    calls = [fact for fact in module.facts() if isinstance(fact, LocalCall)]
    calls = [call for call in calls if not call.place.periodic and not _is_sent(call)]
    found: dict[FunctionInfo, LocalCall] = {}
    by_caller: dict[FunctionInfo | None, list[LocalCall]] = {}
    for call in calls:
        by_caller.setdefault(call.place.function, []).append(call)
        if call.place.loops and not _is_listed(call.place.loop) and not _is_chosen(call, module):
            found.setdefault(call.function, call)
    pending = [*found]
    while pending:
        caller = pending.pop()
        for call in () if has_loop(caller) else by_caller.get(caller, ()):
            if call.function not in found:
                found[call.function] = call
                pending.append(call.function)
    return found


def has_loop(function: FunctionInfo) -> bool:
    """Test whether a function has a loop."""
    return bool(contents_of(function.node.body, SCOPES).of(cst.For, cst.While))


def _is_listed(loop: cst.For | cst.While | None) -> bool:
    """Test whether a loop is over the few items of a list or tuple as written."""
    return isinstance(loop, cst.For) and isinstance(loop.iter, (cst.List, cst.Tuple))


def _is_chosen(call: LocalCall, module: Module) -> bool:
    """Test whether an ``if`` in the loop decides on a call: it may be made for few items."""
    for level in layout_of(module, call.place.function).outward(call.place.statement):
        if level.owner is call.place.loop:
            return False
        if isinstance(level.owner, cst.If):
            return True
    return False


#: Methods that hand a value over to a file, a socket or another thread.
_HANDS_OVER = frozenset({"put", "put_nowait", "send", "sendall", "write", "writeframes"})


def _is_sent(call: LocalCall) -> bool:
    """Test whether a statement only hands a result over: ``queue.put(step(x))``, or a yield."""
    statement = call.place.statement
    value = statement.value if isinstance(statement, cst.Expr) else None
    if isinstance(value, cst.Yield):
        return value.value is call.node
    if not isinstance(value, cst.Call) or not isinstance(value.func, cst.Attribute):
        return False
    return value.func.attr.value in _HANDS_OVER and any(a.value is call.node for a in value.args)


#: The end of the message about a read of an array by the host, in contexts of errors.
EFFECTS = {
    "compiled": "raises inside mx.compile or mx.vmap",
    "differentiated": "detaches the gradient",
}


def context_of(place: FactPlace, module: Module, *, by_calls: bool = False) -> str:
    """Return the context of a finding about cost: one of ``embercoach.rulebook.CONTEXTS``.

    Args:
        place: of the finding.
        module: its module.
        by_calls: each call of a function costs as much as an iteration.
    """
    if module.purpose is not None:
        return module.purpose
    if recurrence_of(place, module) is not None:
        return "avoidable"
    function = place.function
    if not by_calls or function is None or place.periodic or runs_once(place, function):
        return "minor"
    return "minor" if function.name == "main" and function.outer is None else "avoidable"


def error_of(place: FactPlace, value: Value | None, pull: cst.CSTNode | None = None) -> str | None:
    """Return the context in which reading an array raises, or detaches a gradient; None elsewhere.

    Args:
        place: of the read.
        value: the array; only one that depends on the function's arguments is traced.
        pull: the node that reads it, to be followed into a differentiated result.
    """
    function = place.function
    if function is None:
        return None
    if (function.compiled or function.vmapped) and (value is None or is_traced(value)):
        return "compiled"
    if pull is not None and pull in function.module.detaching:
        return "differentiated"
    return None


def recurrence_of(place: FactPlace, module: Module) -> str | None:
    """Say what runs a place again and again; None for what runs once."""
    function = place.function
    if place.periodic or (function is not None and runs_once(place, function)):
        return None
    if place.loops:
        return "iteration" if _goes_on(place, module) else None
    if is_forward(function):
        return "forward pass"
    if function is None or has_loop(function) or function not in hot_functions(function.module):
        return None
    return "iteration"  # a loop elsewhere in the file runs all of it each time


def _goes_on(place: FactPlace, module: Module) -> bool:
    """Test whether a loop goes on after a statement: no ``return`` or ``break`` must follow it."""
    loops, left = 0, isinstance(place.statement, cst.Return)
    for level in layout_of(module, place.function).outward(place.statement):
        rest = level.statements[level.position + 1 :]
        last = rest[-1] if rest else None
        if isinstance(last, LEAVING) and not any(
            contents_of(statement).of(cst.Continue) for statement in rest
        ):
            left = True
            if not isinstance(last, cst.Break):
                return False
        if isinstance(level.owner, (cst.For, cst.While)) and level.arm == "body":
            if not left:
                return True
            loops += 1
            left = isinstance(place.statement, cst.Return)
    return place.loops > loops  # in a comprehension


#: Methods whose result of an evaluated array is a view, or a copy by one small kernel.
_VIEWS = frozenset(("reshape", "squeeze", "flatten", "transpose", "swapaxes", "astype"))


def is_evaluated_before(place: FactPlace, subject: cst.CSTNode, module: Module) -> bool:
    """Test whether ``mx.eval`` of an array comes before its read, in the same pass of a body."""
    paths = {path for node in _viewed(subject) if (path := keyed_path(node)) is not None}
    layout, reaching = layout_of(module, place.function), scope_of(module, place.function).reaching
    for level in layout.outward(place.statement) if paths else ():
        for statement in level.statements[: level.position]:
            for path in paths & evaluated_by(statement, module):
                name = path.partition(".")[0]
                if reaching.before(statement, name) == reaching.before(place.statement, name):
                    return True
        if level.owner is place.loop:
            break
    return False


def evaluated_by(statement: cst.CSTNode, module: Module) -> frozenset[str]:
    """Return the paths that a statement ``mx.eval(x, [y, z])`` or ``n = x.item()`` evaluates."""
    call = statement.value if isinstance(statement, cst.Expr) else None
    fact = evaluation_of(module).calls.get(call) if isinstance(call, cst.Call) else None
    if fact is None or fact.symbol != "mlx.core.eval":
        is_simple = isinstance(statement, cst.BaseSmallStatement)
        calls = contents_of(statement).calls if is_simple else ()
        owners = (c.func.value for c in calls if isinstance(c.func, cst.Attribute) and is_pull(c))
        return frozenset(path for owner in owners if (path := keyed_path(owner)) is not None)
    nodes: list[cst.CSTNode] = [argument.node for argument in fact.arguments]
    for node in tuple(nodes):
        if isinstance(node, (cst.List, cst.Tuple)):
            nodes += [element.value for element in node.elements]
    return frozenset(path for node in nodes if (path := keyed_path(node)) is not None)


def _viewed(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield an expression, and the arrays that it is a part or a view of."""
    while True:
        yield node
        if isinstance(node, cst.Subscript):
            node = node.value
        elif (
            isinstance(node, cst.Call)
            and isinstance(node.func, cst.Attribute)
            and node.func.attr.value in _VIEWS
        ):
            node = node.func.value
        else:
            return
