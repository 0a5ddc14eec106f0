"""The place of a kernel's line in Python code."""

from __future__ import annotations

import ast
import sys
import tokenize
import warnings
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.simulator.model import KernelFinding

#: What a module that builds kernels holds.
MARK = b"metal_kernel"


class LineSpan(NamedTuple):
    """A part of a line of a file; columns from 1, the end exclusive."""

    path: str
    line: int
    column: int
    end_column: int


class _Text(NamedTuple):
    """A string literal's first and last line, and the kernels that are built with it by name."""

    first: int
    last: int
    kernel: str | None


def place_of(finding: KernelFinding) -> LineSpan | None:
    """The line of a kernel's source in the Python file that holds it.

    It is known where one string literal alone has that text on that line of it: sources that are
    put together from pieces or read from a file are not found. A first line alone proves little:
    of another module than the launch's it counts only if the literal is given with the name.
    """
    if finding.line is None or not finding.excerpt or finding.part == "generated":
        return None
    found = [pair for path in _candidates(finding) for pair in _in_file(path, finding)]
    near = finding.launched_at[0] if finding.launched_at is not None else None
    named = [place for place, own in found if own]
    places = named or [place for place, _ in found if finding.line > 1 or place.path == near]
    return places[0] if len(set(places)) == 1 else None


def _candidates(finding: KernelFinding) -> Iterator[str]:
    """The file of the launch, and those of the imported modules that build kernels."""
    seen = set()
    if finding.launched_at is not None:
        seen.add(finding.launched_at[0])
        yield finding.launched_at[0]
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and path.endswith(".py") and path not in seen:
            seen.add(path)
            if _builds_kernels(path):
                yield path


def _in_file(path: str, finding: KernelFinding) -> Iterator[tuple[LineSpan, bool]]:
    lines, texts = _read(path)
    assert finding.line is not None
    for text in texts:
        number = text.first + finding.line - 1
        if number > text.last or text.kernel not in (None, finding.kernel):
            continue
        column = lines[number - 1].find(finding.excerpt) + 1
        if column:
            end = column + len(finding.excerpt)
            yield LineSpan(path, number, column, end), text.kernel is not None


@lru_cache(maxsize=256)
def _builds_kernels(path: str) -> bool:
    try:
        return MARK in Path(path).read_bytes()
    except OSError:
        return False


@lru_cache(maxsize=64)
def _read(path: str) -> tuple[list[str], list[_Text]]:
    """A file's lines and its string literals."""
    try:
        with tokenize.open(path) as file:
            source = file.read()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the user has seen those of the file's own compilation
            tree = ast.parse(source)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return [], []
    texts = list(_texts(tree, None))
    return source.split("\n"), texts


def _texts(node: ast.AST, kernel: str | None) -> Iterator[_Text]:
    if isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    ):
        yield _Text(node.lineno, node.end_lineno or node.lineno, kernel)
        return
    if isinstance(node, ast.Call):
        kernel = _name_given(node) or kernel
    for child in ast.iter_child_nodes(node):
        yield from _texts(child, kernel)


def _name_given(call: ast.Call) -> str | None:
    """The name that a call of ``metal_kernel`` gives its kernel, if it is written out."""
    function = call.func
    called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if called != "metal_kernel":
        return None
    for name in [word.value for word in call.keywords if word.arg == "name"] or call.args[:1]:
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            return name.value
    return None
