"""COMPILE-005, 006 and 008: what mx.compile runs and captures, and what the code changes."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import islice
from typing import Literal, NamedTuple

import libcst as cst

from embercoach.analysis import mlx_api
from embercoach.analysis.calls.definitions import ClassInfo, FunctionInfo
from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.function_summaries import (
    calls_in,
    evaluated_calls,
    frame_of,
    located_calls,
)
from embercoach.analysis.dataflow.layout import layout_of
from embercoach.analysis.dataflow.lazy_evaluation import evaluation_of
from embercoach.analysis.dataflow.scopes import (
    Scope,
    assignment_counts,
    made_in_init,
    passed_with_owner,
    scope_of,
)
from embercoach.analysis.dataflow.value_sources import (
    Source,
    Sources,
    changed_containers,
    sources_of,
)
from embercoach.analysis.evaluate.members import member
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import SCOPES, dotted
from embercoach.analysis.values.facts import (
    BinaryFact,
    CallFact,
    CompileFact,
    Fact,
    FactPlace,
    StoreFact,
    match,
)
from embercoach.analysis.values.inheritance import (
    called_method,
    find_method,
    is_layer,
    lineage,
)
from embercoach.analysis.values.lattice import (
    NONE,
    UNKNOWN,
    Dict,
    Function,
    Instance,
    LibraryObject,
    Sequence,
    Symbol,
    Transformed,
    Value,
    holds_arrays,
    is_traced,
    options,
)
from embercoach.analysis.values.memo import kept_for_file
from embercoach.analysis.work import MOST_CALLERS, MOST_CALLS, MOST_STEPS, WorkExceededError
from embercoach.checks.arrays.module_modes import is_by_mode
from embercoach.checks.registry import Report, check

#: What the first parameter of a method is called, by PEP 8.
_BOUND = frozenset({"self", "cls"})


@check("COMPILE-008")
def compiled_method(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``@mx.compile`` of a method, which is no longer bound to its instance."""
    info = fact.decorated
    if info is None or not info.is_method or not info.parameters:
        return
    first = info.parameters[0]
    if first.name in _BOUND and not first.star:
        is_module = info.cls is not None and is_layer(info.cls)
        bound = f"self.{info.name}" + (", inputs=[self.state]" if is_module else "")
        yield Report.at(
            fact,
            message="mx.compile of a method: its result is never bound to the instance",
            help=f"Set `self._{info.name.strip('_')} = mx.compile({bound})` in `__init__`",
        )


#: Work for each function that a check looks at.
STEPS_A_FUNCTION = 4


def root_of(value: Value) -> FunctionInfo | None:
    """Return the function of a linted file that a compiled value runs."""
    if isinstance(value, Function):
        return value.info
    if isinstance(value, Instance):
        return called_method(value.info)
    return root_of(value.inner) if isinstance(value, Transformed) else None


@kept_for_file
def traced_by(fact: CompileFact, module: Module) -> frozenset[FunctionInfo]:
    """Return the functions of the file that run when the compiled one is traced.

    Raises:
        WorkExceededError: the file has taken all the work that it may.
    """
    root = root_of(fact.function)
    if root is None or root.module is not module:
        return frozenset()
    inner = _inner(module)
    seen, pending = {root}, [root]
    while pending:
        info = pending.pop()
        for callee in (*info.calls, *inner.get(info, ())):
            if callee not in seen and callee.module is module:
                seen.add(callee)
                pending.append(callee)
    module.work.left -= STEPS_A_FUNCTION * len(seen)
    if module.work.left < 0:
        raise WorkExceededError
    return frozenset(seen)


@kept_for_file
def imported_by(fact: CompileFact, module: Module) -> tuple[FunctionInfo, ...]:
    """Get the functions of other files that run when the compiled one is traced, up to a number."""
    root = root_of(fact.function)
    found = set() if root is None or root.module is module else {root}
    found.update(
        c for info in traced_by(fact, module) for c in info.calls if c.module is not module
    )
    in_order = sorted(found, key=lambda info: (str(info.module.path), info.qualified_name))
    reached = dict.fromkeys(in_order)
    while in_order and len(reached) < MOST_CALLERS:
        callees = (root_of(call.callee) for call in evaluated_calls(in_order.pop(0)))
        more = dict.fromkeys(
            c for c in callees if c is not None and c.module is not module and c not in reached
        )
        reached.update(more)
        in_order += more
    return tuple(reached)[:MOST_CALLERS]


