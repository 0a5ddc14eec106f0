"""Local names that only some branches bind, and that are read where all branches come together.

Each function is executed once in the abstract: what is kept is which names may have no value, and
which test decides that. A read is doubtful only if no later test has to do with that one. Loops
are taken to run, ``with`` and ``try`` to get through: code that relies on these is common.
"""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from embercoach.analysis.dataflow.name_errors import COMPREHENSIONS, FUNCTIONS, functions_of
from embercoach.analysis.values.memo import kept_for_file
from embercoach.analysis.work import take_walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from embercoach.analysis.dataflow.name_errors import Function
    from embercoach.analysis.project.module import Module

_ASSIGNING = (ast.Assign, ast.AugAssign, ast.AnnAssign)
_SIMPLE = (*_ASSIGNING, ast.Expr, ast.Return, ast.Raise, ast.Assert, ast.expr, ast.Pass)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_NAMED = (*FUNCTIONS, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)
_IMPORTS = (ast.Import, ast.ImportFrom)
_TRIES = (ast.Try, getattr(ast, "TryStar", ast.Try))
#: Functions that read or bind names without naming them.
_DYNAMIC = frozenset(("locals", "vars", "exec", "NameError", "UnboundLocalError"))
#: Context managers after which the code goes on when their body has raised.
_SWALLOWING = frozenset(("suppress", "raises", "assertRaises", "assertRaisesRegex"))
#: Words in the names of functions that do not return, and owners of which ``error`` does.
_ENDING = frozenset(
    (
        *("exit", "quit", "abort", "fail", "skip", "skiptest", "xfail", "raise", "throw", "die"),
        *("never", "unreachable", "execv", "execvp"),
    )
)
_LOGS = ("log", "console", "self", "warn", "print")
#: Names in a test that say nothing of what it depends on, and functions that change with nothing.
_STABLE = frozenset(("isinstance", "len", "hasattr", "getattr", "callable", "bool", "issubclass"))
_COMMON = _STABLE | {"self", "mx", "nn", "np", "os", "any", "all", "int", "str", "float"}
#: Names of one function that are followed.
_MOST_NAMES = 64
#: Tests on the way to a statement up to which they are compared with others.
_MOST_TESTS = 128


class BranchRead(NamedTuple):
    """A read of a name that only some branches of an ``if`` before it bind."""

    function: Function
    node: ast.Name
    test: ast.If


class _Missing(NamedTuple):
    """Why a name may have no value: no ``if`` yet, or one, with the names that are about it.

    is_silent: tests that were passed since, or before it, may have to do with that ``if``.
    """

    test: ast.If | None = None
    related: frozenset[str] = frozenset()
    is_silent: bool = False


class _State(NamedTuple):
    """The names that may have no value, and the tests that were passed for certain."""

    missing: dict[str, _Missing]
    known: tuple[ast.expr, ...] = ()


