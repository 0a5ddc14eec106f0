"""Names and paths of arrays as a function knows them, and as its caller does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.analysis.facts.scopes import passed_with_owner
from embercoach.analysis.syntax.trees import dotted, names_below

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import LocalCall


def _passed_paths(call: LocalCall) -> Iterator[tuple[str, str]]:
    """Yield the parameters of a call, and the paths that are passed for them."""
    for parameter, node in passed_with_owner(call).items():
        path = dotted(node)
        if path is not None:
            yield parameter, path


def derived_attributes(call: LocalCall, inner: set[str]) -> set[str]:
    """The attributes that a function has set to something derived, as its caller knows them."""
    return {
        f"{path}{name[len(parameter) :]}"
        for parameter, path in _passed_paths(call)
        for name in inner
        if name.startswith(f"{parameter}.")
    }


def names_inside(call: LocalCall, names: set[str]) -> set[str]:
    """The names as the function of the file that is called knows them."""
    function = call.function
    found: set[str] = set()
    for parameter, path in _passed_paths(call):
        found |= {f"{parameter}{n[len(path) :]}" for n in names if n.startswith(f"{path}.")}
    if function.nonlocal_names or function.global_names or function.outer is not None:
        own = {parameter.name for parameter in function.parameters}
        free = names - own
        found |= free & set(names_below(function.node.body)) if free else set()
    return found
