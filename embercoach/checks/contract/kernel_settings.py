"""KERNEL-MATH-001: a math mode that a kernel's own numbers contradict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.analysis.values.lattice import Dict, Str
from embercoach.checks.programs.contracted import contracted
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import Fact
    from embercoach.analysis.project.module import Module
    from embercoach.checks.programs.contracted import Contracted
    from embercoach.metal.text_facts import TextSpan
    from embercoach.metal.written.body import MetalText

#: The specification's words, section 1.6.3: no NaNs, no INFs.
FAST = "fast"
CONSTANTS = frozenset({"INFINITY", "NAN", "HUGE_VALF", "HUGE_VALH", "HUGE_VAL"})
TESTS = frozenset({"isnan", "isinf", "isfinite", "isnormal", "isordered", "isunordered"})


@check("KERNEL-MATH-001")
def math_modes(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``compile_options={"math_mode": "fast"}`` with infinities in the kernel."""
    for kernel in contracted(module, facts):
        if _math_mode(kernel) != FAST:
            continue
        for text, header in ((kernel.body, False), (kernel.above, True)):
            found = next(_uses(text), None)
            if found is None:
                continue
            what, place = found
            yield from kernel.at(
                "KERNEL-MATH-001",
                place,
                f"`{what}` with math mode `fast`, which assumes no infinities or NaNs",
                "Drop `math_mode` (default: `safe`), or use `relaxed`, which honors infinities",
                header=header,
            )
            break


def _math_mode(kernel: Contracted) -> str | None:
    argument = kernel.definition.fact.keyword("compile_options")
    if argument is None or not isinstance(argument.value, Dict):
        return None
    mode = argument.value.get("math_mode")
    return mode.text if isinstance(mode, Str) else None


def _uses(text: MetalText) -> Iterator[tuple[str, TextSpan]]:
    """Infinities and NaNs, and tests for them, in the order of the text."""
    found = [(u.name, u.place) for u in text.free if u.name in CONSTANTS]
    for call in text.calls:
        name = call.name.rpartition("::")[2]
        if name in TESTS or name in ("infinity", "quiet_NaN"):
            found.append((name, call.place))
    yield from sorted(found, key=lambda pair: pair[1].start)
