"""The API table against the installed MLX: every correction, result, kind and dtype rule is run."""

from __future__ import annotations

import ast
import io
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embercoach.analysis import mlx_api
from embercoach.analysis.mlx_api.result_expressions import Result, parse_result
from tests.api_table import corrections
from tests.api_table.stub_sources import read_sources
from tests.rows import each_row

mx = pytest.importorskip("mlx.core")
nn = pytest.importorskip("mlx.nn")
optim = pytest.importorskip("mlx.optimizers")
calls = pytest.importorskip("tests.analysis.mlx_api_calls")

pytestmark = pytest.mark.skipif(
    mx.__version__ != mlx_api.version(), reason=f"the table describes MLX {mlx_api.version()}"
)

CALLS: dict[str, str] = calls.CALLS
CORRECTIONS = {**corrections.LIES, **corrections.REFINEMENTS, **corrections.GAPS}
ENTRIES = [entry for name in mlx_api.names() if (entry := mlx_api.lookup(name)) is not None]
PYTHON_TYPES = {
    "array": mx.array,
    "none": type(None),
    "int": int,
    "float": float,
    "bool": bool,
    "complex": complex,
    "str": str,
    "bytes": bytes,
    "dtype": mx.Dtype,
    "device": mx.Device,
    "stream": mx.Stream,
    "numpy": np.ndarray,
    "module": types.ModuleType,
    "leaf": mx.array,
}
PACKAGES = {"mlx.core": mx, "mlx.nn": nn, "mlx.optimizers": optim}
DTYPES = ("float16", "bfloat16", "float32", "int32", "uint8", "bool", "complex64")


def ancestors(entry: mlx_api.ApiEntry) -> set[str]:
    """The names of a class's bases, and of theirs."""
    found = set(entry.bases)
    for base in entry.bases:
        known = mlx_api.lookup(base)
        found |= ancestors(known) if known else set()
    return found


@pytest.fixture(autouse=True, scope="module")
def on_the_cpu() -> Iterator[None]:
    device = mx.default_device()
    mx.set_default_device(mx.cpu)
    yield
    mx.set_default_device(device)


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Names for the corrections' expressions, see the `corrections` module."""
    scratch = tmp_path_factory.mktemp("mlx")
    names = calls.environment()
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    opt = optim.Adam(1e-3)
    opt.update(net, net.parameters())
    multi = optim.MultiOptimizer([optim.Adam(1e-3)])
    multi.apply_gradients(net.parameters(), net.parameters())
    mx.save(str(scratch / "saved.npy"), names["x"])
    mx.save_safetensors(str(scratch / "saved.safetensors"), {"x": names["x"]})
    return {
        **names,
        "net": net,
        "opt": opt,
        "multi": multi,
        "linear": nn.Linear(64, 64),
        "f": lambda *arguments: arguments[0],
        "scratch": str(scratch),
        "saved": str(scratch / "saved.npy"),
        "saved_safetensors": str(scratch / "saved.safetensors"),
    }


def conforms(value: Any, result: Result, owner: Any = None) -> bool:
    """Whether a value is of the type that an expression says; `owner` is what `same` means."""
    head, items = result.head, result.items
    if head in PYTHON_TYPES:
        return type(value) is PYTHON_TYPES[head]
    if head == "union":
        return any(conforms(value, item, owner) for item in items)
    if head == "list":
        return isinstance(value, list) and all(conforms(item, items[0]) for item in value)
    if head == "tuple":
        parts = items * len(value) if result.variadic else items
        same_length = isinstance(value, tuple) and len(value) == len(parts)
        return same_length and all(map(conforms, value, parts))
    if head == "dict":
        return isinstance(value, dict) and all(conforms(v, items[1]) for v in value.values())
    if head == "shape":
        return isinstance(value, tuple) and all(type(item) is int for item in value)
    if head == "tree":
        return is_tree(value)
    if head in {"callable", "transform"}:
        return callable(value) and not isinstance(value, type)
    if head == "instance":
        package, _, name = result.target.rpartition(".")
        module = mx.distributed if package.endswith("distributed") else PACKAGES[package]
        return isinstance(value, getattr(module, name))
    return type(value) is type(owner) if head == "same" else head == "unknown"


