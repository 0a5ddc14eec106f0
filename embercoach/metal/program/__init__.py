"""Metal text as a program: typed expressions and statements, macros expanded, names resolved."""

from __future__ import annotations
