"""The data of the report's script: rows of findings, counts, hot spots and checkouts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, convert

from embercoach import rulebook
from embercoach.finding import SEVERITIES
from embercoach.report.excerpt import visible
from embercoach.report.html import sources
from embercoach.report.html.sources import Function, Source, Tokens, tokens
from embercoach.report.outcome import Checkout
from embercoach.report.statistics import owners, totals
from embercoach.rulebook import CONTEXTS

if TYPE_CHECKING:
    from embercoach.report.html.rendering import Page

    Findings = Sequence[dict[str, Any]]

#: The family of a code that this version has no page for.
UNKNOWN_FAMILY = "unknown"


class BarPart(Struct, frozen=True):
    """A severity's part of a bar: where it starts and how long it is, in percent of the chart."""

    severity: str
    count: int
    start: float
    length: float


class Bar(Struct, frozen=True):
    """A row of a chart: what is counted, how many findings of each kind, and its bar's parts."""

    key: str
    counts: tuple[int, ...]
    parts: tuple[BarPart, ...]


def family_of(code: str) -> str:
    """Return the family of a rule."""
    return rulebook.rule(code).family if code in rulebook.codes() else UNKNOWN_FAMILY


def tallies(findings: Iterable[dict[str, Any]], key: Callable[[dict[str, Any]], str]) -> list[Bar]:
    """Count findings by a key and by severity; the most errors first, then warnings, then notes."""
    table: dict[str, Counter[str]] = {}
    for finding in findings:
        table.setdefault(key(finding), Counter())[finding["severity"]] += 1
    return sorted(bars(table.items()), key=lambda bar: (*(-count for count in bar.counts), bar.key))


def bars(
    counted: Iterable[tuple[str, Counter[str]]], kinds: Sequence[str] = SEVERITIES
) -> list[Bar]:
    """Return a bar for each key, with findings by severity, or by other kinds in their order.

    Notes outnumber errors and warnings, so they have bars only where there is nothing else.
    """
    rows = list(counted)
    drawn = [kind for kind in kinds if kind != "note"]
    if not any(counter[kind] for _, counter in rows for kind in drawn):
        drawn = list(kinds)
    widest = max((sum(counter[kind] for kind in drawn) for _, counter in rows), default=0)
    return [
        Bar(key, tuple(counter[kind] for kind in kinds), tuple(_parts(counter, widest, drawn)))
        for key, counter in rows
    ]


def _parts(counter: Counter[str], widest: int, kinds: Iterable[str]) -> Iterator[BarPart]:
    start = 0.0
    for kind in kinds:
        if count := counter[kind]:
            length = 100 * count / widest
            yield BarPart(kind, count, round(start, 3), round(length, 3))
            start += length


def by_family(findings: Sequence[dict[str, Any]]) -> list[Bar]:
    """Return the findings of each family of rules."""
    families = {code: family_of(code) for code in {finding["code"] for finding in findings}}
    return tallies(findings, lambda finding: families[finding["code"]])


#: In shorter files one finding makes a high density.
LEAST_LINES = 50
#: Families of rules whose findings synchronize with the GPU, and their contexts by harm.
STALLS = ("graph-break", "host-pull")
WAITS = ("avoidable", "minor")
#: Rows of a table at most.
MOST_ROWS = 200
#: The name of the code outside of functions.
TOP_LEVEL = "top level"


def _hot_files(
    files: Mapping[str, int], placed: Mapping[str, Findings], sources: Mapping[str, Source]
) -> list[list[Any]]:
    """Return number, lines and findings by severity of each file, the densest first."""
    rows = []
    for path, found in placed.items():
        lines = sources[path].count
        if lines >= LEAST_LINES:
            counter = Counter(finding["severity"] for finding in found)
            rows.append([files[path], lines, *(counter[severity] for severity in SEVERITIES)])

    def density(row: list[Any]) -> tuple[float, float, int]:
        number, lines, errors, warnings, notes = row
        loud = errors + warnings
        return -loud / lines, -(loud + notes) / lines, number

    return sorted(rows, key=density)[:MOST_ROWS]


