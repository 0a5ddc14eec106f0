"""Every piece of advice, by subject."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.benchmarks.advice import barriers, division, reductions, staging, streams, threadgroups
from tests.benchmarks.advice.piece import Piece

#: Takes whether inputs are large; each subject is measured in one process.
SUBJECTS: dict[str, Callable[[bool], Iterator[Piece]]] = {
    "streams": streams.pieces,
    "threadgroups": threadgroups.pieces,
    "division": division.pieces,
    "barriers": barriers.pieces,
    "reductions": reductions.pieces,
    "staging": staging.pieces,
}