@kept_for_file
def _inner(module: Module) -> dict[FunctionInfo | None, list[FunctionInfo]]:
    found: dict[FunctionInfo | None, list[FunctionInfo]] = {}
    for info in module.functions:
        found.setdefault(info.outer, []).append(info)
    return found


def place_in(fact: CompileFact, info: FunctionInfo, statement: cst.CSTNode) -> FactPlace:
    """Return a place in a function that is traced, for reports of what no fact records."""
    return fact.place._replace(
        statement=statement, function=info, loops=0, loop=None, periodic=False
    )


_NAMES = re.compile(r"\b(update|apply_gradients)\b")


class Update(NamedTuple):
    """``optimizer.update(model, gradients)``.

    owner: the path of the optimizer.
    model: the path of the module, None for ``apply_gradients``.
    """

    node: cst.Call
    statement: cst.CSTNode
    function: FunctionInfo | None
    owner: str
    model: str | None

    def is_in_loop(self, module: Module) -> bool:
        """Return whether it is in a loop of its function."""
        loops = layout_of(module, self.function).loops(self.statement)
        return next(loops, None) is not None


@kept_for_file
def updates_of(module: Module) -> tuple[Update, ...]:
    """Return the calls of a file that update a module by an optimizer, up to a number."""
    if _NAMES.search(module.source) is None:
        return ()
    bodies = [(None, module.tree), *((info, info.node.body) for info in module.functions)]
    found = (
        update_in(node, statement, function)
        for function, body in bodies
        for node, statement in located_calls(body)
    )
    return tuple(islice((update for update in found if update is not None), MOST_STEPS))


def sources_in(update: Update, module: Module) -> tuple[Source, ...]:
    """Return the optimizer of an update, and the module if it has one."""
    given = [] if update.model is None else [update.node.args[0].value]
    nodes = [cst.ensure_type(update.node.func, cst.Attribute).value, *given]
    return tuple(Source(n, update.statement, update.function, module) for n in nodes)


def update_in(
    node: cst.Call, statement: cst.CSTNode, function: FunctionInfo | None
) -> Update | None:
    """Return the update of a model that a call is, if it is one."""
    func = node.func
    if not isinstance(func, cst.Attribute) or len(node.args) != 2:
        return None
    owner, model = dotted(func.value), dotted(node.args[0].value)
    if owner is None or any(argument.star for argument in node.args):
        return None
    if func.attr.value == "apply_gradients":
        model = None
    elif func.attr.value != "update" or model is None or node.args[0].keyword is not None:
        return None
    return Update(node, statement, function, owner, model)


def variable(path: str, function: FunctionInfo | None, module: Module) -> Hashable:
    """A key that is the same for all names of one variable, such as ``model`` and ``self.model``.

    Args:
        path: a name or a dotted path.
        function: the function that it is used in.
        module: the file.
    """
    scope = scope_of(module, function)
    for _ in range(MOST_STEPS):
        name, _, rest = path.partition(".")
        found = scope.find(name)
        if found is None:
            return path
        scope, expression = found
        owner = scope.owner
        if isinstance(owner, FunctionInfo) and owner.is_method and rest:
            first = owner.parameters[0].name if owner.parameters else ""
            if name == first:
                return owner.cls, rest
        alias = None if rest else _attribute_of(name, scope, module)
        if alias is not None:
            return alias
        other = None if expression is None else dotted(expression.node)
        if expression is None or other is None:
            return owner, path
        path, scope = f"{other}.{rest}" if rest else other, expression.scope
    return path


