"""KERNEL-MSL, KERNEL-UNIT and KERNEL-SIG-005 of files: what Metal's compiler refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator

from embercoach.checks.programs.metal_checks import MetalCode, MetalFile, MetalFix, MetalReport
from embercoach.checks.registry import check
from embercoach.metal.contract import ATTRIBUTES, MAX_BUFFERS
from embercoach.metal.cuda_names import NAMES, QUALIFIERS, UNSIZED_HELP, cuda_help, qualifier_help
from embercoach.metal.library import OTHER_SCALARS, scalar_help
from embercoach.metal.program.types import SCALARS
from embercoach.metal.program.written_facts import MetalText
from embercoach.metal.text_facts import (
    AttributeMark,
    Foreign,
    ForeignKind,
    TextSpan,
    Use,
    WrittenFunction,
    WrittenParameter,
)
from embercoach.metal.tokens import whole_number

#: Attributes that number the arguments of a function, each in its own table.
LOCATIONS = ("buffer", "texture", "sampler", "threadgroup")
#: Every type that an attribute of a thread may have (table 5.8), by the number of components.
UNSIGNED = frozenset(n for n, kind in SCALARS.items() if kind.scalar in ("uint", "ushort"))


@check("KERNEL-UNIT-001")
def locations(code: MetalFile) -> Iterator[MetalReport]:
    """Yield two arguments of a function with the same index."""
    for function in _entries(code):
        taken: dict[tuple[str, int], str] = {}
        for parameter in function.parameters:
            mark, index = _location(parameter)
            if mark is None or index is None or _is_optional(parameter):
                continue
            other = taken.setdefault((mark.name, index), parameter.name)
            if other != parameter.name:
                yield MetalReport(
                    "KERNEL-UNIT-001",
                    code.text.at(mark.place),
                    f"`{parameter.name}` and `{other}` have the same {mark.name} index {index}",
                    "Give every argument the index that the host binds it to",
                )


@check("KERNEL-UNIT-002")
def indices(code: MetalFile) -> Iterator[MetalReport]:
    """Yield an index beyond the end of the buffer table."""
    for function in _entries(code):
        for parameter in function.parameters:
            mark, index = _location(parameter)
            if mark is not None and mark.name == "buffer" and (index or 0) >= MAX_BUFFERS:
                yield MetalReport(
                    "KERNEL-UNIT-002",
                    code.text.at(mark.place),
                    f"buffer index {index} is out of range, must be 0 to {MAX_BUFFERS - 1}",
                    "Pass several values in one buffer, as a structure, or use an argument buffer",
                )


@check("KERNEL-UNIT-003")
def results(code: MetalFile) -> Iterator[MetalReport]:
    """Yield a kernel that returns a value."""
    for function in _entries(code):
        result = function.result
        known = result not in code.text.macros.names and result not in ("", "auto", "void")
        if function.entry == "kernel" and known and _is_plain(code, result.rstrip("*")):
            yield MetalReport(
                "KERNEL-UNIT-003",
                code.text.at(function.place),
                f"kernel `{function.name}` must return void, got `{result}`",
                "Write the result to a `device` buffer, or drop `kernel` from a helper function",
            )


@check("KERNEL-UNIT-004")
def spaces(code: MetalFile) -> Iterator[MetalReport]:
    """Pointers without an address space, and plain values, as arguments of an entry point."""
    for function in _entries(code):
        for parameter in function.parameters:
            if parameter.address_space is not None or not _is_plain(code, parameter.type):
                continue
            if parameter.pointer:
                what = f"pointer argument `{parameter.name}` without an address space"
                advice = "Write `device`, `constant` or `threadgroup` before the type"
            elif not parameter.attributes:
                what = f"argument `{parameter.name}` without an attribute"
                advice = (
                    f"Pass it as `constant {parameter.type}& {parameter.name} [[buffer(n)]]`, or "
                    "add a thread attribute"
                )
            else:
                continue
            yield MetalReport(
                "KERNEL-UNIT-004",
                code.text.at(parameter.place),
                f"{what} in {function.entry} function `{function.name}`",
                advice,
            )


@check("KERNEL-UNIT-005")
def attribute_types(code: MetalFile) -> Iterator[MetalReport]:
    """Yield an attribute of a thread with a type that it cannot have."""
    for function in _entries(code):
        for parameter in function.parameters:
            mark = next((m for m in parameter.attributes if m.name in ATTRIBUTES), None)
            if mark is None or function.entry != "kernel" or not _is_plain(code, parameter.type):
                continue
            vector = ATTRIBUTES[mark.name] == "uint3"
            if parameter.pointer or _fits(parameter.type, vector=vector):
                continue
            wanted = "`uint`, `uint2` or `uint3`" if vector else "`uint` or `ushort`"
            yield MetalReport(
                "KERNEL-UNIT-005",
                code.text.at(parameter.place),
                f"`{mark.name}` must be {wanted}, got `{parameter.type}`",
                "Declare it unsigned, and convert it in the body: `int(i)`",
            )


@check("KERNEL-SIG-005")
def undeclared_names(code: MetalFile) -> Iterator[MetalReport]:
    """Yield names that nothing declares."""
    from embercoach.metal.program.written_facts import undeclared

    if not any(d.kind == "include" and "metal" in d.target for d in code.text.directives):
        return  # a fragment: what it is joined with may declare anything
    # It may be a macro of the command line.
    unknown = [use for use in undeclared(code.text) if not use.name.isupper()]
    named = [use for use in unknown if use.kind != "value" and use.elsewhere is None]
    if not OTHER_SCALARS.keys() | NAMES >= {use.name for use in named}:
        return  # types and functions are the host's: macros, or a text that it puts before this one
    uses: dict[str, list[Use]] = {}
    for use in unknown:
        uses.setdefault(use.name, []).append(use)
    for name, found in uses.items():
        again = f" ({len(found)} times)" if len(found) > 1 else ""
        where = found[0].elsewhere
        why = ""
        if where is not None:
            why = f": line {where.line} declares it in another scope"
        yield MetalReport(
            "KERNEL-SIG-005",
            code.text.at(found[0].place),
            f"undeclared identifier `{name}`{again}{why}",
            scalar_help(name)
            or cuda_help(name)
            or "Declare it, or pass it as an argument of the kernel",
        )


def _entries(code: MetalCode) -> Iterator[WrittenFunction]:
    """Yield the entry points that are defined, and that the parser understood whole."""
    doubtful = code.text.doubtful
    for function in code.text.entry_points:
        extent = function.extent
        if function.body and not any(extent.start <= d.start < extent.end for d in doubtful):
            yield function


def _location(parameter: WrittenParameter) -> tuple[AttributeMark | None, int | None]:
    mark = next((m for m in parameter.attributes if m.name in LOCATIONS), None)
    if mark is None or mark.arguments is None or not mark.arguments.isdecimal():
        return mark, None
    return mark, whole_number(mark.arguments)


def _is_optional(parameter: WrittenParameter) -> bool:
    """Return whether a function constant decides if the argument is there at all."""
    return any(mark.name == "function_constant" for mark in parameter.attributes)


def _is_plain(code: MetalCode, name: str) -> bool:
    """Return whether a type is a Metal scalar or vector, and not a name of the file."""
    return name.rstrip("234") in SCALARS and name not in code.text.names


def _fits(name: str, *, vector: bool) -> bool:
    return name in UNSIGNED or (vector and name[-1:] in "23" and name[:-1] in ("uint", "ushort"))


CODE = "KERNEL-MSL-001"
#: Message and help by kind.
_SAID: dict[ForeignKind, tuple[str, str]] = {
    "cuda": ("`{text}` is a qualifier of CUDA", ""),
    "double": (
        "`{text}` is not a Metal type; the widest is `float`",
        "Use `float`; where a sum needs more digits, use compensated (Kahan) summation",
    ),
    "long long": (
        "`{text}` is not a Metal type; `long` has 64 bits",
        "Write `long` or `int64_t`, and `ulong` or `uint64_t`",
    ),
    "new": (
        "Metal has no `new`: threads cannot allocate memory",
        "Use an array of constant size, threadgroup memory, or another output",
    ),
    "delete": ("Metal has no `delete`: threads cannot allocate memory", "Drop it"),
    "exception": (
        "Metal has no exceptions: `{text}`",
        "Write an error code to an output, or validate before the launch",
    ),
    "goto": ("Metal has no `goto`", "Use loops, `break`, or a helper function that returns"),
    "virtual": (
        "Metal has no virtual functions",
        "Select by a template argument or a `switch`",
    ),
    "storage": ("Metal has no `{text}` variables", "Drop the word: locals belong to their thread"),
    "dynamic_cast": ("Metal has no `dynamic_cast`", "Use `static_cast`"),
    "typeid": ("Metal has no `typeid`", "Use a template argument or overloading"),
    "std": (
        "Metal has no C++ standard library: `{text}`",
        "Use Metal's library: `metal::min`, `metal::array`, `metal::numeric_limits`",
    ),
    "include": (
        "Metal has no header `{text}`",
        "Drop the line: MLX includes `<metal_stdlib>` before the kernel",
    ),
    "asm": ("Metal has no inline assembly", "Use a function of Metal's library"),
    "static": (
        "static local variable `{text}`: Metal allows only constants",
        "Drop `static`, or keep the value between launches in an output",
    ),
    "file scope": (
        "program-scope variable `{text}` outside of `constant` memory",
        "Write `constant constexpr`, or pass the value as an input or a template argument",
    ),
    "order": (
        "`{text}` on an atomic: Metal has only `memory_order_relaxed`",
        "Use `memory_order_relaxed`; order other memory by a barrier or a second kernel",
    ),
    "lambda": (
        "lambda expressions need Metal 4 and fail to compile on macOS 14 and 15",
        "Write the code inline, or as a function in the header",
    ),
}


#: What comes before and after a qualifier of an array that the launch of CUDA sizes.
_EXTERN = re.compile(r"\bextern\s+\Z")
_UNSIZED = re.compile(r"[^;={]*\[\s*\]")


@check(CODE)
def foreign_language(code: MetalCode) -> Iterator[MetalReport]:
    """C++ that Metal has not, each kind once for a text."""
    doubtful = set[str]()
    if code.whole:
        doubtful.add("lambda")  # the project that builds a file chooses its version, maybe Metal 4
    elif "any" in code.holes:
        doubtful.add("file scope")  # unknown text may open a function
    for text in code.texts:
        kinds: dict[str, list[Foreign]] = {}
        for part in text.foreign:
            if part.kind not in doubtful:
                kinds.setdefault(part.text if part.kind == "cuda" else part.kind, []).append(part)
        for found in kinds.values():
            first = found[0]
            again = f" ({len(found)} times)" if len(found) > 1 and first.kind != "lambda" else ""
            what, advice = _SAID[first.kind]
            fix = None
            if first.kind == "cuda":
                advice, fix = _written_in_metal(text, found)
            yield MetalReport(
                CODE,
                text.at(first.place),
                f"{what.format(text=_short(first.text))}{again}",
                advice,
                fix=fix,
            )


def _written_in_metal(text: MetalText, found: list[Foreign]) -> tuple[str, MetalFix | None]:
    """Return help and fix for one of CUDA's qualifiers; no fix for what Metal does without."""
    word = found[0].text
    other = QUALIFIERS[word]
    if word == "__shared__" and any(_UNSIZED.match(text.text, part.place.end) for part in found):
        return UNSIZED_HELP, None
    edits = []
    for place in (part.place for part in found):
        extern = _EXTERN.search(text.text, 0, place.start)
        start = place.start if extern is None else extern.start()
        span = TextSpan(start, place.end, place.line, place.column)
        edits.append((text.at(span), text.text[start : place.end], other))
    return qualifier_help(word), MetalFix(f"Write `{other}`", tuple(edits)) if other else None


def _short(text: str) -> str:
    """Return the name in a text: ``std::vector`` of ``std::vector<float>``."""
    return text.split("<", 1)[0] if text.startswith("std::") else text.removesuffix(";")
