"""Every place where the packages build a kernel, and those that a run came by."""

from __future__ import annotations

import ast
import sys
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

import mlx.core as mx

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.simulator import SimulatedLaunch


class Site(NamedTuple):
    """A call of ``mx.fast.metal_kernel`` in a package."""

    file: str
    first_line: int
    last_line: int


def sites(package: str) -> list[Site]:
    """The sites of an installed package, found in its syntax trees."""
    spec = find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    files = sorted(Path(spec.submodule_search_locations[0]).rglob("*.py"))
    return [
        Site(str(file), node.lineno, node.end_lineno or node.lineno)
        for file in files
        if b"metal_kernel" in (text := file.read_bytes())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "metal_kernel"
    ]


class Built:
    """Where each kernel was built, by the file and the kernel's name."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, str], int] = {}
        self._launched: set[tuple[str, int]] = set()

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note each kernel that is built meanwhile."""
        build = mx.fast.metal_kernel

        def noted(*args: Any, **kwargs: Any) -> Any:
            frame = sys._getframe(1)
            name = kwargs["name"] if "name" in kwargs else args[0]
            self._lines[frame.f_code.co_filename, name] = frame.f_lineno
            return build(*args, **kwargs)

        with patch.object(mx.fast, "metal_kernel", noted):
            yield

    def launched(self, launch: SimulatedLaunch) -> None:
        """Note that a kernel ran: one of its name, of the launching file if that builds one."""
        assert launch.launched_at is not None
        file = launch.launched_at[0]
        files = {file for file, name in self._lines if name == launch.kernel}
        for built_in in {file} & files or files:
            self._launched.add((built_in, self._lines[built_in, launch.kernel]))

    def reached(self, site: Site) -> bool:
        """Whether a kernel of the site ran."""
        return any(
            file == site.file and site.first_line <= line <= site.last_line
            for file, line in self._launched
        )