def branch_reads(module: Module) -> Iterator[BranchRead]:
    """Yield the first read of names that an ``if`` leaves without a value, once for each ``if``."""
    tree = module.parsed.outline
    if tree is None or "if " not in module.source:
        return
    take_walk(len(module.source) // 8)
    functions = list(functions_of(tree))
    is_dynamic = any(name in module.source for name in _DYNAMIC)
    ending = frozenset(one.name for one in functions if _leaves(one.body[-1], frozenset()))
    for function in functions:
        names = _candidates(function)
        if names and ":=" in module.source:
            named = (one for one in ast.walk(function) if isinstance(one, ast.NamedExpr))
            names = sorted({*names} - {one.target.id for one in named})
        if names and not (is_dynamic and _is_dynamic(function)):
            seen: set[ast.AST] = set()
            found = _Execution(function, names, ending).found
            for node, test in sorted(found, key=lambda one: (one[0].lineno, one[0].col_offset)):
                if test not in seen:
                    seen.add(test)
                    yield BranchRead(function, node, test)


def _candidates(function: Function) -> list[str]:
    """Return the local names that an ``if`` binds, and nothing before it for certain."""
    other = {one.arg for one in ast.walk(function.args) if isinstance(one, ast.arg)}
    names: set[str] = set()
    pending: list[ast.stmt] = function.body[::-1]
    while pending:  # the statements that are executed in any case
        node: ast.AST = pending.pop()
        if isinstance(node, ast.If):
            certain = _bound_in_all((node.body, node.orelse))
            names |= _stored((node,), attributes=False) - other - certain
            other |= certain - names
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            other |= _stored(node.items)
            pending += node.body[::-1]
        elif isinstance(node, (*_LOOPS, *_TRIES)):
            names |= _stored_in_branches(node) - other
        else:
            other |= _stored((node,)) - names
    if not names:
        return []
    for node in _statements(function.body):
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            names.difference_update(node.names)
        elif isinstance(node, ast.Delete):
            names -= _stored((node,))
    return sorted(names)[:_MOST_NAMES]


def _bound_in_all(branches: Iterable[list[ast.stmt]]) -> frozenset[str]:
    """Return the names that simple statements bind in each branch that the code goes on after."""
    found: list[frozenset[str]] = []
    for branch in branches:
        if branch and _leaves(branch[-1], frozenset()):
            continue
        names = frozenset[str]()
        for node in branch:
            if isinstance(node, ast.If):
                names |= _bound_in_all((node.body, node.orelse))
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                names |= _stored((node,), attributes=False)
        found.append(names)
    return frozenset.intersection(*found) if found else frozenset()


def _stored_in_branches(node: ast.AST) -> frozenset[str]:
    inner = (one for one in _statements((node,), (ast.If,)) if isinstance(one, ast.If))
    found = (
        _stored((one,), attributes=False) - _bound_in_all((one.body, one.orelse)) for one in inner
    )
    return frozenset[str]().union(*found)


def _is_dynamic(function: Function) -> bool:
    """Return whether a function may bind names by their text, or expects that one is missing."""
    return any(isinstance(n, ast.Name) and n.id in _DYNAMIC for n in ast.walk(function))


class _Execution:
    """One function, executed for the names that its ``if`` statements bind."""

    def __init__(self, function: Function, names: list[str], ending: frozenset[str]) -> None:
        #: The reads of names that may have no value, each with the ``if`` that decides it.
        self.found: list[tuple[ast.Name, ast.If]] = []
        self._ending = ending
        self._loops: list[frozenset[str]] = []  # what is stored in the loops around
        self._function = function
        self._run(function.body, _State(dict.fromkeys(names, _Missing())))

    def _run(self, body: Sequence[ast.stmt], state: _State | None) -> _State | None:
        """Execute statements; None once one leaves them, or no name is missing any more."""
        for statement in body:
            if state is None or _leaves(statement, self._ending):
                self._read(statement, state)
                return None
            state = self._statement(statement, state)
        return state

    def _statement(self, node: ast.stmt, state: _State) -> _State | None:
        if isinstance(node, ast.If):
            return self._if(node, state)
        if isinstance(node, _LOOPS):
            return self._loop(node, state)
        if isinstance(node, (ast.With, ast.AsyncWith)):
            self._read(node, state)
            inner = self._run(node.body, _without(state, _stored(node.items)))
            if inner is None and _SWALLOWING & _names(*(item.context_expr for item in node.items)):
                return _without(state, _stored(node.body))
            return inner
        if isinstance(node, _TRIES):
            return self._try(node, state)
        self._read(node, state)
        if isinstance(node, ast.Assert):
            return _State(self._silenced(state, node.test), (*state.known, node.test))
        if isinstance(node, ast.Match) and any(self._ends(case.body) for case in node.cases):
            return None
        return _without(state, _stored((node,)))

    @cached_property
    def _links(self) -> dict[str, set[str]]:
        """The names that assignments have on the other side of a name."""
        found: dict[str, set[str]] = {}
        for node in _statements(self._function.body):
            if isinstance(node, _ASSIGNING) and node.value is not None:
                sources = _names(node.value)
                for target in _stored((node,)):
                    found.setdefault(target, set()).update(sources)
                    for source in sources:
                        found.setdefault(source, set()).add(target)
        return found

    def _about(self, names: Iterable[str]) -> frozenset[str]:
        """Return names and those that are computed from them, or that they are computed from."""
        return frozenset((*names, *(n for name in names for n in self._links.get(name, ()))))

    def _silenced(self, state: _State, *tests: ast.expr) -> dict[str, _Missing]:
        """Return the names without a value after tests that may decide that they have one."""
        if not any(one.test for one in state.missing.values()):
            return dict(state.missing)
        about = self._about(_names(*tests))
        return {
            name: one if about.isdisjoint(one.related) else one._replace(is_silent=True)
            for name, one in state.missing.items()
        }

    def _ends(self, body: Sequence[ast.stmt]) -> bool:
        return any(_leaves(statement, self._ending) for statement in body)

    def _read(self, node: ast.AST, state: _State | None) -> None:
        """Note the names that a statement reads in any case, and look at each only once."""
        for name in _reads(node) if state is not None and state.missing else ():
            missing = state.missing.pop(name.id, None) if state is not None else None
            if missing is not None and missing.test is not None and not missing.is_silent:
                self.found.append((name, missing.test))

    def _if(self, node: ast.If, state: _State) -> _State | None:
        arms = list(_arms(node))
        tests = [test for test, _ in arms if test is not None]
        for stored in self._loops:
            if not _names(*tests).isdisjoint(stored) or any(map(_varies, tests)):
                state = _without(state, stored)  # the test may hold in the first iteration
        self._read(tests[0], state)
        silenced = self._silenced(state, *tests)
        known = (*state.known, *tests)
        bound = _stored((node,)) & state.missing.keys()
        earlier: frozenset[str] = frozenset()
        ends = []
        for test, body in arms:
            elsewhere = (earlier & bound) - _stored(body)
            earlier |= _stored(body)
            start = _State(
                {
                    name: _Missing(node) if one.test is None and name in elsewhere else one
                    for name, one in silenced.items()
                },
                known,
            )
            self._read(test or ast.Pass(), start)
            ends.append(None if _is_check(test, body, tests) else self._run(body, start))
        if arms[-1][0] is not None and not (bound and _covers(tests)):
            ends.append(_State(silenced))
        left = [end.missing for end in ends if end is not None]
        if not left:
            return None
        has_exit = len(left) < len(ends)
        missing: dict[str, _Missing] = {}
        for name, before in state.missing.items():
            unbound = [one[name] for one in left if name in one]
            if len(unbound) == len(left):  # no branch binds it
                new = (one for one in unbound if one.test not in (before.test, None))
                silent = (one for one in unbound if one.is_silent and has_exit)
                missing[name] = next(new, next(silent, before))
                in_loop = any(name in stored for stored in self._loops)
                if name in bound and missing[name].test is None and not in_loop:
                    missing[name] = _Missing(node)  # a branch binds it, and leaves
            elif not all(one.is_silent for one in unbound):
                related = self._about((*_names(*tests), *_stored((node,)))) | before.related
                missing[name] = _Missing(node, related, self._is_decided(tests, state))
        return _State(missing, known if has_exit else state.known)

    def _is_decided(self, tests: list[ast.expr], state: _State) -> bool:
        """Return whether tests before may leave out an outcome of some tests."""
        if len(state.known) > _MOST_TESTS:
            return True
        known = self._about(_names(*state.known))
        return not self._about(_names(*tests)).isdisjoint(known)

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, state: _State) -> _State | None:
        head = node.test if isinstance(node, ast.While) else node.iter
        changing = head if isinstance(node, ast.While) else node.target
        self._read(head, state)
        stored = _stored((node,))
        inner = _without(state, _stored((changing,)))
        self._loops.append(stored)
        self._run(node.body, _State(self._silenced(inner, changing), (*state.known, changing)))
        self._loops.pop()
        after = _without(state, stored)
        endless = isinstance(node, ast.While) and isinstance(node.test, ast.Constant)
        if endless and not any(isinstance(one, ast.Break) for one in _statements(node.body)):
            return None
        return after if not node.orelse else self._run(node.orelse, after) or after

    def _try(self, node: ast.Try, state: _State) -> _State | None:
        after = self._run((*node.body, *node.orelse), state._replace(missing=dict(state.missing)))
        bound = _stored(node.body)
        ends = [after]
        ends += [
            self._run(handler.body, _without(state, bound | _stored((handler,))))
            for handler in node.handlers
        ]
        self._run(node.finalbody, _without(state, _stored((node,))))
        if self._ends(node.finalbody):
            return None
        left = [end.missing for end in ends if end is not None]
        if not left:
            return None
        common = {n: v for n, v in left[0].items() if all(n in other for other in left)}
        return _without(_State(common, state.known), _stored(node.finalbody))