def is_tree(value: Any) -> bool:
    """Whether a value is made of dicts, lists and tuples with arrays at the leaves."""
    if isinstance(value, (dict, list, tuple)):
        return all(map(is_tree, value.values() if isinstance(value, dict) else value))
    return isinstance(value, mx.array)


def described(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}[{','.join(map(described, value))}]"
    return type(value).__name__


def owner_of(name: str, run: str, names: dict[str, Any]) -> Any:
    """What `same` refers to: the owner of a method or property, else the first argument."""
    entry = mlx_api.lookup(name)
    node = ast.parse(run, mode="eval").body
    assert entry is not None
    if entry.kind == "function" or name.endswith(".__call__"):
        assert isinstance(node, ast.Call)
        source: ast.expr = node.args[0]
    else:
        target = node.func if isinstance(node, ast.Call) else node
        assert isinstance(target, ast.Attribute)
        source = target.value
    return eval(ast.unparse(source), dict(names))


def outcome(run: str, *dtypes: str) -> Any:
    """The value of a call in the first of the environments in which MLX can compute it."""
    errors = []
    for dtype in dtypes:
        names = calls.environment(getattr(mx, dtype), getattr(mx, dtype))
        try:
            return calls.evaluate(run, names)
        except (AttributeError, IndexError, RuntimeError, TypeError, ValueError) as error:
            errors.append(f"{dtype}: {type(error).__name__}: {error}")
    raise AssertionError(f"{run} works in none: {errors}")


def fails(run: str) -> bool:
    try:
        outcome(run, "float32", "int32")
    except AssertionError:
        return True
    return False


def is_refused(run: str, names: dict[str, Any]) -> bool:
    try:
        eval(run, dict(names))
    except (RuntimeError, TypeError, ValueError):
        return True
    return False


@each_row("name", [name for name, item in CORRECTIONS.items() if item.run])
def test_corrections_are_what_mlx_does(name: str, workshop: dict[str, Any]) -> None:
    correction = CORRECTIONS[name]
    variants = [(returns, run) for _, returns, run in correction.given]
    for returns, run in [(correction.returns, correction.run), *variants]:
        value = calls.evaluate(run, workshop)
        owner = owner_of(name, run, workshop) if returns == "same" else None
        message = f"{run} is {described(value)}, not {returns}"
        assert conforms(value, parse_result(returns), owner), message


def test_corrections_correct_something() -> None:
    """Where MLX's files have come to say what we say, the correction has to go."""
    entries = read_sources(Path(mx.__file__).parent).entries
    for name, correction in corrections.LIES.items():
        truths = {correction.returns, *(returns for _, returns, _ in correction.given)}
        assert "unknown" not in str(entries[name].returns), name
        assert truths - {str(entries[name].returns)}, name
    for name, correction in corrections.REFINEMENTS.items():
        assert str(entries[name].returns) != correction.returns, name
    for name, correction in corrections.GAPS.items():
        assert bool(correction.kind) == (name not in entries), name
        assert correction.kind or "unknown" in str(entries[name].returns), name


@each_row("name", sorted(CALLS))
def test_results_are_of_the_type_that_the_table_says(name: str) -> None:
    entry = mlx_api.lookup(name)
    assert entry is not None
    value = outcome(CALLS[name], "float32", "int32")
    owner = mx.array(0) if entry.returns == "same" else None
    message = f"{CALLS[name]} is {described(value)}, not {entry.returns}"
    assert conforms(value, parse_result(entry.returns), owner), message


NUMBERS = {"scalar", "int", "ints", "float", "bool", "any"}
ADMITTED: dict[type, set[str]] = {
    bool: NUMBERS,
    int: NUMBERS - {"bool"},
    float: {"scalar", "float", "any"},
    str: {"str", "any"},
    tuple: {"ints", "any"},
    list: {"list[array]", "tree", "any"},
    mx.array: {"array", "tree", "any"},
    mx.Dtype: {"dtype", "array", "any"},
    mx.DeviceType: {"stream", "any"},
}


