"""Findings of a simulated launch, in terms of the Python and Metal source."""

from __future__ import annotations
