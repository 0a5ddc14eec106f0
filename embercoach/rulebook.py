"""Rule metadata, read from the pages in ``rules/`` and of plugins, the one definition of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

from msgspec import Struct, to_builtins

from embercoach.finding import SEVERITIES, Severity
from embercoach.toml import TOMLDecodeError, loads

PROFILES = ("recommended", "ember")
#: Where a finding stands.
CONTEXTS = (
    "compiled",  # in a function that mx.compile or mx.vmap traces: it raises
    "differentiated",  # the value flows into a differentiated result: the gradient is lost
    "avoidable",  # it costs time in every iteration, forward pass or call, and its help saves that
    "minor",  # it costs time once, or nothing saves it
    "test",
    "benchmark",
    "default",  # the place makes no difference
)
_FAILING: dict[str, Severity] = {"compiled": "error", "differentiated": "error"}


def severities(
    own: Severity, ember: Severity, *, costs: bool, is_checked_in_tests: bool
) -> dict[str, dict[str, Severity]]:
    """The severities of a rule by profile, and by the contexts that differ from ``default``.

    Args:
        own: the rule's severity in the profile `recommended`.
        ember: its severity in the profile `ember`.
        costs: the harm is time or memory alone, except where the program fails.
        is_checked_in_tests: findings in tests, and warnings in benchmarks, are as severe as others.
    """
    common: dict[str, Severity] = {}
    if costs:
        common |= {**_FAILING, "test": "note", "benchmark": "note"}
    elif not is_checked_in_tests:
        common["test"] = "note"
        if own == "warning":  # the numbers of a benchmark are filler
            common["benchmark"] = "note"
    minor: dict[str, Severity] = {"minor": "note"} if costs else {}
    return {
        "recommended": {"default": own, **common, **minor},
        "ember": {"default": ember, **common},
    }


Fixability = Literal["none", "safe", "unsafe", "mixed"]
#: The heading of the code that follows the help of a finding.
FIX = "How to fix"
#: How a page begins: with its title, and the line about the harm.
_TOP = re.compile(r"# (?P<name>[^ \n]+) \((?P<code>[^)\n]+)\)\n\n(?P<summary>[^#\n].*)\n\n")
#: What stands between a page's text and its metadata, which a fence ends.
_METADATA = "\n## Metadata\n```toml\n"
#: How the codes begin of what the simulator finds while a kernel runs; checks find all else.
SIMULATED = "SIM-"


class RulePageError(ValueError):
    """A rule page that breaks the form, with its path and the reason."""


class Rule(Struct, frozen=True):
    """A rule's metadata, read from its page.

    ``severity`` maps a profile to a mapping from context to severity; ``default`` is always there.
    ``kind`` is what the simulator calls such a finding; None for what a check finds. ``events`` are
    the kinds of events of `embercoach trace` that such a line causes as it runs.
    """

    code: str
    name: str
    family: str
    summary: str
    since: str
    fix: Fixability
    severity: dict[str, dict[str, Severity]]
    page: str
    kind: str | None = None
    events: tuple[str, ...] = ()

    def severity_in(self, profile: str, context: str) -> Severity:
        """The severity of a finding of this rule, by profile and by where it stands."""
        table = self.severity[profile]
        return table.get(context, table["default"])

    def severity_text(self, profile: str) -> str:
        """Return the severity in a profile, then those of contexts that change it, as prose."""
        usual = self.severity_in(profile, "default")
        changed: dict[str, list[str]] = {}
        for context in CONTEXTS:
            if (severity := self.severity_in(profile, context)) != usual:
                changed.setdefault(severity, []).append(context)
        others = [f"{severity} in {', '.join(where)}" for severity, where in changed.items()]
        return f"{usual} ({'; '.join(others)})" if others else usual

    @property
    def fix_text(self) -> str:
        """The kinds of its fixes as prose."""
        return "safe or unsafe" if self.fix == "mixed" else self.fix

    def facts(self) -> list[str]:
        """Return the lines about severities by profile, the fix and the first release."""
        severities = [f"{profile}: {self.severity_text(profile)}" for profile in PROFILES]
        return [*severities, f"fix: {self.fix_text}; since {self.since}"]


def pages_directory() -> Path:
    """Where the pages are: inside the installed wheel, or at the top of a checkout."""
    package = Path(__file__).resolve().parent
    installed = package / "rules"
    return installed if installed.is_dir() else package.parent / "rules"


#: The pages of plugins' rules, by code: see :func:`replace_plugin_pages`.
_plugin_pages: dict[str, Path] = {}


def replace_plugin_pages(pages: Mapping[str, Path]) -> None:
    """Add the pages of plugins' rules, by code, in place of those that were added before."""
    _plugin_pages.clear()
    _plugin_pages.update(pages)
    for cached in (codes, static_codes, kinds, rules, rule):
        cached.cache_clear()