def _attribute_of(name: str, scope: Scope, module: Module) -> Hashable | None:
    """Return the attribute that a method sets to a variable: ``self.model = model``."""
    owner = scope.owner
    if not isinstance(owner, FunctionInfo) or not owner.is_method or not owner.parameters:
        return None
    if len(scope.reaching.bindings.get(name, ())) != 1:
        return None
    first = owner.parameters[0].name
    for statement in contents_of(owner.node.body).statements:
        if not isinstance(statement, cst.Assign) or dotted(statement.value) != name:
            continue
        for target in statement.targets:
            holder, _, attribute = (dotted(target.target) or "").partition(".")
            if holder == first and assignment_counts(module)[attribute] == 1:
                return owner.cls, attribute
    return None


def calls_variable(
    function: FunctionInfo, is_same: Callable[[str], bool], module: Module, depth: int = 0
) -> bool:
    """Return whether a function calls a variable, or passes it to a function that does."""
    evaluation = evaluation_of(module)
    for node in contents_of(function.node.body, SCOPES).calls:
        callee = dotted(node.func)
        if callee is not None and is_same(callee):
            return True
        local = evaluation.local_call(node) if depth < MOST_CALLS else None
        if local is None or any(a.star for a in node.args):
            continue
        for name, argument in passed_with_owner(local).items():
            path = dotted(argument)
            is_passed = path is not None and is_same(path)
            if is_passed and calls_variable(local.function, name.__eq__, module, depth + 1):
                return True
    return False


Option = Literal["inputs", "outputs"]
#: The place of an option among the arguments of ``mx.compile``.
_PLACES: dict[Option, int] = {"outputs": 2, "inputs": 1}
RANDOM_STATE = "mlx.core.random.state"
#: The attribute that holds the state of a module, of an optimizer, or of ``mx.random``.
STATE = "state"


def captures_random_state(fact: CompileFact, option: Option, module: Module) -> bool:
    """Return whether ``inputs=`` or ``outputs=`` has ``mx.random.state``, or may have it."""
    argument = fact.option(_PLACES[option], option)
    if argument is None:
        return False
    known = _holds(argument.value, RANDOM_STATE)
    if known is None:  # nothing is known of the value, but perhaps of its expression
        return captured_owners(fact, option, module) is None
    return known


def _holds(value: Value, name: str) -> bool | None:
    """Return whether a symbol is in a value; None if nothing is known of the value."""
    if value is UNKNOWN:
        return None
    for option in options(value):
        if isinstance(option, Symbol):
            if option.name == name:
                return True
        elif isinstance(option, Sequence):
            items = option.items if option.items is not None else (option.common or UNKNOWN,)
            if any(_holds(item, name) for item in items):
                return True
            if option.items is None and option.common is UNKNOWN:
                return None
        elif isinstance(option, Dict):
            values = [option.item, *(held for _, held in option.known)]
            if any(_holds(held, name) for held in values):
                return True
    return None if UNKNOWN in options(value) else False


@kept_for_file
def captured_owners(fact: CompileFact, option: Option, module: Module) -> list[Source] | None:
    """The objects whose states are in ``inputs=`` or ``outputs=``, None if some are not known."""
    argument = fact.option(_PLACES[option], option)
    if argument is None:
        return []
    sources = sources_of(module)
    found: list[Source] = []
    pending = [sources.at_place(argument.node, _place_of(fact))]
    for _ in range(MOST_STEPS):
        if not pending:
            return found
        source = pending.pop()
        ends = sources.ends(source)
        if not ends or _may_grow(source, ends):
            return None
        if dotted(source.node) is not None:  # a list or a dictionary is captured itself
            found += [source for end in ends if isinstance(end.node, (cst.List, cst.Dict))]
        for end in ends:
            node = end.node
            if isinstance(node, (cst.List, cst.Tuple, cst.Dict)):
                pending += [end.at(element.value) for element in node.elements]
            elif isinstance(node, cst.BinaryOperation):
                pending += [end.at(node.left), end.at(node.right)]
            else:
                owner = _owner_of_state(end, sources)
                if owner is None:
                    return None
                found.append(owner)
    return None


