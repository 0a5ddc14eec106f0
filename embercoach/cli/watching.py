"""``embercoach check --watch``: a check, and another one whenever something changes."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from multiprocessing import resource_tracker
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, NoReturn

import click
from msgspec import Struct

from embercoach.cli.entry import CLEAN, UserError
from embercoach.config import DEFAULT_EXCLUDE, ConfigError
from embercoach.config.configuration_files import SHARED_FILE, folder_of, searched
from embercoach.config.patterns import PathPatterns
from embercoach.engine import workers
from embercoach.engine.checkouts import Plan
from embercoach.engine.languages import SUFFIXES
from embercoach.engine.workers import safe_path
from embercoach.files import OWN_FILE, relative_path
from embercoach.installation import install_command
from embercoach.plugins.loading import PluginRequest, requested
from embercoach.report.styled import print_text

if TYPE_CHECKING:
    from embercoach.cli.flow import CheckRequest

#: Names of files that decide on what is checked, and how.
DECIDING = (OWN_FILE, SHARED_FILE, ".gitignore")
#: Milliseconds after which a watcher that nothing has reached shows that it is there.
ALIVE = 100
#: Seconds that an interrupted check may take to end.
GRACE = 5.0


class Places(Struct, frozen=True):
    """The watched paths, all absolute.

    Attributes:
        deep: folders that were given.
        flat: folders of files that were given, or that decide: what lies in them directly.
        files: files that count whatever they are called.
    """

    deep: frozenset[str]
    flat: frozenset[str]
    files: frozenset[str]


class Watcher:
    """Reports changed paths from separate threads until it is stopped."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._excluded = {root: PathPatterns(DEFAULT_EXCLUDE, Path(root)) for root in places.deep}
        self._news: SimpleQueue[set[str] | Exception] = SimpleQueue()
        self._stop = threading.Event()
        self._ready = [
            self._start(paths, recursive=paths is places.deep)
            for paths in (places.deep, places.flat)
            if paths
        ]

    def _start(self, paths: Iterable[str], *, recursive: bool) -> threading.Event:
        ready = threading.Event()
        arguments = (sorted(paths), recursive, ready)
        threading.Thread(target=self._watch, args=arguments, daemon=True).start()
        return ready

    def _watch(self, paths: list[str], recursive: bool, ready: threading.Event) -> None:
        from watchfiles import watch

        def counts(_: object, path: str) -> bool:
            return self._counts(path)

        try:
            for changes in watch(
                *paths,
                watch_filter=counts,
                stop_event=self._stop,
                rust_timeout=ALIVE,
                yield_on_timeout=True,
                raise_interrupt=False,
                recursive=recursive,
            ):
                ready.set()
                if changes:
                    self._news.put({path for _, path in changes})
        except Exception as error:  # noqa: BLE001  (raised by the main thread)
            self._news.put(error)
        finally:
            ready.set()

    def _counts(self, path: str) -> bool:
        """Return whether a change may change findings."""
        name = os.path.basename(path)  # noqa: PTH119  (as the rest of the paths here)
        if path in self._places.files:
            return True
        root = next((root for root in self._places.deep if path.startswith(root + os.sep)), None)
        if root is None:
            return name in DECIDING
        if self._excluded[root].match_below(path):
            return False
        # Moving a folder does not report its files.
        return name in DECIDING or name.endswith(SUFFIXES) or "." not in name

    def wait_until_ready(self) -> None:
        """Wait until nothing that changes from now on is missed."""
        for ready in self._ready:
            ready.wait()

    def changed(self) -> list[str]:
        """Wait for changes, and return the paths.

        Raises:
            UserError: the system lets no more be watched.
        """
        paths: set[str] = set()
        while not (paths and self._news.empty()):
            news = self._news.get()
            if isinstance(news, Exception):
                raise UserError(f"cannot watch for changes: {news}")
            paths |= news
        return sorted(paths)

    def stop(self) -> None:
        """Let the threads end."""
        self._stop.set()