def page_path(code: str) -> Path:
    """The file of a rule's page."""
    return _plugin_pages.get(code) or pages_directory() / f"{code}.md"


@lru_cache(maxsize=1)
def builtin_codes() -> frozenset[str]:
    """The codes of EmberCoach's own rules, from the pages' file names (no page is read)."""
    found = frozenset(p.stem for p in pages_directory().glob("*.md") if p.stem != "README")
    if not found:
        raise FileNotFoundError(f"no rule pages in {pages_directory()}: reinstall EmberCoach")
    return found


@lru_cache(maxsize=1)
def codes() -> frozenset[str]:
    """All rule codes, those of plugins included; no page is read."""
    return builtin_codes() | _plugin_pages.keys()


@lru_cache(maxsize=512)
def words_for(code: str) -> tuple[str, ...]:
    """Return the words that name a code: itself and its families (``GRAPH-BREAK``)."""
    parts = code.split("-")
    return tuple("-".join(parts[:count]) for count in range(len(parts), 0, -1))


def words(known: Iterable[str]) -> set[str]:
    """Return the words that name some codes."""
    return {word for code in known for word in words_for(code)}


def codes_about(word: str) -> set[str]:
    """Return the codes that begin with a word; if none does, of rules with it in code or name.

    If there is none, either, of those whose summary has it.
    """
    sought, known = word.lower(), rules()
    return (
        {code for code in codes() if code.startswith(word.upper())}
        or {
            code
            for code, one in known.items()
            if sought in (*code.lower().split("-"), *one.name.split("-"), one.name)
        }
        or {code for code, one in known.items() if sought in one.summary.lower()}
    )


@lru_cache(maxsize=1)
def static_codes() -> frozenset[str]:
    """The codes that ``check`` may report: all but the simulator's."""
    return frozenset(code for code in codes() if not code.startswith(SIMULATED))


@lru_cache(maxsize=1)
def kinds() -> dict[str, Rule]:
    """The rules of the simulator by the kinds of its findings, in the order of their codes."""
    simulated = (rule(code) for code in sorted(codes() - static_codes()))
    return {found.kind: found for found in simulated if found.kind is not None}


@lru_cache(maxsize=1)
def rules() -> dict[str, Rule]:
    """All rules by code, sorted."""
    return {code: rule(code) for code in sorted(codes())}


@cache
def rule(code: str) -> Rule:
    """One rule, read from its page.

    Raises:
        KeyError: no page has that code.
        RulePageError: the page breaks the form.
    """
    if code not in codes():
        raise KeyError(code)
    path = page_path(code)
    return parse_page(path.read_text(encoding="utf-8"), path)


def known_rule(code: str) -> Rule | None:
    """One rule; None for a code without a page, such as a later release's in a saved report."""
    return rule(code) if code in codes() else None


