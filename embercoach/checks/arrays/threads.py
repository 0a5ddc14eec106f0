"""THREAD-001, 002 and 003: streams and lazy arrays of another thread."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import libcst as cst

from embercoach.analysis.calls.definitions import ClassInfo, FunctionInfo
from embercoach.analysis.calls.parameters import canonical_values
from embercoach.analysis.calls.transforms import ThreadStart
from embercoach.analysis.dataflow.contents import contents_of, root_name
from embercoach.analysis.dataflow.function_summaries import derived_names
from embercoach.analysis.dataflow.layout import layout_of
from embercoach.analysis.dataflow.lazy_evaluation import evaluation_of
from embercoach.analysis.dataflow.origins import Stop
from embercoach.analysis.dataflow.scopes import (
    AssignedValue,
    assignment_counts,
    assignments_of,
    by_parameter,
    made_in_init,
    passed_with_owner,
    scope_of,
)
from embercoach.analysis.dataflow.value_sources import returned_by, value_in
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import SCOPES, dotted
from embercoach.analysis.values.facts import Argument, CallFact, Fact, FactPlace, calls_by_function
from embercoach.analysis.values.inheritance import is_layer
from embercoach.analysis.values.lattice import (
    UNKNOWN,
    BoundMember,
    LibraryObject,
    Symbol,
    definite_array,
    holds_arrays,
)
from embercoach.analysis.work import MOST_CALLERS, MOST_CALLS
from embercoach.checks.registry import Report, check

#: Functions of MLX whose arrays need no evaluation.
_EVALUATED = frozenset(
    f"mlx.core.{name}" for name in ("array", "asarray", "from_dlpack", "random.key")
)
#: Layers whose weights are lazy until something evaluates them.
_WEIGHTED = frozenset(
    (
        *("Linear", "Embedding", "LayerNorm", "RMSNorm", "BatchNorm", "GroupNorm", "LSTM", "GRU"),
        *("RNN", "MultiHeadAttention", "Conv1d", "Conv2d", "Conv3d", "Transformer", "Sequential"),
    )
)
#: Functions that create an array of no other one.
_CREATING = frozenset(
    f"mlx.core.{name}" for name in ("zeros", "ones", "full", "arange", "eye", "random.normal")
)
_HELP = "Evaluate it before, with `mx.eval()`, in the thread that computes it"


@check("THREAD-002")
def foreign_array(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``threading.Thread(target=save, args=(mx.exp(x),))``, and results of a thread pool."""
    source = module.source
    if "hread" not in source or "thread_local_stream" in source or module.is_test:
        return
    yield from _Threads(module).reports(facts)


