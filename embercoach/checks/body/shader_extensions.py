"""TORCH-KERNEL-004: PyTorch extensions in Objective-C++ that only launch kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.checks.body.host_copies import uses_torch
from embercoach.checks.programs.metal_checks import MetalReport
from embercoach.checks.registry import check
from embercoach.metal.written.embedded import embedded_units

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.objective_c import ObjectiveC

#: Prefixes of classes whose operations a shader does not replace.
_OTHER_WORK = ("MPSGraph", "MPSMatrix", "MPSNDArray", "MPSCNN", "MPSImage", "MTLBlit", "MTLTexture")


@check("TORCH-KERNEL-004")
def only_launches(file: ObjectiveC) -> Iterator[MetalReport]:
    """``[device newLibraryWithSource:...]`` of text in the file, and launches of its kernels."""
    compiled = [m for m in file.messages if m.selector.startswith("newLibraryWithSource:")]
    launches = [m for m in file.messages if m.selector.startswith("dispatchThread")]
    if len(compiled) != 1 or not launches or not uses_torch(file.syntax):
        return
    names = (file.syntax.words(n) for n in file.syntax.nodes if n.type.endswith("identifier"))
    if any(name.startswith(_OTHER_WORK) for name in names):
        return
    if any(True for _ in embedded_units(file)):
        message = compiled[0]
        yield MetalReport(
            "TORCH-KERNEL-004",
            file.syntax.stretch(message.start, message.end),
            "this extension only launches kernels, which PyTorch can do without C++",
            "Pass the source to `torch.mps.compile_shader` in Python, and launch its kernels there",
        )
