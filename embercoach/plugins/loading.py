"""Load plugins once a process, validate them, and add their pages to the rule book."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar, cast

from msgspec import Struct

from embercoach import rulebook
from embercoach.api import Check, RuleSet
from embercoach.plugins.discovery import (
    GROUP,
    FoundPlugin,
    PluginError,
    find,
    plugin_error,
    site_folders,
)

_T = TypeVar("_T")
#: A code: upper-case words, then three digits, joined by hyphens.
_CODE = re.compile(r"[A-Z][A-Z0-9]*(?:-[A-Z][A-Z0-9]*)*-[0-9]{3}")
_PREFIX = re.compile(r"[A-Z][A-Z0-9]+")


class PluginRequest(Struct, frozen=True):
    """The plugins that a command line asks for.

    Attributes:
        installed: load those in the environment's ``site-packages``.
        folders: more folders with installed packages, absolute; they come first.
    """

    installed: bool = True
    folders: tuple[str, ...] = ()


class Plugin(Struct, frozen=True):
    """A loaded plugin.

    Attributes:
        name: of its distribution.
        version: of its distribution.
        rules: its checks and pages.
        digest: of the name, the version, the pages and the modules next to the checks.
    """

    name: str
    version: str
    rules: RuleSet
    digest: str

    @property
    def pages(self) -> dict[str, Path]:
        """The pages by the codes of their rules."""
        return _pages(self.rules)


class _Loaded:
    """The plugins of this process, and the request that they were loaded for."""

    request: PluginRequest | None = None
    plugins: tuple[Plugin, ...] = ()


def loaded() -> tuple[Plugin, ...]:
    """Return the plugins of this process; none before :func:`load`."""
    return _Loaded.plugins


def requested() -> PluginRequest:
    """The request that this process's plugins were loaded for; before that, for installed ones."""
    return _Loaded.request or PluginRequest()


def load_installed() -> None:
    """Load the installed plugins, unless a request decided which ones.

    Raises:
        PluginError: one of them cannot be used.
    """
    load(requested())


def load(request: PluginRequest) -> None:
    """Load the plugins of a request, in place of those that were loaded before.

    Raises:
        PluginError: one of them cannot be used; none is loaded then.
    """
    if request == _Loaded.request:
        return
    register([])
    for folder in request.folders:
        if not any(find([folder])):
            raise PluginError(f"no installed package in {folder} has an entry point of {GROUP}")
    folders = [*request.folders, *(site_folders() if request.installed else ())]
    with _import_path(request.folders):
        register([_plugin(found) for found in find(folders)])
    _Loaded.request = request


def register(plugins: Iterable[Plugin]) -> None:
    """Make these the plugins of this process.

    Raises:
        PluginError: a code or a page is invalid, or two of them clash; none is registered then.
    """
    plugins = tuple(plugins)
    _Loaded.request, _Loaded.plugins = None, ()
    rulebook.replace_plugin_pages({})
    prefixes = {code.partition("-")[0]: "EmberCoach" for code in rulebook.builtin_codes()}
    prefixes["ALL"] = "EmberCoach"
    pages: dict[str, Path] = {}
    for plugin in plugins:
        _refuse_clash(plugin, prefixes)
        prefixes[plugin.rules.prefix] = plugin.name
        pages |= plugin.pages
    rulebook.replace_plugin_pages(pages)
    try:
        for plugin in plugins:
            _read_pages(plugin)
    except PluginError:
        rulebook.replace_plugin_pages({})
        raise
    _Loaded.plugins = plugins


def make_plugin(name: str, version: str, rules: Any) -> Plugin:
    """Return a plugin from its rules, with their form checked.

    Raises:
        PluginError: the object is not a valid ``RuleSet``.
    """
    if not isinstance(rules, RuleSet):
        raise plugin_error(name, f"entry point must name a RuleSet, got {type(rules).__name__}")
    problem = _form_problem(rules)
    if problem is not None:
        raise plugin_error(name, problem)
    try:
        return Plugin(name, version, rules, _digest(name, version, rules))
    except OSError as error:
        raise plugin_error(name, f"cannot be read: {error}") from error


