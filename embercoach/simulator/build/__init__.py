"""Compilers, linkers and compiled objects."""

from __future__ import annotations
