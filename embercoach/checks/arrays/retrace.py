"""COMPILE-003 and COMPILE-004: functions that are compiled or traced again at each call."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from embercoach.analysis.calls.definitions import FunctionInfo, FunctionParameter
from embercoach.analysis.calls.parameters import annotated_value
from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.function_summaries import derived_names
from embercoach.analysis.dataflow.layout import is_older, layout_of
from embercoach.analysis.dataflow.reaching import Binding, last_name
from embercoach.analysis.dataflow.scopes import bindings_at, passed_arguments, scope_of
from embercoach.analysis.dataflow.value_sources import Source, returned_by, sources_of
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import (
    DEFINITIONS,
    SCOPES,
    dotted,
    evaluated,
    target_names,
    targets_of,
)
from embercoach.analysis.values.facts import (
    Argument,
    CallFact,
    CompiledCall,
    CompileFact,
    Fact,
    FactPlace,
    calls_by_function,
)
from embercoach.analysis.values.inheritance import find_method
from embercoach.analysis.values.lattice import (
    UNKNOWN,
    Array,
    Dict,
    Function,
    Number,
    Sequence,
    Str,
    Transformed,
    Value,
    any_item,
    as_array,
    as_number,
    options,
)
from embercoach.analysis.values.memo import kept_for_file
from embercoach.analysis.work import MOST_CALLERS
from embercoach.checks.arrays.compilations import root_of
from embercoach.checks.arrays.stale import member_path
from embercoach.checks.arrays.varying import FEW_VALUED, Varying, grown_lists, walks_few
from embercoach.checks.fallbacks import REFUSED
from embercoach.checks.registry import VALUE, Report, check

#: Functions that run once in a process, or once for each object.
_ONCE = frozenset({"main", "__init__", "setup", "build"})
_CACHES = ("lru_cache", "cache", "cached_property")
#: Nodes whose contents may run several times.
_REPEATING = (cst.For, cst.While, cst.BaseComp, cst.FunctionDef, cst.Lambda)


@check("COMPILE-003", of=(VALUE,), unless=REFUSED)
def discarded_compilation(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``mx.compile(f)(x)`` in a function, or in a loop."""
    function, loop = fact.place.function, fact.place.loop
    if function is None and loop is None:
        return
    if loop is None and function is not None and _runs_once(function, module):
        return
    body = loop if loop is not None else function.node if function is not None else module.tree
    if not _is_discarded(fact, body, module):
        return
    where = "in every iteration" if loop is not None else "at every call"
    yield Report.at(
        fact,
        message=f"mx.compile result is discarded: it traces again {where}",
        help="Compile once, at module level or in `__init__`, and call the result",
    )


@check("COMPILE-003", of=(VALUE,))
def made_per_iteration(call: CallFact, module: Module) -> Iterator[Report]:
    """``make_blend(alpha)(x)`` in a loop, where each call of ``make_blend`` compiles a closure."""
    loop, statement, node = call.place.loop, call.place.statement, call.node
    function = call.place.function
    if type(call.callee) is not Function:
        return
    if loop is None and (function is None or not _is_called_in_loop(function, module)):
        return
    made = _made_by(call.callee.info, call.result)
    if made is None or not _keeps_nothing(call.callee.info):
        return
    is_called = made == WHOLE and any(
        type(other) is CompiledCall and other.node.func is node
        for other in module.facts_of(call.place.function)
    )
    if not is_called:
        name = _assigned_name(statement, node, made)
        if name is None:
            return
        body = function.node if loop is None and function is not None else loop
        is_same = loop is not None and _is_invariant(call, loop, module)
        if body is None or not _is_only_called(name, statement, body, in_loops=is_same):
            return
    yield Report.at(
        call,
        message="a new closure is compiled and traced "
        + ("at every call" if loop is None else "in every iteration"),
        help="Compile one function before the loop, and pass what changes as an array",
    )


