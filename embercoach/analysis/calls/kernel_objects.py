"""Kernels as values: what ``mx.fast.metal_kernel`` builds, and which values hold one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from embercoach.analysis.values.facts import Argument, CallFact, Fact
from embercoach.analysis.values.lattice import (
    UNKNOWN,
    Function,
    Kernel,
    Str,
    Symbol,
    Union,
    Value,
    Wrapped,
    join_all,
    options,
    parts_of,
)

if TYPE_CHECKING:
    import libcst as cst

    from embercoach.analysis.evaluate.frame import Frame

METAL_KERNEL = "mlx.core.fast.metal_kernel"


def define(frame: Frame, node: cst.Call, arguments: tuple[Argument, ...]) -> Value:
    """Get the kernel of a ``metal_kernel(...)``, the same value each time that it is built alike.

    It is one of several where its body or its header is.
    """
    texts = [i for i, a in enumerate(arguments) if type(a.value) is Str and a.value.either]
    if texts and not any(a.star for a in arguments):
        chosen = [arguments[i].value for i in texts]
        first = chosen[0]
        assert isinstance(first, Str)
        if all(_is_decided_with(text, first) for text in chosen):
            return join_all(
                _defined(frame, node, _of_option(arguments, option))
                for option in range(len(first.either))
            )
    return _defined(frame, node, arguments)


def _is_decided_with(text: Value, other: Str) -> bool:
    """Return whether two strings with several alternatives depend on the same choice."""
    assert isinstance(text, Str)
    return text.choice is other.choice and len(text.either) == len(other.either)


def _of_option(arguments: tuple[Argument, ...], option: int) -> tuple[Argument, ...]:
    return tuple(
        a._replace(value=a.value.either[option]) if type(a.value) is Str and a.value.either else a
        for a in arguments
    )


def _defined(frame: Frame, node: cst.Call, arguments: tuple[Argument, ...]) -> Value:
    known = frame.module.kernels.setdefault(node, [])
    for order, definition in enumerate(known):
        if definition.arguments == arguments:
            return Kernel(definition, order)
    definition = CallFact(node, frame.place(), Symbol(METAL_KERNEL), arguments, UNKNOWN)
    known.append(definition)
    return Kernel(definition, len(known) - 1)


def kernels_in(value: Value) -> Iterator[Kernel]:
    """Yield the kernels that a value may be."""
    # Asked of every call: most values are none, and no union either.
    if type(value) is Kernel:
        yield value
    if type(value) is not Union:
        return
    found = [option for option in options(value) if isinstance(option, Kernel)]
    yield from found if len(found) < 2 else sorted(found, key=_order)


def _order(kernel: Kernel) -> tuple[str, int]:
    """Return where a kernel stands among others: the alternatives of a value have no order."""
    place = kernel.definition.place
    return ("" if place.function is None else place.function.qualified_name, kernel.order)


def kernels_held(value: Value, depth: int = 2) -> Iterator[Kernel]:
    """Yield the kernels that a value may be, or wraps, or holds in lists and dictionaries."""
    kind = type(value)
    if kind is Kernel:
        yield value  # type: ignore[misc]
    elif kind is Wrapped:
        yield value.kernel  # type: ignore[attr-defined]
    elif kind is Union:
        held = [kernel for o in options(value) for kernel in kernels_held(o, depth)]
        yield from held if len(held) < 2 else sorted(held, key=_order)
    elif depth:
        for part in parts_of(value):
            yield from kernels_held(part, depth - 1)


def holds_kernel(value: Value) -> bool:
    """Return whether a value may be a kernel, or holds some."""
    return any(True for _ in kernels_held(value))


def has_kernels(facts: Iterable[Fact]) -> bool:
    """Return whether a call defines, launches or returns a kernel."""
    return any(
        holds_kernel(fact.result)
        if type(fact.callee) is Function
        else fact.symbol == METAL_KERNEL or any(True for _ in kernels_in(fact.callee))
        for fact in facts
        if type(fact) is CallFact
    )
