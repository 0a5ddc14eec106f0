"""Calls of library functions: MLX by its table, NumPy, torch, builtins and the standard library."""

from __future__ import annotations

from collections.abc import Callable as Fn
from functools import partial

import libcst as cst

from embercoach.analysis import mlx_api
from embercoach.analysis.calls import kernel_objects, sibling_files, transforms
from embercoach.analysis.calls.call_results import api_result
from embercoach.analysis.calls.library import (
    builtin_calls,
    fourier,
    numpy_api,
    string_methods,
    torch_api,
)
from embercoach.analysis.evaluate.dispatch import call_value
from embercoach.analysis.evaluate.frame import Frame
from embercoach.analysis.evaluate.imports import imported
from embercoach.analysis.evaluate.iteration import element_of
from embercoach.analysis.facts.facts import Argument
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values import promotion
from embercoach.analysis.values.gradient_marks import after_pull
from embercoach.analysis.values.joins import (
    any_item,
    as_array,
    as_number,
    as_numpy,
    holds_arrays,
    join_all,
    options,
    pulls_of,
)
from embercoach.analysis.values.lattice import (
    ARRAY,
    BOOL,
    FLOAT,
    INT,
    NONE,
    STR,
    TREE,
    UNKNOWN,
    Array,
    DType,
    Function,
    LibraryObject,
    Number,
    NumberKind,
    Numpy,
    Sequence,
    Tree,
    Value,
)

#: Functions that give another result at each call.
HOST_STATE = frozenset(
    (
        *(f"time.{n}" for n in ("time", "perf_counter", "monotonic", "process_time")),
        *(f"time.{n}_ns" for n in ("time", "perf_counter", "monotonic", "process_time")),
        *(f"datetime.datetime.{n}" for n in ("now", "utcnow", "today")),
        *(f"random.{n}" for n in ("random", "uniform", "gauss", "randint", "choice", "shuffle")),
        *(f"random.{n}" for n in ("randrange", "sample", "choices", "normalvariate")),
        *(f"numpy.random.{n}" for n in ("rand", "randn", "random", "uniform", "normal", "choice")),
        *(f"numpy.random.{n}" for n in ("randint", "permutation", "shuffle", "standard_normal")),
        *("uuid.uuid4", "secrets.randbelow"),
        *(f"timeit.{n}" for n in ("timeit", "repeat", "default_timer")),
    )
)
KIND_OF_DTYPE: dict[str, NumberKind] = {
    "bool": "bool",
    "complex64": "complex",
    **dict.fromkeys(promotion.INTEGERS, "int"),
    **dict.fromkeys(promotion.FLOATING, "float"),
}
Handler = Fn[[Frame, cst.Call, tuple[Argument, ...]], Value]


def call(frame: Frame, node: cst.Call, name: str, arguments: tuple[Argument, ...]) -> Value:
    """The result of calling a library function by its qualified name."""
    if name in transforms.TRANSFORMS:
        return transforms.transform(frame, node, name, arguments)
    special = _SPECIAL.get(name)
    if special is not None:
        return special(frame, node, arguments)
    library = name.partition(".")[0]
    if library == "mlx":
        return _mlx(name, arguments)
    if library == "builtins":
        return builtin_calls.call(frame, node, name, arguments)
    if library == "numpy":
        result = numpy_api.call(name, arguments)
        if frame.module.uses_accelerator:
            result = torch_api.numpy_result(name, arguments, result)
        return _pulled(node, result, arguments)
    if library == "torch":
        return torch_api.call(frame, name, arguments)
    if library == "math":
        return _math(node, name, arguments)
    known = _STANDARD.get(name)
    return UNKNOWN if known is None else known


_INT_MATH = frozenset(
    ["ceil", "floor", "trunc", "prod", "gcd", "lcm", "isqrt", "comb", "perm", "factorial"]
)
#: mlx-lm's generators yield each token as a Python int, with its log probabilities.
_TOKENS = Sequence("iterator", Sequence("tuple", None, (INT, ARRAY)))
_DRAFTED = Sequence("iterator", Sequence("tuple", None, (INT, ARRAY, BOOL)))
_STANDARD: dict[str, Value] = {
    **dict.fromkeys(("mlx_lm.generate.generate_step", "mlx_lm.utils.generate_step"), _TOKENS),
    "mlx_lm.generate.speculative_generate_step": _DRAFTED,
    "mlx_lm.utils.speculative_generate_step": _DRAFTED,
    **dict.fromkeys(
        (
            "time.time",
            "time.perf_counter",
            "time.monotonic",
            "random.random",
            "random.uniform",
            "random.gauss",
            "time.process_time",
        ),
        FLOAT,
    ),
    **dict.fromkeys(("random.randint", "random.randrange", "operator.index", "os.getpid"), INT),
    "os.cpu_count": INT,
}


