"""Run the checks of plugins over the facts of a file, which they see through ``embercoach.api``."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import libcst as cst
from msgspec import Struct

from embercoach import api
from embercoach.analysis.dataflow.contexts import context_of
from embercoach.analysis.dataflow.value_sources import Sources
from embercoach.analysis.project.module import Module
from embercoach.analysis.shapes.node_shapes import shape_at
from embercoach.analysis.values.facts import (
    Argument,
    BinaryFact,
    CallFact,
    Fact,
    FactPlace,
    Operand,
)
from embercoach.analysis.values.lattice import (
    Array,
    BoundMember,
    Number,
    Str,
    Symbol,
    Value,
    as_array,
)
from embercoach.analysis.work import WorkExceededError
from embercoach.checks.registry import ProposedFix, Report
from embercoach.plugins.loading import Plugin, loaded
from embercoach.terminal_text import bounded


class PluginReports(Struct, frozen=True):
    """The reports of all plugins about a file, and which checks raised."""

    reports: tuple[Report, ...] = ()
    problem: str | None = None


def plugin_reports(module: Module) -> PluginReports:
    """Run the checks of all plugins over an analysed file. One that raises costs no other."""
    if not loaded():
        return PluginReports()
    file = AnalysedFile(module)
    found: dict[tuple[str, cst.CSTNode], Report] = {}
    problems: list[str] = []
    for plugin in loaded():
        for check in plugin.rules.checks:
            problem = _run(plugin, check, file, found)
            problems += [] if problem is None else [problem]
    return PluginReports(tuple(found.values()), "; ".join(problems) or None)


def _run(
    plugin: Plugin,
    check: api.Check,
    file: AnalysedFile,
    found: dict[tuple[str, cst.CSTNode], Report],
) -> str | None:
    """Add a check's reports, and return the reason if it does not come to its end."""
    try:
        for report in _reports(check, file):
            found.setdefault((report.code, report.node), report)
    except WorkExceededError as error:
        return f"analysis exceeded its budget: {error}"
    except (Exception, SystemExit) as error:  # noqa: BLE001  (not our code)
        return _problem(plugin, check, error)
    return None


class AnalysedFile:
    """A file, and its facts by the expressions that they are about."""

    def __init__(self, module: Module) -> None:
        """Take a file that has been analysed."""
        self.module = module
        facts = module.facts()
        #: Not launches as one call of the function around them makes them: each is there already.
        calls = [fact for fact in facts if isinstance(fact, CallFact) and fact.visit is None]
        self.calls = {fact.node: view for fact in calls if (view := CallView.of(fact, self))}
        operations = [fact for fact in facts if isinstance(fact, BinaryFact)]
        self.operations = {fact.node: OperationView(fact, self) for fact in operations}

    @cached_property
    def sources(self) -> Sources:
        """Where values come from; made if a check asks."""
        return Sources(self.module)

    def computed_by(self, node: cst.BaseExpression, place: FactPlace) -> cst.CSTNode | None:
        """Get the one expression of this file that computes the value of another, through names."""
        ends = self.sources.ends(self.sources.at_place(node, place))
        return ends[0].node if len(ends) == 1 and ends[0].module is self.module else None


class ExpressionView(Struct, frozen=True, eq=False):
    """``api.Expression``."""

    file: AnalysedFile
    fact: Fact
    node: cst.BaseExpression
    value: Value

    @property
    def source(self) -> str:
        """The text."""
        return self.file.module.parsed.code(self.node)

    @property
    def array(self) -> Array | None:
        """The array that it is."""
        return as_array(self.value)

    @property
    def is_array(self) -> bool:
        """Return whether it is an array."""
        return self.array is not None

    @property
    def dtype(self) -> str | None:
        """The array's dtype."""
        return None if self.array is None else self.array.dtype

    @property
    def shape(self) -> tuple[int | None, ...] | None:
        """The array's shape."""
        return shape_at(self.file.module, self.node) if self.is_array else None

    @property
    def constant(self) -> bool | int | float | complex | str | None:
        """The constant that it is."""
        value = self.value
        if type(value) is Str:
            return value.text
        return value.const if type(value) is Number else None

    @property
    def call(self) -> api.Call | None:
        """The call that computes it."""
        node = self.file.computed_by(self.node, self.fact.place)
        return None if node is None else self.file.calls.get(node)  # type: ignore[call-overload]

    @property
    def operation(self) -> api.Operation | None:
        """The operation that computes it."""
        node = self.file.computed_by(self.node, self.fact.place)
        return None if node is None else self.file.operations.get(node)  # type: ignore[call-overload]


class PlaceView(Struct, frozen=True):
    """``api.Place``."""

    file: AnalysedFile
    place: FactPlace

    @property
    def function(self) -> str | None:
        """The function's name."""
        function = self.place.function
        return None if function is None else function.qualified_name

    @property
    def in_loop(self) -> bool:
        """Return whether a loop is around it."""
        return self.place.loops > 0

    @property
    def is_compiled(self) -> bool:
        """Return whether the function is compiled or mapped."""
        function = self.place.function
        return function is not None and (function.compiled or function.vmapped)

    @property
    def is_differentiated(self) -> bool:
        """Return whether the function is differentiated."""
        function = self.place.function
        return function is not None and function.differentiated

    @property
    def is_test(self) -> bool:
        """Return whether the file is a test."""
        return self.file.module.is_test


