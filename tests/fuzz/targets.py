"""The targets by name. Their modules are imported late, once atheris instruments imports."""

from __future__ import annotations

import importlib

from tests.fuzz.target import Target

_MODULES = {
    "baseline": ("saved_json", "BASELINE"),
    "cache": ("cache_file", "TARGET"),
    "configuration": ("configuration", "TARGET"),
    "kernel-body": ("metal_source", "BODY"),
    "metal": ("metal_source", "UNIT"),
    "notebook": ("notebook", "TARGET"),
    "objective-c": ("objective_c", "TARGET"),
    "python": ("python_source", "TARGET"),
    "saved-report": ("saved_json", "REPORT"),
    "server": ("server_messages", "TARGET"),
    "suppressions": ("suppressions", "TARGET"),
}
NAMES = tuple(sorted(_MODULES))


def load(name: str) -> Target:
    """The target of a name."""
    module, attribute = _MODULES[name]
    target = getattr(importlib.import_module(f"tests.fuzz.{module}"), attribute)
    assert isinstance(target, Target)
    return target
