"""The run and the report of ``embercoach simulate``."""

from __future__ import annotations
