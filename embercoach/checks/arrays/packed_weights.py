"""QUANT-001: sizes of packed weights, by a formula that is exact for some numbers of bits alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import libcst as cst

from embercoach.analysis.dataflow.contents import Contents, contents_of
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.dataflow.scopes import bindings_at, bodies_of
from embercoach.analysis.dataflow.value_sources import Source
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import dotted, evaluated
from embercoach.analysis.values.facts import Fact
from embercoach.checks.registry import ProposedFix, Report, check

#: Bits of the elements that MLX packs into words of 32 bits.
_BITS = (2, 3, 4, 5, 6, 8)
#: A size that all of them pack without a rest.
_SIZE = 1920
#: Operations and names that are followed, one in the other.
_DEEPEST = 8
#: Functions of MLX that take packed weights, and the one that makes them.
_TAKING = frozenset(("dequantize", "quantized_matmul", "gather_qmm", "qqmm"))
QUANTIZING = frozenset((*_TAKING, "quantize"))


_Operation = cst.BinaryOperation | cst.AugAssign


class _Formula(NamedTuple):
    """The value of a formula, and the paths of the sizes and bits in it."""

    value: int
    sizes: tuple[str, ...] = ()
    bits: tuple[str, ...] = ()

    def joined(self, other: _Formula, value: int) -> _Formula:
        """Return a formula of the parts of two."""
        return _Formula(value, self.sizes + other.sizes, self.bits + other.bits)


@check("QUANT-001")
def inexact_packing(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``input_dims *= 32 // linear.bits``, ``head_dim // (32 // bits)``."""
    if "bits" not in module.source or "quantize" not in module.source.lower():
        return
    for function, contents in bodies_of(module):
        if not any(name.endswith("bits") for name in contents.names) or _restricts(contents):
            continue
        found: set[cst.CSTNode] = set()
        nodes: list[_Operation] = contents.of(cst.BinaryOperation, cst.AugAssign)
        for node in nodes:
            if not isinstance(node.operator, _OPERATORS):
                continue
            if not found.isdisjoint(contents.above(node)):
                continue
            left, _ = _operands(node)
            source = Source(left, contents.statement_of(node), function, module)
            inexact = _inexact_for(node, source)
            if not inexact:
                continue
            found.add(node)
            yield Report.at(
                source,
                node=node,
                message=f"size of packed weights is incorrect for {_listed(inexact)} bits",
                help=_HELP,
                context="default",
                change=_multiply_first(node, module),
            )


_HELP = "Multiply first: `packed * 32 // bits`, and `size * bits // 32`"
_MULTIPLIES = (cst.Multiply, cst.MultiplyAssign)
_DIVIDES = (cst.FloorDivide, cst.FloorDivideAssign)
_OPERATORS = (*_MULTIPLIES, *_DIVIDES)


def _restricts(contents: Contents) -> bool:
    """Return whether code asks which numbers of bits it gets: ``bits in (2, 4, 8)``."""
    for node in contents.of(cst.Comparison):
        operator = node.comparisons[0].operator
        if isinstance(operator, (cst.In, cst.NotIn)) and _is_bits(node.left):
            return True
    rests = (n for n in contents.of(cst.BinaryOperation) if isinstance(n.operator, cst.Modulo))
    return any(_is_bits(node.right) for node in rests)


def _is_bits(node: cst.CSTNode) -> bool:
    return isinstance(node, (cst.Name, cst.Attribute)) and last_name(node).endswith("bits")


def _listed(bits: list[int]) -> str:
    return f"{', '.join(map(str, bits[:-1]))} and {bits[-1]}" if len(bits) > 1 else str(bits[0])


def _operands(node: _Operation) -> tuple[cst.BaseExpression, cst.BaseExpression]:
    if isinstance(node, cst.AugAssign):
        return node.target, node.value
    return node.left, node.right


