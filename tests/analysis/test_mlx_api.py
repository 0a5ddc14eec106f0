"""The lookup of MLX's API, its generator, and that nothing of the installed MLX is missing."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import json
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from embercoach.analysis import mlx_api
from embercoach.analysis.mlx_api.result_expressions import parse_result
from tests.api_table import generate
from tests.api_table.stub_sources import (
    Accepts,
    accepts_of,
    merge_overloads,
    read_callable,
    result_of,
)
from tests.rows import each_row

ENTRIES = [entry for name in mlx_api.names() if (entry := mlx_api.lookup(name)) is not None]
KINDS = {"array", "bool", "callable", "dtype", "float", "int", "ints", "list[array]", "scalar"}
KINDS |= {"any", "str", "stream", "tree"}
RULES = {"promote", "same", "float", "each", "from_value", "unknown", "bool", "complex64"}
RULES |= {f"{kind}{bits}" for kind in ("int", "uint", "float") for bits in (8, 16, 32, 64)}
RULES |= {"bfloat16"}


def entry_of(name: str) -> mlx_api.ApiEntry:
    entry = mlx_api.lookup(name)
    assert entry is not None, name
    return entry


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("mlx.nn.distributed.shard_linear", "mlx.nn.layers.distributed.shard_linear"),
        ("mlx.optimizers.optimizers.Adam.update", "mlx.optimizers.Optimizer.update"),
        ("mlx.nn.layers.linear.mx.exp", "mlx.core.exp"),
    ],
)
def test_canonical_names(name: str, canonical: str) -> None:
    assert mlx_api.canonical(name) == canonical
    entry = mlx_api.lookup(name)
    known = canonical.startswith("mlx.") and "no_such" not in canonical
    assert (entry is not None) == known
    assert entry is None or entry.name == canonical


@pytest.mark.parametrize(
    "name",
    [
        "mlx.core.zeros.nothing",
        "mlx.nn.layers.base._unwrap",
        "mlx.",
        ".",
    ],
)
def test_names_that_mlx_does_not_have(name: str) -> None:
    assert mlx_api.lookup(name) is None
    assert not mlx_api.is_module(name)
    assert not mlx_api.is_layer(name)


def test_modules_and_layers() -> None:
    modules = ("mlx", "mlx.core", "mlx.core.fast", "mlx.nn", "mlx.nn.losses", "mlx.utils")
    assert all(map(mlx_api.is_module, modules))
    assert mlx_api.is_module("mlx.nn.layers.linear.mx")
    assert not mlx_api.is_module("mlx.core.exp")
    assert mlx_api.is_layer("mlx.nn.layers.pooling.MaxPool2d")
    assert not mlx_api.is_layer("mlx.nn.Module")
    assert not mlx_api.is_layer("mlx.optimizers.Adam")


def test_entries_are_built_once() -> None:
    assert mlx_api.lookup("mlx.core.exp") is mlx_api.lookup("mlx.nn.layers.base.mx.exp")


def test_parameters() -> None:
    softmax = entry_of("mlx.core.softmax")
    assert [(p.name, p.accepts, p.has_default, p.kind) for p in softmax.params] == [
        ("a", "array", False, "positional_only"),
        ("axis", "ints", True, "normal"),
        ("precise", "bool", True, "keyword_only"),
        ("stream", "stream", True, "keyword_only"),
    ]
    axis = softmax.param("axis")
    assert axis is softmax.positional(1)
    assert axis is not None
    assert axis.nullable
    assert axis.takes_only_ints
    assert softmax.param("a") is None
    assert softmax.positional(2) is None


@each_row("entry", ENTRIES, ids=lambda entry: entry.name)
def test_entries_are_well_formed(entry: mlx_api.ApiEntry) -> None:
    assert str(parse_result(entry.returns)) == entry.returns
    assert entry.call_returns is None or str(parse_result(entry.call_returns)) == entry.call_returns
    for param in entry.params:
        assert set(param.accepts.split("|")) <= KINDS, param
    for rule in entry.dtype_rule.split(";"):
        assert rule.removeprefix("param:dtype=") in RULES
    for result in (entry.returns, entry.call_returns or "", *(text for _, text in entry.given)):
        for part in result.replace("]", ",").replace("[", ",").split(","):
            if part.startswith("instance:"):
                assert entry_of(part.removeprefix("instance:")).kind == "class"
    for name in (*entry.dtype_from, *(name for name, _ in entry.given)):
        assert name in {param.name for param in entry.params}


# The installed MLX


def test_every_public_name_of_mlx_is_known() -> None:
    pytest.importorskip("mlx.core")
    missing = []
    for module in map(importlib.import_module, RUNTIME_MODULES):
        for name, value in vars_of(module):
            if mlx_api.lookup(f"{module.__name__}.{name}") is None:
                missing.append(f"{module.__name__}.{name}")
            elif isinstance(value, type):
                missing += unknown_members(f"{module.__name__}.{name}", value)
    assert missing == []


RUNTIME_MODULES = [
    *(f"mlx.core{name}" for name in ("", ".cuda", ".distributed", ".fast", ".fft", ".linalg")),
    *("mlx.core.metal", "mlx.core.random", "mlx.nn", "mlx.nn.init", "mlx.nn.losses"),
    *("mlx.nn.layers", "mlx.nn.utils", "mlx.optimizers", "mlx.optimizers.schedulers", "mlx.utils"),
]


def vars_of(module: types.ModuleType) -> list[tuple[str, Any]]:
    """The public names of a module that are MLX's own."""
    found = [(name, getattr(module, name)) for name in dir(module) if not name.startswith("_")]
    return [(name, value) for name, value in found if is_of_mlx(value, module)]


