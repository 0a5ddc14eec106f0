"""Places of a kernel that clang compiles and Metal refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.metal.written.body import read_body, read_unit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.written.body import MetalText

_PROBLEMS = {
    "asm": "Metal has no inline assembly",
    "static": "static local variable {!r}: Metal allows only constants",
    "file scope": "program-scope variable {!r} must be in the constant address space",
    "order": "{!r} on an atomic: Metal has only memory_order_relaxed",
}


def header_refusals(header: str) -> Iterator[tuple[int, str]]:
    """The places of a header, in characters, each with the problem."""
    yield from _of_text(read_unit(header))


def body_refusals(body: str, header: str) -> Iterator[tuple[int, str]]:
    """The places of a body, in characters, each with the problem."""
    yield from _of_text(read_body(body, read_unit(header)))


def _of_text(text: MetalText) -> Iterator[tuple[int, str]]:
    for part in text.foreign:
        problem = _PROBLEMS.get(part.kind)
        if problem is not None:
            yield part.place.start, problem.format(part.text)
    for cast in text.bare_casts:
        yield cast.place.start, f"cast to {cast.type}* without an address space"
