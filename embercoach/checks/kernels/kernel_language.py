"""KERNEL-MSL: what the language of kernels lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.checks.programs.metal_checks import MetalCode, MetalReport
from embercoach.checks.registry import check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.text_facts import Foreign, ForeignKind

CODE = "KERNEL-MSL-001"
#: Message and help by kind.
_SAID: dict[ForeignKind, tuple[str, str]] = {
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
        "Metal has no C++ standard header `{text}`",
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
                kinds.setdefault(part.kind, []).append(part)
        for first, *others in kinds.values():
            again = f" ({len(others) + 1} times)" if others and first.kind != "lambda" else ""
            what, help_text = _SAID[first.kind]
            message = f"{what.format(text=_short(first.text))}{again}"
            yield MetalReport(CODE, text.at(first.place), message, help_text)


def _short(text: str) -> str:
    """The name in a text: ``std::vector`` of ``std::vector<float>``."""
    return text.split("<", 1)[0] if text.startswith("std::") else text.removesuffix(";")
