"""``embercoach port``: kernels with a full signature as a Python module for MLX."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from embercoach.metal.porting.entry_points import PortError
    from embercoach.metal.porting.flat_texts import Read
    from embercoach.metal.porting.port_arguments import ArrayRole
    from embercoach.metal.porting.ported_modules import PortedFile


@click.command("port")
@click.argument("file", type=click.Path(path_type=str))
@click.option("--kernel", "kernels", multiple=True, metavar="NAME", help="Port this kernel only.")
@click.option("--input", "inputs", multiple=True, metavar="NAME", help="This array is only read.")
@click.option(
    "--output",
    "outputs",
    multiple=True,
    metavar="NAME",
    help="The kernel fills this array: MLX makes a new one.",
)
@click.option(
    "--update",
    "updates",
    multiple=True,
    metavar="NAME",
    help="The kernel changes values of this array: MLX returns a changed copy.",
)
@click.option(
    "-o",
    "--output-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the module to this file (default: standard output).",
)
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
def command(
    file: str,
    kernels: tuple[str, ...],
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    updates: tuple[str, ...],
    output_file: Path | None,
    force: bool,
) -> None:
    """Port kernels of a .metal FILE to mx.fast.metal_kernel, as a Python module.

    Each `kernel void f(...)` becomes a body with its header, inputs and outputs, and a function
    that launches it. What a kernel does with an array that is not const decides between input,
    output and update; --input, --output and --update decide otherwise. Kernels that cannot be
    ported are listed, and the exit code is 1.
    """
    from embercoach.cli.entry import UserError
    from embercoach.metal.porting.entry_points import PortError
    from embercoach.report.styled import print_lines

    roles: dict[str, ArrayRole] = {
        **dict.fromkeys(inputs, "input"),
        **dict.fromkeys(outputs, "output"),
        **dict.fromkeys(updates, "updated"),
    }
    if len(roles) < len({*inputs}) + len({*outputs}) + len({*updates}):
        raise click.UsageError("an array must be one of --input, --output and --update")
    try:
        ported = _ported(file, kernels, roles)
    except PortError as error:
        raise UserError(_shown(file, error)) from error
    if output_file is None:
        print_lines(([(line, "")] for line in ported.module.splitlines()), sys.stdout)
    else:
        _write(output_file, ported.module, force=force)
    if ported.refused:
        lines = [f"not ported: {name}: {_shown(file, e)}" for name, e in ported.refused.items()]
        print_lines(([(line, "")] for line in lines), sys.stderr)
        raise click.exceptions.Exit(1)


def _shown(file: str, error: PortError) -> str:
    return f"{error.file or file}:{error.line}:{error.column}: {error}"


def _ported(file: str, kernels: tuple[str, ...], roles: dict[str, ArrayRole]) -> PortedFile:
    from embercoach.cli.entry import UserError
    from embercoach.cli.python_file import read_source
    from embercoach.engine.languages import METAL, language_of
    from embercoach.metal.porting.ported_modules import ported_file
    from embercoach.metal.program.written_facts import read_unit
    from embercoach.metal.syntax_errors import syntax_fault

    if language_of(file) != METAL:
        raise UserError(f"FILE must be a .metal file, got {file}")
    source, _ = read_source(file, METAL)
    fault = syntax_fault(read_unit(source))
    if fault is not None:
        raise UserError(f"{file}:{fault.place.line}:{fault.place.column}: {fault.message}")
    return ported_file(source, kernels, roles, reader(Path(file)))


def reader(file: Path) -> Read:
    """Return the function that reads what a file includes, within its checkout."""
    from embercoach.files import boundary, read_text

    folder = str(file.absolute().parent)
    root = boundary(folder) or folder

    def read(includer: str, target: str) -> tuple[str, str] | None:
        path = os.path.normpath(Path(includer or file).parent / target)
        try:
            return path, read_text(path, root=root)
        except (OSError, ValueError):
            return None

    return read


def _write(path: Path, module: str, *, force: bool) -> None:
    from embercoach.cli.entry import UserError
    from embercoach.files import refuse_links
    from embercoach.fixes.writing import create_file, replace_file

    data = module.encode()
    try:
        refuse_links(path)
        if force and path.exists():
            replace_file(path, data)
        else:
            create_file(path, data)
    except FileExistsError as error:
        raise UserError(f"{path} exists: pass --force to replace it") from error
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error