def _is_called_in_loop(function: FunctionInfo, module: Module) -> bool:
    if function.name in _ONCE or _is_cached(function):
        return False
    calls = calls_by_function(module).get(function, ())
    return any(call.place.loops and not call.place.periodic for call in calls)


#: The compiled function is the result as a whole, not an item of it.
WHOLE = -1


def _made_by(maker: FunctionInfo, result: Value) -> int | None:
    """The place of a function that the call has compiled among its results, ``WHOLE`` if alone."""
    if _is_made_by(maker, result):
        return WHOLE
    items = result.items or () if isinstance(result, Sequence) else ()
    return next((i for i, item in enumerate(items) if _is_made_by(maker, item)), None)


def _is_made_by(maker: FunctionInfo, value: Value) -> bool:
    if not isinstance(value, Transformed) or value.transform != "compile":
        return False
    root = root_of(value)
    return root is not None and root.outer is maker


@kept_for_file
def _keeps_nothing(maker: FunctionInfo) -> bool:
    """Return whether no call of a function keeps its result for the next one."""
    if _is_cached(maker) or isinstance(maker.node, cst.Lambda):
        return False
    contents = contents_of(maker.node.body, SCOPES)
    keeps = contents.changed or contents.of(cst.Global, cst.Nonlocal, cst.Yield)
    return not keeps and len(contents.of(cst.Return)) == 1


def _assigned_name(statement: cst.CSTNode, node: cst.Call, made: int) -> str | None:
    """``step`` of ``step = make()``, and of ``step, state = make()``."""
    if not isinstance(statement, cst.Assign) or statement.value is not node:
        return None
    target: cst.BaseExpression = statement.targets[0].target
    if made != WHOLE:
        elements = target.elements if isinstance(target, cst.Tuple) else ()
        if len(elements) <= made or any(isinstance(e, cst.StarredElement) for e in elements):
            return None
        target = elements[made].value
    return target.value if isinstance(target, cst.Name) and len(statement.targets) == 1 else None


def _is_invariant(call: CallFact, loop: cst.For | cst.While, module: Module) -> bool:
    """Return whether a call in a loop makes the same in each iteration, and is not under a test.

    Nothing that it gets is bound in the loop, and no attribute of that is set there.
    """
    reaching = scope_of(module, call.place.function).reaching
    layout = layout_of(module, call.place.function)
    level = next(layout.outward(call.place.statement), None)
    if level is None or level.owner is not loop or level.arm != "body":
        return False
    used = contents_of(call.node).names
    return used.isdisjoint(contents_of(loop.body).changed) and not any(
        layout.is_bound_in(binding, loop)
        for name in used
        for binding in reaching.bindings.get(name, ())
    )


def _is_cached(function: FunctionInfo) -> bool:
    return any(name.rpartition(".")[2] in _CACHES for name in function.decorators)


def _runs_once(function: FunctionInfo, module: Module) -> bool:
    if function.name in _ONCE and (function.outer is None or function.name != "main"):
        return True
    if _is_cached(function):
        return True
    calls = calls_by_function(module).get(function, ())
    return bool(calls) and not any(
        call.place.loops or (call.place.function is not None and call.place.function.name != "main")
        for call in calls
    )


def _is_discarded(fact: CompileFact, body: cst.CSTNode, module: Module) -> bool:
    """Return whether what was compiled is called in the body, not in a loop there, and lost."""
    node, statement = fact.node, fact.place.statement
    if fact.decorated is None:
        called = (
            other
            for other in module.facts_of(fact.place.function)
            if type(other) is CompiledCall and other.node.func is node
        )
        if any(True for _ in called):
            return True
        if not isinstance(statement, cst.Assign) or not _is_value(statement.value, node):
            return False
        target = statement.targets[0].target
        if len(statement.targets) != 1 or not isinstance(target, cst.Name):
            return False
        name, own = target.value, target
    else:
        name, own = fact.decorated.name, None
        if fact.decorated.cls is not None:
            return False
    function = fact.place.function
    if function is not None and name in function.global_names:
        return False
    bindings = scope_of(module, function).reaching.bindings.get(name, [])
    if fact.place.loop is None:  # a parameter may be compiled, and bound to its own name
        bindings = [b for b in bindings if b.kind != "parameter"]
    if len(bindings) != 1:
        return False
    return _is_only_called(name, statement if own is not None else None, body)


