"""Evaluation of expressions and statements, in frames."""

from __future__ import annotations
