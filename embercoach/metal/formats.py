"""Format strings filled in: ``str.format``, ``%`` and ``string.Template``, with the map kept."""

from __future__ import annotations

from collections.abc import Mapping
from string import Template
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from embercoach.metal.source import FoldedText, UnfoldableError, concat
from embercoach.metal.tokens import whole_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


class StandIn(Struct, frozen=True):
    """Text that represents a value that is not known; it fits any field."""

    text: FoldedText


#: A value that a format string may take.
Value = FoldedText | StandIn | str | int | float | bool


def format_text(
    text: FoldedText, arguments: Sequence[Value], keywords: Mapping[str, Value]
) -> FoldedText:
    """``text.format(*arguments, **keywords)``.

    Raises:
        UnfoldableError: a value is missing, a field looks into its value, or a format
            specification is refused.
    """
    items = list(_fields(text.text))
    names = [item.name for item in items if isinstance(item, _Field)]
    if "" in names and any(map(_is_number, names)):
        raise UnfoldableError("numbered and automatic fields in one string")
    automatic = map(str, range(len(names)))
    parts: list[FoldedText] = []
    for item in items:
        if not isinstance(item, _Field):
            parts.append(text.slice(*item))
            continue
        value = _looked_up(item.name or next(automatic), arguments, keywords)
        if isinstance(value, StandIn):
            parts.append(value.text)
        elif isinstance(value, FoldedText) and not item.conversion and not item.spec:
            parts.append(value)
        else:
            parts.append(text.anchored(_formatted(value, item), item.start, item.end))
    return concat(parts)


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdecimal()


_CONVERSIONS: Mapping[str, Callable[[object], str]] = {"r": repr, "a": ascii, "s": str}


class _Field(NamedTuple):
    start: int
    end: int
    name: str
    conversion: str
    spec: str


def _fields(text: str) -> Iterator[tuple[int, int] | _Field]:
    """A format string as slices of literal text, doubled braces undone, and fields."""
    done = index = 0
    while index < len(text):
        character = text[index]
        if character not in "{}":
            index += 1
            continue
        if text[index + 1 : index + 2] == character:
            yield done, index + 1
            index += 2
        elif character == "}":
            raise UnfoldableError("a lone closing brace")
        else:
            yield done, index
            field = _field(text, index)
            yield field
            index = field.end
        done = index
    yield done, len(text)


def _field(text: str, start: int) -> _Field:
    end = text.find("}", start)
    inside = text[start + 1 : end]
    if end < 0 or "{" in inside:
        raise UnfoldableError("a replacement field that does not end, or holds another")
    head, _, spec = inside.partition(":")
    name, mark, conversion = head.partition("!")
    if mark and conversion not in _CONVERSIONS:
        raise UnfoldableError(f"the conversion {conversion!r}")
    if name and not (name.isidentifier() or _is_number(name)):
        raise UnfoldableError(f"the field {name!r}")
    return _Field(start, end + 1, name, conversion, spec)


def _looked_up(name: str, arguments: Sequence[Value], keywords: Mapping[str, Value]) -> Value:
    if name in keywords:
        return keywords[name]
    position = whole_number(name) if _is_number(name) else None
    if position is not None and position < len(arguments):
        return arguments[position]
    raise UnfoldableError(f"no value for the field {name!r}")


def _plain(value: Value) -> str | int | float | bool:
    if isinstance(value, StandIn):
        raise UnfoldableError("a value that is not known")
    return value.text if isinstance(value, FoldedText) else value


def _formatted(value: Value, field: _Field) -> str:
    plain = _plain(value)
    convert = _CONVERSIONS.get(field.conversion)
    if not is_modest(field.spec):
        raise UnfoldableError(f"the format {field.spec!r}")
    try:
        return format(plain if convert is None else convert(plain), field.spec)
    except (ValueError, OverflowError) as error:
        raise UnfoldableError(f"the format {field.spec!r}") from error


def is_modest(spec: str) -> bool:
    """Return whether no width or precision of a format asks for more text than is worth folding."""
    numbers = "".join(c if c.isdigit() else " " for c in spec).split()
    return all(len(number) < 5 for number in numbers)


def percent(text: FoldedText, values: Sequence[Value] | Mapping[str, Value]) -> FoldedText:
    """``text % values``, for a tuple's values or for a dictionary's.

    Raises:
        UnfoldableError: there are too many values or too few, a width is itself a value, or a
            value does not fit its conversion.
    """
    places = None if isinstance(values, Mapping) else iter(values)
    parts: list[FoldedText] = []
    done = 0
    while (start := text.text.find("%", done)) >= 0:
        parts.append(text.slice(done, start))
        key, spec, end = _conversion(text.text, start)
        done = end
        if spec[-1] == "%":
            parts.append(text.slice(end - 1, end))
            continue
        if places is None:
            assert isinstance(values, Mapping)
            if key is None or key not in values:
                raise UnfoldableError("no key, or one that the dictionary lacks")
            value = values[key]
        else:
            found = next(places, None)
            if found is None or key is not None:
                raise UnfoldableError("too few values, or a key where there is a tuple")
            value = found
        parts.append(_converted(text, value, spec, start, end))
    if places is not None and next(places, None) is not None:
        raise UnfoldableError("too many values")
    parts.append(text.slice(done))
    return concat(parts)


def _conversion(text: str, start: int) -> tuple[str | None, str, int]:
    """The key of a ``%`` field, the field without it, and where it ends."""
    index = start + 1
    key = None
    if text[index : index + 1] == "(":
        close = text.find(")", index)
        if close < 0:
            raise UnfoldableError("a key that does not end")
        key, index = text[index + 1 : close], close + 1
    begin = index
    while text[index : index + 1] in tuple("#0- +.123456789hlL"):
        index += 1
    if text[index : index + 1] not in tuple("diouxXeEfFgGcrsa%"):
        raise UnfoldableError("a conversion that is none, or a width that is a value")
    return key, "%" + text[begin : index + 1], index + 1


def _converted(text: FoldedText, value: Value, spec: str, start: int, end: int) -> FoldedText:
    if isinstance(value, StandIn):
        return value.text
    if isinstance(value, FoldedText) and spec == "%s":
        return value
    if not is_modest(spec):
        raise UnfoldableError(f"the conversion {spec!r}")
    try:
        return text.anchored(spec % (_plain(value),), start, end)
    except (ValueError, OverflowError, TypeError) as error:
        raise UnfoldableError(f"the conversion {spec!r}") from error


def substitute(text: FoldedText, values: Mapping[str, Value], *, safe: bool) -> FoldedText:
    """``string.Template(text).substitute(values)``, or ``safe_substitute``.

    Raises:
        UnfoldableError: a value is missing, or a ``$`` represents nothing, and not ``safe``.
    """
    parts: list[FoldedText] = []
    done = 0
    for match in Template.pattern.finditer(text.text):
        start, end = match.span()
        name = match.group("named") or match.group("braced")
        parts.append(text.slice(done, start))
        done = end
        if match.group("escaped") is not None:
            parts.append(text.slice(end - 1, end))
        elif name is not None and name in values:
            value = values[name]
            if isinstance(value, StandIn):
                parts.append(value.text)
            elif isinstance(value, FoldedText):
                parts.append(value)
            else:
                parts.append(text.anchored(str(value), start, end))
        elif safe:
            parts.append(text.slice(start, end))
        else:
            raise UnfoldableError(f"no value for {match.group()!r}")
    parts.append(text.slice(done))
    return concat(parts)
