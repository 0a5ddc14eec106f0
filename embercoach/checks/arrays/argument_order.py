"""CALL-002: arguments and results whose names are those of others, in another order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.calls.definitions import FunctionInfo
from embercoach.analysis.calls.signatures import generated_signature, signature_of
from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.dataflow.scopes import display
from embercoach.analysis.dataflow.value_sources import returned_by
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import evaluated
from embercoach.analysis.values.facts import CallFact, ClassCall, Fact, LocalCall, ProjectCall
from embercoach.analysis.values.lattice import Symbol
from embercoach.analysis.values.memo import kept_for_file
from embercoach.checks.registry import ProposedFix, Report, check

if TYPE_CHECKING:
    Call = LocalCall | ProjectCall | ClassCall
    #: A parameter and its argument.
    Passed = tuple[str, cst.BaseExpression]
    Given = list[Passed]

#: One name for what is written in several ways.
_SAME = {
    **dict.fromkeys(("h", "rows"), "height"),
    **dict.fromkeys(("w", "cols"), "width"),
    **dict.fromkeys(("q", "queries"), "query"),
    **dict.fromkeys(("k", "keys"), "key"),
    **dict.fromkeys(("v", "values"), "value"),
    **dict.fromkeys(("src",), "source"),
    **dict.fromkeys(("dst",), "destination"),
    **dict.fromkeys(("tgt",), "target"),
    **dict.fromkeys(("in", "inputs"), "input"),
    **dict.fromkeys(("out", "outputs"), "output"),
    **dict.fromkeys(("dims", "channels"), "dim"),
}
#: Functions that are given what they exchange, and tests that decide of it.
_EXCHANGES = ("swap", "transpos", "revers", "flip", "rotat", "mirror", "invers", "portrait")
#: Calls that keep what a name means.
_KEEPING = frozenset(("int", "float", "abs", "round", "array", "asarray"))
#: Arguments that are compared, and characters of a name that a message quotes.
_MOST, _LONGEST = 16, 20


@check("CALL-002")
def exchanged_arguments(
    fact: LocalCall | ProjectCall | ClassCall, module: Module
) -> Iterator[Report]:
    """``pack(latents, width, height)`` of ``def pack(latents, height, width)``."""
    found = _found(_given(fact))
    if found is not None and not _is_meant(fact, module):
        yield _reported(fact, *found)


@check("CALL-002", of=("mlx.",))
def exchanged_in_mlx(fact: CallFact, module: Module) -> Iterator[Report]:
    """``nn.Linear(output_dims, input_dims)``."""
    if isinstance(fact.callee, Symbol) and len(fact.matched) > 1:
        found = _found([(param.name, argument.node) for param, argument in fact.matched])
        if found is not None:
            yield _reported(fact, *found)


def _found(given: Given) -> tuple[Passed, Passed] | None:
    """Return two parameters that get each other's arguments, or that of a third one."""
    if len(given) < 2 or len(given) > _MOST:
        return None
    words = [_words(node) for _, node in given]
    if sum(map(bool, words)) < 2:
        return None
    found = exchanged([name for name, _ in given], words)
    return None if found is None else (given[found[0]], given[found[1]])


def _reported(fact: Call | CallFact, first: Passed, second: Passed) -> Report:
    (parameter, node), (other, _) = first, second
    name = last_name(fact.node)[:_LONGEST]
    return Report.at(
        fact,
        node=node,
        message=f"`{name}()` gets `{_text(node)}` for its parameter `{parameter[:_LONGEST]}`",
        help=f"Exchange the arguments for `{parameter[:_LONGEST]}` and `{other[:_LONGEST]}`",
    )


@check("CALL-002")
def exchanged_results(fact: LocalCall | ProjectCall, module: Module) -> Iterator[Report]:
    """``width, height = size(x)`` of a function that returns ``height, width``."""
    statement = fact.place.statement
    if not isinstance(statement, cst.Assign) or statement.value is not fact.node:
        return
    targets = display(statement.targets[0].target)
    names = None if targets is None else _returned_names(fact.function)
    if targets is None or names is None or len(names) != len(targets):
        return
    found = exchanged(names, [_words(target) for target in targets])
    if found is not None:
        first = targets[found[0]]
        yield Report.at(
            fact,
            node=first,
            message=f"`{_text(first)}` is bound to the result `{names[found[0]][:_LONGEST]}`",
            help="Unpack the results in the order of the function's `return`",
        )


#: Words of two things that a class has side by side.
_PAIRS = frozenset(
    frozenset(pair.split())
    for pair in (
        *("height width", "min max", "start end", "first last", "query key", "key value"),
        *("query value", "input output", "encoder decoder", "mean std", "source target"),
        *("train validation", "rows columns", "real imag", "weight bias", "x y", "y z", "x z"),
    )
)


@check("CALL-002")
def same_property(module: Module, _: list[Fact]) -> Iterator[Report]:
    """``def width(self): return self.config.height``, of a property that ``height`` has."""
    if "@property" not in module.source:
        return
    for cls in module.classes:
        read: dict[str, tuple[FunctionInfo, cst.Attribute]] = {}
        for name, method in cls.methods.items():
            found = _attribute_returned(method)
            if found is not None:
                read[name] = method, found
        for name, (method, found) in read.items():
            other = found.attr.value
            words = frozenset((name, other)), frozenset((_SAME.get(name, name), other))
            is_pair = not _PAIRS.isdisjoint(words)
            if is_pair and other in read and read[other][1].deep_equals(found):
                assert isinstance(method.node, cst.FunctionDef)
                yield Report.in_file(
                    module,
                    found,
                    function=method,
                    message=f"property `{name}` returns `{other}`, as the property `{other}` does",
                    help=f"Return `.{name}`",
                    change=ProposedFix(f"Return `.{name}`", False, ((found.attr, name),)),
                )