def _pulled(node: cst.Call, result: Value, arguments: tuple[Argument, ...]) -> Value:
    """A NumPy result made from an array depends on the pull of this very call."""
    if isinstance(result, Numpy) and any(holds_arrays(a.value) for a in arguments):
        return Numpy(result.kind, result.scalar, after_pull(result.pulls, node), result.dtype)
    return result


def _math(node: cst.Call, name: str, arguments: tuple[Argument, ...]) -> Value:
    short = name.rpartition(".")[2]
    pulls = frozenset().union(*(pulls_of(a.value) for a in arguments))
    if any(as_array(a.value) for a in arguments):
        pulls = after_pull(pulls, node)
    kind: NumberKind = "int" if short in _INT_MATH else "float"
    if short.startswith("is") and short != "isqrt":
        kind = "bool"
    return Number(kind, None, None, pulls)


def _mlx(name: str, arguments: tuple[Argument, ...]) -> Value:
    entry = mlx_api.lookup(name)
    if entry is None:
        return UNKNOWN
    if entry.kind == "class":
        return LibraryObject(entry.name)
    return api_result(entry, arguments)


def _array(frame: Frame, node: cst.Call, arguments: tuple[Argument, ...]) -> Value:
    """``mx.array(value, dtype)``."""
    if not arguments:
        return ARRAY
    return _array_of(arguments[0].value, arguments)


def _array_of(value: Value, arguments: tuple[Argument, ...]) -> Array:
    given = next((a.value for a in arguments if a.keyword == "dtype"), None)
    if given is None and len(arguments) > 1 and arguments[1].keyword is None:
        given = arguments[1].value
    pulls = pulls_of(value)
    number = as_number(value)
    if isinstance(given, DType):
        literal = number is not None or _numbers_only(value)
        return Array(given.name, literal, number is not None, False, pulls)
    if given is not None and given is not NONE:
        return Array(None, False, number is not None, False, pulls)
    if number is not None:
        if _is_read_back(number):
            return Array(None, False, True, False, pulls)
        kinds = {option.kind for option in options(value) if isinstance(option, Number)}
        dtype = promotion.dtype_of_number(number.kind) if len(kinds) == 1 else None
        return Array(dtype, True, True, False, pulls)
    array = as_array(value)
    if array is not None:
        return Array(array.dtype, array.literal, array.scalar, array.traced, pulls)
    if _numbers_only(value):
        assert isinstance(value, Sequence)
        if any(_is_read_back(option) for option in options(any_item(value))):
            return Array(None, False, False, False, pulls)
        return Array(_dtype_of_items(value), True, False, False, pulls)
    numpy = as_numpy(value)
    if numpy is not None and numpy.dtype in promotion.DTYPES:
        dtype = "float32" if numpy.dtype == "float64" else numpy.dtype
        return Array(dtype, False, False, False, pulls)
    return Array(None, False, False, False, pulls)


def _is_read_back(value: Value) -> bool:
    """Return whether a number was read from an array: of an unknown dtype, if it is a float."""
    return isinstance(value, Number) and value.kind == "float" and bool(value.pulls)


def _numbers_only(value: Value) -> bool:
    if not isinstance(value, Sequence):
        return False
    items = value.items if value.items is not None else (any_item(value),)
    return bool(items) and all(as_number(i) is not None or _numbers_only(i) for i in items)


def _dtype_of_items(value: Sequence) -> str | None:
    kinds = set()
    for item in value.items if value.items is not None else (any_item(value),):
        if isinstance(item, Sequence):
            return _dtype_of_items(item)
        number = as_number(item)
        kinds.add(number.kind if number is not None else None)
    for kind in ("complex", "float", "int", "bool"):
        if kind in kinds:
            return promotion.dtype_of_number(kind)
    return None


def _evaluated(frame: Frame, node: cst.Call, arguments: tuple[Argument, ...]) -> Value:
    """``mx.eval(x, ...)``, which only takes MLX's arrays, and trees of them."""
    for argument in arguments:
        is_list = isinstance(argument.node, (cst.List, cst.Tuple))
        nodes = [e.value for e in argument.node.elements] if is_list else [argument.node]  # type: ignore[attr-defined]
        frame.evaluated.update(path for one in nodes if (path := dotted(one)) is not None)
    return NONE


