"""Suppression comments and the lines that they cover."""

from __future__ import annotations
