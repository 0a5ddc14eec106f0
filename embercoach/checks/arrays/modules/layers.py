"""NN-001, NN-007 and NN-012: layers without ``super().__init__()``, replaced or unquantized."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis import mlx_api
from embercoach.analysis.evaluate.members import member
from embercoach.analysis.syntax.trees import walk
from embercoach.analysis.values.inheritance import MODULE_CLASS, is_layer, lineage
from embercoach.analysis.values.lattice import (
    Dict,
    Instance,
    LibraryObject,
    Sequence,
    Symbol,
    any_item,
    options,
)
from embercoach.checks.registry import ProposedFix, Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import ClassInfo, FunctionInfo
    from embercoach.analysis.facts.facts import Fact, InstanceCallFact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.lattice import Value


@check("NN-007")
def replaced_call(fact: InstanceCallFact, module: Module) -> Iterator[Report]:
    """``layer.__call__ = f``."""
    yield Report.at(
        fact,
        "NN-007",
        message="`__call__` set on an instance: calls of the module never run it",
        help="Replace the module by one that wraps it, or set `__call__` of a subclass",
    )


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


#: Classes of a file that are fixed: the place of each is searched.
MOST_FIXED = 20


@check("NN-001")
def no_super_init(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``class Model(nn.Module)`` whose ``__init__`` leaves out ``super().__init__()``."""
    found = 0
    for info in module.functions:
        cls = info.cls
        if cls is None or info.name != "__init__" or cls.frame is None or not is_layer(cls):
            continue
        if not isinstance(info.node, cst.FunctionDef) or _initializes(info.node):
            continue
        found += 1
        yield Report(
            "NN-001",
            info.node.name,
            cls.frame.place()._replace(statement=info.node),
            message=f"`{cls.name}.__init__()` does not call `super().__init__()`",
            help="Call `super().__init__()` first: it creates what `freeze` and training need",
            context="default",
            change=_call_first(info, cls, module) if found <= MOST_FIXED else None,
        )


def _initializes(node: cst.FunctionDef) -> bool:
    """Test whether a constructor calls another one, sets the state itself, raises, or is `...`."""
    last = _last(node)
    if last and isinstance(last[-1], cst.Expr) and isinstance(last[-1].value, cst.Ellipsis):
        return True
    for inner in walk(node.body):
        if isinstance(inner, cst.Raise) and inner in last:
            return True
        if isinstance(inner, cst.Attribute) and inner.attr.value in ("__init__", "_no_grad"):
            return True
    return False


def _last(node: cst.FunctionDef) -> tuple[cst.CSTNode, ...]:
    suite = node.body
    last = suite if isinstance(suite, cst.SimpleStatementSuite) else suite.body[-1]
    simple = (cst.SimpleStatementLine, cst.SimpleStatementSuite)
    return tuple(last.body) if isinstance(last, simple) else ()


def _call_first(info: FunctionInfo, cls: ClassInfo, module: Module) -> ProposedFix | None:
    """Insert the call before the first statement that is not the docstring."""
    if cls.bases != (Symbol(MODULE_CLASS),) or not isinstance(info.node.body, cst.IndentedBlock):
        return None
    for line in info.node.body.body:
        if not isinstance(line, cst.SimpleStatementLine):
            return None
        first = line.body[0]
        if isinstance(first, cst.Expr) and isinstance(first.value, cst.SimpleString):
            continue
        column = module.parsed.spans({first: first})[first].column
        text = f"super().__init__()\n{' ' * column}{module.parsed.code(first)}"
        return ProposedFix("Call `super().__init__()`", False, ((first, text),))
    return None
