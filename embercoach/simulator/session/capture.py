"""The source that MLX itself generates for a launch, and the launch's geometry.

MLX writes the text while it exports a graph, without Metal and in some twenty microseconds, so
every launch is captured anew: MLX checks the arguments of each, and nothing here has to know what
the text depends on. The expensive part depends on the text alone and is cached by it (`launching`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mlx.core as mx
from msgspec import Struct

from embercoach.simulator.model import SimulatorError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

Extent = tuple[int, int, int]

#: The names of the values of `math_mode` in what MLX records.
MATH_MODES = ("safe", "relaxed", "fast")


class CapturedDefinition(Struct, frozen=True):
    """The user's arguments of `mx.fast.metal_kernel`, which a kernel is built from."""

    name: str
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    body: str
    header: str = ""


class Capture(Struct, frozen=True):
    """The arguments that MLX would pass to Metal for one launch.

    Attributes:
        definition: the kernel's.
        function: the name of the generated function.
        source: the generated text.
        grid: threads along x, y and z.
        threadgroup: threads of a threadgroup, as given; Metal gets the smaller of it and the grid.
        inputs: the arrays, made by MLX where Python scalars or NumPy arrays were given.
        infos: for each input, whether the body asks for its shape, strides and rank.
        contiguous: whether MLX copies inputs that are not row-contiguous.
        output_shapes: shape of each output.
        output_dtypes: dtype of each output.
        math_mode: one of `MATH_MODES`.
    """

    definition: CapturedDefinition
    function: str
    source: str
    grid: Extent
    threadgroup: Extent
    inputs: tuple[mx.array, ...]
    infos: tuple[tuple[bool, bool, bool], ...]
    contiguous: bool
    output_shapes: tuple[tuple[int, ...], ...]
    output_dtypes: tuple[mx.Dtype, ...]
    math_mode: str


def capture(
    kernel: Callable[..., Any],
    definition: CapturedDefinition,
    positional: Sequence[Any],
    arguments: Mapping[str, Any],
) -> Capture:
    """Let MLX check the arguments of a call and generate its source. Nothing is evaluated.

    Args:
        kernel: what the real `mx.fast.metal_kernel` returned.
        definition: what it was built from.
        positional: of the call; MLX takes none, and says so itself.
        arguments: keywords of the call.

    Raises:
        Whatever MLX raises for these arguments, unchanged.
    """
    given = arguments.get("inputs")
    inputs = list(given) if isinstance(given, (list, tuple)) else []
    arrays = [value for value in inputs if isinstance(value, mx.array)]

    def call(*examples: mx.array) -> Any:
        replaced = dict(arguments)
        if inputs:
            replaced["inputs"] = list(_with_arrays(inputs, iter(examples)))
        return kernel(*positional, **replaced)

    records: list[dict[str, Any]] = []
    mx.export_function(records.append, call, *arrays)
    return _read(records, definition, arrays)


def _with_arrays(values: Sequence[Any], arrays: Iterator[mx.array]) -> Iterator[Any]:
    for value in values:
        yield next(arrays) if isinstance(value, mx.array) else value


def _read(
    records: Sequence[Mapping[str, Any]], definition: CapturedDefinition, arrays: Sequence[mx.array]
) -> Capture:
    """Convert the records that MLX passes to an exporter."""
    try:
        (launch,) = (r for r in records if r.get("name") == "CustomKernel")
        known = dict(pair for r in records if r["type"] == "constants" for pair in r["constants"])
        names = (name for r in records if r["type"] == "inputs" for name, *_ in r["inputs"])
        known.update(zip(names, arrays, strict=True))
        function, source, gx, gy, gz, tx, ty, tz, infos, contiguous, *_, mode = launch["arguments"]
        return Capture(
            definition=definition,
            function=function,
            source=source,
            grid=(gx, gy, gz),
            threadgroup=(tx, ty, tz),
            inputs=tuple(known[name] for name, *_ in launch["inputs"]),
            infos=tuple(tuple(info) for info in infos),
            contiguous=contiguous,
            output_shapes=tuple(tuple(shape) for _, shape, _ in launch["outputs"]),
            output_dtypes=tuple(dtype for _, _, dtype in launch["outputs"]),
            math_mode=MATH_MODES[mode],
        )
    except (KeyError, IndexError, TypeError, ValueError) as error:
        version = getattr(mx, "__version__", "of unknown version")
        raise SimulatorError(
            f"MLX {version} exports custom kernels in an unsupported format "
            f"({type(error).__name__}: {error}). Update embercoach, or install MLX 0.32.4."
        ) from error
