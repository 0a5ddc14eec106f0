"""The keys of the configuration: their names, types, descriptions and defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from embercoach.config import setting_types
from embercoach.config.settings import DEFAULT_EXCLUDE, SimulatorSettings

if TYPE_CHECKING:
    from embercoach.config.setting_types import Type

GIGABYTE = 1 << 30
_SIMULATOR = SimulatorSettings()


@dataclass(frozen=True, slots=True)
class Key:
    """A setting.

    Attributes:
        name: as configuration files have it.
        type: the values that it accepts.
        about: its description, in a sentence or two.
        default: the default as in TOML; None for none.
    """

    name: str
    type: Type
    about: str
    default: Any = None


_RULES = "codes, prefixes of codes, or ALL"

KEYS = (
    Key("profile", setting_types.PROFILE, "The severities of rules.", "recommended"),
    Key("select", setting_types.SELECTORS, f"The rules that are on: {_RULES}.", ["ALL"]),
    Key(
        "extend-select",
        setting_types.SELECTORS,
        f"Rules that are on in addition to the selected ones: {_RULES}.",
        [],
    ),
    Key(
        "ignore",
        setting_types.SELECTORS,
        f"Rules that are off: {_RULES}. The longer of two prefixes applies.",
        [],
    ),
    Key(
        "exclude",
        setting_types.PATTERNS,
        "Patterns of skipped files and folders, as in gitignore; they replace the default.",
        list(DEFAULT_EXCLUDE),
    ),
    Key("extend-exclude", setting_types.PATTERNS, "Patterns in addition to `exclude`.", []),
    Key(
        "per-file-ignores",
        setting_types.PATTERN_SELECTORS,
        "The rules that are off in files, by pattern; `!pattern` means all other files.",
        {},
    ),
    Key(
        "per-file-profiles",
        setting_types.PATTERN_PROFILES,
        "The profile of files, by pattern; the last matching pattern applies.",
        {},
    ),
    Key(
        "show-notes",
        setting_types.BOOLEAN,
        "List notes, instead of only counting them.",
        False,
    ),
    Key(
        "respect-gitignore",
        setting_types.BOOLEAN,
        "Skip files that git ignores.",
        True,
    ),
    Key(
        "max-file-size",
        setting_types.POSITIVE,
        "Maximal megabytes of source in a file: a larger one is a problem. By default 4 for "
        "Python, 2 for the code cells of a notebook, 1 for Metal and Objective-C.",
    ),
    Key(
        "baseline",
        setting_types.PATH,
        "A file of known findings, which are not reported, in this file's folder or below.",
    ),
    Key(
        "kernel-builders",
        setting_types.KERNEL_BUILDERS,
        "Wrappers of mx.fast.metal_kernel: quoted dotted names, each with a table that maps "
        "parameters of metal_kernel to those of the wrapper.",
        {},
    ),
)

SIMULATOR = "simulator"
SIMULATOR_ABOUT = "How `embercoach simulate` compiles, runs and checks kernels."
SIMULATOR_KEYS = (
    Key(
        "compiler",
        setting_types.PATH,
        "A clang to use instead of the one in the package ziglang. Needs --allow-compiler.",
    ),
    Key(
        "timeout",
        setting_types.POSITIVE,
        "Seconds that a launch may compile and run.",
        _SIMULATOR.timeout,
    ),
    Key(
        "memory",
        setting_types.POSITIVE,
        "Maximal gigabytes of all buffers of a launch.",
        _SIMULATOR.memory / GIGABYTE,
    ),
    Key("checks", setting_types.BOOLEAN, "Check memory accesses.", _SIMULATOR.checks),
    Key(
        "allow",
        setting_types.KINDS,
        "Kinds of findings, or codes of rules, that are allowed in this project.",
        [],
    ),
)
