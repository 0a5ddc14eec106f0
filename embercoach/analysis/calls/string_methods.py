"""Operations on known strings: methods, ``%``, ``Template``, ``textwrap``."""

from __future__ import annotations

import inspect
from collections.abc import Callable as Fn

from embercoach.analysis.values.facts import Argument
from embercoach.analysis.values.lattice import (
    STR,
    UNKNOWN,
    Dict,
    Number,
    Sequence,
    Str,
    Template,
    Value,
    join_all,
)
from embercoach.analysis.values.strings import (
    MAX_FOLDED,
    MAX_PIECES,
    Literals,
    by_alternative,
    hole,
    text_of,
    unfold,
)
from embercoach.metal import source
from embercoach.metal.source import FoldedText, StandIn, UnfoldableError

Arguments = tuple[Argument, ...]


def method(owner: Str, name: str, arguments: Arguments) -> Value | None:
    """Return the result of a method that makes one string of another, None for other methods."""
    handler = _METHODS.get(name)
    return None if handler is None else _made(owner, arguments, handler)


def _made(
    owner: Value,
    arguments: Arguments,
    handler: Fn[[FoldedText, Arguments, Literals], FoldedText | None],
) -> Value:
    """Apply a handler to each alternative of a string and the arguments."""
    spread = [a for a in arguments if a.star]
    if not all(a.star == "**" and isinstance(a.value, Dict) and is_closed(a.value) for a in spread):
        return STR

    def make(values: tuple[Value, ...]) -> Value:
        text = values[0]
        if not isinstance(text, Str) or text.pieces is None:
            return STR
        literals = Literals()
        given = tuple(a._replace(value=v) for a, v in zip(arguments, values[1:], strict=True))
        try:
            result = handler(text_of(text, literals), given, literals)
        except UnfoldableError:
            return STR
        return STR if result is None else unfold(result, literals)

    return by_alternative((owner, *(a.value for a in arguments)), make)


def is_closed(value: Dict) -> bool:
    """Return whether a dictionary has no other keys, as far as its display says."""
    return bool(value.known) and value.item == join_all(item for _, item in value.known)


def dedent(value: Value) -> Value:
    """``textwrap.dedent``."""
    return _made(value, (), lambda text, arguments, literals: text.dedent())


def cleandoc(value: Value) -> Value:
    """``inspect.cleandoc``."""
    return _made(value, (), _clean)


def _clean(text: FoldedText, arguments: Arguments, literals: Literals) -> FoldedText | None:
    """``inspect.cleandoc``, where it is what stripping and dedenting make of the text."""
    lines = text.text.split("\n", 1)
    if "\t" in text.text:
        return None
    first = text.slice(0, len(lines[0])).lstrip()
    rest = text.slice(len(lines[0]) + 1).dedent() if len(lines) > 1 else FoldedText("")
    feed = text.slice(len(lines[0]), len(lines[0]) + 1)
    made = source.concat((first, feed, rest))
    made = made.slice(len(made.text) - len(made.text.lstrip("\n"))).rstrip("\n")
    return made if made.text == inspect.cleandoc(text.text) else None


def repeated(text: Str, times: Value) -> Value:
    """``text * times``."""
    number = times.const if isinstance(times, Number) else None
    if text.pieces is None or not isinstance(number, int):  # a bool as well
        return STR
    if not 0 <= number * len(text.pieces) <= MAX_PIECES:
        return STR if number > 0 else Str(())
    long = sum(len(piece.text) for piece in text.pieces) * number > MAX_FOLDED
    return STR if long else Str(text.pieces * number)


def concatenate(left: Value, right: Value) -> Value:
    """Return two strings, one after the other, still folded if both are."""
    if not isinstance(left, Str) or not isinstance(right, Str):
        return STR
    if left.either or right.either:
        return by_alternative((left, right), lambda values: _concatenated(*values))
    return _concatenated(left, right)


def _concatenated(left: Value, right: Value) -> Value:
    assert isinstance(left, Str)
    assert isinstance(right, Str)
    if left.pieces is None or right.pieces is None:
        return STR
    if len(left.pieces) + len(right.pieces) > MAX_PIECES:
        return STR
    return Str(left.pieces + right.pieces)


def percent(text: Value, value: Value) -> Value:
    """``text % value``."""
    return by_alternative((text, value), lambda values: _percent(*values))


def _percent(text: Value, value: Value) -> Value:
    if not isinstance(text, Str) or text.pieces is None:
        return STR
    literals = Literals()
    folded = text_of(text, literals)
    if literals_have_holes(literals):
        return STR
    given: list[source.Value] | dict[str, source.Value]
    if isinstance(value, Sequence):
        if value.kind != "tuple" or value.items is None:
            return STR
        given = [_value_of(item, literals) for item in value.items]
    elif isinstance(value, Dict):
        if not is_closed(value):
            return STR
        given = {key: _value_of(item, literals) for key, item in value.known}
    elif isinstance(value, (Str, Number)):
        given = [_value_of(value, literals)]
    else:
        return STR
    try:
        return unfold(source.percent(folded, given), literals)
    except UnfoldableError:
        return STR


