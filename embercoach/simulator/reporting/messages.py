"""Says what the runtime saw in the terms of the kernel's author."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from embercoach.simulator.model import Finding
from embercoach.terminal_text import escaped, log_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from embercoach.simulator.model import Access, Buffer, BuiltKernel, Part, RawFinding


@dataclass(frozen=True, slots=True)
class _Kind:
    """How a kind of finding is told.

    Attributes:
        what: the sentence, with ``{spot}`` for the place in memory; ``{extent}`` for what the
            buffer has, ``{more}`` for how many places more, each with what sets it off.
        why: what a GPU makes of it.
        fix: what the author can do.
    """

    what: str
    why: str
    fix: str


_ACCESSES = frozenset({"a read", "a write", "an atomic read", "an atomic write"})
_DIVERGENT = frozenset({"divergent-barrier", "divergent-simd"})
#: Kinds whose count is one of elements, which the message tells.
_COUNTED = frozenset({"unwritten-output", "order-dependent"})
_WIDTH = 100
#: Positions and code are not broken into lines.
_WHOLE = re.compile(r"\(\d+, \d+, \d+\)|`[^`]*`")

_KINDS = {
    "out-of-bounds": _Kind(
        "{spot} is out of bounds{extent}",
        "Metal checks no bounds: a GPU reads whatever lies there, or overwrites it.",
        "Bound the index before its use, or let threads without an element return after the last "
        "barrier.",
    ),
    "write-to-input": _Kind(
        "{spot} is written, but it is an input",
        "MLX may share an input's memory with other arrays, which would change as well.",
        "Write to an output; copy the input there first where the kernel updates it.",
    ),
    "threadgroup-race": _Kind(
        "{spot} is accessed by two threads of a threadgroup in no order",
        "On a GPU either may come first, so that a value is lost, or read too early or too late.",
        "Put threadgroup_barrier(mem_flags::mem_threadgroup) between the two accesses, where all "
        "threads of the threadgroup pass it; in a loop, also before the next round's writes.",
    ),
    "device-race": _Kind(
        "{spot} is accessed by two threads in no order",
        "On a GPU either may come first, and no barrier orders threads of two threadgroups.",
        "Let one thread own each element, use atomics (atomic_outputs=True), or launch the second "
        "step as a kernel of its own; within a threadgroup, "
        "threadgroup_barrier(mem_flags::mem_device) orders them.",
    ),
    "uninitialized-read": _Kind(
        "{spot} is read before anything was written to it",
        "Memory holds whatever was there before, so that results change from run to run.",
        "Give it a value first; an output can begin with one: init_value=0 in the call.",
    ),
    "unwritten-output": _Kind(
        "no thread writes {spot}{more}{extent}",
        "These elements hold whatever the memory held before.",
        "Let the grid cover the output (it counts threads, not threadgroups), check the early "
        "returns, or begin with a value: init_value=0 in the call.",
    ),
    "divergent-barrier": _Kind(
        "not all threads of the threadgroup reach this barrier",
        "A GPU hangs here, or goes on with memory that is not synchronised.",
        "Move the barrier out of the branch or loop, and replace an early return before it by a "
        "condition around the work.",
    ),
    "divergent-simd": _Kind(
        "lanes of a simdgroup part ways around this operation",
        "A lane that takes no part has no value to give: what comes out is undefined.",
        "Let all lanes reach it, and choose what they give with a condition: simd_sum(in ? x : 0).",
    ),
    "wrong-mem-flags": _Kind(
        "the barrier before this access to {spot} does not order this kind of memory",
        "The barrier orders only the memory that its mem_flags name; the value may be stale.",
        "Name the memory: mem_flags::mem_threadgroup for threadgroup arrays, "
        "mem_flags::mem_device for buffers.",
    ),
    "order-dependent": _Kind(
        "{spot} depends on the order in which the threads run",
        "A GPU promises no order, so that results change from run to run.",
        "Look for elements that several threads write or read, or for atomic sums of floats.",
    ),
    "timeout": _Kind(
        "the kernel did not end in time",
        "A GPU is stopped by the system after some seconds, and the command buffer fails.",
        "Look for a loop whose end depends on another thread or on data; if it is only slow here, "
        "launch it on smaller arrays or raise the limit: activate(timeout=...).",
    ),
    "crash": _Kind(
        "the kernel crashed",
        "A GPU would fault or corrupt memory.",
        "Look for wild pointers, recursion and arrays too big for a thread.",
    ),
    "same-value-write": _Kind(
        "{spot} gets the same value from two threads",
        "It does no harm while the values are the same, but it is a race all the same.",
        "Let one thread write it.",
    ),
    "lane-synchronous": _Kind(
        "{spot} passes between lanes of a simdgroup without a barrier",
        "It works while the lanes of a simdgroup run in step, which Metal does not promise.",
        "Put simdgroup_barrier(mem_flags::mem_threadgroup) between the two accesses.",
    ),
}


#: The kinds that a run can find.
TOLD = frozenset(_KINDS)


def tell(
    raw: RawFinding,
    kernel: BuiltKernel,
    buffers: Sequence[Buffer],
    launched_at: tuple[str, int] | None,
) -> Finding:
    """The finding as the kernel's author is told of it."""
    part: Part = "generated"
    line = None
    if raw.at.line:
        part, line = kernel.lines.place(raw.at.line)
    return Finding(
        kind=raw.kind,
        kernel=kernel.name,
        part=part,
        line=line,
        thread=raw.at.thread,
        message=_message(raw, kernel, buffers),
        excerpt=_excerpt(kernel, raw.at.line),
        launched_at=launched_at,
        count=raw.count,
    )


