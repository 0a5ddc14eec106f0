"""Conversion of the runtime's records of a launch to findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from embercoach.metal.program.types import INTEGERS, SCALARS, SIZES
from embercoach.metal.syntax import exchange_words, tree_of
from embercoach.simulator.answers import (
    FIRST_ARRAY,
    REASONS,
    DifferenceAnswer,
    FindingAnswer,
    ResultAnswer,
)
from embercoach.simulator.model import CODE_OF_KIND, Buffer, BuiltKernel, MemoryAccess, RawFinding

if TYPE_CHECKING:
    from embercoach.simulator.build.object_lines import Image, LineTable

#: In the order of the runtime's enumeration.
_KINDS = tuple(CODE_OF_KIND)
_READ, _WRITE, _ATOMIC = 1, 2, 4
_RACES = frozenset({"threadgroup-race", "device-race"})
_NOTES = frozenset({"same-value-write", "lane-synchronous"})
_SYMMETRIC = _RACES | _NOTES | {"wrong-mem-flags"}
#: Kinds that let outputs depend on the order of threads or on what memory held.
_CAUSES = _RACES | {
    "out-of-bounds",
    "write-to-input",
    "uninitialized-read",
    "divergent-barrier",
    "divergent-simd",
    "wrong-mem-flags",
}
#: Kinds that stop a thread wherever it is.
_STOPPED = frozenset({"crash", "timeout"})
_SIGNALS = {
    4: "illegal instruction or unreachable code",
    5: "illegal instruction or unreachable code",
    6: "abort",
    7: "bad address",
    8: "integer division by zero",
    10: "bad address",
    11: "segmentation fault",
}
#: Why the value that a lane gets from another is undefined.
_UNDEFINED_LANES = frozenset({"inactive lane", "partial"})
_REDUCTIONS = frozenset(
    f"{group}_{name}"
    for group in ("simd", "quad")
    for name in ("sum", "product", "max", "min", "and", "or", "xor")
)
#: Assignments by which equal updates are not one: of ``|=`` and ``&=`` they are.
_ADDING = frozenset((b"+=", b"-=", b"*=", b"/=", b"%=", b"^=", b"<<=", b">>="))
_SPACES = ("__global_host", "__global", "__constant", "__local", "__private", "__generic")


class Scene(Struct, frozen=True):
    """The kernel, image and buffers that records refer to.

    Attributes:
        kernel: that ran.
        image: its object.
        lines: gives the line table when one is needed.
        buffers: by index.
    """

    kernel: BuiltKernel
    image: Image
    lines: Callable[[], LineTable]
    buffers: Mapping[int, Buffer]

    def line(self, pc: int) -> int | None:
        """Return the source line of an instruction, None of 0."""
        return self.lines().line_at(pc) if pc else None

    def place(self, number: int) -> str:
        """Return the name of a buffer or threadgroup array, "" where there is none."""
        if number >= FIRST_ARRAY:
            return self.image.arrays[number - FIRST_ARRAY].name
        return self.buffers[number].name if number in self.buffers else ""

    def text(self, line: int) -> str:
        """Return a line of the source, "" where there is none."""
        lines = self.kernel.source.split("\n")
        return lines[line - 1] if 0 < line <= len(lines) else ""

    def word(self, line: int, column: int) -> str:
        """Return the identifier that begins at a place of the compiled text, "" if none does."""
        rest = self.text(line)[self.kernel.original_column(line, column) - 1 :]
        length = 0
        while rest[: length + 1].isidentifier() and length < len(rest):
            length += 1
        return rest[:length]

    def value(self, number: int, data: bytes) -> str:
        """Return bytes of a buffer as its type shows them, "" where the type is unknown."""
        kind = next((p.type for p in self.kernel.parameters if p.index == number), "")
        return show(data, _numpy_type(kind.removeprefix("metal::")))


def _numpy_type(name: str) -> str:
    """Get the code of a Metal type, "" for one that NumPy lacks; that of ``bfloat`` is its name."""
    scalar = SCALARS[name].scalar or "" if name in SCALARS else name
    if scalar in INTEGERS:
        return "?" if scalar == "bool" else f"{'ui'[INTEGERS[scalar][1]]}{SIZES[scalar]}"
    return {"half": "f2", "float": "f4", "complex64_t": "c8", "bfloat": "bfloat"}.get(scalar, "")


def show(data: bytes, kind: str) -> str:
    """Get the first value in bytes of a NumPy type, or of ``bfloat``; "" where they hold none."""
    size = 2 if kind == "bfloat" else np.dtype(kind).itemsize if kind else 0
    if not size or len(data) < size:
        return ""
    if kind == "bfloat":
        widened = np.frombuffer(data[:2], np.uint16).astype(np.uint32) << 16
        return str(widened.view(np.float32)[0])
    return str(np.frombuffer(data[:size], kind)[0])


def raw_findings(answer: ResultAnswer, scene: Scene) -> tuple[RawFinding, ...]:
    """Return all findings of a launch's runs, each once."""
    merged: dict[tuple[object, ...], RawFinding] = {}
    unused = lacks_use_of_undefined(answer.differences)
    explained = False
    for run in answer.runs:
        records = [r for r in run.findings if not (unused and _is_undefined_value(r))]
        records = [_lost_update(r, scene) for r in _without_defined(records, scene)]
        explained |= any(_is_undefined_value(record) for record in records)
        for finding in _of_one_run(_finding(record, scene) for record in records):
            known = merged.get(_identity(finding))
            if known is None:
                merged[_identity(finding)] = finding
            elif finding.count > known.count:
                merged[_identity(finding)] = replace(known, count=finding.count)
    found = _without_echoes(list(merged.values()))
    explained |= any(finding.kind in _CAUSES for finding in found)
    return (*found, *_of_outputs(answer.differences, scene, explained=explained))


