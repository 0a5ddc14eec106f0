"""Loops that evaluate nothing: LAZY."""

from __future__ import annotations
