"""The data of the report's script: findings as rows of numbers, every text once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from embercoach.finding import SEVERITIES
from embercoach.report.excerpt import visible
from embercoach.report.html import checkout_table, sources
from embercoach.report.html.hot_spots import hot_spots, is_stall
from embercoach.report.html.source_tokens import Tokens, tokens
from embercoach.report.html.tallies import family_of
from embercoach.severity_policy import CONTEXTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from embercoach.report.html.pages import Page


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
    """The findings and the files as plain data.

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
        "hot": hot_spots(document["findings"], file_numbers, placed, shown_sources, read),
        "texts": texts.all,
        **_checkouts(document, paths, shown),
    }


def _checkouts(
    document: dict[str, Any], paths: Sequence[str], shown: Callable[[str], str]
) -> dict[str, Any]:
    """The checkouts' tops, and which of them each file is in; nothing where there is but one."""
    tops = checkout_table.tops(document)
    if not tops:
        return {}
    owner = checkout_table.owners(paths, tops)
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
    """The sources that can be shown, their findings at their lines, and their tokens."""
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
    """The tokens of the most harmful files; those with stalls in loops need their functions."""
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