def _is_undefined_value(record: FindingAnswer) -> bool:
    """Return whether a thread got an undefined value, which alone is harmless."""
    return REASONS[record.reason] in ("inactive lane", "division")


def _without_defined(records: Sequence[FindingAnswer], scene: Scene) -> Iterator[FindingAnswer]:
    """Yield records without those of lanes that exchange values among themselves.

    Such an operation is defined for the active lanes. A reduction in both branches is noted: its
    author may have thought of all lanes.
    """
    undefined = {scene.line(r.pc) for r in records if REASONS[r.reason] in _UNDEFINED_LANES}
    for record in records:
        if not _is_apart(record) or scene.line(record.pc) in undefined:
            yield record
        elif _is_split(record, scene):
            yield replace(record, kind=_KINDS.index("split-reduction"))


def _is_apart(record: FindingAnswer) -> bool:
    """Return whether some lanes of a simdgroup were elsewhere."""
    return _KINDS[record.kind] == "divergent-simd" and REASONS[record.reason] == "elsewhere"


def _is_split(record: FindingAnswer, scene: Scene) -> bool:
    """Return whether a reduction is in both branches of a statement, and lanes were at both."""
    here, there = scene.line(record.pc) or 0, scene.line(record.other_pc) or 0
    at_both = record.text in _REDUCTIONS and record.text in scene.text(there)
    return at_both and any(
        (here in one and there in other) or (here in other and there in one)
        for one, *others in _branches(scene.kernel.source)
        for other in others
    )


def _lost_update(record: FindingAnswer, scene: Scene) -> FindingAnswer:
    """Return a record of equal values as a race where each thread adds to what it read."""
    is_lost = _KINDS[record.kind] == "same-value-write" and scene.line(record.pc) in _updates(
        scene.kernel.source
    )
    space = "threadgroup" if record.place >= FIRST_ARRAY else "device"
    return replace(record, kind=_KINDS.index(f"{space}-race")) if is_lost else record


