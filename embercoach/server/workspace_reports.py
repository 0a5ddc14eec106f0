"""Diagnostics that an editor asks for: of open documents with ids, and of all files, one by one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from msgspec import Struct

from embercoach.server.jobs import CheckFile, FileOutcome, ListFiles, Listing
from embercoach.server.pool import JobError
from embercoach.server.projects import Stamp, stamp_of
from embercoach.server.wire import WARNING, Diagnostic, line_diagnostic

if TYPE_CHECKING:
    from lsprotocol import types

    from embercoach.server.service import Service


def result_id(found: Sequence[Diagnostic]) -> str:
    """Return the id of diagnostics: the same for the same ones."""
    return blake2b(json.dumps(found, sort_keys=True).encode(), digest_size=16).hexdigest()


def report(found: Sequence[Diagnostic], previous: str | None) -> dict[str, Any]:
    """Return a full report, or that nothing has changed since the one with the id ``previous``."""
    known = result_id(found)
    if known == previous:
        return unchanged(known)
    return {"kind": "full", "resultId": known, "items": found}


def unchanged(known: str) -> dict[str, Any]:
    """Return the report that diagnostics have not changed."""
    return {"kind": "unchanged", "resultId": known}


#: Reports of one partial result.
BATCH = 16
#: Seconds after which files are looked at again where the editor reports no change.
LOOK_AGAIN = 30.0
#: Seconds that further changes are waited for.
SETTLE = 0.3
_PROGRESS = "$/progress"
_Report = dict[str, Any]


class _Known(Struct, frozen=True):
    """The id of a file's latest report, and what it depends on."""

    key: str
    stamps: dict[str, Stamp]
    result_id: str

    def is_latest(self, key: str, now: _Stamps) -> bool:
        return self.key == key and all(now.of(path) == at for path, at in self.stamps.items())


class _Stamps:
    """Stamps of files, each read once."""

    def __init__(self) -> None:
        self._known: dict[str, Stamp] = {}

    def of(self, path: str) -> Stamp:
        if path not in self._known:
            self._known[path] = stamp_of(Path(path))
        return self._known[path]


class WorkspaceReports:
    """The reports of one session; an answer without news waits until something changes."""

    def __init__(self, service: Service) -> None:
        """Make one that has reported nothing."""
        self._service = service
        self._known: dict[Path, _Known] = {}
        self._changed = asyncio.Event()
        self._turn = asyncio.Lock()
        self._is_answered = False
        self._logged: tuple[str, ...] = ()

    def change(self) -> None:
        """Take note that files may have changed."""
        self._changed.set()

    async def answer(self, params: types.WorkspaceDiagnosticParams) -> _Report:
        """Report all files, or those that changed; wait for a change where none has.

        Raises:
            asyncio.CancelledError: the editor has cancelled the request.
        """
        sending = _Sending(self._service, params.partial_result_token)
        progress = _Progress(self._service, params.work_done_token)
        while True:
            async with self._turn:
                self._changed.clear()
                try:
                    async for one in self._reports(params.previous_result_ids, progress):
                        sending.add(one)
                finally:
                    progress.end()
                if sending.has_news or not self._is_answered:
                    self._is_answered = True
                    return sending.answer()
                sending.drop()
            try:
                await asyncio.wait_for(self._changed.wait(), LOOK_AGAIN)
                await asyncio.sleep(SETTLE)
            except asyncio.TimeoutError:
                continue

    async def _reports(
        self, earlier: Sequence[types.PreviousResultId], progress: _Progress
    ) -> AsyncIterator[_Report]:
        listing = await self._listing()
        if listing is None:
            return
        previous = {unquote(one.uri): one.value for one in earlier}
        stamps = _Stamps()
        seen = set()
        for number, file in enumerate(listing.files):
            progress.report(number, len(listing.files))
            if number % BATCH == 0:
                await asyncio.sleep(0)  # other messages come first
            one = await self._service.open_report(file.path, previous)
            if one is None:
                one = await self._of_file(file.path, file.key, previous, stamps)
            seen.add(unquote(one["uri"]))
            yield one
        self._known = {f.path: self._known[f.path] for f in listing.files if f.path in self._known}
        for former in earlier:
            if unquote(former.uri) not in seen and not self._service.is_open(former.uri):
                # The file is gone, or excluded now.
                yield {"uri": former.uri, "version": None, "kind": "full", "items": []}

    async def _listing(self) -> Listing | None:
        """Return the files of the workspace; None if they cannot be listed, which is logged."""
        folders = self._service.folders()
        try:
            listing: Listing = await self._service.run("workspace", ListFiles(folders))
        except JobError as error:
            self._log((f"workspace diagnostics: {error}",))
            return None
        messages = listing.problems
        if listing.omitted:
            messages = (*messages, f"workspace diagnostics omit {listing.omitted:,} files")
        self._log(messages)
        return listing

    def _log(self, messages: tuple[str, ...]) -> None:
        """Log the problems of a round, unless they are those of the round before."""
        if messages != self._logged:
            self._logged = messages
            for message in messages[:BATCH]:
                self._service.protocol.log(message)

    async def _of_file(
        self, path: Path, key: str, previous: dict[str, str], stamps: _Stamps
    ) -> _Report:
        uri = path.as_uri()
        before = previous.get(unquote(uri))
        known = self._known.get(path)
        head = {"uri": uri, "version": None}
        if known is not None and known.result_id == before and known.is_latest(key, stamps):
            return {**head, **unchanged(known.result_id)}
        own = stamps.of(str(path))
        try:
            outcome: FileOutcome = await self._service.run(uri, CheckFile(path))
        except JobError as error:
            found = line_diagnostic(str(error), WARNING, code="not-checked")
            outcome = FileOutcome([found], ())
        depends = {str(path): own} | {other: stamps.of(other) for other in outcome.dependencies}
        self._known[path] = _Known(key, depends, result_id(outcome.diagnostics))
        return {**head, **report(outcome.diagnostics, before)}


class _Sending:
    """The reports of an answer: in parts, if the editor takes them so."""

    def __init__(self, service: Service, token: int | str | None) -> None:
        self._service = service
        self._token = token
        self._items: list[_Report] = []
        self.has_news = False

    def add(self, one: _Report) -> None:
        self.has_news = self.has_news or one["kind"] == "full"
        self._items.append(one)
        if self.has_news and len(self._items) >= BATCH:
            self._flush()

    def drop(self) -> None:
        self._items = []

    def answer(self) -> _Report:
        self._flush()
        return {"items": self._items}

    def _flush(self) -> None:
        if self._token is not None and self._items:
            value = {"items": self._items}
            self._service.protocol.notify_plain(_PROGRESS, {"token": self._token, "value": value})
            self._items = []


class _Progress:
    """The progress of the first round, if the editor shows it."""

    def __init__(self, service: Service, token: int | str | None) -> None:
        self._service = service
        self._token = token
        self._is_begun = False

    def report(self, done: int, total: int) -> None:
        if done % BATCH:
            return
        shown = {"message": f"{done} of {total} files", "percentage": 100 * done // total}
        if self._is_begun:
            self._send({"kind": "report", **shown})
        else:
            self._send({"kind": "begin", "title": "EmberCoach", "cancellable": True, **shown})
        self._is_begun = True

    def end(self) -> None:
        if self._is_begun:
            self._send({"kind": "end"})
        self._token = None

    def _send(self, value: dict[str, Any]) -> None:
        if self._token is not None:
            params = {"token": self._token, "value": value}
            self._service.protocol.notify_plain(_PROGRESS, params)
