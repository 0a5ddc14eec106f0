"""API-022 and 027: trees of arrays taken for flat dictionaries, and objects that are not trees."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from embercoach.analysis.calls.definitions import FunctionInfo
from embercoach.analysis.dataflow.contents import Contents, contents_of
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.dataflow.scopes import bindings_at, bodies_of
from embercoach.analysis.dataflow.value_sources import Source, Sources, sources_of
from embercoach.analysis.evaluate import evidence
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import dotted, evaluated
from embercoach.analysis.values.facts import CallFact, Fact, calls_of
from embercoach.analysis.values.inheritance import is_layer, lineage
from embercoach.analysis.values.lattice import (
    UNKNOWN,
    Class,
    Instance,
    LibraryObject,
    NoneValue,
    Sequence,
    Value,
    any_item,
    options,
    parts_of,
)
from embercoach.checks.arrays.module_attributes import has_parameters
from embercoach.checks.registry import ProposedFix, Report, check

_TREE_MAP = ("mlx.utils.tree_map", "mlx.utils.tree_map_with_path")
_UNFLATTEN = "mlx.utils.tree_unflatten"
_FLATTEN = "mlx.utils.tree_flatten"
_PARAMETERS = ("parameters", "trainable_parameters")


@check("API-022")
def iterated_tree(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``sum(g.sum() for g in tree_map(f, grads))``, ``for p in model.parameters(): p.size``."""
    text = module.source
    if "mlx" not in text or ("tree_" not in text and "parameters()" not in text):
        return
    # The models of torch have lists of parameters.
    if any(one in text for one in ("import torch", "from torch", "importorskip(")):
        return
    for function, contents in bodies_of(module):
        loops: list[cst.For | cst.CompFor] = contents.of(cst.For, cst.CompFor)
        for loop in loops:
            if not isinstance(loop.target, cst.Name):
                continue
            statement = loop if isinstance(loop, cst.For) else contents.statement_of(loop)
            source = Source(loop.iter, statement, function, module)
            got = _gets(source)
            if got is None:
                continue
            around = loop.body if isinstance(loop, cst.For) else contents.parent_of(loop)
            use = None if around is None else _use_as_array(loop.target.value, around, module)
            if use is None:
                continue
            message, advice = f"loop over a tree gets {got}, not its arrays", _HELP
            if last_name(use) == "numel":
                advice = f"{_HELP}, and `array.size`"
            elif last_name(use) == "requires_grad":
                message = (
                    "setting `requires_grad` raises: MLX's parameters are not tensors of torch"
                )
                reads = contents_of(loop.iter).of(cst.Attribute)
                owners = (dotted(one.value) for one in reads if one.attr.value in _PARAMETERS)
                owner = next(filter(None, owners), "model")
                advice = f"Use `{owner}.freeze()` or `{owner}.unfreeze()` in place of the loop"
            yield Report.at(source, message=message, help=advice, covers=(use,))


def _gets(source: Source) -> str | None:
    """Return what a loop over an expression gets in place of the arrays of a tree."""
    made = _made_by(source)
    if made is not None and made.symbol == _FLATTEN:
        return "pairs of names and arrays"
    node = source.node
    func = node.func if isinstance(node, cst.Call) and not node.args else None
    if isinstance(func, cst.Attribute) and func.attr.value == "values":
        return "inner trees" if _is_read(source.at(func.value)) else None
    return "its keys" if _is_read(source) or _is_tree(made) else None


def _made_by(source: Source) -> CallFact | None:
    """Return the call that makes what an expression is, if it is one of this file."""
    ends = sources_of(source.module).ends(source, through_callers=True)
    if len(ends) != 1 or ends[0].module is not source.module:
        return None
    return calls_of(source.module).get(ends[0].node)


def _is_read(source: Source) -> bool:
    """Test for ``model.parameters()``: the model may be a parameter, of which nothing is known."""
    ends = sources_of(source.module).ends(source, through_callers=True)
    node = ends[0].node if len(ends) == 1 else None
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return False
    return node.func.attr.value in _PARAMETERS and not node.args


def _is_tree(call: CallFact | None) -> bool:
    """Return whether a call returns a dictionary of arrays and of others like it."""
    if call is None or call.symbol not in _TREE_MAP:
        return call is not None and call.symbol == _UNFLATTEN
    trees = [a for a in call.arguments[1:] if a.keyword is None]
    return bool(trees) and not any(isinstance(tree.value, Sequence) for tree in trees)


_OF_ARRAYS = frozenset(
    (
        *("size", "shape", "dtype", "ndim", "nbytes", "itemsize", "T", "astype", "reshape", "item"),
        *("sum", "mean", "max", "min", "square", "abs", "flatten", "std", "var", "sqrt"),
    )
)


_HELP = "Write `for name, array in tree_flatten(tree)`"
#: Members of torch's tensors.
_OF_TENSORS = ("numel", "requires_grad")


