"""The pytest plugin: ``pytest --embercoach-simulate``.

pytest loads this module in every project, so that it imports nothing of the simulator, and no MLX,
until the flag is given.
"""

from __future__ import annotations

import pytest

FLAG = "--embercoach-simulate"
MARKER = "embercoach_allow"
SESSION = "embercoach-session"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The flag, and what a project allows."""
    group = parser.getgroup("embercoach", "EmberCoach")
    group.addoption(
        FLAG,
        action="store_true",
        help="Run mx.fast.metal_kernel kernels in EmberCoach's simulator and check them: races, "
        "bounds, unwritten memory, barriers. A test fails on what is found in its launches.",
    )
    group.addoption(
        "--embercoach-no-checks",
        action="store_true",
        help="Simulate kernels, which is faster, without checking them.",
    )
    group.addoption(
        "--embercoach-profile",
        metavar="GPU",
        help="Count what simulated kernels cost, in place of the checks, and predict their times "
        "on a GPU, for example 'M2 Max'.",
    )
    parser.addini(
        MARKER,
        type="args",
        default=[],
        help="Kinds of the simulator's findings that fail no test, such as write-to-input.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """The marker, which a test may bear whether or not kernels are simulated."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(kind, ..., reason=...): kinds of findings of EmberCoach's simulator that do "
        "not fail this test, such as 'write-to-input'",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Start before any conftest or test module is imported: they may build kernels."""
    chosen = early_config.known_args_namespace
    if chosen.embercoach_simulate:
        gpu = chosen.embercoach_profile
        _start(early_config, checks=not chosen.embercoach_no_checks, gpu=gpu)
    elif chosen.embercoach_no_checks:
        raise pytest.UsageError(f"--embercoach-no-checks needs {FLAG}")
    elif chosen.embercoach_profile is not None:
        raise pytest.UsageError(f"--embercoach-profile needs {FLAG}")


def _start(config: pytest.Config, *, checks: bool, gpu: str | None) -> None:
    from embercoach.config import ConfigError
    from embercoach.simulator.model import SimulatorError
    from embercoach.simulator.session.pytest_session import SimulatedSession

    try:
        session = SimulatedSession.start(config, checks=checks, gpu=gpu)
    except (ConfigError, SimulatorError, ValueError) as error:
        raise pytest.UsageError(f"{FLAG}: {error}") from error
    config.add_cleanup(session.close)
    config.pluginmanager.register(session, SESSION)
