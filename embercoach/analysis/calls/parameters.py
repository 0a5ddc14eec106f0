"""Values of parameters: by annotation, by callers, by default, by convention."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
from msgspec.structs import replace

from embercoach.analysis.calls.annotations import evaluate_annotation
from embercoach.analysis.evaluate.dispatch import call_function, evaluate, left_in
from embercoach.analysis.evaluate.frame import Frame
from embercoach.analysis.syntax.trees import walk
from embercoach.analysis.values.inheritance import (
    MODULE,
    find_method,
    is_called,
    is_layer,
    library_bases,
)
from embercoach.analysis.values.lattice import (
    ARRAY,
    NO_PULLS,
    NONE,
    SETTING,
    STR,
    TRACED,
    TREE,
    UNKNOWN,
    Array,
    Class,
    Dict,
    DType,
    Instance,
    LibraryObject,
    Number,
    Numpy,
    Sequence,
    Str,
    Torch,
    Union,
    Value,
    any_item,
    as_array,
    join,
    join_all,
    options,
)
from embercoach.analysis.values.memo import remembered

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo, FunctionParameter
    from embercoach.analysis.project.module import Module

#: Names that configuration objects go by: what they hold is host data.
SETTING_NAMES = frozenset({"config", "cfg", "args", "hparams", "configuration", "settings"})
OPTIMIZER = "mlx.optimizers.Optimizer"
STATE = Dict(UNKNOWN)

#: Overrides of ``mlx.optimizers.Optimizer``: parameters after ``self``.
_OPTIMIZER_METHODS: dict[str, tuple[Value, ...]] = {
    "init_single": (TRACED, STATE),
    "apply_single": (TRACED, TRACED, STATE),
    "apply_gradients": (TREE, TREE),
}


def assumed_parameter(info: FunctionInfo, index: int, name: str) -> Value | None:
    """Return a parameter's value by its method's role; None without a convention."""
    if name == "optimizer" and "torch" not in info.module.source:
        return LibraryObject(OPTIMIZER)
    cls = info.cls
    if cls is None or index == 0:
        return None
    if is_layer(cls):
        if index == 1 and name not in info.denied_arrays and is_called(info):
            return None if name in SETTING_NAMES or _is_unpacked(info, name) else ARRAY
        if info.name == "sanitize" and index == 1:
            # mlx-lm's loader hands a checkpoint's arrays by name.
            return Dict(ARRAY)
        if info.name == "__init__" and name in ("args", "config"):
            return _model_arguments(info)
        return None
    known = _OPTIMIZER_METHODS.get(info.name)
    if known is None or index > len(known):
        return None
    if not any(base.startswith("mlx.optimizers.") for base in library_bases(cls)):
        return None
    return _initial_state(info) if known[index - 1] is STATE else known[index - 1]


def _is_unpacked(info: FunctionInfo, name: str) -> bool:
    """Test whether a body assigns the items of a parameter to names: it is a tuple."""
    return any(
        isinstance(node, cst.Assign)
        and isinstance(node.value, cst.Name)
        and node.value.value == name
        and any(isinstance(target.target, (cst.Tuple, cst.List)) for target in node.targets)
        for node in walk(info.node.body)
    )


def _initial_state(info: FunctionInfo) -> Value:
    """Return the result of ``init_single``, the state that ``apply_single`` takes."""
    assert info.cls is not None
    maker = find_method(info.cls, "init_single")
    if maker is None or maker is info or len(maker.parameters) < 3:
        return Dict(UNKNOWN)
    return left_in(maker, maker.parameters[2].name)


def _model_arguments(info: FunctionInfo) -> Value | None:
    """mlx-lm's and mlx-vlm's loaders build a file's ``Model`` from its ``ModelArgs``."""
    for name in ("ModelArgs", "ModelConfig"):
        value = info.module.frame.names.get(name)
        if isinstance(value, Class):
            return Instance(value.info)
    return None


MOST_KEY_PIECES = 64


