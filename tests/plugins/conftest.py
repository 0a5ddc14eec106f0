from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from embercoach.plugins.loading import register
from tests.cli.conftest import embercoach, project

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["embercoach", "project"]


@pytest.fixture(autouse=True)
def without_plugins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget the plugins of a test, their modules, and the folders that they came from."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    yield
    register([])
    for name in [name for name in sys.modules if name.startswith("rules_of_")]:
        if name not in before:
            del sys.modules[name]
