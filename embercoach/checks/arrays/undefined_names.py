"""NAME: names without a value or with two, missing imports, and modules taken for variables."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.calls.definitions import FunctionInfo
from embercoach.analysis.dataflow.branch_bindings import branch_reads
from embercoach.analysis.dataflow.contents import contents_of, head_contents
from embercoach.analysis.dataflow.name_errors import (
    PROVIDED,
    binds_by_text,
    early_reads,
    may_raise,
    scopes_of,
    undefined_reads,
)
from embercoach.analysis.dataflow.origins import Stop
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import DEFINITIONS, SCOPES
from embercoach.analysis.values.facts import Fact
from embercoach.analysis.values.lattice import ModuleRef
from embercoach.checks.arrays.shape_errors import ShapeNodes
from embercoach.checks.fallbacks import is_attempted, is_expected, is_meant_to_raise
from embercoach.checks.registry import Report, check
from embercoach.terminal_text import quoted

if TYPE_CHECKING:
    import ast

_ERRORS = frozenset(("NameError", "UnboundLocalError"))


@check("NAME-001", "NAME-002")
def undefined_names(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """Names that raise NameError or UnboundLocalError where they are read."""
    tree = module.parsed.outline
    if tree is None or module.path.suffix == ".pyi" or not may_raise(module):
        return
    nodes = ShapeNodes(module, tree)
    for node in undefined_reads(module):
        scopes = scopes_of(module)
        known = () if scopes is None else scopes.bound.union(*scopes.inner.values())
        close = get_close_matches(node.id, known, n=1, cutoff=0.8)
        advice = f"Did you mean `{close[0]}`?" if close else "Import it, or assign it before"
        yield from _reported(module, nodes, "NAME-001", node, "nothing defines", advice)
    for function, node in early_reads(module):
        what = f"is local to `{function.name}`, and read before it is assigned"
        advice = f"Rename one of the two: an assignment to `{node.id}` makes it a local variable"
        yield from _reported(module, nodes, "NAME-002", node, what, advice)


@check("NAME-005")
def branch_names(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``if depth > 0: h = blocks(x)``, and after it ``head(h)`` in any case."""
    tree = module.parsed.outline
    if tree is None or module.path.suffix == ".pyi":
        return
    nodes = ShapeNodes(module, tree)
    for read in branch_reads(module):
        found, test = nodes.find(read.node), nodes.find(read.test.test)
        if found is None or test is None or is_attempted(module, found.statement):
            continue
        if not is_meant_to_raise(module, found.statement):
            name = quoted(read.node.id, 28)
            yield Report.in_file(
                module,
                found.node,
                message=f"`{name}` has no value here if this branch was not taken",
                help=f"Assign `{name}` in all branches, or before the `if`",
                related=(Stop(test.node, test.statement, "not all outcomes of this test bind it"),),
            )


_MISSING = frozenset(("ImportError", "ModuleNotFoundError", "AttributeError"))


