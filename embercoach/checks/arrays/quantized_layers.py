"""QUANT-002 to 004: weights of quantized layers, read as if they were not, or by defaults."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import libcst as cst

from embercoach.analysis.dataflow.contents import Contents, contents_of
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.dataflow.scopes import CONSTRUCTORS
from embercoach.analysis.dataflow.value_sources import Source, sources_of
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import DEFINITIONS, dotted, evaluated
from embercoach.analysis.values.facts import CallFact, Fact
from embercoach.analysis.values.inheritance import library_bases, lineage
from embercoach.analysis.values.lattice import Instance, LibraryObject, NoneValue, Unknown, options
from embercoach.analysis.values.memo import kept_for_file
from embercoach.checks.registry import Report, check


@check("QUANT-002")
def packed_weight(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``x.astype(self.lm_head.weight.dtype)``, ``h @ self.embed_tokens.weight.T``."""
    if ".weight" not in module.source or "mlx" not in module.source:
        return
    for function in module.functions:
        if function.name in _BEFORE:
            continue
        body = function.node.body
        contents = contents_of(body, DEFINITIONS)
        if "weight" not in contents.names or not contents.names.isdisjoint(_ASKS):
            continue
        for node in contents.of(cst.Attribute):
            if node.attr.value != "weight":
                continue
            if isinstance(node.value, cst.Name) and node.value.value not in _KNOWN:
                continue
            use = _use(node, contents)
            if use is None:
                continue
            layer = Source(node.value, contents.statement_of(node), function, module)
            if not _may_be_quantized(layer):
                continue
            yield Report.at(layer, node=node, message=use.message, help=use.help)


#: Functions that run before a model is quantized.
_BEFORE = (*CONSTRUCTORS, "sanitize")
#: Names in functions that know that weights may be packed.
_ASKS = frozenset(
    (
        *("QuantizedLinear", "QuantizedEmbedding", "scales", "bits", "group_size", "uint32"),
        *("dequantize", "quantize", "to_quantized", "is_quantized", "quantized"),
    )
)


class _Use(NamedTuple):
    """The message and the help of one use of weights."""

    message: str
    help: str


_DTYPE = _Use(
    "dtype of a layer's weight: uint32 once the layer is quantized",
    "Use the dtype of an activation, or of a norm's weight",
)
_PRODUCT = _Use(
    "product with a layer's weight, which quantization packs",
    "Call the layer: `linear(x)`, or `embedding.as_linear(x)` of a tied embedding",
)
_ROWS = _Use(
    "rows of a layer's weight, which quantization packs",
    "Call the layer with the indices: `embedding(indices)`",
)
_SIZE = _Use(
    "last size of a layer's weight, which quantization packs",
    "Use the size of the configuration, or of an activation",
)
_PRODUCTS = frozenset(("matmul", "addmm", "einsum"))
_MAKERS = frozenset(("astype", "array", "zeros", "ones", "full", "empty", "view"))
_JOINS = frozenset(("broadcast_to", "concatenate", "stack", "take"))


def _use(weight: cst.Attribute, contents: Contents) -> _Use | None:
    """Return the use of weights that is meant for those that are not packed.

    Uses of a name that only these weights are bound to count as well.
    """
    statement = contents.parent_of(weight)
    target = statement.targets[0].target if isinstance(statement, cst.Assign) else None
    if isinstance(target, cst.Name):
        reads = contents.uses(target.value)
        if sum(one in contents.targets for one in reads) == 1:
            return next(filter(None, (_use_at(one, contents) for one in reads)), None)
    return _use_at(weight, contents)


def _use_at(weight: cst.Attribute | cst.Name, contents: Contents) -> _Use | None:
    parent = contents.parent_of(weight)
    if isinstance(parent, cst.Attribute):
        name = parent.attr.value
        if name == "dtype" and _is_for_cast(parent, contents):
            return _DTYPE
        if name == "shape" and _is_last_size(parent, contents):
            return _SIZE
        return _PRODUCT if name == "T" and _is_multiplied(parent, contents) else None
    if isinstance(parent, cst.Subscript) and parent.value is weight:
        return _ROWS if _is_computed_with(parent, contents) else None
    return _PRODUCT if _is_multiplied(weight, contents) else None


