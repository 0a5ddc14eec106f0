"""Dotted paths: names of variables and of their attributes."""

from __future__ import annotations

import libcst as cst

#: Longer chains are not paths: each link of a chain asks for the path that ends there.
MOST_PARTS = 32


def dotted(node: cst.CSTNode) -> str | None:
    """``"self.cache.keys"`` for a chain of names, None for anything else."""
    if type(node) is cst.Name:
        return node.value
    if type(node) is cst.Attribute and type(node.value) is cst.Name:  # most of them
        return f"{node.value.value}.{node.attr.value}"
    parts: list[str] = []
    while type(node) is cst.Attribute and len(parts) < MOST_PARTS:
        parts.append(node.attr.value)
        node = node.value
    if type(node) is not cst.Name:
        return None
    parts.append(node.value)
    return ".".join(reversed(parts))
