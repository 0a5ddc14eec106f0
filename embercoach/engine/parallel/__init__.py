"""Worker processes, their tasks and budgets."""

from __future__ import annotations
