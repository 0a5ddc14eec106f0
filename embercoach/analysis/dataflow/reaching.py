"""Which bindings of a name may hold where a statement begins: asked for findings alone.

Inference itself keeps what a name holds, not where it was bound, as that would cost all code. Here
the statements of one scope are walked once more, and only their bindings are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Literal

import libcst as cst
from msgspec import Struct

from embercoach.analysis.dataflow.contents import head_contents
from embercoach.analysis.syntax.trees import parameters_of, target_names, walk
from embercoach.analysis.values.persistent_maps import EMPTY, Keys, Version

Kind = Literal["assigned", "unpacked", "updated", "element", "parameter", "opaque"]


class Binding(Struct, frozen=True, eq=False):
    """Where a name gets a value.

    ``node`` is what to point at, in ``statement``; ``value`` is the expression that the value comes
    from, None for a parameter and for what is ``opaque``: an import, a definition, a pattern.
    ``index`` is the name's place among several targets of a loop or an assignment, if it is known,
    ``order`` the binding's among those of its name.
    """

    name: str
    kind: Kind
    node: cst.CSTNode
    statement: cst.CSTNode
    value: cst.BaseExpression | None = None
    index: int | None = None
    order: int = 0


def without_updates(bindings: Iterable[Binding] | None) -> tuple[Binding, ...]:
    """Return the bindings but for updates in place, which keep the object."""
    return tuple(binding for binding in bindings or () if binding.kind != "updated")


#: The bindings of each name that may hold: a version of a map from names to tuples of them.
State = Version
#: Of a name with so many bindings that may hold, no more are kept: all of them are of no use.
MOST_BINDINGS = 4
#: Times that statements may be walked, on average: in loops and ``finally`` they are walked again,
#: and where those nest, once more for each of them.
MOST_VISITS = 50
#: Context managers that may end a body early and continue after it.
_SWALLOWING = frozenset({"suppress", "raises", "assertRaises", "assertRaisesRegex"})


class Reaching:
    """The bindings of one scope: a function, a lambda or a module."""

    def __init__(self, scope: cst.FunctionDef | cst.Lambda | cst.Module, *, has_walrus: bool):
        """Walk the scope. ``has_walrus`` says whether there may be ``:=`` in it."""
        self.bindings: dict[str, list[Binding]] = {}
        self._before: dict[int, State] = {}
        self._made: dict[tuple[int, str, int], tuple[Binding]] = {}
        self._inside: set[tuple[int, str]] = set()  # statements, and names that they bind midway
        self._has_walrus = has_walrus
        self._exits: list[tuple[bool, State]] = []  # states at a break (True) and a continue
        self._names: Keys[str] = Keys()
        self._in_order: list[Binding] = []  # as the walk comes to them
        self._ranges: dict[int, tuple[int, int]] = {}  # in that list, those of a node's body
        #: Of each loop, the states that it was last begun from and left with.
        self._loops: dict[int, tuple[State, State | None]] = {}
        self._visits = 0
        state: State = EMPTY
        if not isinstance(scope, cst.Module):
            for parameter in parameters_of(scope.params):
                name = parameter.name
                state = self._bind(state, name.value, "parameter", name, scope)
        if not isinstance(scope, cst.Lambda):
            self._run(scope.body, state)

    def before(self, statement: cst.CSTNode, name: str) -> tuple[Binding, ...] | None:
        """Return the possible bindings of a name where a statement of the scope begins.

        None if that is not known: the scope never binds it, has no such statement, binds it in the
        midst of that statement, or more bindings may hold than are of use.
        """
        state = self._before.get(id(statement))
        if state is None or name not in self.bindings or (id(statement), name) in self._inside:
            return None
        reached: tuple[Binding, ...] = self._names.get(state, name) or ()
        if self.gave_up or len(reached) == MOST_BINDINGS:
            return None
        return tuple(sorted(reached, key=lambda binding: binding.order))

    @property
    def gave_up(self) -> bool:
        """Return whether statements have been walked too often to go on."""
        return self._visits > MOST_VISITS * (len(self._before) + MOST_VISITS)

    def _bind(
        self,
        state: State,
        name: str,
        kind: Kind,
        node: cst.CSTNode,
        statement: cst.CSTNode,
        value: cst.BaseExpression | None = None,
        index: int | None = None,
    ) -> State:
        key = (id(node), name, id(value))
        alone = self._made.get(key)
        if alone is None:
            known = self.bindings.setdefault(name, [])
            binding = Binding(name, kind, node, statement, value, index, len(known))
            alone = self._made[key] = (binding,)
            known.append(binding)
            self._in_order.append(binding)
        return self._names.with_value(state, name, alone)

    def _run(self, body: Any, state: State | None) -> State | None:
        """Walk a suite or its statements; None once a statement leaves it."""
        statements = body if type(body) in (list, tuple) else body.body
        for statement in statements:
            if state is None:
                break
            kind = type(statement)
            if kind is cst.SimpleStatementLine:
                state = self._run(statement.body, state)
                continue
            self._before[id(statement)] = state
            self._visits += 1
            if self.gave_up:
                return None
            handler = self._HANDLERS.get(kind)
            if self._has_walrus:
                state = self._walruses(statement, state)
            if handler is not None:
                state = handler(self, statement, state)
        return state

    def _walruses(self, statement: cst.CSTNode, state: State) -> State:
        for node in head_contents(statement):
            if type(node) is cst.NamedExpr and isinstance(node.target, cst.Name):
                name = node.target
                bound = self._bind(state, name.value, "assigned", name, statement, node.value)
                state = self._merged((state, bound)) or state  # it may be in a part not evaluated
                self._inside.add((id(statement), name.value))
        return state

    def _assign_target(
        self,
        state: State,
        target: cst.CSTNode,
        value: cst.BaseExpression,
        statement: cst.CSTNode,
    ) -> State:
        if type(target) is cst.Name:
            return self._bind(state, target.value, "assigned", statement, statement, value)
        if type(target) is not cst.Tuple and type(target) is not cst.List:
            return state
        items = target.elements
        if isinstance(value, (cst.Tuple, cst.List)) and len(value.elements) == len(items):
            both = [*items, *value.elements]
            if not any(isinstance(element, cst.StarredElement) for element in both):
                for item, given in zip(items, value.elements, strict=True):
                    state = self._assign_target(state, item.value, given.value, statement)
                return state
        has_star = False
        for index, item in enumerate(items):
            has_star = has_star or isinstance(item, cst.StarredElement)
            known = None if has_star or not isinstance(item.value, cst.Name) else index
            for name in target_names(item.value):
                state = self._bind(state, name, "unpacked", statement, statement, value, known)
        return state

    def _assign(self, node: cst.Assign, state: State) -> State | None:
        for target in node.targets:
            state = self._assign_target(state, target.target, node.value, node)
        return state

    def _annotated(self, node: cst.AnnAssign, state: State) -> State | None:
        if node.value is None:
            return state
        return self._assign_target(state, node.target, node.value, node)

    def _augmented(self, node: cst.AugAssign, state: State) -> State | None:
        if not isinstance(node.target, cst.Name):
            return state
        return self._bind(state, node.target.value, "updated", node, node, node.value)

    def _opaque(self, names: Iterable[str], node: cst.CSTNode, state: State) -> State:
        for name in names:
            state = self._bind(state, name, "opaque", node, node)
        return state

    def _definition(self, node: cst.FunctionDef | cst.ClassDef, state: State) -> State | None:
        return self._opaque((node.name.value,), node, state)

    def _import(self, node: cst.Import | cst.ImportFrom, state: State) -> State | None:
        return self._opaque(_imported(node), node, state)

    def _delete(self, node: cst.Del, state: State) -> State | None:
        for name in target_names(node.target):
            state = self._names.with_value(state, name, None)
        return state

    def _leave(self, node: cst.CSTNode, state: State) -> State | None:
        return None

    def _jump(self, node: cst.CSTNode, state: State) -> State | None:
        self._exits.append((type(node) is cst.Break, state))
        return None

    def _if(self, node: cst.If, state: State) -> State | None:
        body = self._run(node.body, state)
        orelse: State | None = state
        if isinstance(node.orelse, cst.If):
            orelse = self._run((node.orelse,), state)
        elif node.orelse is not None:
            orelse = self._run(node.orelse.body, state)
        return self._merged((body, orelse))

    def _for(self, node: cst.For, state: State) -> State | None:
        def entered(head: State) -> State:
            if isinstance(node.target, cst.Name):
                name = node.target.value
                return self._bind(head, name, "element", node.iter, node, node.iter)
            elements = getattr(node.target, "elements", ())
            for index, element in enumerate(elements):
                for name in target_names(element.value):
                    head = self._bind(head, name, "element", node.iter, node, node.iter, index)
            return head

        return self._loop(node, state, entered, runs_out=True)

    def _while(self, node: cst.While, state: State) -> State | None:
        def entered(head: State) -> State:
            self._before[id(node)] = head
            return self._walruses(node, head) if self._has_walrus else head

        endless = isinstance(node.test, cst.Name) and node.test.value == "True"
        return self._loop(node, state, entered, runs_out=not endless)

    def _loop(
        self,
        node: cst.For | cst.While,
        head: State,
        entered: Callable[[State], State],
        *,
        runs_out: bool,
    ) -> State | None:
        """Rounds until none of them adds a binding to what the next one begins with.

        A loop in loops is not walked again from the state that it was last walked from.
        """
        known = self._loops.get(id(node))
        if known is not None and not any(True for _ in self._names.differences(known[0], head)):
            return known[1]
        before = head
        outer = self._exits
        while True:
            self._exits = []
            end = self._run(node.body, entered(head))
            again = [state for is_break, state in self._exits if not is_break]
            breaks = [state for is_break, state in self._exits if is_break]
            joined = self._merged((head, end, *again))
            assert joined is not None
            if joined is head:
                break
            head = joined
        self._exits = outer
        after: State | None = head
        if node.orelse is not None:
            after = self._run(node.orelse.body, head)
        left = self._merged((after if runs_out else None, *breaks))
        if node.orelse is None:  # there, a ``break`` leaves the loop around
            self._loops[id(node)] = (before, left)
        return left

    def _merged(self, states: Sequence[State | None]) -> State | None:
        """Return the possible bindings where several paths join; None if none comes there."""
        reached = [state for state in states if state is not None]
        if not reached:
            return None
        found = reached[0]
        for name, runs in self._names.held(reached).items():
            known: tuple[Binding, ...] = ()
            for bindings, _ in runs:
                if bindings is None or len(known) >= MOST_BINDINGS:
                    continue
                more = tuple(b for b in bindings if b not in known)
                if more:  # else it stays the same object, for a loop to see that nothing was added
                    known = (*known, *more)[:MOST_BINDINGS] if known else bindings
            found = self._names.with_value(found, name, known)
        return found

    def _with(self, node: cst.With, state: State) -> State | None:
        for item in node.items:
            if item.asname is not None:
                names = tuple(target_names(item.asname.name))
                state = self._opaque(names, node, state)
                self._inside.update((id(node), name) for name in names)
        after = self._run_once(node.body, state)
        swallows = any(last_name(item.item) in _SWALLOWING for item in node.items)
        return self._merged((after, self._during(node.body, state))) if swallows else after

    def _run_once(self, body: Any, state: State | None) -> State | None:
        """Walk a body, and note which bindings the first walk finds in it: those are all."""
        start = len(self._in_order)
        after = self._run(body, state)
        self._ranges.setdefault(id(body), (start, len(self._in_order)))
        return after

    def _during(self, body: cst.CSTNode, state: State) -> State:
        """Return the possible bindings anywhere within a body that was walked."""
        for binding in self._in_order[slice(*self._ranges[id(body)])]:
            known: tuple[Binding, ...] = self._names.get(state, binding.name) or ()
            if binding not in known and len(known) < MOST_BINDINGS:
                state = self._names.with_value(state, binding.name, (*known, binding))
        return state

    def _try(self, node: cst.Try | cst.TryStar, state: State) -> State | None:
        if node.finalbody is None:
            return self._handled(node, state)
        outer, self._exits = self._exits, []
        start = len(self._in_order)
        done = self._handled(node, state)
        exits, self._exits = self._exits, outer
        final = node.finalbody.body
        done = self._run(final, done)
        ends = [(is_break, self._run(final, left)) for is_break, left in exits]
        self._exits += [(is_break, end) for is_break, end in ends if end is not None]
        # It runs in any case: what is said of its statements holds whatever came before.
        is_first = id(node) not in self._ranges
        if is_first:
            self._ranges[id(node)] = (start, len(self._in_order))
        self._run(final, self._during(node, state))
        if is_first:
            self._ranges[id(node)] = (start, len(self._in_order))
        return done

    def _handled(self, node: cst.Try | cst.TryStar, state: State) -> State | None:
        """Return a ``try`` without its ``finally``."""
        after = self._run_once(node.body, state)
        raised = self._during(node.body, state)
        if node.orelse is not None:
            after = self._run(node.orelse.body, after)
        ends = [after]
        for handler in node.handlers:
            names = target_names(handler.name.name) if handler.name is not None else ()
            ends.append(self._run(handler.body, self._opaque(names, handler, raised)))
        return self._merged(ends)

    def _match(self, node: cst.Match, state: State) -> State | None:
        ends: list[State | None] = [state]
        for case in node.cases:
            names = [n.value for n in walk(case.pattern) if isinstance(n, cst.Name)]
            ends.append(self._run(case.body, self._opaque(names, case, state)))
        return self._merged(ends)

    _HANDLERS: ClassVar[dict[type, Callable[[Reaching, Any, State], State | None]]] = {
        cst.Assign: _assign,
        cst.AnnAssign: _annotated,
        cst.AugAssign: _augmented,
        cst.FunctionDef: _definition,
        cst.ClassDef: _definition,
        cst.Import: _import,
        cst.ImportFrom: _import,
        cst.Del: _delete,
        cst.Return: _leave,
        cst.Raise: _leave,
        cst.Break: _jump,
        cst.Continue: _jump,
        cst.If: _if,
        cst.For: _for,
        cst.While: _while,
        cst.With: _with,
        cst.Try: _try,
        cst.TryStar: _try,
        cst.Match: _match,
    }


def _imported(node: cst.Import | cst.ImportFrom) -> Iterator[str]:
    for alias in () if isinstance(node.names, cst.ImportStar) else node.names:
        bound: cst.CSTNode = alias.name if alias.asname is None else alias.asname.name
        while isinstance(bound, cst.Attribute):
            bound = bound.value  # ``import a.b`` binds ``a``
        yield from target_names(bound)


def last_name(node: cst.CSTNode) -> str:
    """Return the last name of what an expression calls, or of a path; empty for anything else."""
    function = node.func if isinstance(node, cst.Call) else node
    if isinstance(function, cst.Attribute):
        return function.attr.value
    return function.value if isinstance(function, cst.Name) else ""
