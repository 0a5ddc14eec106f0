"""INDEX-004 and INDEX-005: in-place updates of arrays that other names still hold."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.facts.facts import LocalCall
from embercoach.analysis.facts.scopes import Expression, by_parameter, resolve_name, scope_of
from embercoach.analysis.facts.stops import Stop
from embercoach.analysis.syntax.trees import head_of, small_statements, walk
from embercoach.analysis.values.joins import as_array
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo, FunctionParameter
    from embercoach.analysis.facts.facts import BinaryFact, Fact, ItemStoreFact
    from embercoach.analysis.facts.reaching import Binding, Reaching
    from embercoach.analysis.project.module import Module

#: Copies of a name that are looked at.
MOST_COPIES = 16
HELP = "Use `x = x + v`, or copy it first: `mx.array(x)`"


class _Update(NamedTuple):
    """An in-place update: the fact, the expression that is updated, and the scope's bindings."""

    fact: Fact
    node: cst.BaseExpression
    reaching: Reaching


@check("INDEX-004", "INDEX-005")
def operator_in_place(fact: BinaryFact, module: Module) -> Iterator[Report]:
    """``x += v``."""
    if fact.in_place and fact.left.array is not None:
        yield from _shared(fact, fact.left.node, module)


@check("INDEX-004", "INDEX-005")
def write_in_place(fact: ItemStoreFact, module: Module) -> Iterator[Report]:
    """``x[i] = v``."""
    if as_array(fact.base) is not None:
        yield from _shared(fact, fact.node.value, module)


def _shared(fact: Fact, node: cst.BaseExpression, module: Module) -> Iterator[Report]:
    if isinstance(node, cst.Subscript):
        if node not in module.array_parts:  # a part is a copy (INDEX-002)
            yield from _repeated_item(fact, node, module)
        return
    reaching = scope_of(module, fact.place.function).reaching
    if not isinstance(node, cst.Name) or reaching is None:
        return
    update = _Update(fact, node, reaching)
    for other, binding in _aliases(update, node.value, module):
        if _is_read_after(update, other, binding, module):
            yield Report.at(
                fact,
                "INDEX-004",
                message=f"in-place update also changes `{_short(other)}`: it is the same array",
                help=HELP,
                subject=node,
            )
            return
    yield from _parameter_changed(update, node.value, module)


def _short(name: str) -> str:
    return name if len(name) <= 20 else f"{name[:19]}…"


def _aliases(update: _Update, name: str, module: Module) -> Iterator[tuple[str, Binding]]:
    """The other names that hold the array that a name holds, with their bindings."""
    reaching, statement = update.reaching, update.fact.place.statement
    here = reaching.before(statement, name)
    if not here:
        return
    for binding in _copies(module, update.fact.place.function).get(name, ())[:MOST_COPIES]:
        if reaching.before(statement, binding.name) == (binding,) and (
            _objects(reaching.before(binding.statement, name)) == _objects(here)
        ):
            yield binding.name, binding
    (first, *more) = _objects(here) or here
    if more or not isinstance(first.value, cst.Name) or first.kind != "assigned":
        return
    other = first.value.value
    held = reaching.before(statement, other)
    if held and len(held) == 1 and held == reaching.before(first.statement, other):
        yield other, held[0]


def _objects(bindings: tuple[Binding, ...] | None) -> tuple[Binding, ...]:
    """The bindings but for updates in place, which keep the object."""
    return tuple(binding for binding in bindings or () if binding.kind != "updated")


@lru_cache(maxsize=8)
def _copies(module: Module, function: FunctionInfo | None) -> dict[str, list[Binding]]:
    """The bindings ``y = x`` of a scope, by ``x``."""
    reaching = scope_of(module, function).reaching
    found: dict[str, list[Binding]] = {}
    for bindings in () if reaching is None else reaching.bindings.values():
        for binding in bindings:
            if binding.kind == "assigned" and isinstance(binding.value, cst.Name):
                found.setdefault(binding.value.value, []).append(binding)
    return found


def _is_read_after(update: _Update, name: str, binding: Binding, module: Module) -> bool:
    """Return whether a name is read after an update, while the binding may hold."""
    place = update.fact.place
    reads = _reads(module, place.function)
    return _comes_later(reads, place.statement, place.loop, name, binding, update.reaching)