def _is_value(value: cst.BaseExpression, node: cst.CSTNode) -> bool:
    """``f = mx.compile(g)``, or one alternative of a conditional expression."""
    if isinstance(value, cst.IfExp):
        return value.body is node or value.orelse is node
    return value is node


def _is_only_called(
    name: str, binding: cst.CSTNode | None, body: cst.CSTNode, *, in_loops: bool = False
) -> bool:
    """Return whether a body calls a name, and no more: unless ``in_loops``, not in inner loops."""
    contents = contents_of(body)
    uses = [use for use in contents.uses(name) if contents.statement_of(use) is not binding]
    for use in uses:
        call, *outer = contents.above(use)
        if not isinstance(call, cst.Call) or call.func is not use:
            return False
        if not in_loops and any(isinstance(node, _REPEATING) for node in outer[:-1]):
            return False
    return bool(uses)


def changes_shape(varying: Varying, node: cst.BaseExpression, statement: cst.CSTNode) -> bool:
    """Return whether an array has another shape in each round of the loop."""
    if isinstance(node, cst.Subscript):
        return any(_cut(varying, e.slice, statement) for e in node.slice)
    if isinstance(node, cst.Name):
        return any(_is_extended(varying, b) for b in varying.bindings(node.value, statement))
    if not isinstance(node, cst.Call):
        return False
    fact = varying.calls.get(node)
    if fact is None or fact.symbol is None or not node.args:
        return False
    first = node.args[0].value
    if fact.symbol == "mlx.core.array":
        return isinstance(first, cst.Name) and varying.grows(first.value)
    if fact.symbol in ("mlx.core.zeros", "mlx.core.ones", "mlx.core.arange"):
        sizes = [e.value for e in getattr(first, "elements", ())] or [first]
        return any(varying.number(size, statement) for size in sizes)
    return False


def _cut(varying: Varying, part: cst.BaseSlice, statement: cst.CSTNode) -> bool:
    """``:i`` or ``i:``; ``i : i + 8`` always has 8 elements."""
    if not isinstance(part, cst.Slice) or (part.lower is None) == (part.upper is None):
        return False
    bound = part.lower or part.upper
    return bound is not None and varying.number(bound, statement)


def _is_extended(varying: Varying, binding: Binding) -> bool:
    """``x = mx.concatenate([x, y])`` in the loop."""
    if binding.kind != "assigned" or not varying.is_inside(binding.statement):
        return False
    value = binding.value
    fact = varying.calls.get(value) if value is not None else None
    if not isinstance(fact, CallFact):
        return False
    if fact.symbol != "mlx.core.concatenate":
        return isinstance(value, cst.Call) and changes_shape(varying, value, binding.statement)
    parts = getattr(fact.node.args[0].value, "elements", ()) if fact.node.args else ()
    return len(parts) > 1 and any(
        isinstance(p.value, cst.Name) and p.value.value == binding.name for p in parts
    )


def growing_list(argument: Argument, place: FactPlace, module: Module) -> cst.BaseExpression | None:
    """Return the list of an argument that grows: ``tokens``, or ``tokens[-8:]`` of numbers."""
    node = argument.node
    if isinstance(node, cst.Subscript):
        is_slice = any(isinstance(e.slice, cst.Slice) for e in node.slice)
        if not is_slice or not _holds_numbers(argument.value):
            return None  # a window of arrays has a fixed length
        node = node.value
    path = dotted(node)
    if path is None or not _may_be_list(argument.value):
        return None
    if "." in path:
        return node if _is_attribute_grown(path, place.function) else None
    return node if _is_grown(path, place, module) else None


