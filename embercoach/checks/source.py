"""Source text for fixes and messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.analysis.values import Symbol

if TYPE_CHECKING:
    from collections.abc import Iterator

    import libcst as cst

    from embercoach.analysis.module import Module


def code_of(module: Module, node: cst.CSTNode) -> str:
    """A node's own source text."""
    return module.tree.code_for_node(node)


def walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """A node and all below it. Slow: for the few places that need it."""
    pending = [node]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(node.children)


def mlx_alias(module: Module) -> str | None:
    """The name under which the module's top level knows ``mlx.core``."""
    wanted = Symbol("mlx.core")
    return next((name for name, value in module.frame.names.items() if value == wanted), None)
