"""Measure the linter's precision and recall against the hand-made labels.

Run from the repository root as `python -m tests.accuracy.evaluate [--linter-json FILE] [--show]`:
the packages are fetched with pip on first use, the labelled files are linted under the profile
`ember`, and every label is compared with the findings that fall on it. `--linter-json` reads the
output of an earlier run, made with `python -m embercoach check --profile ember --output-format
json --no-cache` on the corpus folder, instead of running the linter.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.accuracy.corpus import LABELS, CorpusError, corpus_roots

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

REPOSITORY = Path(__file__).resolve().parents[2]

# What a finding's code begins with, by family.
FAMILY_CODES: dict[str, tuple[str, ...]] = {
    "host-pull": ("GRAPH-BREAK-", "HOST-PULL-"),
    "truth": ("GRAPH-BREAK-",),
    "scalar": ("PYTHON-SCALAR-", "DTYPE-", "ASSIGN-SCALAR-"),
}

Span = tuple[int, int, int, int]


def line_hash(line: str) -> str:
    """Return the short hash of a stripped source line that ties a label to its code."""
    return hashlib.blake2b(line.strip().encode(), digest_size=8).hexdigest()


class DriftError(RuntimeError):
    """A labelled line is not what it was when it was labelled."""


class LinterError(RuntimeError):
    """The linter did not run through, or its output is not the promised JSON."""


@dataclass(frozen=True, slots=True)
class Label:
    """One hand-labelled site; `truth` is None where the code alone does not tell."""

    package: str
    file: str
    span: Span
    family: str
    kind: str
    script: bool
    truth: bool | None
    line_hash: str
    rivals: tuple[Span, ...]

    def __str__(self) -> str:
        return f"{self.package} {self.file}:{self.span[0]}:{self.span[1]} ({self.kind})"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding of the linter, as far as the measurement needs it."""

    code: str
    span: Span


@dataclass(slots=True)
class Score:
    """The counts of one family, with the sites that went wrong."""

    hits: int = 0
    rejections: int = 0
    misses: list[Label] = field(default_factory=list)
    false_alarms: list[tuple[Label, str]] = field(default_factory=list)

    @property
    def precision(self) -> float:
        """Return the share of true ones among the flagged sites, 1.0 where none is flagged."""
        flagged = self.hits + len(self.false_alarms)
        return self.hits / flagged if flagged else 1.0

    @property
    def recall(self) -> float:
        """Return the share of flagged ones among the true sites, 1.0 where none is true."""
        true = self.hits + len(self.misses)
        return self.hits / true if true else 1.0


def read_labels(path: Path = LABELS) -> tuple[dict[str, dict[str, str]], list[Label]]:
    """Return the pinned packages and the labels of `labels.json`."""
    content = json.loads(path.read_text(encoding="utf-8"))
    return content["packages"], [_label(entry) for entry in content["sites"]]


def _label(entry: Mapping[str, Any]) -> Label:
    truth = entry["truth"]
    if truth not in (True, False, "unsure"):
        raise ValueError(f"unlabelled site: {entry['package']} {entry['file']}:{entry['line']}")
    return Label(
        package=entry["package"],
        file=entry["file"],
        span=(entry["line"], entry["column"], entry["end_line"], entry["end_column"]),
        family=entry["family"],
        kind=entry["kind"],
        script=entry["script"],
        truth=None if truth == "unsure" else truth,
        line_hash=entry["line_hash"],
        rivals=tuple(tuple(rival) for rival in entry["rivals"]),
    )


def check_drift(labels: Iterable[Label], roots: Mapping[str, Path]) -> None:
    """Raise DriftError naming every label whose source line is missing or has changed."""
    lines: dict[Path, list[str]] = {}
    drifted = []
    for label in labels:
        path = roots[label.package] / label.file
        if path not in lines:
            text = path.read_text(encoding="utf-8-sig") if path.exists() else ""
            lines[path] = text.splitlines()
        number = label.span[0]
        if number > len(lines[path]) or line_hash(lines[path][number - 1]) != label.line_hash:
            drifted.append(str(label))
    if drifted:
        raise DriftError(
            f"{len(drifted)} labelled lines changed; was a pinned package replaced?\n"
            + "\n".join(drifted)
        )


def lint_package(root: Path, files: Iterable[str]) -> list[dict[str, Any]]:
    """Lint files of a copy of an unpacked package and return the findings of the JSON output.

    The copy lies outside this repository, whose configuration and ignore files would count else.
    """
    with tempfile.TemporaryDirectory(prefix="embercoach-accuracy-") as folder:
        copy = Path(folder) / root.name
        shutil.copytree(root, copy)
        return run_linter(copy, files)


def run_linter(folder: Path, files: Iterable[str]) -> list[dict[str, Any]]:
    """Run the linter on files of `folder` under the profile `ember` and return its findings."""
    command = [sys.executable, "-m", "embercoach", "check", "--profile", "ember"]
    command += ["--output-format", "json", "--no-cache", *(str(folder / file) for file in files)]
    environment = dict(os.environ, PYTHONPATH=str(REPOSITORY))
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=folder, env=environment
    )
    try:
        output = json.loads(done.stdout)
    except json.JSONDecodeError as error:
        message = f"exit code {done.returncode}, no JSON on stdout: {error}\n{done.stderr[-2000:]}"
        raise LinterError(message) from error
    if not isinstance(output, dict) or "findings" not in output:
        raise LinterError("the linter's JSON holds no findings key")
    findings: list[dict[str, Any]] = output["findings"]
    return findings


