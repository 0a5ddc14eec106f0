"""In which order modules run, so that a cycle of imports gives the same wherever it is entered."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.project.module import Module


def running_order(start: Module) -> list[Module]:
    """A module and those that its top level imports, to be run one after the other.

    What a module imports comes before it. In a cycle none can be first by that rule: there the
    order of paths decides, and not which of them is asked for. (Tarjan's algorithm, without
    recursion; modules whose place has been found before are left out.)
    """
    found: list[Module] = []
    number: dict[Module, int] = {start: 0}
    lowest: dict[Module, int] = {start: 0}
    open_modules = [start]
    pending = [(start, _named_by(start))]
    start.has_place = True
    while pending:
        module, named = pending[-1]
        following = next(named, None)
        if following is not None:
            if not following.has_place:
                following.has_place = True
                number[following] = lowest[following] = len(number)
                open_modules.append(following)
                pending.append((following, _named_by(following)))
            elif following in lowest:
                lowest[module] = min(lowest[module], number[following])
            continue
        pending.pop()
        if pending:
            above = pending[-1][0]
            lowest[above] = min(lowest[above], lowest[module])
        if lowest[module] == number[module]:
            cycle: list[Module] = []
            while module in lowest:
                cycle.append(open_modules.pop())
                del lowest[cycle[-1]]
            found += sorted(cycle, key=lambda one: one.path)
    return found


def _named_by(module: Module) -> Iterator[Module]:
    """The modules of the project that the statements of a module's top level name."""
    root = module.project.boundaries(module.path.parent).imports
    for path in module.project.graph.imports((str(module.path), root)).at_top:
        found = module.import_file(path)
        if found is not None:
            yield found
