"""Caches of results, by values, functions and files: kept as long as their modules are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, ParamSpec, TypeAlias, TypeVar

from msgspec import Struct, field

from embercoach.analysis.values.lattice import Value, join

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import ClassInfo, FunctionInfo
    from embercoach.analysis.evaluate.frame import Frame

MAX_DEPTH = 8
#: Runs of bodies for one call, counted as if no result was kept: in mlx-lm and mlx-audio at most
#: 113.
MOST_RUNS = 1_000
#: Results that are kept of a function, for other values.
MOST_KEPT = 64

#: Whether a body is run for constants, and the values of its parameters.
CallKey: TypeAlias = "tuple[bool, tuple[Value, ...]]"
#: Values by class and name.
Attributes: TypeAlias = "dict[tuple[ClassInfo, str], Value]"


class Summary(Struct):
    """The run of a function's body, and what its result depends on.

    Attributes:
        reached: the functions that were run for it.
        cuts: functions that were in progress before, and that it called.
        height: how deeply calls nest in it.
        runs: of bodies, with those whose results were kept.
        is_limited: whether a limit ended a call.
        attributes: what the body assigns to attributes of the module's classes.
        value: the result.
        dependents: results that hold while the body is run.
    """

    reached: set[FunctionInfo]
    cuts: set[FunctionInfo] = field(default_factory=set)
    height: int = 1
    runs: int = 1
    is_limited: bool = False
    attributes: Attributes = field(default_factory=dict)
    value: Value | None = None
    dependents: dict[tuple[FunctionInfo, int, CallKey], Summary] = field(default_factory=dict)

    def include(self, inner: Summary) -> None:
        """Add a call in the body."""
        self.reached |= inner.reached
        self.cuts |= inner.cuts
        self.height = max(self.height, inner.height + 1)
        self.is_limited |= inner.is_limited
        _add_attributes(self.attributes, inner.attributes)


class CallsInProgress:
    """The functions of a project that are being run, and the results that depend on them."""

    def __init__(self) -> None:
        self.functions: set[FunctionInfo] = set()
        self._runs = 0
        self._stack: list[tuple[FunctionInfo, Summary]] = []

    def cut(self, info: FunctionInfo) -> None:
        """Note that a call ends because its function is in progress, or calls nest too deeply."""
        if self._stack:
            _, innermost = self._stack[-1]
            if info in self.functions:
                innermost.cuts.add(info)
            else:
                innermost.is_limited = True

    def note_attribute(self, cls: ClassInfo, name: str, value: Value) -> None:
        """Note what the innermost call assigns to an attribute of a class."""
        if self._stack:
            _add_attributes(self._stack[-1][1].attributes, {(cls, name): value})

    def result(
        self, info: FunctionInfo, key: CallKey, depth: int, vague: Value, run: Callable[[], Value]
    ) -> Summary:
        """Return the run of a shared function for a call at some depth."""
        known = self._known(info, key, depth)
        if known is None:
            if self._runs >= MOST_RUNS:
                self._stack[-1][1].is_limited = True
                return Summary({info}, value=vague)
            known = self._run(info, key, depth, run)
        else:
            self._runs += known.runs
        if self._stack:
            self._stack[-1][1].include(known)
        else:
            self._runs = 0
        return known

    @contextmanager
    def none(self) -> Iterator[None]:
        """Run what holds for all calls: the top level of a module, what a class's methods set."""
        before = self.functions, self._runs, self._stack
        self.functions, self._runs, self._stack = set(), 0, []
        try:
            yield
        finally:
            self.functions, self._runs, self._stack = before

    def _known(self, info: FunctionInfo, key: CallKey, depth: int) -> Summary | None:
        known = info.results.get(key)
        if known is not None and (
            depth + known.height > MAX_DEPTH or self._runs + known.runs > MOST_RUNS
        ):
            known = None
        if known is None and not self._stack:
            known = info.results.get((depth, key))
        if known is not None and self.functions.isdisjoint(known.reached):
            return known
        found = (outer.dependents.get((info, depth, key)) for _, outer in reversed(self._stack))
        return next((one for one in found if one is not None), None)

    def _run(
        self, info: FunctionInfo, key: CallKey, depth: int, run: Callable[[], Value]
    ) -> Summary:
        summary = Summary({info})
        before = self._runs
        self._runs += 1
        self._stack.append((info, summary))
        try:
            summary.value = run()
        finally:
            self._stack.pop()
            summary.dependents.clear()
            summary.cuts.discard(info)
        summary.runs = self._runs - before
        if not summary.cuts and not summary.is_limited:
            _keep(info, key, summary)
        elif not summary.cuts and not self._stack:
            _keep(info, (depth, key), summary)
        elif self._stack:
            # The call in progress that ends first ends what the result depends on.
            inner = (outer for one, outer in reversed(self._stack) if one in summary.cuts)
            owner = self._stack[0][1] if not summary.cuts else next(inner, None)
            if owner is not None and summary.cuts <= {one for one, _ in self._stack}:
                owner.dependents[info, depth, key] = summary
        return summary


def shared_result(
    frame: Frame, info: FunctionInfo, key: CallKey, vague: Value, run: Callable[[], Value]
) -> Value:
    """Return the result of a shared function for a call; ``vague`` beyond a limit."""
    summary = info.module.project.calls.result(info, key, frame.depth, vague, run)
    if not frame.module.is_shared:
        _add_attributes(frame.module.attributes, summary.attributes)
    assert summary.value is not None
    return summary.value


def _add_attributes(known: Attributes, more: Attributes) -> None:
    """Join what is assigned to attributes."""
    for key, value in more.items():
        known[key] = join(known[key], value) if key in known else value


def _keep(info: FunctionInfo, key: CallKey | tuple[int, CallKey], summary: Summary) -> None:
    """Keep a result in place of the oldest: it may hold on to the modules of past files."""
    if len(info.results) >= MOST_KEPT:
        del info.results[next(iter(info.results))]
    info.results[key] = summary


_P = ParamSpec("_P")
_T = TypeVar("_T")
_clear: list[Callable[[], None]] = []
_clear_for_file: list[Callable[[], None]] = []


def remembered(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Cache a function of values, until ``forget`` is called."""
    cached = lru_cache(maxsize=None)(function)
    _clear.append(cached.cache_clear)
    return cached  # type: ignore[return-value]


def kept_for_file(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Cache a function for the file that is checked, until ``forget_file`` is called."""
    cached = lru_cache(maxsize=None)(function)
    _clear_for_file.append(cached.cache_clear)
    return cached  # type: ignore[return-value]


def forget_file() -> None:
    """Clear the caches of one file: another one is checked next."""
    for clear in _clear_for_file:
        clear()


def forget() -> None:
    """Clear the caches, and so let go of the modules that their values belong to."""
    forget_file()
    for clear in _clear:
        clear()
