"""Gradients: which functions are differentiated, and what reaches their results."""

from __future__ import annotations
