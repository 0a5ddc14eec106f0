"""All cases, in the order in which they are measured."""

from __future__ import annotations

from tests.benchmarks.profile.case import Case
from tests.benchmarks.profile.micro import micro_cases
from tests.benchmarks.profile.pack import pack_cases
from tests.benchmarks.profile.packages import package_cases


def cases() -> dict[str, Case]:
    """The cases by name; kernels of packages only where they were recorded."""
    return {case.name: case for case in (*micro_cases(), *pack_cases(), *package_cases())}
