"""Writes the table of MLX's public API from an installed MLX, which it reads but never imports.

    python -m embercoach.analysis.mlx_api.generate [--check] [--mlx PATH]

Raw entries come from `sources`, then `corrections` and `behaviour` are merged in. `--check` writes
nothing and fails where the table is stale. A correction of a name that MLX does not have is an
error: a new MLX is looked at, not guessed.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from embercoach.analysis.mlx_api import behaviour, corrections
from embercoach.analysis.mlx_api.corrections import Correction
from embercoach.analysis.mlx_api.result_expressions import Result, parse_result
from embercoach.analysis.mlx_api.stub_annotations import Accepts
from embercoach.analysis.mlx_api.stub_signatures import RawEntry, RawParam
from embercoach.analysis.mlx_api.stub_sources import StubSources, read_sources

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLE = Path(__file__).with_name("table.json")
_MARKERS = {"variadic": "*", "keywords": "**"}

Row = dict[str, object]


class GenerationError(Exception):
    """A correction does not fit the MLX that was read, or no MLX was found."""


def build_table(root: Path, version: str) -> dict[str, Row]:
    """All rows by qualified name, from the MLX package at `root`; `version` goes into the table."""
    sources = read_sources(root)
    sources.aliases.update(corrections.ALIASES)
    for alias in corrections.ALIASES:
        del sources.entries[alias]
    extra = _corrected(sources)
    expects = _correct_params(sources.entries)
    rules = _dtype_rules(sources.entries)
    elementwise = _elementwise(sources.entries)
    sync = {f"mlx.{name}" for name in behaviour.SYNC.split()}
    real_only = _real_only(sources.entries)
    _require_known(sources.entries, {*sync, *elementwise, *rules, *real_only})
    rows: dict[str, Row] = {"mlx": {"kind": "module", "version": version}}
    for name, entry in sources.entries.items():
        row = _row(entry, expects.get(name, False))
        row.update(extra.get(name, {}))
        call = sources.entries.get(f"{name}.__call__")
        if entry.kind == "class" and call:
            row["call_returns"] = str(call.returns)
        if name in rules and _gives_arrays(entry.returns):
            row.update(_dtype_fields(rules[name]))
        if name in real_only:
            row["real_only"] = real_only[name]
        if name in sync:
            row["sync"] = True
        if name in elementwise:
            row["elementwise"] = True
        if name in sources.exports:
            row["exports"] = _grouped(sources.exports[name])
        rows[name] = row
    rows.update({name: {"alias": target} for name, target in sources.aliases.items()})
    return dict(sorted(rows.items()))


def render(rows: dict[str, Row]) -> str:
    """The table as JSON, one entry a line."""
    lines = (f"{json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _corrected(sources: StubSources) -> dict[str, Row]:
    """Put the corrected results into the entries; the further fields they bring, by name."""
    entries = sources.entries
    extra: dict[str, Row] = {}
    for name, correction in _all_corrections(entries):
        if correction.kind:
            params = [
                RawParam(param, Accepts(kinds), False, "positional_only")
                for param, kinds in correction.params
            ]
            entries[name] = RawEntry(correction.kind, params=params)
        if name not in entries:
            raise GenerationError(f"correction of {name}, which this MLX does not have")
        entries[name].returns = parse_result(correction.returns)
        row: Row = {}
        if correction.given:
            row["given"] = {param: returns for param, returns, _ in correction.given}
        if correction.wraps:
            row["wraps"] = correction.wraps
        if correction.call_returns:
            row["call_returns"] = correction.call_returns
        extra[name] = row
    return extra


def _all_corrections(entries: dict[str, RawEntry]) -> Iterator[tuple[str, Correction]]:
    for table in (corrections.LIES, corrections.REFINEMENTS, corrections.GAPS):
        yield from table.items()
    layers = {
        **dict.fromkeys(corrections.ARRAY_LAYERS.split(), "array"),
        **corrections.OTHER_LAYERS,
    }
    for layer, returns in layers.items():
        yield f"mlx.nn.{layer}.__call__", Correction(returns, "")
    for function in corrections.ARRAY_FUNCTIONS.split():
        yield f"mlx.nn.{function}", Correction("array", "")
    for name, returns in corrections.ATTRIBUTES.items():
        yield name, Correction(returns, "", kind="property")
    for name, returns in corrections.MAKERS.items():
        yield name, Correction("callable", "", call_returns=returns)
    for name in list(entries):
        method = corrections.OPTIMIZER_METHODS.get(name.rpartition(".")[2])
        if method and name.startswith("mlx.optimizers."):
            yield name, Correction(method, "")


def _correct_params(entries: dict[str, RawEntry]) -> dict[str, bool]:
    """Correct what parameters take; says of which entries the array parameters take numbers too."""
    for name, entry in entries.items():
        for prefix, known in corrections.PARAMETERS.items():
            if name.startswith(prefix) and name not in corrections.NOT_ARRAYS:
                entry.params = [_typed(param, known) for param in entry.params]
    lenient = {f"mlx.{name}" for name in corrections.NUMBERS_TOO.split()} - set(corrections.ALIASES)
    _require_known(entries, lenient)
    return dict.fromkeys(lenient, True)


def _typed(param: RawParam, known: dict[str, str]) -> RawParam:
    kinds = known.get(param.name)
    if kinds is None or param.accepts.kinds != "any":
        return param
    nullable = param.accepts.nullable or kinds.endswith("?")
    return replace(param, accepts=Accepts(kinds.rstrip("?"), nullable))


def _dtype_rules(entries: dict[str, RawEntry]) -> dict[str, str]:
    """Dtype rules by qualified name: those given, and those of methods and layers that follow."""
    rules: dict[str, str] = {}
    for rule, names in behaviour.DTYPE_RULES.items():
        rules.update({f"mlx.{name}": rule for name in names.split()})
    for name, entry in entries.items():
        if name in rules:
            continue
        if rule := rules.get(_same_function(name, entry), ""):
            has_dtype = any(param.name == "dtype" for param in entry.params)
            rules[name] = rule if has_dtype else rule.removeprefix("param:dtype=")
    return rules


def _elementwise(entries: dict[str, RawEntry]) -> set[str]:
    names = {f"mlx.{name}" for name in behaviour.ELEMENTWISE.split()}
    methods = {name for name, entry in entries.items() if _same_function(name, entry) in names}
    return names | methods


def _real_only(entries: dict[str, RawEntry]) -> dict[str, list[str]]:
    """The parameters that take no complex array: those given, and those of methods and layers."""
    found = {}
    for item in behaviour.REAL_ONLY.split():
        name, _, params = item.partition("(")
        found[f"mlx.{name}"] = params.rstrip(")").split(",")
    _require_known(entries, set(found))
    for name, entry in entries.items():
        function = _same_function(name, entry)
        if function in found and name not in found:
            own = [param.name for param in entry.params]
            own = own if entry.like else ["self", *own]
            order = [param.name for param in entries[function].params]
            found[name] = [own[order.index(param)] for param in found[function]]
    return found


def _same_function(name: str, entry: RawEntry) -> str:
    """The function of `mlx.core` or `mlx.nn` that a method of arrays, or a layer, applies."""
    owner, _, member = name.rpartition(".")
    if entry.like:
        like = entry.like
        return f"mlx.core.{like[3:]}" if like.startswith("mx.") else f"mlx.nn.{like}"
    if owner != "mlx.core.array":
        return ""
    if not member.startswith("__"):
        return f"mlx.core.{member}"
    operator = member.strip("_")
    for candidate in (operator, operator[1:] if operator[:1] in {"i", "r"} else operator):
        if candidate in behaviour.OPERATORS:
            return f"mlx.core.{behaviour.OPERATORS[candidate]}"
    return ""


def _dtype_fields(text: str) -> Row:
    """The fields of a rule as `behaviour` writes it: `promote(x,y),bool:int32`."""
    match = re.fullmatch(r"([\w:;=]+?)(?:\(([\w,]+)\))?((?:,\w+:\w+)*)", text)
    if match is None:
        raise GenerationError(f"not a dtype rule: {text}")
    rule, sources, exceptions = match.groups()
    row: Row = {"dtype": rule}
    if sources:
        row["dtype_from"] = sources.split(",")
    if exceptions:
        row["dtype_exceptions"] = dict(item.split(":") for item in exceptions[1:].split(","))
    return row


def _gives_arrays(returns: Result) -> bool:
    return returns.head in {"array", "same"} or any(_gives_arrays(item) for item in returns.items)


def _row(entry: RawEntry, numbers_too: bool) -> Row:
    row: Row = {"kind": entry.kind}
    if entry.kind != "module":
        row["returns"] = str(entry.returns)
    if entry.params:
        row["params"] = ",".join(_written_params(entry.params, numbers_too))
    if entry.bases:
        row["bases"] = entry.bases
    return row


def _written_params(params: list[RawParam], numbers_too: bool) -> Iterator[str]:
    """Parameters in Python's own notation: `a:array,/,axis:ints?=,*,stream:stream?=`."""
    previous = ""
    for param in params:
        if previous == "positional_only" != param.kind:
            yield "/"
        if param.kind == "keyword_only" and previous not in {"keyword_only", "variadic"}:
            yield "*"
        previous = param.kind
        marks = "*" if numbers_too and "array" in param.accepts.kinds.split("|") else ""
        marks += "?" if param.accepts.nullable else ""
        default = "=" if param.has_default and param.kind not in _MARKERS else ""
        name = _MARKERS.get(param.kind, "") + param.name
        yield f"{name}:{param.accepts.kinds}{marks}{default}"
    if previous == "positional_only":
        yield "/"


