"""The language of a file, by its suffix."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Literal

from embercoach.notebooks import SUFFIX as NOTEBOOK_SUFFIX

if TYPE_CHECKING:
    from embercoach.kernel_builder import KernelBuilder

Language = Literal["python", "notebook", "metal", "objective-c"]

PYTHON: Language = "python"
#: Cells of Python, in JSON.
NOTEBOOK: Language = "notebook"
METAL: Language = "metal"
OBJECTIVE_C: Language = "objective-c"

_BY_SUFFIX: dict[str, Language] = {
    NOTEBOOK_SUFFIX: NOTEBOOK,
    ".metal": METAL,
    ".mm": OBJECTIVE_C,
    ".m": OBJECTIVE_C,
}
#: The suffixes that folders are searched for.
SUFFIXES = (".py", ".pyi", *_BY_SUFFIX)
#: More suffixes of Python by which pre-commit names files.
PYTHON_SUFFIXES = (".pyw", ".pyt", ".wsgi", ".tac", ".gyp", ".gypi")
#: Bytes of a line that names the interpreter, at most; systems read fewer.
SHEBANG = 512
#: What a comment starts with that ends with its line.
MARKERS: dict[Language, str] = {PYTHON: "#", NOTEBOOK: "#", METAL: "//", OBJECTIVE_C: "//"}

#: Every suppression contains one of these.
_SUPPRESSING = re.compile(rb"noqa|embercoach", re.IGNORECASE)
#: Every file that a check may report something about contains one of these.
_OF_PYTHON = (b"mlx", b"metal_kernel")
#: Or it has torch and one of these, which name MPS. Not "mps" itself: ``json.dumps``.
_OF_TORCH = (b'"mps', b"'mps", b".mps", b"_mps")
_RELEVANT: dict[Language, tuple[bytes, ...]] = {
    PYTHON: _OF_PYTHON,
    NOTEBOOK: _OF_PYTHON,
    # Without a function there is nothing to check. ".m" is MATLAB's suffix too.
    METAL: (b"{",),
    OBJECTIVE_C: (b"MTL", b"Metal", b"metal"),
}


def may_hold_directives(data: bytes) -> bool:
    """Return whether a file may contain suppressions and must be tokenized."""
    return _SUPPRESSING.search(data) is not None


def language_of(path: str) -> Language:
    """Return the language of a file; Python unless its suffix says otherwise."""
    dot = path.rfind(".")
    return _BY_SUFFIX.get(path[dot:], PYTHON) if dot >= 0 else PYTHON


def is_known(path: str) -> bool:
    """Return whether a file is checked if it is named itself.

    Scripts in Python often have no suffix, and some only a line that names the interpreter.
    """
    suffix = os.path.splitext(path)[1]  # noqa: PTH122  (hot)
    return suffix in ("", *SUFFIXES, *PYTHON_SUFFIXES) or _names_python(path)


def is_python_source(path: str) -> bool:
    """Return whether a file's suffix, or a first line that names the interpreter, is Python's.

    Unlike a user, a program may name any file as the source of its code, such as `.env`.
    """
    suffix = os.path.splitext(path)[1]  # noqa: PTH122
    # A pipe would block.
    return suffix in (".py", *PYTHON_SUFFIXES) or (os.path.isfile(path) and _names_python(path))  # noqa: PTH113


def _names_python(path: str) -> bool:
    try:
        with open(path, "rb") as stream:  # noqa: PTH123  (hot)
            first = stream.readline(SHEBANG)
    except OSError:
        return True  # which reading it reports
    return first.startswith(b"#!") and b"python" in first


def relevant(
    data: bytes, language: Language = PYTHON, builders: tuple[KernelBuilder, ...] = ()
) -> bool:
    """Return whether a file may contain findings and must be parsed."""
    if any(word in data for word in _RELEVANT[language]):
        return True
    if language in (PYTHON, NOTEBOOK) and b"torch" in data and any(w in data for w in _OF_TORCH):
        return True
    if language == NOTEBOOK and data and not data.rstrip().endswith(b"}"):
        return True  # cut off: nobody knows what was in it, which a run reports
    return language in (PYTHON, NOTEBOOK) and any(b.last_name.encode() in data for b in builders)
