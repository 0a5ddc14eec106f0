"""Hot spots: files with many findings for their length, and functions that stall in loops."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from embercoach.finding import SEVERITIES
from embercoach.report.excerpt import visible
from embercoach.report.html.tallies import family_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from embercoach.report.html.source_tokens import Function, Tokens
    from embercoach.report.html.sources import Source

    Findings = Sequence[dict[str, Any]]

#: In shorter files one finding makes a high density.
LEAST_LINES = 50
#: Families of rules whose findings synchronize with the GPU, and their contexts by harm.
STALLS = ("graph-break", "host-pull")
WAITS = ("avoidable", "minor")
#: Rows of a table at most.
MOST_ROWS = 200
#: The name of the code outside of functions.
TOP_LEVEL = "top level"


def hot_spots(
    findings: Findings,
    files: Mapping[str, int],
    placed: Mapping[str, Findings],
    sources: Mapping[str, Source],
    tokens: Mapping[str, Tokens],
) -> dict[str, list[list[Any]]]:
    """The rows of both tables.

    Args:
        findings: of the whole report.
        files: numbers of the paths in the report.
        placed: findings of the files that are shown, at the lines of their texts.
        sources: the files that are shown.
        tokens: of these files, with their functions.

    Returns:
        ``files``: number, lines, and findings by severity, the most errors and warnings a line
        first. ``functions``: the file's number, the name, the findings in loops by ``REPEATED``,
        and the number of the first one, the most stalls first.
    """
    return {
        "files": _files(files, placed, sources),
        "functions": _functions(findings, files, placed, tokens),
    }


def _files(
    files: Mapping[str, int], placed: Mapping[str, Findings], sources: Mapping[str, Source]
) -> list[list[Any]]:
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


def _functions(
    findings: Findings,
    files: Mapping[str, int],
    placed: Mapping[str, Findings],
    tokens: Mapping[str, Tokens],
) -> list[list[Any]]:
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
    """The innermost function of each line."""
    inner = sorted(functions, key=lambda one: one.first)
    return {line: one.name for one in inner for line in range(one.first, one.last + 1)}
