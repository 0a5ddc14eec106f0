"""Settings of folders: those of the nearest file, then the command line on top."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from embercoach.config.configuration_files import ConfigFile, folder_of, own, read, searched
from embercoach.config.errors import ConfigError, ConfigWarning
from embercoach.config.extension import ConfigChain, chain_of
from embercoach.config.schema import KEYS, SIMULATOR, Layer, layer_by_key
from embercoach.config.selectors import enabled_codes
from embercoach.config.setting_types import PATTERN_SELECTORS
from embercoach.config.settings import DEFAULT_EXCLUDE, Settings
from embercoach.files import is_inside
from embercoach.rulebook import RULES_URL

#: A variable of the environment; see `compiler_allowed`.
ALLOW_COMPILER = "EMBERCOACH_ALLOW_COMPILER"


class Overrides(Struct, frozen=True):
    """The command line's say; None or empty where an option was not given."""

    profile: str | None = None
    select: tuple[str, ...] | None = None
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] | None = None
    extend_exclude: tuple[str, ...] = ()
    #: Pattern and rule, instead of the file's.
    per_file_ignores: tuple[tuple[str, str], ...] = ()
    show_notes: bool | None = None
    respect_gitignore: bool | None = None
    max_file_size: float | None = None
    #: A file, from the current folder; the empty text for none at all.
    baseline: str | None = None
    #: Whether a file's `simulator.compiler` counts; None where nothing is simulated.
    allow_compiler: bool | None = None


class ConfigurationScope(Struct, frozen=True, eq=False):
    """One configuration, with the settings that it and the command line give.

    Attributes:
        settings: those in force.
        file: the configuration file, None where there is none.
        chain: the same with the files that it extends.
        top: what the command line says.
        warnings: probable mistakes in the file.
    """

    settings: Settings
    file: ConfigFile | None = None
    chain: ConfigChain = field(default_factory=ConfigChain)
    top: Layer = field(default_factory=Layer)
    warnings: tuple[ConfigWarning, ...] = ()

    @property
    def base(self) -> Layer:
        """The settings of the file and of those that it extends."""
        return self.chain.layer


class Configurations:
    """The configuration of each folder: the nearest file at or above it, with no other merged in.

    Each file is read once, and each folder is looked up once.
    """

    def __init__(
        self,
        overrides: Overrides | None = None,
        *,
        config: Path | None = None,
        isolated: bool = False,
    ) -> None:
        """Take the command line's options.

        Args:
            overrides: options that go before what files say.
            config: a configuration file to use everywhere, instead of searching.
            isolated: use no configuration file.

        Raises:
            ConfigError: a mistake in an option, or in the file that is used everywhere.
        """
        self._overrides = overrides or Overrides()
        self._top = _layer(self._overrides)
        self._nearest: dict[str, ConfigurationScope | ConfigError] = {}
        self._own: dict[str, ConfigurationScope | ConfigError | None] = {}
        self._warnings: dict[ConfigWarning, None] = {}
        self._without: ConfigurationScope | None = None
        self._everywhere: ConfigurationScope | None = None
        if isolated:
            self._everywhere = self._unconfigured()
        elif config is not None:
            # A named file need not lie in the project: patterns start at the current folder.
            self._everywhere = self._scope(read(config), Path.cwd())

    @classmethod
    def fixed(cls, settings: Settings) -> Configurations:
        """Return the same settings for every folder."""
        made = cls(isolated=True)
        made._everywhere = ConfigurationScope(settings)
        return made

    @property
    def warnings(self) -> tuple[ConfigWarning, ...]:
        """Probable mistakes in the files that were read so far."""
        return tuple(self._warnings)

    def of(self, path: str) -> ConfigurationScope:
        """Return the configuration of a file or folder, as the user named it.

        Raises:
            ConfigError: a mistake in its configuration file.
        """
        return self.nearest(str(folder_of(path)))

    def found(self, path: str) -> ConfigurationScope | ConfigError:
        """Return the configuration of a file or folder, or the error in it."""
        try:
            return self.of(path)
        except ConfigError as error:
            return error

    def nearest(self, folder: str) -> ConfigurationScope:
        """Return the configuration of the files in a folder, by its absolute path.

        Raises:
            ConfigError: a mistake in its configuration file.
        """
        if self._everywhere is not None:
            return self._everywhere
        found: ConfigurationScope | ConfigError | None = None
        passed = []
        for candidate in searched(folder):
            found = self._nearest.get(candidate)
            if found is None:
                passed.append(candidate)
                found = self._in(candidate)
            if found is not None:
                break
        found = found or self._unconfigured()
        self._nearest.update(dict.fromkeys(passed, found))
        if isinstance(found, ConfigError):
            raise found
        return found

    def holding(self, place: str) -> ConfigurationScope | None:
        """Return the configuration of a file, by its absolute path; None if it is invalid."""
        try:
            return self.nearest(os.path.dirname(place))  # noqa: PTH120  (hot)
        except ConfigError:
            return None

    def roots(self, folder: str) -> list[str]:
        """Return where the patterns start that hold at a folder or above it, nearest first."""
        if self._everywhere is not None:
            return [str(self._everywhere.settings.root)]
        found = map(self._in, searched(folder))
        return [
            str(scope.settings.root) for scope in found if isinstance(scope, ConfigurationScope)
        ]

    def _in(self, folder: str) -> ConfigurationScope | ConfigError | None:
        """Return the configuration in a folder itself."""
        if folder not in self._own:
            try:
                file, warning = own(folder)
                if warning is not None:
                    self._warnings[warning] = None
                self._own[folder] = None if file is None else self._scope(file, Path(folder))
            except ConfigError as error:
                self._own[folder] = error
        return self._own[folder]

    def _unconfigured(self) -> ConfigurationScope:
        if self._without is None:
            self._without = self._scope(None, Path.cwd())
        return self._without

    def _scope(self, file: ConfigFile | None, root: Path) -> ConfigurationScope:
        chain = chain_of(file) if file else ConfigChain()
        settings = _settings(chain, self._top, root, file)
        warnings = tuple(_warnings(file, chain, settings, self._overrides)) if file else ()
        if not self._overrides.allow_compiler:
            settings = replace(settings, simulator=replace(settings.simulator, compiler=None))
        self._warnings.update(dict.fromkeys(warnings))
        return ConfigurationScope(settings, file, chain, self._top, warnings)