def with_plugins(make: Callable[[], _T]) -> Callable[[], _T]:
    """Let a function load this process's plugins before, in whatever process it is called.

    Processes that do not fork start without them.
    """
    return partial(_load_and_make, _Loaded.request, make) if _Loaded.request else make


def _load_and_make(request: PluginRequest, make: Callable[[], _T]) -> _T:
    load(request)
    return make()


def _plugin(found: FoundPlugin) -> Plugin:
    try:
        rules = found.entry_point.load()
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {error}"
        raise plugin_error(
            found.name, f"cannot load {found.entry_point.value}: {reason}"
        ) from error
    return make_plugin(found.name, found.version, rules)


@contextlib.contextmanager
def _import_path(folders: tuple[str, ...]) -> Iterator[None]:
    """Import from given folders first, and meanwhile not from the folder of ``python -m``."""
    here = sys.path[:1] if not getattr(sys.flags, "safe_path", False) else []
    # Only the folder that the interpreter puts first: a user may have installed the one he is in.
    unsafe = [entry for entry in here if os.path.realpath(entry) == os.path.realpath(os.curdir)]
    del sys.path[: len(unsafe)]
    sys.path[:0] = [folder for folder in folders if folder not in sys.path]
    try:
        yield
    finally:
        sys.path[:0] = unsafe


def _form_problem(rules: RuleSet) -> str | None:
    # What is declared may not be what is there: plugins need not be type-checked.
    prefix, pages_folder = cast("Any", rules.prefix), cast("Any", rules.pages)
    if not isinstance(prefix, str) or not _PREFIX.fullmatch(prefix):
        return f"prefix must be two or more capital letters and digits, got {prefix!r}"
    if not isinstance(pages_folder, Path) or not pages_folder.is_dir():
        return f"pages must be the Path of a folder, got {pages_folder!r}"
    if not all(isinstance(check, Check) for check in rules.checks):
        return "checks must be functions with the decorator on_call or on_operation"
    codes, pages = {check.code for check in rules.checks}, _pages(rules).keys()
    for code in sorted(codes | pages):
        if not _CODE.fullmatch(code) or code.partition("-")[0] != rules.prefix:
            return f"code must be like {rules.prefix}-NAME-001, got {code!r}"
    for missing, what in ((codes - pages, "page"), (pages - codes, "check")):
        if missing:
            return f"{', '.join(sorted(missing))} has no {what}"
    return None if codes else "it has no rules"


def _pages(rules: RuleSet) -> dict[str, Path]:
    return {path.stem: path for path in _files(rules.pages, "*.md") if path.stem != "README"}


def _files(folder: Path, pattern: str) -> list[Path]:
    """Return the files of a folder, sorted; not hidden ones: those of editors come and go."""
    return sorted(path for path in folder.glob(pattern) if not path.name.startswith("."))


def _refuse_clash(plugin: Plugin, prefixes: dict[str, str]) -> None:
    """Refuse a prefix where a selector such as ``DTYPE`` would name rules of two owners."""
    own = plugin.rules.prefix
    for prefix, owner in prefixes.items():
        if own.startswith(prefix) or prefix.startswith(own):
            whose = owner if owner == "EmberCoach" else f"plugin {owner}"
            raise plugin_error(plugin.name, f"prefix {own} clashes with {prefix} of {whose}")


def _read_pages(plugin: Plugin) -> None:
    for code, path in plugin.pages.items():
        with _naming(plugin, path):
            rulebook.rule(code)


@contextlib.contextmanager
def _naming(plugin: Plugin, path: Path) -> Iterator[None]:
    try:
        yield
    except (rulebook.RulePageError, OSError, UnicodeDecodeError) as error:
        raise plugin_error(plugin.name, f"invalid page {path.name}: {error}") from error


def _digest(name: str, version: str, rules: RuleSet) -> str:
    digest = blake2b(f"{name} {version}".encode(), digest_size=12)
    folders = {rules.pages}
    for check in rules.checks:
        file = getattr(sys.modules.get(check.function.__module__), "__file__", None)
        folders |= set() if file is None else {Path(file).parent}
    for folder in sorted(folders):
        pattern = "*.md" if folder == rules.pages else "*.py"
        for path in _files(folder, pattern):
            digest.update(path.name.encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
