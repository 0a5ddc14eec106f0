"""Checks of the Metal text of a kernel, and of what MLX's contract asks of it."""

from __future__ import annotations