@check("NAME-003", unless=_MISSING)
def missing_imports(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``from .cache import KVCahce``, ``cache.KVCahce``: the file has no such name."""
    for statement, node, other in module.unknown_imports:
        name, path = node.value, other.path
        is_import = isinstance(statement, cst.ImportFrom)
        if not is_import and _sets_member(module, name):
            continue
        if not _is_imported_file(module, statement, path):
            continue
        if other.parsed.outline is None or other.has_star_import or "import *" in other.source:
            continue
        scopes = scopes_of(other)
        if scopes is None or name in scopes.bound | PROVIDED or "__getattr__" in scopes.bound:
            continue
        if "setattr(" in other.source or binds_by_text(other.parsed.outline):
            continue
        if any(path.parent.glob(f"{name}*")):
            continue  # a folder, or a compiled module
        if path.stem == "__init__" and name.startswith("_"):
            continue  # a compiled module that is not built yet
        close = get_close_matches(name, scopes.bound, n=1, cutoff=0.8)
        yield Report.in_file(
            module,
            node,
            message=f"`{quoted(path.name, 30)}` has no `{quoted(name, 30)}`"
            + " to import" * is_import,
            help=f"Import `{close[0]}`, the nearest name"
            if close
            else "Import it from where it is",
        )


def _is_imported_file(module: Module, statement: cst.CSTNode, path: Path) -> bool:
    """Return whether an import means the file at a path, and no library of its name.

    In a package ``import io`` does not mean the ``io.py`` of the same folder.
    """
    folder = module.path.parent
    if folder not in (path.parent, path.parent.parent):
        return True
    if isinstance(statement, cst.ImportFrom):
        if statement.relative or isinstance(statement.module, cst.Attribute):
            return True
    elif f"\nimport {path.stem}" not in f"\n{module.source}":
        return True
    is_package = (folder / "__init__.py").exists()
    return not is_package and path.stem not in sys.stdlib_module_names


def _sets_member(module: Module, name: str) -> bool:
    """Return whether a file may set an attribute of that name, of whatever module."""
    return f".{name} = " in module.source or "setattr" in module.source or "patch" in module.source


def _reported(
    module: Module, nodes: ShapeNodes, code: str, node: ast.Name, what: str, advice: str
) -> Iterator[Report]:
    found = nodes.find(node)
    if found is None or is_expected(module, found.statement, _ERRORS, broadly=False):
        return
    yield Report.in_file(
        module,
        found.node,
        code,
        message=f"{what} `{node.id}`" if code == "NAME-001" else f"`{node.id}` {what}",
        help=advice,
    )


@check("NAME-004")
def module_passed(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``model(x, cache=cache)`` where ``cache`` is an imported module."""
    modules = {n for n, value in module.frame.names.items() if isinstance(value, ModuleRef)}
    for function in module.functions if modules else ():
        contents = contents_of(function.node.body, SCOPES)
        around = list(_outward(function))
        own = {p.name for one in around for p in one.parameters}
        own |= {name for one in around for name in contents_of(one.node.body).stored}
        for call in contents.calls:
            for argument in call.args:
                name = "" if argument.keyword is None else argument.keyword.value
                is_same = isinstance(argument.value, cst.Name) and argument.value.value == name
                if is_same and name in modules - own:
                    yield Report.in_file(
                        module,
                        argument.value,
                        function=function,
                        message=f"`{quoted(name, 30)}` is an imported module here",
                        help="Pass the variable that is meant, or rename the import",
                    )


def _outward(function: FunctionInfo) -> Iterator[FunctionInfo]:
    """Yield a function and those around it."""
    outer: FunctionInfo | None = function
    while outer is not None:
        yield outer
        outer = outer.outer


@check("NAME-006")
def redefinitions(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``def reset(self)`` twice in a class: the second replaces the first."""
    if module.path.suffix != ".py":
        return
    suites: list[cst.Module | cst.BaseSuite] = [module.tree]
    suites += (one.body for one in contents_of(module.tree).of(cst.ClassDef))
    for suite in suites:
        names = [node.name.value for node in suite.body if isinstance(node, DEFINITIONS)]
        if len(names) == len(set(names)):
            continue
        earlier: dict[str, cst.FunctionDef | cst.ClassDef] = {}
        for node in suite.body:
            is_function = isinstance(node, cst.FunctionDef)
            read = head_contents(node).reads if is_function else contents_of(node).reads
            name = node.name.value if isinstance(node, DEFINITIONS) else ""
            for other in [one for one in earlier if len(read.get(one, ())) > (one == name)]:
                del earlier[other]  # it is used at once, or replaced on purpose
            if not isinstance(node, DEFINITIONS) or node.decorators:
                earlier.pop(name, None)
                continue
            first = earlier.get(name)
            if first is not None and not first.body.deep_equals(node.body):
                yield Report.in_file(
                    module,
                    node.name,
                    message=f"`{quoted(name, 28)}` replaces a definition that nothing has used",
                    help="Rename one of the two, or remove the first",
                    related=(Stop(first.name, first, "nothing calls this definition"),),
                )
            if name.strip("_"):
                earlier[name] = node