def _grouped(exports: dict[str, str]) -> dict[str, str]:
    """Names by the module they live in; `as` where the name differs: `core as mx`."""
    groups: dict[str, list[str]] = {}
    for name, target in sorted(exports.items()):
        module, _, own = target.rpartition(".")
        groups.setdefault(module, []).append(name if name == own else f"{own}={name}")
    return {module: " ".join(names) for module, names in sorted(groups.items())}


def _require_known(entries: dict[str, RawEntry], names: set[str]) -> None:
    if unknown := sorted(names - set(entries)):
        raise GenerationError(f"this MLX does not have {', '.join(unknown)}")


def _installed(path: Path | None) -> tuple[Path, str]:
    """The package's folder and version: at `path`, or where this Python finds MLX."""
    finder = [str(path.parent)] if path else sys.path
    for distribution in importlib.metadata.distributions(name="mlx", path=finder):
        root = Path(str(distribution.locate_file("mlx")))
        if (root / "core" / "__init__.pyi").is_file():
            return root, distribution.version
    raise GenerationError(f"no MLX with stubs found {f'at {path}' if path else 'on sys.path'}")


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; fail if the table is stale.")
@click.option("--mlx", type=click.Path(path_type=Path), help="The mlx package's folder.")
def main(check: bool, mlx: Path | None) -> None:
    """Write the table of MLX's public API, from the installed MLX or the one at --mlx."""
    try:
        root, version = _installed(mlx)
        text = render(build_table(root, version))
    except (GenerationError, OSError) as error:
        raise click.ClickException(str(error)) from error
    if not check:
        TABLE.write_text(text, "utf-8")
        click.echo(f"{TABLE}: {len(text.splitlines()) - 2} names of MLX {version}")
    elif not TABLE.is_file() or TABLE.read_text("utf-8") != text:
        raise click.ClickException(f"{TABLE} is stale: run python -m {__spec__.name}")


if __name__ == "__main__":
    main()