def group_findings(
    findings: Iterable[Mapping[str, Any]], roots: Mapping[str, Path]
) -> dict[tuple[str, str], list[Finding]]:
    """Return the findings by package and file; those outside the corpus are an error.

    A path may be absolute, or relative to any folder: what counts is the package's own folder.
    """
    by_folder = {root.name: package for package, root in roots.items()}
    grouped: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for entry in findings:
        parts = Path(entry["path"]).parts
        folder = next((part for part in parts if part in by_folder), None)
        if folder is None:
            raise LinterError(f"finding outside the corpus: {entry['path']}")
        file = "/".join(parts[parts.index(folder) + 1 :])
        span = (entry["line"], entry["column"], entry["end_line"], entry["end_column"])
        grouped[by_folder[folder], file].append(Finding(entry["code"], span))
    return grouped


def overlap(first: Span, second: Span, widths: Sequence[int]) -> float:
    """Return how much two spans share, as intersection over union of their characters.

    `widths` holds the length of each line of the file, to count spans of several lines.
    """
    starts = [_offset(span[0], span[1], widths) for span in (first, second)]
    ends = [_offset(span[2], span[3], widths) for span in (first, second)]
    shared = min(ends) - max(starts)
    if shared <= 0:
        return 0.0
    return shared / (max(ends) - min(starts))


def _offset(line: int, column: int, widths: Sequence[int]) -> int:
    return sum(width + 1 for width in widths[: line - 1]) + column


def flags(label: Label, finding: Finding, widths: Sequence[int]) -> bool:
    """Tell whether `finding` is about the labelled site rather than about a rival near by.

    Sites nest (`float(x.sum().item()) > 0` holds five), so a finding belongs to the candidate
    that its range fits best, and to all of those that it fits equally well. A truth test of
    nothing but a pull (`if x.item():`) has that pull as its rival on the same range: it tests a
    Python number, and the finding there is the pull's.
    """
    if not finding.code.startswith(FAMILY_CODES[label.family]) or label.span in label.rivals:
        return False
    fit = overlap(label.span, finding.span, widths)
    return fit > 0 and all(fit >= overlap(rival, finding.span, widths) for rival in label.rivals)


def score(
    labels: Iterable[Label],
    findings: Mapping[tuple[str, str], Sequence[Finding]],
    roots: Mapping[str, Path],
) -> dict[str, Score]:
    """Compare labels with findings and return the score of each family."""
    scores = {family: Score() for family in FAMILY_CODES}
    widths: dict[Path, list[int]] = {}
    for label in labels:
        if label.truth is None:
            continue
        path = roots[label.package] / label.file
        if path not in widths:
            text = path.read_text(encoding="utf-8-sig")
            widths[path] = [len(line) for line in text.splitlines()]
        near = findings.get((label.package, label.file), ())
        codes = sorted({f.code for f in near if flags(label, f, widths[path])})
        _count(scores[label.family], label, codes)
    return scores


def _count(score: Score, label: Label, codes: Sequence[str]) -> None:
    if label.truth and codes:
        score.hits += 1
    elif label.truth:
        score.misses.append(label)
    elif codes:
        score.false_alarms.append((label, ", ".join(codes)))
    else:
        score.rejections += 1


def table(scores: Mapping[str, Score]) -> str:
    """Return the scores as a text table, a family a line."""
    rows = ["family      sites  true   hit  false  precision  recall"]
    for family, result in scores.items():
        true = result.hits + len(result.misses)
        sites = true + result.rejections + len(result.false_alarms)
        rows.append(
            f"{family:<10} {sites:>6} {true:>5} {result.hits:>5} {len(result.false_alarms):>6} "
            f"{result.precision:>10.3f} {result.recall:>7.3f}"
        )
    return "\n".join(rows)


def mistakes(scores: Mapping[str, Score]) -> str:
    """Return a line for each miss and each false alarm."""
    lines = []
    for family, result in scores.items():
        lines += [f"{family}: missed {label}" for label in result.misses]
        lines += [f"{family}: wrongly {codes} at {label}" for label, codes in result.false_alarms]
    return "\n".join(lines)


def evaluate(findings: Iterable[Mapping[str, Any]] | None = None) -> dict[str, Score]:
    """Fetch the corpus, check it against the labels, lint its labelled files, return the scores.

    Given the `findings` of an earlier run over the same packages, these are scored instead.
    """
    packages, labels = read_labels()
    roots = corpus_roots(packages)
    check_drift(labels, roots)
    if findings is None:
        files: dict[str, set[str]] = defaultdict(set)
        for label in labels:
            files[label.package].add(label.file)
        findings = [
            finding
            for package, root in roots.items()
            for finding in lint_package(root, sorted(files[package]))
        ]
    return score(labels, group_findings(findings, roots), roots)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table and, with `--show`, each mistake."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--linter-json", type=Path, help="read the linter's output from this file")
    parser.add_argument("--show", action="store_true", help="list the misses and false alarms")
    options = parser.parse_args(arguments)
    try:
        given = json.loads(options.linter_json.read_text()) if options.linter_json else None
        scores = evaluate(given["findings"] if given else None)
    except (CorpusError, DriftError, LinterError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    sys.stdout.write(table(scores) + "\n")
    if options.show:
        sys.stdout.write(mistakes(scores) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