def _may_be_list(value: Value) -> bool:
    return all(
        o is UNKNOWN or (isinstance(o, Sequence) and o.kind == "list") for o in options(value)
    )


def _holds_numbers(value: Value) -> bool:
    item = any_item(value) if isinstance(value, Sequence) else UNKNOWN
    return not isinstance(item, Array) and as_number(item) is not None


def _is_grown(name: str, place: FactPlace, module: Module) -> bool:
    """Return whether a loop around the call, or one of a function around, adds to a list."""
    owner, layout = place.function, layout_of(module, place.function)
    if owner is None or scope_of(module, owner).binds(name):
        loops = (loop for loop in layout.loops(place.statement) if not walks_few(loop))
        return any(_adds(loop, name) for loop in loops)
    while owner is not None and not scope_of(module, owner).binds(name):
        owner = owner.outer
    if owner is None or isinstance(owner.node, cst.Lambda):
        return False  # a list of the module: who adds to it is not known
    around = contents_of(owner.node.body, DEFINITIONS).of(cst.For, cst.While)
    return any(_adds(loop, name) for loop in around)


def _adds(body: cst.CSTNode, path: str) -> bool:
    """Return whether a loop or a method adds to a list, and does not begin a new one."""
    contents = contents_of(body)
    targets = (target for node in contents.of(cst.Assign) for target in targets_of(node))
    emptied = {f"{path}.{method}" for method in ("pop", "clear", "popleft")}
    return (
        path in grown_lists(body)
        and path not in map(dotted, targets)
        and emptied.isdisjoint(dotted(call.func) or "" for call in contents.calls)
    )


def _is_attribute_grown(path: str, function: FunctionInfo | None) -> bool:
    """Return whether a method passes ``self.tokens``, and adds to it at each call."""
    cls = None if function is None else function.cls
    if function is None or cls is None or isinstance(function.node, cst.Lambda):
        return False
    setters = cls.setters.get(path.rpartition(".")[2], ())
    if any(s.name != "__init__" for s in setters if s is not function):
        return False
    return _adds(function.node.body, path)


#: Longer expressions are not quoted.
LONGEST = 16


@check("COMPILE-004")
def retraced(call: CompiledCall, module: Module) -> Iterator[Report]:
    """``step(x, i)`` in a loop over ``i``; ``step(x, self.offset)``."""
    root = root_of(call.callee)
    varying = Varying(call.place, module)
    for index, argument in enumerate(call.arguments):
        if argument.star:
            return
        if any(_is_changing_number(call, part, varying, module) for part in _parts(argument)):
            if not _must_be_python(root, call, index, argument):
                yield _changing(call, argument.node, module)
        elif _has_changing_shape(call, argument, varying) and _has_fixed_shapes(root, module):
            shown = _shown(argument.node, module)
            yield Report.at(
                call,
                node=argument.node,
                message=f"shape of {shown} changes: each shape traces the function again",
                help="Pad to a fixed length, or compile with `shapeless=True`",
            )
        elif _is_grown_by_method(call, argument, module) and _has_fixed_shapes(root, module):
            shown = _shown(argument.node, module)
            yield Report.at(
                call,
                node=argument.node,
                message=f"shape of {shown} grows with each call: each traces again",
                help="Pass the whole buffer and a mask, or call it uncompiled",
            )
        elif (grown := growing_list(argument, call.place, module)) is not None:
            shown = _shown(grown, module)
            yield Report.at(
                call,
                node=argument.node,
                message=f"list {shown} grows: each length traces the function again",
                help="Pass an array of a fixed length: `mx.array(tokens[-n:])`",
            )
        elif _is_changing_text(root, call, index, argument):
            shown = _shown(argument.node, module)
            yield Report.at(
                call,
                node=argument.node,
                message=f"text {shown} changes: each traces the function again",
                help="Encode it outside, and pass arrays of one shape",
            )
        elif not _must_be_python(root, call, index, argument):
            names = varying.parameters(argument.node, call.place.statement)
            yield from _given_in_loops(names, call.place.function, module)


