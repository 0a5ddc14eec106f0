"""The types of settings: what the reader takes, and the same as JSON Schema says it."""

from __future__ import annotations

from collections.abc import Callable
from keyword import iskeyword, kwlist
from string import ascii_letters, digits
from typing import Any, TypeVar

from msgspec import Struct

from embercoach.config.errors import ConfigError, nearest, suggestion, type_name
from embercoach.config.patterns import check_pattern
from embercoach.config.required_version import check_required_version, required_version_form
from embercoach.config.selectors import check_selector, selector_form
from embercoach.finding import SEVERITIES, Severity
from embercoach.kernel_builder import PARAMETERS, Fixed, KernelBuilder, Origin
from embercoach.rulebook import CODE, PROFILES, kinds
from embercoach.terminal_text import quoted

TEXTS = ("name", "source", "header")
LISTS = ("input_names", "output_names")
FLAGS = ("ensure_row_contiguous", "atomic_outputs")
#: The parameters that a table with a value may be for, by the name of its form.
FIXED = {"fixed-text": TEXTS, "fixed-list": LISTS, "fixed-flag": FLAGS}
#: Positions of a function's arguments; larger ones are refused.
MOST_PARAMETERS = 1_000


def kernel_builders(value: Any) -> tuple[KernelBuilder, ...]:
    """Return the wrappers of a table from dotted names to tables.

    Raises:
        ConfigError: a mistake in it.
    """
    if not isinstance(value, dict):
        message = f"must be a table from dotted names to tables, got {type_name(value)}"
        raise ConfigError(message)
    return tuple(_builder(symbol, table) for symbol, table in value.items())


def _builder(symbol: str, table: Any) -> KernelBuilder:
    words = symbol.split(".")
    if len(words) < 2 or not all(map(_is_name, words)):
        # Without quotes TOML splits a name at its dots, and this is the first part of it.
        message = (
            f"key must be a quoted dotted name such as \"package.module.Name\", got '{symbol}'"
        )
        raise ConfigError(message)
    if words[0] == "mlx":
        raise ConfigError(f"'{symbol}' must be a wrapper, got a function of MLX")
    if not isinstance(table, dict):
        message = f"'{symbol}' must be a table from parameters of metal_kernel to parameters of it"
        raise ConfigError(f"{message}, got {type_name(table)}")
    seen: dict[str | int, str] = {}
    origins: list[tuple[str, Origin]] = []
    for parameter, given in table.items():
        if parameter not in PARAMETERS:
            hint = suggestion(parameter, PARAMETERS) or f" (known: {', '.join(PARAMETERS)})"
            raise ConfigError(f"'{symbol}': metal_kernel has no parameter '{parameter}'{hint}")
        origin = _origin(f"'{symbol}': {parameter}", parameter, given)
        if not isinstance(origin, Fixed):
            other = seen.setdefault(origin, parameter)
            if other != parameter:
                raise ConfigError(f"'{symbol}': {other} and {parameter} cannot both be {origin!r}")
        origins.append((parameter, origin))
    if "source" not in table:
        raise ConfigError(f"'{symbol}' must have the key 'source'")
    return KernelBuilder(symbol, tuple(origins))


def _origin(where: str, parameter: str, given: Any) -> Origin:
    if isinstance(given, dict):
        return _fixed(where, parameter, given)
    if isinstance(given, str):
        if not _is_name(given):
            raise ConfigError(f"{where} must be the name of a parameter, got '{given}'")
        return given
    if isinstance(given, bool) or not isinstance(given, int):
        form = "a parameter's name, its position, or { value = ... }"
        raise ConfigError(f"{where} must be {form}, got {type_name(given)}")
    if given < 0:
        raise ConfigError(f"{where} must be a position from 0, got {given}")
    if given > MOST_PARAMETERS:
        raise ConfigError(f"{where} must be a position up to {MOST_PARAMETERS}")
    return given


def _fixed(where: str, parameter: str, given: dict[str, Any]) -> Fixed:
    if list(given) != ["value"]:
        raise ConfigError(f"{where} must be a table with one key, 'value'")
    value = given["value"]
    if parameter in TEXTS:
        form, fits = "a string", isinstance(value, str)
    elif parameter in LISTS:
        form = "a list of strings"
        fits = isinstance(value, list) and all(isinstance(item, str) for item in value)
    elif parameter in FLAGS:
        form, fits = "true or false", isinstance(value, bool)
    else:
        raise ConfigError(f"{where} must be the name or the position of a parameter")
    if not fits:
        raise ConfigError(f"{where}: value must be {form}, got {type_name(value)}")
    return Fixed(tuple(value) if isinstance(value, list) else value)


def _is_name(word: str) -> bool:
    return word.isidentifier() and not iskeyword(word)


#: A word that Python takes for a name; which letters beyond ASCII it takes is the reader's to say.
_LETTER = r"A-Za-z_\u0080-\uffff"
_NAME = rf"(?!(?:{'|'.join(kwlist)})(?:\.|$))[{_LETTER}][{_LETTER}0-9]*"