def _place_of(fact: CompileFact) -> FactPlace:
    """Return the place of the arguments of ``mx.compile``: of a decorator, the definition's."""
    if fact.decorated is None:
        return fact.place
    return fact.place._replace(statement=fact.decorated.node)


def _may_grow(source: Source, ends: list[Source]) -> bool:
    """Return whether a list with a name may get further elements after it is made."""
    path = dotted(source.node)
    if path is None or not any(isinstance(e.node, (cst.List, cst.Dict)) for e in ends):
        return False
    modules = dict.fromkeys((source.module, *(end.module for end in ends)))
    return any(path.rpartition(".")[2] in changed_containers(module) for module in modules)


def _owner_of_state(source: Source, sources: Sources) -> Source | None:
    """Return the module or the optimizer whose ``state`` an expression is."""
    node = source.node
    if not isinstance(node, cst.Attribute) or node.attr.value != STATE:
        return None  # an attribute that may hold several states
    owner = source.at(node.value)
    value = sources.value(owner)
    if isinstance(value, Instance) and any(map(_defines_state, lineage(value.info))):
        return None
    return owner if dotted(owner.node) is not None else None


def _defines_state(cls: ClassInfo) -> bool:
    """Return whether a class has a ``state`` that is not MLX's."""
    return STATE in cls.setters or STATE in cls.methods or STATE in cls.variables


def is_captured(owner: Source, captured: list[Source] | None) -> bool:
    """Return whether an object's state is captured, or may be.

    Args:
        owner: the object, by a name or a path.
        captured: the objects whose states are captured.
    """
    if captured is None:
        return True
    path = dotted(owner.node) or ""
    name = path.rpartition(".")[2]
    for known in captured:
        held = dotted(known.node) or ""
        if name in held.split(".") or path.startswith(f"{held}."):
            return True
    keys = _keys(owner) if captured else set()
    return any(not keys.isdisjoint(_keys(known)) for known in captured)


def _keys(source: Source) -> set[Hashable]:
    """Keys that two expressions of one object have in common."""
    found: set[Hashable] = set()
    for end in (source, *sources_of(source.module).ends(source)):
        path = dotted(end.node)
        found.add(id(end.node) if path is None else variable(path, end.function, end.module))
    return found


RANDOM = "mlx.core.random."
#: Functions of ``mx.random`` that draw no numbers from the global state.
_DETERMINISTIC = frozenset({"key", "seed", "split", "state"})
_DROPOUT = frozenset({"mlx.nn.Dropout", "mlx.nn.Dropout2d", "mlx.nn.Dropout3d"})


def drawn_by(call: CallFact, *, trains: bool) -> str | None:
    """Return the call as a message shows it, if it draws from the global random state."""
    if isinstance(call.callee, LibraryObject):
        layer = call.callee.cls
        return f"`{layer.replace('mlx.', '')}`" if trains and layer in _DROPOUT else None
    name = call.symbol
    if name is None or not name.startswith(RANDOM) or call.place.function is None:
        return None
    short = name.removeprefix(RANDOM)
    if short in _DETERMINISTIC or any(argument.star for argument in call.arguments):
        return None
    entry = mlx_api.lookup(name)
    if entry is None:
        return None
    for parameter, argument in match(entry, call.arguments):
        if parameter.name == "key" and argument.value is not NONE:
            return None
    return f"`mx.random.{short}`"


_OF_CONTAINERS = frozenset((*dir(dict), *dir(list), *dir(str)))
#: An array that is added to a list: only a trace runs ``append``, even with ``outputs=``.
RETURN = "Return the array, and store it outside of the compiled function"
RETURN_OR_CAPTURE = "Return the array, or add its container to `outputs=` of mx.compile"
_ADDS = frozenset({"append", "extend", "insert", "add", "appendleft"})