def plain(value: Value) -> Value:
    """Return a value as evidence and as a key: without constants and sites of this very call."""
    if isinstance(value, Number):
        return Number(value.kind)
    if isinstance(value, Array):
        if value.pulls or value.literal or value.scalar:
            return Array(value.dtype, False, False, value.traced)
        return value
    if isinstance(value, Str):
        return (
            value if value.text is not None and len(value.pieces or ()) <= MOST_KEY_PIECES else STR
        )
    if isinstance(value, Union):
        return _plain_union(value)
    if isinstance(value, Sequence):
        if value.items is not None and len(value.items) <= 8:
            return Sequence(value.kind, None, tuple(map(plain, value.items)))
        return Sequence(value.kind, plain(any_item(value)))
    if isinstance(value, Dict) and value.known:
        return Dict(plain(value.item), tuple((k, plain(v)) for k, v in value.known))
    if getattr(value, "pulls", None):
        return replace(value, pulls=NO_PULLS)
    return value


@remembered
def _plain_union(value: Union) -> Value:
    return join_all(plain(o) for o in value.options)


def is_vague(value: Value) -> bool:
    """Return whether an annotation leaves open what matters: ``tuple``, ``dict``, ``list``."""
    if isinstance(value, Sequence):
        return any_item(value) is UNKNOWN
    return isinstance(value, Dict) and value.item is UNKNOWN and not value.known


def annotated_result(info: FunctionInfo) -> Value | None:
    """Return the value of the return annotation, None if there is none."""
    node = info.node
    if isinstance(node, cst.Lambda) or node.returns is None:
        return None
    return _of_annotation(info, node.returns.annotation)


def annotated_value(info: FunctionInfo, parameter: FunctionParameter) -> Value:
    """Return the value of a parameter's annotation; ``UNKNOWN`` if it has none."""
    return UNKNOWN if parameter.annotation is None else _of_annotation(info, parameter.annotation)


def _of_annotation(info: FunctionInfo, node: cst.BaseExpression) -> Value:
    known = info.annotated.get(node)
    if known is None:
        known = evaluate_annotation(closure_of(info), node)
        if info.module.is_complete:  # else names may be missing still
            info.annotated[node] = known
    return known


def declared_result(info: FunctionInfo) -> Value:
    """Return the value of the return annotation; ``UNKNOWN`` if there is none."""
    return annotated_result(info) or UNKNOWN


def closure_of(info: FunctionInfo) -> Frame:
    """Return the frame that a function's free names, and its annotations, are looked up in."""
    return info.closure if info.closure is not None else info.module.frame


def parameter_value(info: FunctionInfo, parameter: FunctionParameter, given: Value | None) -> Value:
    """Return a parameter's value in the body: annotation, caller, then default."""
    if type(given) is Instance or type(given) is Class:
        return given
    annotated = annotated_value(info, parameter)
    if parameter.star == "*":
        return given if given is not None else Sequence("tuple", annotated)
    if parameter.star == "**":
        return given if type(given) is Dict and given.exact else Dict(annotated)
    if annotated is not UNKNOWN:
        # A caller's value that is more precise than the annotation.
        if isinstance(given, _REFINED) and type(given) in {type(o) for o in options(annotated)}:
            return given
        if parameter.default is not None and _is_none(parameter.default):
            return _traced(join(annotated, NONE))
        return _traced(annotated)
    if given is not None:
        return _traced(given)
    if parameter.name in SETTING_NAMES and parameter.default is None:
        return SETTING
    default: Value = UNKNOWN
    if parameter.default is not None:
        default = quiet_default(info, parameter.default)
    return join(default, UNKNOWN) if default is not UNKNOWN else UNKNOWN


_REFINED = (Array, Torch, Sequence, Dict, DType, Str, type(NONE))


def _traced(value: Value) -> Value:
    if type(value) is Array:
        if value.traced:
            return value
        return Array(value.dtype, False, False, True)
    if type(value) is Union:
        return _traced_union(value)
    if type(value) is Sequence and value.items is None:
        return Sequence(value.kind, _traced(any_item(value)))
    return value


@remembered
def _traced_union(value: Union) -> Value:
    return join_all(_traced(o) for o in value.options)


