"""A frame: the names and the state of inference inside one function, class or module body."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, TypeAlias

import libcst as cst
from msgspec import Struct, field

from embercoach.analysis.values.facts import Fact, FactPlace, FunctionVisit
from embercoach.analysis.values.lattice import UNKNOWN, Symbol, Value, join, join_chosen
from embercoach.analysis.values.persistent_maps import EMPTY, Keys, Version
from embercoach.analysis.work import Work

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.dataflow.gradient_roots import GradientRun
    from embercoach.analysis.evaluate.control import Round
    from embercoach.analysis.evaluate.must_execute import MustExecute
    from embercoach.analysis.project.module import Module


class Names(dict[str, Value]):
    """The values of names, and of attribute paths such as ``"self.keys"``.

    To be read as a dictionary. A version costs what has changed since the last one, and so does
    the way back to it.
    """

    __slots__ = ("_below", "_changed", "_keys", "_version")

    def __init__(self) -> None:
        super().__init__()
        self._keys: Keys[str] = Keys()
        self._version = EMPTY
        self._changed: dict[str, None] = {}  # since that version, in order
        self._below: dict[
            str, dict[str, None]
        ] = {}  # the paths that begin with a path, and one more

    def __setitem__(self, key: str, value: Value) -> None:
        self._changed[key] = None
        self._set(key, value)

    def __delitem__(self, key: str) -> None:
        self._changed[key] = None
        super().__delitem__(key)

    def remove(self, key: str) -> None:
        """Delete a name, if it is there."""
        if key in self:
            del self[key]

    def set_all(self, pairs: Iterable[tuple[str, Value]]) -> None:
        """Set names to values."""
        for key, value in pairs:
            self[key] = value

    def has_below(self, path: str) -> bool:
        """Return whether something may be known of attribute paths that begin with a path."""
        return path in self._below

    def forget_below(self, path: str) -> None:
        """Delete the attribute paths that begin with a path."""
        pending = [path]
        while pending:
            for inner in self._below.pop(pending.pop(), ()):
                self.remove(inner)
                pending.append(inner)

    def version(self) -> Version:
        """Return the current values of all names."""
        for key in self._changed:
            self._version = self._keys.with_value(self._version, key, self.get(key))
        self._changed.clear()
        return self._version

    def restore(self, version: Version) -> None:
        """Go back to a version, which may be used again."""
        for key, _, value in self._keys.differences(self.version(), version):
            if value is None:
                super().__delitem__(key)
            else:
                self._set(key, value)
        self._version = version

    def since(self, version: Version) -> Iterator[tuple[str, Value | None, Value | None]]:
        """Return the names that hold another value than in a version, with both values."""
        return self._keys.differences(version, self.version())

    def join(self, versions: Sequence[Version]) -> None:
        """Go on with what some versions hold, one or the other of them."""
        joined, choice = versions[0], object()
        for key, runs in self._keys.held(versions).items():
            value = runs[0][0]
            for other, times in runs:
                value = _joined(key, value, other, times, choice)
            joined = self._keys.with_value(joined, key, value)
        self.restore(joined)

    def _set(self, key: str, value: Value) -> None:
        path = "" if key in self else key
        while "." in path:
            owner = path.rpartition(".")[0]
            known = self._below.setdefault(owner, {})
            if path in known:
                break
            known[path] = None
            path = owner
        super().__setitem__(key, value)


def _joined(
    key: str, value: Value | None, other: Value | None, times: int, choice: object
) -> Value | None:
    """The join of a value with another one, again and again as far as that makes a difference."""
    for _ in range(times):
        if value is other:
            break
        if value is None or other is None:
            # Bound on one branch only. A path is only narrowed there; forget it.
            return None if "." in key else value or other
        before, value = value, join_chosen(value, other, choice)
        if value == before:
            break
    return value


#: The names at one point of the program.
Snapshot: TypeAlias = Version
BUILTINS = {name: Symbol(f"builtins.{name}") for name in dir(builtins) if name[0] != "_"}
_NOWHERE = cst.Module(())
_AS_BEFORE = nullcontext()


class Frame(Struct, eq=False):
    """The values of names while statements are walked in order.

    ``names`` also holds narrowed or assigned attribute paths such as ``"self.keys"``.
    ``record`` is off while a result is only looked up (summaries, the first round of a loop), so
    that every fact is recorded once. ``exact`` is on while a function is run for the constants of
    one call: then tests that they decide are decided.
    """

    module: Module
    info: FunctionInfo | None = None
    outer: Frame | None = None
    record: bool = False
    depth: int = 0
    exact: bool = False
    gradient: GradientRun | None = None  # the run that follows a gradient
    must: MustExecute | None = None  # what a run for the calls that must execute notes
    rounds_left: int = 0  # of loops that may still be gone through one by one
    visit: FunctionVisit | None = None  # the call that the body is run for, to see its launches
    seen: list[Fact] = field(default_factory=list)  # what is seen then
    #: Whether what the body assigns outside of it is dropped: the values are of one call, and
    #: other files see the same module.
    traceless: bool = False
    #: Functions that a traceless run defines.
    functions: dict[cst.CSTNode, FunctionInfo] = field(default_factory=dict)
    names: Names = field(default_factory=Names)
    global_names: set[str] = field(default_factory=set)
    loops: int = 0
    loop: cst.For | cst.While | None = None
    nesting: int = 0  # loops around, also in rounds that are not recorded
    #: The last quiet round of each deeply nested loop: the state before, what it walks over,
    #: how it ended, and the state after.
    quiet_rounds: dict[int, tuple[Snapshot, Value, Round, Snapshot]] = field(default_factory=dict)
    loop_names: frozenset[str] = frozenset()
    array_names: frozenset[str] = frozenset()
    periodic: bool = False
    evaluated: set[str] = field(default_factory=set)  # paths that ``mx.eval`` is given in the body
    rebound: set[str] = field(default_factory=set)  # names assigned in the body, parameters too
    #: Unknown values and methods in ``hasattr`` tests.
    asked: set[tuple[str, str]] = field(default_factory=set)
    #: States at a break (True) and at a continue (False) of the loop.
    exits: list[tuple[bool, Snapshot]] | None = None
    returned: Value | None = None
    yielded: Value | None = None
    #: These begin as those of the module.
    statement: cst.CSTNode = _NOWHERE
    work: Work = field(default_factory=lambda: Work(0))

    def __post_init__(self) -> None:
        self.work = self.module.work
        self.statement = self.module.tree

    @property
    def decides(self) -> bool:
        """Return whether a test whose truth is known runs one branch alone."""
        return self.exact or self.must is not None or self.gradient is not None

    def unsure(self) -> AbstractContextManager[None]:
        """Run what may not execute: what it calls is not noted as what must."""
        return _AS_BEFORE if self.must is None else self.must.unsure()

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Look values up without recording facts."""
        recording, self.record = self.record, False
        try:
            yield
        finally:
            self.record = recording

    def lookup(self, name: str) -> Value:
        """Return a name's value here, following closures, then the module, then builtins."""
        frame: Frame | None = self
        while frame is not None:
            value = frame.names.get(name)
            if value is not None:
                return value
            frame = frame.outer
        value = self.module.frame.names.get(name)
        if value is not None:
            return value
        if self.module.has_star_import:
            return UNKNOWN
        if name not in BUILTINS:
            self.module.unbound_names.add((self.scope, name))
        return BUILTINS.get(name, UNKNOWN)

    @property
    def scope(self) -> str:
        """The name of the function at hand; empty at the top level."""
        return "" if self.info is None else self.info.name

    def bind(self, name: str, value: Value) -> None:
        """Assign a name; what was known of its attributes is forgotten."""
        names = self.names
        if name in names:
            names.forget_below(name)
        if name in self.global_names and not self.traceless:
            module_names = self.module.frame.names
            known = module_names.get(name)
            module_names[name] = value if known is None else join(known, value)
        elif self.outer is not None and (name in BUILTINS or name in self.outer.names):
            self.module.hiding_names.add((self.scope, name))
        names[name] = value
        self.rebound.add(name)
        if self.asked:
            self.asked = {pair for pair in self.asked if pair[0] != name}

    def assign_path(self, path: str, value: Value) -> None:
        """Assign a dotted path such as ``"self.keys"``, or a name without rebinding it."""
        self.names.forget_below(path)
        self.names[path] = value
        if path in self.global_names and not self.traceless:
            self.module.frame.names[path] = value

    def fork(self) -> Snapshot:
        """Return a snapshot to come back to for the other branch."""
        return self.names.version()

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot, which may be used again."""
        self.names.restore(snapshot)

    def merge(self, snapshots: Iterable[Snapshot]) -> None:
        """Continue with the join of the branches that fall through."""
        branches = list(snapshots)
        if branches:
            self.names.join(branches)

    def place(self) -> FactPlace:
        """Return where the statement at hand stands."""
        return FactPlace(
            self.statement,
            self.info,
            self.loops,
            self.loop,
            self.loop_names,
            self.array_names,
            self.periodic,
        )

    def add(self, fact: Fact) -> None:
        """Record a fact under the function at hand."""
        self.module.facts_of(self.info).append(fact)
