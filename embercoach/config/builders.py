"""The table ``kernel-builders``: a table for each wrapper, its keys metal_kernel's parameters."""

from __future__ import annotations

from keyword import iskeyword, kwlist
from typing import TYPE_CHECKING, Any

from embercoach.config.errors import ConfigError, suggestion, type_name
from embercoach.kernel_builder import PARAMETERS, Fixed, KernelBuilder

if TYPE_CHECKING:
    from embercoach.kernel_builder import Origin

TEXTS = ("name", "source", "header")
LISTS = ("input_names", "output_names")
FLAGS = ("ensure_row_contiguous", "atomic_outputs")
#: Positions of a function's arguments; larger ones are refused.
MOST_PARAMETERS = 1_000


def kernel_builders(value: Any) -> tuple[KernelBuilder, ...]:
    """The wrappers of a table from dotted names to tables.

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
    """The table as JSON Schema says it; that two parameters have one origin it can't refuse."""
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
    forms: list[dict[str, Any]] = [
        {"type": "string", "pattern": f"^{_NAME}$"},
        {"type": "integer", "minimum": 0, "maximum": MOST_PARAMETERS},
    ]
    value: dict[str, Any] | None = None
    if parameter in TEXTS:
        value = {"type": "string"}
    elif parameter in LISTS:
        value = {"type": "array", "items": {"type": "string"}}
    elif parameter in FLAGS:
        value = {"type": "boolean"}
    if value is not None:
        properties = {"value": value}
        forms.append(
            {
                "type": "object",
                "required": ["value"],
                "additionalProperties": False,
                "properties": properties,
            }
        )
    return {
        "description": f"Source of metal_kernel's `{parameter}`: a parameter of the "
        "wrapper by its name or by its position from 0"
        + (", or { value = ... }: what is always passed." if value else "."),
        "anyOf": forms,
    }
