"""DTYPE-024 and 025: arrays that are float32 by default, and promote those of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst

from embercoach.analysis.calls.definitions import FunctionInfo
from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.dataflow.scopes import CONSTRUCTORS, resolved
from embercoach.analysis.dataflow.value_sources import Source, sources_of
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import dotted, keyed_path
from embercoach.analysis.values.facts import (
    BinaryFact,
    CallFact,
    Fact,
    ItemStoreFact,
    Operand,
    calls_of,
)
from embercoach.analysis.values.inheritance import is_layer, library_bases, lineage
from embercoach.analysis.values.lattice import as_array, as_number
from embercoach.analysis.values.memo import kept_for_file
from embercoach.analysis.values.promotion import HALF
from embercoach.checks.arrays.dtype import (
    ARITHMETIC,
    is_cast_back,
    may_be_parameter,
    operands_of,
)
from embercoach.checks.arrays.float_tables import has_layers, is_half_nearby, words_of
from embercoach.checks.registry import Report, check

_JOINS = ("mlx.core.concatenate", "mlx.core.concat", "mlx.core.stack")
#: Functions whose dtype is float32 unless it is given, and the place of that parameter.
_FILLED = {"zeros": 1, "ones": 1, "full": 2}
#: Functions that make an array of float32 of a Python number.
_OF_NUMBERS = frozenset(f"mlx.core.{name}" for name in ("sqrt", "rsqrt", "log", "exp"))
#: Words of the names of what is float32 in a half-precision model too.
_WIDE = frozenset(
    (
        *("audio", "wav", "waveform", "signal", "sample", "samples", "frame", "frames", "window"),
        *("mel", "mels", "spec", "feat", "feats", "feature", "features", "pixel", "pixels"),
        *("image", "images", "mask", "masks", "loss", "losses", "ids", "tokens", "positions"),
        *("lengths", "noise", "sigmas", "timesteps", "cos", "sin", "freqs", "coords", "points"),
        *("box", "boxes", "prob", "probs", "scores", "ray", "rays", "params"),
        *("weight", "weights", "scales", "zeros"),
    )
)


#: Parts of the names of functions that handle weights, or a few scores of each token.
_OUTSIDE = ("sanitize", "decode", "generate", "sample", "search")


@check("DTYPE-024", of=_JOINS)
def float_padding(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.concatenate([mx.zeros((B, n, D)), x], axis=1)``, in a model."""
    operands = [one for argument in fact.arguments[:1] for one in operands_of(argument)]
    value = next((one for one in operands if _is_activation(one)), None)
    if value is not None:
        for one in operands:
            if one.array is not None and one.array.literal and one.array.dtype == "float32":
                yield from _reports(fact, one.node, value.node, module, _is_filled)


@check("DTYPE-024")
def float_buffer(fact: ItemStoreFact, module: Module) -> Iterator[Report]:
    """``padded = mx.zeros(shape)``, then ``padded[:, :n] = x``."""
    base, assigned = as_array(fact.base), fact.place.statement
    if fact.in_place or base is None or not base.literal or base.dtype != "float32":
        return
    if not isinstance(assigned, cst.Assign) or not _WIDE.isdisjoint(words_of(fact.node)):
        return
    if _is_activation(Operand.of(fact.value, assigned.value)):
        yield from _reports(fact, fact.node.value, assigned.value, module, _is_filled)


@check("DTYPE-024")
def float_function(fact: BinaryFact, module: Module) -> Iterator[Report]:
    """``x / mx.sqrt(2)``, ``scores * (1 / mx.sqrt(q.shape[-1]))``."""
    if fact.operator not in ARITHMETIC or not _has_functions(module):
        return
    for made, value in ((fact.left, fact.right), (fact.right, fact.left)):
        array = made.array
        if array is None or array.traced or array.dtype in HALF:
            continue
        if _is_activation(value) and not may_be_parameter(fact, made.node):
            yield from _reports(fact, made.node, value.node, module, _is_of_numbers)


@kept_for_file
def _has_functions(module: Module) -> bool:
    return any(f".{name.rpartition('.')[2]}(" in module.source for name in _OF_NUMBERS)


def _is_activation(value: Operand) -> bool:
    """Return whether an array of unknown dtype comes from the arguments of a model."""
    array = value.array
    if array is None or array.dtype is not None or array.literal or not array.traced:
        return False
    return _WIDE.isdisjoint(words_of(value.node))


