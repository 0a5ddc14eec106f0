"""Results of torch's functions and methods: tensors, with their devices and dtypes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.calls.library import numpy_api
from embercoach.analysis.calls.library.torch_names import (
    CHOSEN,
    COMPILE_SHADER,
    DTYPES,
    FACTORIES,
    KEEPING,
    METHOD_DTYPES,
    NO_DEVICE,
    NOT_DATA,
    OF_DATA,
    OF_MODULE,
    OF_TENSOR,
    OF_TENSORS,
    ON_DEVICE,
    ON_HOST,
    SETTINGS,
    UNCHANGED,
)
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values.joins import any_item, as_number, as_numpy, options, pulls_of
from embercoach.analysis.values.lattice import (
    BOOL,
    INT,
    NO_PULLS,
    SHAPE,
    UNKNOWN,
    BoundMember,
    LibraryObject,
    Number,
    Numpy,
    Sequence,
    Str,
    Symbol,
    Value,
)
from embercoach.analysis.values.torch_values import (
    HOST,
    TORCH,
    ShaderLibrary,
    Torch,
    TorchDevice,
    as_tensor,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from embercoach.analysis.evaluate.frame import Frame
    from embercoach.analysis.facts.facts import Argument


def is_on_accelerator(tensor: Torch) -> bool:
    """Return whether the host has to wait for a tensor's values."""
    return bool(tensor.devices - HOST)


def call(frame: Frame, name: str, arguments: tuple[Argument, ...]) -> Value:
    """The result of calling ``torch.<...>``."""
    owner, _, short = name.rpartition(".")
    if name == "torch.device":
        return TorchDevice(_kinds(frame, arguments[0]) or CHOSEN) if arguments else UNKNOWN
    if name == COMPILE_SHADER:
        source = arguments[0].value if arguments else UNKNOWN
        return ShaderLibrary(source) if isinstance(source, Str) else UNKNOWN
    if short[:1].isupper():
        return _instance(owner, short, arguments)
    if owner not in OF_TENSORS or short in SETTINGS:
        return UNKNOWN
    given = next((a for a in arguments if a.keyword == "device"), None)
    dtype = _dtype_of(next((a.value for a in arguments if a.keyword == "dtype"), UNKNOWN))
    whole = combined(a.value for a in arguments)
    devices = whole.devices
    if given is not None:
        devices = _kinds(frame, given)
    elif owner == "torch" and short in FACTORIES and not _takes_tensor(arguments):
        devices = NO_DEVICE if "set_default" in frame.module.source else HOST
    if dtype is None and short in OF_DATA and arguments:
        dtype = _dtype_of_data(arguments[0].value)
    stays = devices <= HOST and owner in ("torch", "torch.nn.functional") and short not in ON_HOST
    return Torch(devices, dtype, whole.pulls if stays else NO_PULLS, changed=stays)


def _takes_tensor(arguments: tuple[Argument, ...]) -> bool:
    return any(as_tensor(a.value) is not None or a.value is UNKNOWN for a in arguments[:1])


def _instance(owner: str, short: str, arguments: tuple[Argument, ...]) -> Value:
    """An instance of a class of torch: a layer, a parameter, or a tensor."""
    if short.endswith("Tensor"):
        return Torch(HOST if owner == "torch" else NO_DEVICE)
    if short == "Parameter":
        return TORCH
    return LibraryObject(f"{owner}.{short}") if owner == "torch.nn" else UNKNOWN


def combined(values: Iterable[Value]) -> Torch:
    """The tensor that an operation makes of values: operands share one device.

    It depends on copies to the host only where all of them do: else the host has data to add.
    """
    devices, dtypes, pulls = set[frozenset[str]](), set[str | None](), NO_PULLS
    is_copied = True
    for value in _spread(values):
        tensor = as_tensor(value)
        if tensor is not None:
            devices.add(tensor.devices)
            dtypes.add(tensor.dtype)
            is_copied = is_copied and bool(tensor.pulls)
        elif not isinstance(value, Number):
            dtypes.add(None)
        pulls |= pulls_of(value)
    moved = [kinds for kinds in devices if kinds - HOST]
    where = NO_DEVICE.union(*moved)
    if devices == {HOST}:
        where = HOST
    dtype = dtypes.pop() if len(dtypes) == 1 else None
    return Torch(where, dtype, pulls if is_copied else NO_PULLS, changed=is_copied)


