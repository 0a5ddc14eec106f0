"""The settings of a run, after files and command line have been merged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from embercoach.rulebook import RULES_URL, static_codes

if TYPE_CHECKING:
    from embercoach.finding import Severity
    from embercoach.kernel_builder import KernelBuilder

#: Folders that hold no code of the project's own. The same as ruff's, plus our cache.
DEFAULT_EXCLUDE = (
    *(".bzr", ".direnv", ".eggs", ".embercoach_cache", ".git", ".git-rewrite", ".hg"),
    *(".ipynb_checkpoints", ".mypy_cache", ".nox", ".pants.d", ".pyenv", ".pytest_cache"),
    *(".pytype", ".ruff_cache", ".svn", ".tox", ".venv", ".vscode", "__pycache__"),
    *("__pypackages__", "_build", "buck-out", "dist", "node_modules", "site-packages", "venv"),
)


class SimulatorSettings(Struct, frozen=True):
    """How kernels are compiled, run and judged.

    Attributes:
        compiler: path of a clang to use instead of the one in the ``ziglang`` package.
        timeout: seconds that compiling, and one run of a launch, may take.
        memory: bytes that all buffers of a launch may take together.
        checks: whether memory accesses are checked.
        allow: kinds of findings that this project allows.
    """

    compiler: str | None = None
    timeout: float = 60.0
    memory: int = 2 << 30
    checks: bool = True
    allow: tuple[str, ...] = ()


class Settings(Struct, frozen=True):
    """Files and rules to check, and severities.

    Attributes:
        root: the project: folder of the configuration file, or the current one. Patterns are
            relative to it, and the cache lies in it.
        source: the configuration file, if there is one.
        profile: a name of ``severity_policy.PROFILES``.
        enabled: the selected rule codes.
        per_file_ignores: pattern and code prefixes to leave out in the files it matches.
        per_file_profiles: pattern and profile; the last match counts.
        severities: code prefix and severity, instead of the profile's; the longest prefix counts.
        exclude: patterns of files and folders that discovery skips.
        respect_gitignore: exclude files that git ignores.
        max_file_size: megabytes that a file may hold; None for each language's default.
        show_notes: list notes, instead of only counting them.
        simulator: how kernels are run.
        kernel_builders: wrappers of ``mx.fast.metal_kernel``.
        baseline: the file of findings that are known, absolute.
        rules_url: the address of a rule's page, with `{code}` in it; empty for no links.
    """

    root: Path
    source: Path | None = None
    profile: str = "recommended"
    enabled: frozenset[str] = field(default_factory=static_codes)
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    per_file_profiles: tuple[tuple[str, str], ...] = ()
    severities: tuple[tuple[str, Severity], ...] = ()
    exclude: tuple[str, ...] = DEFAULT_EXCLUDE
    respect_gitignore: bool = True
    max_file_size: float | None = None
    show_notes: bool = False
    simulator: SimulatorSettings = field(default_factory=SimulatorSettings)
    kernel_builders: tuple[KernelBuilder, ...] = ()
    baseline: Path | None = None
    rules_url: str = RULES_URL
