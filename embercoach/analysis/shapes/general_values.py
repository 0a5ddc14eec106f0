"""The most general values: of parameters, by annotation, default and calls, and of instances."""

from __future__ import annotations

import ast
from contextlib import nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from embercoach.analysis.shapes.annotated_shapes import expression_of, typed_dtype
from embercoach.analysis.shapes.arrays import (
    ANY_FLOAT,
    UNKNOWN,
    ShapedArray,
)
from embercoach.analysis.shapes.attributes import (
    ARRAY_MEMBERS,
    class_member,
    classes_of,
    library_base,
)
from embercoach.analysis.shapes.function_runs import (
    default_of,
    fields_of,
    run_function,
)
from embercoach.analysis.shapes.interpreter import Machine, ShapeSite, link
from embercoach.analysis.shapes.python_values import (
    ArgumentScope,
    Attributes,
    ClassValue,
    Entries,
    FunctionValue,
    LibraryName,
    ObjectReference,
    Options,
    Place,
    new_number,
)
from embercoach.analysis.shapes.size_integers import SizeExpr, symbol
from embercoach.analysis.shapes.table_calls import array_of_place, new_dict

if TYPE_CHECKING:
    from embercoach.analysis.shapes.path_states import Frame

#: Names of parameters that say no more than that they are models.
_MODELS = frozenset(("model", "net", "network"))


def called_model(function: FunctionValue, name: str) -> ClassValue | None:
    """The class of the file that a parameter's value is an instance of, None if that is unknown."""
    number = _calls(function.node).get(name)
    if number is None:
        return _with_attributes(function, name)
    found = [cls for cls in _models(function.frame) if _takes(cls, number)]
    plain = name.replace("_", "").lower()
    named = [cls for cls in found if plain == cls.name.replace("_", "").lower()]
    if not named and name in _MODELS:
        named = found
    return named[0] if len(named) == 1 else None


def _with_attributes(function: FunctionValue, name: str) -> ClassValue | None:
    """Get the only class of a file that has all attributes that a function reads of a parameter."""
    used = _read_attributes(function.node).get(name, frozenset()) - _OF_ALL_MODULES
    if not used or not used.isdisjoint(ARRAY_MEMBERS):
        return None
    frame = function.frame
    while frame.outer is not None:
        frame = frame.outer
    by_name = _classes_by_attribute(frame, len(frame.names))
    found = frozenset.intersection(*(by_name.get(one, frozenset()) for one in used))
    cls = next(iter(found)) if len(found) == 1 else None
    # Of what is not a module, one attribute says little.
    is_module = cls is not None and library_base(cls) == "mlx.nn.Module"
    return cls if is_module or len(used) > 1 else None


@lru_cache(maxsize=32)
def _classes_by_attribute(frame: Frame, names: int) -> dict[str, frozenset[ClassValue]]:
    """Return the classes of a file by their methods, and by the attributes that these set.

    ``names``: how many the file has bound so far.
    """
    found: dict[str, set[ClassValue]] = {}
    for cls in _classes(frame):
        for name in _defined_attributes(cls.node):
            found.setdefault(name, set()).add(cls)
    return {name: frozenset(classes) for name, classes in found.items()}


@lru_cache(maxsize=1024)
def _defined_attributes(cls: ast.ClassDef) -> frozenset[str]:
    """Return the methods of a class, and the attributes that these set."""
    found: set[str] = set()
    for node in ast.walk(cls):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
    return frozenset(found)


#: Attributes that say nothing of a class.
_OF_ALL_MODULES = frozenset(
    (
        *("parameters", "trainable_parameters", "train", "eval", "training", "state", "update"),
        *("freeze", "unfreeze", "load_weights", "save_weights", "apply", "modules", "config"),
    )
)


