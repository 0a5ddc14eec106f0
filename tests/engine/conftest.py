from __future__ import annotations

from tests.engine.planted import planted

__all__ = ["planted"]
