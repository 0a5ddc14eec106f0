"""Inference: what the values of a file are, and the facts that checks read."""

from __future__ import annotations
