"""NN-014, NN-015 and NN-016: layers that do not do what PyTorch's of the same name do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.value_sources import sources_of
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values.lattice import LibraryObject
from embercoach.checks.registry import VALUE, Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.facts import Argument, CallFact


@check("NN-014", of=("mlx.nn.GroupNorm",))
def interleaved_groups(fact: CallFact, module: Module) -> Iterator[Report]:
    """``nn.GroupNorm(32, channels)`` of a model with weights of PyTorch."""
    given = {parameter.name: argument for parameter, argument in fact.matched}
    groups, dims = given.get("num_groups"), given.get("dims")
    if "pytorch_compatible" in given or groups is None or dims is None:
        return
    if any(argument.star for argument in fact.arguments) or _is_trained(module):
        return
    if _may_be_one(groups, fact, module) or module.parsed.code(groups.node) == module.parsed.code(
        dims.node
    ):
        return  # both kinds of groups are the same
    yield Report.at(
        fact,
        message="groups of `nn.GroupNorm` are interleaved, unlike PyTorch's",
        help="Pass `pytorch_compatible=True` if the weights are PyTorch's",
    )


def _may_be_one(given: Argument, fact: CallFact, module: Module) -> bool:
    """Return whether a number is 1, also for one of the calls in the file."""
    sources = sources_of(module)
    ends = sources.ends(sources.of(fact, given.node), through_callers=True)
    return any(isinstance(end.node, cst.Integer) and end.node.value == "1" for end in ends)


def _is_trained(module: Module) -> bool:
    """Return whether a file trains its model, which then has no weights of PyTorch."""
    return "value_and_grad" in module.source or module.is_test


_CONVOLUTIONS = tuple(f"mlx.nn.Conv{n}d" for n in (1, 2, 3))
#: What names of depthwise convolutions contain.
_DEPTHWISE = ("depthwise", "depth_wise", "dwconv", "dw_conv", "conv_dw", "convdw")


@check("NN-015", of=_CONVOLUTIONS)
def depthwise_without_groups(fact: CallFact, module: Module) -> Iterator[Report]:
    """``self.depthwise = nn.Conv2d(channels, channels, 3)``."""
    given = {parameter.name: argument for parameter, argument in fact.matched}
    statement = fact.place.statement
    if "groups" in given or any(argument.star for argument in fact.arguments):
        return
    if not isinstance(statement, cst.Assign) or statement.value is not fact.node:
        return
    path = dotted(statement.targets[0].target) or ""
    name = path.rpartition(".")[2]
    channels = given.get("in_channels")
    if channels is None or not any(word in name.lower() for word in _DEPTHWISE):
        return
    if _may_be_one(channels, fact, module) or _has_weight_elsewhere(path, fact):
        return
    text = module.parsed.code(channels.node)
    shown = text if len(text) <= _LONGEST and "\n" not in text else "in_channels"
    yield Report.at(
        fact,
        message=f"`{name[:_LONGEST]}` is a full convolution: it has one group",
        help=f"Pass `groups={shown}`",
    )


_LONGEST = 40  # characters of a name or an argument that a text quotes


def _has_weight_elsewhere(path: str, fact: CallFact) -> bool:
    """Return whether code names the weight of a layer: it may compute the convolution itself."""
    function = fact.place.function
    if function is None:
        return False
    around = function.node if function.cls is None else function.cls.node
    reads = contents_of(around).of(cst.Attribute)
    return any(node.attr.value == "weight" and dotted(node.value) == path for node in reads)


#: Layers that return one array, and what PyTorch's return after it.
_ALONE = {"GRU": "state", "RNN": "state", "MultiHeadAttention": "weights"}
#: What names of states and of attention weights contain, next to names that begin with ``_``.
_SECOND = ("hidden", "state", "weight", "attn", "score", "h_n", "hn", "h_", "c_n")


@check("NN-016", of=(VALUE,))
def unpacked_result(fact: CallFact, module: Module) -> Iterator[Report]:
    """``y, state = self.gru(x)``, ``y, (h, c) = self.lstm(x)``, ``self.attention(x, x, x)[0]``."""
    if not isinstance(fact.callee, LibraryObject) or not fact.callee.cls.startswith("mlx.nn."):
        return
    layer, statement = fact.callee.cls.rpartition(".")[2], fact.place.statement
    if not isinstance(statement, cst.Assign):
        return
    target = statement.targets[0].target
    second = _second(target) if statement.value is fact.node else None
    if layer == "LSTM" and isinstance(second, cst.Tuple):
        text = "`nn.LSTM` returns all hidden and all cell states, not a pair of the last"
        remedy = "Write `h, c = lstm(x)`: the last are `h[..., -1, :]` and `c[..., -1, :]`"
    elif layer in _ALONE and (_is_first_of(statement.value, fact) or _is_named(second)):
        text = f"`nn.{layer}` returns one array, without {_ALONE[layer]}"
        remedy = "Assign the result to one name"
    else:
        return
    yield Report.at(fact, message=text, help=remedy)


def _second(target: cst.CSTNode) -> cst.BaseExpression | None:
    is_pair = isinstance(target, cst.Tuple) and len(target.elements) == len(("result", "state"))
    return target.elements[1].value if is_pair and isinstance(target, cst.Tuple) else None


def _is_named(second: cst.BaseExpression | None) -> bool:
    """Return whether the second of two targets has the name of a state or of weights."""
    if isinstance(second, cst.Tuple):
        return True
    name = "" if second is None else (dotted(second) or "").rpartition(".")[2].lower()
    return name == "h" or name.startswith("_") or any(word in name for word in _SECOND)


def _is_first_of(value: cst.BaseExpression, fact: CallFact) -> bool:
    """Test for ``attention(x, x, x)[0]``, which takes the first of a batch."""
    if not isinstance(value, cst.Subscript) or value.value is not fact.node:
        return False
    part = value.slice[0].slice if len(value.slice) == 1 else None
    index = part.value if isinstance(part, cst.Index) else None
    return isinstance(index, cst.Integer) and index.value == "0"