def parse_page(text: str, path: Path) -> Rule:
    """Split a page into its text and its metadata, and check both.

    Raises:
        RulePageError: the page breaks the form.
    """
    body, separator, rest = text.partition(_METADATA)
    front, closed, after = rest.rpartition("```")
    top = _TOP.match(body)
    if top is None:
        raise RulePageError(f"{path}: must begin with '# NAME (CODE)' and a line about the problem")
    if not (separator and closed) or after.strip():
        raise RulePageError(f"{path}: must end with '## Metadata' and a ```toml block")
    if top["code"] != path.stem:
        raise RulePageError(f"{path}: is the page of '{top['code']}'")
    try:
        data = loads(front)
    except TOMLDecodeError as error:
        raise RulePageError(f"{path}: metadata is not TOML: {error}") from error
    _require(data, path)
    return Rule(
        **top.groupdict(),
        family=data.get("family", path.stem.rpartition("-")[0].lower()),
        since=data["since"],
        fix=data.get("fix", "none"),
        severity=severities(
            data["severity"],
            data.get("ember", data["severity"]),
            costs=data.get("costs", False),
            is_checked_in_tests=data.get("tests", True),
        ),
        page=body.strip() + "\n",
        kind=data.get("kind"),
        events=tuple(data.get("events", ())),
    )


#: Values of the metadata that are texts, and those that are true or false.
_TEXTS = ("since", "severity", "ember", "fix", "family", "kind")
_FLAGS = ("costs", "tests")


def _require(data: dict[str, Any], path: Path) -> None:
    for key in ("since", "severity", *(data.keys() & set(_TEXTS))):
        if not isinstance(data.get(key), str):
            raise RulePageError(f"{path}: metadata lacks the text '{key}'")
    unknown = data.keys() - {*_TEXTS, *_FLAGS, "events"}
    if unknown:
        raise RulePageError(f"{path}: metadata has unknown keys: {', '.join(sorted(unknown))}")
    if path.stem.startswith(SIMULATED) != ("kind" in data):
        raise RulePageError(f"{path}: a text 'kind' belongs to {SIMULATED} codes, and to no other")
    _require_events(data, path)
    if data.get("fix", "none") not in get_args(Fixability):
        raise RulePageError(f"{path}: fix must be one of {', '.join(get_args(Fixability))}")
    for key in ("severity", "ember"):
        if data.get(key, "error") not in SEVERITIES:
            raise RulePageError(f"{path}: {key} must be one of {', '.join(SEVERITIES)}")
    for key in _FLAGS:
        if not isinstance(data.get(key, True), bool):
            raise RulePageError(f"{path}: {key} must be true or false, got {data[key]!r}")


def _require_events(data: dict[str, Any], path: Path) -> None:
    events = data.get("events", [])
    if not isinstance(events, list) or not all(isinstance(event, str) for event in events):
        raise RulePageError(f"{path}: events must be a list of kinds of events, got {events!r}")


def described(rule: Rule, *, page: bool) -> dict[str, object]:
    """Return a rule as plain data, for JSON."""
    data: dict[str, object] = to_builtins(rule)
    text = data.pop("page")
    return data | {"page": text} if page else data


SITE = "https://OWNER.github.io/embercoach/"
#: OWNER stands for nobody: there is a site once `.ci/owner.py` has named somebody.
PUBLISHED = not SITE.startswith("https://OWNER.")
#: What stands for the code of a rule in an address.
CODE = "{code}"
#: The default of the setting `rules-url`.
RULES_URL = f"{SITE}rules/{CODE}/"


def rule_url(code: str, rules_url: str = RULES_URL) -> str | None:
    """The address of a rule's page, for readers anywhere.

    Args:
        code: of a finding; a saved report may have any text here.
        rules_url: the setting; without links it is empty.

    Returns:
        None without links, before there is a site, and for a code without a page on it, as a
        plugin's.
    """
    there = PUBLISHED or rules_url != RULES_URL
    if not (there and rules_url) or code not in builtin_codes():
        return None
    return rules_url.replace(CODE, code)


def page_url(code: str, rules_url: str = RULES_URL) -> str | None:
    """The address of a rule's page, for readers on this machine: the file, if there is no other."""
    if not rules_url or code not in codes():
        return None
    return rule_url(code, rules_url) or page_path(code).as_uri()
