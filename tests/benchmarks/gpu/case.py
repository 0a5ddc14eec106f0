"""A call of an operator with what it gives by definition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Case:
    """A call of an operator.

    Attributes:
        name: operator, shape and options.
        call: takes the inputs and `backend`, returns the outputs.
        inputs: draws the inputs.
        values: the outputs by definition; takes the inputs.
        gradients: of as many inputs as there are, by definition; takes inputs and cotangents.
        states: so many inputs, the last ones, are float32 whatever the dtype of the others.
        judged: of the inputs, which elements of the first output count: 1 or 0, broadcast.
        digits: the outputs are the parts of a DoubleFloat, `values` is their sum, and this is its
            greatest error, in parts of its greatest number.
    """

    name: str
    call: Callable[..., Sequence[mx.array]]
    inputs: Callable[[np.random.Generator], Sequence[Numbers]]
    values: Callable[..., Sequence[Numbers]]
    gradients: Callable[[Sequence[Numbers], Sequence[Numbers]], Sequence[Numbers]]
    states: int = 0
    judged: Callable[..., Numbers] | None = None
    digits: float | None = None


def normal(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], Sequence[Numbers]]:
    return lambda generator: [generator.standard_normal(shape) for shape in shapes]
