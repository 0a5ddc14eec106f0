"""The keys of the configuration: the one place where they are named, typed and described."""

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
        type: what it may be.
        about: what it does, in a sentence or two.
        default: what holds where nothing is said, as TOML would say it; None for nothing.
    """

    name: str
    type: Type
    about: str
    default: Any = None


_RULES = "codes, beginnings of codes, or ALL"

KEYS = (
    Key(
        "profile", setting_types.PROFILE, "How loudly rules speak: their severities.", "recommended"
    ),
    Key("select", setting_types.SELECTORS, f"The rules that are on: {_RULES}.", ["ALL"]),
    Key(
        "extend-select",
        setting_types.SELECTORS,
        f"Rules that are on beside the selected ones: {_RULES}.",
        [],
    ),
    Key(
        "ignore",
        setting_types.SELECTORS,
        f"Rules that are off: {_RULES}. The longer of two beginnings wins.",
        [],
    ),
    Key(
        "exclude",
        setting_types.PATTERNS,
        "What folders are not searched for, in gitignore's language; instead of the default.",
        list(DEFAULT_EXCLUDE),
    ),
    Key("extend-exclude", setting_types.PATTERNS, "What is excluded beside `exclude`.", []),
    Key(
        "per-file-ignores",
        setting_types.PATTERN_SELECTORS,
        "From patterns of files to the rules that are off in them; `!pattern` is all other files.",
        {},
    ),
    Key(
        "per-file-profiles",
        setting_types.PATTERN_PROFILES,
        "From patterns of files to their profile; the last that matches counts.",
        {},
    ),
    Key(
        "show-notes",
        setting_types.BOOLEAN,
        "Whether notes are listed, and not only counted.",
        False,
    ),
    Key(
        "respect-gitignore",
        setting_types.BOOLEAN,
        "Whether what git ignores is passed over.",
        True,
    ),
    Key(
        "max-file-size",
        setting_types.POSITIVE,
        "Megabytes of source that a file may hold: a larger one is a problem. By default 4 for "
        "Python, 2 for the code cells of a notebook, 1 for Metal and Objective-C.",
    ),
    Key(
        "baseline",
        setting_types.PATH,
        "A file of findings that are known and let be, in this file's folder or below.",
    ),
    Key(
        "kernel-builders",
        setting_types.KERNEL_BUILDERS,
        "The project's wrappers of mx.fast.metal_kernel: from dotted names in quotes to tables "
        "that say which of its parameters are which of metal_kernel's.",
        {},
    ),
)

SIMULATOR = "simulator"
SIMULATOR_ABOUT = "How `embercoach simulate` compiles, runs and judges kernels."
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
        "Gigabytes that all buffers of a launch may take together.",
        _SIMULATOR.memory / GIGABYTE,
    ),
    Key("checks", setting_types.BOOLEAN, "Whether memory accesses are checked.", _SIMULATOR.checks),
    Key(
        "allow",
        setting_types.KINDS,
        "Kinds of findings, or their rules' codes, that are no fault in this project.",
        [],
    ),
)