def _without(state: _State, names: frozenset[str]) -> _State:
    return _State({n: v for n, v in state.missing.items() if n not in names}, state.known)


def _arms(node: ast.If) -> Iterator[tuple[ast.expr | None, list[ast.stmt]]]:
    """Yield the tests and bodies of an ``if`` with its ``elif``, and None with that of ``else``."""
    while True:
        yield node.test, node.body
        inner = node.orelse[0] if len(node.orelse) == 1 else None
        if not isinstance(inner, ast.If):
            break
        node = inner
    if node.orelse:
        yield None, node.orelse


def _is_check(test: ast.expr | None, body: list[ast.stmt], tests: list[ast.expr]) -> bool:
    """Return whether an ``else`` asserts that one of the tests before it holds."""
    only = body[0] if test is None and len(body) == 1 else None
    return isinstance(only, ast.Assert) and not _names(only.test).isdisjoint(_names(*tests))


def _covers(tests: list[ast.expr]) -> bool:
    """Return whether one of some tests holds, or they list the cases of one value."""
    if any(isinstance(test, ast.Constant) and test.value for test in tests):
        return True
    normal = [_normal(test) for test in tests]
    if any((text, not holds) in normal for text, holds in normal):
        return True
    subjects = [_subjects(test) for test in tests]
    return len(tests) > 1 and bool(frozenset.intersection(*subjects))


