"""NAME: names that nothing binds, that nothing has bound yet, or that no file has to import."""

from __future__ import annotations

import ast
import builtins
import symtable
import sys
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.values.memo import kept_for_file
from embercoach.analysis.work import take_walk
from embercoach.checks.arrays.shape_errors import ShapeNodes
from embercoach.checks.fallbacks import is_expected
from embercoach.checks.registry import Report, check
from embercoach.terminal_text import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.facts import Fact

    Function = ast.FunctionDef | ast.AsyncFunctionDef
    #: A line from 1 and a column from 0.
    Place = tuple[int, int]

#: Names that a module, a class body, an interactive session or an older Python has.
_PROVIDED = frozenset(
    (
        *("__file__", "__path__", "__builtins__", "__annotations__", "__module__", "__qualname__"),
        *("WindowsError", "display", "get_ipython", "In", "Out", "exit", "quit"),
        *dir(builtins),
    )
)
#: Functions that bind names without an assignment.
_BINDERS = frozenset(("exec", "globals", "vars", "locals", "__builtins__"))
_ERRORS = frozenset(("NameError", "UnboundLocalError"))
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_NAMED = (
    *(*_FUNCTIONS, ast.ClassDef, ast.ExceptHandler),
    *(ast.MatchAs, ast.MatchStar, ast.MatchMapping),
)
#: Names of one file that are looked for.
_MOST_NAMES = 64


