"""Generated Metal source to C++."""

from __future__ import annotations