@each_row("name", sorted(CALLS))
def test_parameters_admit_what_the_calls_pass(name: str) -> None:
    """Every argument of every call fits a parameter of the table, in place, name and kind."""
    names = calls.environment()
    for param, argument in calls.arguments_of(name, CALLS[name]):
        value = eval(ast.unparse(argument), dict(names))
        if value is None:
            assert param.nullable, param
        elif type(value) in ADMITTED:
            assert ADMITTED[type(value)] & set(param.accepts.split("|")), (param, type(value))


def argument_id(row: tuple[str, ast.expr, mlx_api.Param]) -> str:
    name, _, param = row
    return f"{name}-{param.name}"


ARRAY_ARGUMENTS = [
    (name, argument, param)
    for name, run in sorted(CALLS.items())
    for param, argument in calls.arguments_of(name, run)
    if "array" in param.accepts
]


@each_row("name, argument, param", ARRAY_ARGUMENTS, ids=argument_id)
def test_numbers_are_refused_where_only_arrays_belong(
    name: str, argument: ast.expr, param: mlx_api.Param
) -> None:
    sources = ("[2.0, 2.0]", "[2, 2]") if "list[array]" in param.accepts else ("2.0", "2")
    refused = [fails(calls.with_argument(CALLS[name], argument, source)) for source in sources]
    if NUMBERS & set(param.accepts.split("|")):
        assert not all(refused), f"{name} takes no number for {param.name}"
    else:
        assert all(refused), f"{name} takes a number for {param.name}"


@each_row("name, argument, param", ARRAY_ARGUMENTS, ids=argument_id)
def test_complex_arrays_are_refused_where_the_table_says(
    name: str, argument: ast.expr, param: mlx_api.Param
) -> None:
    entry = mlx_api.lookup(name)
    assert entry is not None
    source = ast.unparse(argument)
    for dtype in ("float32", "int32"):
        names = calls.environment(getattr(mx, dtype), getattr(mx, dtype))
        try:
            calls.evaluate(CALLS[name], names)
        except (AttributeError, RuntimeError, TypeError, ValueError):
            continue  # for arrays of the other dtype
        given = eval(source, dict(names))
        if isinstance(given, list):
            source = f"[array.astype(mx.complex64) for array in {source}]"
        elif isinstance(given, mx.array):
            source = f"{source}.astype(mx.complex64)"
        refused = is_refused(calls.with_argument(CALLS[name], argument, source), names)
        assert refused == (param.name in entry.real_only)
        return
    raise AssertionError(f"{CALLS[name]} could not be run")


def test_all_that_refuse_complex_arrays_are_run() -> None:
    run = {(name, param.name) for name, _, param in ARRAY_ARGUMENTS}
    refusing = {(entry.name, param) for entry in ENTRIES for param in entry.real_only}
    assert {pair for pair in refusing if pair[1] != "self"} <= run


SPECIAL_METHODS = [
    entry
    for entry in ENTRIES
    if entry.name in CALLS and entry.name.startswith("mlx.core.array.__") and not entry.sync
]


@each_row("entry", SPECIAL_METHODS, ids=lambda entry: entry.name)
def test_methods_of_complex_arrays_are_refused_where_the_table_says(
    entry: mlx_api.ApiEntry,
) -> None:
    refused = is_refused(CALLS[entry.name], calls.environment(mx.complex64, mx.int32))
    assert refused == ("self" in entry.real_only)


INT_ARGUMENTS = [
    (name, argument, param)
    for name, run in sorted(CALLS.items())
    for param, argument in calls.arguments_of(name, run)
    if param.takes_only_ints
]


@each_row("name, argument, param", INT_ARGUMENTS, ids=argument_id)
def test_an_array_where_ints_belong_raises_or_forces_evaluation(
    name: str, argument: ast.expr, param: mlx_api.Param
) -> None:
    names = calls.environment()
    value = eval(ast.unparse(argument), dict(names))
    number = value[0] if isinstance(value, tuple) else value
    names["lazy"] = mx.array(number) + 0
    source = "lazy" if value == number else f"(lazy, *{value[1:]!r})"
    refused = is_refused(calls.with_argument(CALLS[name], argument, source), names)
    assert refused or not is_pending(names["lazy"]), param.name


def is_pending(array: Any) -> bool:
    """Whether an array still waits for its evaluation: its graph has operations."""
    text = io.StringIO()
    mx.export_to_dot(text, array)
    return "label" in text.getvalue()


