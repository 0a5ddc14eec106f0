"""Checks of Metal text, written once: for kernels in Python strings and for whole files.

A check is a generator over a :class:`MetalCode`, or a :class:`MetalFile` for files alone::

    @check("KERNEL-MSL-001")
    def doubles(code: MetalCode) -> Iterator[MetalReport]:
        for declaration in code.text.declarations:
            if declaration.type == "double":
                yield MetalReport("KERNEL-MSL-001", code.text.at(declaration.place), "what", "fix")

``metal_bodies`` runs it over every kernel that a Python file builds, ``check_unit`` over
``.metal`` files and the Metal text inside Objective-C++. Both place its reports. Nothing here loads
a grammar before there is Metal text to look at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct, field
from msgspec.structs import replace

if TYPE_CHECKING:
    from embercoach.metal.execution.events import Configuration, Trace
    from embercoach.metal.program.nodes import Program, Spot, Text
    from embercoach.metal.program.written_facts import MetalText
    from embercoach.metal.work_budget import WorkBudget

#: The text of that place where it is shown itself.
OTHER = "the other place"
#: Placeholder in a message for the place of ``MetalReport.other``: ``line 95``.
ELSEWHERE = "{line}"


class MetalFix(Struct, frozen=True):
    """A fix of Metal text that is written as it stands, in a literal of a Python file.

    edits: a stretch of the text, a part of it, and what is written instead of that.
    """

    title: str
    edits: tuple[tuple[Spot, str, str], ...]


class MetalReport(Struct, frozen=True):
    """A report about a stretch of Metal text.

    Attributes:
        other: a second place, which the message names where it has ``ELSEWHERE``.
        fix: in Python files.
    """

    code: str
    spot: Spot
    message: str
    help: str
    other: Spot | None = None
    fix: MetalFix | None = None


class MetalKernel(Struct, frozen=True, eq=False):
    """One kernel that can be followed: a body as it is launched, or an entry point of a file.

    Attributes:
        name: the entry point's, or the ``name`` that Python gives, empty if that is unknown.
        program: always with a ``body``; of an entry point the parameters are its variables.
        configurations: launches, known or assumed. A finding must hold in all of them.
        budget: the steps that following it may take, shared by the kernels of a file.
        own: the program without functions that an earlier kernel of the file has: what to inspect
            without following it.
    """

    name: str
    program: Program
    configurations: tuple[Configuration, ...]
    budget: WorkBudget
    own: Program
    _followed: dict[int, Trace] = field(default_factory=dict)

    @property
    def traces(self) -> tuple[Trace, ...]:
        """The traces of the kernel, for each way of launching it."""
        return tuple(map(self.trace, range(len(self.configurations))))

    def with_traces_of(self, other: MetalKernel) -> MetalKernel:
        """Return this kernel with the traces of another one, which are the same."""
        return replace(self, _followed=other._followed)

    def trace(self, number: int) -> Trace:
        """Return the trace of the kernel for one of its configurations.

        Raises:
            WorkBudgetExceeded: the file's kernels took the steps of all.
        """
        from embercoach.metal.execution.follow import follow
        from embercoach.metal.work_budget import TOO_DEEP

        found = self._followed.get(number)
        if found is None:
            share = self.budget.share
            found = follow(self.program, self.configurations[number], budget=share)
            self.budget.spend_run(found.steps, share)
            if found.too_deep:
                self.budget.note(TOO_DEEP)
            self._followed[number] = found
        return found


class MetalCode:
    """Metal text to check: a kernel's body and its header, or a file.

    Attributes:
        text: the facts of the body, or of the file.
        header: of a body's header; ``body.EMPTY`` for a file.
        holes: kinds of parts that are not known, as in ``strings.Folded``: a ``number`` (written
            as ``1``), or ``any`` text (written as ``strings.ANYTHING``). Empty for a file.
        header_known: False where nothing is known of a body's header; ``header`` is empty then.
    """

    whole: ClassVar[bool] = False

    text: MetalText
    header: MetalText
    holes: frozenset[str] = frozenset()
    header_known: bool = True

    def plan(self) -> tuple[MetalKernel, ...]:
        """Make ``kernels``."""
        raise NotImplementedError

    @property
    def texts(self) -> tuple[MetalText, ...]:
        """The file, or the body and its header."""
        return (self.text,) if self.whole else (self.text, self.header)

    @cached_property
    def kernels(self) -> tuple[MetalKernel, ...]:
        """The kernels to follow; none where the text is doubtful or has unknown parts."""
        if self.whole:
            return self.plan()  # entry points have their doubts one by one
        if not self.header_known or self.holes:
            return ()
        parsed = self.text.parse_ok and self.header.parse_ok
        # What the parser does not understand may be clear when macros and conditions are expanded.
        return tuple(k for k in self.plan() if parsed or not k.program.problems)


class MetalFile(MetalCode):
    """A file with Metal text: entry points with their signatures, and no names from MLX.

    Args:
        text: the facts of the file.
        plan: finds its kernels.
    """

    whole = True

    def __init__(self, text: MetalText, plan: Callable[[], tuple[MetalKernel, ...]]) -> None:
        from embercoach.metal.program.written_facts import EMPTY

        self.text, self.header = text, EMPTY
        self._plan = plan

    def plan(self) -> tuple[MetalKernel, ...]:
        """Find the entry points."""
        return self._plan()


def once_at_each_start(reports: Iterable[MetalReport]) -> Iterator[MetalReport]:
    """Of reports that begin at the same character only the first.

    What ``metal_bodies`` and ``check_unit`` report twice at one place they drop by themselves.
    For checks that may report an expression and its first operand as well.
    """
    found: dict[tuple[Text, int], MetalReport] = {}
    for report in reports:
        found.setdefault((report.spot.text, report.spot.place.start), report)
    return iter(found.values())
