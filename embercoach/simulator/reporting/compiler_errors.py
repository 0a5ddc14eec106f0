"""Clang's diagnostics of a kernel, at the user's lines and in Metal's terms."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from embercoach.files import shown_path
from embercoach.finding import Severity  # noqa: TC001  (a field's type)
from embercoach.metal import hazards
from embercoach.metal.cuda_names import QUALIFIERS, cuda_help, qualifier_help
from embercoach.metal.library import FUNCTIONS, VALUES
from embercoach.simulator.model import BuiltKernel, KernelFinding, Part, SimulatorError, UnsetUse
from embercoach.simulator.reporting.messages import KernelLine
from embercoach.simulator.rewrite.translation import FILE_NAME, Rewritten
from embercoach.terminal_text import log_line

#: The place, which is as short as can be, the severity and the message.
_SAID = re.compile(r"(?:(.*?): )??(?:fatal )?(error|warning|note): (.*)", re.DOTALL)
# How clang spells what Metal calls otherwise.
_WORDS = (
    ("__global_device", "device"),
    ("__global_host", "constant"),
    ("__global", "device"),
    ("__constant", "constant"),
    ("__local", "threadgroup"),
    ("generic address space", "address space 'thread'"),
    ("_Float16", "half"),
    ("__bf16", "bfloat"),
    ("metal::", ""),
)
_MOST_NOTES = 4
#: What to do, by words of the message.
_HELPS = (
    ("undeclared identifier", "Declare it, or name it in `input_names` or `template`"),
    ("function definition is not", "Pass only the function's statements: MLX adds the signature"),
    ("call to 'atomic_", f"{hazards.ATOMIC_OUTPUT_HELP}, or declare the memory atomic"),
    ("no matching function", "Pass arguments of the types that a declaration of it takes"),
    ("not assignable", hazards.INPUT_WRITE_HELP),
    ("initializer", "Store its first values in the body, with a barrier after them"),
    ("threadgroup memory exceed", hazards.THREADGROUP_MEMORY_HELP),
    ("expected ", "Correct the syntax here or on the line before"),
    ("", "Change the line to Metal's rules; MLX's signature has the types of the parameters"),
)
_NAMED = re.compile(r"(?:identifier|type name) '(\w+)'")
_ATTRIBUTE = re.compile(r"\s*\[\[.*?\]\]")
#: For ``read_unset_uses``.
UNSET_WARNINGS = (
    "-Wuninitialized",
    "-Wsometimes-uninitialized",
    "-Wconditional-uninitialized",
)
_LOST_VARIABLE = "automatic variable qualified with an address space"


class CompilerError(Struct, frozen=True):
    """A compiler error, warning or note about a kernel.

    Attributes:
        severity: notes belong to an error.
        part: the text that line and column count in.
        line: from 1.
        column: in characters, from 1.
        message: without a full stop.
        excerpt: the line's text.
        notes: what belongs to it, of the user's texts.
    """

    severity: Severity
    part: Part
    line: int
    column: int
    message: str
    excerpt: str
    notes: tuple[CompilerError, ...] = ()


class CompileError(SimulatorError):
    """A kernel does not compile, most likely not on a Mac either.

    Attributes:
        kernel: the name that the user gave.
        diagnostics: the errors, in the order of the compiler.
        signature: the function head that MLX generated around the body; "" if it plays no part.
    """

    def __init__(self, kernel: str, diagnostics: Sequence[CompilerError], signature: str) -> None:
        self.kernel = kernel
        self.diagnostics = tuple(diagnostics)
        self.signature = signature
        super().__init__(_error_text(kernel, self.diagnostics, signature))

    def __reduce__(self) -> tuple[type[CompileError], tuple[object, ...]]:
        return type(self), (self.kernel, self.diagnostics, self.signature)


#: The kind of a finding on a launch that does not compile.
LAUNCHED = "does-not-compile"


def findings_of(
    error: CompileError,
    kind: str,
    place: tuple[str, int] | None,
    *,
    words: str = "",
    advice: str = "",
) -> list[KernelFinding]:
    """Return the errors of a kernel as findings.

    Args:
        error: what the compiler says.
        kind: of the findings.
        place: file and line of the launch.
        words: when it does not compile (``for x of float16``); empty if always.
        advice: what to do.
    """
    parameters = " ".join(_ATTRIBUTE.sub("", error.signature.partition("(")[2][:-3]).split())
    signature = (f"MLX's signature: {parameters}",) if parameters and not words else ()
    return [
        KernelFinding(
            kind=kind,
            kernel=error.kernel,
            part=diagnostic.part,
            line=diagnostic.line,
            thread=None,
            message=f"kernel does not compile {words}" if words else diagnostic.message,
            excerpt=diagnostic.excerpt.strip(),
            launched_at=place,
            details=(
                *_details(diagnostic, error.kernel, place, with_message=bool(words)),
                *(signature if diagnostic is error.diagnostics[0] else ()),
            ),
            help=advice or _help(diagnostic.message),
        )
        for diagnostic in error.diagnostics
        if diagnostic.severity == "error"
    ]


def _help(message: str) -> str:
    """Return what to do about an error: for a name of CUDA, what Metal has instead."""
    named = _NAMED.search(message)
    name = named[1] if named else ""
    usual = next(text for word, text in _HELPS if word in message)
    return qualifier_help(name) if name in QUALIFIERS else cuda_help(name) or usual


def memory_error(kernel: BuiltKernel, sizes: Mapping[str, int]) -> CompileError:
    """Return the error of a kernel whose threadgroup arrays take more than a threadgroup has.

    Args:
        kernel: that Metal compiles, and does not load.
        sizes: bytes of each array.
    """
    listed = ", ".join(f"{name}: {size:,}" for name, size in sizes.items())
    listed = f" ({listed})" if len(sizes) > 1 else ""
    largest = max(sizes, key=sizes.__getitem__)
    declared = rf"\bthreadgroup\b[^;{{}}]*?\b{largest}\b|\b{largest}\s*\["
    found = re.search(declared, kernel.source)
    before = kernel.source[: found.start()] if found else ""
    line = before.count("\n") + 1 if found else kernel.lines.body_start
    part, own_line = kernel.lines.place(line)
    message = f"{hazards.threadgroup_memory(sum(sizes.values()))}{listed}"
    column, excerpt = len(before.rpartition("\n")[2]) + 1, kernel.source.split("\n")[line - 1]
    error = CompilerError("error", part, own_line, column, message, excerpt)
    return CompileError(kernel.name, [error], "")


def _details(
    diagnostic: CompilerError, kernel: str, place: tuple[str, int] | None, *, with_message: bool
) -> Iterator[str]:
    if with_message:
        yield diagnostic.message
    for note in diagnostic.notes[:1]:
        yield f"{_line_of(note, kernel, place).shown()}: {note.message}"


def _line_of(
    diagnostic: CompilerError, kernel: str, place: tuple[str, int] | None = None
) -> KernelLine:
    text = diagnostic.excerpt.strip()
    return KernelLine(kernel, diagnostic.part, diagnostic.line, text, place)


def _error_text(kernel: str, diagnostics: Sequence[CompilerError], signature: str) -> str:
    count = len(diagnostics)
    lines = [f"kernel {kernel!r} does not compile: {count} error{'s' * (count != 1)}"]
    for diagnostic in diagnostics:
        lines += ("", *_lines(diagnostic, kernel, ""))
        for note in diagnostic.notes:
            lines += _lines(note, kernel, "  ")
    if signature:
        head = [f"  {line}" for line in signature.split("\n")]
        lines += ["", "MLX generates this function for it:", *head]
    return "\n".join(log_line(line, keep_tabs=True) for line in lines)


def _lines(diagnostic: CompilerError, kernel: str, indent: str) -> Iterator[str]:
    text = diagnostic.excerpt
    place = f"{diagnostic.part}:{diagnostic.line}:{diagnostic.column}"
    number = str(diagnostic.line)
    at = _line_of(diagnostic, kernel).place
    if at is not None:
        number = str(at.line)
        column = at.column + diagnostic.column - 1 - (len(text) - len(text.lstrip()))
        own = f"{diagnostic.part} line {diagnostic.line}"
        place = f"{shown_path(at.path)}:{number}:{column} ({own})"
    yield f"{indent}{place}: {diagnostic.severity}: {diagnostic.message}"
    if text.strip():
        before = text[: diagnostic.column - 1]
        caret = "".join("\t" if c == "\t" else " " for c in before)
        yield f"{indent}  {number} | {text}"
        yield f"{indent}  {' ' * len(number)} | {caret}^"


class _Said(Struct, frozen=True):
    """A line of the compiler: file, line and column are empty where it names no place."""

    severity: Severity
    file: str
    line: int
    column: int
    message: str


def read_errors(output: str, rewritten: Rewritten) -> tuple[CompilerError, ...]:
    """Return the errors in what clang printed, each with its notes.

    What clang says of the thunk follows from the errors before it, if there are any.

    Args:
        output: clang's standard error, without carets, colours and wrapped lines.
        rewritten: the unit that it compiled.

    Raises:
        SimulatorError: an error has nothing to do with the user's lines.
    """
    groups: list[list[_Said]] = []
    for said in _said(output):
        if said.severity != "note":
            groups.append([])
        if groups:
            groups[-1].append(said)
    last = rewritten.edited.text.count("\n") + 1
    groups = [group for group in groups if group[0].severity == "error"]
    inside = [group for group in groups if any(_is_users(s) and s.line <= last for s in group)]
    return tuple(_placed(group, rewritten) for group in inside or groups[:1])


def refused_casts(output: str, rewritten: Rewritten) -> frozenset[tuple[int, int]]:
    """Line and column, in the generated source, of casts between half and bfloat.

    Metal has them, clang has not.

    Args:
        output: of clang.
        rewritten: the unit that it compiled.
    """
    return frozenset(
        rewritten.edited.original_place(said.line, said.column)
        for said in _said(output)
        if said.severity == "error"
        and said.message.endswith(" is not allowed")
        and _is_users(said)
        and all(word in said.message for word in ("cast from '", "_Float16'", "__bf16'"))
    )


def implicit_bfloats(output: str, rewritten: Rewritten) -> tuple[CompilerError, ...]:
    """Floats that become bfloat without a cast: clang warns of what Metal refuses.

    Compound assignments are not reported: how Metal treats them is unknown.

    Args:
        output: of clang.
        rewritten: the unit that it compiled.
    """
    errors = {}
    for said in _said(output):
        lost, _, kinds = said.message.partition(" loses floating-point precision: ")
        kind, _, target = kinds.partition(" to ")
        if (
            said.severity == "warning"
            and lost == "implicit conversion"
            and "__bf16'" in target
            and _is_users(said)
        ):
            kind = kind.strip("'").removeprefix("const ").replace("double", "float")
            message = f"no implicit conversion from {kind} to bfloat; write bfloat(...)"
            errors[said.line, said.column] = replace(said, severity="error", message=message)
    return tuple(_diagnostic(said, rewritten) for said in errors.values())


def read_unset_uses(output: str) -> tuple[UnsetUse, ...]:
    """Return the uses of variables without a value that clang warns of, in the order of the lines.

    Args:
        output: of clang with ``UNSET_WARNINGS``.
    """
    found: set[tuple[int, str]] = set()
    variable = ""
    for said in _said(output):
        if said.severity == "warning":
            _, _, rest = said.message.partition("'")
            variable, _, claim = rest.partition("'")
            # If a condition decides, a note has the use.
            used = "when used here" in claim
        else:
            used = said.message == "uninitialized use occurs here"
        if used and variable and _is_users(said):
            found.add((said.line, variable))
    return tuple(UnsetUse(line, name) for line, name in sorted(found))


def problem_diagnostics(rewritten: Rewritten) -> tuple[CompilerError, ...]:
    """Return the diagnostics of the rewriter itself."""
    return tuple(
        _diagnostic(_Said("error", FILE_NAME, p.line, p.column, p.message), rewritten, edited=False)
        for p in rewritten.problems
    )


def _said(output: str) -> Iterator[_Said]:
    last: _Said | None = None
    for line in output.splitlines():
        said = _read(line)
        if said is not None:
            if last is not None:
                yield last
            last = said
        elif last is not None and not _is_frame(line):
            # A string of the user's, in a static_assert, brought a line break along.
            last = replace(last, message=f"{last.message} {line.strip()}")
    if last is not None:
        yield last


def _is_frame(line: str) -> bool:
    """Return whether a line only frames diagnostics: the includes, or the count at the end."""
    return (
        not line.strip()
        or line.startswith("In file included from ")
        or (line[:1].isdigit() and line.endswith(" generated."))
    )


def _read(line: str) -> _Said | None:
    """``file:line:column: severity: message``, or ``program: severity: message``."""
    found = _SAID.match(line)
    if found is None:
        return None
    severity, message = cast("Severity", found[2]), found[3]
    parts = (found[1] or "").rsplit(":", 2)
    if len(parts) == 3 and parts[1].isdecimal() and parts[2].isdecimal():
        return _Said(severity, parts[0], int(parts[1]), int(parts[2]), message)
    return _Said(severity, "", 0, 0, message)


def _is_users(said: _Said) -> bool:
    return said.file.rpartition("/")[2] == FILE_NAME


def _placed(group: Sequence[_Said], rewritten: Rewritten) -> CompilerError:
    """Return the diagnostic of an error and its notes, at the user's line that led to it."""
    first = group[0]
    anchor = next((said for said in group if _is_users(said)), None)
    if anchor is None:
        place = f"{first.file}:{first.line}: " if first.file else ""
        raise SimulatorError(
            f"the simulator's own Metal library does not compile: {place}{first.message}"
        )
    last = rewritten.edited.text.count("\n") + 1
    notes = [s for s in group[1:] if s is not anchor and _is_users(s) and s.line <= last]
    made = _diagnostic(replace(anchor, severity=first.severity), rewritten)
    message = _in_metal(first.message, rewritten)
    if anchor is not first:
        message += f" (in the Metal library, {first.file.rpartition('/')[2]}:{first.line})"
    return replace(
        made,
        message=message,
        notes=tuple(_diagnostic(said, rewritten) for said in notes[:_MOST_NOTES]),
    )


