"""Arguments of calls by the parameters that take them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.analysis.calls import star_kwargs
from embercoach.analysis.values.joins import items_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import Argument
    from embercoach.analysis.values.lattice import Value


def bind(
    info: FunctionInfo, bound: Value | None, arguments: tuple[Argument, ...]
) -> dict[str, Value]:
    """Return the value of each parameter, as far as the call shows it."""
    positional = [p.name for p in info.parameters if not p.star and not p.keyword_only]
    given = list(_positional(arguments))
    if bound is not None and positional:
        given.insert(0, bound)
    values = dict(zip(positional, given, strict=False))
    named = [a for a in arguments if a.keyword is not None]
    if named:
        names = {p.name for p in info.parameters if not p.star}
        values.update((a.keyword, a.value) for a in named if a.keyword in names)
    exact = info.module.mentions_kernels and not any(a.star for a in arguments)
    values.update(star_kwargs.gathered(info, arguments, given[len(positional) :], exact=exact))
    return values


def _positional(arguments: tuple[Argument, ...]) -> Iterator[Value]:
    """The values passed by place, as far as their places are known."""
    for argument in arguments:
        items = items_of(argument.value) if argument.star == "*" else None
        if items is not None:
            yield from items
        elif argument.star:
            return
        elif argument.keyword is None:
            yield argument.value