@lru_cache(maxsize=2)
def _updates(source: str) -> frozenset[int]:
    """Return the lines that do arithmetic with an element and store it: ``y[i] += 1``."""
    nodes = [tree_of(exchange_words(source.encode(errors="replace"), frozenset())[0]).root]
    lines = set()
    for node in nodes:
        nodes += node.children
        target = node.child_by_field_name("left") or node.child_by_field_name("argument")
        if target is None or target.type not in ("subscript_expression", "pointer_expression"):
            continue
        operator = node.child_by_field_name("operator")
        written = b"" if operator is None else operator.text or b""
        value = node.child_by_field_name("right")
        adds = node.type == "update_expression" or written in _ADDING
        if written == b"=" and value is not None and value.type == "binary_expression":
            adds = (target.text or b"") in (value.text or b"")
        if adds:
            lines.add(node.start_point.row + 1)
    return frozenset(lines)


@lru_cache(maxsize=2)
def _branches(source: str) -> list[list[range]]:
    """Return the lines of each statement's branch, or of both."""
    nodes = [tree_of(exchange_words(source.encode(errors="replace"), frozenset())[0]).root]
    found = []
    for node in nodes:
        nodes += node.children
        parts = [node.child_by_field_name(name) for name in ("consequence", "alternative")]
        lines = [range(p.start_point.row + 1, p.end_point.row + 2) for p in parts if p is not None]
        if lines:
            found.append(lines)
    return found


def _from_the_branch(record: FindingAnswer, scene: Scene) -> FindingAnswer:
    """Return the record of threads at two barriers from the one that is deeper in branches."""
    branches = [lines for both in _branches(scene.kernel.source) for lines in both]
    here, there = (
        sum((scene.line(pc) or 0) in lines for lines in branches)
        for pc in (record.pc, record.other_pc)
    )
    if here >= there:
        return record
    return replace(
        record,
        pc=record.other_pc,
        other_pc=record.pc,
        thread=record.other_thread,
        other_thread=record.thread,
        detail=record.detail[::-1],
    )


def _identity(finding: RawFinding) -> tuple[object, ...]:
    """Equal for findings that say the same."""
    lines = (finding.at.line or 0, (finding.other.line or 0) if finding.other else -1)
    ordered = tuple(sorted(lines)) if finding.kind in _SYMMETRIC else lines
    return finding.kind, ordered, finding.buffer


def _of_one_run(findings: Iterable[RawFinding]) -> list[RawFinding]:
    merged: dict[tuple[object, ...], RawFinding] = {}
    for finding in findings:
        key = _identity(finding)
        known = merged.get(key)
        count = finding.count + (known.count if known else 0)
        merged[key] = replace(known or finding, count=count)
    return list(merged.values())


def _without_echoes(findings: Sequence[RawFinding]) -> list[RawFinding]:
    """Drop findings that another one states better."""
    named = {(f.kind, f.at.line) for f in findings if f.buffer}
    races = {_identity(f)[1:] for f in findings if f.kind not in _NOTES}
    pairs = [(f.buffer, f.at, f.other or f.at) for f in findings if f.kind in _RACES]
    raced = {(buffer, access.line) for buffer, *both in pairs for access in both}
    others = {(f.kind, f.at.line) for f in findings if f.other is not None}
    missed = {f.at.line or 0 for f in findings if f.kind == "divergent-barrier"}
    kept = []
    for finding in findings:
        place = (finding.kind, finding.at.line)
        if any(_is_divided(finding, line) for line in missed):
            continue
        # The compiler saw the index, the shadow the array's name.
        if finding.kind == "out-of-bounds" and not finding.buffer and place in named:
            continue
        if finding.kind in _NOTES and _identity(finding)[1:] in races:
            continue
        # Of a read in front of the write.
        if finding.kind == "uninitialized-read" and (finding.buffer, finding.at.line) in raced:
            continue
        if finding.kind == "divergent-simd" and finding.other is None and place in others:
            continue
        kept.append(finding)
    return kept


def _is_divided(finding: RawFinding, barrier: int) -> bool:
    """Return whether a barrier is between the two accesses of threads of one threadgroup."""
    here, there = finding.at, finding.other
    if finding.kind not in _SYMMETRIC or there is None or here.threadgroup != there.threadgroup:
        return False
    first, last = sorted((here.line or 0, there.line or 0))
    return first < barrier < last


