"""Run all checks over the facts of one file, and give their reports positions."""

from __future__ import annotations

import libcst as cst
from msgspec.structs import replace

from embercoach.analysis.calls.kernel_objects import has_kernels
from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.origins import Origins, OriginTrace, Stop
from embercoach.analysis.project.driver import analyse_module
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.parse import Span, outline_of
from embercoach.analysis.values.memo import forget_file
from embercoach.analysis.work import Work, WorkExceededError, begin_checks
from embercoach.checks.fallbacks import is_expected, is_meant_to_raise
from embercoach.checks.registry import (
    ProposedFix,
    Report,
    checks_of,
    checks_on,
    load_kernel_checks,
    load_torch_checks,
)
from embercoach.finding import Edit, Finding, Fix, Step
from embercoach.fixes.application import apply

#: Rules about calls that raise.
RAISES = (
    *(
        *("API", "ATTR", "CALL-001", "KERNEL-ARGS", "KERNEL-GRAD", "NN-017", "SHAPE-001"),
        *("TORCH-DTYPE", "TORCH-NUMPY"),
    ),
    *("KERNEL-GRID-002", "KERNEL-GRID-003", "KERNEL-GRID-005"),
)
#: Rules about names that MLX lacks, or has moved: a stub too may use them.
NAMES = ("API-001", "API-002", "DEPRECATED-001")
#: Rules of dtypes and arguments, which say more of an operation than those of shapes.
ABOVE_SHAPES = ("API-00", "API-010", "COMPLEX-001", "DTYPE-013", "INDEX-006")
#: Rules whose effect depends on the context; its start is a related place of the finding.
BY_CONTEXT = ("HOST-PULL", "GRAPH-BREAK", "DTYPE-003", "COMPILE-001", "COMPILE-002", "COMPILE-006")
#: Sets of fixes that are tried in search of one that breaks the source.
MOST_TRIED = 64
#: Characters of source that a step quotes.
MOST_QUOTED = 60


def reports_of(module: Module) -> tuple[list[Report], str | None]:
    """Get the reports of a module, without covered ones, and why they are incomplete if they are.

    Where the file exceeds its work budget, these are the reports of the facts up to that point.
    Work is counted, so they are the same in every run.
    """
    exceeded: str | None = None
    forget_file()
    begin_checks(Work.of("", is_shared=True))  # the analysis counts its own steps
    try:
        facts = analyse_module(module)
    except WorkExceededError as error:
        facts, exceeded = module.facts(), _exceeded(error)
        module.work.left = Work.of("", is_shared=False).left  # for the checks
    forget_file()  # what the analysis has asked depends on what was known of other files
    begin_checks(module.work)
    kernels = module.mentions_kernels or has_kernels(facts)
    if kernels:
        load_kernel_checks()
    if "torch" in module.source:
        load_torch_checks()
    found: list[Report] = []
    try:
        contents_of(module.tree)  # first: contents of its parts are spans of it then
        for fact in facts:
            for check in checks_of(fact):
                found.extend(check(fact, module))
        if exceeded is None:  # these checks need all facts of the file
            for file_check in checks_on("Module"):
                found.extend(file_check(module, facts))
    except WorkExceededError as error:
        exceeded = exceeded or _exceeded(error)
    begin_checks(Work.of("", is_shared=True))  # what is left to do takes little
    if kernels:
        from embercoach.checks.programs.kernels import kernel_file

        exceeded = exceeded or kernel_file(module).budget.problem
    return _uncovered(module, found), exceeded


def _exceeded(error: WorkExceededError) -> str:
    return f"analysis exceeded its budget: {error}"