def literals_have_holes(literals: Literals) -> bool:
    """Return whether a part of a text is unknown."""
    return any(isinstance(literal, str) for literal in literals)


def template(arguments: Arguments) -> Value:
    """``string.Template(text)``."""
    text = arguments[0].value if len(arguments) == 1 else UNKNOWN
    return Template(text) if isinstance(text, Str) and not arguments[0].star else UNKNOWN


def template_member(owner: Template, name: str, arguments: Arguments) -> Value:
    """``template.substitute(...)`` and ``safe_substitute``."""
    if name not in ("substitute", "safe_substitute"):
        return UNKNOWN
    safe = name == "safe_substitute"

    def handler(text: FoldedText, given: Arguments, literals: Literals) -> FoldedText | None:
        if literals_have_holes(literals):
            return None
        values: dict[str, source.Value] = {}
        # Keywords go before what a dictionary says.
        for argument in sorted(given, key=lambda a: a.keyword is not None):
            if argument.keyword is not None:
                values[argument.keyword] = _value_of(argument.value, literals)
            elif isinstance(argument.value, Dict) and is_closed(argument.value):
                values |= {k: _value_of(v, literals) for k, v in argument.value.known}
            else:
                return None
        return source.substitute(text, values, safe=safe)

    return _made(owner.text, arguments, handler)


def _stripped(
    strip: Fn[[FoldedText, str | None], FoldedText],
) -> Fn[[FoldedText, Arguments, Literals], FoldedText | None]:
    def apply(text: FoldedText, arguments: Arguments, literals: Literals) -> FoldedText | None:
        if not arguments:
            return strip(text, None)
        characters = arguments[0].value
        if not isinstance(characters, Str) or characters.text is None:
            return None
        return strip(text, characters.text)

    return apply


def _without_prefix(text: FoldedText, prefix: str | None) -> FoldedText:
    return text.slice(len(text.text) - len(text.text.removeprefix(prefix or "")))


def _without_suffix(text: FoldedText, suffix: str | None) -> FoldedText:
    return text.slice(0, len(text.text.removesuffix(suffix or "")))


def _replace(text: FoldedText, arguments: Arguments, literals: Literals) -> FoldedText | None:
    values = [a.value for a in arguments]
    if len(values) not in (2, 3) or any(a.keyword for a in arguments):
        return None
    old, new = values[:2]
    times = values[2].const if len(values) == 3 and isinstance(values[2], Number) else -1
    if not isinstance(old, Str) or type(times) is not int:
        return None
    if len(values) == 3 and not isinstance(values[2], Number):
        return None
    if old.text is None or not _is_whole(old.text, literals):
        return None
    known = isinstance(new, Str) and new.pieces is not None
    replacement = text_of(new if isinstance(new, Str) and known else Str(hole(new)), literals)
    if text.text.count(old.text) * len(replacement.text) > MAX_FOLDED:
        return None
    return text.replace(old.text, replacement, times)


def _is_whole(old: str, literals: Literals) -> bool:
    """Return whether no occurrence in a text can overlap with an unknown part.

    Unknown numbers are judged by the characters that numbers have.
    """
    holes = {literal for literal in literals if isinstance(literal, str)}
    return not holes or (holes == {"number"} and not any(c in "0123456789.e+-infa" for c in old))


def _format(text: FoldedText, arguments: Arguments, literals: Literals) -> FoldedText | None:
    if literals_have_holes(literals):
        return None
    places: list[source.Value] = []
    names: dict[str, source.Value] = {}
    for argument in arguments:
        if argument.star:
            assert isinstance(argument.value, Dict)
            names |= {key: _value_of(item, literals) for key, item in argument.value.known}
        elif argument.keyword is None:
            places.append(_value_of(argument.value, literals))
        else:
            names[argument.keyword] = _value_of(argument.value, literals)
    return source.format_text(text, places, names)


def _value_of(value: Value, literals: Literals) -> source.Value:
    if isinstance(value, Number) and isinstance(value.const, (bool, int, float)):
        return value.const
    if isinstance(value, Str) and value.pieces is not None:
        text = text_of(value, literals)
        return text if value.text is not None else StandIn(text)
    return StandIn(text_of(Str(hole(value)), literals))


def _join(text: FoldedText, arguments: Arguments, literals: Literals) -> FoldedText | None:
    parts = arguments[0].value if len(arguments) == 1 else None
    if not isinstance(parts, Sequence) or parts.items is None or parts.kind == "set":
        return None
    known = [i for i in parts.items if isinstance(i, Str) and i.pieces is not None]
    if len(known) < len(parts.items):
        return None
    return source.join(text, [text_of(item, literals) for item in known])


_METHODS: dict[str, Fn[[FoldedText, Arguments, Literals], FoldedText | None]] = {
    "strip": _stripped(FoldedText.strip),
    "lstrip": _stripped(FoldedText.lstrip),
    "rstrip": _stripped(FoldedText.rstrip),
    "removeprefix": _stripped(_without_prefix),
    "removesuffix": _stripped(_without_suffix),
    "replace": _replace,
    "format": _format,
    "join": _join,
}
