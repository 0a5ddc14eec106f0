"""Run the selected tests in a seeded order until a time is up, and name what repeats a failure.

    python -m pytest -n auto -m exhaustive --sample-seconds 120 --sample-seed 7

The seed is drawn if none is given, and it seeds Hypothesis too. With xdist, all workers have the
same order, and each one starts no test after the time. The summary counts the others.
"""

from __future__ import annotations

import random
import secrets
import shlex
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xdist.workermanage import WorkerController

#: What a worker gets, and what it answers: how many tests it was given after the time.
SEED, LEFT = "sample_seed", "sample_left"


def add_options(parser: pytest.Parser) -> None:
    """Add the options of the sample."""
    group = parser.getgroup("sample", "a seeded sample under a time budget")
    group.addoption("--sample-seconds", type=float, help="start no test after this many seconds")
    group.addoption("--sample-seed", type=int, help="the order of the tests; default: drawn")


def choose_seed(config: pytest.Config) -> None:
    """Draw the seed, or take the controller's in a worker, before Hypothesis reads its own."""
    option = config.option
    if option.sample_seconds is None:
        return
    if option.sample_seed is None:
        given = getattr(config, "workerinput", {}).get(SEED)
        option.sample_seed = secrets.randbelow(1_000_000) if given is None else given
    if option.hypothesis_seed is None:
        option.hypothesis_seed = str(option.sample_seed)
    config.pluginmanager.register(Sample(option.sample_seconds, option.sample_seed), "sample")


class Sample:
    """The plugin of one process: a worker, the controller, or a run without xdist."""

    def __init__(self, seconds: float, seed: int) -> None:
        self.seconds = seconds
        self.seed = seed
        self.end: float | None = None
        self.left = 0

    @pytest.hookimpl(trylast=True)  # after `-m` has chosen
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        random.Random(self.seed).shuffle(items)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self) -> bool | None:
        """Skip a test, without a report, after the time."""
        now = time.monotonic()
        self.end = self.end or now + self.seconds
        if now < self.end:
            return None
        self.left += 1
        return True

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[LEFT] = self.left

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: WorkerController) -> None:
        node.workerinput[SEED] = self.seed

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: WorkerController) -> None:
        self.left += getattr(node, "workeroutput", {}).get(LEFT, 0)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        stats = terminalreporter.stats
        ran = sum(len(stats.get(one, ())) for one in ("passed", "failed", "skipped", "xfailed"))
        terminalreporter.write_line(
            f"seeded sample: {ran} of {ran + self.left} tests in {self.seconds:g} s, "
            f"--sample-seed {self.seed}"
        )
        profile = terminalreporter.config.option.hypothesis_profile
        for command in repeating(failed_tests(stats), self.seed, profile):
            terminalreporter.write_line(f"repeat: {command}")


def failed_tests(stats: dict[str, list[pytest.TestReport]]) -> list[str]:
    """Return the names of the tests with a failure or an error, each once."""
    reports = [*stats.get("failed", ()), *stats.get("error", ())]
    return list(dict.fromkeys(report.nodeid for report in reports))


def repeating(names: Iterable[str], seed: int, profile: str | None) -> list[str]:
    """Return a command for each test that runs it again with the same examples."""
    chosen = [f"--hypothesis-profile={profile}"] if profile else []
    return [
        shlex.join(["python", "-m", "pytest", "-m", "", f"--hypothesis-seed={seed}", *chosen, name])
        for name in names
    ]