class _Threads:
    """The arrays that go from one thread to another in a file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._evaluation = evaluation_of(module)
        self._certainly = evaluation_of(module, is_certain=True)

    def reports(self, facts: list[Fact]) -> Iterator[Report]:
        """Yield the reports of the file."""
        seen: set[int] = set()
        # The one thread of a pool may get its results again.
        is_single = "max_workers=1" in self._module.source
        for fact in facts:
            function = fact.place.function
            is_worker = function is not None and _runs_in_thread(function)
            if type(fact) is ThreadStart and not is_worker:
                yield from self._inputs(fact)
                if fact.has_result and id(fact.function.node) not in seen and not is_single:
                    seen.add(id(fact.function.node))
                    yield from self._results(fact)
            elif type(fact) is CallFact and function is not None and is_worker:
                yield from self._put(fact, function)
        for info in self._module.functions:
            if info.cls is not None and _runs_in_thread(info):
                yield from self._queued(info)

    def _inputs(self, fact: ThreadStart) -> Iterator[Report]:
        """Lazy arrays that are passed to a thread, or read there as variables around."""
        target = fact.function
        place = fact.place
        for name, node in by_parameter(target, fact.passed, is_bound=fact.is_bound).items():
            lazy = self.is_lazy(node, place.statement, place.function)
            if lazy and self._certainly.may_evaluate_in(target, {name}):
                yield self._report(fact, node, "evaluated in another thread, which raises")
        yield from self._around(fact)
        yield from self._attributes(fact)

    def _around(self, fact: ThreadStart) -> Iterator[Report]:
        """Lazy variables of the scope around a thread's function."""
        target, statement, function = fact.function, fact.place.statement, fact.place.function
        scope = scope_of(self._module, target)
        around = scope_of(self._module, target.outer)
        for name, (*_, used) in contents_of(target.node.body).reads.items():
            if scope.binds(name) or not around.binds(name):
                continue
            if target.outer is function:
                is_lazy = self._is_lazy_name(name, statement, function, 0)
            else:
                is_lazy = target.outer is None and self._is_lazy_global(name)
            if is_lazy and self._certainly.may_evaluate_in(target, {name}):
                yield self._report(fact, used, "evaluated in another thread, which raises")

    def _is_lazy_global(self, name: str) -> bool:
        """Return whether a module's variable is a lazy array that its top level leaves so."""
        bindings = scope_of(self._module, None).reaching.bindings.get(name, [])
        if len(bindings) != 1 or bindings[0].value is None or bindings[0].kind != "assigned":
            return False
        made = bindings[0]
        statements = [s for s in self._module.tree.body if not isinstance(s, SCOPES)]
        return self.is_lazy(bindings[0].value, made.statement, None) and not (
            self._evaluation.may_evaluate(statements, {name})
        )

    def _attributes(self, fact: ThreadStart) -> Iterator[Report]:
        """Lazy attributes of the object whose method a thread runs."""
        target = fact.function
        cls, own = target.cls, target.parameters[0].name if target.parameters else ""
        if cls is None or not fact.is_bound:
            return
        for node in contents_of(target.node.body).of(cst.Attribute):
            owner, _, name = (dotted(node) or "").partition(".")
            if owner != own or "." in name or assignment_counts(self._module)[name] != 1:
                continue
            init, made = cls.methods.get("__init__"), made_in_init(cls, name)
            if init is None or made is None:
                continue
            if not self.is_lazy(made, init.node, init) and not self._is_given(made, init):
                continue
            others = [m for m in cls.methods.values() if not _runs_in_thread(m)]
            is_known = any(
                self._evaluation.may_evaluate_in(m, {f"{m.parameters[0].name}.{name}"})
                for m in others
                if m.parameters
            )
            if not is_known and self._certainly.may_evaluate_in(target, {f"{own}.{name}"}):
                yield self._report(fact, node, "evaluated in another thread, which raises")
                return

    def is_table(self, value: cst.BaseExpression, init: FunctionInfo) -> bool:
        """Return whether an array is computed, from no array that a constructor is given."""
        values = zip(init.parameters, canonical_values(init), strict=True)
        given = {p.name for p, v in values if v is UNKNOWN or holds_arrays(v)}
        own = init.parameters[0].name
        used = derived_names(init.node.body, given - {own})
        contents = contents_of(value)
        fields = (node for node in contents.of(cst.Attribute) if root_name(node) != own)
        is_field = any(holds_arrays(value_in(f, init, self._module)) for f in fields)
        return used.isdisjoint(contents.names) and not is_field

    def stays_lazy(
        self, name: str, value: cst.BaseExpression, made: cst.CSTNode, init: FunctionInfo
    ) -> bool:
        """Return whether a constructor sets an attribute to an array that it never evaluates."""
        path = f"{init.parameters[0].name}.{name}"
        fact = self._evaluation.calls.get(value)
        if fact is not None and (fact.symbol or "") in _CREATING:
            return False  # such as indices, whose private name keeps them from being trained
        return self.is_lazy(value, made, init) and not self._evaluation.may_evaluate_in(
            init, {path}
        )

    def _is_given(self, made: cst.BaseExpression, init: FunctionInfo) -> bool:
        """Return whether an object is made with a lazy array that its maker never evaluates."""
        for call in calls_by_function(self._module).get(init, ())[:MOST_CALLERS]:
            node, caller = passed_with_owner(call).get(dotted(made) or ""), call.place.function
            if isinstance(node, cst.Name) and caller and not isinstance(caller.node, cst.Lambda):
                made_here = call.place.statement
                lines = layout_of(self._module, caller).outward(made_here)
                others = [s for v in lines for s in v.statements if made_here not in contents_of(s)]
                if self._evaluation.may_evaluate(others, {node.value}):
                    return False
                if self.is_lazy(node, made_here, caller):
                    return True
        return False

    def _results(self, fact: ThreadStart) -> Iterator[Report]:
        """Lazy arrays that a thread of a pool returns."""
        target = fact.function
        for value, statement in returned_by(target):
            if self.is_lazy(value, statement, target):
                text = "lazy result of a worker thread: evaluation in another one raises"
                stop = Stop(fact.node, fact.place.statement, "runs in another thread")
                yield self._report(fact, value, text, stop)

    def _put(self, fact: CallFact, function: FunctionInfo) -> Iterator[Report]:
        """Lazy arrays that a thread puts into a queue."""
        func = fact.node.func
        if not isinstance(func, cst.Attribute) or func.attr.value not in ("put", "put_nowait"):
            return
        first = fact.positional(0)
        # One branch that computes the array is enough, as where it is resampled.
        if first is not None and self.is_lazy(
            first.node, fact.place.statement, function, in_some=True
        ):
            text = "lazy array of a worker thread: evaluation in another one raises"
            yield self._report(fact, first.node, text)

    def _queued(self, worker: FunctionInfo) -> Iterator[Report]:
        """Lazy arrays that callers hand to an object whose thread evaluates them."""
        cls, own = worker.cls, worker.parameters[0].name if worker.parameters else "self"
        assert cls is not None
        read = {node.attr.value for node in contents_of(worker.node.body).of(cst.Attribute)}
        for method in cls.methods.values():
            if _runs_in_thread(method):
                continue
            for attribute, kept in _kept_parameters(method):
                holder = f"{method.parameters[0].name}.{attribute}"
                if attribute not in read or self._evaluation.may_evaluate_in(
                    method, {kept.node.value, holder}
                ):
                    continue
                if self._certainly.may_evaluate_in(worker, {f"{own}.{attribute}"}):
                    yield from self._passed(method, kept)

    def _passed(self, method: FunctionInfo, kept: _Kept) -> Iterator[Report]:
        name = kept.node.value
        for call in calls_by_function(self._module).get(method, ())[:MOST_CALLERS]:
            node, caller = passed_with_owner(call).get(name), call.place.function
            if node is None or (caller is not None and _runs_in_thread(caller)):
                continue
            if self.is_lazy(node, call.place.statement, caller):
                place = call.place._replace(
                    statement=kept.statement, function=method, loops=0, loop=None
                )
                stop = Stop(call.node, call.place.statement, "passed here")
                text = "evaluated in another thread, which raises"
                yield self._report(call, kept.node, text, stop, place)
                return

    def _report(
        self,
        fact: Fact,
        node: cst.BaseExpression,
        problem: str,
        stop: Stop | None = None,
        place: FactPlace | None = None,
    ) -> Report:
        is_short = isinstance(node, (cst.Name, cst.Attribute))
        if problem.startswith("evaluated"):
            what = f"lazy array `{self._module.parsed.code(node)}`" if is_short else "lazy array"
            problem = f"{what} is {problem}"
        related = () if stop is None else (stop,)
        place = place or fact.place
        return Report("THREAD-002", node, place, problem, _HELP, related=related)

    def is_lazy(
        self,
        node: cst.BaseExpression,
        statement: cst.CSTNode,
        function: FunctionInfo | None,
        depth: int = 0,
        *,
        in_some: bool = False,
    ) -> bool:
        """Return whether an expression certainly is an array that nothing has evaluated.

        Args:
            node: the expression.
            statement: the one that it is in.
            function: the one around.
            depth: the functions and names that have been followed.
            in_some: one of several values of a name or a function is enough.
        """
        if isinstance(node, cst.ListComp):
            return self.is_lazy(node.elt, statement, function, depth, in_some=in_some)
        if isinstance(node, cst.Attribute) and node.attr.value == "T":
            owner = value_in(node.value, function, self._module, statement)
            return definite_array(owner) is not None
        if isinstance(node, (cst.Tuple, cst.List, cst.Dict)):
            parts = [element.value for element in node.elements]
            return any(self.is_lazy(p, statement, function, depth, in_some=in_some) for p in parts)
        if isinstance(node, cst.BinaryOperation):
            fact = self._evaluation.operations.get(node)
            sides = () if fact is None else (fact.left, fact.right)
            is_array = any(s.array is not None and s.is_certain for s in sides)
            return is_array and all(s.numpy is None for s in sides)
        if isinstance(node, cst.Name):
            return self._is_lazy_name(node.value, statement, function, depth, in_some=in_some)
        if not isinstance(node, cst.Call):
            return False
        local = self._evaluation.local_call(node)
        if local is not None:
            if local.function.name == "__init__":
                return _is_weighted(local.function.cls)
            results = returned_by(local.function)
            found = (
                self.is_lazy(v, s, local.function, depth + 1, in_some=in_some) for v, s in results
            )
            return depth < MOST_CALLS and bool(results) and (any if in_some else all)(found)
        return self._computes(self._evaluation.calls.get(node))

    def _computes(self, fact: CallFact | None) -> bool:
        if fact is None:
            return False
        callee = fact.callee
        is_mlx = isinstance(callee, Symbol) and callee.name.startswith("mlx.")
        is_method = isinstance(callee, BoundMember) and fact.array is not None
        if is_mlx and isinstance(fact.result, LibraryObject):
            return fact.result.cls.rpartition(".")[2] in _WEIGHTED
        is_known = is_mlx or is_method or isinstance(callee, LibraryObject)
        is_lazy = self._evaluation.effect(fact.node) == "lazy"
        is_array = holds_arrays(fact.result)
        return is_known and is_array and is_lazy and fact.symbol not in _EVALUATED

    def _is_lazy_name(
        self,
        name: str,
        statement: cst.CSTNode,
        function: FunctionInfo | None,
        depth: int,
        *,
        in_some: bool = False,
    ) -> bool:
        reaching = scope_of(self._module, function).reaching
        bindings = reaching.before(statement, name) or ()
        if in_some and not bindings:  # there are too many
            bindings = tuple(reaching.bindings.get(name, ()))
        found = (
            binding.kind == "assigned"
            and binding.value is not None
            and binding.statement is not statement
            and self.is_lazy(binding.value, binding.statement, function, depth + 1, in_some=in_some)
            for binding in bindings
        )
        if not (any if in_some else all)(found):
            return False
        levels = layout_of(self._module, function).outward(statement)
        # Defining a function evaluates nothing; calls of it are followed.
        before = [
            inner
            for level in levels
            for inner in level.statements[: level.position]
            if not isinstance(inner, SCOPES)
        ]
        return bool(bindings) and not self._evaluation.may_evaluate(before, {name})


