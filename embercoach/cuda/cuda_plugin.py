"""The pytest plugin: ``pytest --embercoach-cuda``.

pytest loads this module in every project, so that it imports no MLX until the flag is given.
"""

from __future__ import annotations

import pytest

FLAG = "--embercoach-cuda"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flag."""
    parser.getgroup("embercoach", "EmberCoach").addoption(
        FLAG,
        action="store_true",
        help="Run mx.fast.metal_kernel kernels on the NVIDIA GPU that MLX uses.",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Start before any conftest or test module is imported: they may build kernels."""
    chosen = early_config.known_args_namespace
    if not chosen.embercoach_cuda:
        return
    if getattr(chosen, "embercoach_simulate", False):
        raise pytest.UsageError(f"{FLAG} and --embercoach-simulate exclude each other")
    from embercoach.cuda.cuda_program import start

    problem = start()
    if problem is not None:
        raise pytest.UsageError(f"{FLAG}: {problem}")
