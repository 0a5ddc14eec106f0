"""Syntax trees: from Python's parser to libcst's nodes, with positions."""

from __future__ import annotations
