"""Checks of MLX's contract: source, names, inputs and generated signature of a kernel."""

from __future__ import annotations