def _reports(
    fact: Fact,
    made: cst.BaseExpression,
    value: cst.BaseExpression,
    module: Module,
    is_made: Callable[[Source], bool],
) -> Iterator[Report]:
    """Report what is float32 by default in each of its definitions, in a model."""
    function = fact.place.function
    if module.is_test or function is None or function.name in CONSTRUCTORS:
        return
    if any(word in function.name for word in _OUTSIDE):
        return
    if not (has_layers(module) if function.cls is None else is_layer(function.cls)):
        return
    sources = sources_of(module)
    ends = sources.ends(sources.of(fact, made))
    if any(end.function is not None and end.function.name in CONSTRUCTORS for end in ends):
        return  # perhaps a parameter, with the dtype of the checkpoint
    if not ends or not all(map(is_made, ends)) or is_cast_back(fact, module):
        return
    name = (dotted(value) or "").rpartition(".")[2] or "x"
    is_filled = is_made is _is_filled
    problem = "float32 by default" if is_filled else "a function of numbers is a float32 array"
    yield Report.at(
        fact,
        "DTYPE-024",
        node=made,
        message=f"{problem}: promotes half-precision activations",
        help=f"Give it the other dtype: `dtype={name[:20]}.dtype`" if is_filled else _MATH,
        context="avoidable" if is_half_nearby(module) else "minor",
        subject=made,
    )


_MATH = "Compute a Python number: `math.sqrt(2)`, `dims**-0.5`"


def _is_filled(source: Source) -> bool:
    """Test for ``mx.zeros(shape)``, whose dtype nobody has chosen."""
    node = source.node
    place = _FILLED.get(last_name(node) or "") if isinstance(node, cst.Call) else None
    if not isinstance(node, cst.Call) or place is None:
        return False
    names = [one.keyword.value for one in node.args if one.keyword is not None]
    return "dtype" not in names and len(node.args) - len(names) <= place


def _is_of_numbers(source: Source) -> bool:
    """Return whether an expression is MLX's function of Python numbers, and numbers."""
    calls, contents = calls_of(source.module), contents_of(source.node)
    facts = [fact for call in contents.calls if (fact := calls.get(call)) is not None]
    made = [fact for fact in facts if fact.symbol in _OF_NUMBERS and fact.arguments]
    within = {node for fact in made for node in contents_of(fact.node)}
    if not made or any(name not in within for name in contents.of(cst.Name)):
        return False
    given = [argument for fact in made for argument in fact.arguments]
    for index, argument in enumerate(given):
        inner = calls.get(argument.node)
        if inner is not None and inner.symbol == "mlx.core.array" and len(inner.arguments) == 1:
            given[index] = inner.arguments[0]
    return all(as_number(one.value) is not None and as_array(one.value) is None for one in given)


_MOST_NAMES = 16
#: Functions that make a float of an integer, and names in what is cast, or no scalar.
_ROOTS = frozenset(("power", "sqrt", "rsqrt", "divide", "reciprocal"))
_OTHERS = frozenset(("gradient", "grad", "g", "parameter", "param", "p", "astype"))


@check("DTYPE-025")
def optimizer_scalar(fact: BinaryFact, module: Module) -> Iterator[Report]:
    """``parameter - self.learning_rate * gradient``, ``m / (1 - b1**self.step)``."""
    function = fact.place.function
    if function is None or function.name != "apply_single" or not _is_optimizer(function):
        return
    for scalar, other in ((fact.left, fact.right), (fact.right, fact.left)):
        if scalar.array is not None and scalar.array.traced:
            continue
        if other.array is None or other.array.dtype is not None or not other.array.traced:
            continue
        name = _float32_in(scalar.node, function, module)
        if name is not None and not module.is_test and not is_cast_back(fact, module):
            yield Report.at(
                fact,
                node=scalar.node,
                message=f"{name} is float32: half-precision parameters become float32",
                help="Cast it: `.astype(gradient.dtype)`",
            )


def _is_optimizer(function: FunctionInfo) -> bool:
    """Return whether a method is one of a class derived from MLX's ``Optimizer``."""
    if function.cls is None:
        return False
    bases = (base.startswith("mlx.optimizers.") for base in library_bases(function.cls))
    return any(bases) or any(cls.name == "Optimizer" for cls in lineage(function.cls))


def _float32_in(node: cst.CSTNode, function: FunctionInfo, module: Module) -> str | None:
    """Return what makes a scalar float32: the learning rate, or a function of the step."""
    pending, members, is_float = [node], set[str](), False
    for _ in range(_MOST_NAMES):
        if not pending:
            break
        found = resolved(pending.pop(), function, module)
        contents = contents_of(found)
        if not contents.names.isdisjoint(_OTHERS):
            continue
        operators = [type(one.operator) for one in contents.of(cst.BinaryOperation)]
        is_float |= not {cst.Power, cst.Divide}.isdisjoint(operators)
        is_float |= not _ROOTS.isdisjoint(contents.names)
        paths = [keyed_path(one) or "" for one in contents.of(cst.Attribute, cst.Subscript)]
        members |= {p.rpartition(".")[2].strip("[]\"'") for p in paths if p.startswith("self.")}
        names = [one for one in contents.of(cst.Name) if one is not found]
        pending += [one for one in names if resolved(one, function, module) is not one]
    if "learning_rate" in members:
        return "the learning rate"
    return "a function of the step" if "step" in members and is_float else None
