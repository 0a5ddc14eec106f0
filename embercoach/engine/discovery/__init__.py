"""Which files a run checks."""

from __future__ import annotations
