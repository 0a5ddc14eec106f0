"""A file that a command analyses: read within the limits, on a deep stack, or an error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from embercoach.analysis.work import WorkExceededError
from embercoach.checks import Project, SyntaxProblem
from embercoach.cli.entry import UserError
from embercoach.config import Settings, load
from embercoach.engine.budget import size_problem
from embercoach.engine.inspection import python_error
from embercoach.engine.languages import PYTHON, Language, language_of
from embercoach.engine.workers import run_deep
from embercoach.files import read_bytes
from embercoach.fixes.source_file import DecodingError, decode

if TYPE_CHECKING:
    from embercoach.kernel_builder import KernelBuilder

    #: Takes a source, its absolute path and its project.
    Analyse = Callable[[str, Path, Project], "T"]

T = TypeVar("T")


def analysed_file(file: str, analyse: Analyse[T]) -> tuple[str, T]:
    """Return the source of a file, and what a function finds in it.

    Raises:
        UserError: it is not a Python file, cannot be read or parsed, or exceeds a limit.
        ConfigError: its configuration has an error.
    """
    if Path(file).is_dir():
        raise UserError(f"FILE must be a file, got the folder {file}")
    if language_of(file) != PYTHON:
        raise UserError(f"FILE must be a Python file, got {file}")
    source, settings = read_source(file, PYTHON)
    try:
        return source, analysed(source, file, settings.kernel_builders, analyse)
    except SyntaxProblem as error:
        line, column, message = python_error(source) or (error.line, error.column, error.message)
        raise UserError(f"{file}:{line}:{column}: {message}") from error
    except WorkExceededError as error:
        raise UserError(f"{file}: analysis exceeded its budget: {error}") from error


def read_source(file: str, language: Language) -> tuple[str, Settings]:
    """Return the source of a file within the limits, and its settings.

    Raises:
        UserError: it cannot be read or decoded, or is too large.
        ConfigError: its configuration has an error.
    """
    (scope,) = load((file,))
    try:
        data = read_bytes(file)
        message = size_problem(len(data), language, scope.settings.max_file_size)
        if message is not None:
            raise UserError(f"{file}: {message}")
        return decode(data).text, scope.settings
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror or error}") from error
    except DecodingError as error:
        raise UserError(f"{file}:{error}") from error


def analysed(source: str, file: str, builders: tuple[KernelBuilder, ...], analyse: Analyse[T]) -> T:
    """Call a function with a source, in a thread whose stack suffices for it.

    Raises:
        Exception: what the function raises.
    """
    results: list[T | Exception] = []

    def work() -> None:
        try:
            results.append(analyse(source, Path(file).absolute(), Project(builders)))
        except Exception as error:  # noqa: BLE001  (raised again below, in the main thread)
            results.append(error)

    thread = run_deep(work, len(source))
    if thread is not None:
        thread.join()
    (result,) = results
    if isinstance(result, Exception):
        raise result
    return result
