"""PyTorch's functions, methods, dtypes and devices, and the results of calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from embercoach.analysis.calls import numpy_api
from embercoach.analysis.values.facts import Argument, first_value, keyword_value
from embercoach.analysis.values.lattice import (
    BOOL,
    HOST,
    INT,
    SHAPE,
    TORCH,
    UNKNOWN,
    BoundMember,
    LibraryObject,
    Number,
    Numpy,
    Sequence,
    ShaderLibrary,
    Str,
    Symbol,
    Torch,
    TorchDevice,
    Value,
    as_number,
    as_numpy,
    as_tensor,
    options,
    parts_of,
)
from embercoach.analysis.values.memo import kept_for_file

if TYPE_CHECKING:
    from embercoach.analysis.evaluate.frame import Frame
    from embercoach.analysis.project.module import Module

#: What a program contains that names a GPU. Not "mps" itself: ``json.dumps``.
ACCELERATORS = ('"mps', "'mps", ".mps", "_mps", '"cuda', "'cuda", ".cuda")
COMPILE_SHADER = "torch.mps.compile_shader"
NO_DEVICE: frozenset[str] = frozenset()
#: Functions that make a tensor on the host unless ``device=`` says otherwise.
FACTORIES = frozenset(
    (
        *("arange", "as_tensor", "asarray", "empty", "eye", "from_numpy", "full", "linspace"),
        *("logspace", "normal", "ones", "rand", "randint", "randn", "randperm", "tensor"),
        *("tril_indices", "zeros"),
    )
)
#: Those that keep the dtype of data.
OF_DATA = frozenset({"as_tensor", "asarray", "from_numpy", "tensor"})
#: Functions that return host values or settings.
SETTINGS = frozenset(
    (
        *("allclose", "autocast", "broadcast_shapes", "can_cast", "compile", "enable_grad"),
        *("equal", "finfo", "get_default_dtype", "get_num_threads", "iinfo", "inference_mode"),
        *("initial_seed", "is_autocast_enabled", "is_complex", "is_floating_point"),
        *("is_grad_enabled", "is_inference", "is_tensor", "load", "manual_seed", "no_grad"),
        *("numel", "promote_types", "result_type", "save", "seed", "set_default_device"),
        *("set_default_dtype", "set_grad_enabled", "set_num_threads", "vmap"),
    )
)
#: Modules of torch whose functions take and return tensors.
OF_TENSORS = frozenset(
    {"torch", "torch.fft", "torch.linalg", "torch.nn.functional", "torch.special"}
)
#: Methods that convert to a dtype.
METHOD_DTYPES = {
    "double": "float64",
    "float": "float32",
    "half": "float16",
    "bfloat16": "bfloat16",
    "long": "int64",
    "int": "int32",
    "bool": "bool",
}
#: Names of dtypes in ``torch``, the aliases among them.
DTYPES = {
    **METHOD_DTYPES,
    **{name: name for name in METHOD_DTYPES.values()},
    "cdouble": "complex128",
}
#: Methods of tensors that keep the dtype.
KEEPING = frozenset(
    (
        *("abs", "add", "chunk", "clamp", "clone", "contiguous", "cpu", "cuda", "detach"),
        *("detach_", "div", "exp", "expand", "flatten", "flip", "gather", "index_select", "log"),
        *("masked_fill", "matmul", "mean", "mul", "narrow", "permute", "pin_memory", "repeat"),
        *("requires_grad_", "reshape", "roll", "split", "sqrt", "squeeze", "sub", "sum", "t", "to"),
        *("transpose", "unbind", "unsqueeze", "view"),
    )
)
#: Methods that only a tensor has, of what may be a tensor.
OF_TENSOR = (
    KEEPING
    | frozenset(METHOD_DTYPES)
    | {
        *("argmax", "argmin", "backward", "dim", "item", "max", "min", "numel", "numpy", "size"),
        *("softmax", "tolist", "topk", "type", "type_as"),
    }
)
#: Attributes of modules and batches that hold host data.
NOT_DATA = frozenset(
    (
        *("args", "cfg", "classes", "config", "device", "dtype", "generation_config", "hparams"),
        *("name", "names", "preprocess", "processor", "tokenizer", "training", "transform"),
        "vocab",
    )
)
#: Methods of modules and batches whose results are on their device.
ON_DEVICE = frozenset({"buffers", "forward", "generate", "parameters", "values"})
#: Methods of modules that return the module.
OF_MODULE = frozenset(
    (
        *("apply", "bfloat16", "cpu", "cuda", "double", "eval", "float", "half", "requires_grad_"),
        *("share_memory", "to", "to_empty", "train", "type"),
    )
)


@kept_for_file
def uses_accelerator(module: Module) -> bool:
    """Return whether a file computes with torch and names a GPU."""
    return "torch" in module.source and any(name in module.source for name in ACCELERATORS)


def call(frame: Frame, name: str, arguments: tuple[Argument, ...]) -> Value:
    """Return the result of calling ``torch.<...>``."""
    owner, _, short = name.rpartition(".")
    if name == "torch.device":
        return TorchDevice(_kinds(arguments[0])) if arguments else UNKNOWN
    if name == COMPILE_SHADER:
        source = first_value(arguments)
        return ShaderLibrary(source) if isinstance(source, Str) else UNKNOWN
    if short[:1].isupper():
        return _instance(owner, short, arguments)
    if owner not in OF_TENSORS or short in SETTINGS:
        return UNKNOWN
    given = next((a for a in arguments if a.keyword == "device"), None)
    dtype = _dtype_of(keyword_value(arguments, "dtype") or UNKNOWN)
    whole = combined(a.value for a in arguments)
    devices = whole.devices
    if given is not None:
        devices = _kinds(given)
    elif owner == "torch" and short in FACTORIES and not _takes_tensor(arguments):
        devices = NO_DEVICE if "set_default" in frame.module.source else HOST
    if dtype is None and short in OF_DATA and arguments:
        dtype = _dtype_of_data(arguments[0].value)
    return Torch(devices, dtype)


def _takes_tensor(arguments: tuple[Argument, ...]) -> bool:
    return any(as_tensor(a.value) is not None or a.value is UNKNOWN for a in arguments[:1])


def _instance(owner: str, short: str, arguments: tuple[Argument, ...]) -> Value:
    """Return an instance of a class of torch: a layer, a parameter, or a tensor."""
    if short.endswith("Tensor"):
        return Torch(HOST if owner == "torch" else NO_DEVICE)
    if short == "Parameter":
        return TORCH
    return LibraryObject(f"{owner}.{short}") if owner == "torch.nn" else UNKNOWN


def combined(values: Iterable[Value]) -> Torch:
    """Return the tensor that an operation makes of values: operands share one device."""
    devices, dtypes = set[frozenset[str]](), set[str | None]()
    for value in _spread(values):
        tensor = as_tensor(value)
        if tensor is not None:
            devices.add(tensor.devices)
            dtypes.add(tensor.dtype)
        elif not isinstance(value, Number):
            dtypes.add(None)
    moved = [kinds for kinds in devices if kinds - HOST]
    where = NO_DEVICE.union(*moved)
    if devices == {HOST}:
        where = HOST
    dtype = dtypes.pop() if len(dtypes) == 1 else None
    return Torch(where, dtype)


def _spread(values: Iterable[Value]) -> Iterator[Value]:
    """Yield the values, and the items of those that are lists or tuples of tensors."""
    for value in values:
        if type(value) is Sequence and value.kind in ("list", "tuple"):
            yield from parts_of(value)
        else:
            yield value


def called(arguments: tuple[Argument, ...], *, is_tensor: bool) -> Torch:
    """Return the result of a layer or a module: on the device of its arguments."""
    result = combined(a.value for a in arguments)
    return Torch(result.devices, is_tensor=is_tensor)


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


def method(bound: BoundMember, arguments: tuple[Argument, ...]) -> Value:
    """Return the result of a method of a tensor."""
    owner, name = bound.owner, bound.name
    assert isinstance(owner, Torch)
    if name == "numpy":
        return Numpy(dtype=owner.dtype if owner.dtype == "float64" else None)
    if name in ("item", "tolist", "data_ptr", "size", "stride", "equal", "allclose", "backward"):
        return UNKNOWN
    if name.startswith("is_"):
        return BOOL
    if name in ("dim", "numel", "element_size", "nelement", "ndimension"):
        return INT
    if name not in OF_TENSOR and name in OF_MODULE:
        return owner
    if name in ("to", "type"):
        return _moved(owner, arguments)
    dtype = METHOD_DTYPES.get(name, owner.dtype if name in KEEPING else None)
    if name == "cpu":
        return replace(owner, devices=HOST)
    if name == "cuda":
        return Torch(frozenset(("cuda",)), dtype, owner.is_tensor)
    other = combined((owner, *(a.value for a in arguments)))
    is_tensor = owner.is_tensor or name in OF_TENSOR
    if name in METHOD_DTYPES or name in KEEPING:
        return Torch(owner.devices or other.devices, dtype, is_tensor)
    return Torch(other.devices, None, is_tensor)


def numpy_result(name: str, arguments: tuple[Argument, ...], result: Value) -> Value:
    """Return a result of NumPy, with its default dtype."""
    if not isinstance(result, Numpy) or result.dtype is not None:
        return result
    is_float64 = numpy_api.is_float64(name, arguments)
    return replace(result, kind="float", dtype="float64") if is_float64 else result


def _moved(owner: Torch, arguments: tuple[Argument, ...]) -> Torch:
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
        elif argument.keyword != "dtype" and type(argument.value) is not Number:
            devices = _kinds(argument)
    return Torch(devices, dtype, owner.is_tensor)


def _dtype_of(value: Value) -> str | None:
    """Return the dtype that ``torch.float64`` stands for."""
    if isinstance(value, Symbol) and value.name.startswith("torch."):
        return DTYPES.get(value.name[6:])
    return None


def _dtype_of_data(value: Value) -> str | None:
    """Return the dtype of a tensor that is made of data: Python's floats become float32."""
    numpy, tensor = as_numpy(value), as_tensor(value)
    if numpy is not None:
        return numpy.dtype if numpy.dtype in DTYPES else None
    if tensor is not None:
        return tensor.dtype
    return "float32" if (n := as_number(value)) is not None and n.kind == "float" else None


def _kinds(argument: Argument) -> frozenset[str]:
    """Return the kinds of device that an argument names; empty where it may be none."""
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
    return frozenset(found)
