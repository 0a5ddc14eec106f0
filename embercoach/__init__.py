"""EmberCoach: a static analyzer for MLX programs and Metal kernels."""

from __future__ import annotations


def __getattr__(name: str) -> str:
    if name == "__version__":
        # Not at the top: reading metadata takes longer than starting does otherwise.
        from importlib.metadata import version

        return version("embercoach")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