SAVES = {
    "mlx.core.save": "mx.save(scratch + '/s.npy', x)",
    "mlx.core.savez": "mx.savez(scratch + '/s.npz', x)",
    "mlx.core.savez_compressed": "mx.savez_compressed(scratch + '/t.npz', x)",
    "mlx.core.save_gguf": "mx.save_gguf(scratch + '/s.gguf', {'x': x}, {})",
    "mlx.core.save_safetensors": "mx.save_safetensors(scratch + '/s.safetensors', {'x': x})",
    "mlx.nn.Module.save_weights": "holder.save_weights(scratch + '/w.npz')",
}


@each_row("name", sorted(CALLS | SAVES))
def test_what_forces_evaluation(name: str, tmp_path: Path) -> None:
    entry = mlx_api.lookup(name)
    assert entry is not None
    run = SAVES.get(name) or CALLS[name]
    waiting = []
    for dtype in (mx.float32, mx.int32):
        names = calls.environment(dtype, dtype)
        names["scratch"] = str(tmp_path)
        for key in ("x", "s", "p", "v", "wide", "line", "image", "volume", "signal", "heads"):
            mx.eval(names[key])
            names[key] = names[key] + 0
        names["holder"] = nn.Module()
        names["holder"].weight = names["x"]
        try:
            result = eval(run, dict(names))
        except (RuntimeError, TypeError, ValueError):
            continue
        if name == "mlx.core.async_eval":  # it schedules; this waits for what is scheduled
            mx.synchronize()
        used = {node.id for node in ast.walk(ast.parse(run)) if isinstance(node, ast.Name)}
        keys = used & names.keys() | ({"x"} if "holder" in used else set())
        arrays = [names[key] for key in keys if isinstance(names[key], mx.array)]
        waiting.append(any(map(is_pending, arrays)) if entry.sync else all_pending(names, keys))
        del result
    assert waiting, f"{run} could not be run"
    assert all(is_waiting != entry.sync for is_waiting in waiting)


def all_pending(names: dict[str, Any], keys: set[str]) -> bool:
    lazy = keys & {"x", "s", "p", "v", "wide", "line", "image", "volume", "signal", "heads"}
    return all(is_pending(names[key]) for key in lazy)


def test_all_that_force_evaluation_are_run() -> None:
    assert {entry.name for entry in ENTRIES if entry.sync} <= set(CALLS | SAVES)


def test_elementwise_operands_may_be_numbers() -> None:
    found = [entry for entry in ENTRIES if entry.elementwise]
    assert len(found) > 60
    for entry in found:
        operands = [param for param in entry.params if param.accepts != "stream"]
        owned = entry.name.startswith(("mlx.core.array.", "mlx.core.ArrayAt."))
        assert len(operands) >= (1 if owned else 2), entry.name
        for param in operands:
            bounded = entry.name == "mlx.core.clip" and param.name == "a"
            assert bounded or param.takes_scalar_or_array or param.accepts == "any", param


RULED = sorted(name for name in CALLS if (e := mlx_api.lookup(name)) and e.dtype_rule != "unknown")


def dtype_name(dtype: Any) -> str:
    return str(dtype).removeprefix("mlx.core.")


def expected_dtype(entry: mlx_api.ApiEntry, rule: str, arrays: dict[str, list[Any]]) -> str | None:
    """What a rule says of the arrays passed, with MLX's own promotion."""
    rule = rule.rpartition("=")[2] if rule.startswith("param:") else rule
    if rule == "unknown":
        return None
    if hasattr(mx, rule) or rule == "bool":
        return rule
    sources = entry.dtype_from or tuple(arrays)
    known = [array for name in sources for array in arrays.get(name, [])]
    known = known[:1] if rule in {"same", "from_value", "each"} else known
    if not known:
        return "int32"  # ints are passed to `arange` alone
    dtype = dtype_name(mx.result_type(*known) if len(known) > 1 else known[0].dtype)
    is_integer = not mx.issubdtype(mx.result_type(*known), mx.inexact)
    for source, target in entry.dtype_exceptions:
        if source == dtype or (source == "integer" and is_integer):
            return None if target == "unknown" else target
    return "float32" if rule == "float" and is_integer else dtype


