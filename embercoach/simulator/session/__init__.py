"""Simulation of the launches of a program: activation, launches, records."""

from __future__ import annotations
