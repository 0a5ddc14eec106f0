"""KERNEL-INDEX-003: one element of an array in all components of a vector."""

from __future__ import annotations

from collections.abc import Iterator

from embercoach.checks.programs.kernels import PythonKernel
from embercoach.checks.programs.metal_checks import MetalCode, MetalReport
from embercoach.checks.registry import check
from embercoach.metal.program.nodes import Spot
from embercoach.metal.program.types import SCALARS
from embercoach.metal.text_facts import Splat

CODE = "KERNEL-INDEX-003"


@check(CODE)
def splats_of_inputs(kernel: PythonKernel) -> Iterator[MetalReport]:
    """Yield vectors made of one element of an input, whose elements are scalars always."""
    if "any" in kernel.holes or not kernel.header_known:
        return
    text, names = kernel.text, kernel.text.macros.mentioned | kernel.header.names
    for splat in text.splats:
        is_input = splat.declaration is None and splat.source in (kernel.inputs or ())
        if is_input and splat.source not in names:
            yield _report(splat, text.at(splat.place))


@check(CODE)
def splats_of_pointers(code: MetalCode) -> Iterator[MetalReport]:
    """Yield vectors made of one element that a pointer to scalars points to."""
    for text in code.texts:
        for splat in text.splats:
            array = splat.declaration
            if array is None or not array.pointer or array.dimensions:
                continue
            if array.type in SCALARS and array.type not in text.names:
                yield _report(splat, text.at(splat.place))


def _report(splat: Splat, spot: Spot) -> MetalReport:
    cast = f"((const device {splat.type}*){splat.source})[i]"
    return MetalReport(
        CODE,
        spot,
        f"one element of `{splat.source}` in all components of a `{splat.type}`",
        f"Load the vector through a cast, `{cast}`, or declare a scalar",
    )
