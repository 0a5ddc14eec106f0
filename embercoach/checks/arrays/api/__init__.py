"""Calls and names that MLX lacks, refuses or deprecates: API, INDEX-001, DEPRECATED."""

from __future__ import annotations
