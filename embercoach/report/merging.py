"""Several saved reports as one: shards of a run, or runs over different checkouts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from embercoach.finding import SEVERITIES
from embercoach.report.json_report import VERSION

if TYPE_CHECKING:
    Document = dict[str, Any]
    Shards = dict[int, list["Saved"]]

#: How many names a message lists.
NAMED = 8


class Saved(Struct, frozen=True):
    """A saved report; ``name`` is its file's."""

    name: str
    document: Document


class Merged(Struct, frozen=True):
    """Reports as one.

    ``remarks`` are warnings about them. What is missing is a problem of the document itself,
    so that every report of it says so, and none of them passes for complete.
    """

    document: Document
    remarks: tuple[str, ...]


def merge(reports: Sequence[Saved]) -> Merged:
    """Put reports together: all shards of a run give the very document of the whole run.

    A finding that several reports hold is in the result once.
    """
    remarks = [*_versions(reports)]
    kept = list(_without_repeats(reports, remarks))
    missing = [*_shards(kept, remarks)]
    documents = [report.document for report in kept]
    findings, repeated = _union((one for d in documents for one in d["findings"]), _finding_key)
    if repeated:
        noun = "finding is" if repeated == 1 else "findings are"
        remarks.append(
            f"{repeated} {noun} in several reports and listed once; their files count repeatedly"
        )
    problems, _ = _union(
        (one for one in [*missing, *(p for d in documents for p in d["problems"])]), _problem_key
    )
    document: Document = {
        "version": VERSION,
        "findings": findings,
        "problems": problems,
        "summary": _summary(documents, findings, problems),
    }
    if all("run" in d for d in documents):
        document["run"] = _run([d["run"] for d in documents])
    if all("checkouts" in d for d in documents):
        document["checkouts"] = _checkouts(documents)
    return Merged(document, tuple(remarks))


def _changes(tables: Iterable[Sequence[Document]]) -> list[Document]:
    """Known and fixed findings by file and rule, in all of the reports."""
    table: dict[tuple[str, str], Counter[str]] = {}
    for row in (row for rows in tables for row in rows):
        counter = table.setdefault((row["path"], row["code"]), Counter())
        counter.update({"known": row["known"], "fixed": row["fixed"]})
    return [
        {"path": path, "code": code, "known": counter["known"], "fixed": counter["fixed"]}
        for (path, code), counter in sorted(table.items())
    ]


def _versions(reports: Sequence[Saved]) -> Iterator[str]:
    by_program: dict[tuple[str, str], list[str]] = {}
    for report in reports:
        run = report.document.get("run")
        if run is not None:
            by_program.setdefault((run["version"], run["program"]), []).append(report.name)
    if len(by_program) > 1:
        versions = "; ".join(
            f"EmberCoach {version} ({program[:8]}) wrote {_names(names)}"
            for (version, program), names in by_program.items()
        )
        yield f"the reports are of different versions: {versions}"
    unknown = [report.name for report in reports if "run" not in report.document]
    if by_program and unknown:
        yield f"a version that doesn't name itself wrote {_names(unknown)}"


def _without_repeats(reports: Sequence[Saved], remarks: list[str]) -> Iterator[Saved]:
    seen: dict[str, str] = {}
    for report in reports:
        text = _canonical(report.document)
        if text in seen:
            remarks.append(f"{report.name} holds the same as {seen[text]}: left out")
            continue
        seen[text] = report.name
        yield report


def _shards(reports: Sequence[Saved], remarks: list[str]) -> Iterator[dict[str, Any]]:
    """Problems where shards are missing."""
    groups: dict[tuple[Any, ...], Shards] = {}
    for report in reports:
        run = report.document.get("run") or {}
        shard = run.get("shard")
        if shard is not None:
            paths = tuple(one["path"] for one in report.document.get("checkouts", ()))
            # Shards of different programs, files or paths are not parts of one run.
            key = (shard["count"], shard["all_files"], run["program"], paths)
            groups.setdefault(key, {}).setdefault(shard["number"], []).append(report)
    for (count, all_files, *_), shards in groups.items():
        for number, same in sorted(shards.items()):
            if len(same) > 1:
                names = _names([report.name for report in same])
                remarks.append(f"shard {number} of {count} is there more than once: {names}")
        held = sum(same[0].document["run"]["shard"]["files"] for same in shards.values())
        # A file that was made by hand may name any number of shards.
        absent = (str(number) for number in range(1, count + 1) if number not in shards)
        named = list(islice(absent, NAMED))
        found = _names([report.name for same in shards.values() for report in same])
        if named:
            more = count - len(shards) - len(named)
            which = f"{'shard' if len(named) == 1 else 'shards'} {', '.join(named)}"
            yield _problem(
                f"{which}{f' and {more} more' if more else ''} of {count}",
                f"{all_files - held} of {all_files} files are missing from this report ({found})",
            )
        elif held != all_files:
            yield _problem(
                f"{count} shards",
                f"hold {held} of {all_files} files: they are not parts of one run ({found})",
            )