def _uncovered(module: Module, found: list[Report]) -> list[Report]:
    """Return reports without those that others cover or repeat."""
    if module.path.suffix == ".pyi":  # nothing in a stub runs
        found = [report for report in found if report.code.startswith(NAMES)]
    # Code that raises is not a finding in a test of the error, or where the error is handled.
    found = [
        report
        for report in found
        if not (report.code.startswith(RAISES) and is_meant_to_raise(module, report.node))
        and not (
            report.unless
            and is_expected(module, report.place.statement, report.unless, broadly=True)
        )
    ]
    covered = {node for report in found for node in report.covers}
    replaced = {(code, report.node) for report in found for code in report.replaces}
    specific = {report.node for report in found if report.code.startswith(ABOVE_SHAPES)}
    unique: dict[tuple[object, ...], Report] = {}
    for report in found:
        if report.code.startswith("SHAPE") and not specific.isdisjoint(_parts(report.node)):
            continue
        if report.node not in covered and (report.code, report.node) not in replaced:
            key = (report.code, report.node, report.text_span, report.within)
            unique.setdefault(key, report)
    return list(unique.values())


def _parts(node: cst.CSTNode) -> set[cst.CSTNode]:
    """Return an operation, and its arguments or what it is indexed by."""
    parts = {node}
    if isinstance(node, cst.Call):
        parts.update(arg.value for arg in node.args)
    elif isinstance(node, cst.Subscript):
        parts.update(part for element in node.slice for part in contents_of(element))
    return parts


def place_reports(module: Module, reports: list[Report]) -> tuple[Finding, ...]:
    """Return findings with their positions."""
    if not reports:
        return ()
    origins = Origins(module)
    traces = [
        origins.trace(
            r.place,
            r.context or module.purpose or "default",
            subject=r.subject,
            with_start=r.code.startswith(BY_CONTEXT),
        )
        for r in reports
    ]
    statements: dict[cst.CSTNode, cst.CSTNode] = {}
    # Flows share stops.
    related = (stop for report in reports for stop in report.related)
    stops = {id(s): s for s in (*related, *(s for t in traces for s in (*t.flow, *t.start)))}
    for stop in stops.values():
        statements[stop.node] = stop.statement
        if stop.quoted is not None:
            statements[stop.quoted] = stop.statement
    for report in reports:
        statements[report.node] = report.place.statement
        if report.change is not None:
            for node, _ in report.change.edits:
                statements[node] = report.place.statement
            statements.update((node, node) for node, _ in report.change.lines_before)
            statements.update((node, around) for around, node, _, _ in report.change.parts)
    spans = module.parsed.spans(statements)
    lines = LineOffsets(module.source)
    steps = {key: _step(stop, spans, lines) for key, stop in stops.items()}
    found = [_finding(*pair, spans, steps, lines) for pair in zip(reports, traces, strict=True)]
    return tuple(_without_broken_fixes(found, module))


def _without_broken_fixes(found: list[Finding], module: Module) -> list[Finding]:
    """Drop the fixes after which the source does not parse."""
    fixes = [one.fix for one in found if one.fix is not None]
    if not fixes or module.parsed.converted.ranges is None:
        return found
    broken = _broken(module.source, fixes)
    return [replace(one, fix=None) if id(one.fix) in broken else one for one in found]


def _broken(source: str, fixes: list[Fix]) -> set[int]:
    """Return the ``id`` of each fix that breaks a source; those in doubt after `MOST_TRIED` are."""
    broken: set[int] = set()
    pending = [fixes]
    for _ in range(MOST_TRIED):
        if not pending:
            return broken
        some = pending.pop()
        if _is_sound(source, some):
            continue
        middle = len(some) // 2
        if middle:
            pending += [some[:middle], some[middle:]]
        else:
            broken.add(id(some[0]))
    return broken.union(id(fix) for some in pending for fix in some)


def _is_sound(source: str, fixes: list[Fix]) -> bool:
    try:
        return outline_of(apply(source, fixes)[0]) is not None
    except ValueError:  # edits of one fix overlap
        return False


