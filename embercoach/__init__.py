"""EmberCoach: a static analyzer for MLX programs and Metal kernels."""

from __future__ import annotations

from importlib.metadata import version as _version


def __getattr__(name: str) -> str:
    if name == "__version__":
        return _version("embercoach")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