def kernel_builders_form() -> dict[str, Any]:
    """Get the table as JSON Schema says it; that two parameters have one origin it can't refuse."""
    origins = {parameter: _origin_form(parameter) for parameter in PARAMETERS}
    return {
        "type": "object",
        "propertyNames": {"pattern": rf"^(?!mlx\.){_NAME}(?:\.{_NAME})+$"},
        "additionalProperties": {
            "type": "object",
            "required": ["source"],
            "additionalProperties": False,
            "properties": origins,
        },
    }


def _origin_form(parameter: str) -> dict[str, Any]:
    names = (name for name, parameters in FIXED.items() if parameter in parameters)
    forms = [_defined(name) for name in ("parameter", *names)]
    return {
        "description": f"Source of metal_kernel's `{parameter}`: a parameter of the "
        "wrapper by its name or by its position from 0"
        + (", or { value = ... }: what is always passed." if len(forms) > 1 else "."),
        "anyOf": forms,
    }


def _parameter_form() -> dict[str, Any]:
    return {
        "anyOf": [
            {"type": "string", "pattern": f"^{_NAME}$"},
            {"type": "integer", "minimum": 0, "maximum": MOST_PARAMETERS},
        ]
    }


def _fixed_form(value: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["value"],
        "additionalProperties": False,
        "properties": {"value": value},
    }


_T = TypeVar("_T")
#: A JSON Schema.
Form = dict[str, Any]
#: Seconds, or gigabytes, that nobody waits for or has; what is above overflows somewhere.
MOST = 1_000_000_000
#: Characters of an address.
MOST_OF_ADDRESS = 2000
#: The others end an address, or are commands to a terminal.
_OF_ADDRESSES = frozenset(f"{ascii_letters}{digits}-._~:/?#@!$&'()*+,;=%[]")


class SettingType(Struct, frozen=True):
    """A type of values.

    Attributes:
        check: a value from TOML as the settings hold it; raises ConfigError.
        form: its schema, made when asked for, as the rules' pages may have to be read.
    """

    check: Callable[[Any], Any]
    form: Callable[[], Form]


def check_profile(value: Any) -> str:
    """Return a profile's name.

    Raises:
        ConfigError: there is no such profile.
    """
    if not isinstance(value, str):
        raise ConfigError(f"must be a string, got {type_name(value)}")
    if value not in PROFILES:
        known = " or ".join(f"'{name}'" for name in PROFILES)
        raise ConfigError(f"unknown profile '{value}'{suggestion(value, PROFILES)} ({known})")
    return value


def check_kind(value: str) -> str:
    """Return a kind of the simulator's findings, from the kind itself or its rule's code.

    Raises:
        ConfigError: there is no such kind; says which one is near.
    """
    kind = _kinds_by_code().get(value.upper(), value)
    if kind not in kinds():
        hint = _near_kind(value) or f" (known: {', '.join(kinds())})"
        raise ConfigError(f"unknown kind of finding '{value}'{hint}")
    return kind


def _near_kind(value: str) -> str:
    """Suggest a kind by its letters, or by a word of it: `races` for `threadgroup-race`."""
    known = {*kinds(), *_kinds_by_code()}
    if hint := suggestion(value, known, cutoff=0.8):
        return hint
    by_word: dict[str, list[str]] = {}
    for kind in kinds():
        for word in kind.split("-"):
            by_word.setdefault(word, []).append(f"'{kind}'")
    near = nearest(value, by_word, cutoff=0.75)
    return f"; did you mean {' or '.join(by_word[near])}?" if near else suggestion(value, known)


def _kinds_by_code() -> dict[str, str]:
    return {rule.code: kind for kind, rule in kinds().items()}


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"must be true or false, got {type_name(value)}")
    return value


def _path(value: Any) -> str:
    if not isinstance(value, str) or not value:
        got = "an empty one" if value == "" else type_name(value)
        raise ConfigError(f"must be a string, got {got}")
    if "\0" in value:
        raise ConfigError("must be a path, got a null character in it")
    return value


def _rules_url(value: Any) -> str:
    """Return an address of http or https with `{code}` in it, or the empty text."""
    if not isinstance(value, str):
        raise ConfigError(f"must be a string, got {type_name(value)}")
    if value and not (len(value) <= MOST_OF_ADDRESS and _is_rules_url(value)):
        got = f"got {quoted(value)}"
        raise ConfigError(f"must be an http or https URL with {CODE} after its host, {got}")
    return value


def _is_rules_url(value: str) -> bool:
    if not value.startswith(("https://", "http://")):
        return False
    if not _OF_ADDRESSES.issuperset(value.replace(CODE, "")):
        return False
    from urllib.parse import urlsplit  # few configurations have an address

    try:
        parts = urlsplit(value)
        is_host = bool(parts.hostname) and parts.port != 0 and "@" not in parts.netloc
    except ValueError:
        return False
    return is_host and CODE not in parts.netloc and CODE in value