def _finding(record: FindingAnswer, scene: Scene) -> RawFinding:
    if _KINDS[record.kind] == "divergent-barrier" and REASONS[record.reason] == "elsewhere":
        record = _from_the_branch(record, scene)
    # Of a barrier that lacks a flag, the barrier is at fault.
    line = record.line or scene.line(record.barrier_pc or record.pc)
    # Of a thread that was stopped in a function of the library, its caller has a line.
    is_stopped = _KINDS[record.kind] in _STOPPED
    if line is None and is_stopped:
        line = scene.line(record.other_pc)
    value, other_value = _values(record, scene)
    at = MemoryAccess(
        line=line,
        thread=record.thread if record.has_thread else None,
        threadgroup=record.threadgroup if record.has_thread else None,
        kind=_verb(record.access),
        value=value,
    )
    other = None
    if record.has_other or (record.other_pc and not is_stopped):
        other = MemoryAccess(
            line=scene.line(record.other_pc),
            thread=record.other_thread if record.has_other else None,
            threadgroup=record.other_threadgroup if record.has_other else None,
            kind=_verb(record.other_access),
            value=other_value,
        )
    return RawFinding(
        kind=_KINDS[record.kind],
        at=at,
        other=other,
        buffer=_place(record, scene),
        element=_element(record, scene),
        detail=_detail(record, scene),
        count=record.count,
    )


def _place(record: FindingAnswer, scene: Scene) -> str:
    if record.column:
        return scene.word(record.line, record.column)
    if REASONS[record.reason] == "variable":
        line, column = scene.lines().place_at(record.pc)
        return scene.word(line or 0, column)
    if REASONS[record.reason] == "element":
        return record.text
    return scene.place(record.place)


def _element(record: FindingAnswer, scene: Scene) -> int | None:
    place, offset = record.place, record.offset
    if record.column or REASONS[record.reason] == "element":
        return record.detail[0]
    if place < 0:
        return None
    if place >= FIRST_ARRAY:
        # Of a threadgroup array the type is unknown: count in what was accessed.
        return offset // record.size if record.size in (1, 2, 4, 8, 16) else None
    buffer = scene.buffers.get(place)
    return offset // buffer.itemsize if buffer is not None else None


def _detail(record: FindingAnswer, scene: Scene) -> str:
    reason, kind = REASONS[record.reason], _KINDS[record.kind]
    here, elsewhere = record.detail
    if kind == "crash":
        return _crash(reason, record)
    if kind == "divergent-barrier":
        way = "have returned" if reason == "exited" else "are elsewhere"
        unit = "lane" if reason == "simdgroup barrier" else "thread"
        return f"{_count(here, unit)} at this barrier, {elsewhere} {way}"
    if kind in ("divergent-simd", "split-reduction"):
        if reason == "inactive lane":
            return f"`{record.text}` reads inactive lane {here}"
        if reason == "partial":
            return f"`{record.text}` needs all 32 lanes, {here} are active"
        return f"{_count(here, 'lane')} at `{record.text}`, {elsewhere} elsewhere"
    if kind == "misaligned-access":
        name = scene.place(record.place)
        return f"`{name}` at byte {record.offset}, not a multiple of {here}"
    if kind == "undefined-arithmetic":
        return undefined_operation(reason, record.detail, _plain_type(record.text))
    if reason == "element":
        return _count(elsewhere, "element")
    if reason == "variable":
        return "the access leaves its variable"
    if reason == "index":
        return f"declared as `{_plain_type(record.text)}`"
    if kind == "wrong-mem-flags":
        return "mem_device" if reason == "device flag" else "mem_threadgroup"
    return ""


def _count(number: int, unit: str) -> str:
    return f"{number} {unit}{'' if number == 1 else 's'}"


