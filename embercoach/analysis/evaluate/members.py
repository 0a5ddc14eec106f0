"""Attributes and methods of values."""

from __future__ import annotations

from collections.abc import Callable as Fn
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from embercoach.analysis import mlx_api
from embercoach.analysis.calls import numpy_api, sibling_files, string_methods, torch_api
from embercoach.analysis.calls.call_results import result_value, weight_dtype
from embercoach.analysis.calls.parameters import SETTING_NAMES
from embercoach.analysis.calls.torch_api import OF_MODULE
from embercoach.analysis.evaluate import classes, evidence
from embercoach.analysis.evaluate.dispatch import link
from embercoach.analysis.values import promotion
from embercoach.analysis.values.facts import Argument, first_value
from embercoach.analysis.values.lattice import (
    FLOAT,
    INT,
    NONE,
    SETTING,
    SHAPE,
    STR,
    TRACED,
    UNKNOWN,
    Array,
    ArrayAt,
    BoundMember,
    Bytes,
    Callable,
    Class,
    Dict,
    DType,
    FilePath,
    Instance,
    LibraryObject,
    ModuleRef,
    NoneValue,
    Number,
    Numpy,
    Piece,
    Sequence,
    Setting,
    ShaderLibrary,
    Str,
    Super,
    Symbol,
    Template,
    Torch,
    TorchDevice,
    Tree,
    Union,
    Unknown,
    Value,
    Wrapped,
    any_item,
    as_array,
    join_all,
    parts_of,
)

if TYPE_CHECKING:
    from embercoach.analysis.evaluate.frame import Frame

#: Attributes that layers of mlx.nn hold their arrays under.
LAYER_ARRAYS = frozenset({"weight", "bias", "scales", "biases", "running_mean", "running_var"})
_DTYPE_ALIASES = {"bool_": "bool"}
_LIBRARIES = ("mlx.core", "numpy", "math")
_CONSTANTS: dict[str, Value] = {
    **{f"{library}.{n}": FLOAT for library in _LIBRARIES for n in ("pi", "e", "inf", "nan")},
    **dict.fromkeys(("mlx.core.euler_gamma", "math.tau"), FLOAT),
    **dict.fromkeys(("mlx.core.newaxis", "numpy.newaxis"), NONE),
}


@link("member")
def member(frame: Frame, owner: Value, name: str) -> Value:
    """``owner.name``."""
    handler = _MEMBERS.get(type(owner))
    return UNKNOWN if handler is None else handler(frame, owner, name)


def _symbol(frame: Frame, owner: Symbol, name: str) -> Value:
    return library_member(owner.name, name)


@lru_cache(maxsize=4096)
def library_member(owner: str, name: str) -> Value:
    """``mlx.<...>.<name>``: a dtype, a constant, or a function or class by its name."""
    if owner == "mlx.core":
        short = _DTYPE_ALIASES.get(name, name)
        if short in promotion.DTYPES and name != "bool":
            return DType(short)
        if name == "nn":
            return UNKNOWN
    full = f"{owner}.{name}"
    return _CONSTANTS.get(full) or Symbol(full)


def _array(frame: Frame, owner: Array, name: str) -> Value:
    if name == "shape":
        return SHAPE
    if name == "dtype":
        return DType(owner.dtype)
    if name in ("size", "ndim", "itemsize", "nbytes"):
        return INT
    if name == "T":
        return owner
    if name in ("real", "imag"):
        dtype = "float32" if owner.dtype == "complex64" else owner.dtype
        return Array(dtype, owner.literal, False, owner.traced, owner.pulls)
    if name == "at":
        return ArrayAt(owner)
    if mlx_api.array_member(name) is None:
        return UNKNOWN
    return BoundMember(owner, name)


def _bound(frame: Frame, owner: Value, name: str) -> Value:
    return BoundMember(owner, name)


