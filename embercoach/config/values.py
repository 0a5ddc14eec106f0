"""The types of settings: what the reader takes, and the same as JSON Schema says it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from embercoach.config.builders import kernel_builders, kernel_builders_form
from embercoach.config.errors import ConfigError, suggestion, type_name
from embercoach.config.patterns import check_pattern
from embercoach.config.selectors import check_selector, selector_form
from embercoach.rulebook import PROFILES, kinds

if TYPE_CHECKING:
    from collections.abc import Callable

#: A JSON Schema.
Form = dict[str, Any]
#: Seconds, or gigabytes, that nobody waits for or has; what is above overflows somewhere.
MOST = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Type:
    """A type of values.

    Attributes:
        check: a value from TOML as the settings hold it; raises ConfigError.
        form: its schema, made when asked for, as the rules' pages may have to be read.
    """

    check: Callable[[Any], Any]
    form: Callable[[], Form]


def check_profile(value: Any) -> str:
    """A profile's name.

    Raises:
        ConfigError: there is no such profile.
    """
    if not isinstance(value, str):
        raise ConfigError(f"must be a text, not {type_name(value)}")
    if value not in PROFILES:
        known = " or ".join(f"'{name}'" for name in PROFILES)
        raise ConfigError(f"unknown profile '{value}'{suggestion(value, PROFILES)} ({known})")
    return value


def check_kind(value: str) -> str:
    """A kind of the simulator's findings, from the kind itself or its rule's code.

    Raises:
        ConfigError: there is no such kind; says which one is near.
    """
    by_code = _kinds_by_code()
    kind = by_code.get(value, value)
    if kind not in kinds():
        hint = suggestion(value, {*kinds(), *by_code}) or f" (known: {', '.join(kinds())})"
        raise ConfigError(f"unknown kind of finding '{value}'{hint}")
    return kind


def _kinds_by_code() -> dict[str, str]:
    return {rule.code: kind for kind, rule in kinds().items()}


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"must be true or false, not {type_name(value)}")
    return value


def _path(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(
            f"must be a text, not {type_name(value) if value != '' else 'an empty one'}"
        )
    if "\0" in value:
        raise ConfigError("must be a path, and no path holds a null character")
    return value


def _positive(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"must be a number, not {type_name(value)}")
    if not 0 < value <= MOST:
        # An integer may be too long to be shown.
        shown = f", not {value}" if abs(value) <= MOST or isinstance(value, float) else ""
        most = f" and at most {MOST}" if value > 0 else ""
        raise ConfigError(f"must be a number above 0{most}{shown}")
    return float(value)


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ConfigError(f"must be a list of texts, not {type_name(value)}")
    for item in value:
        if not isinstance(item, str):
            raise ConfigError(f"must be a list of texts, but holds {type_name(item)}")
    return tuple(value)


def _kinds(value: Any) -> tuple[str, ...]:
    return tuple(map(check_kind, _texts(value)))


def _selectors(value: Any) -> tuple[str, ...]:
    return tuple(check_selector(item) for item in _texts(value))


def _patterns(value: Any) -> tuple[str, ...]:
    return tuple(_pattern(item) for item in _texts(value))


def _pattern(pattern: str) -> str:
    mistake = check_pattern(pattern)
    if mistake:
        raise ConfigError(mistake)
    return pattern


def _table(value: Any, of: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"must be a table from patterns to {of}, not {type_name(value)}")
    for pattern in value:
        _pattern(pattern)
    return value


def _pattern_selectors(value: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
    table = _table(value, "lists of rules")
    return tuple((pattern, _selectors(selectors)) for pattern, selectors in table.items())


def _pattern_profiles(value: Any) -> tuple[tuple[str, str], ...]:
    table = _table(value, "profiles")
    return tuple((pattern, check_profile(profile)) for pattern, profile in table.items())


def _profile_form() -> Form:
    return {"type": "string", "enum": list(PROFILES)}


def _defined(name: str) -> Form:
    return {"$ref": f"#/definitions/{name}"}


def _list_of(item: Form) -> Form:
    return {"type": "array", "items": item}


def _by_pattern(value: Form) -> Form:
    return {
        "type": "object",
        "propertyNames": _pattern_form(),
        "additionalProperties": value,
    }


def _pattern_form() -> Form:
    # gitignore's language is the reader's to judge.
    return {"type": "string", "pattern": r"\S"}


def _kind_form() -> Form:
    return {"type": "string", "enum": [*kinds(), *_kinds_by_code()]}


PROFILE = Type(check_profile, _profile_form)
BOOLEAN = Type(_boolean, lambda: {"type": "boolean"})
PATH = Type(_path, lambda: {"type": "string", "pattern": r"^[^\u0000]+$"})
POSITIVE = Type(_positive, lambda: {"type": "number", "exclusiveMinimum": 0, "maximum": MOST})
SELECTORS = Type(_selectors, lambda: _list_of(_defined("selector")))
PATTERNS = Type(_patterns, lambda: _list_of(_pattern_form()))
KINDS = Type(_kinds, lambda: _list_of(_kind_form()))
PATTERN_SELECTORS = Type(_pattern_selectors, lambda: _by_pattern(_list_of(_defined("selector"))))
PATTERN_PROFILES = Type(_pattern_profiles, lambda: _by_pattern(_profile_form()))
KERNEL_BUILDERS = Type(kernel_builders, kernel_builders_form)

#: What several forms refer to.
DEFINITIONS = {"selector": selector_form}
