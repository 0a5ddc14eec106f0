"""The value of ``partial(mx.compile, inputs=state)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.analysis.values.lattice import Value

if TYPE_CHECKING:
    from embercoach.analysis.facts.facts import Argument


class BoundTransform(Value, frozen=True):
    """``partial(mx.compile, inputs=state)``: a transform's name, and arguments of its call."""

    name: str
    arguments: tuple[Argument, ...]