def _given_in_loops(
    names: frozenset[str] | None, function: FunctionInfo | None, module: Module, steps: int = 3
) -> Iterator[Report]:
    """``model.step(y, i)`` in a loop over ``i``, where the method hands on what it makes of it."""
    if function is None or not names or steps == 0:
        return
    evidence = {p.name: p.evidence for p in function.parameters if p.name in names}
    numbers = {n: None if v is None else as_number(v) for n, v in evidence.items()}
    for local in calls_by_function(module).get(function, ()):
        has_star = any(argument.star for argument in local.node.args)
        handed_over = {} if has_star else passed_arguments(local)
        given = {name: handed_over.get(name) for name in sorted(names)}
        varying = Varying(local.place, module)
        varying.is_float = any(n is not None and n.kind == "float" for n in numbers.values())
        statement = local.place.statement
        if local.place.loop is None:
            for passed in given.values():
                if passed is not None:
                    handed = varying.parameters(passed, statement)
                    yield from _given_in_loops(handed, local.place.function, module, steps - 1)
            continue
        if not all(_is_number(numbers[n], g, varying, statement) for n, g in given.items()):
            continue
        for passed in given.values():
            if passed is not None and varying.number(passed, statement):
                yield _changing(local, passed, module)
                break


def _is_number(
    number: Number | None,
    given: cst.BaseExpression | None,
    varying: Varying,
    statement: cst.CSTNode,
) -> bool:
    """Return whether a Python number is passed for a parameter."""
    if number is not None:
        return number.kind != "bool"
    return given is not None and varying.is_host(given, statement)


def _changing(fact: Fact, node: cst.BaseExpression, module: Module) -> Report:
    shown = _shown(node, module)
    return Report.at(
        fact,
        "COMPILE-004",
        node=node,
        message=f"Python number {shown} changes: each value traces the function again",
        help=f"Pass an array: `mx.array({shown.strip('`') if '`' in shown else 'n'})`",
    )


def _shown(node: cst.BaseExpression, module: Module) -> str:
    text = module.parsed.code(node)
    return f"`{text}`" if len(text) <= LONGEST else "an argument"


def _parts(argument: Argument) -> Iterator[Argument]:
    """Yield an argument, and what a dictionary or a tuple of it holds as written."""
    node, value = argument.node, argument.value
    yield argument
    if isinstance(node, cst.Dict) and type(value) is Dict:
        for element in node.elements:
            literal = element.key if isinstance(element, cst.DictElement) else None
            key = evaluated(literal) if isinstance(literal, cst.SimpleString) else None
            held = value.get(key) if isinstance(key, str) else None
            if held is not None:
                yield argument._replace(node=element.value, value=held)
    elif isinstance(node, (cst.Tuple, cst.List)) and type(value) is Sequence:
        items = value.items or ()
        is_known = len(items) == len(node.elements)
        for part, item in zip(node.elements, items, strict=True) if is_known else ():
            yield argument._replace(node=part.value, value=item)


def _is_changing_number(
    call: CompiledCall, argument: Argument, varying: Varying, module: Module
) -> bool:
    node, statement = argument.node, call.place.statement
    in_loop = call.place.loop is not None
    number = as_number(argument.value)
    if number is None:
        if argument.value is not UNKNOWN or not in_loop or not varying.is_host(node, statement):
            return False
    elif number.kind == "bool":
        return False
    varying.is_float = number is not None and number.kind == "float"
    return _is_counter(node, call.place.function, module) or (
        in_loop and varying.number(node, statement)
    )


