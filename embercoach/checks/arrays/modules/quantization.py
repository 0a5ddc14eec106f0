"""NN-012: layers that ``nn.quantize`` cannot quantize."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis import mlx_api
from embercoach.analysis.evaluate.members import member
from embercoach.analysis.values.inheritance import is_layer, lineage
from embercoach.analysis.values.joins import any_item, options
from embercoach.analysis.values.lattice import Dict, Instance, LibraryObject, Sequence
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import ClassInfo
    from embercoach.analysis.facts.facts import Fact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.lattice import Value

#: What ``nn.quantize`` passes by keyword.
_PASSED = ("group_size", "bits", "mode")


@check("NN-012")
def without_mode(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``def to_quantized(self, group_size, bits)`` of a layer without others in it."""
    if "def to_quantized" not in module.source:
        return
    for info in module.functions:
        cls = info.cls
        if cls is None or info.name != "to_quantized" or cls.frame is None or not is_layer(cls):
            continue
        if not isinstance(info.node, cst.FunctionDef) or not info.is_method:
            continue
        if any(parameter.star == "**" for parameter in info.parameters):
            continue
        names = {parameter.name for parameter in info.parameters}
        lacking = [name for name in _PASSED if name not in names]
        if lacking and not _has_layers(cls, module):
            yield Report(
                "NN-012",
                info.node.name,
                cls.frame.place()._replace(statement=info.node),
                message=f"`to_quantized()` lacks `{lacking[-1]}`, which `nn.quantize()` passes",
                help=f"Add `{lacking[-1]}`, and pass it to `mx.quantize()`",
                context="default",
            )


def _has_layers(cls: ClassInfo, module: Module) -> bool:
    """Return whether a layer holds others: ``nn.quantize`` asks those instead."""
    names = {name for base in lineage(cls) for name in base.setters}
    return any(_is_layer(member(module.frame, Instance(cls), name)) for name in names)


def _is_layer(value: Value) -> bool:
    for option in options(value):
        inner = any_item(option) if type(option) is Sequence else option
        inner = inner.item if type(inner) is Dict else inner
        if type(inner) is Instance and is_layer(inner.info):
            return True
        if type(inner) is LibraryObject and mlx_api.is_layer(inner.cls):
            return True
    return False