def load(
    paths: Sequence[str],
    overrides: Overrides | None = None,
    *,
    config: Path | None = None,
    isolated: bool = False,
) -> tuple[ConfigurationScope, ...]:
    """Get the configurations of some paths, each once; the arguments are those of `Configurations`.

    Raises:
        ConfigError: a mistake in a file or an option.
    """
    configurations = Configurations(overrides, config=config, isolated=isolated)
    return tuple(dict.fromkeys(map(configurations.of, paths)))


def compiler_allowed() -> bool:
    """Return whether the environment lets a project's file choose the simulator's compiler."""
    return os.environ.get(ALLOW_COMPILER, "") not in ("", "0")


def _warnings(
    file: ConfigFile, chain: ConfigChain, settings: Settings, given: Overrides
) -> Iterator[ConfigWarning]:
    if file.table.get("select") == [] and not settings.enabled:
        line = file.line_of(("select",))
        yield ConfigWarning("select is empty: no rule is enabled", file.path, line)
    if settings.simulator.compiler is not None and given.allow_compiler is False:
        place = (SIMULATOR, "compiler")
        file = chain.saying(place)[-1]
        line = file.line_of(place)
        message = f"simulator.compiler is ignored without --allow-compiler or {ALLOW_COMPILER}=1"
        yield ConfigWarning(message, file.path, line)


def _layer(overrides: Overrides) -> Layer:
    said = asdict(overrides)
    del said["allow_compiler"]
    ignores: dict[str, list[str]] = {}
    for pattern, code in said.pop("per_file_ignores"):
        ignores.setdefault(pattern, []).append(code)
    try:
        for key in KEYS:
            name = key.name.replace("-", "_")
            if value := said.get(name):
                said[name] = key.type.check([*value] if isinstance(value, tuple) else value)
        said["per_file_ignores"] = PATTERN_SELECTORS.check(ignores)
    except ConfigError as error:
        raise ConfigError(f"command line: {error.message}") from error
    return layer_by_key(said)


def _settings(chain: ConfigChain, top: Layer, root: Path, file: ConfigFile | None) -> Settings:
    base = chain.layer
    exclude = top.exclude if top.exclude is not None else base.exclude
    if exclude is None:
        exclude = DEFAULT_EXCLUDE
    return Settings(
        root=root,
        source=file.path if file else None,
        profile=top.profile or base.profile or "recommended",
        enabled=enabled_codes((*chain.selections, top.selection)),
        per_file_ignores=top.per_file_ignores or base.per_file_ignores,
        # A profile on the command line is for every file.
        per_file_profiles=() if top.profile else base.per_file_profiles,
        severities=base.severity,
        exclude=(*exclude, *base.extend_exclude, *top.extend_exclude),
        respect_gitignore=_first(top.respect_gitignore, base.respect_gitignore, default=True),
        max_file_size=top.max_file_size or base.max_file_size,
        show_notes=_first(top.show_notes, base.show_notes, default=False),
        simulator=base.simulator,
        kernel_builders=base.kernel_builders,
        baseline=_baseline(top.baseline, base.baseline, root, file),
        rules_url=RULES_URL if base.rules_url is None else base.rules_url,
    )


def _baseline(
    named: str | None, configured: str | None, root: Path, file: ConfigFile | None
) -> Path | None:
    if named is not None:
        return Path(os.path.abspath(named)) if named else None  # noqa: PTH100
    if configured is None:
        return None
    place = Path(os.path.normpath(root / configured))
    # Whoever sends a change of the file must not have others read, or overwritten.
    if file is not None and not is_inside(place, str(root)):
        message = (
            f"baseline must be in this file's folder, got '{configured}'; --baseline allows it"
        )
        raise ConfigError(message, file.path, file.line_of(("baseline",)))
    return place


def _first(*values: bool | None, default: bool) -> bool:
    return next((value for value in values if value is not None), default)
