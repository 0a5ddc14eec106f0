"""Kernels of mlx-lm and mlx-vlm through their own wrappers, against their pure-MLX fallbacks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import metadata

import pytest

mx = pytest.importorskip("mlx.core", reason="the simulator captures what MLX generates")

from embercoach import simulator  # noqa: E402

from . import (  # noqa: E402, F401
    lm_kernels,
    lm_losses,
    lm_models,
    vlm_attention,
    vlm_mixing,
    vlm_products,
    vlm_recurrent,
    vlm_rope,
    vlm_vision,
)
from .case import CASES, VERSIONS, Case, Flaw  # noqa: E402

#: All cases take a minute; every so many of them run in the default suite.
SAMPLED = 8


def _needs(package: str) -> None:
    try:
        version = metadata.version(package)
    except metadata.PackageNotFoundError:
        pytest.skip(f"{package} is not installed: pip install {package}=={VERSIONS[package]}")
    assert version == VERSIONS[package], f"the cases describe {package} {VERSIONS[package]}"


def _package_modules() -> dict[str, object]:
    names = [name for name in sys.modules if name.partition(".")[0] in {"mlx_lm", "mlx_vlm"}]
    return {name: sys.modules.pop(name) for name in names}


@pytest.fixture(scope="module")
def recorder() -> Iterator[simulator.Recorder]:
    """Packages imported anew: many modules ask for Metal, and build kernels, when imported."""
    kept = _package_modules()
    try:
        with simulator.activate() as active:
            yield active
    finally:
        _package_modules()
        sys.modules.update(kept)


@pytest.mark.parametrize("case", CASES[::SAMPLED], ids=lambda case: case.name)
@pytest.mark.sampled(6)
def test_a_sample_matches_its_fallback(recorder: simulator.Recorder, case: Case) -> None:
    _compare(recorder, case)


@pytest.mark.corpus
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_kernel_matches_fallback(recorder: simulator.Recorder, case: Case) -> None:
    _compare(recorder, case)


def _compare(recorder: simulator.Recorder, case: Case) -> None:
    _needs(case.package)
    before = len(recorder.launches)
    outcome = case.run()
    mx.eval(list(outcome.got), list(outcome.want))
    launches = recorder.launches[before:]
    assert tuple(dict.fromkeys(launch.kernel for launch in launches)) == case.kernels
    assert len(outcome.got) == len(outcome.want)
    far = [
        f"output {i}: {text}"
        for i, (got, want) in enumerate(zip(outcome.got, outcome.want, strict=True))
        if (text := _difference(got, want, case.tolerance))
    ]
    assert bool(far) == case.differs, "\n".join(far)
    found = [f for launch in launches for f in (*launch.findings, *launch.notes)]
    assert {Flaw(f.kind, f.line or 0, f.excerpt) for f in found} == case.flaws, "\n".join(
        f"{f.kernel}:{f.line}: {f.kind}: {f.message}" for f in found
    )


def _difference(got: mx.array, want: mx.array, tolerance: float) -> str:
    """How far two arrays are apart, "" where it is within the tolerance."""
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    a, b = got.astype(mx.float32), want.astype(mx.float32)
    near = mx.isclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=False)
    if mx.all(near):
        return ""
    worst = mx.max(mx.where(near, 0.0, mx.abs(a - b)))
    return f"{mx.sum(~near).item()} of {near.size} differ, by up to {worst.item()}"
