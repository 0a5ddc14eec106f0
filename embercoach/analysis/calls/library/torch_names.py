"""Names of torch's functions, methods, dtypes and devices."""

from __future__ import annotations

#: What a program contains that names a GPU. Not "mps" itself: ``json.dumps``.
ACCELERATORS = ('"mps', "'mps", ".mps", "_mps", '"cuda', "'cuda", ".cuda")
COMPILE_SHADER = "torch.mps.compile_shader"
NO_DEVICE: frozenset[str] = frozenset()
#: Functions that make a tensor on the host unless ``device=`` says otherwise.
FACTORIES = frozenset(
    {
        "arange",
        "as_tensor",
        "asarray",
        "empty",
        "eye",
        "from_numpy",
        "full",
        "linspace",
        "logspace",
        "normal",
        "ones",
        "rand",
        "randint",
        "randn",
        "randperm",
        "tensor",
        "tril_indices",
        "zeros",
    }
)
#: Those that keep the dtype of data.
OF_DATA = frozenset({"as_tensor", "asarray", "from_numpy", "tensor"})
#: Functions that return host values or settings.
SETTINGS = frozenset(
    {
        "allclose",
        "autocast",
        "broadcast_shapes",
        "can_cast",
        "compile",
        "enable_grad",
        "equal",
        "finfo",
        "get_default_dtype",
        "get_num_threads",
        "iinfo",
        "inference_mode",
        "initial_seed",
        "is_autocast_enabled",
        "is_complex",
        "is_floating_point",
        "is_grad_enabled",
        "is_inference",
        "is_tensor",
        "load",
        "manual_seed",
        "no_grad",
        "numel",
        "promote_types",
        "result_type",
        "save",
        "seed",
        "set_default_device",
        "set_default_dtype",
        "set_grad_enabled",
        "set_num_threads",
        "vmap",
    }
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
#: Names of dtypes in ``torch``.
DTYPES = {
    "double": "float64",
    "float": "float32",
    "half": "float16",
    "long": "int64",
    "int": "int32",
    "cdouble": "complex128",
    "float64": "float64",
    "float32": "float32",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "int64": "int64",
    "int32": "int32",
    "bool": "bool",
}
#: Methods of tensors that keep the dtype.
KEEPING = frozenset(
    {
        "abs",
        "add",
        "chunk",
        "clamp",
        "clone",
        "contiguous",
        "cpu",
        "cuda",
        "detach",
        "detach_",
        "div",
        "exp",
        "expand",
        "flatten",
        "flip",
        "gather",
        "index_select",
        "log",
        "matmul",
        "mean",
        "mul",
        "narrow",
        "permute",
        "pin_memory",
        "repeat",
        "requires_grad_",
        "reshape",
        "roll",
        "split",
        "sqrt",
        "squeeze",
        "sub",
        "sum",
        "t",
        "to",
        "transpose",
        "unbind",
        "unsqueeze",
        "view",
    }
)
#: Methods that only a tensor has, of what may be a tensor.
OF_TENSOR = (
    KEEPING
    | frozenset(METHOD_DTYPES)
    | {
        "argmax",
        "argmin",
        "backward",
        "dim",
        "item",
        "max",
        "min",
        "numel",
        "numpy",
        "size",
        "softmax",
        "tolist",
        "topk",
        "type",
        "type_as",
    }
)
#: Attributes of modules and batches that hold host data.
NOT_DATA = frozenset(
    {
        "args",
        "cfg",
        "classes",
        "config",
        "device",
        "dtype",
        "generation_config",
        "hparams",
        "name",
        "names",
        "preprocess",
        "processor",
        "tokenizer",
        "training",
        "transform",
        "vocab",
    }
)
#: Methods of modules and batches whose results are on their device.
ON_DEVICE = frozenset({"buffers", "forward", "generate", "parameters", "values"})
#: Methods of modules that return the module.
OF_MODULE = frozenset(
    {
        "apply",
        "bfloat16",
        "cpu",
        "cuda",
        "double",
        "eval",
        "float",
        "half",
        "requires_grad_",
        "share_memory",
        "to",
        "to_empty",
        "train",
        "type",
    }
)