def arrays_of(value: Any) -> list[Any]:
    if isinstance(value, mx.array):
        return [value]
    return [leaf for item in value for leaf in arrays_of(item)] if isinstance(value, list) else []


FEW_PAIRS = [
    *(("float32", "float32"), ("int32", "int32"), ("float16", "int32"), ("bool", "bool")),
    *(("int32", "float16"), ("complex64", "float32")),
]
PAIRS = [(dtype, dtype) for dtype in DTYPES]
PAIRS += [(a, b) for a in DTYPES for b in ("float32", "int32", "float16") if a != b]


@pytest.mark.parametrize(
    "pairs", [FEW_PAIRS, pytest.param(PAIRS, marks=pytest.mark.exhaustive)], ids=["few", "all"]
)
@each_row("name", RULED)
def test_dtype_rules(name: str, pairs: list[tuple[str, str]]) -> None:
    entry = mlx_api.lookup(name)
    assert entry is not None
    checked = 0
    for first, second in pairs:
        names = calls.environment(mx_dtype(first), mx_dtype(second))
        try:
            value = calls.evaluate(CALLS[name], names)
        except (RuntimeError, TypeError, ValueError):
            continue  # MLX does not compute it with these dtypes
        assert_dtypes(entry, value, passed_arrays(entry, names), f"{first}, {second}")
        checked += 1
    assert checked


def mx_dtype(name: str) -> Any:
    return mx.bool_ if name == "bool" else getattr(mx, name)


def passed_arrays(entry: mlx_api.ApiEntry, names: dict[str, Any]) -> dict[str, list[Any]]:
    """The arrays that a call passes, by parameter; a method's owner first."""
    run = CALLS[entry.name]
    arrays: dict[str, list[Any]] = {}
    if entry.kind == "method" and not entry.name.endswith(".__call__"):
        arrays["self"] = arrays_of(owner_of(entry.name, run, names))
    for param, argument in calls.arguments_of(entry.name, run):
        value = eval(ast.unparse(argument), dict(names))
        arrays.setdefault(param.name, []).extend(arrays_of(value))
    return arrays


def assert_dtypes(
    entry: mlx_api.ApiEntry, value: Any, arrays: dict[str, list[Any]], dtypes: str
) -> None:
    results = [value] if isinstance(value, mx.array) else list(value)
    rules = entry.dtype_rule.split(";")
    rules = rules * len(results) if len(rules) == 1 else rules
    assert len(rules) == len(results)
    passed = [array for found in arrays.values() for array in found]
    for index, (result, rule) in enumerate(zip(results, rules, strict=True)):
        if rule == "each":
            expected: str | None = dtype_name(passed[index].dtype)
        else:
            expected = expected_dtype(entry, rule, arrays)
        message = f"{entry.name} of {dtypes}: {dtype_name(result.dtype)}, not {expected}"
        assert expected is None or dtype_name(result.dtype) == expected, message


@pytest.mark.parametrize(
    ("run", "dtype"),
    [
        ("mx.zeros((2,), dtype=mx.float16)", "float16"),
        ("mx.full((2,), 1)", "int32"),
        ("mx.full((2,), 0.5)", "float32"),
        ("mx.full((2,), True)", "bool"),
        # An array keeps its dtype, whatever `dtype` says; it decides in `full_like` though.
        ("mx.full((2,), mx.array(1.0), dtype=mx.float16)", "float32"),
        ("mx.full_like(x, mx.array(1.0), dtype=mx.float16)", "float16"),
        ("mx.arange(3.0)", "float32"),
        ("mx.arange(0, 3, 0.5)", "float32"),
        ("mx.array(1j)", "complex64"),
        ("mx.array([1, 2.0])", "float32"),
        ("mx.array(True)", "bool"),
        ("mx.random.normal((2,), dtype=mx.bfloat16)", "bfloat16"),
        ("mx.random.randint(0, 3, (2,), mx.uint8)", "uint8"),
    ],
)
def test_dtypes_of_creation(run: str, dtype: str) -> None:
    assert dtype_name(outcome(run, "float32").dtype) == dtype