def _attribute_returned(method: FunctionInfo) -> cst.Attribute | None:
    """Return the attribute that is all that a property returns."""
    if not method.is_property:
        return None
    statements = contents_of(method.node.body).statements
    value = statements[-1].value if statements and isinstance(statements[-1], cst.Return) else None
    return value if len(statements) == 1 and isinstance(value, cst.Attribute) else None


def exchanged(names: Sequence[str], given: Sequence[tuple[str, ...]]) -> tuple[int, int] | None:
    """Return two places of which each is given what the name of the other, or of a third, says.

    Args:
        names: of the parameters.
        given: the words of the argument's name for each of them; none for other expressions.
    """
    parameters = [_split(name) for name in names]
    last = {words[-1] for words in parameters if words}
    if sum(bool(one) and one[-1] in last for one in given) < 2:
        return None
    fits = [
        [index for index, words in enumerate(parameters) if _is_of(argument, words)]
        for argument in given
    ]
    for start, places in enumerate(fits):
        if len(places) != 1 or places[0] == start:
            continue
        seen = [start]
        at = places[0]
        while at not in seen and len(fits[at]) == 1:
            seen.append(at)
            at = fits[at][0]
        if at == start and len(seen) > 1:
            return start, seen[1]
    return None


def _is_of(argument: tuple[str, ...], parameter: tuple[str, ...]) -> bool:
    """Return whether the last words of an argument's name are those of a parameter."""
    is_short = len(parameter) == 1 and len(parameter[0]) == 1
    return not is_short and bool(parameter) and argument[-len(parameter) :] == parameter


@lru_cache(maxsize=4096)
def _split(name: str) -> tuple[str, ...]:
    return tuple(_SAME.get(word, word) for word in name.lower().split("_") if word)


def _words(node: cst.BaseExpression) -> tuple[str, ...]:
    """Return the words of the name that an expression is about, none for others."""
    name = _about(node)
    return () if name is None else _split(name)


def _about(node: cst.BaseExpression) -> str | None:
    for _ in range(4):
        if isinstance(node, cst.Name):
            return node.value
        if isinstance(node, cst.Attribute):
            return node.attr.value
        if isinstance(node, cst.BinaryOperation):
            sides = [s for s in (node.left, node.right) if not isinstance(s, cst.BaseNumber)]
            if len(sides) != 1:
                return None
            node = sides[0]
        elif isinstance(node, cst.Call) and len(node.args) == 1 and last_name(node) in _KEEPING:
            node = node.args[0].value
        else:
            return _key(node)
    return None


def _key(node: cst.BaseExpression) -> str | None:
    """Return the name of ``config["width"]``."""
    part = node.slice[0].slice if isinstance(node, cst.Subscript) else None
    key = part.value if isinstance(part, cst.Index) else None
    text = evaluated(key) if isinstance(key, cst.SimpleString) else None
    return text if isinstance(text, str) else None


def _text(node: cst.BaseExpression) -> str:
    return (_about(node) or "")[:_LONGEST]


def _given(fact: Call) -> list[tuple[str, cst.BaseExpression]]:
    """Return the arguments of a call by parameter, none of a call with a star."""
    call = fact.node
    if not 2 <= len(call.args) <= _MOST or any(argument.star for argument in call.args):
        return []
    if isinstance(fact, ClassCall):
        signature = generated_signature(fact.cls)
        places: tuple[str, ...] = () if signature is None else signature.places
    else:
        known = signature_of(fact.function, is_bound=fact.is_bound)
        places = () if known is None else known.places
    free = iter(places)
    pairs = ((a.keyword.value if a.keyword else next(free, None), a.value) for a in call.args)
    return [(name, node) for name, node in pairs if name is not None]


def _is_meant(fact: Call, module: Module) -> bool:
    """Return whether a function is symmetric, exchanges what it is given, or calls itself."""
    if isinstance(fact, ClassCall):
        return False
    function = fact.function
    if fact.place.function is function or any(e in function.name.lower() for e in _EXCHANGES):
        return True
    inside = fact.place.function
    if inside is not None and any(e in inside.name.lower() for e in _EXCHANGES):
        return True
    return any(map(_is_straight, _calls_by_place(module).get((function, inside), ())))


def _is_straight(call: Call) -> bool:
    """Return whether a call passes a name for the parameter of that name, of two."""
    given = _given(call)
    return sum(_is_of(_words(node), _split(name)) for name, node in given) > 1


@kept_for_file
def _calls_by_place(module: Module) -> dict[tuple[FunctionInfo, FunctionInfo | None], list[Call]]:
    """Return the calls of the project's functions, by what is called and where."""
    found: dict[tuple[FunctionInfo, FunctionInfo | None], list[Call]] = {}
    for fact in module.facts():
        if isinstance(fact, (LocalCall, ProjectCall)):
            found.setdefault((fact.function, fact.place.function), []).append(fact)
    return found


@kept_for_file
def _returned_names(function: FunctionInfo) -> list[str] | None:
    """Return the names that all results of a function have in common, None if they have none."""
    found: list[str] | None = None
    for value, _ in returned_by(function):
        items = display(value)
        names = None if items is None else [_about(item) or "" for item in items]
        if names is None or (found is not None and names != found):
            return None
        found = names
    return found
