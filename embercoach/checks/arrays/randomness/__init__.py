"""Random numbers that repeat: RANDOM."""

from __future__ import annotations
