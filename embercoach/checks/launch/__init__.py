"""Checks of how a kernel is built, launched and used."""

from __future__ import annotations
