"""The registry of checks (functions from a fact to reports), and what they report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache, wraps
from importlib import import_module
from pkgutil import walk_packages
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import libcst as cst
from msgspec import Struct
from msgspec.structs import replace

from embercoach.analysis.calls.definitions import FunctionInfo
from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.origins import Stop
from embercoach.analysis.project.module import Module
from embercoach.analysis.values.facts import CallFact, Fact, FactPlace, PropertyReadFact
from embercoach.analysis.values.lattice import BoundMember, Symbol
from embercoach.checks.programs.metal_checks import MetalReport

if TYPE_CHECKING:
    from embercoach.finding import ReadPlace


class ProposedFix(Struct, frozen=True):
    """A fix before positions are known.

    edits: each node and the text that replaces it.
    lines_before: each statement and a line to insert before it.
    parts: parts of nodes: the statement, the node, a start and end in characters of the node's own
        source, and the text that replaces them.
    """

    title: str
    safe: bool
    edits: tuple[tuple[cst.CSTNode, str], ...]
    lines_before: tuple[tuple[cst.CSTNode, str], ...] = ()
    parts: tuple[tuple[cst.CSTNode, cst.CSTNode, tuple[int, int], str], ...] = ()


class Located(Protocol):
    """A node and the place it is in: a fact, or the target of a report about a kernel's text."""

    @property
    def node(self) -> cst.CSTNode:
        """The node."""

    @property
    def place(self) -> FactPlace:
        """Its place."""


class Report(Struct, frozen=True):
    """A finding of a check, before its node has a position. Most are built by :meth:`at`.

    Attributes:
        context: one of ``embercoach.rulebook.CONTEXTS``; None for that of the place.
        text_span: start and end in characters of the node's own source text, if only a part of it
            is meant (a line of a kernel's body inside a string literal).
        covers: nodes whose own reports would repeat this one and are dropped.
        replaces: codes that are dropped at the same node, as this report is more specific.
        subject: the expression of the array that is meant; its origin becomes the finding's flow.
        related: other places that belong to the finding.
        within: what is meant, of a file that is read at the node.
        unless: errors; there is no finding where the code around the place handles one of them.
    """

    code: str
    node: cst.CSTNode
    place: FactPlace
    message: str
    help: str
    context: str | None = None
    change: ProposedFix | None = None
    text_span: tuple[int, int] | None = None
    covers: tuple[cst.CSTNode, ...] = ()
    replaces: tuple[str, ...] = ()
    subject: cst.CSTNode | None = None
    related: tuple[Stop, ...] = ()
    within: ReadPlace | None = None
    unless: frozenset[str] = frozenset()

    @classmethod
    def at(  # noqa: PLR0913 (one keyword for each field)
        cls,
        where: Located,
        code: str = "",
        *,
        message: str,
        help: str,  # noqa: A002 (the name of the field)
        node: cst.CSTNode | None = None,
        context: str | None = None,
        change: ProposedFix | None = None,
        subject: cst.CSTNode | None = None,
        covers: tuple[cst.CSTNode, ...] = (),
        replaces: tuple[str, ...] = (),
        related: tuple[Stop, ...] = (),
    ) -> Report:
        """Report a fact, or ``node``, an expression of it, with the check's code if it has one."""
        return cls(
            code,
            node or where.node,
            where.place,
            message,
            help,
            context,
            change,
            covers=covers,
            replaces=replaces,
            subject=subject,
            related=related,
        )

    @classmethod
    def in_file(  # noqa: PLR0913 (one keyword for each field)
        cls,
        module: Module,
        node: cst.CSTNode,
        code: str = "",
        *,
        message: str,
        help: str,  # noqa: A002 (the name of the field)
        function: FunctionInfo | None = None,
        context: str | None = "default",
        change: ProposedFix | None = None,
        related: tuple[Stop, ...] = (),
    ) -> Report:
        """Report a node of a file, and of a function, that no fact is about."""
        statement = contents_of(module.tree).statement_of(node)
        place = module.frame.place()._replace(statement=statement, function=function)
        return cls(code, node, place, message, help, context, change, related=related)

    def about(self, subject: cst.CSTNode) -> Report:
        """Return the report with the expression of the array that is meant."""
        return replace(self, subject=subject)