class LineOffsets:
    """Character offsets of the lines of a source, as libcst counts lines."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        if any(c in source for c in "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"):
            self.starts = _starts_of_lines(source)
        # Text that ends without a line break begins no further line.
        is_open = self.starts[-1] == len(source) and source[-1:] not in "\r\n"
        self._lines = len(self.starts) - is_open

    def offset(self, line: int, column: int) -> int:
        """Return the offset of a line, from 1, and a column, from 0."""
        return self.starts[line - 1] + column

    def position(self, offset: int) -> tuple[int, int]:
        """Return the inverse of :meth:`offset`."""
        from bisect import bisect_right

        line = bisect_right(self.starts, offset, hi=self._lines)
        return line, offset - self.starts[line - 1]


def _starts_of_lines(source: str) -> list[int]:
    r"""Only ``\n``, ``\r`` and ``\r\n`` end a line of Python."""
    starts = [0]
    at = 0
    while at < len(source):
        char = source[at]
        at += 1
        if char == "\r" and source[at : at + 1] == "\n":
            at += 1
        if char in "\r\n":
            starts.append(at)
    return starts


def _finding(
    report: Report,
    trace: OriginTrace,
    spans: dict[cst.CSTNode, Span],
    steps: dict[int, Step],
    lines: LineOffsets,
) -> Finding:
    span = _within(spans[report.node], report.text_span, lines)
    fix = None if report.change is None else _fix(report.change, spans, lines)
    return Finding(
        report.code,
        span.line,
        span.column + 1,
        span.end_line,
        span.end_column + 1,
        report.message,
        report.help,
        trace.context,
        fix,
        tuple([steps[id(stop)] for stop in trace.flow]),
        tuple([steps[id(stop)] for stop in (*trace.start, *report.related)]),
        within=report.within,
    )


def _fix(change: ProposedFix, spans: dict[cst.CSTNode, Span], lines: LineOffsets) -> Fix | None:
    """Return a fix with positions, None where a line cannot be inserted."""
    edits: list[Edit] = []
    for node, text in change.lines_before:
        edit = _line_before(spans[node], text, lines)
        if edit is None:
            return None
        edits.append(edit)
    edits += [_edit(spans[node], text, lines) for node, text in change.edits]
    for _, node, part, text in change.parts:
        edits.append(_edit(_within(spans[node], part, lines), text, lines))
    return Fix(change.title, change.safe, tuple(edits))


def _edit(span: Span, text: str, lines: LineOffsets) -> Edit:
    start, end = lines.offset(span.line, span.column), lines.offset(span.end_line, span.end_column)
    return Edit(start, end, text)


def _line_before(span: Span, text: str, lines: LineOffsets) -> Edit | None:
    """Insert a line before a statement that begins a line, with the statement's indentation."""
    start = lines.offset(span.line, 0)
    indentation = lines.source[start : start + span.column]
    if indentation.strip(" \t") or lines.source[max(start - 4, 0) : start].rstrip("\r\n").endswith(
        "\\"
    ):
        return None
    return Edit(start, start, f"{indentation}{text}\n")


def _within(span: Span, part: tuple[int, int] | None, lines: LineOffsets) -> Span:
    """Return the part of a span between two offsets in characters."""
    if part is None:
        return span
    base = lines.offset(span.line, span.column)
    start, end = (lines.position(base + offset) for offset in part)
    return Span(*start, *end)


def _step(stop: Stop, spans: dict[cst.CSTNode, Span], lines: LineOffsets) -> Step:
    text, span = stop.text, _within(spans[stop.node], stop.span, lines)
    if stop.quoted is not None:
        text = text.replace("{}", _quoted(spans[stop.quoted], lines))
    return Step(span.line, span.column + 1, span.end_line, span.end_column + 1, text)


def _quoted(span: Span, lines: LineOffsets) -> str:
    """Return the source of a span in one short line."""
    start = lines.offset(span.line, span.column)
    end = lines.offset(span.end_line, span.end_column)
    text = " ".join(lines.source[start : min(end, start + 4 * MOST_QUOTED)].split())
    return text if len(text) <= MOST_QUOTED else f"{text[: MOST_QUOTED - 1]}…"