def _is_for_cast(dtype: cst.BaseExpression, contents: Contents) -> bool:
    parent = contents.parent_of(dtype)
    if isinstance(parent, cst.Arg):
        call = contents.parent_of(parent)
        named = parent.keyword is not None and parent.keyword.value == "dtype"
        return named or (isinstance(call, cst.Call) and last_name(call) in _MAKERS)
    if isinstance(parent, cst.IfExp):
        return _is_for_cast(parent, contents)
    if isinstance(parent, cst.Assign) and len(parent.targets) == 1:
        target = parent.targets[0].target
        if isinstance(target, cst.Name):
            used = (
                u for u in contents.uses(target.value) if type(contents.parent_of(u)) is cst.Arg
            )
            return any(_is_for_cast(use, contents) for use in used)
    return False


def _is_multiplied(node: cst.CSTNode, contents: Contents) -> bool:
    parent = contents.parent_of(node)
    if isinstance(parent, cst.BinaryOperation):
        return isinstance(parent.operator, cst.MatrixMultiply)
    call = contents.parent_of(parent) if isinstance(parent, cst.Arg) else None
    return isinstance(call, cst.Call) and last_name(call) in _PRODUCTS


def _is_last_size(shape: cst.CSTNode, contents: Contents) -> bool:
    parent = contents.parent_of(shape)
    if isinstance(parent, cst.Assign):
        target = parent.targets[0].target
        return isinstance(target, cst.Tuple) and len(target.elements) == 2
    if not isinstance(parent, cst.Subscript) or len(parent.slice) != 1:
        return False
    part = parent.slice[0].slice
    index = part.value if isinstance(part, cst.Index) else None
    if isinstance(index, cst.UnaryOperation):
        index = index.expression
    is_last = isinstance(index, cst.Integer) and index.value == "1"
    return is_last and not isinstance(
        contents.parent_of(parent), (cst.BinaryOperation, cst.Comparison)
    )


def _is_computed_with(node: cst.CSTNode, contents: Contents) -> bool:
    outer = (one for one in contents.above(node) if not isinstance(one, cst.Subscript))
    parent = next(outer, None)
    if isinstance(parent, (cst.BinaryOperation, cst.AugAssign)):
        return True
    call = contents.parent_of(parent) if isinstance(parent, cst.Arg) else None
    return isinstance(call, cst.Call) and last_name(call) in _JOINS


_LINEAR = frozenset(("mlx.nn.Linear", "mlx.nn.layers.linear.Linear"))
_EMBEDDING = frozenset(("mlx.nn.Embedding", "mlx.nn.layers.embedding.Embedding"))
#: Names of layers in mlx-lm that it quantizes.
_KNOWN = frozenset(("lm_head", "embed_tokens", "wte"))


#: Parts of paths that mlx-vlm leaves as they are.
_SKIPPED = (
    *("vision", "visual", "audio_tower", "audio_model", "vl_connector", "sam_model"),
    *("code_predictor", "img_projector", "multi_modal_projector", "patch_merge_mlp"),
)


def _may_be_quantized(layer: Source) -> bool:
    """Return whether code of the project quantizes a layer, or mlx-lm and its like do."""
    module, name = layer.module, last_name(layer.node)
    if any(part in f"{module.path.stem}.{dotted(layer.node)}" for part in _SKIPPED):
        return False
    if module.path.stem == "audio":
        return False
    found = options(sources_of(module).value(layer))
    kinds = {o.cls if isinstance(o, LibraryObject) else "" for o in found if type(o) not in _OPEN}
    if not (kinds <= _LINEAR | _EMBEDDING if kinds else name in _KNOWN):
        return False
    sources = sources_around(module)
    if any("quant_predicate" in source for source in sources) and name not in _KNOWN:
        return False
    for source in sources:
        if "nn.quantize(" in source:
            if "class_predicate" not in source or kinds <= _LINEAR:
                return True
        elif "class Model(" in source and any(mark in source for mark in _LOADED):
            return True
    return False


_OPEN = (NoneValue, Unknown)
#: Parts of models that mlx-lm and its like load, with a class ``Model``, and quantize.
_LOADED = ("def sanitize(", "def layers(", "BaseModelArgs")