def _is_none(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value == "None"


def default_value(info: FunctionInfo, node: cst.BaseExpression) -> Value:
    """Return the value of a default, without the facts of its evaluation."""
    return evaluate(Frame(info.module, None, closure_of(info)), node)


def quiet_default(info: FunctionInfo, node: cst.BaseExpression) -> Value:
    """Return the value of a default, without the facts of its evaluation and its constants."""
    return plain(default_value(info, node))


def canonical_values(info: FunctionInfo) -> tuple[Value, ...]:
    """Return the parameters' values for the analysis that records facts: all that callers pass."""
    values: list[Value] = []
    for index, parameter in enumerate(info.parameters):
        if index == 0 and info.is_method and not parameter.star:
            cls = info.cls
            assert cls is not None
            is_class = "builtins.classmethod" in info.decorators or info.name == "__new__"
            values.append(Class(cls) if is_class else Instance(cls))
            continue
        evidence = parameter.evidence
        if parameter.annotation is not None and evidence is not None:
            values.append(_reconciled(info, parameter, evidence))
            continue
        if evidence is None:
            evidence = _assumed(info, parameter, index)
        elif parameter.default is not None and parameter.annotation is None:
            evidence = join(evidence, quiet_default(info, parameter.default))
        values.append(parameter_value(info, parameter, evidence))
    return tuple(values)


def _callers_are_known(info: FunctionInfo) -> bool:
    """Return whether all callers are in the file: of inner and private functions, in a script."""
    if info.name.startswith("__"):
        return False
    return info.outer is not None or info.name.startswith("_") or info.module.is_script


def _reconciled(info: FunctionInfo, parameter: FunctionParameter, evidence: Value) -> Value:
    """Return the annotation, joined with what callers pass in spite of it.

    Callers elsewhere may pass all that the annotation allows, whatever those seen here do.
    """
    declared = parameter_value(info, parameter, None)
    allowed = {type(o) for o in options(declared)}
    if type(declared) is Torch and type(evidence) is Torch:
        return evidence  # where its callers have moved it
    if Array not in allowed:
        # The one module that callers pass for a parameter annotated as ``nn.Module``.
        if type(evidence) is Instance and MODULE in options(declared) and is_layer(evidence.info):
            return evidence
        return declared
    declared = _passed_array(declared, evidence, info)
    others = [o for o in options(evidence) if type(o) in _CONTRADICT and type(o) not in allowed]
    if others and info.outer is not None and type(evidence) in _CONTRADICT:
        return evidence  # every caller of an inner function is in sight
    return with_dtype(join_all([declared, *others]), evidence, info.module)


def with_dtype(declared: Value, evidence: Value | None, module: Module) -> Value:
    """Return a declared array, with the dtype of all arrays that a script passes here.

    A mask is one for callers elsewhere too; other dtypes may differ.
    """
    if type(declared) is not Array or declared.dtype is not None or type(evidence) is not Array:
        return declared
    is_known = evidence.dtype == "bool" or (evidence.dtype is not None and module.is_script)
    return replace(declared, dtype=evidence.dtype) if is_known else declared


def _passed_array(declared: Value, evidence: Value, info: FunctionInfo) -> Value:
    """Return the annotation with the dtype of the arrays that callers pass, all in sight.

    They are of inner and private functions, and of those in a script.
    """
    passed = as_array(evidence)
    if passed is None or not passed.dtype:
        return declared
    if not _callers_are_known(info) and not info.module.is_script:
        return declared  # other files may call it with any array
    array = Array(passed.dtype, traced=True)
    return join_all(array if type(o) is Array else o for o in options(declared))


#: Values that an annotation as an array does not cover.
_CONTRADICT = (Numpy, Number, Str, Torch)


def _assumed(info: FunctionInfo, parameter: FunctionParameter, index: int) -> Value | None:
    """Return the value of a parameter without annotation or callers, by convention."""
    seed = info.seeds.get(parameter.name)
    if seed is not None and (parameter.annotation is None or _is_vague_annotation(info, parameter)):
        return seed
    if parameter.default is not None or parameter.star:
        return None
    if parameter.annotation is not None and not _is_vague_annotation(info, parameter):
        return None
    fixture = info.module.fixtures.get(parameter.name)
    if fixture is not None and fixture is not info and info.module.is_test:
        return call_function(info.module.frame, fixture, None, ())
    return assumed_parameter(info, index, parameter.name)


def _is_vague_annotation(info: FunctionInfo, parameter: FunctionParameter) -> bool:
    """Return whether a convention can say more than an annotation such as ``dict``."""
    return is_vague(annotated_value(info, parameter))
