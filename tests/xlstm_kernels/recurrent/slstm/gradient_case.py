"""A call of the sLSTM with cotangents: its gradients, what they should be, and the judgement."""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from tests.xlstm_kernels.conftest import wide
from tests.xlstm_kernels.recurrent.slstm.gradient_oracle import Gradients, gradients
from tests.xlstm_kernels.recurrent.slstm.inputs import Inputs
from xlstm_kernels.recurrent.slstm.sequence import slstm

# Relative L2 errors in float32: of i, f, z and o, of R and b, of y, c, n and m.
BARS = {
    "i": 5e-6, "f": 1e-5, "z": 5e-6, "o": 5e-6, "R": 5e-6, "b": 5e-6,
    "y": 5e-6, "c": 5e-6, "n": 5e-6, "m": 1e-5,
}  # fmt: skip
OPTIONS = {"exact": {}, "clipped": {"clipval": 0.3}, "cut": {"cut": True}}


@dataclass(frozen=True, slots=True)
class Case:
    """The arguments of a call, and the cotangents of its two results."""

    inputs: Inputs
    initial: mx.array
    cotangents: tuple[mx.array, mx.array]
    mask: mx.array | None = None
    seq_idx: mx.array | None = None

    @property
    def arrays(self) -> list[mx.array]:
        return [*self.inputs, self.initial]

    def expected(self, **options: object) -> Gradients:
        of_states, of_last = map(wide, self.cotangents)
        mask = None if self.mask is None else wide(self.mask).astype(bool)
        cotangents = of_states, of_last[:, :, 0]
        return gradients(*map(wide, self.arrays), cotangents, mask=mask, **options)

    def run(self, device: str, **options: object) -> tuple[list[mx.array], list[mx.array]]:
        """Both results, and the gradients."""
        named = {f"gradient_recurrent_{name}": value for name, value in options.items()}
        steps = {"mask": self.mask, "seq_idx": self.seq_idx}

        def call(*arrays):
            return slstm(*arrays, **steps, backend=device, **named)

        return mx.vjp(call, self.arrays, list(self.cotangents))

    def computed(self, device: str, **options: object) -> list[mx.array]:
        return self.run(device, **options)[1]


def parts(wx, r, b, initial) -> dict:
    names = dict(zip("ifzo", (wx[:, :, gate] for gate in range(4)), strict=True))
    states = dict(zip("ycnm", (initial[k] for k in range(4)), strict=True))
    return names | {"R": r, "b": b} | states


def judge(
    found: list[mx.array],
    expected: Gradients,
    bars: dict[str, float] = BARS,
    *,
    together: bool = False,
) -> None:
    """Each gradient by its own size, or all by the size of all."""
    wanted = parts(expected.wx, expected.r, expected.b, expected.initial)
    for name, gradient in parts(*found).items():
        assert gradient.shape == wanted[name].shape
        actual, size = wide(gradient), np.linalg.norm(wanted[name])
        if together:
            size = np.linalg.norm([np.linalg.norm(part) for part in wanted.values()])
        assert np.all(np.isfinite(actual)), name
        error = np.linalg.norm(actual - wanted[name])
        assert error <= bars[name] * size, f"{name}: {error:.2e} of {size:.2e}"