def _comes_later(
    reads: _Reads,
    statement: cst.CSTNode,
    loop: cst.CSTNode | None,
    name: str,
    binding: Binding,
    reaching: Reaching,
) -> bool:
    start = reads.order.get(id(statement))
    if start is None:
        return False
    begin = start if loop is None else reads.order.get(id(loop), start)
    end = start if loop is None else reads.ends.get(id(loop), start)
    branches = reads.branches[id(statement)]
    for at, reader in reads.of.get(name, ()):
        if any(branches.get(test, branch) != branch for test, branch in reads.at(reader)):
            continue  # in another branch
        if at <= start and not (loop is not None and begin <= at <= end):
            continue
        if reader is statement and loop is None:
            continue
        held = reaching.before(reader, name)
        if held is not None and binding in held:
            return True
    return False


class _Reads(NamedTuple):
    """The statements of a scope that read each name, with their places in the text.

    order: the place of each statement, by its ``id``.
    ends: the place of the last statement in each loop.
    branches: of each statement, the branches of tests that it is in, by the ``id`` of the test.
    """

    of: dict[str, list[tuple[int, cst.CSTNode]]]
    order: dict[int, int]
    ends: dict[int, int]
    branches: dict[int, dict[int, bool]]

    def at(self, statement: cst.CSTNode) -> Iterable[tuple[int, bool]]:
        """The tests around a statement, and which branch it is in."""
        return self.branches[id(statement)].items()


