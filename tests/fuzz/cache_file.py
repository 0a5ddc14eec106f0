"""The cache's file, with a digest that holds: a repository may bring one along."""

from __future__ import annotations

import json
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

from embercoach.engine.cache import FOLDER, Cache, States, _digest
from embercoach.engine.check_run import joined, reported
from embercoach.engine.file_discovery import SourceFile
from embercoach.engine.inspection import Inspector
from embercoach.engine.verdict import Judge
from embercoach.report.outcome import SourceTexts
from tests.fuzz import seeds
from tests.fuzz.mutation import json_mutation
from tests.fuzz.soundness import require_reports, sampled, settings
from tests.fuzz.target import Target, require

FINGERPRINT = "0" * 24
WORDS = (
    "states",
    "entries",
    "severities",
    "checked",
    "broken",
    "failed",
    "skipped",
    "a.py",
    "error",
)


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="embercoach-fuzz-")).resolve()
    (folder / FOLDER).mkdir()
    return folder


@cache
def _documents() -> tuple[Any, ...]:
    """Caches as JSON: the header, and the payloads one after another."""
    documents = []
    for program in seeds.python_programs()[:40:4]:
        folder = Path(tempfile.mkdtemp(prefix="embercoach-fuzz-")).resolve()
        (folder / "a.py").write_text(program, encoding="utf-8")
        kept = Cache(folder, FINGERPRINT, States(1 << 62))
        for name in ("a.py", "b.py"):
            path = folder / name
            kept.put(str(path), Inspector().inspect(program.encode(), path))
        kept.severities["DTYPE-001", "ember", "loop"] = "error"
        kept.save()
        _, header, body = (folder / FOLDER / f"results-{FINGERPRINT}").read_bytes().split(b"\n", 2)
        table = json.loads(header)
        payloads = [json.loads(body[start:end]) for *_, start, end in table["entries"].values()]
        documents.append([table, payloads])
    return tuple(documents)


def _content(data: bytes) -> bytes:
    """A file of a cache: of a document its parts with places that fit, of other data itself."""
    try:
        table, payloads = json.loads(data)
        body = b""
        for entry, payload in zip(table["entries"].values(), payloads, strict=False):
            text = json.dumps(payload).encode()
            if sampled(data, 4):  # else what the table says
                entry[3:] = [len(body), len(body) + len(text)]
            body += text
        rest = json.dumps(table).encode() + b"\n" + body
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        rest = data
    return _digest([rest]) + b"\n" + rest


def _execute(data: bytes) -> None:
    folder = _folder()
    (folder / FOLDER / f"results-{FINGERPRINT}").write_bytes(_content(data))
    kept = Cache(folder, FINGERPRINT, States(time.time_ns()))
    judge, results = Judge(settings(), kept.severities), []
    for name, entry in list(kept.entries.items())[:8]:
        inspection = kept.get(str(folder / name), entry.digest)
        if inspection is not None:
            results.append(reported(judge, SourceFile(folder / name, name), inspection))
    if sampled(data, 16):
        require_reports(joined(results), SourceTexts({}))
    require(all(isinstance(name, str) for name in kept.entries), "a path that is no text")


TARGET = Target(
    "cache", lambda: map(json.dumps, _documents()), json_mutation(_documents, WORDS), _execute
)