def _inexact_for(node: _Operation, source: Source) -> list[int]:
    """Return the bits that a formula is not exact for, if it is for 4."""
    for packs in (False, True):
        results = {bits: _operation(node, source, bits, packs=packs) for bits in _BITS}
        usual = results[4]
        if usual is None or len(usual.sizes) != 1 or len(set(usual.bits)) != 1:
            continue
        exact = {bits: _SIZE * bits // 32 if packs else _SIZE for bits in _BITS}
        others = [b for b, result in results.items() if result is None or result.value != exact[b]]
        if 4 not in others and others and _is_of_mlx(source, usual, packs=packs):
            return others
    return []


def _computed(source: Source, bits: int, *, packs: bool, depth: int = _DEEPEST) -> _Formula | None:
    """Compute a formula for a number of bits.

    Args:
        source: the formula.
        bits: the bits of an element.
        packs: it is of the size before packing; else of that of the packed weight.
        depth: operations and names that may be followed.
    """
    node = source.node
    if depth == 0:
        return None
    if isinstance(node, cst.BinaryOperation):
        return _operation(node, source, bits, packs=packs, depth=depth)
    if isinstance(node, cst.Integer):
        value = evaluated(node)
        return _Formula(value) if isinstance(value, int) else None
    path = dotted(node)
    if path is not None and path.endswith(("uint32.size", "uint32.itemsize")):
        return _Formula(4)
    bound = _binding(source, node.value) if isinstance(node, cst.Name) else None
    if _is_bits(node) and not (bound and isinstance(bound[0].node, cst.Integer)):
        return _Formula(bits, (), (_path(source),))
    if bound is not None and bound[1] is None:
        return _computed(bound[0], bits, packs=packs, depth=depth - 1)
    if packs:
        is_size = isinstance(node, (cst.Name, cst.Attribute, cst.Subscript))
        return _Formula(_SIZE, (path or "",)) if is_size else None
    owner, axis = _axis(source, bound)
    if owner is None:
        return None
    return _Formula(1) if axis == 0 else _Formula(_SIZE * bits // 32, (_path(owner),))


def _operation(
    node: _Operation, source: Source, bits: int, *, packs: bool, depth: int = _DEEPEST
) -> _Formula | None:
    if not isinstance(node.operator, _OPERATORS):
        return None
    left, right = _operands(node)
    first = _computed(source.at(left), bits, packs=packs, depth=depth - 1)
    second = _computed(source.at(right), bits, packs=packs, depth=depth - 1)
    if first is None or second is None:
        return None
    if isinstance(node.operator, _MULTIPLIES):
        return first.joined(second, first.value * second.value)
    return first.joined(second, first.value // second.value) if second.value else None


def _binding(source: Source, name: str) -> tuple[Source, int | None] | None:
    """Return the one value that a name is bound to, with its place in that where it is unpacked."""
    bound = bindings_at(name, source.statement, source.function, source.module)
    if bound is None or len(bound.bindings) != 1:
        return None
    binding = bound.bindings[0]
    if binding.value is None or binding.kind not in ("assigned", "unpacked"):
        return None
    if binding.kind == "unpacked" and binding.index is None:
        return None
    value = Source(binding.value, binding.statement, bound.function, source.module)
    return value, binding.index if binding.kind == "unpacked" else None


def _path(source: Source) -> str:
    """Return the path of an attribute, also of one that a name is bound to; empty for others."""
    node = source.node
    if isinstance(node, cst.Name):
        bound = _binding(source, node.value)
        if bound is not None and bound[1] is None:
            return _named(bound[0].node) or node.value
    return _named(node)


def _named(node: cst.CSTNode) -> str:
    """Return the path of ``layer.bits`` and ``getattr(layer, "bits", 4)``."""
    if isinstance(node, cst.Call) and dotted(node.func) == "getattr" and len(node.args) > 1:
        name = node.args[1].value
        text = evaluated(name) if isinstance(name, cst.SimpleString) else None
        owner = dotted(node.args[0].value)
        return f"{owner}.{text}" if owner and isinstance(text, str) else ""
    return dotted(node) or ""


def _axis(source: Source, bound: tuple[Source, int | None] | None) -> tuple[Source | None, int]:
    """Return the array whose axis, or whose size, an expression is, and which: -1 for the size."""
    node, index = source.node, -1
    if isinstance(node, cst.Attribute):
        return (source.at(node.value) if node.attr.value == "size" else None), index
    if isinstance(node, cst.Subscript):
        part = node.slice[0].slice if len(node.slice) == 1 else None
        literal = part.value if isinstance(part, cst.Index) else None
        if isinstance(literal, cst.Integer):
            index = int(literal.value)
        elif not isinstance(literal, cst.UnaryOperation):
            return None, index
        source = source.at(node.value)
    elif bound is not None and bound[1] is not None:
        source, index = bound[0], bound[1]
    shape = source.node
    if not isinstance(shape, cst.Attribute) or shape.attr.value != "shape":
        return None, index
    return source.at(shape.value), index


def _is_of_mlx(source: Source, formula: _Formula, *, packs: bool) -> bool:
    """Return whether MLX packs the weights: the code passes both to it, or a layer has both."""
    weight, bits = formula.sizes[0], formula.bits[0]
    function = source.function
    while function is not None and function.outer is not None and function.cls is None:
        function = function.outer
    body: cst.CSTNode = source.module.tree if function is None else function.node.body
    if function is not None and function.cls is not None and bits.startswith("self."):
        body = function.cls.node
    for call in contents_of(body).calls:
        if last_name(call) not in (QUANTIZING if packs else _TAKING):
            continue
        passed = (argument.value for argument in call.args)
        statement = source.statement
        given = {_path(Source(one, statement, function, source.module)) for one in passed}
        if bits in given and (packs or weight in given):
            return True
    owner, _, name = weight.rpartition(".")
    return not packs and name == "weight" and owner not in ("", "self") and bits == f"{owner}.bits"


def _multiply_first(node: _Operation, module: Module) -> ProposedFix | None:
    """Return the fix of ``size *= 32 // bits`` and ``size * (32 // bits)``."""
    left, right = _operands(node)
    if not isinstance(node.operator, _MULTIPLIES) or not isinstance(right, cst.BinaryOperation):
        return None
    if not isinstance(right.operator, cst.FloorDivide) or getattr(right.left, "value", "") != "32":
        return None
    code = module.parsed.code
    product = f"{code(left)} * 32 // {code(right.right)}"
    if isinstance(node, cst.AugAssign):
        text = f"{code(left)} = {product}"
    else:
        text = "(" * len(node.lpar) + product + ")" * len(node.rpar)
    return ProposedFix("Multiply before the division", safe=False, edits=((node, text),))