@check("COMPILE-005")
def uncaptured_update(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``optimizer.update(model, gradients)`` without ``outputs=state``."""
    functions = traced_by(fact, module)
    if fact.has_star or not functions:
        return
    for update in updates_of(module):
        info = update.function
        if info is None or info not in functions or not _is_outer(update.owner, info):
            continue
        if update.model is None and _mentions(info, f"{update.owner}.state"):
            continue  # the state is an argument and a result
        state = sources_in(update, module)
        for name in _PLACES:
            captured = captured_owners(fact, name, module)
            lacking = [s for s in state if not is_captured(s, captured)]
            if lacking:
                shown = (dotted(lacking[0].node) or "").rpartition(".")[2]
                yield Report(
                    "COMPILE-005",
                    update.node,
                    place_in(fact, info, update.statement),
                    message=f"updates `{shown}`, which `{name}=` of mx.compile lacks"[:80],
                    help=_states(
                        (*functions, *imported_by(fact, module)),
                        module,
                        update.model or "model",
                        update.owner,
                    ),
                    context="compiled",
                )
                break


def _states(
    functions: Iterable[FunctionInfo],
    module: Module,
    model: str = "model",
    optimizer: str = "optimizer",
) -> str:
    """Return the help with all states that compiled functions change."""
    calls = (call for info in functions for call in calls_in(info, module))
    draws = any(drawn_by(call, trains=True) is not None for call in calls)
    more = ", mx.random.state" if draws else ""
    return f"Pass `[{model}.state, {optimizer}.state{more}]` as `inputs=` and `outputs=`"


@check("COMPILE-005")
def imported_update(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``mx.compile(step)`` of a function of another file that updates its model."""
    if fact.has_star or fact.option(2, "outputs") is not None:
        return
    for info in imported_by(fact, module):
        for call in evaluated_calls(info):
            update = update_in(call.node, call.place.statement, info)
            owner = "" if update is None else update.owner
            if "opt" in owner.lower() and _is_outer(owner, info):
                yield Report.at(
                    fact,
                    message=f"`{info.name[:20]}()` updates `{owner[:12]}`, "
                    "which `outputs=` of mx.compile lacks",
                    help=_states((info,), module),
                )
                return


def _mentions(info: FunctionInfo, path: str) -> bool:
    return path in map(dotted, contents_of(info.node.body, SCOPES).of(cst.Attribute))


def _is_outer(path: str, info: FunctionInfo) -> bool:
    """Return whether a path begins with a name that a function does not bind, or with ``self``."""
    name = path.partition(".")[0]
    if not scope_of(info.module, info).binds(name):
        return True
    return info.is_method and bool(info.parameters) and info.parameters[0].name == name


@check("COMPILE-006")
def leaked_tracer(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``history.append(loss)`` and ``self.last = y`` in a compiled function."""
    functions = traced_by(fact, module)
    if fact.has_star:
        return
    captured = captured_owners(fact, "outputs", module)
    for info in functions:
        for inner in module.facts_of(info):
            target = _stored(inner)
            if target is None or not _leaks(target, info, functions, module):
                continue
            owner = _owner(target)
            if not isinstance(owner, cst.BaseExpression) or dotted(owner) is None:
                continue
            if is_captured(sources_of(module).of(inner, owner), captured):
                continue
            yield Report.at(
                inner,
                message="stores a traced array outside of the compiled function",
                help=RETURN if _is_added(target) else RETURN_OR_CAPTURE,
                context="compiled",
            )


@check("COMPILE-006")
def leaking_callback(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``encoder(x, hook=self.taps.append)`` in a compiled function."""
    functions = traced_by(fact, module)
    if fact.has_star or fact.option(2, "outputs") is not None:
        return
    for info in functions:
        for node in contents_of(info.node.body, SCOPES).calls:
            for argument in node.args:
                target = _added_to(argument.value)
                if target is None or not _leaks(target, info, functions, module):
                    continue
                yield Report(
                    "COMPILE-006",
                    argument.value,
                    place_in(fact, info, info.statement or info.node),
                    message="the callback stores traced arrays outside of the compiled function",
                    help="Collect them in a local list, and return it",
                    context="compiled",
                )


def _added_to(node: cst.BaseExpression) -> cst.Attribute | None:
    """``taps.append``, or that of ``lambda h: taps.append(h)``."""
    if isinstance(node, cst.Lambda) and isinstance(node.body, cst.Call):
        given = {p.name.value for p in node.params.params}
        passed = {dotted(a.value) for a in node.body.args}
        node = node.body.func if passed and passed <= given else node
    is_adding = isinstance(node, cst.Attribute) and node.attr.value in _ADDS
    return node if is_adding and isinstance(node, cst.Attribute) else None


@check("COMPILE-006")
def leaking_import(fact: CompileFact, module: Module) -> Iterator[Report]:
    """A compiled function calls one of another file that keeps ``self.last = y``, or adds ``y``."""
    if fact.has_star or fact.option(2, "outputs") is not None:
        return
    for info in imported_by(fact, module):
        stored = "stores a traced array"
        kept = _kept_attribute(info, traced_by(fact, module), module)
        if kept is not None:
            message = f"`{info.qualified_name[:32]}` {stored} in `{kept[:16]}`"
        elif any(_adds_argument(info, call.node) for call in evaluated_calls(info)):
            message = f"`{info.name[:20]}()` {stored} outside of the compiled function"
        else:
            continue
        yield Report.at(fact, message=message, help=RETURN_OR_CAPTURE)
        return


def _kept_attribute(
    info: FunctionInfo, functions: frozenset[FunctionInfo], module: Module
) -> str | None:
    """Get the attribute that a method sets to a traced array, and that the file reads elsewhere."""
    if info.cls is None or info.name == "__init__":
        return None
    for name in info.cls.set_by.get(info, ()):
        # ``config.keys()`` does not read it.
        if name not in _OF_CONTAINERS and _reads(module).get(name, frozenset()) - functions:
            held = member(frame_of(info), Instance(info.cls), name)
            if holds_arrays(held) and is_traced(held):
                return name
    return None


def _adds_argument(info: FunctionInfo, node: cst.Call) -> bool:
    """``SEEN.append(x)`` of a list of the file, and of what the function is given."""
    func = node.func
    if not isinstance(func, cst.Attribute) or func.attr.value not in _ADDS or not node.args:
        return False
    if not isinstance(func.value, cst.Name) or info.outer is not None:
        return False
    parameters = {p.name for p in info.parameters[info.is_method :]}
    is_given = dotted(node.args[0].value) in parameters
    return is_given and _outlives(func.value.value, info, frozenset((info,)))


def _stored(fact: Fact) -> cst.CSTNode | None:
    """Return the target of a fact that stores a traced array."""
    if type(fact) is StoreFact:
        return fact.node if _is_traced(fact.value) else None
    if type(fact) is BinaryFact and fact.in_place and isinstance(fact.node, cst.AugAssign):
        target = fact.node.target
        return target if isinstance(target, cst.Subscript) else None
    if type(fact) is not CallFact or fact.callee is not UNKNOWN:
        return None
    func = fact.node.func
    if not isinstance(func, cst.Attribute) or func.attr.value not in _ADDS:
        return None
    return func if any(_is_traced(a.value) for a in fact.arguments) else None


def _is_traced(value: Value) -> bool:
    return is_traced(value) and holds_arrays(value)


def _is_added(target: cst.CSTNode) -> bool:
    """Test for ``xs.append``, which a call of a list or a set is of."""
    return isinstance(target, cst.Attribute) and target.attr.value in _ADDS


def _owner(target: cst.CSTNode) -> cst.CSTNode:
    """``xs`` of ``xs.append`` and ``xs[0]``, ``self`` of ``self.x``."""
    return target.value if isinstance(target, (cst.Attribute, cst.Subscript)) else target


def _leaks(
    target: cst.CSTNode,
    info: FunctionInfo,
    functions: frozenset[FunctionInfo],
    module: Module,
) -> bool:
    """Return whether a container outlives the trace, and what is stored is read again."""
    path = dotted(_owner(target))
    if path is None:
        return False
    name = path.partition(".")[0]
    is_self = info.is_method and bool(info.parameters) and info.parameters[0].name == name
    if path == name and _is_module(name, info):
        return False  # ``operator.add``
    if is_self:
        assert info.cls is not None
        init = find_method(info.cls, "__init__")
        if init in functions:
            return False  # made during the trace
        if _is_given_list(target, info):
            return True  # who made it may read it
    elif not _outlives(name, info, functions):
        return False
    stored = _attribute(target)
    return stored is None or bool(_reads(module).get(stored, frozenset()) - functions)


def _is_given_list(target: cst.CSTNode, info: FunctionInfo) -> bool:
    """Test for the ``self.log`` of ``self.log.append(x)`` that ``__init__`` is given."""
    name = _attribute(target) if isinstance(target, cst.Attribute) else None
    return bool(
        _is_added(target)
        and name
        and info.cls
        and isinstance(made_in_init(info.cls, name), cst.Name)
    )


def _attribute(target: cst.CSTNode) -> str | None:
    """Return the attribute that holds what is stored; None for other containers."""
    if _is_added(target) or isinstance(target, cst.Subscript):
        target = _owner(target)
    return target.attr.value if isinstance(target, cst.Attribute) else None


def _is_module(name: str, info: FunctionInfo) -> bool:
    """Return whether a name is bound by imports of modules alone."""
    found = scope_of(info.module, info).find(name)
    if found is None:
        return False
    bindings = found[0].reaching.bindings.get(name, ())
    return bool(bindings) and all(isinstance(one.node, cst.Import) for one in bindings)


def _outlives(name: str, info: FunctionInfo, functions: frozenset[FunctionInfo]) -> bool:
    """Return whether a name belongs to a scope around the compiled functions."""
    if name in info.global_names:
        return True
    around = info.outer if name in info.nonlocal_names else info
    found = scope_of(info.module, around).find(name)
    return found is not None and found[0].owner not in functions


@kept_for_file
def _reads(module: Module) -> dict[str, frozenset[FunctionInfo | None]]:
    """Return the functions of a file that read an attribute, by its name."""
    found: dict[str, set[FunctionInfo | None]] = {}
    bodies: dict[cst.CSTNode, FunctionInfo] = {info.node: info for info in module.functions}
    contents = contents_of(module.tree)
    for node in contents.of(cst.Attribute):
        if not isinstance(contents.parent_of(node), cst.AssignTarget):
            around = next((one for one in contents.above(node) if one in bodies), module.tree)
            found.setdefault(node.attr.value, set()).add(bodies.get(around))
    return {name: frozenset(functions) for name, functions in found.items()}


_NORM = "BatchNorm"


@check("COMPILE-005")
def uncaptured_statistics(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``mx.compile(lambda x: model(x), inputs=model.state)`` of a model with ``nn.BatchNorm``."""
    if fact.has_star or fact.option(2, "outputs") is not None:
        return
    if ".eval()" in module.source or ".train(" in module.source:
        return  # its statistics may not change
    for owner in captured_owners(fact, "inputs", module) or ():
        name = (dotted(owner.node) or "").rpartition(".")[2]
        if _runs(fact, name, module) and _has_norm(owner, module):
            yield Report.at(
                fact,
                message=f"batch norm updates `{name}`, which `outputs=` of mx.compile lacks"[:80],
                help=f"Add `{name}.state` to `outputs=` as well",
                context="compiled",
            )
            return


def _runs(fact: CompileFact, name: str, module: Module) -> bool:
    node = fact.node
    given = node.args[0].value if isinstance(node, cst.Call) and node.args else None
    bodies = (info.node.body for info in traced_by(fact, module))
    return any(name in contents_of(n).names for n in (given, *bodies) if n is not None)


def _has_norm(owner: Source, module: Module) -> bool:
    """Return whether a model certainly holds ``nn.BatchNorm``, itself or in a layer."""
    sources = sources_of(module)
    ends = sources.ends(owner)
    made = [end.node for end in ends if isinstance(end.node, cst.Call)]
    if len(made) != len(ends) or not made:
        return False
    if is_by_mode(sources.value(owner), module, names=(_NORM,)):
        return True
    return all((dotted(call.func) or "").endswith("Sequential") for call in made) and any(
        (dotted(node.func) or "").endswith(f"nn.{_NORM}")
        for call in made
        for node in contents_of(call).calls
    )
