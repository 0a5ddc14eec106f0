"""Facts that checks read, with their contexts and origins."""

from __future__ import annotations