class CallView(Struct, frozen=True, eq=False):
    """``api.Call``."""

    fact: CallFact
    file: AnalysedFile
    name: str

    @classmethod
    def of(cls, fact: CallFact, file: AnalysedFile) -> CallView | None:
        """Return the view of a call; None if nothing has a name."""
        callee = fact.callee
        if type(callee) is Symbol:
            return cls(fact, file, callee.name)
        is_method = type(callee) is BoundMember and fact.array is not None
        return cls(fact, file, f".{callee.name}") if is_method else None  # type: ignore[attr-defined]

    @property
    def arguments(self) -> tuple[api.Expression, ...]:
        """The positional arguments."""
        return tuple(map(self._expression, self._positional()))

    @property
    def keywords(self) -> dict[str, api.Expression]:
        """The keyword arguments."""
        named = [(a.keyword, a) for a in self.fact.arguments if not a.star]
        return {name: self._expression(a) for name, a in named if name is not None}

    @property
    def receiver(self) -> api.Expression | None:
        """The array whose method it is."""
        fact = self.fact
        if fact.array is None or fact.receiver is None or fact.receiver_node is None:
            return None
        return ExpressionView(self.file, fact, fact.receiver_node, fact.receiver)

    @property
    def result(self) -> api.Expression:
        """The call itself."""
        return ExpressionView(self.file, self.fact, self.fact.node, self.fact.result)

    @property
    def place(self) -> api.Place:
        """Its place."""
        return PlaceView(self.file, self.fact.place)

    def _expression(self, argument: Argument) -> ExpressionView:
        return ExpressionView(self.file, self.fact, argument.node, argument.value)

    def _positional(self) -> Iterator[Argument]:
        for argument in self.fact.arguments:
            if argument.star:
                return
            if argument.keyword is None:
                yield argument


class OperationView(Struct, frozen=True, eq=False):
    """``api.Operation``."""

    fact: BinaryFact
    file: AnalysedFile

    @property
    def operator(self) -> str:
        """The operator."""
        return self.fact.operator

    @property
    def left(self) -> api.Expression:
        """The left operand."""
        return self._operand(self.fact.left)

    @property
    def right(self) -> api.Expression:
        """The right operand."""
        return self._operand(self.fact.right)

    @property
    def in_place(self) -> bool:
        """Return whether it is an augmented assignment."""
        return self.fact.in_place

    @property
    def place(self) -> api.Place:
        """Its place."""
        return PlaceView(self.file, self.fact.place)

    def _operand(self, operand: Operand) -> ExpressionView:
        return ExpressionView(self.file, self.fact, operand.node, operand.value)


def _reports(check: api.Check, file: AnalysedFile) -> Iterator[Report]:
    if check.fact == "operation":
        for operation in file.operations.values():
            for report in check(operation):
                yield _converted(check, report, file.module)
        return
    prefixes = tuple(name for name in check.names if name.endswith("."))
    for call in file.calls.values():
        if call.name in check.names or call.name.startswith(prefixes):
            for report in check(call):
                yield _converted(check, report, file.module)


def _converted(check: api.Check, report: object, module: Module) -> Report:
    """Return the report of a plugin as one of ours.

    Raises:
        TypeError: it is not an ``api.Report`` of texts and of what the check got.
    """
    if not isinstance(report, api.Report):
        raise TypeError(f"must yield Report, got {type(report).__name__}")
    at = report.at
    if not isinstance(at, (CallView, OperationView, ExpressionView)):
        raise TypeError(f"Report.at must be of the fact, got {type(at).__name__}")
    _require_texts(report.message, report.help)
    node: cst.CSTNode = at.node if isinstance(at, ExpressionView) else at.fact.node
    is_array = isinstance(at, ExpressionView) and at.is_array
    return Report.at(
        at.fact,
        check.code,
        node=node,
        message=report.message,
        help=report.help,
        context=context_of(at.fact.place, module, by_calls=True),
        change=None if report.fix is None else _fix(report.fix, node),
        subject=node if is_array else None,
    )


def _fix(fix: api.Replacement, node: cst.CSTNode) -> ProposedFix:
    if not isinstance(fix, api.Replacement):
        raise TypeError(f"Report.fix must be Replacement, got {type(fix).__name__}")
    _require_texts(fix.title, fix.text)
    return ProposedFix(fix.title, bool(fix.safe), ((node, fix.text),))


def _require_texts(*texts: object) -> None:
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"message, help, title and text must be strings, got {text!r}")


def _problem(plugin: Plugin, check: api.Check, error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    last = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    said = f"{type(error).__name__}: {error}".partition("\n")[0].removesuffix(": ")
    name = getattr(check.function, "__name__", "?")
    return bounded(f"plugin {plugin.name}: check `{name}` of {check.code} raised {said}{last}")