def is_of_mlx(value: Any, module: types.ModuleType) -> bool:
    if isinstance(value, types.ModuleType):
        return value.__name__.startswith("mlx")
    if module.__name__.startswith("mlx.core"):
        return True
    wrapped = inspect.unwrap(value) if callable(value) else value
    return (getattr(wrapped, "__module__", None) or "").startswith("mlx")


def unknown_members(name: str, cls: type) -> list[str]:
    bases = {member for base in (object, dict, type) for member in dir(base)}
    return [
        f"{name}.{member}"
        for member in dir(cls)
        if member not in bases
        and not member.startswith(("_", "name", "value"))
        and mlx_api.lookup(f"{name}.{member}") is None
    ]


def test_every_special_method_of_arrays_is_known() -> None:
    mx = pytest.importorskip("mlx.core")
    # Since Python 3.12 types that have a buffer show it under special names.
    others = {*dir(object), "__module__", "__buffer__", "__release_buffer__"}
    own = [name for name in dir(mx.array) if name not in others]
    assert [name for name in own if mlx_api.array_member(name) is None] == []
    assert len(own) > 110


@each_row("entry", ENTRIES, ids=lambda entry: entry.name)
def test_every_entry_is_in_mlx(entry: mlx_api.ApiEntry) -> None:
    mx = pytest.importorskip("mlx.core")
    if mx.__version__ != mlx_api.version():
        pytest.skip(f"the table describes MLX {mlx_api.version()}")
    owner, member = found_in_mlx(entry)
    if entry.kind == "property" and isinstance(owner, type) and not hasattr(owner, member):
        assert is_set_by_init(owner, member)
        return
    value = inspect.getattr_static(owner, member, None) or getattr(owner, member)
    is_class = isinstance(value, type)
    if entry.kind == "module":
        assert isinstance(value, types.ModuleType)
    elif entry.kind == "class":
        assert is_class
    elif entry.kind in {"function", "method"}:
        assert callable(getattr(owner, member))
        assert not is_class
    elif entry.kind == "dtype":
        assert isinstance(value, mx.Dtype)


def found_in_mlx(entry: mlx_api.ApiEntry) -> tuple[Any, str]:
    """The module or class that has the name, and the name in it."""
    parts = entry.name.split(".")
    owner: Any = importlib.import_module("mlx")
    if len(parts) == 1:
        return types.SimpleNamespace(mlx=owner), "mlx"
    for index, part in enumerate(parts[1:-1], start=2):
        owner = getattr(owner, part, None) or importlib.import_module(".".join(parts[:index]))
    if entry.kind == "module":
        importlib.import_module(entry.name)
    return owner, parts[-1]


def is_set_by_init(cls: type, name: str) -> bool:
    """Whether a class's source assigns `self.name`, alone or among others."""
    bases = (base for base in cls.__mro__ if base.__module__.startswith("mlx"))
    return any(f"self.{name}" in source_of(base) for base in bases)


source_of = functools.cache(inspect.getsource)


# The generator


def test_the_table_is_fresh() -> None:
    mx = pytest.importorskip("mlx.core")
    if mx.__version__ != mlx_api.version():
        pytest.skip(f"the table describes MLX {mlx_api.version()}")
    result = CliRunner().invoke(generate.main, ["--check"])
    assert result.exit_code == 0, result.output


def test_the_table_is_one_entry_a_line_in_order() -> None:
    lines = generate.TABLE.read_text("utf-8").splitlines()
    assert (lines[0], lines[-1]) == ("{", "}")
    names = [next(iter(json.loads("{" + line.rstrip(",") + "}"))) for line in lines[1:-1]]
    assert names == sorted(set(names))
    assert names == list(mlx_api.names())


