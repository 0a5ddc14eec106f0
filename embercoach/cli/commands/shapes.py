"""``embercoach shapes``: a program with the shapes of its arrays."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from embercoach.cli import shared_options

if TYPE_CHECKING:
    from embercoach.checks import Project
    from embercoach.engine.name_shapes import NameShape
    from embercoach.fixes.source_file import LineIndex
    from embercoach.report.styled import Line


@click.command("shapes")
@click.argument("file", type=click.Path(path_type=str), metavar="FILE[:LINE]")
@shared_options.output_format("text", "json")
def command(file: str, output_format: str) -> None:
    """Print a Python FILE with the shape and dtype of each array that it assigns.

    Shapes are inferred without running the program: `B` and `S` are sizes that it names, `?` is a
    size that is not known, and `...` are axes that are not known. With a line, such as
    `model.py:12`, only that line is printed, and where its arrays are made.
    """
    from embercoach.cli.array_shapes import document
    from embercoach.cli.entry import UserError
    from embercoach.cli.place import place_of, require_line
    from embercoach.cli.python_file import analysed_file
    from embercoach.engine.inspection import python_error
    from embercoach.fixes.source_file import LineIndex
    from embercoach.report.styled import print_lines
    from embercoach.terminal_text import json_text

    line = None
    if file.rpartition(":")[2].isdecimal():
        place = place_of(file)
        if place.column is not None or place.cell is not None:
            raise click.UsageError(f"invalid location '{file}': use FILE or FILE:LINE")
        file, line = place.file, place.line
    source, shapes = analysed_file(file, _shapes)
    if not shapes and (problem := python_error(source)) is not None:
        at, column, message = problem
        raise UserError(f"{file}:{at}:{column}: the running Python can't read this: {message}")
    index = LineIndex(source)
    if line is not None:
        require_line(line, index, file)
        shapes = tuple(one for one in shapes if one.line == line)
    if output_format == "json":
        arrays = [document(one) for one in shapes]
        click.echo(json_text({"version": 1, "path": file, "line": line, "arrays": arrays}))
    else:
        print_lines(_lines(file, line, shapes, index), sys.stdout)


def _shapes(source: str, path: Path, project: Project) -> tuple[NameShape, ...]:
    from embercoach.engine.name_shapes import name_shapes

    return name_shapes(source, path, project)


def _lines(
    file: str, line: int | None, shapes: tuple[NameShape, ...], index: LineIndex
) -> list[Line]:
    from embercoach.cli.array_shapes import maker_lines, program_lines

    if not shapes:
        where = file if line is None else f"{file}:{line}"
        return [[(f"No arrays are known in {where}.", "")]]
    if line is None:
        return [*program_lines(shapes, index, range(1, index.count + 1))]
    return [*program_lines(shapes, index, [line]), *maker_lines(shapes, index)]