def _has_changing_shape(call: CompiledCall, argument: Argument, varying: Varying) -> bool:
    if call.place.loop is None or as_array(argument.value) is None:
        return False
    return changes_shape(varying, argument.node, call.place.statement)


def _is_grown_by_method(call: CompiledCall, argument: Argument, module: Module) -> bool:
    """Test for ``keys = cache.append(k)``, where the method returns ``self.buf[: self.offset]``.

    Or what it adds to by ``self.keys = mx.concatenate([self.keys, k])``. The object is older than
    the loop.
    """
    place, loop, node = call.place, call.place.loop, argument.node
    if loop is None or not isinstance(node, (cst.Name, cst.Call)):
        return False
    made = [node]
    if isinstance(node, cst.Name):
        bound = bindings_at(node.value, place.statement, place.function, module)
        made = [b.value for b in bound.bindings if b.value is not None] if bound else []  # type: ignore[misc]
    owners = {dotted(m.func.value) for m in made if _is_method_call(m)}  # type: ignore[union-attr]
    if len(owners) != 1 or (owner := owners.pop()) is None:
        return False
    sources = sources_of(module)
    ends = sources.ends(sources.at_place(node, place))[:MOST_CALLERS]
    is_grown = any(
        end.function is not None and end.function.is_method and _grows(end) for end in ends
    )
    return is_grown and is_older(owner, loop, place, module)


def _is_method_call(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)


def _grows(end: Source) -> bool:
    """Return whether a method returns a longer array at each call."""
    node = end.node
    if isinstance(node, cst.Subscript):
        parts = (e.slice for e in node.slice)
        bounds = [p.upper for p in parts if isinstance(p, cst.Slice) and p.lower is None]
        return any(
            isinstance(bound, cst.Attribute) and bound.attr.value in _raised(end)
            for bound in bounds
        )
    targets = [dotted(t) for t in targets_of(end.statement)]
    if not isinstance(node, cst.Call) or last_name(node) not in ("concatenate", "append"):
        return False
    added = contents_of(node).of(cst.Attribute)
    return any("." in (t or "") and t in map(dotted, added) for t in targets)


def _raised(end: Source) -> set[str]:
    """Return the attributes that a method increments."""
    if end.function is None:
        return set()
    added = contents_of(end.function.node.body).of(cst.AugAssign)
    return {n.target.attr.value for n in added if isinstance(n.target, cst.Attribute)}


def _is_changing_text(
    root: FunctionInfo | None, call: CompiledCall, index: int, argument: Argument
) -> bool:
    """Return whether a loop binds a string, or a list of strings, that it passes."""
    loop = call.place.loop
    if root is None or not isinstance(loop, cst.For):
        return False
    parameter = _parameter(root, index, argument)
    declared = UNKNOWN if parameter is None else annotated_value(root, parameter)
    if not (_is_text(argument.value) or _is_text(declared)):
        return False
    if isinstance(loop.iter, (cst.List, cst.Tuple)):
        return False  # few
    bound = derived_names(loop.body, set(target_names(loop.target)))
    return not bound.isdisjoint(contents_of(argument.node).names)


def _parameter(root: FunctionInfo, index: int, argument: Argument) -> FunctionParameter | None:
    """Return the parameter of a compiled function that takes an argument."""
    places = [p for p in root.parameters if not p.star][root.is_method :]
    if argument.keyword is not None:
        return next((p for p in places if p.name == argument.keyword), None)
    return places[index] if index < len(places) else None


def _is_text(value: Value) -> bool:
    if isinstance(value, Sequence):
        return isinstance(any_item(value), Str)
    return isinstance(value, Str)


