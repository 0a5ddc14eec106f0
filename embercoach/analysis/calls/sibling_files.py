"""Files in the folder of the current one, read by a path made of ``__file__``.

Some kernels have separate files: ``Path(__file__).with_name("k.metal").read_text()``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from embercoach.analysis.values.facts import Argument, first_value
from embercoach.analysis.values.lattice import (
    STR,
    UNKNOWN,
    BoundMember,
    FilePath,
    Piece,
    ReadFile,
    Str,
    Value,
)
from embercoach.analysis.values.strings import MAX_FOLDED
from embercoach.files import read_text

if TYPE_CHECKING:
    import libcst as cst

    from embercoach.analysis.evaluate.frame import Frame

Arguments = tuple["Argument", ...]


def member(frame: Frame, owner: FilePath, name: str) -> Value:
    """``path.parent``, and the methods of paths and of opened files."""
    if name == "parent" and not owner.is_open:
        return FilePath(owner.path.parent)
    return BoundMember(owner, name)


def method(frame: Frame, owner: FilePath, name: str, arguments: Arguments) -> Value:
    """Return the result of a method of a path, or of an opened file."""
    if owner.is_open:
        return _read(frame, owner.path) if name == "read" and not arguments else UNKNOWN
    if name == "read_text":
        return _read(frame, owner.path) if _reads_text(arguments, 0) else STR
    if name in ("resolve", "absolute"):
        return owner
    if name == "open":
        return _opened(owner, arguments)
    texts = [_text(a) for a in arguments]
    known = [t for t in texts if t is not None]
    if len(known) < len(texts):
        return UNKNOWN
    try:
        if name == "joinpath":
            return FilePath(owner.path.joinpath(*known))
        if name in ("with_name", "with_suffix", "with_stem") and len(known) == 1:
            return FilePath(getattr(owner.path, name)(known[0]))
    except ValueError:  # a name that no file has
        return UNKNOWN
    return UNKNOWN


def _text(argument: Argument) -> str | None:
    if argument.star or argument.keyword is not None or not isinstance(argument.value, Str):
        return None
    return argument.value.text


def below(owner: FilePath, right: Value) -> Value:
    """``path / "name"``."""
    text = right.text if isinstance(right, Str) else None
    return UNKNOWN if text is None or owner.is_open else FilePath(owner.path / text)


def made(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    """``Path(path, ...)`` and ``os.path.join(path, ...)``."""
    first = first_value(arguments)
    if not isinstance(first, FilePath) or first.is_open:
        return UNKNOWN
    return method(frame, first, "joinpath", arguments[1:])


def folder(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    """``os.path.dirname(path)``."""
    first = arguments[0].value if len(arguments) == 1 else UNKNOWN
    return member(frame, first, "parent") if isinstance(first, FilePath) else UNKNOWN


def same(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    """``os.path.abspath(path)``, ``os.fspath(path)``."""
    first = arguments[0].value if len(arguments) == 1 else UNKNOWN
    return first if isinstance(first, FilePath) else UNKNOWN


def opened(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    """``open(path)``."""
    first = first_value(arguments)
    return _opened(first, arguments[1:]) if isinstance(first, FilePath) else UNKNOWN


def _opened(path: FilePath, arguments: Arguments) -> Value:
    return FilePath(path.path, is_open=True) if _reads_text(arguments, 1) else UNKNOWN


def _reads_text(arguments: Arguments, modes: int) -> bool:
    """Return whether a file is opened as text; the first arguments are the mode."""
    places = [a for a in arguments if a.keyword is None]
    allowed = {"encoding": ("utf-8", "utf8", "UTF-8", "ascii"), "mode": ("r", "rt")}
    if any(a.star for a in arguments) or len(places) > modes:
        return False
    texts = {a.keyword or "mode": a.value for a in arguments}
    return all(
        key in allowed and isinstance(value, Str) and value.text in allowed[key]
        for key, value in texts.items()
    )


def _read(frame: Frame, path: Path) -> Value:
    """Return the text of a file inside the project; the findings of this file now depend on it."""
    module = frame.module
    module.dependencies.add(str(path))
    try:
        root = module.project.boundaries(module.path.parent).texts
        text = read_text(path, limit=MAX_FOLDED, root=root)
    except (OSError, ValueError):
        return STR
    return Str((Piece(text, ReadFile(str(path), text)),)) if text else Str(())
