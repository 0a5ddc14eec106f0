"""Modules of a project: imports, parsing on demand, and the work that inference may spend."""

from __future__ import annotations
