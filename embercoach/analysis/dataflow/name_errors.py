"""Reads of names that raise: those that nothing binds, and local ones before they are bound.

Python's own ``symtable`` says which scope a name belongs to. It is asked for a file only if the
evaluation read a name that nothing had, or a function that binds a name of what is around it.
"""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from embercoach.analysis.values.memo import kept_for_file
from embercoach.analysis.work import take_walk

if TYPE_CHECKING:
    from embercoach.analysis.project.module import Module

    Function = ast.FunctionDef | ast.AsyncFunctionDef
    #: A line from 1 and a column from 0.
    Place = tuple[int, int]

#: Names that a module, a class body, an interactive session or an older Python has.
PROVIDED = frozenset(
    (
        *("__file__", "__path__", "__builtins__", "__annotations__", "__module__", "__qualname__"),
        *("WindowsError", "display", "get_ipython", "In", "Out", "exit", "quit"),
        *dir(builtins),
    )
)
#: Functions that bind names without an assignment.
_BINDERS = frozenset(("exec", "globals", "vars", "locals", "__builtins__"))
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_NAMED = (
    *(*FUNCTIONS, ast.ClassDef, ast.ExceptHandler),
    *(ast.MatchAs, ast.MatchStar, ast.MatchMapping),
)
#: Names of one file that are looked for.
_MOST_NAMES = 64


def undefined_reads(module: Module) -> Iterator[ast.Name]:
    """Yield the first read of each name that functions read and nothing binds, in order."""
    tree, scopes = module.parsed.outline, scopes_of(module)
    if tree is None or scopes is None or not scopes.undefined:
        return
    take_walk(len(module.source) // 8)
    annotations = {id(part) for note in _annotations(tree) for part in ast.walk(note)}
    seen: set[str] = set()
    for node in _reads(tree, scopes):
        if id(node) not in annotations and node.id not in seen:
            seen.add(node.id)
            yield node


def early_reads(module: Module) -> Iterator[tuple[Function, ast.Name]]:
    """Yield the first read of each local name before everything that binds it, by function."""
    tree, scopes = module.parsed.outline, scopes_of(module)
    if tree is None or scopes is None:
        return
    early = module.unbound_names | module.hiding_names
    doubtful = {
        (function, line): names
        for (function, line), local in scopes.local.items()
        if (names := {name for name in local if (function, name) in early})
    }
    for function in functions_of(tree) if doubtful else ():
        names = doubtful.get((function.name, function.lineno), set())
        for node in _early(function, names) if names else ():
            yield function, node


def may_raise(module: Module) -> bool:
    """Return whether a file may read a name that has no value."""
    known = module.parsed.outline is not None and not module.has_star_import
    return known and bool(module.unbound_names or module.hiding_names)


class Scopes(NamedTuple):
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
def scopes_of(module: Module) -> Scopes | None:
    """Return what the scopes of a file bind; None where Python can't say."""
    try:
        top = symtable.symtable(module.source, "file", "exec")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
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
    undefined = {n for n in read - bound - PROVIDED if "__" not in n}
    if read & _BINDERS and binds_by_text(module.parsed.outline):
        undefined = set()
    few = frozenset(sorted(undefined)[:_MOST_NAMES])
    return Scopes(few, frozenset(bound), inner, local)


def binds_by_text(tree: ast.Module | None) -> bool:
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


def functions_of(tree: ast.Module) -> Iterator[Function]:
    """Yield all functions, without a look at expressions."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, FUNCTIONS):
            yield node
        for field in ("body", "orelse", "handlers", "finalbody", "cases"):
            inner = getattr(node, field, None)
            if isinstance(inner, list):
                pending += [one for one in inner if not isinstance(one, ast.expr)]


class _Seen(NamedTuple):
    """The undefined names that a part of the tree sees, and those that functions in it see.

    runs_later: it is in a function. What the top level reads, the first run shows.
    """

    here: frozenset[str]
    in_functions: frozenset[str]
    runs_later: bool = False


def _reads(tree: ast.Module, scopes: Scopes) -> Iterator[ast.Name]:
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
        if isinstance(node, (*FUNCTIONS, ast.Lambda)):
            key = (getattr(node, "name", "lambda"), node.lineno)
            names = seen.in_functions | scopes.inner.get(key, set())
            inner = _Seen(names, names, True)
        elif isinstance(node, ast.ClassDef):
            names = seen.in_functions | scopes.inner.get((node.name, node.lineno), set())
            inner = _Seen(names, seen.in_functions, seen.runs_later)
        elif isinstance(node, COMPREHENSIONS):
            targets = frozenset(name for one in node.generators for name in _names(one.target))
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


class _Binding(NamedTuple):
    """Where a name has its value, and the loops around that."""

    place: Place
    loops: frozenset[int]


class _Uses(NamedTuple):
    """The uses and bindings of one name in a function, without those of functions in it."""

    reads: list[tuple[ast.Name, frozenset[int]]]
    bindings: list[_Binding]


def _early(function: Function, names: set[str]) -> Iterator[ast.Name]:
    """Yield the first read of each local name that stands before everything that binds it."""
    for _, uses in sorted(_uses_of(function, names).items()):
        first = min((binding.place for binding in uses.bindings), default=(0, 0))
        around = frozenset(loop for binding in uses.bindings for loop in binding.loops)
        reads = sorted(uses.reads, key=lambda read: _start(read[0]))
        early = (n for n, loops in reads if _start(n) < first and not loops & around)
        yield from islice(early, 1)


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
        pending += [(part, loops) for part in _run_at_once(node, names)]
    return uses


def _run_at_once(node: ast.AST, names: set[str]) -> Iterator[ast.AST]:
    """Yield the parts of a node that run where it stands: what runs later may find names bound."""
    if isinstance(node, FUNCTIONS):
        yield from (*node.decorator_list, *node.args.defaults)
    elif isinstance(node, COMPREHENSIONS):
        own = {name for g in node.generators for name in _names(g.target)}
        own |= {name for name, _ in _bound_at(node)}
        if not isinstance(node, ast.GeneratorExp) and own.isdisjoint(names):
            yield from ast.iter_child_nodes(node)
    elif isinstance(node, ast.AnnAssign):  # annotations of local names are not evaluated
        yield from (part for part in (node.target, node.value) if part is not None)
    elif not isinstance(node, (ast.Lambda, ast.ClassDef)):
        yield from ast.iter_child_nodes(node)


def _bound_at(node: ast.AST) -> Iterator[tuple[str, Place]]:
    """Yield the names that a node binds, each with the place after which it is bound."""
    if isinstance(node, ast.Assign):
        yield from ((n, _end(node)) for target in node.targets for n in _names(target))
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
        if node.value is not None:
            yield from ((name, _end(node)) for name in _names(node.target))
    elif isinstance(node, (ast.For, ast.AsyncFor)):
        yield from ((name, _start(node.body[0])) for name in _names(node.target))
    elif isinstance(node, COMPREHENSIONS):  # its conditions run before its element
        inner = (part for part in ast.walk(node) if isinstance(part, ast.NamedExpr))
        yield from ((part.target.id, _start(node)) for part in inner)
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
