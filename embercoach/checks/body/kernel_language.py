"""KERNEL-MSL: what the language of kernels lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.checks.programs.metal_checks import MetalCode, MetalReport, metal_check

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from embercoach.metal.facts import Foreign, ForeignKind
    from embercoach.metal.program.nodes import Text

CODE = "KERNEL-MSL-001"
#: What is wrong with a kind, and what to write instead.
_SAID: dict[ForeignKind, tuple[str, str]] = {
    "double": (
        "`{text}` is no type of Metal: its widest is `float`",
        "use `float`; where a sum needs more digits, carry its rounding errors along (Kahan)",
    ),
    "long long": (
        "`{text}` is no type of Metal: its `long` has 64 bits already",
        "write `long` or `int64_t`, and `ulong` or `uint64_t`",
    ),
    "new": (
        "Metal has no `new`, as no thread can allocate memory",
        "use an array of constant size, threadgroup memory, or one more output",
    ),
    "delete": ("Metal has no `delete`, as no thread can allocate memory", "drop it"),
    "exception": (
        "Metal has no exceptions, so no `{text}`",
        "write an error code into an output, or make the case impossible before the launch",
    ),
    "goto": ("Metal has no `goto`", "use loops, `break`, or a helper function that returns"),
    "virtual": (
        "Metal has no virtual functions",
        "choose by a template argument, or by a `switch`",
    ),
    "storage": ("Metal has no `{text}` variables", "drop the word: locals belong to their thread"),
    "dynamic_cast": ("Metal has no `dynamic_cast`", "use `static_cast`"),
    "typeid": ("Metal has no `typeid`", "choose by a template argument, or by overloading"),
    "std": (
        "Metal has no C++ standard library, so no `{text}`",
        "use Metal's own library: `metal::min`, `metal::array`, `metal::numeric_limits`",
    ),
    "include": (
        "Metal has no C++ standard library, so no header `{text}`",
        "drop the line: MLX includes `<metal_stdlib>` before the kernel",
    ),
}
_LAMBDA = (
    "lambda expressions are new in Metal 4: on macOS 14 and 15 the kernel fails to compile",
    "write the code out, or make it a function of the header",
)


@metal_check(CODE)
def foreign_language(code: MetalCode) -> Iterator[MetalReport]:
    """C++ that Metal has not, each kind once for a text."""
    yield from _told(code.text.foreign, None, whole=code.whole)
    if not code.whole:
        yield from _told(code.header.foreign, "header", whole=False)


def _told(found: Sequence[Foreign], text: Text | None, *, whole: bool) -> Iterator[MetalReport]:
    kinds: dict[str, list[Foreign]] = {}
    for part in found:
        kinds.setdefault(part.kind, []).append(part)
    outcome = "it does not compile" if whole else "the kernel fails to compile at its first launch"
    for parts in kinds.values():
        first = parts[0]
        again = f" ({len(parts)} times)" if len(parts) > 1 else ""
        if first.kind == "lambda":
            what, help_text = _LAMBDA
            yield MetalReport(CODE, first.place, what, help_text, text)
            continue
        what, help_text = _SAID[first.kind]
        message = f"{what.format(text=_short(first.text))}{again}, and {outcome}"
        yield MetalReport(CODE, first.place, message, help_text, text)


def _short(text: str) -> str:
    """The name in a text: ``std::vector`` of ``std::vector<float>``."""
    return text.split("<", 1)[0] if text.startswith("std::") else text.removesuffix(";")
