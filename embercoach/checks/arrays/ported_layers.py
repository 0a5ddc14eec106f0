"""NN-014 to 017: layers that do not do what PyTorch's do, and those with `forward` alone."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from embercoach.analysis.calls.definitions import ClassInfo, FunctionInfo
from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.dataflow.value_sources import sources_of
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values.facts import Argument, CallFact, Fact, UncallableFact
from embercoach.analysis.values.inheritance import called_method, lineage, subclasses
from embercoach.analysis.values.lattice import LibraryObject
from embercoach.checks.fallbacks import is_expected
from embercoach.checks.registry import VALUE, ProposedFix, Report, check


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


_TYPE_ERROR = frozenset(("TypeError",))
#: What may give a class a method that its text does not show.
_PATCHES = ('"__call__"', "'__call__'", ".__call__ =")
_LONGEST_CLASS = 28


@check("NN-017")
def uncalled_forward(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``model(x)`` of a layer with ``forward``: the first call of each class."""
    ranges = module.parsed.converted.ranges or {}
    calls = [fact for fact in facts if isinstance(fact, UncallableFact)]
    seen: set[ClassInfo] = set()
    for fact in sorted(calls, key=lambda fact: ranges.get(id(fact.node), 0)):
        method = called_method(fact.cls)
        if method is None or fact.cls in seen or not _is_certain(fact, module):
            continue
        seen.add(fact.cls)
        yield Report.at(
            fact,
            message=f"call of `{fact.cls.name[:_LONGEST_CLASS]}` raises: it has no `__call__`",
            help="Rename its method `forward` to `__call__`",
            change=_renamed(method, module),
        )


def _is_certain(fact: UncallableFact, module: Module) -> bool:
    """Return whether a call raises: its object is of this class, which nothing completes."""
    classes = lineage(fact.cls)
    if any(one.node.decorators or one.node.keywords for one in classes):
        return False
    if any(text in one.source for one in _files(fact, module) for text in _PATCHES):
        return False
    if is_expected(module, fact.place.statement, _TYPE_ERROR, broadly=True):
        return False
    sources = sources_of(module)
    made = sources.ends(sources.of(fact, fact.node.func), through_callers=True)
    names = {fact.cls.name}
    if made and all(isinstance(m.node, cst.Call) and last_name(m.node) in names for m in made):
        return True
    is_made = any(_makes(fact.cls.name, one) for one in _files(fact, module))
    return is_made and not _is_given(fact) and not subclasses(fact.cls, module)


def _makes(name: str, module: Module) -> bool:
    """Return whether a file makes an object of a class itself."""
    return any(last_name(call) == name for call in contents_of(module.tree).calls)


def _files(fact: UncallableFact, module: Module) -> set[Module]:
    return {module, *(one.module for one in lineage(fact.cls))}


def _is_given(fact: UncallableFact) -> bool:
    """Return whether an object may be of a derived class: it is `self`, or is annotated."""
    name = (dotted(fact.node.func) or "").partition(".")[0]
    function = fact.place.function
    while function is not None:
        for index, parameter in enumerate(function.parameters):
            if parameter.name == name:
                return parameter.annotation is not None or (function.is_method and index == 0)
        function = function.outer
    return False


def _renamed(method: FunctionInfo, module: Module) -> ProposedFix | None:
    """Rename a method of this file, unless something calls it by its name."""
    node = method.node
    attributes = contents_of(module.tree).of(cst.Attribute)
    is_read = any(attribute.attr.value == "forward" for attribute in attributes)
    if not isinstance(node, cst.FunctionDef) or method.module is not module or is_read:
        return None
    part = node, node.name, (0, len("forward")), "__call__"
    return ProposedFix("Rename `forward` to `__call__`", safe=False, edits=(), parts=(part,))
