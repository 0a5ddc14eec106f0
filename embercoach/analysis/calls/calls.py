"""Calls: what is called, with what, and what comes back."""

from __future__ import annotations

from collections.abc import Callable as Fn
from typing import TYPE_CHECKING, Any

import libcst as cst

from embercoach.analysis import mlx_api
from embercoach.analysis.calls import (
    binding,
    functions,
    kernel_objects,
    library_calls,
    torch_api,
    transforms,
    visits,
    wrapper_calls,
)
from embercoach.analysis.calls.call_results import (
    api_result,
    layer_dtype,
    named_result,
    result_value,
)
from embercoach.analysis.evaluate import classes, evidence, members, missing_members, mutation
from embercoach.analysis.evaluate.dispatch import evaluate, link
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values.facts import (
    Argument,
    CallFact,
    ClassCall,
    LocalCall,
    ProjectCall,
    UncallableFact,
    first_value,
    keyword_value,
    pulls_of_arguments,
)
from embercoach.analysis.values.gradient_marks import after_pull
from embercoach.analysis.values.inheritance import (
    MODULE_CLASS,
    TORCH_MODULE,
    called_method,
    find_method,
    is_torch_module,
    lacks_call,
    library_bases,
)
from embercoach.analysis.values.lattice import (
    NONE,
    TRACED,
    UNKNOWN,
    Array,
    ArrayAt,
    BoundMember,
    BoundTransform,
    Callable,
    Class,
    Dict,
    DType,
    Function,
    Instance,
    Kernel,
    LibraryObject,
    Number,
    Sequence,
    ShaderLibrary,
    Str,
    Symbol,
    Torch,
    Transformed,
    Union,
    Unknown,
    Value,
    Wrapped,
    as_array,
    holds_arrays,
    join_all,
    may_be_traced,
    options,
    pulls_of,
    with_pulls,
)

if TYPE_CHECKING:
    from embercoach.analysis.evaluate.frame import Frame


def builds(callee: Value, result: Value) -> bool:
    """Return whether it is the call of a function of the project that builds kernels."""
    return type(callee) is Function and kernel_objects.holds_kernel(result)


def constructs(frame: Frame, arguments: tuple[Argument, ...]) -> bool:
    """Test for ``norm_layer(dim)``: ``norm_layer: nn.Module`` often means the class itself."""
    if frame.info is not None and frame.info.name == "__init__":
        return True
    values = [o for a in arguments for o in options(a.value)]
    return bool(values) and all(isinstance(v, (Number, Str)) for v in values)


def makes_compiled(callee: Value, result: Value) -> bool:
    """Return whether a function is called that returns what ``mx.compile`` made, by itself or not.

    ``return step`` and ``return step, state``.
    """
    if type(callee) is not Function:
        return False
    items = result.items or () if type(result) is Sequence else (result,)
    return any(type(item) is Transformed and item.transform == "compile" for item in items)


#: Libraries whose calls checks ask for, whatever the arguments are.
_ASKED_FOR = ("mlx.", "mlx_lm.", "torch.")


def matters(callee: Value, arguments: tuple[Argument, ...]) -> bool:
    """Return whether checks may ask for the call."""
    kind = type(callee)
    if kind is Symbol:
        name = callee.name  # type: ignore[attr-defined]
        if name.startswith(_ASKED_FOR) or name in library_calls.HOST_STATE:
            return True
        if name == "functools.partial" and arguments:
            return type(arguments[0].value) is Symbol
    elif kind is BoundMember:
        owner = callee.owner  # type: ignore[attr-defined]
        if as_array(owner) is not None or type(owner) in (Torch, ShaderLibrary, ArrayAt):
            return True
        appends = callee.name == "append" and type(owner) is Sequence  # type: ignore[attr-defined]
        if type(owner) is not Str and type(owner) is not LibraryObject and not appends:
            return False
    elif kind is Kernel or kind is LibraryObject or kind is Transformed:
        return True
    elif kind is Union:
        return any(matters(o, arguments) for o in callee.options)  # type: ignore[attr-defined]
    elif kind is not Unknown:
        return False
    return any(
        holds_arrays(a.value) or pulls_of(a.value) or type(a.value) is Torch for a in arguments
    )


#: Values whose calls run functions of the project.
_CALLABLE = frozenset((Function, Instance, Class, Union))