def _hot_functions(
    findings: Findings,
    files: Mapping[str, int],
    placed: Mapping[str, Findings],
    tokens: Mapping[str, Tokens],
) -> list[list[Any]]:
    """Return the file, the name, the stalls by ``WAITS`` and the first of them, the most first."""
    numbers: dict[str, list[int]] = {}
    for number, finding in enumerate(findings):
        numbers.setdefault(finding["path"], []).append(number)
    rows: list[list[Any]] = []
    for path, found in placed.items():
        counts: dict[str, Counter[str]] = {}
        firsts: dict[str, int] = {}
        owners = _owners(tokens[path].functions) if any(map(is_stall, found)) else {}
        for number, finding in zip(numbers[path], found, strict=True):
            if is_stall(finding):
                name = owners.get(finding["line"], TOP_LEVEL)
                counts.setdefault(name, Counter())[finding["context"]] += 1
                firsts.setdefault(name, number)
        rows += (
            [files[path], visible(name), *(counts[name][context] for context in WAITS), first]
            for name, first in firsts.items()
        )
    return sorted(rows, key=lambda row: (-row[2], -row[3], row[4]))[:MOST_ROWS]


def is_stall(finding: dict[str, Any]) -> bool:
    """Return whether a finding synchronizes with the GPU."""
    return finding["context"] in WAITS and family_of(finding["code"]) in STALLS


def _owners(functions: Iterable[Function]) -> dict[int, str]:
    """Return the innermost function of each line."""
    inner = sorted(functions, key=lambda one: one.first)
    return {line: one.name for one in inner for line in range(one.first, one.last + 1)}


def checkout_tops(document: dict[str, Any]) -> list[str]:
    """Return the checkouts' tops, sorted; none where there is but one."""
    paths = {checkout["path"] for checkout in document.get("checkouts", ())}
    return sorted(paths) if len(paths) > 1 else []


def checkout_rows(document: dict[str, Any]) -> list[Bar]:
    """Return a bar for each checkout, the most findings first; none where there is but one.

    After the findings by severity, its counts are files checked, files skipped and problems.
    """
    made = totals(
        convert(document.get("checkouts", ()), tuple[Checkout, ...]),
        [(finding["path"], finding["severity"]) for finding in document["findings"]],
        [problem["path"] for problem in document["problems"]],
    )
    counted = [
        (one.path, Counter[str](dict(zip(SEVERITIES, one.counts, strict=True)))) for one in made
    ]
    return [
        Bar(
            bar.key,
            (*bar.counts, one.checkout.files_checked, one.checkout.files_skipped, one.problems),
            bar.parts,
        )
        for one, bar in zip(made, bars(counted), strict=True)
    ]


#: Contexts by harm: those that fail or compute incorrect values before those that are slow.
#: Findings that are the same in all contexts, such as data races, are in ``default``.
_WORST = ("compiled", "differentiated", "default")
HARM = (*_WORST, *(context for context in CONTEXTS if context not in _WORST))


#: Characters of all sources whose tokens have colors: half a second of Python's tokenizer.
MOST_COLORED = 800_000
#: Characters of fingerprints, which distinguish findings of one rule in links.
FINGERPRINT = 16


class _NumberedTexts:
    """Texts by number: messages are few, findings many."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))

    @property
    def all(self) -> list[str]:
        return [visible(text) for text in self._numbers]


def table(
    document: dict[str, Any],
    pages: Sequence[Page],
    *,
    readable: Callable[[str], bool],
    root: str | None,
    saved_at: float | None,
    shown: Callable[[str], str],
) -> dict[str, Any]:
    """Return the findings and the files as plain data.

    Args:
        document: the JSON report.
        pages: of the rules that have findings.
        readable: whether a path's file may be put into the report.
        root: the folder that these files must lie in; None for anywhere.
        saved_at: when the findings were saved, in seconds since the epoch; None for now.
        shown: from a path to the text that the report shows.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for finding in document["findings"]:
        found.setdefault(finding["path"], []).append(finding)
    paths = sorted(found)
    shown_sources, placed, read = _read(paths, found, readable, root, saved_at)
    texts = _NumberedTexts()
    file_numbers = {path: number for number, path in enumerate(paths)}
    rule_numbers = {page.code: number for number, page in enumerate(pages)}
    rows = [_row(finding, file_numbers, rule_numbers, texts) for finding in document["findings"]]
    return {
        "severities": SEVERITIES,
        "contexts": HARM,
        "rules": [
            {"code": page.code, "name": page.name, "family": family_of(page.code)} for page in pages
        ],
        "files": [
            {"path": shown(path), "source": _source(shown_sources.get(path), read.get(path))}
            for path in paths
        ],
        "findings": rows,
        "hot": {
            "files": _hot_files(file_numbers, placed, shown_sources),
            "functions": _hot_functions(document["findings"], file_numbers, placed, read),
        },
        "texts": texts.all,
        **_checkouts(document, paths, shown),
    }