def _problem(path: str, message: str) -> dict[str, Any]:
    return {"path": path, "line": 1, "column": 1, "message": message}


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"


def _canonical(data: Any) -> str:
    return json.dumps(data, sort_keys=True)


def _union(
    items: Iterable[dict[str, Any]], key: Callable[[dict[str, Any]], Any]
) -> tuple[list[dict[str, Any]], int]:
    """Items sorted, each once, and how many were there before."""
    unique: dict[str, dict[str, Any]] = {}
    repeated = 0
    for item in items:
        text = _canonical(item)
        repeated += text in unique
        unique.setdefault(text, item)
    return sorted(unique.values(), key=key), repeated


def _finding_key(finding: dict[str, Any]) -> tuple[Any, ...]:
    """Return the order of ``Finding.sort_key``."""
    place = (finding["path"], finding.get("cell") or 0, finding["line"], finding["column"])
    end = (finding["end_line"], finding["end_column"])
    return (*place, finding["code"], *end, finding["message"])


def _problem_key(problem: dict[str, Any]) -> tuple[Any, ...]:
    place = (problem["path"], problem.get("cell") or 0, problem["line"], problem["column"])
    return (*place, problem["message"])


def _summary(
    documents: Sequence[Document], findings: list[dict[str, Any]], problems: list[dict[str, Any]]
) -> dict[str, Any]:
    severities = Counter(finding["severity"] for finding in findings)
    show_notes = any(map(_counts_notes, documents))
    fixes = [
        finding["fix"]["safe"] and finding["severity"] != "note"
        for finding in findings
        if finding["fix"] and (show_notes or finding["severity"] != "note")
    ]
    summary: dict[str, Any] = {f"{severity}s": severities[severity] for severity in SEVERITIES}
    summary["suppressed"] = _sum(documents, "suppressed")
    summary["fixable"] = fixes.count(True)
    summary["fixable_unsafe"] = fixes.count(False)
    summary["problems"] = len(problems)
    summary["files_checked"] = _sum(documents, "files_checked")
    summary["files_skipped"] = _sum(documents, "files_skipped")
    baselines = [d["summary"]["baseline"] for d in documents if "baseline" in d["summary"]]
    if baselines:
        summary["baseline"] = {
            name: sum(one[name] for one in baselines) for name in ("known", "fixed")
        }
        if all("changes" in one for one in baselines):
            summary["baseline"]["changes"] = _changes(one["changes"] for one in baselines)
    return summary


def _sum(documents: Sequence[Document], name: str) -> int:
    return sum(document["summary"][name] for document in documents)


def _counts_notes(document: Document) -> bool:
    """Return whether a report counts fixes of notes, which were to be listed."""
    loud = [f for f in document["findings"] if f["fix"] and f["severity"] != "note"]
    summary = document["summary"]
    return bool(summary["fixable"] + summary["fixable_unsafe"] > len(loud))


def _run(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    versions = sorted({run["version"] for run in runs})
    programs = sorted({run["program"] for run in runs})
    return {"version": ", ".join(versions), "program": ", ".join(programs), "shard": None}


def _checkouts(documents: Sequence[Document]) -> list[dict[str, Any]]:
    totals: dict[str, Counter[str]] = {}
    for document in documents:
        for checkout in document["checkouts"]:
            counts = {name: count for name, count in checkout.items() if name != "path"}
            totals.setdefault(checkout["path"], Counter()).update(counts)
    return [{"path": path, **totals[path]} for path in sorted(totals)]