@each_row("name", sorted(calls.LAYERS))
def test_attributes_of_layers(name: str) -> None:
    layer = eval(calls.LAYERS[name], {"nn": nn})
    for attribute, value in layer.items():
        entry = mlx_api.member(name, attribute)
        if isinstance(value, mx.array) and not attribute.startswith("_"):
            assert entry is not None, attribute
        if entry is not None and value is not None:
            assert conforms(value, number_of(entry.returns, value)), (attribute, entry, value)


def number_of(returns: str, value: Any) -> Result:
    """A float attribute may hold an int that was passed as one."""
    return Result("int") if returns == "float" and type(value) is int else parse_result(returns)


INITIALISERS = (
    "glorot_normal glorot_uniform he_normal he_uniform identity normal orthogonal uniform"
)
MADE = """
    nn.init.constant(0.5)(x)  nn.init.sparse(0.5)(x)  optim.cosine_decay(0.1, 9)({step})
    optim.exponential_decay(0.1, 0.9)({step})  optim.linear_schedule(0.1, 0.0, 9)({step})
    optim.join_schedules([optim.step_decay(0.1, 0.9, 9), lambda i: 0.1], [9])({step})
    optim.step_decay(0.1, 0.9, 9)({step})
"""
INITIALISED = [f"nn.init.{name}()(x)" for name in INITIALISERS.split()]
MAKERS = {calls.full_name(call): call for call in [*INITIALISED, *calls.calls_in(MADE)]}


@pytest.mark.parametrize("step", ["3", "mx.array(3)"])
@pytest.mark.parametrize("name", sorted(MAKERS))
def test_what_made_functions_give(name: str, step: str) -> None:
    entry = mlx_api.lookup(name)
    assert entry is not None
    assert entry.call_returns is not None
    value = outcome(MAKERS[name].format(step=step), "float32")
    assert conforms(value, parse_result(entry.call_returns)), described(value)


OPTIMIZERS = {
    entry.name: entry
    for entry in ENTRIES
    if entry.kind == "class" and "mlx.optimizers.Optimizer" in ancestors(entry)
}


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_optimizers(name: str) -> None:
    if name == "mlx.optimizers.MultiOptimizer":
        optimizer = optim.MultiOptimizer([optim.SGD(0.1)])
    else:
        optimizer = getattr(optim, name.rpartition(".")[2])(learning_rate=0.1)
    parameter = mx.ones((4, 4))
    if name != "mlx.optimizers.MultiOptimizer":
        state: dict[str, Any] = {}
        assert optimizer.init_single(parameter, state) is None
        assert type(optimizer.apply_single(parameter, parameter, state)) is mx.array
    updated = optimizer.apply_gradients({"w": parameter}, {"w": parameter})
    for member, value in (
        ("apply_gradients", updated),
        ("state", optimizer.state),
        ("learning_rate", optimizer.learning_rate),
    ):
        entry = mlx_api.member(name, member)
        assert entry is not None
        assert conforms(value, parse_result(entry.returns)), (member, described(value))
    for attribute, value in vars(optimizer).items():
        entry = mlx_api.member(name, attribute)
        if entry is not None and value is not None:
            assert conforms(value, number_of(entry.returns, value)), (attribute, entry, value)


# What cannot be run on one CPU, or has no other result to check than its own construction.
NOT_RUN = {
    "mlx.core.gather_qqmm": "ends the process on the CPU",
    "mlx.core.qqmm": "not implemented on the CPU",
    "mlx.nn.QQLinear.__call__": "not implemented on the CPU",
    "mlx.core.fast.cuda_kernel": "needs CUDA",
    "mlx.core.fast.precompiled_cuda_kernel": "needs CUDA",
    "mlx.core.distributed.recv": "needs a second process",
    "mlx.core.distributed.recv_like": "needs a second process",
    "mlx.core.distributed.send": "needs a second process",
}


def test_all_that_give_arrays_are_run() -> None:
    ran = set(CALLS) | set(CORRECTIONS) | set(MAKERS) | set(NOT_RUN)
    giving = {
        entry.name
        for entry in ENTRIES
        if entry.kind in {"function", "method"}
        and not entry.name.endswith(".apply_single")
        and any(word in f"{entry.returns},{entry.call_returns}" for word in ("array", "tree"))
    }
    assert giving - ran == set()