def report(finding: Finding) -> str:
    """The finding on a few lines, for terminals and exceptions."""
    where = f"{finding.part} line {finding.line}" if finding.line else "the launch as a whole"
    lines = [f"{finding.kind} ({finding.code}) in kernel {finding.kernel!r}, {where}:"]
    if finding.excerpt:
        lines.append(f"    {finding.excerpt.expandtabs(4)}")
    lines += _filled(escaped(finding.message)).split("\n")
    facts = []
    if finding.thread is not None:
        facts.append(f"thread {finding.thread}")
    if finding.count > 1 and finding.kind not in _COUNTED:
        facts.append(f"{finding.count} times")
    if finding.launched_at:
        facts.append("launched at {}:{}".format(*finding.launched_at))
    if facts:
        lines.append(f"  ({', '.join(facts)})")
    return "\n".join(map(log_line, lines))


def _filled(text: str) -> str:
    held = _WHOLE.sub(lambda found: found[0].replace(" ", "\0"), text)
    lines = textwrap.wrap(held, _WIDTH - 2, break_long_words=False, break_on_hyphens=False)
    return textwrap.indent("\n".join(lines), "  ").replace("\0", " ")


def _message(raw: RawFinding, kernel: BuiltKernel, buffers: Sequence[Buffer]) -> str:
    kind = _KINDS[raw.kind]
    sentences = [_what(kind, raw, buffers)]
    if raw.other is not None:
        sentences.append(_both(raw.kind, raw.at, raw.other, kernel))
    return " ".join([*sentences, kind.why, kind.fix])


def _what(kind: _Kind, raw: RawFinding, buffers: Sequence[Buffer]) -> str:
    what, detail, spot = kind.what, raw.detail, _spot(raw)
    named = raw.buffer and what.startswith("{spot}")
    if raw.kind == "out-of-bounds" and detail in _ACCESSES:
        spot, detail, named = f"{detail} of {spot}", "", ""
    elif raw.kind == "uninitialized-read" and raw.at.thread is None and detail:
        what = "{spot} differs from run to run"
    more = _more(raw) if raw.count > 1 else ""
    text = what.format(spot=spot, extent=_extent(raw, buffers), more=more)
    if detail:
        text += f"{',' if ': ' in text else ':'} {detail}"
    # The names of buffers keep their spelling.
    return f"{text if named else text[0].upper() + text[1:]}."


def _both(kind: str, here: Access, there: Access, kernel: BuiltKernel) -> str:
    """Who did it, and who did what it conflicts with."""
    line = ""
    if there.line is not None:
        part, number = kernel.lines.place(there.line)
        line = f" {part} line {number}: `{_excerpt(kernel, there.line)}`"
    if kind in _DIVERGENT:
        where = f"is at{line}" if line else "does not come here"
        return f"For one, {_who(there)} {where}."
    accused = f"Here it is {_who(here)}, there" if here.thread is not None else "The other is"
    return f"{accused} {_who(there)}{',' * bool(line)}{line}."


def _who(access: Access) -> str:
    if access.thread is None:
        return "another thread"
    group = "" if access.threadgroup is None else f" of threadgroup {access.threadgroup}"
    return f"thread {access.thread}{group}"


def _spot(raw: RawFinding) -> str:
    if not raw.buffer:
        return "memory outside of every buffer"
    return raw.buffer if raw.element is None else f"{raw.buffer}[{raw.element}]"


def _extent(raw: RawFinding, buffers: Sequence[Buffer]) -> str:
    for buffer in buffers:
        if buffer.name == raw.buffer:
            first = -(buffer.offset // buffer.itemsize)
            count = buffer.data.size // buffer.itemsize
            if count == 0:
                return f": {buffer.name} is empty"
            extent = f"{count} elements" if count > 1 else "1 element"
            reach = f", {first} to {first + count - 1}" if first else ""
            return f": {buffer.name} has {extent}{reach}"
    return ""


def _more(raw: RawFinding) -> str:
    others = raw.count - 1
    return f" and {others} more element{'s' if others > 1 else ''}"


def _excerpt(kernel: BuiltKernel, line: int | None) -> str:
    lines = kernel.source.split("\n")
    return lines[line - 1].strip() if line and line <= len(lines) else ""