def _toml_file(value: Any) -> str:
    path = _path(value)
    if not path.endswith(".toml"):
        raise ConfigError(f"must be a .toml file, got '{path}'")
    return path


def _positive(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"must be a number, got {type_name(value)}")
    if not 0 < value <= MOST:
        # An integer may be too long to be shown.
        shown = f", got {value}" if abs(value) <= MOST or isinstance(value, float) else ""
        most = f" and at most {MOST}" if value > 0 else ""
        raise ConfigError(f"must be a number above 0{most}{shown}")
    return float(value)


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ConfigError(f"must be a list of strings, got {type_name(value)}")
    for item in value:
        if not isinstance(item, str):
            raise ConfigError(f"must hold only strings, got {type_name(item)}")
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
        raise ConfigError(f"must be a table from patterns to {of}, got {type_name(value)}")
    for pattern in value:
        _pattern(pattern)
    return value


def _pattern_selectors(value: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return _each(_table(value, "lists of rules"), _selectors)


def _pattern_profiles(value: Any) -> tuple[tuple[str, str], ...]:
    return _each(_table(value, "profiles"), check_profile)


def _severity(value: Any) -> Severity:
    if not isinstance(value, str):
        raise ConfigError(f"must be a string, got {type_name(value)}")
    for severity in SEVERITIES:
        if value == severity:
            return severity
    known = " or ".join(f"'{name}'" for name in SEVERITIES)
    raise ConfigError(f"unknown severity '{value}'{suggestion(value, SEVERITIES)} ({known})")


def _selector_severities(value: Any) -> tuple[tuple[str, Severity], ...]:
    if not isinstance(value, dict):
        raise ConfigError(f"must be a table from rules to severities, got {type_name(value)}")
    _each(dict(zip(value, value, strict=True)), check_selector)
    return tuple((selector.upper(), severity) for selector, severity in _each(value, _severity))


def _each(table: dict[str, Any], check: Callable[[Any], _T]) -> tuple[tuple[str, _T], ...]:
    """Check the value of each pattern; a mistake is that of its pattern."""
    checked = []
    pattern = ""
    try:
        for pattern, value in table.items():
            checked.append((pattern, check(value)))
    except ConfigError as error:
        raise ConfigError(error.message, within=(pattern,)) from error
    return tuple(checked)


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


def _selector_severities_form() -> Form:
    return {
        "type": "object",
        "propertyNames": _defined("selector"),
        "additionalProperties": {"type": "string", "enum": list(SEVERITIES)},
    }


def _rules_url_form() -> Form:
    large = "6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]"
    host = rf"[A-Za-z0-9.-]+(?::(?:[1-9][0-9]{{0,3}}|[1-5][0-9]{{4}}|{large}))?"
    part = r"[A-Za-z0-9._~:/?#@!\x24&'()*+,;=%\[\]-]"
    address = rf"https?://{host}[/?#]{part}*\{{code\}}(?:{part}|\{{code\}})*"
    return {"type": "string", "maxLength": MOST_OF_ADDRESS, "pattern": f"^(?:{address})?$"}


def _kind_form() -> Form:
    codes = _kinds_by_code()
    lower = "|".join(code.lower() for code in codes)
    return {
        "type": "string",
        "anyOf": [{"enum": [*kinds(), *codes]}, {"pattern": f"^(?:{lower})$"}],
    }


PROFILE = SettingType(check_profile, _profile_form)
BOOLEAN = SettingType(_boolean, lambda: {"type": "boolean"})
PATH = SettingType(_path, lambda: {"type": "string", "pattern": r"^[^\u0000]+$"})
RULES_URL_TYPE = SettingType(_rules_url, _rules_url_form)
TOML_FILE = SettingType(_toml_file, lambda: {"type": "string", "pattern": r"^[^\u0000]*\.toml$"})
REQUIRED_VERSION_TYPE = SettingType(check_required_version, required_version_form)
POSITIVE = SettingType(
    _positive, lambda: {"type": "number", "exclusiveMinimum": 0, "maximum": MOST}
)
SELECTORS = SettingType(_selectors, lambda: _list_of(_defined("selector")))
PATTERNS = SettingType(_patterns, lambda: _list_of(_pattern_form()))
KINDS = SettingType(_kinds, lambda: _list_of(_kind_form()))
PATTERN_SELECTORS = SettingType(
    _pattern_selectors, lambda: _by_pattern(_list_of(_defined("selector")))
)
PATTERN_PROFILES = SettingType(_pattern_profiles, lambda: _by_pattern(_profile_form()))
SELECTOR_SEVERITIES = SettingType(_selector_severities, _selector_severities_form)
KERNEL_BUILDERS = SettingType(kernel_builders, kernel_builders_form)

#: What several forms refer to.
DEFINITIONS: dict[str, Callable[[], Form]] = {
    "selector": selector_form,
    "parameter": _parameter_form,
    "fixed-text": lambda: _fixed_form({"type": "string"}),
    "fixed-list": lambda: _fixed_form(_list_of({"type": "string"})),
    "fixed-flag": lambda: _fixed_form({"type": "boolean"}),
}