def _is_weighted(cls: ClassInfo | None) -> bool:
    """Return whether a layer of the file has weights."""
    if cls is None or not is_layer(cls):
        return False
    values = (v for v in cls.attributes.values() if isinstance(v, LibraryObject))
    return any(v.cls.rpartition(".")[2] in _WEIGHTED for v in values)


class _Kept(NamedTuple):
    """A parameter in a call that puts it into a list or queue."""

    node: cst.Name
    statement: cst.CSTNode


def _runs_in_thread(function: FunctionInfo) -> bool:
    """Return whether a function runs in another thread, ``run`` of a thread's class included."""
    if function.threaded:
        return True
    bases = () if function.cls is None else function.cls.bases
    return function.name == "run" and any(
        isinstance(base, Symbol) and base.name == "threading.Thread" for base in bases
    )


def _kept_parameters(method: FunctionInfo) -> Iterator[tuple[str, _Kept]]:
    """Yield the attributes that a method puts its parameters into, with the parameters."""
    if isinstance(method.node, cst.Lambda) or not method.parameters:
        return
    own, *others = (parameter.name for parameter in method.parameters)
    for statement in contents_of(method.node.body).statements:
        call = statement.value if isinstance(statement, cst.Expr) else None
        func = call.func if isinstance(call, cst.Call) and len(call.args) == 1 else None
        if not isinstance(func, cst.Attribute) or func.attr.value not in ("append", "put"):
            continue
        owner, _, attribute = (dotted(func.value) or "").partition(".")
        if owner == own and attribute and "." not in attribute and isinstance(call, cst.Call):
            for node in contents_of(call.args[0].value).of(cst.Name):
                if node.value in others:
                    yield attribute, _Kept(node, statement)


