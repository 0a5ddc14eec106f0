"""The lattice of values, and operations on it."""

from __future__ import annotations
