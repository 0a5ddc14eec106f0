"""The keys of the configuration: the one place where they are named, typed and described."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from embercoach.config import values
from embercoach.config.settings import DEFAULT_EXCLUDE, SimulatorSettings

if TYPE_CHECKING:
    from embercoach.config.values import Type

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
    Key("profile", values.PROFILE, "How loudly rules speak: their severities.", "recommended"),
    Key("select", values.SELECTORS, f"The rules that are on: {_RULES}.", ["ALL"]),
    Key(
        "extend-select",
        values.SELECTORS,
        f"Rules that are on beside the selected ones: {_RULES}.",
        [],
    ),
    Key(
        "ignore",
        values.SELECTORS,
        f"Rules that are off: {_RULES}. The longer of two beginnings wins.",
        [],
    ),
    Key(
        "exclude",
        values.PATTERNS,
        "What folders are not searched for, in gitignore's language; instead of the default.",
        list(DEFAULT_EXCLUDE),
    ),
    Key("extend-exclude", values.PATTERNS, "What is excluded beside `exclude`.", []),
    Key(
        "per-file-ignores",
        values.PATTERN_SELECTORS,
        "From patterns of files to the rules that are off in them; `!pattern` is all other files.",
        {},
    ),
    Key(
        "per-file-profiles",
        values.PATTERN_PROFILES,
        "From patterns of files to their profile; the last that matches counts.",
        {},
    ),
    Key("show-notes", values.BOOLEAN, "Whether notes are listed, and not only counted.", False),
    Key(
        "respect-gitignore",
        values.BOOLEAN,
        "Whether what git ignores is passed over.",
        True,
    ),
    Key(
        "max-file-size",
        values.POSITIVE,
        "Megabytes of source that a file may hold: a larger one is a problem. By default 4 for "
        "Python, 2 for the code cells of a notebook, 1 for Metal and Objective-C.",
    ),
    Key(
        "baseline",
        values.PATH,
        "A file of findings that are known and let be, in this file's folder or below.",
    ),
    Key(
        "kernel-builders",
        values.KERNEL_BUILDERS,
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
        values.PATH,
        "A clang to use instead of the one in the package ziglang. Needs --allow-compiler.",
    ),
    Key(
        "timeout", values.POSITIVE, "Seconds that a launch may compile and run.", _SIMULATOR.timeout
    ),
    Key(
        "memory",
        values.POSITIVE,
        "Gigabytes that all buffers of a launch may take together.",
        _SIMULATOR.memory / GIGABYTE,
    ),
    Key("checks", values.BOOLEAN, "Whether memory accesses are checked.", _SIMULATOR.checks),
    Key(
        "allow",
        values.KINDS,
        "Kinds of findings, or their rules' codes, that are no fault in this project.",
        [],
    ),
)