def _library_object(frame: Frame, owner: LibraryObject, name: str) -> Value:
    if owner.cls == "logging.Logger":
        return BoundMember(owner, name)
    if owner.cls.startswith("torch.nn."):
        return Callable(owner) if name in OF_MODULE else UNKNOWN
    entry = mlx_api.member(owner.cls, name)
    if entry is None:
        if name in LAYER_ARRAYS and mlx_api.is_layer(owner.cls):
            return Array(weight_dtype(frame.module, owner.cls))
        return UNKNOWN
    if entry.kind == "property":
        value = result_value(entry.returns)
        is_weight = type(value) is Array and name in LAYER_ARRAYS
        return Array(weight_dtype(frame.module, owner.cls)) if is_weight else value
    return BoundMember(owner, name)


def _module(frame: Frame, owner: ModuleRef, name: str) -> Value:
    result: Value = owner.module.member(name)
    if result is not UNKNOWN or owner.module.path.name != "__init__.py":
        return result
    submodule = owner.module.import_module(name, 1)  # ``import package.name`` makes it a member
    return UNKNOWN if submodule is None else ModuleRef(submodule)


def _union(frame: Frame, owner: Union, name: str) -> Value:
    array = as_array(owner) or _only_array_has(owner, name)
    if array is not None:
        return _array(frame, array, name)
    results = [(o, member(frame, o, name)) for o in owner.options if o is not NONE]
    # Where one alternative has the attribute, it is none of those that can't have it.
    known = [v for o, v in results if v is not UNKNOWN or type(o) not in _CLOSED]
    return join_all(known or [v for _, v in results])


_CLOSED = (Array, Number, Str, Bytes, NoneValue)
#: Host values of known attributes, by an example.
_HOSTS: dict[object, object] = {
    Number: 0.0,
    Str: "",
    Dict: {},
    NoneValue: None,
    Bytes: b"",
    "list": [],
    "tuple": (),
    "shape": (),
    "set": set(),
    "iterator": iter(()),
}


def host_has(value: Value, name: str) -> bool | None:
    """Return whether a value of the host has an attribute, None if that is not known."""
    kind = value.kind if type(value) is Sequence else type(value)
    return hasattr(_HOSTS[kind], name) if kind in _HOSTS else None


def _only_array_has(owner: Union, name: str) -> Array | None:
    """Return the array among alternatives of which no other has such an attribute.

    ``mask.tolist()`` of a mask that is an array, a string or None can only be the array's.
    """
    array: Array | None = None
    for option in owner.options:
        if type(option) is Array:
            array = option
        elif type(option) is not Unknown and host_has(option, name) is not False:
            return None
    return array if mlx_api.array_member(name) is not None else None


def _unknown(frame: Frame, owner: Unknown, name: str) -> Value:
    """Return an attribute of an unknown value: arrays of every library have a shape of ints."""
    if name in SETTING_NAMES:
        return SETTING
    if name == "shape":
        return SHAPE
    if name == "ndim":
        return INT
    if name in ("item", "tolist") and frame.module.is_test and "torch" not in frame.module.source:
        return BoundMember(TRACED, name)
    if name in ARRAY_ONLY and evidence.arrays_are_mlx(frame.module):
        return BoundMember(TRACED, name)
    if name in ("to", "cuda") and torch_api.uses_accelerator(frame.module):
        return BoundMember(Torch(is_tensor=False), name)  # a tensor, a module or a batch
    return UNKNOWN


#: Methods that nothing but an array has, in a file where MLX is the only array library.
ARRAY_ONLY = frozenset(
    ["item", "tolist", "reshape", "astype", "squeeze", "swapaxes", "argmax", "argmin"]
)


def _instance(frame: Frame, owner: Instance, name: str) -> Value:
    return classes.instance_member(frame, owner, name)


def _class(frame: Frame, owner: Class, name: str) -> Value:
    return classes.class_member(frame, owner, name)


def _super(frame: Frame, owner: Super, name: str) -> Value:
    return classes.super_member(frame, owner, name)


_MEMBERS: dict[type, Fn[[Frame, Any, str], Value]] = {
    Unknown: _unknown,
    Setting: lambda frame, owner, name: SETTING,
    Symbol: _symbol,
    Array: _array,
    Union: _union,
    Instance: _instance,
    Class: _class,
    Super: _super,
    ModuleRef: _module,
    LibraryObject: _library_object,
    Numpy: lambda frame, owner, name: numpy_api.member(owner, name),
    Torch: torch_api.member,
    TorchDevice: lambda frame, owner, name: UNKNOWN,
    ShaderLibrary: _bound,
    Sequence: _bound,
    Dict: _bound,
    Str: _bound,
    Tree: _bound,
    ArrayAt: _bound,
    Bytes: _bound,
    Template: _bound,
    FilePath: sibling_files.member,
    Wrapped: lambda frame, owner, name: member(frame, owner.value, name),
}


