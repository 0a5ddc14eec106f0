"""Gradients that are NaN, zero or refused: GRAD."""

from __future__ import annotations
