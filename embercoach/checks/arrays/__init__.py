"""Checks of operations on arrays in Python."""

from __future__ import annotations