def _checkouts(
    document: dict[str, Any], paths: Sequence[str], shown: Callable[[str], str]
) -> dict[str, Any]:
    """The checkouts' tops, and which of them each file is in; nothing where there is but one."""
    tops = checkout_tops(document)
    if not tops:
        return {}
    owner = owners(paths, tops)
    numbers = {top: number for number, top in enumerate(tops)}
    inside = [numbers.get(owner[path] or "") for path in paths]
    return {"checkouts": [shown(top) for top in tops], "inside": inside}


def _row(
    finding: dict[str, Any], files: dict[str, int], rules: dict[str, int], texts: _NumberedTexts
) -> list[Any]:
    fix = finding["fix"]
    return [
        files[finding["path"]],
        finding["line"],
        finding["column"],
        finding["end_line"],
        finding["end_column"],
        rules[finding["code"]],
        SEVERITIES.index(finding["severity"]),
        texts.number(finding["message"]),
        texts.number(finding["help"]),
        texts.number(finding["context"]),
        fix and texts.number(fix["title"]),
        fix and fix["safe"],
        finding.get("cell"),
        _steps(finding, "flow", texts),
        _steps(finding, "related", texts),
        finding["fingerprint"][:FINGERPRINT] if "fingerprint" in finding else None,
    ]


def _steps(finding: dict[str, Any], name: str, texts: _NumberedTexts) -> list[list[Any]]:
    return [
        [step["line"], step["column"], step.get("cell"), texts.number(step["message"])]
        for step in finding.get(name, ())
        if step["path"] == finding["path"]
    ]


def _read(
    paths: Sequence[str],
    found: dict[str, list[dict[str, Any]]],
    readable: Callable[[str], bool],
    root: str | None,
    saved_at: float | None,
) -> tuple[dict[str, sources.Source], dict[str, list[dict[str, Any]]], dict[str, Tokens]]:
    """Return the sources that can be shown, their findings at their lines, and their tokens."""
    texts, placed = {}, {}
    for path in paths:
        text = sources.read(path, root) if readable(path) else None
        at = None if text is None else text.placed(found[path])
        if text is not None and at is not None:
            texts[path], placed[path] = text, at
    changed = {path for path in texts if sources.newer(path, saved_at)}
    parts = sources.sources(dict(placed), texts, changed)
    return parts, placed, _tokens(texts, found)


def _tokens(
    texts: dict[str, sources.Text], found: dict[str, list[dict[str, Any]]]
) -> dict[str, Tokens]:
    """Get the tokens of the most harmful files; those with stalls in loops need their functions."""
    made = {}
    room = MOST_COLORED
    stalls = {path for path in texts if any(map(is_stall, found[path]))}

    def harm(path: str) -> tuple[bool, int, str]:
        worst = min(SEVERITIES.index(finding["severity"]) for finding in found[path])
        return path not in stalls, worst, path

    for path in sorted(texts, key=harm):
        room -= len(texts[path].index.text)
        made[path] = tokens(path, texts[path].index) if room >= 0 or path in stalls else Tokens()
    return made


def _source(source: sources.Source | None, found: Tokens | None) -> dict[str, Any] | None:
    if source is None or found is None:
        return None
    return {
        "count": source.count,
        "changed": source.changed,
        "parts": [[first, list(lines)] for first, lines in source.parts],
        "tokens": [
            [found.encoded(first + number) for number in range(len(lines))]
            for first, lines in source.parts
        ],
        "cells": source.cells,
    }