def _diagnostic(said: _Said, rewritten: Rewritten, *, edited: bool = True) -> CompilerError:
    line, column = said.line, said.column
    lines = rewritten.edited.original.split("\n")
    if line > len(lines):
        # The text ended where clang expected more; it then read the thunk.
        line = rewritten.lines.body_start + rewritten.lines.body_lines - 1
        column = len(lines[line - 1].rstrip()) + 1
    elif edited:
        line, column = rewritten.edited.original_place(line, column)
    part, own_line = rewritten.lines.place(line)
    return CompilerError(
        severity=said.severity,
        part=part,
        line=own_line,
        column=column,
        message=_in_metal(said.message, rewritten),
        excerpt=lines[line - 1].rstrip("\r") if line > 0 else "",
    )


def _in_metal(message: str, rewritten: Rewritten) -> str:
    if message == _LOST_VARIABLE:
        return _lost_variable(rewritten)
    if message.endswith("' file not found"):
        return f"{message}: kernels include only the headers of Metal and MLX"
    for word, metal in _WORDS:
        message = message.replace(word, metal)
    return message + _missing(message)


def _lost_variable(rewritten: Rewritten) -> str:
    if rewritten.opaque:
        names = " or ".join(rewritten.opaque)
        return (
            f"unsupported macro {names} around a threadgroup variable: write the word threadgroup "
            "in its declaration"
        )
    return (
        "threadgroup variable outside of a kernel function, or within another declaration; "
        "declare it in the kernel, and pass a pointer"
    )


def _missing(message: str) -> str:
    """Mark names that Metal has and the simulator lacks, which are not the user's mistake."""
    unknown = (
        "use of undeclared identifier '",
        "no member named '",
        "no type named '",
        "unknown type name '",
    )
    for front in unknown:
        _, _, name = message.partition(front)
        name = name.partition("'")[0]
        if name in FUNCTIONS or name in VALUES:
            return f" (Metal has {name}, the simulator does not yet)"
    return ""