@kept_for_file
def sources_around(module: Module) -> tuple[str, ...]:
    """Return the texts of a file, of its package, and of what both import."""
    modules = [module, *module.imported]
    package = module.import_module("", 1)
    if package is not None:
        package.run()
        modules += [package, *package.imported]
    return tuple(one.source for one in dict.fromkeys(modules))


_PARAMETERS = ("group_size", "bits", "mode")
_KERNELS = ("quantized_matmul", "gather_qmm", "dequantize")


@check("QUANT-003", of=[f"mlx.core.{name}" for name in _KERNELS])
def missing_parameter(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.dequantize(layer.weight, layer.scales, layer.biases)`` of an ``nn.QuantizedLinear``."""
    if any(argument.star for argument in fact.arguments):
        return
    given = {param.name: argument.node for param, argument in fact.matched}
    owner = _owner(given.get("scales"))
    if owner is None:
        return
    known = _attributes(sources_of(module).of(fact, owner), fact)
    lacking = [name for name in _PARAMETERS if name in known and name not in given]
    if lacking:
        shown = dotted(owner)
        function = last_name(fact.node)
        yield Report.at(
            fact,
            message=f"`{function}()` without the `{lacking[0]}` of the layer uses the default",
            help=f"Pass {', '.join(f'`{name}={shown}.{name}`' for name in lacking)}",
        )


def _owner(scales: cst.BaseExpression | None) -> cst.BaseExpression | None:
    """Return ``layer`` of ``layer.scales`` and ``layer["scales"]``."""
    if isinstance(scales, cst.Attribute):
        return scales.value if scales.attr.value == "scales" and dotted(scales) else None
    if isinstance(scales, cst.Subscript) and dotted(scales.value):
        part = scales.slice[0].slice
        name = part.value if isinstance(part, cst.Index) else None
        is_scales = isinstance(name, cst.SimpleString) and evaluated(name) == "scales"
        return scales.value if is_scales else None
    return None


def _attributes(layer: Source, fact: CallFact) -> frozenset[str]:
    """Return the attributes of a layer; of an unknown one, if the function asks for its class."""
    found: set[str] = set()
    for option in options(sources_of(layer.module).value(layer)):
        if isinstance(option, Instance):
            found |= {n for cls in lineage(option.info) for n in (*cls.setters, *cls.annotations)}
            bases = list(library_bases(option.info))
        else:
            bases = [option.cls] if isinstance(option, LibraryObject) else []
        if any(base.endswith(_QUANTIZED) for base in bases):
            return frozenset(_PARAMETERS)
    function = fact.place.function
    if not found and function is not None:
        names = contents_of(function.node.body).names
        return frozenset(() if names.isdisjoint(_QUANTIZED) else _PARAMETERS)
    return frozenset(found)


_QUANTIZED = ("QuantizedLinear", "QuantizedEmbedding")


@check("QUANT-004")
def scales_dtype(module: Module, _: list[Fact]) -> Iterator[Report]:
    """``x.astype(layer.scales.dtype)``."""
    if ".scales.dtype" not in module.source or module.is_test:
        return
    for function in module.functions:
        contents = contents_of(function.node.body, DEFINITIONS)
        if "scales" not in contents.names or not contents.names.isdisjoint(_TELLS_MODES):
            continue
        for node in contents.of(cst.Attribute):
            owner = node.value if node.attr.value == "dtype" else None
            if not isinstance(owner, cst.Attribute) or owner.attr.value != "scales":
                continue
            call = contents.parent_of(contents.parent_of(node))
            of_scales = isinstance(call, cst.Call) and contents_of(call.func).names & _OF_SCALES
            if of_scales or not _is_for_cast(node, contents):
                continue
            yield Report.in_file(
                module,
                node,
                function=function,
                message="dtype of a layer's scales: uint8 in modes such as `mxfp4` and `nvfp4`",
                help="Use the dtype of an activation, or of a norm's weight",
                context=None,
            )
            break


#: Names in functions that know of modes whose scales are integers.
_TELLS_MODES = frozenset(("uint8", "mode", "issubdtype"))
_OF_SCALES = frozenset(("scales", "biases"))