def watch(request: CheckRequest) -> int:
    """Check until the user interrupts; return the exit code."""
    try:
        import watchfiles  # noqa: F401
    except ImportError as error:
        message = f"--watch requires watchfiles: {install_command('watch')}"
        raise UserError(message) from error
    workers.raise_dropped()
    try:
        _rounds(request)
    except KeyboardInterrupt:
        return CLEAN


def _rounds(request: CheckRequest) -> NoReturn:
    watcher: Watcher | None = None
    watched: Places | None = None
    cause = "Checking."
    while True:
        places = _places(request)
        if watcher is None or places != watched:
            if watcher is not None:
                watcher.stop()
            watcher, watched = Watcher(places), places
        if not request.fix:
            # Fixes cause another round, which must not clear their report.
            click.clear()
        _tell(request, cause)
        _check_apart(request)
        watcher.wait_until_ready()
        _tell(request, "Watching for changes; Ctrl-C ends.")
        cause = _cause(watcher.changed())


def _tell(request: CheckRequest, words: str) -> None:
    if not request.quiet:
        print_text(f"[{time.strftime('%H:%M:%S')}] {words}", sys.stderr)


def _cause(paths: list[str]) -> str:
    first = relative_path(paths[0])
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"{first}{more} changed; checking."


def _places(request: CheckRequest) -> Places:
    paths = request.paths or (".",)
    given = [_as_reported(path) for path in paths]
    deep = frozenset(path for path in given if os.path.isdir(path))  # noqa: PTH112
    files = {path for path in given if path not in deep}
    deciding: set[Path | None] = {request.config}
    try:
        plan = Plan(paths, request.configurations())
    except ConfigError as error:
        # The check reports it. A change of the file, or in its folder, may correct it.
        deciding |= {error.path, error.absent}
    else:
        deciding |= {path for one in plan.mistakes for path in (one.path, one.absent)}
        for scope in plan.scopes:
            deciding |= {scope.settings.baseline, *(file.path for file in scope.chain.files)}
    files |= {_as_reported(path) for path in deciding if path is not None}
    flat = {folder for path in given for folder in searched(str(folder_of(path)))}
    flat |= {os.path.dirname(path) for path in files}  # noqa: PTH120
    outside = {folder for folder in flat if not _below(folder, deep)}
    there = frozenset(folder for folder in outside if os.path.isdir(folder))  # noqa: PTH112
    return Places(deep, there, frozenset(files))


def _as_reported(path: str | Path) -> str:
    """Return a path as the system reports it: absolute, links of its folders resolved."""
    absolute = os.path.abspath(path)  # noqa: PTH100
    if os.path.isdir(absolute):  # noqa: PTH112
        return os.path.realpath(absolute)
    folder, name = os.path.split(absolute)
    return os.path.join(os.path.realpath(folder), name)  # noqa: PTH118


def _below(path: str, folders: frozenset[str]) -> bool:
    return any(path == folder or path.startswith(folder + os.sep) for folder in folders)


def _check_apart(request: CheckRequest) -> None:
    """Check in a separate process, which frees its memory and has no other threads."""
    if sys.platform != "win32":  # which has no resource tracker
        with safe_path():
            resource_tracker.ensure_running()
    process = multiprocessing.get_context("spawn").Process(
        target=_check, args=(request, requested())
    )
    try:
        with safe_path(), _uninterrupted():
            process.start()
        process.join()
    except KeyboardInterrupt:
        if process.pid is not None:  # it was started
            process.join(GRACE)
        raise
    finally:
        if process.is_alive():
            process.kill()


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let an interrupt wait; and in a process that is started meanwhile, until it lets it come."""
    came = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: came.set())
    try:
        # This is for the new process: here a watcher's thread would take the signal.
        with workers.blocked():
            yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came.is_set():
        raise KeyboardInterrupt


def _check(request: CheckRequest, plugins: PluginRequest) -> None:
    from embercoach.cli.entry import guarded
    from embercoach.cli.flow import execute
    from embercoach.cli.shared_options import load_plugins

    def check() -> int:
        workers.raise_dropped()
        workers.unblock()
        try:
            load_plugins(plugins)
            return execute(request)
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    code = guarded(check, debug=request.debug)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
