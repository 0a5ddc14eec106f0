"""The keyword `stream` of the operators, which places them as it does MLX's operations."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

import mlx.core as mx

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")

#: What MLX's operations take as `stream`.
StreamLike: TypeAlias = mx.Stream | mx.ThreadLocalStream | mx.Device | mx.DeviceType | None


def on_stream(function: Callable[P, R]) -> Callable[P, R]:
    """Run `function` on the `stream` of a call, which its signature names."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        stream: Any = kwargs.get("stream")
        if stream is None:
            return function(*args, **kwargs)
        with mx.stream(stream):
            return function(*args, **kwargs)

    return call