def _spread(values: Iterable[Value]) -> Iterator[Value]:
    """The values, and the items of those that are lists or tuples of tensors."""
    for value in values:
        if type(value) is Sequence and value.kind in ("list", "tuple"):
            yield from (any_item(value),) if value.items is None else value.items
        else:
            yield value


def called(arguments: tuple[Argument, ...], *, is_tensor: bool) -> Torch:
    """The result of a layer or a module: on the device of its arguments."""
    result = combined(a.value for a in arguments)
    return Torch(result.devices, is_tensor=is_tensor)


#: Words in names of functions that return data of the host.
_HOST_RESULTS = ("numpy", "cpu", "host", "list", "decode", "text", "str", "print", "len")


def result_of_unknown(node: cst.Call, arguments: tuple[Argument, ...]) -> Value:
    """The result of a function that nothing is known of: of tensors on a GPU, it is there too."""
    for argument in arguments:
        if type(argument.value) is Torch and is_on_accelerator(argument.value):
            name = (dotted(node.func) or "host").rpartition(".")[2].lower()
            is_host = any(word in name for word in _HOST_RESULTS)
            return UNKNOWN if is_host else Torch(CHOSEN, is_tensor=False)
    return UNKNOWN


def member(frame: Frame, owner: Torch, name: str) -> Value:
    """``tensor.name``."""
    if name == "shape":
        return SHAPE
    if name in ("ndim", "itemsize", "nbytes"):
        return INT
    if name in ("T", "mT", "data", "grad", "real", "imag"):
        return owner if name in ("T", "mT", "data") else replace(owner, dtype=None)
    if name == "device" and owner.devices:
        return TorchDevice(owner.devices)
    if name in ("dtype", "device", "requires_grad") or name.startswith("is_"):
        return BoundMember(owner, name) if name.startswith("is_") else UNKNOWN
    if owner.is_tensor or name in OF_TENSOR or name in OF_MODULE:
        return BoundMember(owner, name)
    return UNKNOWN if name in NOT_DATA else owner


def method_of_moved(owner: Torch, name: str, found: Value) -> Value:
    """Return the callee of ``owner.name(...)``, where ``owner`` may be a module or a batch."""
    return found if type(found) is not Torch or name in ON_DEVICE else UNKNOWN


def method(
    frame: Frame, node: cst.Call | None, bound: BoundMember, arguments: tuple[Argument, ...]
) -> Value:
    """The result of a method of a tensor."""
    owner, name = bound.owner, bound.name
    assert isinstance(owner, Torch)
    if name == "numpy":
        return Numpy(pulls=owner.pulls, dtype=owner.dtype if owner.dtype == "float64" else None)
    if name in ("item", "tolist", "data_ptr", "size", "stride", "equal", "allclose", "backward"):
        return UNKNOWN
    if name.startswith("is_"):
        return BOOL
    if name in ("dim", "numel", "element_size", "nelement", "ndimension"):
        return INT
    if name not in OF_TENSOR and name in OF_MODULE:
        return owner
    if name in ("to", "type"):
        return _moved(frame, node, owner, arguments)
    dtype = METHOD_DTYPES.get(name, owner.dtype if name in KEEPING else None)
    if name == "cpu":
        return _on_host(owner, node)
    if name == "cuda":
        return Torch(frozenset(("cuda",)), dtype, NO_PULLS, owner.is_tensor)
    if name in ON_HOST:
        return Torch(owner.devices)
    other = combined((owner, *(a.value for a in arguments)))
    is_tensor = owner.is_tensor or name in OF_TENSOR
    if name in METHOD_DTYPES or name in KEEPING:
        changed = owner.changed if name in UNCHANGED else other.changed
        return Torch(owner.devices or other.devices, dtype, other.pulls, is_tensor, changed)
    return Torch(other.devices, None, other.pulls, is_tensor, other.changed)