@lru_cache(maxsize=8)
def _reads(module: Module, function: FunctionInfo | None) -> _Reads:
    root = module.tree if function is None else function.node.body
    reads = _Reads({}, {}, {}, {})
    body = (cst.BaseExpression, cst.FunctionDef, cst.ClassDef)
    for statement in walk(root, body):
        if not isinstance(statement, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
            continue
        at = reads.order[id(statement)] = len(reads.order)
        around = reads.branches.setdefault(id(statement), {})
        _note_branches(statement, around, reads)
        bound = _bound_nodes(statement)
        whole = isinstance(statement, (cst.FunctionDef, cst.ClassDef))
        for inner in walk(statement) if whole else head_of(statement):
            if isinstance(inner, cst.Attribute):
                bound.add(id(inner.attr))
            elif isinstance(inner, cst.Arg) and inner.keyword is not None:
                bound.add(id(inner.keyword))
            elif isinstance(inner, cst.Name) and id(inner) not in bound:
                reads.of.setdefault(inner.value, []).append((at, statement))
    for loop in walk(root, body):
        if isinstance(loop, (cst.For, cst.While)):
            last = [reads.order[id(s)] for s in small_statements(loop.body) if id(s) in reads.order]
            reads.ends[id(loop)] = max(last, default=0)
    return reads


def _note_branches(statement: cst.CSTNode, around: dict[int, bool], reads: _Reads) -> None:
    """Note the branches that the statements right below one are in."""
    for name in ("body", "orelse"):
        suite = getattr(statement, name, None)
        below = around
        if isinstance(statement, cst.If):
            below = {**around, id(statement): name == "body"}
        if isinstance(suite, cst.If):
            reads.branches[id(suite)] = below
            continue
        if isinstance(suite, cst.Else):
            suite = suite.body
        for line in getattr(suite, "body", ()):
            simple = isinstance(line, cst.SimpleStatementLine)
            for inner in line.body if simple else (line,):
                reads.branches[id(inner)] = below
    for handler in getattr(statement, "handlers", ()):
        _note_branches(handler, around, reads)


def _bound_nodes(statement: cst.CSTNode) -> set[int]:
    """The names that a statement binds, by their ``id``."""
    pending: list[cst.CSTNode] = [*_targets(statement)]
    pending.append(getattr(statement, "target", statement))
    found: set[int] = set()
    while pending:
        target = pending.pop()
        found.add(id(target))
        if isinstance(target, (cst.Tuple, cst.List)):
            pending += [element.value for element in target.elements]
    return found


def _repeated_item(fact: Fact, node: cst.Subscript, module: Module) -> Iterator[Report]:
    """``rows = [mx.zeros(3)] * 4; rows[0] += 1`` changes all four."""
    if not isinstance(node.value, cst.Name):
        return
    source = resolve_name(Expression(node.value, scope_of(module, fact.place.function))).node
    if not isinstance(source, cst.BinaryOperation) or not isinstance(source.operator, cst.Multiply):
        return
    shown = source.left if isinstance(source.left, cst.List) else source.right
    other = source.right if shown is source.left else source.left
    if not isinstance(shown, cst.List) or not shown.elements:
        return
    if isinstance(other, cst.Integer) and other.value in ("0", "1"):
        return
    yield Report.at(
        fact,
        "INDEX-004",
        message="in-place update changes all items: `[x] * n` repeats one array",
        help="Make an array for each item: `[mx.zeros(3) for _ in range(n)]`",
        subject=node.value,
    )


def _parameter_changed(update: _Update, name: str, module: Module) -> Iterator[Report]:
    """``def f(x): x += 1; return x``, for a caller that reads its array again."""
    function = update.fact.place.function
    held = update.reaching.before(update.fact.place.statement, name)
    parameter = _parameter(function, name)
    if function is None or parameter is None or not held:
        return
    if any(binding.kind not in ("parameter", "updated") for binding in held):
        return
    if isinstance(parameter.default, cst.Call):
        yield _changed(update, "default value of", name)
    elif _returns(function, update.reaching, name):
        call = _call_with_later_read(function, name, module)
        if call is not None:
            text = "the caller reads its array again"
            stop = Stop(call.node, call.place.statement, text)
            yield _changed(update, "caller's array passed as", name, stop)


def _changed(update: _Update, what: str, name: str, *related: Stop) -> Report:
    return Report.at(
        update.fact,
        "INDEX-005",
        message=f"in-place update changes the {what} `{_short(name)}`",
        help=HELP,
        subject=update.node,
        related=related,
    )


def _parameter(function: FunctionInfo | None, name: str) -> FunctionParameter | None:
    parameters = () if function is None else function.parameters
    return next((p for p in parameters if p.name == name and not p.star), None)


def _returns(function: FunctionInfo, reaching: Reaching, name: str) -> bool:
    """Return whether a function returns the object that a parameter was bound to."""
    if isinstance(function.node, cst.Lambda):
        return False
    for statement in small_statements(function.node.body):
        if isinstance(statement, cst.Return) and isinstance(statement.value, cst.Name):
            held = reaching.before(statement, name)
            if statement.value.value == name and held:
                return all(binding.kind in ("parameter", "updated") for binding in held)
    return False


@lru_cache(maxsize=2)
def _calls(module: Module) -> dict[FunctionInfo, list[LocalCall]]:
    """The calls of each function of a file."""
    found: dict[FunctionInfo, list[LocalCall]] = {}
    for fact in module.facts():
        if isinstance(fact, LocalCall):
            found.setdefault(fact.function, []).append(fact)
    return found


def _targets(statement: cst.CSTNode) -> list[cst.BaseExpression]:
    return [t.target for t in statement.targets] if isinstance(statement, cst.Assign) else []


@lru_cache(maxsize=64)
def _call_with_later_read(function: FunctionInfo, name: str, module: Module) -> LocalCall | None:
    """A call after which the caller reads the array that it passed."""
    for call in _calls(module).get(function, ()):
        if any(argument.star for argument in call.node.args):
            continue
        pairs = ((a.keyword.value if a.keyword else None, a.value) for a in call.node.args)
        given = by_parameter(function, pairs, is_bound=call.is_bound).get(name)
        place = call.place
        reaching = scope_of(module, place.function).reaching
        if not isinstance(given, cst.Name) or reaching is None:
            continue
        if any(
            isinstance(n, cst.Name) and n.value == given.value for n in _targets(place.statement)
        ):
            continue  # the name holds the result then
        reads = _reads(module, place.function)
        for binding in reaching.before(place.statement, given.value) or ():
            around = (place.statement, place.loop, given.value, binding, reaching)
            here = [at for at, reader in reads.of[given.value] if reader is place.statement]
            if len(here) > 1 or _comes_later(reads, *around):
                return call
    return None
