"""The process that kernels run in."""

from __future__ import annotations