def _is_counter(node: cst.BaseExpression, function: FunctionInfo | None, module: Module) -> bool:
    """``self.offset``, where the file has ``self.offset += 1``, or a property of such a counter."""
    name = member_path(node)[0]
    if not name:
        return False
    counters = _counters(module)
    if name in counters:
        return True
    if not isinstance(node, cst.Attribute):
        return False
    cls = None if function is None else function.cls
    method = None if cls is None else find_method(cls, node.attr.value)
    if method is None or not method.is_property:
        return False
    return any(
        isinstance(side, cst.Attribute) and side.attr.value in counters
        for value, _ in returned_by(method)
        for operation in contents_of(value).of(cst.BinaryOperation)
        if not isinstance(operation.operator, FEW_VALUED)
        for side in (operation.left, operation.right)
    )


@kept_for_file
def _counters(module: Module) -> frozenset[str]:
    """Return the attributes that a file updates: ``self.t += 1``, ``self.t = f(self.t)``."""
    contents = contents_of(module.tree)
    found = {member_path(node.target)[0] for node in contents.of(cst.AugAssign)}
    for node in contents.of(cst.Assign):
        target = node.targets[0].target
        path = dotted(target) if isinstance(target, cst.Attribute) else None
        if path and path in map(dotted, contents_of(node.value).of(cst.Attribute)):
            found.add(path.rpartition(".")[2])
    return frozenset(found - {""})


def _must_be_python(
    root: FunctionInfo | None, call: CompiledCall, index: int, argument: Argument
) -> bool:
    """Return whether the function needs a Python number there: for a shape, or to branch."""
    if root is None:
        return False
    parameter = _parameter(root, index, argument)
    return parameter is not None and parameter.name in _needed(root)


@kept_for_file
def _needed(root: FunctionInfo) -> frozenset[str]:
    """Return the names of a function where an array would not do."""
    body = root.node.body
    results = set(_displays(body)) if isinstance(root.node, cst.Lambda) else set[cst.CSTNode]()
    needed: set[str] = set()
    for node in contents_of(body):  # a statement comes before its parts
        if type(node) is cst.Return and node.value is not None:
            results.update(_displays(node.value))
        elif node not in results:
            needed.update(n for part in _needing_numbers(node) for n in contents_of(part).names)
    return frozenset(needed)


def _displays(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield a tuple that a function returns, and those in it: results, not shapes."""
    if isinstance(node, cst.Tuple):
        yield node
        for element in node.elements:
            yield from _displays(element.value)


def _needing_numbers(node: cst.CSTNode) -> list[cst.CSTNode]:
    """Return the parts of a node where an array would not do."""
    kind = type(node)  # ``isinstance`` is slow, and this is asked of all nodes of functions
    if kind is cst.Slice or kind is cst.Tuple:
        return [node]
    if kind is cst.If or kind is cst.IfExp or kind is cst.While:
        return [node.test]  # type: ignore[attr-defined]
    if type(node) is not cst.Call:
        return []
    name = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
    if isinstance(name, cst.Name) and name.value in _SIZED:
        return [argument for argument in node.args if argument.keyword is None]
    return [a for a in node.args if a.keyword is not None and a.keyword.value in _SIZES]


_SIZED = frozenset({"range", "reshape", "zeros", "ones", "arange", "repeat", "split", "topk"})
_SIZES = frozenset({"axis", "shape", "k", "offset", "num_samples"})


def _has_fixed_shapes(root: FunctionInfo | None, module: Module) -> bool:
    """Return whether the function is known to be compiled without ``shapeless=True``."""
    sites = _sites(module).get(root, ()) if root is not None else ()
    return bool(sites) and not any(f.has_star or f.option(3, "shapeless") for f in sites)


@kept_for_file
def _sites(module: Module) -> dict[FunctionInfo | None, list[CompileFact]]:
    """Return where a file compiles each of its functions."""
    found: dict[FunctionInfo | None, list[CompileFact]] = {}
    for fact in module.facts():
        if type(fact) is CompileFact:
            found.setdefault(root_of(fact.function), []).append(fact)
    return found