@check("NAME-001", "NAME-002")
def undefined_names(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """Names that raise NameError or UnboundLocalError where they are read."""
    tree = module.parsed.outline
    if tree is None or module.has_star_import or module.path.suffix == ".pyi":
        return
    if not (module.unbound_names or module.hiding_names):
        return
    scopes = _scopes_of(module)
    early = module.unbound_names | module.hiding_names
    doubtful = {
        (function, line): names
        for (function, line), local in scopes.local.items()
        if (names := {name for name in local if (function, name) in early})
    }
    if not (scopes.undefined or doubtful):
        return
    nodes = ShapeNodes(module, tree)
    take_walk(len(module.source) // 8)
    if scopes.undefined:
        yield from _undefined(module, tree, scopes, nodes)
    for function in _functions(tree) if doubtful else ():
        key = function.name, function.lineno
        if key in doubtful:
            yield from _unbound(module, function, doubtful[key], nodes)


def _functions(tree: ast.Module) -> Iterator[Function]:
    """Yield all functions, without a look at expressions."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, _FUNCTIONS):
            yield node
        for field in ("body", "orelse", "handlers", "finalbody", "cases"):
            inner = getattr(node, field, None)
            if isinstance(inner, list):
                pending += [one for one in inner if not isinstance(one, ast.expr)]


_MISSING = frozenset(("ImportError", "ModuleNotFoundError", "AttributeError"))


@check("NAME-003")
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
        scopes = _scopes_of(other)
        names = scopes.bound | _PROVIDED
        if (
            not scopes.bound
            or name in names
            or "__getattr__" in names
            or "setattr(" in other.source
        ):
            continue
        if _binds_by_text(other.parsed.outline) or any(path.parent.glob(f"{name}*")):
            continue  # a folder, or a compiled module
        if is_expected(module, statement, _MISSING, broadly=True):
            continue
        close = get_close_matches(name, scopes.bound, n=1, cutoff=0.8)
        yield Report(
            "NAME-003",
            node,
            module.frame.place()._replace(statement=statement),
            message=f"`{quoted(path.name, 30)}` has no `{quoted(name, 30)}`"
            + " to import" * is_import,
            help=f"Import `{close[0]}`, the nearest name"
            if close
            else "Import it from where it is",
            context="default",
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


class _Scopes(NamedTuple):
    """The names that the scopes of a file bind.

    undefined: names that are read, and that no scope which is searched for them binds.
    bound: the names of the module.
    inner: by name and line of another scope, the names that it binds, parameters among them.
    local: those of functions, but for parameters.
    """

    undefined: frozenset[str]
    bound: frozenset[str]
    inner: dict[tuple[str, int], set[str]]
    local: dict[tuple[str, int], set[str]]


@kept_for_file
def _scopes_of(module: Module) -> _Scopes:
    nothing = _Scopes(frozenset(), frozenset(), {}, {})
    try:
        top = symtable.symtable(module.source, "file", "exec")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return nothing
    bound: set[str] = set()
    read: set[str] = set()
    inner: dict[tuple[str, int], set[str]] = {}
    local: dict[tuple[str, int], set[str]] = {}
    pending = [top]
    while pending:
        table = pending.pop()
        pending += table.get_children()
        is_function = table.get_type() == "function"
        for symbol in table.get_symbols():
            name = symbol.get_name()
            binds = symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
            if binds and (table is top or symbol.is_declared_global()):
                bound.add(name)
            elif symbol.is_referenced() and (symbol.is_global() or table is top):
                read.add(name)
            elif (binds or symbol.is_parameter()) and symbol.is_local():
                key = (table.get_name(), table.get_lineno())
                inner.setdefault(key, set()).add(name)
                if is_function and not symbol.is_parameter():
                    local.setdefault(key, set()).add(name)
    if read & _BINDERS and _binds_by_text(module.parsed.outline):
        return nothing._replace(inner=inner, local=local, bound=frozenset(bound))
    undefined = {n for n in read - bound - _PROVIDED if "__" not in n}
    few = frozenset(sorted(undefined)[:_MOST_NAMES])
    return _Scopes(few, frozenset(bound), inner, local)


def _binds_by_text(tree: ast.Module | None) -> bool:
    """Return whether ``exec`` or ``globals()`` may bind names, and not only read them."""
    if tree is None:
        return True
    names = {id(n) for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id in _BINDERS}
    for node in ast.walk(tree):
        reads = (isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)) or (
            isinstance(node, ast.Attribute) and node.attr in ("get", "items", "keys", "values")
        )
        table = node.value if reads else None  # type: ignore[attr-defined]
        if isinstance(table, ast.Call) and not table.args:
            names.discard(id(table.func))
    return bool(names)


def _undefined(
    module: Module, tree: ast.Module, scopes: _Scopes, nodes: ShapeNodes
) -> Iterator[Report]:
    known = scopes.bound.union(*scopes.inner.values())
    seen: set[str] = set()
    annotations = {id(part) for note in _annotations(tree) for part in ast.walk(note)}
    for node in _reads(tree, scopes):
        if id(node) in annotations or node.id in seen:
            continue
        seen.add(node.id)
        close = get_close_matches(node.id, known, n=1, cutoff=0.8)
        advice = f"`{close[0]}` is the nearest name" if close else "Import it, or assign it before"
        yield from _reported(module, nodes, "NAME-001", node, "nothing defines", advice)


class _Seen(NamedTuple):
    """The undefined names that a part of the tree sees, and those that functions in it see.

    runs_later: it is in a function. What the top level reads, the first run shows.
    """

    here: frozenset[str]
    in_functions: frozenset[str]
    runs_later: bool = False


def _reads(tree: ast.Module, scopes: _Scopes) -> Iterator[ast.Name]:
    """Yield the reads of undefined names in scopes that do not bind them, in order."""
    pending: list[tuple[ast.AST, _Seen]] = [(tree, _Seen(frozenset(), frozenset()))]
    while pending:
        node, seen = pending.pop()
        if isinstance(node, ast.Name):
            read = isinstance(node.ctx, ast.Load) and node.id in scopes.undefined
            if read and seen.runs_later and node.id not in seen.here:
                yield node
            continue
        inner = seen
        if isinstance(node, (*_FUNCTIONS, ast.Lambda)):
            key = (getattr(node, "name", "lambda"), node.lineno)
            names = seen.in_functions | scopes.inner.get(key, set())
            inner = _Seen(names, names, True)
        elif isinstance(node, ast.ClassDef):
            names = seen.in_functions | scopes.inner.get((node.name, node.lineno), set())
            inner = _Seen(names, seen.in_functions, seen.runs_later)
        elif isinstance(node, _COMPREHENSIONS):
            targets = frozenset(
                part.id
                for generator in node.generators
                for part in ast.walk(generator.target)
                if isinstance(part, ast.Name)
            )
            inner = _Seen(seen.here | targets, seen.in_functions | targets, seen.runs_later)
        outside = getattr(node, "decorator_list", ())
        pending += [
            (child, seen if child in outside else inner)
            for child in reversed([*ast.iter_child_nodes(node)])
        ]


def _annotations(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield what may be left unevaluated."""
    for node in ast.walk(tree):
        found = getattr(node, "annotation", None) or getattr(node, "returns", None)
        if isinstance(found, ast.expr):
            yield found


def _reported(
    module: Module, nodes: ShapeNodes, code: str, node: ast.Name, what: str, advice: str
) -> Iterator[Report]:
    found = nodes.find(node)
    if found is None or is_expected(module, found.statement, _ERRORS, broadly=False):
        return
    yield Report(
        code,
        found.node,
        module.frame.place()._replace(statement=found.statement),
        message=f"{what} `{node.id}`" if code == "NAME-001" else f"`{node.id}` {what}",
        help=advice,
        context="default",
    )


class _Binding(NamedTuple):
    """Where a name has its value, and the loops around that."""

    place: Place
    loops: frozenset[int]


class _Uses(NamedTuple):
    """The uses and bindings of one name in a function, without those of functions in it."""

    reads: list[tuple[ast.Name, frozenset[int]]]
    bindings: list[_Binding]


def _unbound(
    module: Module, function: Function, names: set[str], nodes: ShapeNodes
) -> Iterator[Report]:
    """Yield the first read of each local name that stands before everything that binds it."""
    for name, uses in sorted(_uses_of(function, names).items()):
        first = min((binding.place for binding in uses.bindings), default=(0, 0))
        around = frozenset(loop for binding in uses.bindings for loop in binding.loops)
        for node, loops in sorted(uses.reads, key=lambda read: _start(read[0])):
            if _start(node) < first and not loops & around:
                yield from _reported(
                    module,
                    nodes,
                    "NAME-002",
                    node,
                    f"is local to `{function.name}`, and read before it is assigned",
                    f"Rename one of the two: an assignment to `{name}` makes it a local variable",
                )
                break


def _start(node: ast.expr | ast.stmt | ast.ExceptHandler | ast.pattern) -> Place:
    return node.lineno, node.col_offset


def _uses_of(function: Function, names: set[str]) -> dict[str, _Uses]:
    uses = {name: _Uses([], []) for name in names}
    pending: list[tuple[ast.AST, frozenset[int]]] = [(n, frozenset()) for n in function.body]
    while pending:
        node, loops = pending.pop()
        if isinstance(node, ast.Name):
            if node.id in uses and isinstance(node.ctx, ast.Load):
                uses[node.id].reads.append((node, loops))
            continue
        for name, place in _bound_at(node):
            if name in uses:
                uses[name].bindings.append(_Binding(place, loops))
        updated = node.target if isinstance(node, ast.AugAssign) else None
        if isinstance(updated, ast.Name) and updated.id in uses:
            uses[updated.id].reads.append((updated, loops))
        if isinstance(node, _LOOPS):
            loops = loops | {id(node)}
        # What runs later may find the name bound.
        if isinstance(node, _FUNCTIONS):
            pending += [(n, loops) for n in (*node.decorator_list, *node.args.defaults)]
        elif isinstance(node, _COMPREHENSIONS):
            own = {name for g in node.generators for name in _names(g.target)}
            if not isinstance(node, ast.GeneratorExp) and own.isdisjoint(uses):
                pending += [(child, loops) for child in ast.iter_child_nodes(node)]
        elif not isinstance(node, (ast.Lambda, ast.ClassDef)):
            pending += [(child, loops) for child in ast.iter_child_nodes(node)]
    return uses


def _bound_at(node: ast.AST) -> Iterator[tuple[str, Place]]:
    """Yield the names that a node binds, each with the place after which it is bound."""
    if isinstance(node, ast.Assign):
        yield from ((n, _end(node)) for target in node.targets for n in _names(target))
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
        if node.value is not None:
            yield from ((name, _end(node)) for name in _names(node.target))
    elif isinstance(node, (ast.For, ast.AsyncFor)):
        yield from ((name, _start(node.body[0])) for name in _names(node.target))
    elif isinstance(node, ast.withitem):
        if node.optional_vars is not None:
            place = _start(node.optional_vars)
            yield from ((name, place) for name in _names(node.optional_vars))
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        names = (alias.asname or alias.name.partition(".")[0] for alias in node.names)
        yield from ((name, _start(node)) for name in names)
    elif isinstance(node, _NAMED):
        given = (getattr(node, "name", None), getattr(node, "rest", None))
        yield from ((name, _start(node)) for name in given if name is not None)


def _end(node: ast.stmt | ast.expr) -> Place:
    return node.end_lineno or 0, node.end_col_offset or 0


def _names(target: ast.expr) -> Iterator[str]:
    """Yield the names that a target binds, also in tuples and lists."""
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, (ast.Tuple, ast.List)):
        for element in target.elts:
            yield from _names(element.value if isinstance(element, ast.Starred) else element)
