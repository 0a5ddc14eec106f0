"""The configuration as a JSON Schema, for editors; ``embercoach.schema.json`` is what this makes.

Draft 7, as the language servers for TOML know no later one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from embercoach.config.keys import KEYS, SIMULATOR, SIMULATOR_ABOUT, SIMULATOR_KEYS
from embercoach.config.setting_types import DEFINITIONS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from embercoach.config.keys import Key


def document() -> dict[str, Any]:
    """The schema of ``embercoach.toml``, and of the table ``tool.embercoach``."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "urn:embercoach:configuration",
        "title": "EmberCoach configuration",
        "description": "embercoach.toml, or the table tool.embercoach of pyproject.toml",
        **_table(KEYS, {SIMULATOR: {"description": SIMULATOR_ABOUT, **_table(SIMULATOR_KEYS)}}),
        "definitions": {name: form() for name, form in DEFINITIONS.items()},
    }


def rendered() -> str:
    """The schema as text."""
    return json.dumps(document(), indent=2) + "\n"


def _table(keys: Iterable[Key], more: dict[str, Any] | None = None) -> dict[str, Any]:
    properties = {key.name: _property(key) for key in keys} | (more or {})
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _property(key: Key) -> dict[str, Any]:
    about: dict[str, Any] = {"description": key.about}
    if key.default is not None:
        about["default"] = key.default
    return about | key.type.form()
