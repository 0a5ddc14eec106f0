"""Rule selection by code prefix: the longer prefix wins, each layer builds on the one below."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from embercoach.config.errors import ConfigError, suggestion
from embercoach.rulebook import SIMULATED, kinds, static_codes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from embercoach.config.settings import Settings

ALL = "ALL"


@dataclass(frozen=True, slots=True)
class Selection:
    """What one layer (a file, the command line) says; ``select`` starts anew."""

    select: tuple[str, ...] | None = None
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


def selected(settings: Settings, code: str) -> bool:
    """Whether a rule is on for the project (per-file ignores aside)."""
    return code in settings.enabled


def matches(selector: str, code: str) -> bool:
    """Whether a selector (``ALL``, a code or the beginning of one) names a code."""
    return selector == ALL or code.startswith(selector)


def check_selector(selector: str) -> str:
    """Return the selector.

    Raises:
        ConfigError: it names no rule that a check reports; says which one is near.
    """
    known = static_codes()
    if selector and any(matches(selector, code) for code in known):
        return selector
    _refuse_simulated(selector)
    families = {code.rpartition("-")[0] for code in known}
    hint = suggestion(selector, known | families | {ALL})
    raise ConfigError(f"unknown rule '{selector}'{hint or ' (`embercoach rules` lists them)'}")


def _refuse_simulated(selector: str) -> None:
    if not selector.upper().startswith(SIMULATED.rstrip("-")):
        return
    named = [kind for kind, rule in kinds().items() if matches(selector.upper(), rule.code)]
    if named:
        hint = ", ".join(f"'{kind}'" for kind in named)
        raise ConfigError(
            f"'{selector}' is found by `embercoach simulate`, not by a check, and can't be "
            f"selected; what the simulator may find without complaint stands in the table "
            f"'simulator', as allow = [{hint}]"
        )


def enabled_codes(layers: Iterable[Selection]) -> frozenset[str]:
    """The codes that are on after all layers, the lowest layer first; at the start all are."""
    known = static_codes()
    current = set(known)
    for layer in layers:
        if layer.select is not None:
            current.clear()
        votes = [(_weight(s), True, s) for s in (*(layer.select or ()), *layer.extend_select)]
        votes += [(_weight(s), False, s) for s in layer.ignore]
        # At equal length, ignoring wins.
        for _, wanted, selector in sorted(votes, key=lambda vote: (vote[0], not vote[1])):
            named = {code for code in known if matches(selector, code)}
            current = current | named if wanted else current - named
    return frozenset(current)


def _weight(selector: str) -> int:
    return 0 if selector == ALL else len(selector)
