"""Plugins: installed packages with own rules, found by their entry points, and loaded once."""

from __future__ import annotations