def _on_host(owner: Torch, node: cst.Call | None) -> Torch:
    """The copy of a tensor on the host."""
    pulls = owner.pulls
    if node is not None and is_on_accelerator(owner):
        pulls |= {node}
    return replace(owner, devices=HOST, pulls=pulls)


def numpy_result(name: str, arguments: tuple[Argument, ...], result: Value) -> Value:
    """A result of NumPy, with its default dtype, and whether torch computes it on the GPU too."""
    if not isinstance(result, Numpy):
        return result
    if result.dtype is None and numpy_api.is_float64(name, arguments):
        result = replace(result, kind="float", dtype="float64")
    if result.pulls and name.startswith(("numpy.linalg.", "numpy.fft.", "numpy.random.")):
        result = replace(result, pulls=frozenset(p for p in result.pulls if not is_copy(p)))
    return result


def is_copy(pull: object) -> bool:
    """Return whether a pull is one of a torch tensor: ``x.cpu()``, ``x.to("cpu")``."""
    func = pull.func if isinstance(pull, cst.Call) else None
    return isinstance(func, cst.Attribute) and func.attr.value in ("cpu", "to")


def _moved(
    frame: Frame, node: cst.Call | None, owner: Torch, arguments: tuple[Argument, ...]
) -> Torch:
    """``tensor.to(device, dtype)``, ``tensor.to(other)``, ``tensor.type(dtype)``."""
    devices, dtype = owner.devices, owner.dtype
    for argument in arguments:
        if argument.keyword not in (None, "device", "dtype", "other"):
            continue
        other = as_tensor(argument.value)
        if other is not None:
            devices, dtype = other.devices, other.dtype
        elif (named := _dtype_of(argument.value)) is not None:
            dtype = named
        elif type(argument.value) is Symbol:
            dtype = None
        elif argument.keyword != "dtype" and (kinds := _kinds(frame, argument)):
            devices = kinds
        elif argument.keyword == "device" or argument.value is UNKNOWN:
            devices = NO_DEVICE
    if devices == HOST:
        return replace(_on_host(owner, node), dtype=dtype)
    return Torch(devices, dtype, NO_PULLS, owner.is_tensor)


def _dtype_of(value: Value) -> str | None:
    """The dtype that ``torch.float64`` stands for."""
    if isinstance(value, Symbol) and value.name.startswith("torch."):
        return DTYPES.get(value.name[6:])
    return None


def _dtype_of_data(value: Value) -> str | None:
    """The dtype of a tensor that is made of data: Python's floats become float32."""
    numpy, tensor = as_numpy(value), as_tensor(value)
    if numpy is not None:
        return numpy.dtype if numpy.dtype in DTYPES else None
    if tensor is not None:
        return tensor.dtype
    return "float32" if (n := as_number(value)) is not None and n.kind == "float" else None


def _kinds(frame: Frame, argument: Argument) -> frozenset[str]:
    """The kinds of device that an argument names; empty where it may be none."""
    found: set[str] = set()
    for option in options(argument.value):
        if isinstance(option, TorchDevice):
            found |= option.kinds
        elif isinstance(option, Str):
            for text in option.either or (option,):
                if text.text is not None:
                    found.add(text.text.partition(":")[0])
        elif isinstance(option, Number) and option.kind == "int" and argument.keyword is None:
            found.add("cuda")
    if found:
        return frozenset(found)
    path = dotted(argument.node) or ""
    named = "device" in path.rpartition(".")[2].lower()
    return CHOSEN if named and frame.module.uses_accelerator else NO_DEVICE
