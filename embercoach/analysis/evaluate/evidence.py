"""Evidence from use: what only an array survives shows that a name holds one."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis import mlx_api
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values.facts import Argument, match
from embercoach.analysis.values.lattice import (
    NONE,
    TRACED,
    UNKNOWN,
    Array,
    BoundMember,
    DType,
    Union,
    Value,
    options,
)
from embercoach.analysis.values.memo import kept_for_file

if TYPE_CHECKING:
    from embercoach.analysis.evaluate.frame import Frame
    from embercoach.analysis.project.module import Module


def learn(frame: Frame, name: str, arguments: tuple[Argument, ...]) -> None:
    """A call that only an array survives shows that its argument is one."""
    if not any(type(a.value) is type(UNKNOWN) or type(a.value) is Union for a in arguments):
        return
    entry = mlx_api.lookup(name)
    if entry is None or not name.startswith(_CORE):
        return
    for param, argument in match(entry, arguments):
        if param.expects_array:
            show_array(frame, argument.node, argument.value)


_CORE = ("mlx.core.", "mlx.nn.losses.")


#: Libraries whose values have array methods too; a mere mention is enough to be careful.
_OTHER_ARRAYS = (
    *("numpy", "torch", "jax", "tensorflow", "pandas", "polars", "cupy", "keras", "xarray"),
    *("scipy", "sklearn", "h5py", "cv2", "librosa", "soundfile", "pyarrow", "return_tensors"),
)


@kept_for_file
def arrays_are_mlx(module: Module) -> bool:
    """Return whether a file mentions no other library of arrays."""
    return not any(library in module.source for library in _OTHER_ARRAYS)


def array_only_method(frame: Frame, func: cst.Attribute, assumed: Value) -> Value:
    """Return a method of an unknown value that arrays of any library have; ``assumed`` by the file.

    What ``mx.eval`` has evaluated is MLX's: of other values it does nothing.
    An attribute may be a container with a ``tolist`` of another kind: ``options.sizes.tolist()``.
    Code that asks whether a value has the method is given other values too.
    """
    name, path = func.attr.value, dotted(func.value)
    if path in frame.evaluated:
        return BoundMember(TRACED, name)
    if name in _PULLING and path is not None and (path, name) in frame.asked:
        return UNKNOWN
    if frame.module.is_test or name != "tolist":
        return assumed
    return UNKNOWN if isinstance(func.value, cst.Attribute) else assumed


def learn_method(
    frame: Frame,
    callee: BoundMember,
    receiver: Value | None,
    arguments: tuple[Argument, ...],
    node: cst.BaseExpression | None,
) -> None:
    """``x.astype(mx.float32)``, or any method that only arrays have, shows that ``x`` is one."""
    if node is None or receiver is None:
        return
    converts = callee.name == "astype" and arguments and isinstance(arguments[0].value, DType)
    if converts or isinstance(callee.owner, Array):
        show_array(frame, node, receiver)


def learn_compiled(frame: Frame, node: cst.BaseExpression, name: str) -> BoundMember | None:
    """``x.item``: of what compiled functions may be given, only arrays have such a method."""
    info = frame.info
    if info is None or not info.compiled or not isinstance(node, cst.Name):
        return None
    if frame.names.get(node.value) is not UNKNOWN or not _is_array_method(name):
        return None
    show_array(frame, node, UNKNOWN)
    known = frame.names.get(node.value)
    return BoundMember(known, name) if isinstance(known, Array) else None


@cache
def _is_array_method(name: str) -> bool:
    """Return whether arrays have a method, and neither constants nor trees do."""
    others = (str, int, float, list, tuple, dict)
    return mlx_api.array_member(name) is not None and not any(hasattr(o, name) for o in others)


_PULLING = frozenset({"item", "tolist"})


def show_array(frame: Frame, node: cst.BaseExpression, value: Value) -> None:
    """From here on a name of unknown kind holds an array; for a parameter, from the start."""
    if not isinstance(node, cst.Name):
        return
    known = list(options(value))
    if any(o is not UNKNOWN and o is not NONE for o in known) or UNKNOWN not in known:
        return
    name = node.value
    if frame.names.get(name) != value:
        return
    info = frame.info
    if (
        info is not None
        and frame.record
        and name not in frame.rebound
        and any(p.name == name and p.annotation is None for p in info.parameters)
    ):
        info.shown_arrays.add(name)
    if frame.must is not None and name not in frame.rebound:
        frame.must.shown.add(name)
    frame.names[name] = TRACED
