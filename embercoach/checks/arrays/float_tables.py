"""DTYPE-020 and 023: float32 tables and masks that promote the activations of a model."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from embercoach.analysis.calls.call_results import model_dtype
from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.lazy_evaluation import evaluation_of
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.dataflow.value_sources import Source, Sources, sources_of
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import dotted, targets_of
from embercoach.analysis.values.facts import BinaryFact, CallFact, Fact, Operand, calls_of
from embercoach.analysis.values.inheritance import is_layer
from embercoach.analysis.values.lattice import Array, as_array
from embercoach.analysis.values.memo import kept_for_file
from embercoach.analysis.work import MOST_STEPS
from embercoach.checks.arrays.dtype import is_cast_back, may_be_parameter
from embercoach.checks.arrays.half_precision import ATTENTION
from embercoach.checks.arrays.quantized_layers import sources_around
from embercoach.checks.registry import Report, check

#: Words of the names of tables, by the operator that applies them to activations.
_TABLES = {
    "*": {"cos": "rotary table", "sin": "rotary table", "mask": "mask"},
    "+": {
        **dict.fromkeys(("pos", "position", "positional", "pe"), "positional table"),
        **dict.fromkeys(("mask", "alibi"), "mask"),
    },
}
_HELP = "Cast the table: `.astype(x.dtype)`"


@check("DTYPE-020")
def float_table(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``x * cos + rotate_half(x) * sin`` with float32 tables, in a model."""
    if module.is_test or not has_layers(module):
        return
    seen: set[tuple[int, str]] = set()
    for fact in facts:
        if type(fact) is not BinaryFact or fact.operator not in _TABLES:
            continue
        function = fact.place.function
        if function is None or function.name == "__init__":
            continue
        for value, table in ((fact.left, fact.right), (fact.right, fact.left)):
            kind = _kind(fact, value, table, module)
            if kind is None or (id(function), kind) in seen or is_cast_back(fact, module):
                continue
            is_layer_method = function.cls is not None and is_layer(function.cls)
            if fact.operator == "*" and kind == "mask" and not is_layer_method:
                continue  # of a loss, which is summed in float32
            if _is_of_parameters(fact, table.node, module):
                continue
            seen.add((id(function), kind))
            yield Report.at(
                fact,
                node=table.node,
                message=f"float32 {kind} promotes half-precision activations to float32",
                help=_HELP,
                context="avoidable" if is_half_nearby(module) else "minor",
                subject=table.node,
            )


def _kind(fact: BinaryFact, value: Operand, table: Operand, module: Module) -> str | None:
    """Return what a float32 array is by its name, if the other is of unknown dtype."""
    if value.array is None or value.array.dtype is not None or value.array.literal:
        return None
    kinds = _TABLES[fact.operator]
    kind = next((kinds[word] for word in words_of(table.node) if word in kinds), None)
    if kind is None or not value.array.traced or may_be_parameter(fact, table.node):
        return None
    if not _LOSSES.isdisjoint(words_of(value.node)):
        return None  # losses are summed in float32
    if table.array is not None and table.array.dtype == "float32":
        return None if table.array.scalar else kind
    sources = sources_of(module)
    is_open = table.array is None or table.array.dtype is None
    is_passed = is_open and kind == "mask" and is_float32(sources.of(fact, table.node), sources)
    return kind if is_passed else None


#: Functions that keep the dtype of the array that they are given first.
_KEEPING = frozenset(("reshape", "expand_dims", "squeeze", "transpose", "swapaxes", "broadcast_to"))
_DEEPEST = 6


def is_float32(source: Source, sources: Sources, depth: int = _DEEPEST) -> bool:
    """Return whether an array is float32 in one of the calls of its function in this file."""
    ends = sources.ends(source, through_callers=True) if depth else []
    return any(
        _is_made_float32(end, sources, depth - 1) for end in ends if end.module is sources.module
    )


def _is_made_float32(end: Source, sources: Sources, depth: int) -> bool:
    node = end.node
    if isinstance(node, cst.Subscript):
        return is_float32(end.at(node.value), sources, depth)
    if isinstance(node, cst.BinaryOperation):
        fact = evaluation_of(sources.module).operations.get(node)
        arrays = () if fact is None else (fact.left.array, fact.right.array)
        if any(one and one.dtype == "float32" and not one.scalar for one in arrays):
            return True
        return any(is_float32(end.at(one), sources, depth) for one in (node.left, node.right))
    called = sources.library_call(end)
    if isinstance(node, cst.Call) and last_name(node) == "astype" and node.args:
        return (dotted(node.args[0].value) or "").endswith("float32")
    if called is not None and called.array is not None and last_name(node) in _KEEPING:
        return is_float32(called.array, sources, depth)
    made = calls_of(sources.module).get(node)
    array = None if made is None else as_array(made.result)
    return array is not None and array.dtype == "float32" and not array.scalar


