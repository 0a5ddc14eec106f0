"""Calls of Python's built-ins and strings, of NumPy and of mx.fft."""

from __future__ import annotations
