"""Sizes as expressions: symbolic integers, and divisions that round up."""

from __future__ import annotations