def record_calls(
    frame: Frame, node: cst.Call, callee: Value, arguments: tuple[Argument, ...]
) -> None:
    """Record a call of functions of the project."""
    if not frame.record or type(callee) not in _CALLABLE:
        return
    is_certain = type(callee) is not Union
    for option in () if UNKNOWN in options(callee) else options(callee):
        info, is_bound = None, True
        if type(option) is Function:
            info, is_bound = option.info, option.bound is not None
        elif type(option) is Instance or type(option) is Class:
            cls, is_object = option.info, type(option) is Instance
            info = called_method(cls) if is_object else find_method(cls, "__init__")
        if info is None:
            if is_certain and type(option) is Class:
                frame.add(ClassCall(node, frame.place(), option.info))
            continue
        if is_certain and type(option) is Instance and lacks_call(option.info):
            frame.add(UncallableFact(node, frame.place(), option.info))
        if is_certain and info.module is frame.module:
            frame.add(LocalCall(node, frame.place(), info, is_bound))
        else:
            place = frame.place()
            frame.add(ProjectCall(node, place, info, is_bound, arguments, is_certain))


def evaluate_call(frame: Frame, node: cst.Call) -> Value:
    """``callee(arguments)``: the result, recorded where arrays take part."""
    func = node.func
    receiver: Value | None = None
    receiver_node: cst.BaseExpression | None = None
    if type(func) is cst.Attribute:
        receiver_node = func.value
        receiver = evaluate(frame, receiver_node)
        callee = _method(frame, node, func, receiver)
    else:
        callee = evaluate(frame, func)
        if type(callee) is Array:
            deny_array(frame, func)
    arguments = tuple(
        [
            Argument(
                evaluate(frame, a.value), a.value, a.keyword.value if a.keyword else None, a.star
            )
            for a in node.args
        ]
    )
    if frame.module.mentions_kernels and any(a.star == "**" for a in arguments):
        arguments = tuple(binding.written_out(arguments))
    if frame.must is not None:
        frame.must.note(node, callee, arguments)
    result = apply(frame, node, callee, arguments, receiver, receiver_node)
    if frame.gradient is not None:
        frame.gradient.note(callee, receiver, arguments, result)
    return result


def _method(frame: Frame, node: cst.Call, func: cst.Attribute, receiver: Value) -> Value:
    """Evaluate the callee of ``receiver.name(...)``."""
    if type(receiver) is Instance:
        return evaluate(frame, func)
    callee = members.member(frame, receiver, func.attr.value)
    if type(receiver) is Torch:
        callee = torch_api.method_of_moved(receiver, func.attr.value, callee)
    if receiver is UNKNOWN and func.attr.value in members.ARRAY_ONLY:
        callee = evidence.array_only_method(frame, func, callee)
    if frame.record:
        missing_members.record_call(frame, node, func, receiver, callee)
    if callee is UNKNOWN and type(receiver) is not Symbol:
        name = func.attr.value
        # ``x.astype`` of something unknown may turn out to be an array's.
        member = BoundMember(receiver, name) if name == "astype" else UNKNOWN
        callee = evidence.learn_compiled(frame, func.value, name) or member
    if type(receiver) is Array and type(callee) is not BoundMember:
        deny_array(frame, func.value)
        if _keeps_array(func.attr.value):
            return BoundMember(receiver, func.attr.value)
    return callee


def deny_array(frame: Frame, node: cst.BaseExpression) -> None:
    """A parameter assumed to be an array is asked for what no array has."""
    if frame.info is not None and not frame.traceless and isinstance(node, cst.Name):
        frame.info.denied_arrays.add(node.value)


@link("call")
def apply(
    frame: Frame,
    node: cst.Call,
    callee: Value,
    arguments: tuple[Argument, ...],
    receiver: Value | None = None,
    receiver_node: cst.BaseExpression | None = None,
) -> Value:
    """Call a value, and record the call if checks may care."""
    handler = _HANDLERS.get(type(callee))
    if frame.module.mentions_kernels and type(callee) not in _HARMLESS:
        mutation.escape(frame, callee, arguments)
    if handler is None:
        result: Value = UNKNOWN
        transforms.submit(frame, node, arguments)
    else:
        record_calls(frame, node, callee, arguments)
        result = handler(frame, node, callee, arguments)
    built = None
    if frame.module.builders:
        built = wrapper_calls.built(frame, node, callee, arguments, result)
    if built is not None:
        result = built.result
        if frame.record:
            kernel = Symbol(kernel_objects.METAL_KERNEL)
            frame.add(CallFact(node, frame.place(), kernel, built.arguments, result))
    elif frame.record and (
        matters(callee, arguments) or builds(callee, result) or makes_compiled(callee, result)
    ):
        fact = CallFact(node, frame.place(), callee, arguments, result, receiver, receiver_node)
        frame.add(fact)
    elif frame.visit is not None and visits.launches(callee):
        place = frame.place()
        frame.seen.append(CallFact(node, place, callee, arguments, result, visit=frame.visit))
    if type(callee) is Symbol and callee.name.startswith("mlx."):
        evidence.learn(frame, callee.name, arguments)
    elif type(callee) is BoundMember and type(receiver) in (Unknown, Union):
        evidence.learn_method(frame, callee, receiver, arguments, receiver_node)
    return result


