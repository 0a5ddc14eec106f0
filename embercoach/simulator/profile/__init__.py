"""Costs of simulated launches, counted line by line."""

from __future__ import annotations