@lru_cache(maxsize=512)
def _read_attributes(function: ast.AST) -> dict[str, frozenset[str]]:
    """Return the attributes that a function reads of each name."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.setdefault(node.value.id, set()).add(node.attr)
    return {name: frozenset(names) for name, names in found.items()}


@lru_cache(maxsize=512)
def _calls(function: ast.AST) -> dict[str, int]:
    """Return the names that a function calls, with the least number of positional arguments."""
    found: dict[str, int] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
            name, number = node.func.id, len(node.args)
            found[name] = min(number, found.get(name, number))
    return found


def _classes(frame: Frame) -> list[ClassValue]:
    """Return the classes of a file."""
    while frame.outer is not None:
        frame = frame.outer
    values = frame.names.values()
    return [one for one in values if type(one) is ClassValue and one.frame is frame]


def _models(frame: Frame) -> list[ClassValue]:
    """Return the models of a file, without those that are parts of others."""
    classes = [
        cls
        for cls in _classes(frame)
        if library_base(cls) == "mlx.nn.Module"
        and type(class_member(cls, "__call__")) is FunctionValue
    ]
    parts = {name for cls in classes for name in _names(cls.node) if name != cls.name}
    return [cls for cls in classes if cls.name not in parts]


@lru_cache(maxsize=512)
def _names(cls: ast.ClassDef) -> frozenset[str]:
    return frozenset(node.id for node in ast.walk(cls) if isinstance(node, ast.Name))


def _takes(cls: ClassValue, number: int) -> bool:
    """Return whether a model can be called with so many arguments by position."""
    method = class_member(cls, "__call__")
    assert type(method) is FunctionValue
    given = method.node.args
    most = len(given.posonlyargs) + len(given.args) - 1
    return most - len(method.defaults) <= number <= most


def general_arguments(
    machine: Machine, function: FunctionValue, parameters: list[ast.arg]
) -> dict[str, Any]:
    """Return the most general values of a function's parameters."""
    arguments, defaults = function.node.args, function.defaults_by_name
    names: dict[str, Any] = {}
    scope = ArgumentScope(function.node)
    is_setting = function.name == "__init__"
    for parameter in (*parameters, *arguments.kwonlyargs):
        name, default = parameter.arg, defaults.get(parameter.arg, UNKNOWN)
        names[name] = general_value(
            machine, function.frame, parameter, default, scope, is_setting=is_setting
        )
        if type(names[name]) is Place and parameter not in arguments.kwonlyargs:
            model = called_model(function, name)
            if model is not None:
                names[name] = general_instance(machine, model)
    if arguments.vararg is not None:
        names[arguments.vararg.arg] = UNKNOWN
    if arguments.kwarg is not None:
        names[arguments.kwarg.arg] = new_dict(machine, Entries({}, is_open=True))
    return names


@link("general_value")
def general_value(
    machine: Machine,
    frame: Frame,
    declared: ast.arg | ast.AnnAssign,
    default: Any,
    scope: object,
    *,
    is_setting: bool = False,
) -> Any:
    """Any value of a parameter or a field."""
    name = declared.arg if isinstance(declared, ast.arg) else getattr(declared.target, "id", "")
    if declared.annotation is not None:
        value = annotated(machine, frame, declared.annotation, name, scope)
        if type(default) is float and type(value) is SizeExpr:
            return ANY_FLOAT  # ``scale: int = 0.5``
        if value is not UNKNOWN:
            if type(value) is SizeExpr and type(default) is int:
                (found,) = value.symbols
                machine.defaults[found] = default
            if default is None and not (type(value) is Options and None in value.values):
                return Options((None, value)) if type(value) is not Options else value
            return value
    if default is None:
        return Options((None, Place(name, is_setting=is_setting, scope=scope)))
    if type(default) in (bool, str):
        return Place(name, is_setting=True, scope=scope)
    if type(default) is int:
        size = symbol(name, place=scope, is_local=False)
        machine.defaults[next(iter(size.symbols))] = default
        return size
    if type(default) is float:
        return ANY_FLOAT
    if default is not UNKNOWN and type(default) is not ShapedArray and type(default) is not Place:
        return default if isinstance(default, (LibraryName, FunctionValue)) else UNKNOWN
    return Place(name, is_setting=is_setting or is_size_name(name), scope=scope)