def call_bound(frame: Frame, bound: BoundMember, arguments: tuple[Argument, ...]) -> Value:
    """Return the result of a method of a host value: lists, dicts, strings, NumPy, torch."""
    owner, name = bound.owner, bound.name
    if isinstance(owner, Numpy):
        return numpy_api.method(owner, name, arguments)
    if isinstance(owner, Torch):
        return torch_api.method(bound, arguments)
    if isinstance(owner, ArrayAt):
        return owner.array if name != "at" else owner
    if isinstance(owner, Str):
        return _string_method(owner, name, arguments)
    if isinstance(owner, Sequence):
        return _sequence_method(owner, name)
    if isinstance(owner, FilePath):
        return sibling_files.method(frame, owner, name, arguments)
    if isinstance(owner, Template):
        return string_methods.template_member(owner, name, arguments)
    if isinstance(owner, Dict):
        return _dict_method(owner, name, arguments)
    if isinstance(owner, Tree):
        return _tree_method(owner, name)
    return UNKNOWN


def _string_method(owner: Str, name: str, arguments: tuple[Argument, ...]) -> Value:
    if name in ("split", "rsplit", "splitlines"):
        return Sequence("list", STR)
    if name in ("find", "rfind", "index", "rindex", "count"):
        return INT
    if name.startswith(("is", "starts", "ends")):
        return Number("bool")
    if name == "encode":
        return Bytes()
    made = string_methods.method(owner, name, arguments)
    return STR if made is None else made


def _sequence_method(owner: Sequence, name: str) -> Value:
    item = any_item(owner)
    made = {"pop": item, "popleft": item, "index": INT, "count": INT, "copy": owner}
    return made.get(name, NONE)


def _dict_method(owner: Dict, name: str, arguments: tuple[Argument, ...]) -> Value:
    everything = join_all(parts_of(owner))
    if name in ("items", "values", "keys"):
        return _dict_view(owner, name, everything)
    if name in ("get", "pop", "setdefault"):
        key = first_value(arguments)
        text = key.text if isinstance(key, Str) else None
        found = owner.get(text) if text is not None else None
        if owner.exact and text is not None and name == "get":
            absent = arguments[1].value if len(arguments) > 1 else NONE
            return absent if found is None else found
        if type(found) is Str and found.text is not None and name != "setdefault":
            return found
        value = found if found is not None else owner.item
        if len(arguments) > 1:
            return join_all((value, arguments[1].value))
        return join_all((value, NONE)) if name == "get" else value
    if name == "copy":
        return owner
    return NONE if name in ("update", "clear") else UNKNOWN


def _dict_view(owner: Dict, name: str, everything: Value) -> Sequence:
    """Return the items of a dictionary's view, one by one if all are known."""
    entries = owner.known if owner.exact else None
    if name == "values":
        items = None if entries is None else tuple(value for _, value in entries)
        return Sequence("iterator", everything if items is None else None, items)
    if entries is None:
        item: Value = STR if name == "keys" else Sequence("tuple", everything, (STR, everything))
        return Sequence("iterator", item)
    keys = [Str((Piece(key),)) for key, _ in entries]
    if name == "keys":
        return Sequence("iterator", None, tuple(keys))
    pairs = zip(keys, entries, strict=True)
    rows = (Sequence("tuple", None, (key, value)) for key, (_, value) in pairs)
    return Sequence("iterator", None, tuple(rows))


def _tree_method(owner: Tree, name: str) -> Value:
    leaf = owner.held
    views = {"items": Sequence("tuple", leaf, (STR, leaf)), "values": leaf, "keys": STR}
    if name in views:
        return Sequence("iterator", views[name])
    return leaf if name in ("get", "pop") else UNKNOWN