def _bound(
    frame: Frame, node: cst.Call, callee: BoundMember, arguments: tuple[Argument, ...]
) -> Value:
    owner, name = callee.owner, callee.name
    array = as_array(owner)
    if array is not None:
        return array_method(node, array, name, arguments)
    if type(owner) is Union:
        return join_all(
            _bound(frame, node, BoundMember(o, name), arguments)
            for o in owner.options
            if o is not NONE
        )
    if type(owner) is LibraryObject:
        entry = mlx_api.member(owner.cls, name)
        return UNKNOWN if entry is None else api_result(entry, arguments)
    if isinstance(owner, (Sequence, Dict)):
        mutation.change(frame, node, owner, name, arguments)
    if name == "astype" and arguments and isinstance(arguments[0].value, DType):
        return Array(arguments[0].value.name, traced=True)
    return members.call_bound(frame, callee, arguments)


def array_method(node: cst.Call, array: Array, name: str, arguments: tuple[Argument, ...]) -> Value:
    """Return the result of a method of ``mx.array``."""
    if name in ("item", "tolist"):
        pulls = after_pull(array.pulls, node)
        kind = library_calls.KIND_OF_DTYPE.get(array.dtype or "", "float")
        number = Number(kind, None, None, pulls)
        return number if name == "item" else Sequence("list", number, None, pulls)
    if name == "astype":
        dtype = first_value(arguments)
        known = dtype.name if isinstance(dtype, DType) else None
        return Array(known, array.literal, array.scalar, array.traced, array.pulls)
    entry = mlx_api.array_member(name)
    if entry is not None:
        return api_result(entry, arguments, array)
    if not _keeps_array(name):
        return UNKNOWN
    # API-002 reports it, and what is computed from its result is checked as well.
    result = Array(torch_api.METHOD_DTYPES.get(name, array.dtype), traced=array.traced)
    return Sequence("list", result) if name in ("chunk", "unbind") else result


def _keeps_array(name: str) -> bool:
    """Return whether a method of torch returns a tensor of a dtype that MLX has, or several."""
    return name in torch_api.KEEPING or (name in torch_api.METHOD_DTYPES and name != "double")


def _function(
    frame: Frame, node: cst.Call, callee: Function, arguments: tuple[Argument, ...]
) -> Value:
    if frame.module.mentions_kernels and (frame.record or frame.visit is not None):
        visits.note(frame, node, callee, arguments)
    result = functions.call_function(frame, callee.info, callee.bound, arguments)
    path = dotted(node.func.value) if isinstance(node.func, cst.Attribute) else None
    if path is not None and type(callee.bound) is Instance and frame.names.has_below(path):
        # What the method sets is what its class knows of it, not what was assigned here before.
        names = classes.assigned_by(callee.bound.info, callee.info)
        frame.work.left -= len(names)
        for name in names:
            frame.names.forget_below(f"{path}.{name}")
            frame.names.remove(f"{path}.{name}")
    return result


def _class(frame: Frame, node: cst.Call, callee: Class, arguments: tuple[Argument, ...]) -> Value:
    instance = Instance(callee.info)
    init = find_method(callee.info, "__init__")
    if init is not None:
        functions.call_function(frame, init, instance, arguments)
    elif frame.record:
        classes.note_fields(frame, callee.info, arguments)
    return instance


