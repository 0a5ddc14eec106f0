"""API-003: keyword arguments that a dictionary holds, ``**config``, and that MLX refuses."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis import mlx_api
from embercoach.analysis.facts.facts import calls_by_function
from embercoach.analysis.facts.scopes import (
    Expression,
    fixed_attribute,
    is_rebound,
    resolve_name,
    scope_of,
)
from embercoach.analysis.held_sources import changed_keys
from embercoach.analysis.syntax.trees import dotted, evaluated, walk
from embercoach.analysis.value_sources import sources_of
from embercoach.analysis.values.joins import options
from embercoach.analysis.values.lattice import Symbol
from embercoach.checks.fallbacks import REFUSED, is_expected
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import Argument, CallFact, Fact
    from embercoach.analysis.mlx_api import ApiEntry
    from embercoach.analysis.project.module import Module

#: Dictionaries and calls that are followed one after the other.
_DEEPEST = 4
#: Characters of a called expression that a message quotes.
_LONGEST_NAME = 32
#: What takes entries out of a dictionary.
_REMOVES = ("pop", "popitem", "clear", "__delitem__")


@check("API-003")
def refused_entry(fact: CallFact, module: Module) -> Iterator[Report]:
    """``optim.Adam(**config)`` of a dictionary with ``"lr"``."""
    starred = [argument for argument in fact.arguments if argument.star == "**"]
    if not starred:
        return
    entries = [_class_or_function(callee) for callee in options(fact.callee)]
    known = sorted((e for e in entries if e is not None), key=lambda entry: entry.name)
    if not known or len(known) < len(entries):
        return
    accepted = {param.name for entry in known for param in entry.params}
    given = {a.keyword for a in fact.arguments}
    keywords = Keywords(module)
    for argument in starred:
        scope = scope_of(module, fact.place.function)
        found = list(keywords.of(Expression(argument.node, scope), fact))
        for name, where, node in found or _held(argument, fact, module):
            if name not in accepted and name not in given:
                shown = module.parsed.code(fact.node.func)
                yield from _refused(where, node, name, known[0], module, shown)


@check("API-003", of=("functools.partial",))
def refused_in_partial(fact: CallFact, module: Module) -> Iterator[Report]:
    """``partial(nn.LayerNorm, elementwise_affine=False)``."""
    first = fact.positional(0)
    entry = None if first is None else _class_or_function(first.value)
    if first is None or entry is None or any(a.star for a in fact.arguments):
        return
    accepted = {param.name for param in entry.params}
    for argument in fact.arguments:
        if argument.keyword is not None and argument.keyword not in accepted:
            yield from _refused(fact, argument.node, argument.keyword, entry, module)


def _refused(
    where: Fact, node: cst.CSTNode, name: str, entry: ApiEntry, module: Module, shown: str = ""
) -> Iterator[Report]:
    if is_expected(module, where.place.statement, REFUSED, broadly=True):
        return
    if not shown or len(shown) > _LONGEST_NAME:
        shown = entry.name.rpartition(".")[2]
    yield Report.at(
        where,
        "API-003",
        node=node,
        message=f"`{shown}()` has no parameter `{name[:24]}`",
        help=f"Use one of: {_listed(entry)}",
    )


def _held(
    argument: Argument, fact: CallFact, module: Module
) -> Iterator[tuple[str, Fact, cst.CSTNode]]:
    """The keys of dictionaries that a file, an object or another dictionary holds."""
    sources = sources_of(module)
    owner = (dotted(argument.node) or "").rpartition(".")[2]
    if owner in {path.rpartition(".")[2] for path in _reduced(module.tree)}:
        return
    ends = sources.ends(sources.of(fact, argument.node), through_callers=True)
    found: dict[str, None] = {}
    for end in ends:
        elements = end.node.elements if isinstance(end.node, cst.Dict) else ()
        for element in elements:
            literal = element.key if isinstance(element, cst.DictElement) else None
            key = evaluated(literal) if isinstance(literal, cst.SimpleString) else None
            if isinstance(key, str):
                found[key] = None
        if isinstance(end.node, cst.Call) and dotted(end.node.func) == "dict":
            found.update((a.keyword.value, None) for a in end.node.args if a.keyword is not None)
    yield from ((key, fact, fact.node) for key in found if key not in changed_keys(module))


def _class_or_function(callee: object) -> ApiEntry | None:
    """The entry of a function or class of MLX whose parameters are all known."""
    if not isinstance(callee, Symbol) or not callee.name.startswith("mlx."):
        return None
    entry = mlx_api.lookup(callee.name)
    if entry is None or entry.kind not in ("class", "function"):
        return None
    if entry.kind == "class" and callee.name.startswith("mlx.core."):
        return None
    return None if any(param.kind == "keywords" for param in entry.params) else entry


def _listed(entry: ApiEntry) -> str:
    names = [f"`{param.name}`" for param in entry.params][:4]
    return ", ".join(names) if names else "no keyword arguments"


class Keywords:
    """The keys of the dictionaries that a file passes by ``**``."""

    def __init__(self, module: Module) -> None:
        """Prepare for one call."""
        self._module = module

    def of(
        self, passed: Expression, where: Fact, depth: int = _DEEPEST
    ) -> Iterator[tuple[str, Fact, cst.CSTNode]]:
        """Yield the keys, and the call and the expression that each is reported at."""
        if depth == 0:
            return
        node = passed.node
        if isinstance(node, cst.Dict):
            yield from self._written(passed, node, where, depth)
        elif isinstance(node, cst.Call) and dotted(node.func) == "dict":
            for argument in node.args:
                if argument.keyword is not None:
                    yield argument.keyword.value, where, where.node
                elif argument.star == "**":
                    yield from self.of(passed.at(argument.value), where, depth - 1)
        elif isinstance(node, cst.Attribute):
            made = fixed_attribute(node, where.place.function, self._module)
            if made is not None and dotted(node) not in _reduced(self._module.tree):
                yield from self.of(passed.at(made), where, depth - 1)
        elif isinstance(node, cst.Name) and not self._is_reduced(passed, node.value):
            yield from self._of_name(passed, node, where, depth)

    def _written(
        self, passed: Expression, node: cst.Dict, where: Fact, depth: int
    ) -> Iterator[tuple[str, Fact, cst.CSTNode]]:
        for element in node.elements:
            if isinstance(element, cst.StarredDictElement):
                yield from self.of(passed.at(element.value), where, depth - 1)
            elif isinstance(element, cst.DictElement):
                literal = element.key if isinstance(element.key, cst.SimpleString) else None
                key = None if literal is None else evaluated(literal)
                if isinstance(key, str):
                    yield key, where, where.node

    def _is_reduced(self, passed: Expression, name: str) -> bool:
        """Return whether entries may be taken out of a dictionary, where its name is bound."""
        found = passed.scope.find(name)
        owner = None if found is None else found[0].owner
        function = next((f for f in self._module.functions if f is owner), None)
        tree = self._module.tree if function is None else function.node
        return name in _reduced(tree)

    def _of_name(
        self, passed: Expression, node: cst.Name, where: Fact, depth: int
    ) -> Iterator[tuple[str, Fact, cst.CSTNode]]:
        made = resolve_name(passed)
        if made.node is not node:
            yield from self.of(made, where, depth - 1)
            return
        function = where.place.function
        if function is None or passed.scope.owner is not function:
            return
        if is_rebound(self._module, function, node.value):
            return
        if all(p.star != "**" or p.name != node.value for p in function.parameters):
            return
        named = {p.name for p in function.parameters if not p.star}
        for call in calls_by_function(self._module).get(function, ()):
            for argument in call.node.args:
                if argument.keyword is not None and argument.keyword.value not in named:
                    yield argument.keyword.value, call, argument.value
                elif argument.star == "**":
                    scope = scope_of(self._module, call.place.function)
                    given = Expression(argument.value, scope)
                    found = self.of(given, call, depth - 1)
                    yield from (entry for entry in found if entry[0] not in named)


@lru_cache(maxsize=8)
def _reduced(tree: cst.CSTNode) -> frozenset[str]:
    """The paths of what a tree takes entries out of, or deletes."""
    found: set[str] = set()
    for node in walk(tree):
        target: cst.CSTNode | None = None
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            target = node.func.value if node.func.attr.value in _REMOVES else None
        elif isinstance(node, cst.Del):
            parts = node.target
            target = parts.value if isinstance(parts, cst.Subscript) else parts
        path = None if target is None else dotted(target)
        if path is not None:
            found.add(path)
    return frozenset(found)