def _plain_type(text: str) -> str:
    """Return a type in Metal's words, from the compiler's: ``'__local _Float16[4]'``."""
    text = text.split("'")[1] if text.count("'") >= 2 else text
    for space in _SPACES:
        text = text.replace(space, "")
    return " ".join(text.split()).replace("_Float16", "half").replace(" [", "[")


def _crash(reason: str, record: FindingAnswer) -> str:
    if reason == "stack":
        return "stack overflow, a thread has 256 KB"
    if reason == "scratch":
        return "too many accesses far out of bounds"
    if reason == "no buffer":
        return f"address {record.address:#x} is in no buffer"
    signal = record.detail[0]
    what = _SIGNALS.get(signal, f"signal {signal}")
    return f"{what} at address {record.address:#x}" if signal in (7, 10, 11) else what


def _verb(access: int) -> str:
    if not access:
        return ""
    word = "write" if access & _WRITE else "read"
    return f"atomic {word}" if access & _ATOMIC else word


def _values(record: FindingAnswer, scene: Scene) -> tuple[str, str]:
    """Return the values of two accesses, each "" where it is unknown."""
    value = scene.value(record.place, bytes.fromhex(record.value))
    if not value or not record.other_access:
        return "", ""
    plain_writes = record.access == record.other_access == _WRITE
    if plain_writes and record.kind != _KINDS.index("wrong-mem-flags"):
        return value, scene.value(record.place, bytes.fromhex(record.other_value))
    return (value if record.access == _READ else ""), ""


def _of_outputs(
    differences: Sequence[DifferenceAnswer], scene: Scene, *, explained: bool
) -> list[RawFinding]:
    """Return the findings from comparing the outputs of the runs."""
    nowhere = MemoryAccess(None, None, None)
    found = []
    for difference in differences:
        buffer = scene.buffers[difference.slot]
        if difference.unwritten:
            found.append(
                RawFinding(
                    kind="unwritten-output",
                    at=nowhere,
                    other=None,
                    buffer=buffer.name,
                    element=difference.first_unwritten,
                    detail="",
                    count=difference.unwritten,
                )
            )
        if difference.different and not explained:
            found.append(_difference(difference, scene, buffer))
    return found


def _difference(difference: DifferenceAnswer, scene: Scene, buffer: Buffer) -> RawFinding:
    by_pattern = difference.by_pattern
    by_memory = by_pattern is not None and by_pattern.different > 0
    shown = by_pattern if by_pattern is not None and by_memory else difference
    before, now = (
        scene.value(buffer.index, bytes.fromhex(value)) or f"0x{value}"
        for value in (shown.before, shown.now)
    )
    line = scene.line(shown.pc)
    if by_memory:
        unset = scene.kernel.unset[0] if scene.kernel.unset else None
        culprit = f"`{unset.variable}`" if unset else "a variable"
        line = unset.line if unset else line
        detail = f"{culprit} is uninitialized: {before} in one run, {now} in another"
    else:
        detail = f"{before} in ascending order of threads, {now} in descending order"
    by_order = "float-sum-order" if shown.rounded == shown.different else "order-dependent"
    return RawFinding(
        kind="uninitialized-read" if by_memory else by_order,
        at=MemoryAccess(line, None, None),
        other=None,
        buffer=buffer.name,
        element=shown.first_different,
        detail=detail,
        count=shown.different,
    )


def undefined_operation(reason: str, detail: Sequence[int], kind: str) -> str:
    """Return a phrase for an operation.

    Args:
        reason: as in ``answers.REASONS``.
        detail: the two numbers that the runtime recorded.
        kind: the type of the operand, or that of the result of a conversion.
    """
    if reason == "division":
        return "integer division by zero"
    if reason == "shift":
        return f"shift of `{kind}` by {detail[0]}"
    return f"the value does not fit `{kind}`"


def lacks_use_of_undefined(differences: Sequence[DifferenceAnswer]) -> bool:
    """Return whether the runs certainly agree for any undefined value.

    Each run puts its own pattern there. Without differences at all nothing was compared.
    """
    return bool(differences) and not any(
        difference.different and (difference.by_pattern or difference).different
        for difference in differences
    )