_OPPOSITE = {
    ast.IsNot: ast.Is,
    ast.NotEq: ast.Eq,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.NotIn: ast.In,
}


def _normal(test: ast.expr) -> tuple[str, bool]:
    """Return the text of a test without its negation, and whether it had none."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return ast.unparse(test.operand), False
    opposite = _OPPOSITE.get(type(test.ops[0])) if isinstance(test, ast.Compare) else None
    if isinstance(test, ast.Compare) and opposite is not None and len(test.ops) == 1:
        return ast.unparse(ast.Compare(test.left, [opposite()], test.comparators)), False
    return ast.unparse(test), True


def _subjects(test: ast.expr) -> frozenset[str]:
    """Return what a test compares with values, as text; nothing for comparisons with None."""
    if isinstance(test, ast.BoolOp):
        return frozenset().union(*map(_subjects, test.values))
    if isinstance(test, ast.Compare):
        other = test.comparators[0]
        is_none = isinstance(other, ast.Constant) and other.value is None
        return frozenset() if is_none else frozenset(map(ast.unparse, (test.left, other)))
    if isinstance(test, ast.Call):
        if isinstance(test.func, ast.Name) and test.args:
            return frozenset((ast.unparse(test.args[0]),))
        return frozenset((_last(test.func),))
    return frozenset()


def _leaves(node: ast.stmt, ending: frozenset[str]) -> bool:
    """Return whether nothing after a statement of a body is executed."""
    if isinstance(node, ast.Assert):
        return isinstance(node.test, ast.Constant) and not node.test.value
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return isinstance(node, (ast.Return, ast.Raise, ast.Break, ast.Continue))
    name = _last(node.value.func)
    if name == "error":
        owner = ast.unparse(node.value.func).lower()
        return not any(word in owner for word in _LOGS)
    return name in ending or not _ENDING.isdisjoint(name.lower().strip("_").split("_"))


def _last(func: ast.expr) -> str:
    if isinstance(func, ast.Attribute):
        return func.attr
    return func.id if isinstance(func, ast.Name) else ""


def _varies(test: ast.expr) -> bool:
    """Return whether a test may have another outcome in each iteration, whatever names hold."""
    return any(
        isinstance(node, ast.Subscript)
        or (isinstance(node, ast.Call) and _last(node.func) not in _STABLE)
        for node in ast.walk(test)
    )


def _names(*nodes: ast.expr) -> frozenset[str]:
    """Return the names and attributes in expressions, but for those that are everywhere."""
    return frozenset().union(*map(_names_of, nodes))


@kept_for_file
def _names_of(node: ast.expr) -> frozenset[str]:
    nodes = list(ast.walk(node))
    names = {one.id for one in nodes if isinstance(one, ast.Name)} - _COMMON
    return frozenset(names | {one.attr for one in nodes if isinstance(one, ast.Attribute)})


def _statements(nodes: Iterable[ast.AST], closed: tuple[type, ...] = ()) -> Iterator[ast.AST]:
    """Yield statements with those in them, handlers and cases too, but no inner functions."""
    pending = [*nodes]
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, (*_SIMPLE, *FUNCTIONS, ast.ClassDef, *closed)):
            inner = ast.iter_child_nodes(node)
            pending += (one for one in inner if not isinstance(one, ast.expr))


def _stored(nodes: Iterable[ast.AST], *, attributes: bool = True) -> frozenset[str]:
    """Return the names that nodes bind or delete, and the attributes that they set."""
    return frozenset(name for node in nodes for name in _stored_by(node, attributes=attributes))


@kept_for_file
def _stored_by(node: ast.AST, *, attributes: bool) -> frozenset[str]:
    found: set[str | None] = set()
    for one in _statements((node,)):
        if isinstance(one, _IMPORTS):
            found.update(alias.asname or alias.name.partition(".")[0] for alias in one.names)
        elif isinstance(one, _NAMED):
            found.add(one.name)
        elif isinstance(one, ast.MatchMapping):
            found.add(one.rest)
        for target in _targets(one):
            for part in (target,) if isinstance(target, ast.Name) else ast.walk(target):
                if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load):
                    found.add(part.id)
                elif attributes and isinstance(part, ast.Attribute):
                    found.add(None if isinstance(part.ctx, ast.Load) else part.attr)
    return frozenset(name for name in found if name is not None)


def _targets(node: ast.AST) -> Iterable[ast.AST]:
    """Return what a statement, an item of a ``with`` or a target assigns to or deletes."""
    if isinstance(node, (ast.Assign, ast.Delete)):
        return node.targets
    if isinstance(node, ast.AnnAssign):
        return () if node.value is None else (node.target,)
    if isinstance(node, (ast.AugAssign, ast.For, ast.AsyncFor)):
        return (node.target,)
    if isinstance(node, ast.withitem):
        return () if node.optional_vars is None else (node.optional_vars,)
    return (node,) if isinstance(node, ast.expr) else ()


def _reads(node: ast.AST) -> Iterator[ast.Name]:
    """Yield the names that a statement's own expressions read in any case, in no order."""
    pending = [node]
    while pending:
        one = pending.pop()
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load):
            yield one
        elif isinstance(one, ast.AugAssign) and isinstance(one.target, ast.Name):
            yield one.target
        pending += _evaluated(one)


def _evaluated(node: ast.AST) -> Iterable[ast.AST]:
    """Return the parts of a node that are evaluated with it in any case."""
    if isinstance(node, ast.IfExp):
        return (node.test,)
    if isinstance(node, ast.BoolOp):
        return node.values[:1]
    if isinstance(node, ast.Compare):
        return (node.left, node.comparators[0])
    if isinstance(node, COMPREHENSIONS):
        return (node.generators[0].iter,)
    if isinstance(node, ast.AnnAssign):
        return () if node.value is None else (node.target, node.value)
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return node.items
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        return node.decorator_list
    if isinstance(node, (ast.Lambda, ast.Match, ast.NamedExpr)):
        return ()
    return ast.iter_child_nodes(node)
