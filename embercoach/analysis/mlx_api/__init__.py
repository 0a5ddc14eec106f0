"""MLX's public API, known without importing MLX: what each name is, takes and returns.

The data is `table.json`, which `tests/api_table` writes from MLX's stubs and sources, corrected by
running them. Shapes are not in it: `analysis/shapes/table` computes them. The table is read on the first question and an entry is built when it is first asked for.

Results are expressions of the language in `result_expressions`. Dtype rules say what dtype an array result
has; where a result holds several arrays of different dtypes, rules joined by `;` say so in order:

    promote               promotion of the array arguments; Python numbers are weak
    same                  the dtype of the first argument, or of the owner of a method or property
    float                 as `promote`, then bool and integers become float32
    each                  result i has the dtype of argument i, a single result the first's
    from_value            that of the Python value or array: int32, float32, bool, complex64
    float32, bool, ...    always that dtype
    param:dtype=RULE      what the `dtype` argument says, by RULE where it is not passed
    unknown               it depends on weights or values
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

__all__ = [
    "ApiEntry",
    "Kind",
    "Param",
    "ParamKind",
    "array_member",
    "canonical",
    "is_layer",
    "is_module",
    "lookup",
    "member",
    "names",
    "version",
]

Kind = Literal["function", "class", "method", "property", "constant", "module", "dtype"]
ParamKind = Literal["positional_only", "normal", "keyword_only", "variadic", "keywords"]

_ARRAY = "mlx.core.array"
_MODULE = "mlx.nn.Module"


class Param(Struct, frozen=True):
    """A parameter.

    `accepts` is a set of kinds joined by `|`, of: `array`, `scalar` (a Python number), `int`,
    `ints` (an int or a sequence of them), `float`, `bool`, `str`, `dtype`, `stream`, `callable`,
    `list[array]`, `tree`, `any`. `nullable`: None is taken too. `expects_array`: MLX documents an
    array and nothing else, even where a Python number happens to work (`mx.exp(2.0)`), so that an
    argument of unknown type is all but surely an array.
    """

    name: str
    accepts: str
    has_default: bool
    kind: ParamKind
    nullable: bool
    expects_array: bool

    @property
    def takes_only_ints(self) -> bool:
        """Return whether the parameter takes ints: a shape, an axis, a count."""
        return self.accepts in {"int", "ints"}

    @property
    def takes_scalar_or_array(self) -> bool:
        """Return whether the parameter takes a Python number in place of an array."""
        return self.accepts == "scalar|array"


class ApiEntry(Struct, frozen=True):
    """Facts of one public name of MLX, under its canonical `name`.

    `returns` is the result of calling it, or the value of a property or constant; `given` holds
    (parameter, result) where passing that parameter changes the result. `call_returns` is the
    result of calling what it returns: a layer, a kernel, an initialiser. `wraps` names the
    parameter whose function a transform wraps. `dtype_from` names the parameters that a dtype rule
    is about, where these are not all; `dtype_exceptions` are (input, output) pairs that go before
    the rule (`integer` stands for bool and all integers, `unknown` for no knowledge).
    `real_only` names parameters that MLX refuses a complex64 array for (`self`: a method's owner).
    `bases` are the nearest public base classes within MLX.
    """

    name: str
    kind: Kind
    returns: str
    params: tuple[Param, ...] = ()
    call_returns: str | None = None
    sync: bool = False
    elementwise: bool = False
    dtype_rule: str = "unknown"
    dtype_from: tuple[str, ...] = ()
    dtype_exceptions: tuple[tuple[str, str], ...] = ()
    real_only: tuple[str, ...] = ()
    bases: tuple[str, ...] = ()
    given: tuple[tuple[str, str], ...] = ()
    wraps: str | None = None

    def param(self, name: str) -> Param | None:
        """Return the parameter of that name that can be passed by keyword, if any."""
        for param in self.params:
            if param.name == name and param.kind in {"normal", "keyword_only"}:
                return param
        return None

    def positional(self, index: int) -> Param | None:
        """Return the parameter that takes the positional argument at `index`, if any."""
        for place, param in enumerate(self.params):
            if param.kind == "variadic":
                return param
            if param.kind not in {"normal", "positional_only"}:
                return None
            if place == index:
                return param
        return None


def lookup(qualname: str) -> ApiEntry | None:
    """Return the entry of a public name, by any of its names; None where MLX has no such name.

    Inherited members are found under the derived class: `mlx.nn.Linear.parameters`.
    """
    name = _resolve(qualname)
    return None if name is None else _entry(name)


def member(owner: str, name: str) -> ApiEntry | None:
    """Return the entry of a member of a class or module, inherited ones included."""
    return lookup(f"{owner}.{name}")


def array_member(name: str) -> ApiEntry | None:
    """Return the entry of a method, property or special method of `mx.array`."""
    return lookup(f"{_ARRAY}.{name}")


def canonical(qualname: str) -> str:
    """The name under which users find a thing: `mlx.nn.layers.linear.Linear` -> `mlx.nn.Linear`.

    A name that MLX does not have is given back as it is.
    """
    return _resolve(qualname) or qualname


def is_module(qualname: str) -> bool:
    """Return whether the name is a module or package of MLX."""
    name = _resolve(qualname)
    return name is not None and _table()[name]["kind"] == "module"


@cache
def is_layer(qualname: str) -> bool:
    """Return whether the name is a class derived from `nn.Module`, not itself."""
    name = _resolve(qualname)
    if name is None:
        return False
    bases = _table()[name].get("bases", ())
    return any(base == _MODULE or is_layer(base) for base in bases)


def names() -> tuple[str, ...]:
    """Return every name in the table, aliases among them, in order."""
    return tuple(_table())


def version() -> str:
    """Return the version of MLX that the table describes."""
    return str(_table()["mlx"]["version"])


@cache
def _table() -> dict[str, dict[str, Any]]:
    text = Path(__file__).with_name("table.json").read_bytes()
    table: dict[str, dict[str, Any]] = json.loads(text)
    return table


@cache
def _resolve(qualname: str) -> str | None:
    """Return the name of the row that describes `qualname`."""
    table = _table()
    row = table.get(qualname)
    if row is not None:
        return _resolve(row["alias"]) if "alias" in row else qualname
    owner, _, name = qualname.rpartition(".")
    home = _resolve(owner) if owner else None
    if home is None:
        return None
    if home != owner:
        return _resolve(f"{home}.{name}")
    exported = _exports(home).get(name)
    if exported is not None:
        return _resolve(exported)
    for base in table[home].get("bases", ()):
        inherited = _resolve(f"{base}.{name}")
        if inherited is not None:
            return inherited
    return None


@cache
def _exports(module: str) -> dict[str, str]:
    """Return names that a module has from elsewhere; written `own=name` where they differ."""
    found = {}
    for home, text in _table()[module].get("exports", {}).items():
        for item in text.split():
            own, _, name = item.partition("=")
            found[name or own] = f"{home}.{own}"
    return found


@cache
def _entry(name: str) -> ApiEntry:
    row = _table()[name]
    return ApiEntry(
        name=name,
        kind=row["kind"],
        returns=row.get("returns", "module"),
        params=_params(row.get("params", "")),
        call_returns=row.get("call_returns"),
        sync=row.get("sync", False),
        elementwise=row.get("elementwise", False),
        dtype_rule=row.get("dtype", "unknown"),
        dtype_from=tuple(row.get("dtype_from", ())),
        dtype_exceptions=tuple(row.get("dtype_exceptions", {}).items()),
        real_only=tuple(row.get("real_only", ())),
        bases=tuple(row.get("bases", ())),
        given=tuple(row.get("given", {}).items()),
        wraps=row.get("wraps"),
    )


def _params(text: str) -> tuple[Param, ...]:
    """Parse Python's own notation: `a:array,/,axis:ints?=,*,stream:stream?=`."""
    if not text:
        return ()
    parts = text.split(",")
    last_positional_only = parts.index("/") if "/" in parts else -1
    params: list[Param] = []
    keyword_only = False
    for index, part in enumerate(parts):
        kind: ParamKind = "keyword_only" if keyword_only else "normal"
        if index < last_positional_only:
            kind = "positional_only"
        if part in {"*", "/"}:
            keyword_only = part == "*"
            continue
        if part.startswith("**"):
            kind = "keywords"
        elif part.startswith("*"):
            kind, keyword_only = "variadic", True
        params.append(_param(part.lstrip("*"), kind))
    return tuple(params)


def _param(text: str, kind: ParamKind) -> Param:
    """`name:kinds`, then `*` (numbers are taken too), `?` (None is), `=` (has a default)."""
    name, _, accepts = text.partition(":")
    has_default = accepts.endswith("=") or kind in {"variadic", "keywords"}
    accepts = accepts.rstrip("=")
    nullable = accepts.endswith("?")
    accepts = accepts.rstrip("?")
    expects_array = accepts in {"array", "array*"}
    accepts = "scalar|array" if accepts == "array*" else accepts
    return Param(name, accepts, has_default, kind, nullable, expects_array)
