"""Evidence from use: what only an array survives shows that a name holds one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis import (
    mlx_api,
)
from embercoach.analysis.facts.facts import match
from embercoach.analysis.values.joins import options
from embercoach.analysis.values.lattice import (
    NONE,
    UNKNOWN,
    Array,
    BoundMember,
    DType,
    Union,
    Value,
)

if TYPE_CHECKING:
    from embercoach.analysis.evaluate.frame import Frame
    from embercoach.analysis.facts.facts import Argument


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
    frame.names[name] = Array(traced=True)
