"""``embercoach dev``: commands for people who write rules; the help page does not list them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from embercoach.terminal_text import quoted

if TYPE_CHECKING:
    from embercoach.analysis.expression_values import ExpressionValue
    from embercoach.analysis.values.lattice import Value
    from embercoach.checks import Project
    from embercoach.report.styled import Line

#: Levels of values in values, and items of each, that are shown.
DEPTH = 3
MOST_ITEMS = 8
#: Fields of values that only the analysis uses.
HIDDEN = frozenset(("choice", "module", "pieces", "pulls", "weight"))


@click.group("dev")
def command() -> None:
    """Commands for writing rules."""


@command.command("facts")
@click.argument("file", type=click.Path(path_type=str))
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Output format.",
)
def facts(file: str, output_format: str) -> None:
    """Print what the analysis knows of each expression of a Python FILE.

    Kernel builders are those of the file's configuration.
    """
    from embercoach.cli.python_file import analysed_file
    from embercoach.report.styled import print_lines
    from embercoach.terminal_text import json_text

    _, known = analysed_file(file, _expressions)
    if output_format == "json":
        click.echo(json_text([_document(one) for one in known]))
    else:
        print_lines(_lines(known), sys.stdout)


def _expressions(source: str, path: Path, project: Project) -> list[ExpressionValue]:
    from embercoach.analysis.expression_values import expressions
    from embercoach.analysis.syntax.parse import reading

    with reading(source):
        return expressions(project.open(path, source))


def _lines(known: Iterable[ExpressionValue]) -> Iterator[Line]:
    for one in known:
        start, source = one.span, " ".join(one.source.split())
        yield [
            (f"{start.line}:{start.column + 1}", "path"),
            (f"  {quoted(source)}", "code"),
            (f"  {_words(_described(one.value))}", ""),
        ]


def _document(one: ExpressionValue) -> dict[str, Any]:
    line, column, end_line, end_column = one.span
    return {
        "line": line,
        "column": column + 1,
        "end_line": end_line,
        "end_column": end_column + 1,
        "source": one.source,
        "value": _described(one.value),
    }


def _described(value: Value, depth: int = DEPTH) -> dict[str, Any]:
    """Return the type of a value and its fields that differ from their defaults."""
    found: dict[str, Any] = {"type": type(value).__name__}
    names = value.__struct_fields__
    defaults = dict(zip(names[::-1], value.__struct_defaults__[::-1], strict=False))
    for name in names:
        content = getattr(value, name)
        if name not in HIDDEN and content not in (None, defaults.get(name)):
            found[name] = _plain(content, depth)
    return found


def _plain(content: Any, depth: int) -> Any:
    from embercoach.analysis.values.lattice import Value

    if isinstance(content, Value):
        return _described(content, depth - 1) if depth else {"type": type(content).__name__}
    if isinstance(content, tuple | frozenset):
        return [_plain(item, depth) for item in [*content][:MOST_ITEMS]]
    if content is None or isinstance(content, bool | int | str):
        return content
    if isinstance(content, float | complex | Path):
        return str(content)
    return getattr(content, "name", type(content).__name__)


def _words(described: dict[str, Any]) -> str:
    name, *fields_ = described.items()
    texts = [f"{key}={_shown(content)}" for key, content in fields_]
    return f"{name[1]}({', '.join(texts)})" if texts else str(name[1])


def _shown(content: Any) -> str:
    if isinstance(content, dict):
        return _words(content)
    if isinstance(content, list):
        return f"[{', '.join(map(_shown, content))}]"
    return quoted(str(content))