def is_size_name(name: str) -> bool:
    """Return whether a parameter is called as numbers of things are: ``dim``, ``num_heads``."""
    return (
        name in _SIZE_NAMES
        or name.startswith(("num_", "n_"))
        or name.endswith(("_dim", "_dims", "_size", "_len", "_length", "_channels", "_heads"))
    )


_SIZE_NAMES = frozenset(
    [
        *("dim", "dims", "heads", "channels", "width", "height", "size", "in_features"),
        *("out_features", "vocab", "stride", "config", "args", "cfg"),
    ]
)


@link("annotated")
def annotated(
    machine: Machine, frame: Frame, node: ast.expr, name: str, scope: object, depth: int = 0
) -> Any:
    """Any value of a type; ``UNKNOWN`` for one that says nothing."""
    if depth > 4:
        return UNKNOWN
    if isinstance(node, ast.Constant):
        if node.value is None:
            return None
        inner = expression_of(node.value) if isinstance(node.value, str) else None
        if inner is None:
            return UNKNOWN
        return annotated(machine, frame, inner, name, scope, depth + 1)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        parts = [
            annotated(machine, frame, part, name, scope, depth + 1)
            for part in (node.left, node.right)
        ]
        return _union(parts)
    if isinstance(node, ast.Subscript):
        return _subscripted(machine, frame, node, name, scope, depth)
    return of_type(machine, machine.peek(frame, node), name, scope)


def _union(parts: list[Any]) -> Any:
    found: list[Any] = []
    objects = [part for part in parts if type(part) is ObjectReference]
    if len(objects) == 1 and all(
        part is UNKNOWN or type(part) is Place for part in parts if part is not objects[0]
    ):
        return objects[0]  # ``Config | dict``: what it is made of
    for part in parts:
        if part is UNKNOWN:
            return UNKNOWN
        found += part.values if type(part) is Options else (part,)
    return Options(tuple(found)) if 1 < len(found) <= 4 else UNKNOWN


def _subscripted(
    machine: Machine, frame: Frame, node: ast.Subscript, name: str, scope: object, depth: int
) -> Any:
    value = machine.peek(frame, node.value)
    last = value.name.rpartition(".")[2] if type(value) is LibraryName else ""
    items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if last == "Optional":
        return _union([annotated(machine, frame, items[0], name, scope, depth + 1), None])
    if last == "Union":
        return _union([annotated(machine, frame, item, name, scope, depth + 1) for item in items])
    if last in ("tuple", "Tuple") and not any(
        isinstance(item, ast.Constant) and item.value is ... for item in items
    ):
        return tuple(
            annotated(machine, frame, item, f"{name}[{at}]", scope, depth + 1)
            for at, item in enumerate(items)
        )
    if type(value) is LibraryName and value.name.startswith("jaxtyping."):
        array = annotated(machine, frame, items[0], name, scope, depth + 1)
        return (
            replace(array, dtype=typed_dtype(last, name)) if type(array) is ShapedArray else UNKNOWN
        )
    if last in ("Annotated", "Final", "ClassVar"):
        return annotated(machine, frame, items[0], name, scope, depth + 1)
    if last.lower() in ("list", "dict", "tuple", "sequence", "literal"):
        return Place(name, is_setting=True, scope=scope)
    return UNKNOWN


def of_type(machine: Machine, value: Any, name: str, scope: object) -> Any:
    """Any value of a class."""
    if type(value) is ClassValue:
        return general_instance(machine, value)
    if type(value) is not LibraryName:
        return UNKNOWN
    if value.name == "mlx.core.array":
        return array_of_place(Place(name, scope=scope))
    if value.name == "builtins.int":
        return symbol(name, place=scope, is_local=False)
    if value.name == "builtins.float":
        return ANY_FLOAT
    if value.name in ("builtins.bool", "builtins.str", "builtins.dict", "builtins.list"):
        return Place(name, is_setting=True, scope=scope)
    return UNKNOWN


