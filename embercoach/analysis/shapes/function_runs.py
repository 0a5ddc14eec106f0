"""Calls of functions, classes and objects of the program, and of values of libraries."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from typing import Any

from embercoach.analysis.shapes import library_functions
from embercoach.analysis.shapes.annotated_shapes import apply_annotations, compare_returned
from embercoach.analysis.shapes.arrays import UNKNOWN, ArrayShape, ShapedArray
from embercoach.analysis.shapes.assigned_targets import with_symbols
from embercoach.analysis.shapes.attributes import (
    class_member,
    classes_of,
    has_unknown_base,
    library_base,
)
from embercoach.analysis.shapes.call_memo import is_relevant, remembered
from embercoach.analysis.shapes.interpreter import (
    DEEPEST,
    LINKS,
    Machine,
    ShapeCall,
    ShapeSite,
    link,
)
from embercoach.analysis.shapes.library_functions import call_layer, escape, set_layer
from embercoach.analysis.shapes.path_states import Frame, Heap, Snapshot
from embercoach.analysis.shapes.python_values import (
    ArgumentScope,
    Attributes,
    BoundFunction,
    ClassValue,
    Entries,
    FunctionValue,
    Items,
    Iterator,
    LibraryMethod,
    LibraryName,
    ListReference,
    ObjectReference,
    Options,
    PartialCall,
    Place,
    TransformedFunction,
    bounded,
    new_number,
)
from embercoach.analysis.shapes.recorded_values import is_special
from embercoach.analysis.shapes.requirements import Condition
from embercoach.analysis.shapes.size_integers import ANY_INT, Comparison, SizeExpr, compare
from embercoach.analysis.shapes.table import LAYERS
from embercoach.analysis.shapes.table.mlx_lm import attention_result
from embercoach.analysis.shapes.table_calls import new_dict, new_list
from embercoach.analysis.shapes.value_joins import Joiner, joined_values


def builtin(name: str) -> Any:
    """Return the value of a name that the program does not bind."""
    if name == "__name__":
        return UNKNOWN
    return LibraryName(f"builtins.{name}") if hasattr(builtins, name) else UNKNOWN


def function_of(
    machine: Machine, frame: Frame, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
) -> FunctionValue:
    """Return the value of a definition; its defaults are evaluated here."""
    arguments = node.args
    defaults = tuple(machine.evaluate(frame, one) for one in arguments.defaults)
    keyword_defaults = tuple(
        UNKNOWN if one is None else machine.evaluate(frame, one) for one in arguments.kw_defaults
    )
    decorators = []
    for one in getattr(node, "decorator_list", ()):
        name = decorator_name(machine, frame, one)
        if name == "functools.partial" and isinstance(one, ast.Call) and one.args:
            name = _name_of(machine.evaluate(frame, one.args[0]))
        decorators.append(name)
    # Names in a class's body are not seen from its methods.
    outer = frame
    while outer.cls is not None and outer.outer is not None:
        outer = outer.outer
    return FunctionValue(node, outer, frame.cls, defaults, keyword_defaults, tuple(decorators))


def decorator_name(machine: Machine, frame: Frame, node: ast.expr) -> str:
    """Return the library's name of a decorator, or of what makes it; empty for another one."""
    return _name_of(machine.evaluate(frame, node.func if isinstance(node, ast.Call) else node))


def _name_of(value: Any) -> str:
    return value.name if type(value) is LibraryName else ""