def _tree_map(frame: Frame, node: cst.Call, arguments: tuple[Argument, ...]) -> Value:
    """``tree_map(fn, tree, *rest)``: the function sees the leaves."""
    positional = [a.value for a in arguments if a.keyword is None]
    if len(positional) < 2:
        return UNKNOWN
    leaves = [_leaf(v) for v in positional[1:]]
    values = (STR, *leaves) if node_name(node) == "tree_map_with_path" else tuple(leaves)
    result = call_value(frame, positional[0], values)
    return TREE if as_array(result) is not None else UNKNOWN


def node_name(node: cst.Call) -> str:
    """The last name of what is called."""
    func = node.func
    if isinstance(func, cst.Attribute):
        return func.attr.value
    return func.value if isinstance(func, cst.Name) else ""


def _leaf(value: Value) -> Value:
    if isinstance(value, Tree):
        return ARRAY
    array = as_array(value)
    if array is not None:
        return array
    return UNKNOWN if not holds_arrays(value) else ARRAY


def _tree_flatten(frame: Frame, node: cst.Call, arguments: tuple[Argument, ...]) -> Value:
    leaf = _leaf(arguments[0].value) if arguments else UNKNOWN
    return Sequence("list", Sequence("tuple", join_all((STR, leaf)), (STR, leaf)))


def _tree_unflatten(frame: Frame, node: cst.Call, arguments: tuple[Argument, ...]) -> Value:
    return TREE if arguments and holds_arrays(arguments[0].value) else UNKNOWN


def _first_argument(frame: Frame, node: cst.Call, arguments: tuple[Argument, ...]) -> Value:
    return arguments[0].value if arguments else UNKNOWN


def _deque(frame: Frame, node: cst.Call, arguments: tuple[Argument, ...]) -> Value:
    value = arguments[0].value if arguments else UNKNOWN
    return value if isinstance(value, Sequence) else Sequence("list", element_of(frame, value))


def _immediate(frame: Frame, node: cst.Call, arguments: tuple[Argument, ...]) -> Value:
    transforms.immediate(frame, node, arguments)
    return Sequence("tuple", Sequence("list", ARRAY))


_SPECIAL: dict[str, Handler] = {
    **{name: partial(transforms.start_thread, name) for name in transforms.THREAD_STARTERS},
    **fourier.HANDLERS,
    "mlx.core.array": _array,
    "mlx.core.eval": _evaluated,
    "mlx.core.async_eval": _evaluated,
    kernel_objects.METAL_KERNEL: kernel_objects.define,
    # A kernel runs with Metal only, so that there is Metal where one matters.
    "mlx.core.metal.is_available": lambda frame, node, given: (
        BOOL if frame.must is None else Number("bool", True)
    ),
    "mlx.core.vjp": _immediate,
    "mlx.core.jvp": _immediate,
    "mlx.utils.tree_map": _tree_map,
    "mlx.utils.tree_map_with_path": _tree_map,
    "mlx.utils.tree_flatten": _tree_flatten,
    "mlx.utils.tree_unflatten": _tree_unflatten,
    "textwrap.dedent": lambda frame, node, given: (
        string_methods.dedent(given[0].value) if len(given) == 1 else STR
    ),
    "pathlib.Path": sibling_files.made,
    "os.path.join": sibling_files.made,
    "os.path.dirname": sibling_files.folder,
    "builtins.open": sibling_files.opened,
    **dict.fromkeys(
        ("os.path.abspath", "os.path.realpath", "os.path.normpath", "os.fspath"), sibling_files.same
    ),
    "inspect.cleandoc": lambda frame, node, given: (
        string_methods.cleandoc(given[0].value) if len(given) == 1 else STR
    ),
    "string.Template": lambda frame, node, given: string_methods.template(given),
    "functools.cache": _first_argument,
    "functools.lru_cache": lambda frame, node, given: (
        given[0].value if given and isinstance(given[0].value, Function) else UNKNOWN
    ),
    "importlib.import_module": imported,
    "pytest.importorskip": imported,
    "copy.copy": _first_argument,
    "copy.deepcopy": _first_argument,
    "tqdm.tqdm": _first_argument,
    "tqdm.auto.tqdm": _first_argument,
    "tqdm.std.tqdm": _first_argument,
    "tqdm.auto.trange": lambda frame, node, arguments: Sequence("iterator", INT),
    "tqdm.trange": lambda frame, node, arguments: Sequence("iterator", INT),
    "collections.deque": _deque,
    "logging.getLogger": lambda frame, node, arguments: LibraryObject("logging.Logger"),
}