def test_a_stale_table_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("mlx.core")
    table = tmp_path / "table.json"
    monkeypatch.setattr(generate, "TABLE", table)
    missing = CliRunner().invoke(generate.main, ["--check"])
    assert (missing.exit_code, "is stale: run python -m" in missing.output) == (1, True)
    assert CliRunner().invoke(generate.main, []).exit_code == 0
    table.write_text(table.read_text("utf-8").replace("array", "tree", 1), "utf-8")
    assert CliRunner().invoke(generate.main, ["--check"]).exit_code == 1


def test_no_mlx_is_a_clear_error(tmp_path: Path) -> None:
    result = CliRunner().invoke(generate.main, ["--check", "--mlx", str(tmp_path / "mlx")])
    assert result.exit_code == 1
    assert "no MLX with stubs found at" in result.output


def test_a_correction_of_what_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlx.core")
    correction = generate.Correction("array", "")
    monkeypatch.setitem(generate.corrections.LIES, "mlx.core.gone", correction)
    result = CliRunner().invoke(generate.main, ["--check"])
    assert result.exit_code == 1
    assert "correction of mlx.core.gone" in result.output


def test_reading_needs_no_mlx() -> None:
    """Neither the lookup nor the generator imports MLX."""
    code = (
        "import sys\n"
        "from embercoach.analysis import mlx_api as api\n"
        "from tests.api_table import generate as g\n"
        "assert api.lookup('mlx.core.exp')\n"
        "root, version = g._installed(None)\n"
        "assert g.build_table(root, version)\n"
        "assert not {'mlx', 'numpy', 'libcst'} & set(sys.modules), sys.modules.keys()"
    )
    pytest.importorskip("mlx.core")
    subprocess.run([sys.executable, "-c", code], check=True)


def function(source: str) -> ast.FunctionDef:
    node = ast.parse(source).body[0]
    assert isinstance(node, ast.FunctionDef)
    return node


def annotation(source: str) -> ast.expr:
    return ast.parse(source, mode="eval").body


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("Union[int, Tuple[int, ...]]", "union[int,shape]"),
        ("Tuple[mx.array, mx.array]", "tuple[array,array]"),
        ("dict[str, array]", "dict[str,array]"),
        ("list[mlx.core.array]", "list[array]"),
        ("Callable[[mx.array], mx.array]", "callable"),
        ("'Known'", "instance:a.Known"),
        ("array | Any", "unknown"),
        ("list", "list[unknown]"),
    ],
)
def test_result_annotations(source: str, result: str) -> None:
    found = result_of(annotation(source), {"Known": "a.Known"}.get)
    assert str(found) == result


@pytest.mark.parametrize(
    ("source", "kinds", "nullable"),
    [
        (
            "bool | int | float | array | Annotated[NDArray, 1] | complex | ArrayLike",
            "scalar|array",
            False,
        ),
        ("int | Sequence[int] | None", "ints", True),
        ("Optional[Dtype]", "dtype", True),
        ("Stream | ThreadLocalStream | Device | DeviceType | None", "stream", True),
        ("list[array]", "list[array]", False),
        ("dict[str, array]", "tree", False),
        ("Literal['a', 'b']", "str", False),
        ("Union[float, Callable[[mx.array], mx.array]]", "float|callable", False),
        ("array | Mystery", "any", False),
    ],
)
def test_parameter_annotations(source: str, kinds: str, nullable: bool) -> None:
    assert accepts_of(annotation(source)) == Accepts(kinds, nullable)


@pytest.mark.parametrize(
    ("default", "accepts"),
    [("-1", Accepts("int")), ("0.5", Accepts("float")), ("None", Accepts("any", True))],
)
def test_defaults_speak_for_unannotated_parameters(default: str, accepts: Accepts) -> None:
    assert accepts_of(None, annotation(default)) == accepts


def test_overloads_are_merged() -> None:
    first = function(
        "def f(start: int, stop: int | None, dtype: Dtype | None = None) -> array: ..."
    )
    second = function("def f(stop: float, dtype: Dtype = x, *, k: int = 0) -> int: ...")
    entries = [read_callable(node, lambda name: None) for node in (first, second)]
    merged = merge_overloads(*entries)
    assert str(merged.returns) == "union[array,int]"
    assert [(p.accepts.kinds, p.has_default) for p in merged.params[:2]] == [
        ("scalar", False),
        ("int|dtype", True),
    ]


@pytest.mark.parametrize(
    "text", ["", "arrays", "list[array", "list[]", "dict[str]", "set[int]", "instance:", "tuple[]"]
)
def test_broken_result_expressions_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="result expression"):
        parse_result(text)
