"""The run and the report of ``embercoach trace``."""

from __future__ import annotations