_LOSSES = frozenset(("loss", "losses", "nll", "ce", "entropy"))


def words_of(node: cst.BaseExpression) -> list[str]:
    """Return the words of the name of an array; empty without one."""
    return (_name(node) or "").lower().split("_")


def _name(node: cst.BaseExpression) -> str | None:
    """Return the last name of an array of which an expression is a part or a view."""
    for _ in range(MOST_STEPS):
        if isinstance(node, cst.Subscript):
            node = node.value
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            is_function = dotted(node.func.value) in ("mx", "mlx.core")
            if is_function and not node.args:
                return None
            node = node.args[0].value if is_function else node.func.value
        else:
            path = dotted(node)
            return None if path is None else path.rpartition(".")[2]
    return None


def _is_of_parameters(fact: Fact, node: cst.BaseExpression, module: Module) -> bool:
    """Return whether a table is computed from public attributes, which may be loaded weights."""
    sources = sources_of(module)
    pending, seen = [sources.of(fact, node)], set[int]()
    while pending:
        source = pending.pop()
        if len(seen) > MOST_STEPS:
            return True
        for end in sources.ends(source, through_callers=True) or [source]:
            if id(end.node) in seen:
                continue
            seen.add(id(end.node))
            if _is_kept_publicly(end):
                return True
            contents = contents_of(end.node)
            called = {id(call.func) for call in contents.calls}
            for part in contents.of(cst.Attribute):
                is_read = id(part) not in called and not part.attr.value.startswith("_")
                if is_read and isinstance(sources.value(end.at(part)), Array):
                    return True
            names = (n for n in contents.of(cst.Name) if not contents.is_label(n))
            pending += [end.at(name) for name in names if name is not end.node]
    return False


def _is_kept_publicly(source: Source) -> bool:
    """Return whether a statement assigns what it computes to a public attribute of a layer."""
    function = source.function
    if function is None or function.cls is None or not is_layer(function.cls):
        return False
    targets = (t for t in targets_of(source.statement) if isinstance(t, cst.Attribute))
    return any(not target.attr.value.startswith("_") for target in targets)


@check("DTYPE-023", of=(ATTENTION,))
def wide_attention_mask(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mask=mx.where(keep, 0, -1e9)`` of queries that are half precision in a published model."""
    mask = fact.keyword("mask")
    given = None if mask is None else as_array(mask.value)
    if mask is None or module.is_test or (given and given.dtype not in (None, "float32")):
        return
    arrays = [as_array(a.value) for a in fact.arguments[:3] if a.keyword in (None, "q", "k", "v")]
    if len(arrays) < len("qkv") or any(a is None or a.dtype is not None for a in arrays):
        return
    if may_be_parameter(fact, mask.node) or not is_half_nearby(module) or not has_layers(module):
        return
    sources, is_known = sources_of(module), given is not None and given.dtype == "float32"
    if not is_known and not is_float32(sources.of(fact, mask.node), sources):
        return
    if _is_rotated_by_hand(fact):
        return
    if not _is_of_parameters(fact, mask.node, module):
        yield Report.at(
            fact,
            node=mask.node,
            message="a float32 mask raises a ValueError if the queries are half precision",
            help="Cast it (`mask.astype(q.dtype)`), or pass a boolean mask or `mask='causal'`",
            subject=mask.node,
        )


def _is_rotated_by_hand(fact: Fact) -> bool:
    """Return whether queries go through the project's own rotary tables, which may be float32."""
    function = fact.place.function
    calls = () if function is None else contents_of(function.node.body).calls
    names = [(last_name(call) or "").lower() for call in calls]
    return any("rotary" in name or "rope" in name.removesuffix("rope") for name in names)


@kept_for_file
def has_layers(module: Module) -> bool:
    """Return whether a file defines layers."""
    return any(f.cls is not None and is_layer(f.cls) for f in module.functions)


@kept_for_file
def _is_half(module: Module) -> bool:
    """Return whether a file shows that its models are in half precision.

    It sets a half dtype, names one, or adapts the weights of a published checkpoint.
    """
    if model_dtype(module) is not None or any(f.name == "sanitize" for f in module.functions):
        return True
    return not {"float16", "bfloat16"}.isdisjoint(contents_of(module.tree).names)


def is_half_nearby(module: Module) -> bool:
    """Return whether a file, its package or what these import shows that models are half."""
    marks = ("float16", "def sanitize(", ".set_dtype(", "BaseModelArgs")  # bfloat16 too
    return _is_half(module) or any(mark in one for one in sources_around(module) for mark in marks)