def general_instance(machine: Machine, cls: ClassValue) -> Any:
    """Return an instance of a class, made with the most general arguments."""
    found = machine.instances.get(cls)
    if found is not None:
        return found
    library = library_base(cls)
    made = ObjectReference(
        new_number(), cls, library if library.startswith("mlx.") else "", is_open=True
    )
    machine.instances[cls] = made
    machine.heap.objects[made.number] = Attributes({})
    init = class_member(cls, "__init__")
    with nullcontext() if type(init) is FunctionValue else machine.trying():
        if type(init) is FunctionValue and not isinstance(init.node, ast.Lambda):
            parameters = init.positional
            names = {parameters[0].arg: made} if parameters else {}
            names.update(general_arguments(machine, init, parameters[1:]))
            if not any(one.node is init.node for one in machine.active):
                run_function(ShapeSite(machine, cls.frame, init.node), init, names)
        elif any(one.is_dataclass for one in classes_of(cls)) or not library:
            _general_fields(machine, made, cls)
    _forget_state(machine, made, cls)
    return made


def _forget_state(machine: Machine, made: ObjectReference, cls: ClassValue) -> None:
    """Forget attributes that methods change: an instance may have been used before."""
    held = machine.heap.read(made.number)
    if type(held) is not Attributes:
        return
    changed = {name for one in classes_of(cls) for name in _changed_attributes(one.node)}
    values = {name: UNKNOWN if name in changed else value for name, value in held.values.items()}
    init = class_member(cls, "__init__")
    if machine.keeps_records and type(init) is FunctionValue:
        for name in _free_numbers(init.node) & values.keys():
            values[name] = Place(name, is_setting=True, scope=made)
    machine.heap.write(made.number, Attributes(values, held.is_summary, held.doubtful))


@lru_cache(maxsize=512)
def _free_numbers(constructor: ast.AST) -> frozenset[str]:
    """Attributes that a constructor sets to a number and does not read: others may set them."""
    numbers: set[str] = set()
    read: set[str] = set()
    for node in ast.walk(constructor):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            if type(node.value.value) is int:
                numbers |= {one.attr for one in node.targets if isinstance(one, ast.Attribute)}
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            read.add(node.attr)
    return frozenset(numbers - read)


@lru_cache(maxsize=512)
def _changed_attributes(node: ast.ClassDef) -> frozenset[str]:
    """Attributes of ``self`` that methods other than the constructor assign."""
    found: set[str] = set()
    for method in node.body:
        if not isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if method.name in ("__init__", "__post_init__") or not method.args.args:
            continue
        own = method.args.args[0].arg
        for one in ast.walk(method):
            targets: list[ast.expr] = []
            if isinstance(one, ast.Assign):
                targets = list(one.targets)
            elif isinstance(one, (ast.AugAssign, ast.AnnAssign)):
                targets = [one.target]
            while targets:
                target = targets.pop()
                if isinstance(target, (ast.Tuple, ast.List)):
                    targets += target.elts
                elif isinstance(target, ast.Subscript):
                    targets.append(target.value)
                elif (
                    isinstance(target, ast.Attribute)
                    and isinstance(target.value, ast.Name)
                    and target.value.id == own
                ):
                    found.add(target.attr)
    return frozenset(found)


@link("general_field")
def general_field(
    machine: Machine, made: ObjectReference, statement: ast.AnnAssign, cls: ClassValue
) -> Any:
    """Any value of a field of an object."""
    default = default_of(machine, cls, statement)
    return general_value(machine, cls.frame, statement, default, made, is_setting=True)


def _general_fields(machine: Machine, made: ObjectReference, cls: ClassValue) -> None:
    values: dict[str, Any] = {}
    for name, statement, owner in fields_of(cls):
        values[name] = general_field(machine, made, statement, owner)
    machine.heap.write(made.number, Attributes(values))
    after = class_member(cls, "__post_init__")
    if type(after) is FunctionValue:
        ShapeSite(machine, cls.frame, after.node).call(after, (made,))
