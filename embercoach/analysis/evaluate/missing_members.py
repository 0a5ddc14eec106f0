"""Members that MLX's modules and arrays lack, recorded where they are read, called or imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import libcst as cst

from embercoach.analysis import mlx_api
from embercoach.analysis.evaluate import evidence
from embercoach.analysis.mlx_api.replacements import DTYPE_ADVICE, MLX_LM_GONE, MODULE_ADVICE
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values.facts import (
    MissingAttributeFact,
    MissingMemberFact,
    PropertyCallFact,
)
from embercoach.analysis.values.inheritance import find_method, is_layer, is_layer_class, lineage
from embercoach.analysis.values.lattice import (
    ARRAY,
    UNKNOWN,
    Array,
    BoundMember,
    Class,
    DType,
    Instance,
    LibraryObject,
    ModuleRef,
    NoneValue,
    Symbol,
    Union,
    Value,
    options,
    without,
)

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import ClassInfo
    from embercoach.analysis.evaluate.frame import Frame

#: Modules of which the table has every public name.
COMPLETE = frozenset(
    (
        *("mlx.core", "mlx.nn", "mlx.nn.init", "mlx.nn.losses", "mlx.optimizers", "mlx.utils"),
        *("mlx.core.cuda", "mlx.core.distributed", "mlx.core.fast", "mlx.core.fft"),
        *("mlx.core.linalg", "mlx.core.metal", "mlx.core.random"),
    )
)
#: Names that some of these modules import for their own use.
IMPORTED_BY_MLX = frozenset(
    (
        *("Any", "Callable", "Dict", "List", "Literal", "Optional", "Tuple", "Union"),
        *("Reduction", "defaultdict", "get_args", "math", "zip_longest"),
    )
)


def record_member(
    frame: Frame, node: cst.Attribute, owner: Value, value: Value, call: cst.Call | None = None
) -> None:
    """Record ``owner.name`` if the owner is of MLX and has no such name; ``value`` is its value."""
    kind = type(owner)
    if kind is Union:
        owner = without(owner, NoneValue)  # ``mx = None`` where MLX is not installed
        kind = type(owner)
    name = node.attr.value
    if kind in _LACKING:
        if _LACKING[kind](owner, name):
            frame.add(MissingMemberFact(node, frame.place(), owner, name, call))
    elif value is UNKNOWN:
        _record_unknown_member(frame, node, owner, call)


#: Kinds of values that are understood in whole: whether one has no member of a name.
_LACKING: dict[type[Value], Callable[[Any, str], bool]] = {
    Symbol: lambda owner, name: _lacks(owner.name, name),
    DType: lambda _, name: name in DTYPE_ADVICE,
    Array: lambda _, name: not name.startswith("__") and mlx_api.array_member(name) is None,
}


def _record_unknown_member(
    frame: Frame, node: cst.Attribute, owner: Value, call: cst.Call | None
) -> None:
    name = node.attr.value
    record_unknown(frame, frame.place().statement, node.attr, owner)
    if isinstance(owner, Instance) and is_undefined(owner.info, name):
        frame.add(MissingAttributeFact(node, frame.place(), owner.info, name))
    if owner is UNKNOWN and (name in _OF_TENSORS or name in DTYPE_ADVICE):
        _record_by_name(frame, node, call)
    if name in _OF_OPTIMIZERS and all(
        o is UNKNOWN or o == _ANY_OPTIMIZER or type(o) is NoneValue for o in options(owner)
    ):
        _record_of_optimizer(frame, node, call)
    elif name in MODULE_ADVICE:
        seen = [o for o in options(owner) if o is not UNKNOWN and o != _ANY_OPTIMIZER]
        if seen and all(map(_is_closed, seen)):
            frame.add(MissingMemberFact(node, frame.place(), seen[0], name, call))


#: Methods that tensors of torch have, and hardly anything else does.
_OF_TENSORS = frozenset(
    (
        *("unsqueeze", "unsqueeze_", "permute", "masked_fill", "masked_fill_", "detach"),
        *(
            *("backward", "contiguous", "expand_as", "clamp_", "add_", "mul_", "fill_", "zero_"),
            "index_select",
        ),
        *("repeat_interleave", "new_zeros", "new_ones", "type_as", "numel", "scatter_", "data_ptr"),
    )
)


def _record_by_name(frame: Frame, node: cst.Attribute, call: cst.Call | None) -> None:
    """Record ``x.unsqueeze(0)`` and ``x.dtype.itemsize`` of anything, if MLX alone has arrays."""
    module, name = frame.module, node.attr.value
    if not evidence.arrays_are_mlx(module) or module.is_test:
        return
    if name in DTYPE_ADVICE:
        if isinstance(node.value, cst.Attribute) and node.value.attr.value == "dtype":
            frame.add(MissingMemberFact(node, frame.place(), DType("float32"), name, call))
        return
    if call is not None and not any(f"def {name}(" in m.source for m in (module, *module.imported)):
        frame.add(MissingMemberFact(node, frame.place(), ARRAY, name, call))


#: Methods of torch's and Keras' optimizers, which layers do not have.
_OF_OPTIMIZERS = frozenset(("set_learning_rate", "zero_grad", "param_groups"))


def _record_of_optimizer(frame: Frame, node: cst.Attribute, call: cst.Call | None) -> None:
    """Record ``self.optimizer.set_learning_rate(x)``, if the file has MLX's optimizers alone."""
    module, name = frame.module, node.attr.value
    owner = (dotted(node.value) or "").rpartition(".")[2].strip("_")
    if owner not in ("opt", "optimizer") or "mlx.optimizers" not in module.source:
        return
    if module.is_test or any(one in module.source for one in ("torch", "keras", "tensorflow")):
        return
    if not any(f"def {name}(" in m.source for m in (module, *module.imported)):
        frame.add(MissingMemberFact(node, frame.place(), _ANY_OPTIMIZER, name, call))