def _use_as_array(name: str, body: cst.CSTNode, module: Module) -> cst.CSTNode | None:
    """Return the first use of a name that only an array allows."""
    contents = contents_of(body)
    for use in contents.uses(name):
        parent = contents.parent_of(use)
        if isinstance(parent, cst.Attribute) and _is_of_arrays(parent.attr.value, module):
            return parent
        if isinstance(parent, cst.BinaryOperation) and isinstance(parent.operator, _OPERATORS):
            return parent
        call = contents.parent_of(parent) if isinstance(parent, cst.Arg) else None
        fact = None if call is None else calls_of(module).get(call)
        symbol = "" if fact is None else fact.symbol or ""
        if symbol.startswith("mlx.core.") and symbol not in _EVALUATES:
            return call
    return None


def _is_of_arrays(name: str, module: Module) -> bool:
    """Test for a member of arrays; one of torch's tensors where MLX alone has arrays."""
    if name in _OF_TENSORS:
        return not module.is_test and evidence.arrays_are_mlx(module)
    return name in _OF_ARRAYS


_OPERATORS = (cst.Multiply, cst.Power, cst.Divide, cst.Subtract)
_EVALUATES = ("mlx.core.eval", "mlx.core.async_eval")


@check("API-022")
def dotted_key(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``f"{path}.scales" in weights`` of a tree that ``tree_unflatten`` has made."""
    if "tree_unflatten" not in module.source:
        return
    for function, contents in bodies_of(module):
        for node in contents.of(cst.Comparison):
            operator, tree = node.comparisons[0].operator, node.comparisons[0].comparator
            if not isinstance(operator, (cst.In, cst.NotIn)) or not _is_dotted(node.left):
                continue
            source = Source(tree, contents.statement_of(node), function, module)
            made = _made_by(source)
            if made is None and isinstance(tree, cst.Name) and function is not None:
                made = _captured(tree, function, module)
            if made is None or made.symbol != _UNFLATTEN:
                continue
            yield Report.at(
                source,
                node=node,
                message="dotted key of a nested tree: it is never there",
                help="Look it up before `tree_unflatten`, in the flat dictionary",
            )


def _is_dotted(node: cst.BaseExpression) -> bool:
    """Test for ``"layer.scales"`` and ``f"{path}.scales"``."""
    if isinstance(node, cst.FormattedString):
        texts = [p.value for p in node.parts if isinstance(p, cst.FormattedStringText)]
        return any("." in text for text in texts)
    value = evaluated(node) if isinstance(node, cst.SimpleString) else None
    return isinstance(value, str) and "." in value


def _captured(name: cst.Name, function: FunctionInfo, module: Module) -> CallFact | None:
    """Return the call that makes what a function reads of the one around, where it is made."""
    statement = function.statement or function.node
    bound = bindings_at(name.value, statement, function.outer, module)
    if bound is None or len(bound.bindings) != 1:
        return None
    binding = bound.bindings[0]
    return None if binding.value is None else calls_of(module).get(binding.value)


@check("API-022")
def flat_list(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``tree_flatten(model.parameters()).items()``."""
    if "tree_flatten" not in module.source:
        return
    for function, contents in bodies_of(module):
        for call in contents.calls:
            func = call.func
            if not isinstance(func, cst.Attribute) or func.attr.value not in _OF_DICTIONARIES:
                continue
            source = Source(func.value, contents.statement_of(call), function, module)
            made = _made_by(source)
            if made is None or made.symbol != _FLATTEN or made.keyword("destination"):
                continue
            yield Report.at(
                source,
                node=call,
                message=f"`tree_flatten` returns a list of pairs, without `.{func.attr.value}()`",
                help="Use the list, or `dict(tree_flatten(tree))`",
            )


_OF_DICTIONARIES = ("items", "values", "keys")


@check("API-022", of=("mlx.utils.tree_flatten",))
def unpacked_list(fact: CallFact, module: Module) -> Iterator[Report]:
    """``leaves, structure = tree_flatten(tree)``, as in JAX."""
    statement = fact.place.statement
    if not isinstance(statement, cst.Assign) or statement.value is not fact.node:
        return
    target = statement.targets[0].target
    if isinstance(target, cst.Tuple) and len(target.elements) == len(("leaves", "structure")):
        yield Report.at(
            fact,
            message="`tree_flatten()` returns a list of pairs, not leaves and a structure",
            help="Assign the list to one name: `leaves = tree_flatten(tree)`",
        )


@check("API-022")
def flat_update(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``model.update(mx.load(path))``: the keys of a file are dotted."""
    if ".update(" not in module.source:
        return
    sources = sources_of(module)
    for function, contents in bodies_of(module):
        for call in contents.calls if "update" in contents.names else ():
            func = call.func
            if not isinstance(func, cst.Attribute) or func.attr.value != "update" or not call.args:
                continue
            source = Source(func.value, contents.statement_of(call), function, module)
            if not _has_dotted_keys(source, contents):
                continue
            ends = sources.ends(source.at(call.args[0].value))
            calls = [sources.library_call(end) for end in ends if dotted(end.node) != "None"]
            if calls and all(one is not None and one.name == "mlx.core.load" for one in calls):
                yield Report.at(
                    source,
                    node=call,
                    message="`update()` takes a nested tree: a file's dotted keys match nothing",
                    help="Use `model.load_weights(list(weights.items()))`",
                )


#: Functions that take arrays by name, and the layers of MLX that hold others.
_SAVING = frozenset(
    f"mlx.core.{name}" for name in ("savez", "savez_compressed", "save_safetensors", "save_gguf")
)
_HOLDING = frozenset(
    f"mlx.nn.{name}"
    for name in (
        *("MultiHeadAttention", "Sequential", "Transformer", "TransformerEncoder"),
        *("TransformerEncoderLayer", "TransformerDecoder", "TransformerDecoderLayer"),
    )
)


@check("API-022", of=_SAVING)
def saved_tree(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.savez(path, **model.parameters())``: MLX takes no dictionaries in dictionaries."""
    sources = sources_of(module)
    for argument in fact.arguments[1:]:
        passed = sources.of(fact, argument.node)
        ends = sources.ends(passed, through_callers=True) if argument.star != "*" else []
        if ends and all(_is_nested(end, sources) for end in ends):
            name = (fact.symbol or "").rpartition(".")[2]
            yield Report.at(
                fact,
                message=f"`mx.{name}()` raises `std::bad_cast` for nested parameters",
                help="Use `model.save_weights(path)`, or pass `dict(tree_flatten(parameters))`",
            )
            return


def _is_nested(source: Source, sources: Sources) -> bool:
    """Test for the parameters of a model that certainly has layers."""
    func = source.node.func if isinstance(source.node, cst.Call) else None
    if not _is_read(source) or not isinstance(func, cst.Attribute):
        return False
    made = sources.ends(source.at(func.value), through_callers=True)
    return bool(made) and all(_holds_layers(sources.value(one)) for one in made)


def _holds_layers(value: Value) -> bool:
    """Return whether a value is a model that certainly has layers, by its name or by attributes."""
    if isinstance(value, Instance):
        attributes = (v for cls in lineage(value.info) for v in cls.attributes.values())
        held = (part for v in attributes for part in (v, *parts_of(v)))
        return is_layer(value.info) and any(map(has_parameters, held))
    return isinstance(value, LibraryObject) and value.cls in _HOLDING


#: Members of modules that dictionaries do not have.
_OF_MODULES = frozenset(
    ("parameters", "trainable_parameters", "load_weights", "save_weights", "freeze", "train")
)


def _has_dotted_keys(owner: Source, contents: Contents) -> bool:
    """Test for a model with layers; of an unknown object, its function reads members of modules."""
    sources = sources_of(owner.module)
    made = [end for end in sources.ends(owner) if dotted(end.node) != "None"]
    values = [sources.value(end) for end in made]
    if all(value is UNKNOWN or value == _ANY_LAYER for value in values):
        path = dotted(owner.node)
        return path is not None and any(
            node.attr.value in _OF_MODULES and dotted(node.value) == path
            for node in contents.of(cst.Attribute)
        )
    return all(map(_holds_layers, values))


_ANY_LAYER = LibraryObject("mlx.nn.Module")


@check("API-027", of=("mlx.core.eval", "mlx.core.async_eval"))
def evaluated_object(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.eval(model.parameters(), optimizer)``."""
    for argument in fact.arguments:
        if argument.star:
            continue
        found = [o for o in options(argument.value) if type(o) is not NoneValue]
        if not found or not all(map(_is_object, found)):
            continue
        text = module.parsed.code(argument.node)
        is_optimizer = all(map(_is_optimizer, found))
        shown = "an optimizer" if is_optimizer else "this object"
        change = None
        if is_optimizer:
            edits = ((argument.node, f"{text}.state"),)
            change = ProposedFix("Evaluate the state of the optimizer", safe=False, edits=edits)
        yield Report.at(
            fact,
            node=argument.node,
            message=f"`mx.eval` evaluates nothing of {shown}",
            help="Pass its arrays, such as `optimizer.state`, or a list of them",
            change=change,
        )


def _is_optimizer(value: Value) -> bool:
    return isinstance(value, LibraryObject) and value.cls.startswith("mlx.optimizers.")


def _is_object(value: Value) -> bool:
    """Return whether a value is an optimizer, or an object that MLX does not walk through."""
    if isinstance(value, Sequence):
        item = any_item(value)
        return isinstance(item, Instance) and _is_object(item)
    if isinstance(value, Instance):
        # A protocol stands for other classes, and a base of a library may be a dictionary.
        return all(type(base) is Class for cls in lineage(value.info) for base in cls.bases)
    return _is_optimizer(value)
