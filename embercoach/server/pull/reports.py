"""Reports of diagnostics that an editor asks for, with ids so that none is sent twice."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from embercoach.server.wire import Diagnostic


def result_id(found: Sequence[Diagnostic]) -> str:
    """The id of diagnostics: the same for the same ones."""
    return blake2b(json.dumps(found, sort_keys=True).encode(), digest_size=16).hexdigest()


def report(found: Sequence[Diagnostic], previous: str | None) -> dict[str, Any]:
    """A full report, or that nothing has changed since the one with the id ``previous``."""
    known = result_id(found)
    if known == previous:
        return unchanged(known)
    return {"kind": "full", "resultId": known, "items": found}


def unchanged(known: str) -> dict[str, Any]:
    """The report that diagnostics have not changed."""
    return {"kind": "unchanged", "resultId": known}
