"""Calls of library functions: MLX by its table, NumPy, torch, builtins and the standard library."""

from __future__ import annotations

from collections.abc import Callable as Fn
from functools import partial

import libcst as cst

from embercoach.analysis import mlx_api
from embercoach.analysis.calls import (
    kernel_objects,
    numpy_api,
    sibling_files,
    string_methods,
    torch_api,
    transforms,
)
from embercoach.analysis.calls.call_results import api_result
from embercoach.analysis.evaluate import exactness
from embercoach.analysis.evaluate.dispatch import call_value, element_of, member
from embercoach.analysis.evaluate.frame import Frame
from embercoach.analysis.evaluate.imports import imported
from embercoach.analysis.syntax.trees import dotted, evaluated
from embercoach.analysis.values import promotion, strings
from embercoach.analysis.values.facts import (
    Argument,
    first_value,
    keyword_value,
    pulls_of_arguments,
)
from embercoach.analysis.values.gradient_marks import after_pull
from embercoach.analysis.values.lattice import (
    ARRAY,
    BOOL,
    FLOAT,
    INT,
    NO_PULLS,
    NONE,
    NUMBER_KINDS,
    STR,
    UNKNOWN,
    Array,
    Bytes,
    Class,
    Dict,
    DType,
    FilePath,
    Function,
    Instance,
    LibraryObject,
    Number,
    NumberKind,
    Numpy,
    Pulls,
    Sequence,
    SequenceKind,
    Str,
    Super,
    Tree,
    Value,
    any_item,
    as_array,
    as_number,
    as_numpy,
    holds_arrays,
    is_traced,
    join_all,
    options,
    parts_of,
    pulls_of,
)

Arguments = tuple[Argument, ...]
#: What gives the result of a function of a library.
_Handler = Fn[[Frame, cst.Call, Arguments], Value]


def _pulls(node: cst.Call, arguments: Arguments) -> Pulls:
    pulls = pulls_of_arguments(arguments)
    if any(as_array(a.value) is not None for a in arguments):
        return after_pull(pulls, node)
    return pulls


