"""The keys of the configuration: the one place where they are named, typed and described."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from embercoach.config import setting_types
from embercoach.config.required_version import REQUIRED_VERSION
from embercoach.config.settings import DEFAULT_EXCLUDE, SimulatorSettings
from embercoach.rulebook import RULES_URL

if TYPE_CHECKING:
    from embercoach.config.setting_types import SettingType

GIGABYTE = 1 << 30
EXTEND = "extend"
BASELINE = "baseline"
_SIMULATOR = SimulatorSettings()


class Key(Struct, frozen=True):
    """A setting.

    Attributes:
        name: as configuration files have it.
        type: what it may be.
        about: what it does, in a sentence or two.
        default: what holds where nothing is said, as TOML would say it; None for nothing.
    """

    name: str
    type: SettingType
    about: str
    default: Any = None


_RULES = "codes, prefixes of codes, or ALL"

KEYS = (
    Key("profile", setting_types.PROFILE, "The profile: severities of rules.", "recommended"),
    Key("select", setting_types.SELECTORS, f"Enabled rules: {_RULES}.", ["ALL"]),
    Key(
        "extend-select",
        setting_types.SELECTORS,
        f"Rules enabled in addition to `select`: {_RULES}.",
        [],
    ),
    Key(
        "ignore",
        setting_types.SELECTORS,
        f"Disabled rules: {_RULES}. The longer of two prefixes wins.",
        [],
    ),
    Key(
        "exclude",
        setting_types.PATTERNS,
        "Excluded files and folders, in gitignore's syntax; replaces the default.",
        list(DEFAULT_EXCLUDE),
    ),
    Key(
        "extend-exclude",
        setting_types.PATTERNS,
        "Patterns excluded in addition to `exclude`.",
        [],
    ),
    Key(
        "per-file-ignores",
        setting_types.PATTERN_SELECTORS,
        "Rules to disable by pattern of files; `!pattern` matches all other files.",
        {},
    ),
    Key(
        "per-file-profiles",
        setting_types.PATTERN_PROFILES,
        "Profiles by pattern of files; the last match counts.",
        {},
    ),
    Key(
        "severity",
        setting_types.SELECTOR_SEVERITIES,
        f"Severities by rule instead of the profile's, in every context: {_RULES}. "
        "The longest prefix wins.",
        {},
    ),
    Key("show-notes", setting_types.BOOLEAN, "Whether notes are listed.", False),
    Key(
        "respect-gitignore",
        setting_types.BOOLEAN,
        "Whether files that git ignores are excluded.",
        True,
    ),
    Key(
        "max-file-size",
        setting_types.POSITIVE,
        "Limit of a file in megabytes (default: 4 for Python, 2 for notebooks, 1 for Metal).",
    ),
    Key(
        BASELINE,
        setting_types.PATH,
        "A file of known findings, in this folder or below.",
    ),
    Key(
        "kernel-builders",
        setting_types.KERNEL_BUILDERS,
        "Wrappers of mx.fast.metal_kernel: tables of their parameters by quoted dotted name.",
        {},
    ),
    Key(
        "rules-url",
        setting_types.RULES_URL_TYPE,
        "URL of a rule's page in reports, terminals and editors, with `{code}`; empty: no links.",
        RULES_URL,
    ),
    Key(
        EXTEND,
        setting_types.TOML_FILE,
        "Another configuration file of the project, relative to this one, to build on.",
    ),
    Key(
        REQUIRED_VERSION,
        setting_types.REQUIRED_VERSION_TYPE,
        "Versions of EmberCoach that this file is for, such as `>=0.1`. Others exit with 2.",
    ),
)

SIMULATOR = "simulator"
SIMULATOR_ABOUT = "Settings of `embercoach simulate`."
SIMULATOR_KEYS = (
    Key(
        "compiler",
        setting_types.PATH,
        "A clang instead of that of the package ziglang. Requires --allow-compiler.",
    ),
    Key(
        "timeout",
        setting_types.POSITIVE,
        "Timeout in seconds for compiling and running a launch.",
        _SIMULATOR.timeout,
    ),
    Key(
        "memory",
        setting_types.POSITIVE,
        "Limit of all buffers of a launch in gigabytes.",
        _SIMULATOR.memory / GIGABYTE,
    ),
    Key("checks", setting_types.BOOLEAN, "Whether memory accesses are checked.", _SIMULATOR.checks),
    Key(
        "allow",
        setting_types.KINDS,
        "Kinds of findings, or codes, that this project allows.",
        [],
    ),
)
