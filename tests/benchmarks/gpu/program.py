"""A timed call of an operator, with its comparisons."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

import mlx.core as mx

from tests.benchmarks.gpu.figures import FORWARD, TRAINING

Shape = tuple[int, ...]
Shapes = tuple[Shape, ...]

#: The mLSTM is not measured in float32 where batch x steps are more than this.
MOST_FLOAT32 = 2**13


@dataclass(frozen=True, slots=True)
class Program:
    """An operator at one size.

    Attributes:
        operator: its name with its options.
        shape: the size, in the terms of its group.
        ours: takes the inputs and `backend`; returns an array, or a tuple for a step.
        inputs: shapes and dtypes; None is the dtype that is measured.
        output: shape and dtype of the cotangent; None for a step, which has no backward pass.
        others: by contestant, the same operator.
        moved: elements that a forward pass reads and writes; None where arithmetic is the limit.
        moved_states: elements of 4 bytes that are read and written too, such as float32 states.
        compiled: comparisons are wrapped in `mx.compile`; ours are on GPUs in any case.
        forget: the position of the forget gate among the inputs, which is raised by 3.
        like: an operator of the same group and shape that has the comparisons of this one.
        only: the dtype of its inputs, whichever dtypes are measured; None for any.
    """

    operator: str
    shape: Shape
    ours: Callable[..., object]
    inputs: tuple[tuple[Shape, mx.Dtype | None], ...]
    output: tuple[Shape, mx.Dtype | None] | None
    others: dict[str, Callable[..., object]] = field(default_factory=dict)
    moved: int | None = None
    moved_states: int = 0
    compiled: bool = True
    forget: int | None = None
    like: str | None = None
    only: str | None = None

    def passes(self, dtypes: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Dtypes and kinds of work that are measured, in the order of the table."""
        big = len(self.shape) == 5 and self.shape[0] * self.shape[2] > MOST_FLOAT32
        for dtype in dtypes if self.only is None else [self.only]:
            if not (big and dtype == "float32"):
                yield dtype, FORWARD
                if self.output is not None:
                    yield dtype, TRAINING

    def draw(self, dtype: mx.Dtype) -> list[mx.array]:
        """Normally distributed inputs; their bits for inputs that are uint32."""
        drawn = []
        for position, (shape, own) in enumerate(self.inputs):
            numbers = mx.random.normal(shape) + 3.0 * (position == self.forget)
            kind = own or dtype
            drawn.append(numbers.view(kind) if kind == mx.uint32 else numbers.astype(kind))
        return drawn

    def moved_bytes(self, dtype: mx.Dtype, work: str) -> int | None:
        """Bytes to move: a backward pass reads inputs and cotangent, and writes gradients."""
        if self.moved is None:
            return None
        elements = self.moved
        if self.output is not None and work != FORWARD:
            elements = 3 * self.moved - prod(self.output[0])
        return elements * dtype.size + self.moved_states * mx.float32.size

    def cotangent(self, dtype: mx.Dtype) -> mx.array:
        shape, own = self.output or ((), None)
        return mx.random.normal(shape).astype(own or dtype)