def _cast(kind: NumberKind) -> _Handler:
    def handle(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
        const: float | None = None
        if len(arguments) == 1 and isinstance(arguments[0].value, Number):
            given = arguments[0].value.const
            if kind == "bool":
                const = exactness.truth(arguments[0].value)
            if isinstance(given, (int, float)) and kind in ("int", "float"):
                try:
                    const = int(given) if kind == "int" else float(given)
                except (ValueError, OverflowError):
                    const = None
        return Number(kind, const, None, _pulls(node, arguments))

    return handle


def _len(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    value = arguments[0].value if len(arguments) == 1 else None
    if isinstance(value, Sequence) and value.items is not None and value.kind in ("list", "tuple"):
        return Number("int", len(value.items)) if frame.exact else INT
    return INT


def _fixed(value: Value) -> _Handler:
    return lambda frame, node, arguments: value


def _hasattr(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    if len(arguments) == 2 and arguments[0].value is UNKNOWN:
        path, given = dotted(arguments[0].node), arguments[1].node
        if path is not None and type(given) is cst.SimpleString:
            frame.asked.add((path, str(evaluated(given))))
    return BOOL


def _text(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    if len(arguments) != 1:
        return STR
    value = arguments[0].value
    if isinstance(value, (Str, FilePath)):
        return value
    return Str(strings.of_value(value) or strings.hole(value))


def _range(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    items = None
    if frame.module.mentions_kernels:
        items = exactness.numbers(tuple(a.value for a in arguments))
    return Sequence("iterator", INT, items) if items is None else Sequence("iterator", None, items)


def _element(frame: Frame, arguments: Arguments, index: int = 0) -> Value:
    return element_of(frame, arguments[index].value) if len(arguments) > index else UNKNOWN


def _enumerate(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    if frame.module.mentions_kernels and len(arguments) == 1:
        known = exactness.known_items(arguments[0].value)
        if known is not None:
            pairs = ((Number("int", at), item) for at, item in enumerate(known))
            return Sequence("iterator", None, tuple(Sequence("tuple", None, p) for p in pairs))
    item = _element(frame, arguments)
    return Sequence("iterator", Sequence("tuple", join_all((INT, item)), (INT, item)))


def _zip(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    if any(a.star for a in arguments):
        inner = _element(frame, arguments)
        return Sequence("iterator", Sequence("tuple", element_of(frame, inner)))
    if frame.module.mentions_kernels and not any(a.keyword for a in arguments):
        known = [exactness.known_items(a.value) for a in arguments]
        columns = [k for k in known if k is not None]
        if columns and len(columns) == len(known):
            rows = zip(*columns, strict=False)
            return Sequence("iterator", None, tuple(Sequence("tuple", None, r) for r in rows))
    items = tuple(element_of(frame, a.value) for a in arguments if a.keyword is None)
    return Sequence("iterator", Sequence("tuple", None, items))


def _elements_of(kind: SequenceKind, index: int = 0) -> _Handler:
    """Handle a function that gives the elements of one of its arguments."""
    return lambda frame, node, arguments: Sequence(kind, _element(frame, arguments, index))


def _map(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    if len(arguments) < 2:
        return UNKNOWN
    values = tuple(element_of(frame, a.value) for a in arguments[1:])
    return Sequence("iterator", call_value(frame, arguments[0].value, values))


def _collect(kind: SequenceKind) -> _Handler:
    def handle(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
        if not arguments:
            return Sequence(kind, UNKNOWN, ())
        value = arguments[0].value
        if isinstance(value, Sequence):
            return Sequence(kind, any_item(value), value.items, value.pulls)
        return Sequence(kind, element_of(frame, value))

    return handle


def _dict(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    known = tuple((a.keyword, a.value) for a in arguments if a.keyword is not None)
    first = next((a.value for a in arguments if a.keyword is None and not a.star), None)
    spread = any(a.star for a in arguments)
    if isinstance(first, Dict):
        merged = tuple({**dict(first.known), **dict(known)}.items())
        return Dict(first.item, merged, first.exact and not spread)
    if first is not None:
        pair = element_of(frame, first)
        if isinstance(pair, Sequence) and pair.items is not None and len(pair.items) == 2:
            return Dict(pair.items[1], known)
        return Dict(UNKNOWN, known) if known else UNKNOWN
    if spread:
        return Dict(UNKNOWN, known)
    return Dict(join_all(v for _, v in known), known, frame.module.mentions_kernels)


def _extreme(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    positional = [a.value for a in arguments if a.keyword is None and not a.star]
    if len(positional) == 1:
        return element_of(frame, positional[0])
    # The element that is chosen is an element of the graph still: no gradient is lost.
    pulls = NO_PULLS.union(*map(pulls_of, positional))
    result = join_all(positional)
    array = as_array(result)
    if array is not None:
        return Array(array.dtype, False, False, array.traced, pulls)
    if isinstance(result, Number):
        return Number(result.kind, None, None, pulls)
    return result


def _sum(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    item = _element(frame, arguments)
    array = as_array(item)
    if array is not None:
        return Array(array.dtype, False, False, array.traced, array.pulls)
    number = as_number(item)
    if number is not None:
        kind = "int" if number.kind == "bool" else number.kind
        return Number(kind, None, None, pulls_of(item))
    return item if isinstance(item, Numpy) else UNKNOWN


def _next(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    item = _element(frame, arguments)
    return join_all((item, arguments[1].value)) if len(arguments) > 1 else item


def _abs(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    value = first_value(arguments)
    array = as_array(value)
    if array is not None:
        dtype = "float32" if array.dtype == "complex64" else array.dtype
        return Array(dtype, array.literal, False, array.traced, array.pulls)
    if isinstance(value, Number):
        return Number(value.kind, None, None, value.pulls)
    return value


def _round(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    value = first_value(arguments)
    kind = "float" if len(arguments) > 1 else "int"
    return Number(kind, None, None, pulls_of(value))  # type: ignore[arg-type]


def _power(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    values = [as_number(a.value) for a in arguments]
    if values and all(v is not None for v in values):
        kind = "float" if any(v and v.kind == "float" for v in values) else "int"
        return Number(kind)  # type: ignore[arg-type]
    return UNKNOWN


def _getattr(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    if len(arguments) < 2 or not isinstance(arguments[1].value, Str):
        return UNKNOWN
    name = arguments[1].value.text
    if name is None:
        return UNKNOWN
    found = member(frame, arguments[0].value, name)
    return join_all((found, arguments[2].value)) if len(arguments) > 2 else found


def _super(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    info = frame.info
    while info is not None and info.cls is None:
        info = info.outer
    return UNKNOWN if info is None or info.cls is None else Super(info.cls)


def _type(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    value = arguments[0].value if len(arguments) == 1 else UNKNOWN
    return Class(value.info) if isinstance(value, Instance) else UNKNOWN


_HANDLERS: dict[str, _Handler] = {
    **{kind: _cast(kind) for kind in NUMBER_KINDS},
    **dict.fromkeys(("id", "hash", "ord"), _fixed(INT)),
    "len": _len,
    **dict.fromkeys(("isinstance", "issubclass", "callable"), _fixed(BOOL)),
    "hasattr": _hasattr,
    **dict.fromkeys(("any", "all"), _fixed(BOOL)),
    **dict.fromkeys(("repr", "format", "chr", "hex", "bin", "input"), _fixed(STR)),
    "str": _text,
    "print": _fixed(NONE),
    "range": _range,
    "enumerate": _enumerate,
    "zip": _zip,
    "map": _map,
    "filter": _elements_of("iterator", 1),
    "list": _collect("list"),
    "tuple": _collect("tuple"),
    "set": _collect("set"),
    "frozenset": _collect("set"),
    "iter": _collect("iterator"),
    "dict": _dict,
    "min": _extreme,
    "max": _extreme,
    "sum": _sum,
    "sorted": _elements_of("list"),
    "reversed": _elements_of("iterator"),
    "next": _next,
    "abs": _abs,
    "round": _round,
    "pow": _power,
    "getattr": _getattr,
    "super": _super,
    "type": _type,
    **dict.fromkeys(
        ("memoryview", "bytes", "bytearray"),
        lambda frame, node, arguments: Bytes(_pulls(node, arguments)),
    ),
}


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


def call(frame: Frame, node: cst.Call, name: str, arguments: Arguments) -> Value:
    """Return the result of calling a library function by its qualified name."""
    if name in transforms.TRANSFORMS:
        return transforms.transform(frame, node, name, arguments)
    special = _SPECIAL.get(name)
    if special is not None:
        return special(frame, node, arguments)
    library = name.partition(".")[0]
    if library == "mlx":
        return _mlx(name, arguments)
    if library == "builtins":
        handler = _HANDLERS.get(name[9:])
        return UNKNOWN if handler is None else handler(frame, node, arguments)
    if library == "numpy":
        result = numpy_api.call(name, arguments)
        if torch_api.uses_accelerator(frame.module):
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
            *("time.time", "time.perf_counter", "time.monotonic", "random.random"),
            *("random.uniform", "random.gauss", "time.process_time"),
        ),
        FLOAT,
    ),
    **dict.fromkeys(("random.randint", "random.randrange", "operator.index", "os.getpid"), INT),
    "os.cpu_count": INT,
}


def _pulled(node: cst.Call, result: Value, arguments: Arguments) -> Value:
    """Return a NumPy result made from an array depends on the pull of this very call."""
    if isinstance(result, Numpy) and any(holds_arrays(a.value) for a in arguments):
        return Numpy(result.kind, result.scalar, after_pull(result.pulls, node), result.dtype)
    return result


def _math(node: cst.Call, name: str, arguments: Arguments) -> Value:
    short = name.rpartition(".")[2]
    kind: NumberKind = "int" if short in _INT_MATH else "float"
    if short.startswith("is") and short != "isqrt":
        kind = "bool"
    return Number(kind, None, None, _pulls(node, arguments))


def _mlx(name: str, arguments: Arguments) -> Value:
    entry = mlx_api.lookup(name)
    if entry is None:
        return UNKNOWN
    if entry.kind == "class":
        return LibraryObject(entry.name)
    return api_result(entry, arguments)


def _array(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    """``mx.array(value, dtype)``."""
    return _array_of(arguments[0].value, arguments) if arguments else ARRAY


def _array_of(value: Value, arguments: Arguments) -> Array:
    given = keyword_value(arguments, "dtype")
    if given is None and len(arguments) > 1 and arguments[1].keyword is None:
        given = arguments[1].value
    pulls = pulls_of(value)
    number = as_number(value)
    if isinstance(given, DType):
        literal = number is not None or numpy_api.holds_numbers_alone(value)
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
    if numpy_api.holds_numbers_alone(value):
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


def _dtype_of_items(value: Sequence) -> str | None:
    kinds = set()
    for item in parts_of(value):
        if isinstance(item, Sequence):
            return _dtype_of_items(item)
        number = as_number(item)
        kinds.add(number.kind if number is not None else None)
    return promotion.dtype_of_numbers(kinds)


def _evaluated(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    """``mx.eval(x, ...)``, which only takes MLX's arrays, and trees of them."""
    for argument in arguments:
        is_list = isinstance(argument.node, (cst.List, cst.Tuple))
        nodes = [e.value for e in argument.node.elements] if is_list else [argument.node]  # type: ignore[attr-defined]
        frame.evaluated.update(path for one in nodes if (path := dotted(one)) is not None)
    return NONE


def _tree_map(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    """``tree_map(fn, tree, *rest)``: the function sees the leaves."""
    positional = [a.value for a in arguments if a.keyword is None]
    if len(positional) < 2:
        return UNKNOWN
    leaves = [_leaf(v) for v in positional[1:]]
    values = (STR, *leaves) if node_name(node) == "tree_map_with_path" else tuple(leaves)
    result = call_value(frame, positional[0], values)
    array = as_array(result)
    return UNKNOWN if array is None else Tree(array.traced)


def node_name(node: cst.Call) -> str:
    """Return the last name of what is called."""
    func = node.func
    if isinstance(func, cst.Attribute):
        return func.attr.value
    return func.value if isinstance(func, cst.Name) else ""


def _leaf(value: Value) -> Value:
    if isinstance(value, Tree):
        return value.leaf
    array = as_array(value)
    if array is not None:
        return array
    return Array(traced=is_traced(value)) if holds_arrays(value) else UNKNOWN


def _tree_flatten(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    leaf = _leaf(arguments[0].value) if arguments else UNKNOWN
    return Sequence("list", Sequence("tuple", join_all((STR, leaf)), (STR, leaf)))


def _tree_unflatten(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    value = first_value(arguments)
    return Tree(is_traced(value)) if holds_arrays(value) else UNKNOWN


def _deque(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    value = first_value(arguments)
    return value if isinstance(value, Sequence) else Sequence("list", element_of(frame, value))


def _immediate(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    transforms.immediate(frame, node, arguments)
    return Sequence("tuple", Sequence("list", ARRAY))


_PROGRESS = ("tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.std.tqdm")
_SPECIAL: dict[str, _Handler] = {
    **{name: partial(transforms.start_thread, name) for name in transforms.THREAD_STARTERS},
    "mlx.core.array": _array,
    "mlx.core.eval": _evaluated,
    "mlx.core.async_eval": _evaluated,
    kernel_objects.METAL_KERNEL: kernel_objects.define,
    # A kernel runs with Metal only, so that there is Metal where one matters.
    "mlx.core.metal.is_available": lambda frame, node, given: (
        BOOL if frame.must is None else Number("bool", True)
    ),
    **dict.fromkeys(("mlx.core.vjp", "mlx.core.jvp"), _immediate),
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
    **dict.fromkeys(
        ("functools.cache", "copy.copy", "copy.deepcopy", *_PROGRESS),
        lambda frame, node, arguments: first_value(arguments),
    ),
    "functools.lru_cache": lambda frame, node, given: (
        given[0].value if given and isinstance(given[0].value, Function) else UNKNOWN
    ),
    "importlib.import_module": imported,
    "pytest.importorskip": imported,
    **dict.fromkeys(("tqdm.auto.trange", "tqdm.trange"), _fixed(Sequence("iterator", INT))),
    "collections.deque": _deque,
    "logging.getLogger": _fixed(LibraryObject("logging.Logger")),
}
