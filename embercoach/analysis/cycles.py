"""In which order modules run, so that a cycle of imports gives the same wherever it is entered."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.imports import LIBRARIES
from embercoach.analysis.module import Module, small_statements
from embercoach.analysis.paths import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator


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
    for statement in chain.from_iterable(map(small_statements, module.tree.body)):
        if type(statement) is cst.Import:
            for alias in statement.names:
                name = dotted(alias.name) or ""
                # As the import itself: ``import a.b`` binds ``a``.
                wanted = name if alias.asname is not None else name.partition(".")[0]
                yield from _imported(module, wanted, 0)
        elif type(statement) is cst.ImportFrom:
            level = len(statement.relative)
            source = dotted(statement.module) or "" if statement.module is not None else ""
            for package in _imported(module, source, level):
                yield package
                if package.path.stem != "__init__" or isinstance(statement.names, cst.ImportStar):
                    continue
                for alias in statement.names:
                    name = alias.name.value if isinstance(alias.name, cst.Name) else ""
                    if module.project.holds_module(package.path.parent, name):
                        whole = f"{source}.{name}" if source else name
                        yield from _imported(module, whole, level)


def _imported(module: Module, name: str, level: int) -> Iterator[Module]:
    if level == 0 and (not name or name.partition(".")[0] in LIBRARIES):
        return
    found = module.import_module(name, level)
    if found is not None:
        yield found