def _instance(
    frame: Frame, node: cst.Call, callee: Instance, arguments: tuple[Argument, ...]
) -> Value:
    method = called_method(callee.info)
    if method is not None:
        return functions.call_function(frame, method, callee, arguments)
    if is_torch_module(callee.info):
        forward = find_method(callee.info, "forward")
        if forward is not None:
            return functions.call_function(frame, forward, callee, arguments)
    for base in library_bases(callee.info):
        if mlx_api.is_layer(base):
            return _library_object(frame, node, LibraryObject(base), arguments)
    return UNKNOWN


def _library_object(
    frame: Frame, node: cst.Call, callee: LibraryObject, arguments: tuple[Argument, ...]
) -> Value:
    if callee.cls.startswith("torch.nn."):
        return torch_api.called(arguments, is_tensor=callee.cls != TORCH_MODULE)
    pulls = pulls_of_arguments(arguments)
    is_module = callee.cls == MODULE_CLASS
    if frame.gradient is not None and (is_module or mlx_api.is_layer(callee.cls)):
        pulls = pulls | frame.gradient.marks_of_layer(node, frame.info)
    if is_module:
        return UNKNOWN if constructs(frame, arguments) else Array(traced=True, pulls=pulls)
    entry = mlx_api.lookup(callee.cls)
    if entry is None or entry.call_returns is None:
        return UNKNOWN
    value = result_value(entry.call_returns)
    if type(value) is Array:
        traced = any(may_be_traced(a.value) for a in arguments)
        dtype = layer_dtype(frame.module, callee.cls, arguments)
        return Array(dtype, False, False, traced, pulls)
    return with_pulls(value, pulls)


def _callable(
    frame: Frame, node: cst.Call, callee: Callable, arguments: tuple[Argument, ...]
) -> Value:
    if type(callee.result) is Array:
        return Array(callee.result.dtype, traced=any(may_be_traced(a.value) for a in arguments))
    return callee.result


def _kernel(frame: Frame, node: cst.Call, callee: Kernel, arguments: tuple[Argument, ...]) -> Value:
    """Return a launch returns a list with one array an output."""
    dtypes = keyword_value(arguments, "output_dtypes") or UNKNOWN
    if isinstance(dtypes, Sequence) and dtypes.items is not None:
        items = tuple(
            Array(d.name if isinstance(d, DType) else None, traced=True) for d in dtypes.items
        )
        return Sequence("list", None, items)
    return Sequence("list", TRACED)


def _called(frame: Frame, node: cst.Call, callee: Value, arguments: tuple[Argument, ...]) -> Value:
    handler = _HANDLERS.get(type(callee))
    return UNKNOWN if handler is None else handler(frame, node, callee, arguments)


def _union(frame: Frame, node: cst.Call, callee: Union, arguments: tuple[Argument, ...]) -> Value:
    left = [option for option in options(callee) if option is not NONE]
    return join_all([_called(frame, node, option, arguments) for option in left])


_HANDLERS: dict[type, Fn[[Frame, cst.Call, Any, tuple[Argument, ...]], Value]] = {
    Symbol: lambda frame, node, callee, arguments: library_calls.call(
        frame, node, callee.name, arguments
    ),
    BoundMember: _bound,
    Function: _function,
    Class: _class,
    Instance: _instance,
    LibraryObject: _library_object,
    Transformed: transforms.call,
    BoundTransform: transforms.call_partial,
    Callable: _callable,
    Kernel: _kernel,
    Wrapped: lambda frame, node, callee, arguments: _called(frame, node, callee.value, arguments),
    # A module that was moved to a device.
    Torch: lambda _frame, _node, callee, _arguments: Torch(callee.devices, is_tensor=False),
    Union: _union,
}


#: What doesn't add to the lists that it is given, or to those of its closure.
_HARMLESS = (Symbol, BoundMember, Kernel, LibraryObject)


@link("call_value")
def call_value(frame: Frame, callee: Value, values: tuple[Value, ...]) -> Value:
    """Call a value with positional values that have no expressions (``tree_map``, ``map``)."""
    if isinstance(callee, Function):
        return functions.call_with_values(frame, callee.info, callee.bound, values)
    if isinstance(callee, Instance):
        return classes.call_method(frame, callee, "__call__", values)
    if isinstance(callee, Callable):
        return callee.result
    if isinstance(callee, Symbol) and callee.name.startswith("mlx."):
        return named_result(callee.name, binding.without_expressions(values))
    if isinstance(callee, Transformed):
        return call_value(frame, callee.inner, values)
    if isinstance(callee, Wrapped):
        return call_value(frame, callee.value, values)
    return UNKNOWN