def decorated(machine: Machine, frame: Frame, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Any:
    """Return the value that a definition binds its name to."""
    function = function_of(machine, frame, node)
    value: Any = function
    for name, one in zip(reversed(function.decorators), reversed(node.decorator_list), strict=True):
        if name == "" and isinstance(one, ast.Attribute) and one.attr in ("vjp", "jvp", "vmap"):
            owner = machine.evaluate(frame, one.value)  # ``@f.vjp``
            if type(owner) is FunctionValue and one.attr == "vjp":
                machine.backward[owner.node] = function
            continue
        if name in library_functions.TRANSPARENT or name.startswith("pytest.mark."):
            continue
        if name in library_functions.TRANSFORMS and not isinstance(one, ast.Call):
            value = bounded(TransformedFunction(name, value))
        else:
            return UNKNOWN if frame.cls is None else None
    return value


def method_of_unknown(owner: Any, func: ast.Attribute, known: Any) -> Any:
    """Get a method of something unknown, where names say enough; else what is known of it."""
    name = func.attr
    is_meant = name != "update" or "cache" in ast.unparse(func.value).rpartition(".")[2].lower()
    is_meant = is_meant and name in library_functions.PROTOCOLS
    return LibraryMethod(owner, name) if is_meant else known


@link("call")
def call_any(call: ShapeCall, callee: Any) -> Any:
    """Call a value."""
    if type(callee) is Place:
        callee = call.heap.value(callee)
    handler: Callable[..., Any] = _HANDLERS.get(type(callee), _call_unknown)
    return handler(call, callee)


def _call_unknown(call: ShapeCall, callee: Any) -> Any:
    escape(call.machine, (*call.arguments, *call.keywords.values()))
    call.machine.note_patch(call.arguments)
    return UNKNOWN


def _call_name(call: ShapeCall, callee: LibraryName) -> Any:
    if not call.is_complete:
        return library_functions.any_result(callee.name)
    return library_functions.call_name(call, callee.name)


def _call_method(call: ShapeCall, callee: LibraryMethod) -> Any:
    if not call.is_complete:
        return UNKNOWN
    return library_functions.call_method(call, callee)


def _call_partial(call: ShapeCall, callee: PartialCall) -> Any:
    positional = (*callee.arguments, *call.arguments)
    named = {**dict(callee.keywords), **call.keywords}
    return call_any(
        ShapeCall(call.machine, call.frame, call.node, positional, named, call.is_complete),
        callee.function,
    )


#: Of so many layers that a configuration chooses from, the first ones stand for all.
MANY_ALTERNATIVES = 5


def _call_options(call: ShapeCall, callee: Options) -> Any:
    heap = call.heap
    results: list[Any] = []
    state = None
    start = heap.snapshot(call.frame)
    failed = []
    tried = [option for option in callee.values if option is not None]
    with call.machine.trying():
        for option in tried if len(tried) < MANY_ALTERNATIVES else tried[:3]:
            heap.restore(call.frame, start.copy())
            value = call_any(call, option)
            ended = heap.snapshot(call.frame)
            if ended.facts.failed and not start.facts.failed:
                failed.append(ended)
                continue
            results.append(value)
            state = ended if state is None else heap.join(state, ended)
    if state is None:
        heap.restore(call.frame, failed[0] if failed else start)
        return UNKNOWN
    heap.restore(call.frame, state)
    return joined_values(results)


# -- objects ---------------------------------------------------------------------------------


def _call_object(call: ShapeCall, callee: ObjectReference) -> Any:
    """``layer(x)``."""
    cls, is_module = callee.cls, callee.library == "mlx.nn.Module"
    method = None if cls is None else class_member(cls, "__call__")
    if method is None and cls is not None and is_module:
        method = class_member(cls, "forward")  # a call raises, and NN-017 says so
    if type(method) is FunctionValue:
        return call_function(call.with_first(callee), method)
    if not callee.library or not call.is_complete:
        return UNKNOWN
    return call_layer(call, callee)


def _instantiate(call: ShapeCall, cls: ClassValue) -> Any:
    """``Class(arguments)``."""
    library = library_base(cls)
    if library == "enum.Enum":
        return UNKNOWN
    call.machine.note_patch(call.arguments)
    made = ObjectReference(new_number(), cls, library if library.startswith("mlx.") else "")
    call.heap.objects[made.number] = Attributes({})
    init = class_member(cls, "__init__")
    if type(init) is FunctionValue:
        call_function(call.with_first(made), init)
    elif library == "typing.NamedTuple" or any(one.is_dataclass for one in classes_of(cls)):
        _fill_fields(call, made)
    elif made.library in LAYERS:
        set_layer(call, made)
    elif has_unknown_base(cls):
        return UNKNOWN
    return made


def fields_of(cls: ClassValue) -> list[tuple[str, ast.AnnAssign, ClassValue]]:
    """Return the fields of a dataclass, those of its bases first."""
    found: dict[str, tuple[str, ast.AnnAssign, ClassValue]] = {}
    for one in reversed(classes_of(cls)):
        for statement in one.node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                name = statement.target.id
                found[name] = (name, statement, one)
    return list(found.values())


def default_of(machine: Machine, cls: ClassValue, statement: ast.AnnAssign) -> Any:
    """Return the default of a field; ``UNKNOWN`` without one."""
    value = statement.value
    if value is None:
        return UNKNOWN
    if isinstance(value, ast.Call):
        named = {keyword.arg: keyword.value for keyword in value.keywords}
        if "default" in named:
            return machine.evaluate(cls.frame, named["default"])
        if "default_factory" in named:
            factory = machine.evaluate(cls.frame, named["default_factory"])
            return ShapeSite(machine, cls.frame, value).call(factory)
    return machine.evaluate(cls.frame, value)


def _fill_fields(call: ShapeCall, made: ObjectReference) -> None:
    """Set the fields of a dataclass, and run ``__post_init__``."""
    assert made.cls is not None
    values: dict[str, Any] = {}
    for at, (name, statement, cls) in enumerate(fields_of(made.cls)):
        if at < len(call.arguments):
            values[name] = call.arguments[at]
        elif name in call.keywords:
            values[name] = call.keywords[name]
        elif call.is_complete:
            values[name] = default_of(call.machine, cls, statement)
        else:
            values[name] = LINKS["general_field"](call.machine, made, statement, cls)
    call.heap.write(made.number, Attributes(values))
    after = class_member(made.cls, "__post_init__")
    if type(after) is FunctionValue:
        call.call(after, (made,))


# -- functions -------------------------------------------------------------------------------


def call_function(call: ShapeCall, function: FunctionValue) -> Any:
    """Run a function of the program with these arguments."""
    call.machine.note_patch(call.arguments)
    names = None
    is_running = any(one.node is function.node for one in call.machine.active)
    if is_relevant(function) and call.frame.depth < DEEPEST and not is_running:
        names = bound_names(call, function)
    if names is None:
        escape(call.machine, (*call.arguments, *call.keywords.values(), *_captured(function)))
        return UNKNOWN

    def run() -> Any:
        _fill_unknown(call.machine, function, names)
        return _run_call(call, function, names)

    return remembered(call.machine, function, names, run)


def _captured(function: FunctionValue) -> list[Any]:
    """Return the values that an inner function takes from the functions around it."""
    outer = function.frame
    if outer.function is None:
        return []
    words = {node.id for node in ast.walk(function.node) if isinstance(node, ast.Name)}
    found = [(outer.find(word), word) for word in words]
    return [at.names[word] for at, word in found if at is not None and at.function is not None]


def _fill_unknown(machine: Machine, function: FunctionValue, names: dict[str, Any]) -> None:
    """Give unknown arguments the values of their annotations, or places."""
    given = function.node.args
    scope = ArgumentScope(function.node)  # other calls pass other sizes
    for parameter in (*function.positional, *given.kwonlyargs):
        if parameter.annotation is not None and names[parameter.arg] is UNKNOWN:
            made = LINKS["annotated"](
                machine, function.frame, parameter.annotation, parameter.arg, scope
            )
            names[parameter.arg] = made
            if machine.rounds and type(made) is SizeExpr:
                for one in made.symbols:
                    one.is_joined = True  # each round may pass another one
    for name, value in names.items():
        if value is UNKNOWN:
            names[name] = Place(name)


def _run_call(call: ShapeCall, function: FunctionValue, names: dict[str, Any]) -> Any:
    """Run a function for these values of its parameters, and its ``vjp``."""
    shared = _of_any_caller(call, function, names)
    if shared is None:
        return _run_forward(call, function, names)
    # What is shown of it holds for callers in other files, too.
    start = call.heap.snapshot(call.frame)
    run_function(call, function, shared)
    call.heap.restore(call.frame, start)
    call.machine.silent = True
    try:
        return _run_forward(call, function, names)
    finally:
        call.machine.silent = False


def _run_forward(site: ShapeSite, function: FunctionValue, names: dict[str, Any]) -> Any:
    inputs = tuple(names.values())
    result = run_function(site, function, names)
    if function.name == "scaled_dot_product_attention":
        result = attention_result(tuple(map(site.heap.value, inputs)), result)
    backward = site.machine.backward.get(function.node)
    if backward is not None:
        _run_backward(site, backward, inputs, result)
    return result


def _run_backward(
    site: ShapeSite, backward: FunctionValue, inputs: tuple[Any, ...], result: Any
) -> None:
    """Run the ``vjp`` of a custom function with what its call takes and gives."""
    primals = inputs if len(inputs) != 1 else inputs[0]
    given = ShapeCall(site.machine, site.frame, site.node, (primals, result, result))
    bound = bound_names(given, backward)
    if bound is None or result is UNKNOWN or backward in site.machine.active:
        return
    found = site.heap.value(run_function(site, backward, bound))
    gradients = found if type(found) is tuple else (found,)
    for primal, gradient in zip(inputs, gradients, strict=False):
        argument = site.heap.value(primal)
        if type(argument) is ShapedArray and type(gradient) is ShapedArray:
            at = ShapeSite(site.machine, site.frame, _last_return(backward))
            _compare_gradient(at, backward.name, argument.shape, gradient.shape)


def _last_return(function: FunctionValue) -> ast.AST:
    """Return the value that a function returns last, or its definition."""
    returned = [
        node.value
        for node in ast.walk(function.node)
        if isinstance(node, ast.Return) and node.value is not None
    ]
    return returned[-1] if returned else function.node


def _compare_gradient(site: ShapeSite, name: str, primal: ArrayShape, gradient: ArrayShape) -> None:
    """Note a gradient of another shape than its argument's, which MLX does not check."""
    expected, found = site.heap.shape(primal), site.heap.shape(gradient)
    if expected.rank is None or (found.rank is None and not site.machine.assumes):
        return
    reason = f"the gradient of shape {found} is for an argument of shape {expected}"
    if found.rank is None:
        # Inputs of layers have axes ahead of those of parameters.
        if expected.rank and found.tail == expected.head and not found.head:
            site.add_event(reason, None, name, "SHAPE-003")
        return
    if expected.rank != found.rank or any(
        compare(m, n) is Comparison.DIFFERENT
        for m, n in zip(expected.head, found.head, strict=True)
    ):
        site.add_event(reason, None, name, "SHAPE-003")
        return
    for m, n in zip(expected.head, found.head, strict=True):
        if compare(m, n) is Comparison.POSSIBLE and m is not ANY_INT and n is not ANY_INT:
            condition = Condition(m, n, Comparison.POSSIBLE, reason, allows_one=True)
            site.add_event(reason, condition, name)


def _of_any_caller(
    call: ShapeCall, function: FunctionValue, names: dict[str, Any]
) -> dict[str, Any] | None:
    """Return the parameters where other callers pass what this one leaves to defaults.

    None where nothing is recorded, or nothing is left out, or all callers are in the file.
    """
    machine = call.machine
    if not machine.keeps_records or machine.silent or function.cls is not None:
        return None
    if function.frame.function is not None or function.name.startswith(("_", "lambda")):
        return None
    defaults = function.defaults_by_name
    others = dict(names)
    for parameter in function.positional[len(call.arguments) :]:
        if parameter.arg in defaults and parameter.arg not in call.keywords:
            others[parameter.arg] = LINKS["general_value"](
                machine, function.frame, parameter, defaults[parameter.arg], function
            )
    return others if others != names else None


def bound_names(call: ShapeCall, function: FunctionValue) -> dict[str, Any] | None:
    """Return the parameters' values, None if the arguments don't fit."""
    given, positional = function.node.args, function.positional
    names = {
        parameter.arg: value for parameter, value in zip(positional, call.arguments, strict=False)
    }
    extra = call.arguments[len(positional) :]
    if given.vararg is not None:
        names[given.vararg.arg] = extra if call.is_complete else UNKNOWN
    elif extra:
        return None
    known = {p.arg for p in (*given.args, *given.kwonlyargs)}
    others = {name: value for name, value in call.keywords.items() if name not in known}
    names.update((name, value) for name, value in call.keywords.items() if name in known)
    if given.kwarg is not None:
        entries = Entries(others, is_open=not call.is_complete)
        names[given.kwarg.arg] = new_dict(call.machine, entries)
    elif others:
        return None
    return names if _fill_defaults(function, names, is_complete=call.is_complete) else None


def _fill_defaults(function: FunctionValue, names: dict[str, Any], *, is_complete: bool) -> bool:
    """Give the other parameters their defaults; return whether these have some."""
    defaults = function.defaults_by_name
    for parameter in (*function.positional, *function.node.args.kwonlyargs):
        name = parameter.arg
        if name not in names:
            if is_complete and name not in defaults:
                return False
            names[name] = defaults[name] if is_complete else UNKNOWN
    return True


def _says_something(machine: Machine, function: FunctionValue, names: dict[str, Any]) -> bool:
    """Return whether the first argument of a call, after ``self``, is known in part."""
    values = list(names.values())[function.cls is not None :]
    if not values:
        return True
    first = machine.heap.value(values[0])
    return first is not UNKNOWN and not (type(first) is Place and not first.is_setting)


def _note_special_case(machine: Machine, function: FunctionValue, names: dict[str, Any]) -> None:
    """Note a call that is for numbers, or for any of several objects: others have other sizes."""
    # An array of which all sizes are numbers above 1.
    shapes = [machine.heap.value(v).shape for v in names.values() if type(v) is ShapedArray]
    if any(
        shape.rank and shape.rank > 1 and all(type(n) is int for n in shape.head)
        for shape in shapes
    ):
        machine.partly[function.node] = True
    elif _is_of_unlike_objects(machine, function, names):
        machine.partly.setdefault(function.node, False)


def _is_of_unlike_objects(machine: Machine, function: FunctionValue, names: dict[str, Any]) -> bool:
    """Return whether a method's object is any of several, of which each has other sizes."""
    if function.cls is None or not names:
        return False
    owner = next(iter(names.values()))
    held = machine.heap.objects.get(owner.number) if type(owner) is ObjectReference else None
    return type(held) is Attributes and held.is_summary and ANY_INT in held.values.values()


def run_function(
    site: ShapeSite, function: FunctionValue, names: dict[str, Any], *, is_root: bool = False
) -> Any:
    """Run a function's body, and return the value that it returns.

    ``is_root``: nothing calls it: what one of its branches does counts.
    """
    machine, caller, heap = site.machine, site.frame, site.heap
    if machine.keeps_records:
        names.update((name, with_symbols(caller, value)) for name, value in names.items())
    frame = Frame(
        names,
        function.frame,
        function.frame.module,
        function,
        caller,
        getattr(site.node, "lineno", 0),
        caller.depth + 1,
        returns=[],
        is_root=is_root,
    )
    if machine.keeps_records and not is_root and is_special(machine, function, names):
        machine.special.add(function.node)
    elif not machine.trials and (is_root or _says_something(machine, function, names)):
        machine.reached.add(function.node)
        if not is_root:
            _note_special_case(machine, function, names)
    machine.active.append(function)
    outer, heap.is_root, heap.has_dropped = (heap.is_root, heap.has_dropped), is_root, False
    apply_annotations(machine, frame, function)
    try:
        if isinstance(function.node, ast.Lambda):
            value = heap.value(machine.evaluate(frame, function.node.body))
            return machine.note_result(function, value)
        if machine.keeps_records:
            frame.logged = []
        goes_on = machine.execute(frame, function.node.body)
        results = list(frame.returns or ())
        if goes_on:
            results.append((None, heap.snapshot(frame)))
        if not results:
            return UNKNOWN
        value = _joined_results(heap, frame, results)
    finally:
        machine.active.pop()
        if heap.has_dropped:
            machine.reached.discard(function.node)  # look whether it does for any caller
        heap.is_root, heap.has_dropped = outer
    machine.note_records(frame)
    if frame.yielded:
        return Iterator(None, _joined_batches(machine, frame.yielded))
    value = compare_returned(machine, frame, function, heap.value(value))
    return machine.note_result(function, value)


def _joined_batches(machine: Machine, values: list[Any]) -> Any:
    """Return the join of what a generator yields; of lists of one length, item by item."""
    held = [machine.heap.read(value.number) for value in values if type(value) is ListReference]
    rows = [one.items for one in held if type(one) is Items and one.items]
    if len(rows) < len(values) or len({len(row) for row in rows}) > 1:
        return joined_values(values)
    columns = zip(*rows, strict=True)
    return new_list(machine, Items(tuple(joined_values(list(column)) for column in columns)))


def _joined_results(heap: Heap, frame: Frame, results: list[tuple[Any, Snapshot]]) -> Any:
    """Go on after any ``return`` of a function, with what they have in common."""
    value, state = results[0]
    for other, ended in results[1:]:
        if state.facts.failed is ended.facts.failed:
            value = Joiner(state.facts, ended.facts).value(value, other, "")
        elif state.facts.failed:
            value = other
        state = heap.join(state, ended)
    heap.restore(frame, state)
    return value


#: By the type of what is called.
_HANDLERS: dict[type, Callable[..., Any]] = {
    LibraryName: _call_name,
    LibraryMethod: _call_method,
    BoundFunction: lambda call, callee: call_function(
        call.with_first(callee.owner), callee.function
    ),
    FunctionValue: call_function,
    ObjectReference: _call_object,
    ClassValue: _instantiate,
    PartialCall: _call_partial,
    TransformedFunction: library_functions.call_transformed,
    Options: _call_options,
}