@check("THREAD-003")
def lazy_private_array(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``self._cos = mx.cos(angles)`` in the constructor of a layer."""
    if module.is_test:
        return
    found = [one for info in module.functions if info.name == "__init__" for one in _tables(info)]
    if not found:
        return
    threads, evaluated = _Threads(module), _named_in_evaluations(facts)
    lazy: dict[ClassInfo, list[tuple[str, AssignedValue]]] = {}
    for cls, name, made in found:
        init, value = made.setter, made.value
        if value is None or not evaluated.isdisjoint((name, cls.name)):
            continue
        if not is_layer(cls) and not threads.is_table(value, init):
            continue
        if threads.stays_lazy(name, value, made.statement, init):
            lazy.setdefault(cls, []).append((name, made))
    for cls, kept in lazy.items():
        in_layer = is_layer(cls)
        paths = ", ".join(f"self.{name}" for name, _ in kept)
        call = f"mx.eval({paths})" if len(paths) <= MOST_OF_NAMES else "mx.eval()"
        # The other tables of an object are made of the first, or as it is.
        for name, made in kept if in_layer else kept[:1]:
            assert made.value is not None
            shown = f"`self.{name}`" if len(name) <= LONGEST_NAME else "this array"
            use = "a forward pass" if in_layer else "its use"
            yield Report.in_file(
                module,
                made.value,
                function=made.setter,
                context=None,
                message=f"{shown} stays lazy: {use} in another thread raises",
                help="Evaluate it here with `mx.eval()`: `parameters()` has no private arrays"
                if in_layer
                else f"Evaluate at the end of `__init__`: `{call}`",
            )


def _tables(init: FunctionInfo) -> Iterator[tuple[ClassInfo, str, AssignedValue]]:
    """Yield the arrays that a constructor alone sets, and that no ``parameters()`` has."""
    cls = init.cls
    if cls is None or not init.parameters or _HOLDS_STATE.search(cls.name):
        return
    in_layer = is_layer(cls)
    if not in_layer and any(map(_runs_in_thread, cls.methods.values())):
        return  # THREAD-002 knows what is evaluated
    for name, held in cls.attributes.items():
        is_private = name.startswith("_") and not name.startswith("__")
        if (is_private or not in_layer) and holds_arrays(held):
            made = assignments_of(cls, name)
            if len(made) == 1 and made[0].setter is init:
                yield cls, name, made[0]


#: Names of classes whose arrays change, and which the thread makes that uses them.
_HOLDS_STATE = re.compile("cache|state|buffer|batch", re.IGNORECASE)
NO_NAMES: frozenset[str] = frozenset()
#: Longer names of attributes are not quoted, nor are more names than these characters hold.
LONGEST_NAME = 26
MOST_OF_NAMES = 80


def _named_in_evaluations(facts: list[Fact]) -> frozenset[str]:
    """Return the names in the arguments of all ``mx.eval`` of a file."""
    calls = (fact for fact in facts if type(fact) is CallFact and fact.symbol == "mlx.core.eval")
    return frozenset(name for call in calls for name in contents_of(call.node).names)


_STREAM = "mlx.core.Stream"
_MAKERS = frozenset(("mlx.core.new_stream", "mlx.core.default_stream"))


@check("THREAD-001", of=("mlx.",))
def foreign_stream(fact: CallFact, module: Module) -> Iterator[Report]:
    """``with mx.stream(stream):`` in a thread that did not make the stream."""
    function = fact.place.function
    if function is None or not function.threaded:
        return
    given = fact.positional(0) if fact.symbol == "mlx.core.stream" else fact.keyword("stream")
    if given is None or not _is_stream(given) or not _is_foreign(given.node, function, module):
        return
    if evaluation_of(module).evaluates(function.node.body):
        yield Report.at(
            fact,
            node=given.node,
            message="the stream belongs to another thread: evaluation raises",
            help="Use `mx.new_thread_local_stream()`, or make the stream in this thread",
        )


def _is_stream(given: Argument) -> bool:
    return isinstance(given.value, LibraryObject) and given.value.cls == _STREAM


def _is_foreign(node: cst.BaseExpression, function: FunctionInfo, module: Module) -> bool:
    """Test whether a stream is made outside of all functions that run in the thread."""
    if isinstance(node, cst.Attribute):
        setters = () if function.cls is None else function.cls.setters.get(node.attr.value, ())
        first = function.parameters[0].name if function.is_method else None
        is_own = isinstance(node.value, cst.Name) and node.value.value == first
        return (
            is_own
            and bool(setters)
            and all(s.name == "__init__" and not s.threaded for s in setters)
        )
    if not isinstance(node, cst.Name):
        return False
    owner: FunctionInfo | None = function
    while owner is not None and owner.threaded:
        scope = scope_of(module, owner)
        if scope.binds(node.value):
            return False
        owner = owner.outer
    found = scope_of(module, owner).find(node.value)
    made = None if found is None or found[1] is None else found[1].node
    call = None if made is None else evaluation_of(module).calls.get(made)
    return call is not None and call.symbol in _MAKERS
