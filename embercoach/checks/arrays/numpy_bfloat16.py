"""DTYPE-021: bfloat16 arrays, which NumPy has no dtype for."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from embercoach.analysis.calls import numpy_api
from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.dataflow.value_sources import Source, Sources, sources_of
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import dotted, target_names
from embercoach.analysis.values.facts import Argument, BinaryFact, CallFact, Fact
from embercoach.analysis.values.lattice import Sequence, any_item, as_array
from embercoach.checks.fallbacks import REFUSED, is_caught
from embercoach.checks.registry import Report, check
from embercoach.terminal_text import quoted

_BFLOAT16 = "bfloat16"
_PARAMETERS = ("parameters", "trainable_parameters")
_HELP = "Cast it first: `x.astype(mx.float32)`"


@check("DTYPE-021", of=("numpy.",))
def converted(fact: CallFact, module: Module) -> Iterator[Report]:
    """``np.array(x)``, ``np.exp(x)`` and ``np.stack([x, y])`` of bfloat16 arrays."""
    name = fact.symbol
    if name is None or not numpy_api.takes_data(name) or not fact.arguments:
        return
    short = quoted("np." + name.removeprefix("numpy."), 24)
    if any(map(_is_bfloat16, fact.arguments)):
        message = f"`{short}()` of a bfloat16 array raises: NumPy has no such dtype"
    elif name.rpartition(".")[2] not in numpy_api.CONVERSIONS or _is_known(fact, module):
        return
    elif _is_loaded(fact, module):
        message = f"`{short}()` raises if the weight is bfloat16"
    elif _is_of_model(fact, module):
        message = f"`{short}()` raises if the model is bfloat16"
    else:
        return
    yield from _report(fact, module, message)


@check("DTYPE-021")
def operand(fact: BinaryFact, module: Module) -> Iterator[Report]:
    """``ndarray * x``: NumPy converts the operand on the right."""
    array = fact.right.array
    if fact.left.numpy is not None and array is not None and array.dtype == _BFLOAT16:
        message = f"NumPy array left of `{fact.operator}` raises with a bfloat16 operand"
        yield from _report(fact, module, message)


def _report(fact: Fact, module: Module, message: str) -> Iterator[Report]:
    if not is_caught(module, fact.place.statement, REFUSED):
        yield Report.at(
            fact,
            "DTYPE-021",
            message=message,
            help=_HELP,
            replaces=("API-003", "HOST-PULL-002", "HOST-PULL-003", "HOST-PULL-004"),
        )


def _is_bfloat16(argument: Argument) -> bool:
    value = argument.value
    inner = any_item(value) if isinstance(value, Sequence) else value
    array = as_array(inner)
    return array is not None and array.dtype == _BFLOAT16


def _is_known(fact: Fact, module: Module) -> bool:
    """Return whether the function names bfloat16."""
    function = fact.place.function
    return function is not None and _BFLOAT16 in module.parsed.code(function.node)


#: Names of what a language model computes in the dtype of its weights.
_OF_MODELS = frozenset(("keys", "queries", "hidden_states", "last_hidden_state"))
#: Names in expressions of another dtype than what they are computed from.
_OTHER = frozenset(
    (
        *("astype", "view", "dequantize", "argmax", "argmin", "argsort", "argpartition", "tolist"),
        *("float32", "float16", "float"),
    )
)
_MOST_ENDS = 64


def _is_of_model(fact: CallFact, module: Module) -> bool:
    """Return whether an array is computed from keys, values or hidden states, in their dtype."""
    array, function = as_array(fact.arguments[0].value), fact.place.function
    if array is None or array.dtype is not None or module.is_test or function is None:
        return False
    known = set(_OF_MODELS)
    known |= {"values"} if "keys" in contents_of(function.node).names else set()
    known |= {"logits"} if "mlx_lm" in module.source or "mlx_vlm" in module.source else set()
    sources = sources_of(module)
    pending, seen, is_found = [sources.of(fact, fact.arguments[0].node)], set[int](), False
    while pending and len(seen) < _MOST_ENDS:
        source = pending.pop()
        for end in sources.ends(source, through_callers=True) or [source]:
            contents, node = contents_of(end.node), end.node
            if not contents.names.isdisjoint(_OTHER):
                return False
            while isinstance(node, cst.Subscript):
                node = node.value
            if isinstance(node, (cst.Name, cst.Attribute)):
                is_found |= last_name(node) in known
            elif id(node) not in seen:
                names = (one for one in contents.of(cst.Name) if not contents.is_label(one))
                pending += [end.at(one) for one in names]
            seen.add(id(node))
    return is_found and not pending


def _is_loaded(fact: CallFact, module: Module) -> bool:
    """Return whether an array is one of a checkpoint or a model: ``np.array(weights[key])``."""
    sources = sources_of(module)
    source = sources.of(fact, fact.arguments[0].node)
    node = source.node
    if isinstance(node, cst.Subscript):
        holder: cst.BaseExpression | None = node.value
    else:
        holder = _walked(source)
    if holder is None or as_array(fact.arguments[0].value) is None:
        return False
    inner = _walked(source.at(holder))  # of a dictionary of dictionaries
    ends = sources.ends(source.at(inner or holder))
    return bool(ends) and all(_has_weights(end, sources) for end in ends)


def _has_weights(end: Source, sources: Sources) -> bool:
    """Return whether a value is what ``mx.load`` reads, or the state of a model or an optimizer.

    So is the argument of a model's ``sanitize(weights)``, which mlx-lm calls with a checkpoint.
    """
    call = sources.library_call(end)
    if call is not None and call.name == "mlx.core.load":
        return True
    node, function = end.node, end.function
    if isinstance(node, cst.Call) and last_name(node) == "tree_flatten" and node.args:
        node = node.args[0].value
        return isinstance(node, cst.Call) and last_name(node) in _PARAMETERS
    path = (dotted(node) or "").lower()
    if path.endswith(".state") and ("opt." in path or "optim" in path):
        return True
    is_sanitize = function is not None and "sanitize" in function.name
    return is_sanitize and isinstance(node, cst.Name) and node.value in ("weights", "state_dict")


def _walked(source: Source) -> cst.BaseExpression | None:
    """Return ``weights`` of ``for key, value in weights.items()`` and ``in weights``."""
    if not isinstance(source.node, cst.Name):
        return None
    body = source.module.tree if source.function is None else source.function.node.body
    loops: list[cst.For | cst.CompFor] = contents_of(body).of(cst.For, cst.CompFor)
    for loop in loops:
        func = loop.iter.func if isinstance(loop.iter, cst.Call) else None
        is_walk = isinstance(func, cst.Attribute) and func.attr.value in ("items", "values")
        if source.node.value in target_names(loop.target):
            return cst.ensure_type(func, cst.Attribute).value if is_walk else loop.iter
    return None
