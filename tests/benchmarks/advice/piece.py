"""A piece of advice as variants of one computation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import mlx.core as mx

from xlstm_kernels.kernel import Kernel, Launch, Setting

Call = Callable[..., Sequence[mx.array]]
Draw = Callable[[], Sequence[mx.array]]


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to compute a piece's outputs.

    Attributes:
        name: what differs from the other variants.
        call: takes the inputs and `backend`, returns the outputs.
        finding: the kind of the simulator's finding; None for a correct kernel.
        same: whether the outputs must be those of the first variant.
    """

    name: str
    call: Call
    finding: str | None = None
    same: bool = True


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of advice.

    Attributes:
        name: its section on the page.
        claim: the advice in one line.
        draw: the inputs.
        variants: the first one is the base of ratios.
        streams: whether it is about streams: timed on any device, never simulated.
    """

    name: str
    claim: str
    draw: Draw
    variants: tuple[Variant, ...]
    streams: bool = False


def kernel(
    name: str,
    inputs: str,
    outputs: str,
    launch: Callable[..., Launch],
    init_value: float | None = None,
) -> Callable[[str], Kernel]:
    """Make a kernel of a body; inputs and outputs are words."""

    def of_body(body: str) -> Kernel:
        names = (tuple(inputs.split()), tuple(outputs.split()))
        return Kernel(name, *names, body, launch, init_value=init_value)

    return of_body


def of_kernel(
    name: str, kernel: Kernel, *, finding: str | None = None, **settings: Setting
) -> Variant:
    """A variant that launches one kernel."""
    return Variant(name, partial(kernel, **settings), finding)
