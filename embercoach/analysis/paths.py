"""Dotted paths: names of variables and of their attributes."""

from __future__ import annotations

import libcst as cst


def dotted(node: cst.CSTNode) -> str | None:
    """``"self.cache.keys"`` for a chain of names, None for anything else."""
    if type(node) is cst.Name:
        return node.value
    if type(node) is cst.Attribute and type(node.value) is cst.Name:  # most of them
        return f"{node.value.value}.{node.attr.value}"
    parts: list[str] = []
    while type(node) is cst.Attribute:
        parts.append(node.attr.value)
        node = node.value
    if type(node) is not cst.Name:
        return None
    parts.append(node.value)
    return ".".join(reversed(parts))
