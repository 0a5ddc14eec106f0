"""Rule selection by code prefix: the longer prefix wins, each layer builds on the one below."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from embercoach.config.errors import ConfigError, suggestion
from embercoach.plugins.discovery import PluginError
from embercoach.plugins.loading import load_installed
from embercoach.rulebook import SIMULATED, kinds, static_codes, words

if TYPE_CHECKING:
    from embercoach.finding import Severity

ALL = "ALL"


class Selection(Struct, frozen=True):
    """The selectors of one layer (a file, the command line); ``select`` starts anew."""

    select: tuple[str, ...] | None = None
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


def matches(selector: str, code: str) -> bool:
    """Return whether a selector (``ALL``, a code or a prefix) matches a code."""
    return selector == ALL or code.startswith(selector)


def check_selector(selector: str) -> str:
    """Return the selector in upper case, as codes are written.

    Raises:
        ConfigError: it names no rule that a check reports; says which one is near.
    """
    given, selector = selector, selector.upper()
    if _names_rule(selector):
        return selector
    _refuse_simulated(given)
    try:
        load_installed()  # for commands that have no use for plugins, as `simulate`
    except PluginError as error:
        raise ConfigError(str(error)) from error
    if _names_rule(selector):
        return selector
    hint = suggestion(given, {ALL, *words(static_codes())})
    raise ConfigError(f"unknown rule '{given}'{hint or ' (`embercoach rules` lists them)'}")


def _names_rule(selector: str) -> bool:
    return selector != "" and any(matches(selector, code) for code in static_codes())


def _refuse_simulated(selector: str) -> None:
    if not selector.upper().startswith(SIMULATED.rstrip("-")):
        return
    named = [kind for kind, rule in kinds().items() if matches(selector.upper(), rule.code)]
    if named:
        hint = ", ".join(f"'{kind}'" for kind in named)
        raise ConfigError(
            f"'{selector}' is a finding of `embercoach simulate`: use allow = [{hint}] in the "
            "table 'simulator'"
        )


class Decision(Struct, frozen=True):
    """Why a rule is on or off.

    Attributes:
        enabled: whether it is on.
        layer: the number of the layer that decided, None where none did.
        key: ``select``, ``extend-select`` or ``ignore``, as configuration files name them.
        selector: what names the rule; None where ``select`` leaves it out.
    """

    enabled: bool
    layer: int | None = None
    key: str | None = None
    selector: str | None = None


def decisions(layers: Iterable[Selection]) -> dict[str, Decision]:
    """Return the decision on each rule after all layers, the lowest first; all start enabled."""
    known = static_codes()
    made = dict.fromkeys(known, Decision(enabled=True))
    for number, layer in enumerate(layers):
        if layer.select is not None:
            made = dict.fromkeys(known, Decision(False, number, "select"))
        # At equal length, ignoring wins.
        for _, selector, decision in sorted(_votes(layer, number), key=lambda vote: vote[0]):
            made |= {code: decision for code in known if matches(selector, code)}
    return made


def _votes(layer: Selection, number: int) -> Iterator[tuple[tuple[int, bool], str, Decision]]:
    said = (("select", layer.select or ()), ("extend-select", layer.extend_select))
    for key, selectors in (*said, ("ignore", layer.ignore)):
        wanted = key != "ignore"
        for selector in selectors:
            yield (_weight(selector), not wanted), selector, Decision(wanted, number, key, selector)


def enabled_codes(layers: Iterable[Selection]) -> frozenset[str]:
    """Return the codes that are on after all layers."""
    return frozenset(code for code, made in decisions(layers).items() if made.enabled)


def severities_by_code(chosen: Iterable[tuple[str, Severity]]) -> dict[str, Severity]:
    """Return the severities of rules that selectors set; of two selectors the longer one wins."""
    made: dict[str, Severity] = {}
    for selector, severity in sorted(chosen, key=lambda pair: _weight(pair[0])):
        made |= {code: severity for code in static_codes() if matches(selector, code)}
    return made


def _weight(selector: str) -> int:
    return 0 if selector == ALL else len(selector)


def selector_form() -> dict[str, Any]:
    """Return the JSON Schema of a selector; editors offer its enumeration."""
    known = sorted(static_codes())
    families = sorted({code.rpartition("-")[0] for code in known})
    return {
        "type": "string",
        "anyOf": [
            {"enum": [ALL, *families, *known]},
            {"pattern": f"^(?:[Aa][Ll][Ll]|{_beginnings(known)})$"},
        ],
    }


def _beginnings(words: list[str]) -> str:
    """Return a regular expression for all beginnings of words in any case, the empty one aside."""
    by_letter: dict[str, list[str]] = {}
    for word in words:
        if word:
            by_letter.setdefault(word[0], []).append(word[1:])
    parts = []
    for letter, rests in by_letter.items():
        below = _beginnings(rests)
        either = f"[{letter}{letter.lower()}]" if letter.isalpha() else letter
        parts.append(f"{either}(?:{below})?" if below else either)
    return "|".join(parts)
