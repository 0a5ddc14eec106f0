"""Facts of a source that fixes depend on: the name of ``mlx.core``, and text that is output."""

from __future__ import annotations

import ast
import symtable

import libcst as cst

from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.project.module import Module
from embercoach.analysis.values.lattice import Symbol
from embercoach.analysis.values.memo import kept_for_file


@kept_for_file
def mlx_alias(module: Module) -> str | None:
    """Return the name of ``mlx.core`` everywhere in the module, None if there is none."""
    names = module.frame.names.items()
    found = (name for name, value in names if value == Symbol("mlx.core") and "." not in name)
    alias = next(found, None)
    return None if alias is None or _is_rebound(alias, module.source) else alias


def _is_rebound(name: str, source: str) -> bool:
    """Test whether an inner scope binds a name of the module's top level to something else."""
    bare = source.count(name) - source.count(f"{name}.")
    if bare <= source.count(f"import mlx.core as {name}"):
        return False  # no need to parse: only its import can bind it
    try:
        pending = symtable.symtable(source, "<source>", "exec").get_children()
        tree = ast.parse(source)
    except SyntaxError:
        return True  # unknown: newer syntax than the running Python's
    # Since Python 3.12 a comprehension at top level has no symbol table.
    loops = (node.target for node in ast.walk(tree) if isinstance(node, ast.comprehension))
    if any(isinstance(n, ast.Name) and n.id == name for loop in loops for n in ast.walk(loop)):
        return True
    while pending:
        table = pending.pop()
        pending.extend(table.get_children())
        if name in table.get_identifiers():
            symbol = table.lookup(name)
            if symbol.is_local() and not symbol.is_imported():
                return True
    return False


def is_shown(module: Module, node: cst.CSTNode) -> bool:
    """Test whether a node's own text is output, as in ``f"{node=}"``."""
    return node in _shown_nodes(module)


@kept_for_file
def _shown_nodes(module: Module) -> frozenset[cst.CSTNode]:
    text = "".join(module.source.split())
    if not any(mark in text for mark in ("=}", "=!", "=:")):
        return frozenset()  # no need to walk
    parts = contents_of(module.tree).of(cst.FormattedStringExpression)
    shown = (part.expression for part in parts if part.equal is not None)
    return frozenset(node for expression in shown for node in contents_of(expression))
