"""Kernels as programs: which texts are checked, with which launches and budgets."""

from __future__ import annotations
