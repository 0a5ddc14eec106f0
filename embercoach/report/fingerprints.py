"""Fingerprints: identify a finding in later runs, even after lines have moved."""

from __future__ import annotations

import os
from collections import Counter
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from embercoach.finding import Finding
    from embercoach.report.locations import Placed
    from embercoach.report.outcome import SourceTexts


def fingerprints(
    findings: Sequence[Finding],
    sources: SourceTexts,
    name: Callable[[str], str] = os.path.normpath,
) -> tuple[str, ...]:
    """A fingerprint for each finding of a run; take all of a run's, as their order counts.

    Args:
        findings: sorted, as a run gives them.
        sources: the files' texts.
        name: what a shown path stands as in the fingerprint.
    """
    return of_places([(finding.code, finding) for finding in findings], sources, name)


def of_places(
    places: Iterable[tuple[str, Placed]],
    sources: SourceTexts,
    name: Callable[[str], str] = os.path.normpath,
) -> tuple[str, ...]:
    """Digests of code, file, the line's text without its spacing, and the turn among equals.

    The number of a notebook's cell is not part of it, so that cells may come and go.

    Args:
        places: code, and what has a place.
        sources: the files' texts.
        name: what a shown path stands as in the fingerprint.
    """
    seen: Counter[str] = Counter()
    made = []
    for code, one in places:
        line = " ".join(sources.index(one.path, one.cell).line(one.line).split())
        key = f"{code}\0{name(one.path).replace(os.sep, '/')}\0{line}"
        seen[key] += 1
        data = f"{key}\0{seen[key]}".encode(errors="backslashreplace")
        made.append(blake2b(data, digest_size=16).hexdigest())
    return tuple(made)
