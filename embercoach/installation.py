"""How this copy of EmberCoach was installed, and the command that adds an extra to it."""

from __future__ import annotations

import json
import shlex
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

NAME = "embercoach"


def install_command(extra: str, python: str = "python") -> str:
    """Return the command that installs an extra from where this copy is from: a clone, or an index.

    Args:
        extra: the name in `pyproject.toml`.
        python: the interpreter, as a shell reads it.
    """
    folder, editable = _clone()
    requirement = f"{folder or NAME}[{extra}]"
    quoted = f'"{requirement}"' if sys.platform == "win32" else shlex.quote(requirement)
    return f"{python} -m pip install {'-e ' if editable else ''}{quoted}"


def _clone() -> tuple[Path | None, bool]:
    """Return the folder that pip installed from, and whether it is read from there (PEP 610)."""
    try:
        noted: Any = json.loads(distribution(NAME).read_text("direct_url.json") or "{}")
        url, editable = urlsplit(noted["url"]), noted["dir_info"].get("editable", False)
    except (PackageNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return None, False
    folder = Path(url2pathname(url.path))
    if url.scheme != "file" or not (folder / "pyproject.toml").is_file():
        return None, False
    return folder, editable is True