CODES: set[str] = set()
_FACT_TYPES: tuple[type, ...] = (*Fact.__subclasses__(), PropertyReadFact)
#: The types of facts that checks may take as their first parameter.
FACTS = (
    *dict.fromkeys(fact.__name__ for fact in _FACT_TYPES),
    "Module",  # a Python file; the second parameter takes all of its facts
    "PythonKernel",  # a kernel of a Python file
    "KernelBody",  # one whose source is known, and not a whole function
    "MetalCode",  # a kernel's body, or a file with Metal text
    "MetalFile",  # a file with Metal text
    "ObjectiveC",
)

#: Packages with checks of kernels; ``embercoach.checks.arrays`` is loaded for every file.
KERNEL_CHECKS = tuple(f"embercoach.checks.{name}" for name in ("kernels", "launch", "programs"))


class Check(NamedTuple):
    """A registered check, and the names and prefixes of functions whose calls it takes."""

    function: Callable[..., Iterator[Any]]
    names: frozenset[str]
    prefixes: tuple[str, ...]


#: In place of a name: calls of values, as kernels, functions of the project, or what is unknown.
VALUE = "<value>"

CHECKS: dict[str, list[Check]] = {fact: [] for fact in FACTS}

F = TypeVar("F", bound=Callable[..., "Iterator[Report | MetalReport]"])


def check(
    *codes: str, of: Iterable[str] = ("",), unless: frozenset[str] = frozenset()
) -> Callable[[F], F]:
    """Register a check: a generator of reports about one fact, or about one file.

    The annotation of its first parameter is the fact's type, one of ``FACTS`` or several.

    Args:
        codes: the codes that it may report.
        of: for calls: qualified names of library functions (``"builtins.int"``), prefixes of such
            names (``"numpy."``) and methods (``".item"``, or ``"."`` for all), and ``VALUE`` for
            calls of anything else. Any call by default.
        unless: the errors that its findings raise, as in :class:`Report`.

    Raises:
        TypeError: the first parameter has another annotation.
    """
    names = frozenset(of)
    prefixes = tuple(name for name in names if not name or name.endswith("."))

    def register(function: F) -> F:
        reports = _completed(function, codes[0], unless) if len(codes) == 1 else function
        annotation = next(iter(function.__annotations__.values()), None)
        for fact in str(annotation).split(" | "):
            if fact not in CHECKS:
                known = ", ".join(FACTS)
                raise TypeError(
                    f"{function.__qualname__}: first parameter must be one of {known}, got {fact}"
                )
            CHECKS[fact].append(Check(reports, names, prefixes))
        CODES.update(codes)
        _of_call.cache_clear()
        _of_fact.cache_clear()
        return function

    return register


def _completed(function: F, code: str, unless: frozenset[str]) -> F:
    """Give the reports of a check the only code that it has, and the errors that they raise."""

    @wraps(function)
    def reports(*subject: Any) -> Iterator[Report | MetalReport]:
        for report in function(*subject):
            is_whole = report.code and not unless
            yield report if is_whole else replace(report, code=code, unless=unless)

    return reports  # type: ignore[return-value]


@cache
def load(package: str) -> None:
    """Import the modules of a package, which registers their checks."""
    for module in walk_packages(import_module(package).__path__, f"{package}."):
        import_module(module.name)


def load_kernel_checks() -> None:
    """Register the checks of kernels, whose modules take longer to load than most files to check.

    They report nothing without a kernel, so that it makes no difference when they are loaded.
    """
    for package in KERNEL_CHECKS:
        load(package)


def load_torch_checks() -> None:
    """Register the checks of PyTorch programs."""
    for name in ("torch_devices", "torch_shaders"):
        import_module(f"embercoach.checks.{name}")


def checks_on(fact: str) -> list[Callable[..., Iterator[Any]]]:
    """Return the checks of facts of a type, in the order of registration."""
    return [check.function for check in CHECKS[fact]]


def checks_of(fact: Fact) -> Sequence[Callable[..., Iterator[Report]]]:
    """Return the checks that may report something about a fact, in the order of registration."""
    if type(fact) is not CallFact:
        return _of_fact(type(fact).__name__)
    callee = fact.callee
    if type(callee) is Symbol:
        return _of_call(callee.name)
    return _of_call(f".{callee.name}" if type(callee) is BoundMember else VALUE)


@cache
def _of_fact(kind: str) -> tuple[Callable[..., Iterator[Report]], ...]:
    return tuple(check.function for check in CHECKS[kind])


@lru_cache(maxsize=4096)
def _of_call(name: str) -> tuple[Callable[..., Iterator[Report]], ...]:
    """Return the checks of calls of a function, a ``.method``, or a ``VALUE``."""
    return tuple(
        check.function
        for check in CHECKS["CallFact"]
        if name in check.names or name.startswith(check.prefixes)
    )
