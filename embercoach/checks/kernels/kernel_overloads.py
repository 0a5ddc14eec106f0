"""KERNEL-MSL-002 and KERNEL-SIG-005: calls that no function of Metal fits best, or fits at all."""

from __future__ import annotations

from collections.abc import Iterator

from embercoach.checks.programs.metal_checks import MetalCode, MetalReport, once_at_each_start
from embercoach.checks.registry import check
from embercoach.metal.library import is_known
from embercoach.metal.program.nodes import Call, Program
from embercoach.metal.program.types import FLOATS, SIZES, Type
from embercoach.metal.program.walk import below, bodies

CODE = "KERNEL-MSL-002"
#: With an overload for each type of number but bool, which becomes an int.
_OF_NUMBERS = frozenset(("min", "max", "clamp"))
#: With an overload for each floating type: an integer becomes what the other arguments are.
_OF_FLOATS = frozenset(("pow", "fmin", "fmax", "fmod", "atan2", "copysign", "fdim", "fma", "mix"))
_NAMESPACES = frozenset(("", "metal", "fast", "metal::fast", "precise", "metal::precise"))


@check(CODE, "KERNEL-SIG-005")
def refused_calls(code: MetalCode) -> Iterator[MetalReport]:
    """``min(x_shape[0], i)``, of an int and a uint, and ``metal::erf(x)``, which Metal lacks."""
    found = (report for kernel in code.kernels for report in _refused(kernel.own))
    yield from once_at_each_start(list(found))


def _refused(program: Program) -> Iterator[MetalReport]:
    for body in bodies(program):
        for node in below(body):
            if not isinstance(node, Call) or node.functions or node.template or node.method:
                continue
            if node.namespaces not in _NAMESPACES:
                continue
            if node.namespaces == "metal" and not is_known(node.name, "call"):
                yield MetalReport(
                    "KERNEL-SIG-005",
                    node.spot,
                    f"undeclared identifier `metal::{node.name}`",
                    f"Define `{node.name}` in `header`, or use a function of Metal's library",
                )
            names = _types(node)
            if len(names) > 1:
                listed = " and ".join(f"`{name}`" for name in names)
                yield MetalReport(
                    CODE,
                    node.spot,
                    f"call to `{node.name}` of {listed} is ambiguous",
                    f"Cast one of them, as in `{names[0]}(v)`",
                )


def _types(call: Call) -> list[str]:
    """Return the types of the arguments that an overload has; none if one of them is not known."""
    names = [_scalar(argument.type) for argument in call.arguments]
    if call.name in _OF_NUMBERS:
        overloads = frozenset(SIZES) - {"bool"}
    elif call.name in _OF_FLOATS:
        overloads = FLOATS - {"double"}
    else:
        return []
    if None in names:
        return []
    return list(dict.fromkeys(name for name in names if name in overloads))


def _scalar(kind: Type) -> str | None:
    is_number = kind.scalar in SIZES and kind.width == 1
    return kind.scalar if is_number and not kind.pointer and not kind.dimensions else None