def is_undefined(cls: ClassInfo, name: str) -> bool:
    """Return whether no class of a lineage has a method, a variable or a field of a name."""
    return not name.startswith("__") and not any(
        name in known
        for one in lineage(cls)
        for known in (one.methods, one.variables, one.annotations, one.setters, one.attributes)
    )


def record_unknown(frame: Frame, statement: cst.CSTNode, name: cst.Name, source: Value) -> None:
    """Note a name that a file of the project does not bind, for all that is known."""
    if isinstance(source, ModuleRef):
        other = source.module
        if other.is_complete and name.value not in other.frame.names:
            frame.module.unknown_imports.append((statement, name, other))


#: What a parameter called ``optimizer`` is assumed to be.
_ANY_OPTIMIZER = LibraryObject("mlx.optimizers.Optimizer")


def _is_closed(owner: Value) -> bool:
    """Return whether a value is a layer or an optimizer with no members but those that are seen."""
    if isinstance(owner, LibraryObject):
        return mlx_api.is_layer(owner.cls) or (
            owner.cls.startswith("mlx.optimizers.") and owner.cls != "mlx.optimizers.Optimizer"
        )
    if not isinstance(owner, Instance) or find_method(owner.info, "__getattr__") is not None:
        return False
    bases = [base for cls in lineage(owner.info) for base in cls.bases]
    known = (
        isinstance(b, Class) or (isinstance(b, Symbol) and is_layer_class(b.name)) for b in bases
    )
    return is_layer(owner.info) and all(known)


def record_import(frame: Frame, alias: cst.ImportAlias, module: str, name: str) -> None:
    """Record ``from mlx.core import name`` of a library if there is no such name."""
    if _lacks(module, name):
        frame.add(MissingMemberFact(alias, frame.place(), Symbol(module), name))


def record_call(
    frame: Frame, node: cst.Call, func: cst.Attribute, owner: Value, value: Value
) -> None:
    """Record a call of a missing member, or of a property: ``x.size()``, ``optimizer.step()``."""
    kind = type(owner)
    is_property = type(value) is not BoundMember and value is not UNKNOWN
    if is_property and (kind is Array or (func.attr.value == "step" and _is_closed(owner))):
        frame.add(PropertyCallFact(node, frame.place(), func.attr.value))
    else:
        record_member(frame, func, owner, value, node)


def _lacks(owner: str, name: str) -> bool:
    """Return whether a module or a class of MLX or mlx-lm certainly has no such public name."""
    if name.startswith("_"):
        return False
    if owner.startswith("mlx_lm."):
        return f"{owner}.{name}" in MLX_LM_GONE
    if owner in COMPLETE:
        return name not in IMPORTED_BY_MLX and mlx_api.lookup(f"{owner}.{name}") is None
    if not owner.startswith(("mlx.nn.", "mlx.optimizers.")):
        return False
    entry = mlx_api.lookup(owner)
    is_class = entry is not None and entry.kind == "class"
    return is_class and name not in _OF_CLASSES and mlx_api.member(owner, name) is None


#: Members of all classes, and of modules, which are dictionaries.
_OF_CLASSES = frozenset((*dir(dict), "mro"))
