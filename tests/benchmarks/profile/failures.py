"""Why predictions fail, by case."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

REASONS: Mapping[str, str] = {}
