"""Checks of the Metal text of a kernel."""

from __future__ import annotations
