"""Messages of findings about shapes, and the correct operation: help, and unsafe fixes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from pathlib import Path
from typing import NamedTuple

import libcst as cst

from embercoach.analysis.project.module import Module
from embercoach.analysis.shapes.arrays import shape_text
from embercoach.analysis.shapes.interpreter import ShapeEvent
from embercoach.analysis.shapes.node_shapes import shape_at
from embercoach.checks.registry import ProposedFix
from embercoach.checks.source_text import mlx_alias
from embercoach.terminal_text import MOST_SHOWN, escaped, quoted

_BROADCAST = " don't broadcast"
#: What the reason of an operation on two arrays begins with.
_OF_TWO = ("the shapes ", "the inner sizes of ", "the last sizes of ")


def message_of(event: ShapeEvent, code: str, doubt: str, where: str = "") -> str:
    """Return one line: what is called, both shapes, and what fails.

    Args:
        event: the event.
        code: of its rule.
        doubt: the condition under which it does not raise; empty if it always does.
        where: the file and line of the operation, where the message stands elsewhere.
    """
    text = ""
    for text in _messages(event, code, doubt, where):
        if len(text) <= MOST_SHOWN:
            break
    return quoted(text, MOST_SHOWN)


def _messages(event: ShapeEvent, code: str, doubt: str, where: str) -> Iterator[str]:
    """Messages, the longer ones first."""
    reason, name, shapes = event.reason, operation_name(event), shapes_in(event.reason)
    if is_broadcast(reason) and name == "`matmul`":
        reason = reason.replace("the shapes", "leading axes", 1)
    if code == "SHAPE-004" and len(shapes) > 1:
        size = reason.partition(" the elements of ")[2].partition(" are ")[0]
        before, after = map(shape_text, shapes[:2])
        yield f"`reshape` of {before} to {after} mixes elements of {size}"
        yield f"`reshape` mixes elements of {size}"
    elif code == "SHAPE-005":
        yield f"`softmax` over {reason.partition(' is ')[0]}, and the product sums over the last"
    elif reason.endswith("all pairs") and len(shapes) > 1:
        yield f"{name} of {shape_text(shapes[0])} and {shape_text(shapes[1])} gives all pairs"
    elif event.condition is None:
        prefix = "" if event.code else f"{name}{where}: "
        yield prefix + _shortened(reason)
        yield prefix + _shortened(reason.rpartition(": ")[0] or reason)
    else:
        name += where
        subject = f"{name} of {' and '.join(map(shape_text, shapes))}"
        effect = f"raises unless {doubt}"
        if code == "SHAPE-003":
            effect = f"aligns {event.condition.left} with {event.condition.right}"
        if reason.startswith(_OF_TWO) and len(shapes) == 2:
            yield f"{subject} {effect}"
        else:
            yield f"{name} {effect}: {_shortened(reason)}"
        yield f"{name} {effect}"


def operation_name(event: ShapeEvent) -> str:
    """Return the operation, as the program calls it."""
    name = event.operation.rpartition(".")[2]
    return {"__getitem__": "index", "__setitem__": "assignment"}.get(name, f"`{name}`")


def _shortened(reason: str) -> str:
    """Return a reason without articles at the beginning of its clauses."""
    text = reason.removeprefix("the ").replace(": the ", ": ")
    return text.replace(", and the ", ", ").replace("shape of the ", "shape of ")


def is_broadcast(reason: str) -> bool:
    """Return whether two shapes don't broadcast."""
    return reason.endswith(_BROADCAST)


def shapes_in(reason: str) -> list[tuple[str, ...]]:
    """Return the shapes that a reason names, as the texts of their sizes."""
    found: list[tuple[str, ...]] = []
    depth = start = 0
    sizes: list[str] = []
    for at, char in enumerate(reason):
        if char == "(":
            depth += 1
            if depth == 1:
                start, sizes, is_shape = at + 1, [], not reason[at - 1 : at].strip()
        elif char == ")" and depth:
            depth -= 1
            if depth == 0 and is_shape:
                last = reason[start:at].strip()
                if sizes or not last:  # other parentheses group a sum
                    found.append((*sizes, last) if last else tuple(sizes))
        elif char == "," and depth == 1:
            sizes.append(reason[start:at].strip())
            start = at + 1
    return found


Shape = tuple[str, ...]

#: The longest help.
LONGEST = 100
_REDUCTIONS = "all any argmax argmin logsumexp max mean min norm prod std sum var"
REDUCTIONS = frozenset(_REDUCTIONS.split())


class Remedy(NamedTuple):
    """The help of a finding, and its fix."""

    help: str
    change: ProposedFix | None = None


class Operation(NamedTuple):
    """An operation that doesn't fit: its event, its node, and the shapes that its reason names."""

    event: ShapeEvent
    node: cst.CSTNode
    module: Module
    shapes: list[Shape]

    @property
    def operands(self) -> list[cst.BaseExpression]:
        """The arrays that it takes, as far as they are written there."""
        node = self.node
        if isinstance(node, cst.BinaryOperation):
            return [node.left, node.right]
        if isinstance(node, cst.AugAssign):
            return [node.target, node.value]
        if isinstance(node, cst.Comparison):
            return [node.left, node.comparisons[0].comparator]
        if not isinstance(node, cst.Call) or any(arg.star for arg in node.args):
            return []
        given = [arg.value for arg in node.args if arg.keyword is None]
        if isinstance(node.func, cst.Attribute) and ".array." in self.event.operation:
            return [node.func.value, *given]
        return given

    @property
    def is_matmul(self) -> bool:
        """Test for ``a @ b`` and ``mx.matmul(a, b)``."""
        return self.event.operation == "mlx.core.matmul"

    def owner(self, node: cst.BaseExpression) -> str:
        """Return the source of an expression before a dot or a bracket."""
        text = self.module.parsed.code(node)
        if isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)) or node.lpar:
            return text
        return f"({text})"


def remedy_of(event: ShapeEvent, code: str, node: cst.CSTNode, module: Module) -> Remedy:
    """Return the most specific help that there is."""
    operation = Operation(event, node, module, shapes_in(event.reason))
    if code == "SHAPE-004":
        remedies: tuple[Callable[[Operation], Iterator[Remedy]], ...] = (_move_axes,)
    elif code == "SHAPE-005":
        remedies = (_last_axis,)
    elif code == "SHAPE-006":
        remedies = (_written_shape,)
    elif code == "SHAPE-007":
        return Remedy("Use the same axis in both calls")
    elif code == "SHAPE-008":
        if "lengths" in event.reason:
            return Remedy("Pass the positions at which parts begin: the sums of the lengths")
        if "tile" in event.reason:
            return Remedy("Use `mx.repeat`: copies of a head belong next to each other")
        return Remedy("Swap two axes with `swapaxes`; `transpose` takes the order of all axes")
    elif code in _BY_CODE:
        remedies = (_BY_CODE[code],)
    else:
        remedies = (_keep_axes, _squeeze, _insert_axes, *_BY_REASON, _equal_sizes)
    for remedy in remedies:
        for found in remedy(operation):
            if len(found.help) <= LONGEST and escaped(found.help) == found.help:
                return found
    place = command(event.file.path, getattr(event.node, "lineno", 0))
    return Remedy(f"Print the shapes that lead here: `{place}`")


def command(path: Path, line: int = 0) -> str:
    """Return the command that prints the shapes of a file, or of one of its lines."""
    name = path.name if path.suffix == ".py" and len(path.name) <= MOST_NAMED else "FILE"
    return (
        f"embercoach shapes {name}:{line}"
        if line and name != "FILE"
        else f"embercoach shapes {name}"
    )


#: Characters of a file's name in a help text.
MOST_NAMED = 40


def _keep_axes(operation: Operation) -> Iterator[Remedy]:
    """``x - x.mean(axis=1)``."""
    if not is_broadcast(operation.event.reason) or len(operation.shapes) != 2:
        return
    longer, shorter = sorted(operation.shapes, key=len, reverse=True)
    if shorter not in [(*longer[:at], *longer[at + 1 :]) for at in range(len(longer))]:
        return
    for node in (operation.node, *operation.operands):
        text = _with_kept_axes(node, operation.module)
        if text:
            fix = ProposedFix("Pass `keepdims=True`", False, ((node, text),))
            yield Remedy(f"Keep the axis: `{text}`", fix)
            yield Remedy("Keep the axis that is reduced: `keepdims=True`", fix)


def _with_kept_axes(node: cst.CSTNode, module: Module) -> str | None:
    """Return a reduction of one axis with ``keepdims=True``, None for another expression."""
    if not isinstance(node, cst.Call) or node.lpar or any(arg.star for arg in node.args):
        return None
    func = node.func
    if not isinstance(func, cst.Attribute) or func.attr.value not in REDUCTIONS:
        return None
    is_method = not (isinstance(func.value, cst.Name) and func.value.value == mlx_alias(module))
    places = [arg for arg in node.args if arg.keyword is None]
    names = {arg.keyword.value for arg in node.args if arg.keyword is not None}
    if "keepdims" in names or len(places) > 2 - is_method:
        return None
    text = module.parsed.bare_code(node)
    inner = text[:-1].rstrip().removesuffix(",")
    return f"{inner}, keepdims=True)"


def _squeeze(operation: Operation) -> Iterator[Remedy]:
    """``(n, 1) - (n,)``."""
    operands, shapes = operation.operands, operation.shapes
    if len(shapes) != 2 or len(operands) < 2:
        return
    longer, shorter = sorted(shapes, key=len, reverse=True)
    if longer != (*shorter, "1"):
        return
    column = operands[0] if len(shapes[0]) > len(shapes[1]) else operands[1]
    yield Remedy(f"Drop the axis of size 1: `{operation.owner(column)}.squeeze(-1)`")
    yield Remedy("Drop the axis of size 1 first: `.squeeze(-1)`")


def _insert_axes(operation: Operation) -> Iterator[Remedy]:
    """``(B, S) * (B,)``: the last axes are aligned, and others are meant."""
    shapes, operands = operation.shapes, operation.operands
    if not is_broadcast(operation.event.reason) or len(shapes) != 2 or operation.is_matmul:
        return
    longer, shorter = sorted(shapes, key=len, reverse=True)
    index = _index_for(longer, shorter)
    if index is None:
        return
    if len(operands) > 1:
        array = operands[shapes.index(shorter)]
        yield Remedy(f"Insert an axis: `{operation.owner(array)}[{index}]`")
    yield Remedy(f"Insert an axis in the array of {shape_text(shorter)}: `[{index}]`")


def _index_for(longer: Shape, shorter: Shape) -> str | None:
    """Return the index that aligns axes with those of the same sizes, None if that is unclear."""
    if not len(shorter) < len(longer) or any(longer.count(n) != 1 or n == "?" for n in shorter):
        return None
    places = [longer.index(size) for size in shorter]
    if not places or places != sorted(places):
        return None
    parts = [":" if at in places else "None" for at in range(places[0], len(longer))]
    if parts[: len(places)] == [":"] * len(places) and len(parts) > len(places):
        return ", ".join(["...", *parts[len(places) :]])
    while parts[-1] == ":":
        parts.pop()
    return ", ".join(parts) if parts else None


def _transpose_factor(operation: Operation) -> Iterator[Remedy]:
    """``(2, 3) @ (8, 3)``."""
    operands, shapes = operation.operands, operation.shapes
    is_inner = operation.event.reason.startswith("the inner sizes")
    if not is_inner or not operation.is_matmul or len(operands) < 2 or len(shapes) != 2:
        return
    (left, right), (a, b) = shapes, operands
    if len(right) > 1 and left and left[-1] == right[-1] != "?":
        yield Remedy(f"Transpose the second factor: `{_transposed(operation, b, right)}`")
    elif len(left) > 1 and len(right) > 1 and left[-2] == right[-2] != "?":
        yield Remedy(f"Transpose the first factor: `{_transposed(operation, a, left)}`")


def _repeat_heads(operation: Operation) -> Iterator[Remedy]:
    """``q @ k.swapaxes(-1, -2)`` of 8 and 2 heads."""
    shapes, operands = operation.shapes, operation.operands
    if not is_broadcast(operation.event.reason) or not operation.is_matmul or len(operands) < 2:
        return
    for (few, many), array in zip((shapes, shapes[::-1]), operands, strict=False):
        last, other = few[-1:], many[-1:]
        if few[:-1] != many[:-1] or not (*last, *other) or not all(map(str.isdigit, last + other)):
            continue
        times, rest = divmod(int(other[0]), max(int(last[0]), 1))
        if times > 1 and not rest:
            text = operation.module.parsed.code(array)
            yield Remedy(f"Repeat the axis: `mx.repeat({text}, {times}, axis={len(few) - 1})`")


def _transposed(operation: Operation, node: cst.BaseExpression, shape: Shape) -> str:
    return f"{operation.owner(node)}{'.T' if len(shape) == 2 else '.swapaxes(-1, -2)'}"


def _layer_size(operation: Operation) -> Iterator[Remedy]:
    """``nn.Linear(8, 8)`` of inputs of size 16."""
    shapes, name = operation.shapes, operation.event.operation
    text = "Create the layer for its input"
    if name == "mlx.nn.Linear" and len(shapes) == 2 and len(shapes[1]) == 2 and shapes[0]:
        size, (inner, outer) = shapes[0][-1], shapes[1]
        yield Remedy(f"{text}: `nn.Linear({size}, {inner if size == outer else outer})`")
    elif name in ("mlx.nn.LayerNorm", "mlx.nn.RMSNorm") and len(shapes) == 2 and shapes[1]:
        yield Remedy(f"{text}: `nn.{name.rpartition('.')[2]}({shapes[1][-1]})`")


def _channels_last(operation: Operation) -> Iterator[Remedy]:
    """Images of (N, C, H, W)."""
    shapes, operands = operation.shapes, operation.operands
    if "input channels" not in operation.event.reason or len(shapes) != 2 or not operands:
        return
    given, weight = shapes
    if len(given) != len(weight) or len(given) < 3:
        return
    axes = ", ".join(map(str, (0, *range(2, len(given)), 1)))
    if given[1] == weight[-1]:
        array = operation.owner(operands[0])
        yield Remedy(f"Move the channels last: `{array}.transpose({axes})`")
    elif weight[1] == given[-1] and len(operands) > 1:
        array = operation.owner(operands[1])
        yield Remedy(f"Move the weight's channels last: `{array}.transpose({axes})`")


def _all_axes(operation: Operation) -> Iterator[Remedy]:
    """``x.transpose(1, 2)`` of four axes, as in torch."""
    operands = operation.operands
    func = operation.node.func if isinstance(operation.node, cst.Call) else None
    if "axes are named" not in operation.event.reason or len(operands) != 3:
        return
    if isinstance(func, cst.Attribute):
        fix = ProposedFix("Swap two axes", False, ((func.attr, "swapaxes"),))
        axes = ", ".join(operation.module.parsed.code(node) for node in operands[1:])
        array = operation.owner(operands[0])
        for text in (f"{array}.swapaxes({axes})", f".swapaxes({axes})"):
            yield Remedy(f"MLX permutes all axes; to swap two, use `{text}`", fix)


def _joined_arrays(operation: Operation) -> Iterator[Remedy]:
    """``mx.concatenate([tokens, token])`` of a vector and a scalar."""
    node = operation.node
    arrays = node.args[0].value if isinstance(node, cst.Call) and node.args else None
    name = operation.event.operation.rpartition(".")[2]
    if name not in ("concatenate", "stack") or not isinstance(arrays, (cst.List, cst.Tuple)):
        return
    parts = [element.value for element in arrays.elements]
    known = [(part, shape_at(operation.module, part)) for part in parts]
    for part, shape in known:
        if shape == () and name == "concatenate":
            array = operation.owner(part)
            yield Remedy(f"`{array}` has the shape (): insert an axis, `{array}[None]`")
    first = next((pair for pair in known if pair[1] is not None), None)
    for part, shape in known:
        if first is not None and shape is not None and len(shape) != len(first[1] or ()):
            texts = [operation.module.parsed.code(one) for one in (first[0], part)]
            shapes = [shape_text(tuple(map(str, one or ()))) for one in (first[1], shape)]
            yield Remedy(f"`{texts[0]}` has the shape {shapes[0]}, and `{texts[1]}` {shapes[1]}")


def _number_of_elements(operation: Operation) -> Iterator[Remedy]:
    """``(4, 6)`` to ``(5, 5)``."""
    if "can't be reshaped to" in operation.event.reason and operation.shapes:
        sizes = operation.shapes[0]
        many = prod(map(int, sizes)) if all(n.isdigit() for n in sizes) else " * ".join(sizes)
        yield Remedy(f"Pass sizes with the product {many}")


def _as_named(operation: Operation) -> Iterator[Remedy]:
    """Yield sizes that the reason names."""
    reason, shapes = operation.event.reason, operation.shapes
    if ", not one of " in reason:
        yield Remedy(f"Pass one of {reason.partition(', not one of ')[2]}")
    if not shapes:
        return
    last = shape_text(shapes[-1])
    if "differ outside axis" in reason:
        axis = reason.rpartition(" ")[2]
        yield Remedy(f"Join arrays whose sizes are equal, but for axis {axis}")
    elif "is out of bounds for the shape" in reason and shapes[-1]:
        many = len(shapes[-1])
        yield Remedy(f"Name an axis from -{many} to {many - 1}")
    elif "gradient of shape" in reason:
        yield Remedy(f"Return a gradient of shape {last}")
    elif reason.startswith("the mask") and "doesn't broadcast to the scores" in reason:
        yield Remedy(f"Pass a mask that broadcasts to {last}")


_BY_REASON = (
    _joined_arrays,
    _transpose_factor,
    _repeat_heads,
    _as_named,
    _layer_size,
    _channels_last,
    _all_axes,
    _number_of_elements,
)


def _equal_sizes(operation: Operation) -> Iterator[Remedy]:
    """Yield two sizes that have to be equal, or the transposition of two matrices."""
    condition, shapes, operands = operation.event.condition, operation.shapes, operation.operands
    is_reversed = [len(one) for one in shapes] == [2, 2] and shapes[0] == shapes[1][::-1]
    if is_reversed and len(operands) == 2:
        text = operation.owner(operands[1])
        if text.endswith(".T"):
            yield Remedy(f"Leave out the transposition: `{text.removesuffix('.T')}`")
        yield Remedy(f"Transpose one of them: `{text}.T`")
    if condition is not None:
        pair: tuple[object, object] = (condition.left, condition.right)
    elif is_broadcast(operation.event.reason) and len(shapes) == 2:
        ends = zip(reversed(shapes[0]), reversed(shapes[1]), strict=False)
        pair = next(((m, n) for m, n in ends if m != n and "1" not in (m, n)), ("", ""))
    else:
        return
    if all(pair):
        yield Remedy(f"Make {pair[0]} and {pair[1]} equal, or pass an array of another shape")


def _move_axes(operation: Operation) -> Iterator[Remedy]:
    """``(B, H, S, D)`` to ``(B, S, H * D)``, or back."""
    operands, shapes = operation.operands, operation.shapes
    if len(shapes) < 2 or not operands:
        return
    before, after = shapes[:2]
    array = operation.owner(operands[0])
    if len(before) > len(after):
        axes = ", ".join(map(str, _order(after, before)))
        yield Remedy(f"Move the axes first: `{array}.transpose({axes})`")
        yield Remedy(f"Move the axes first: `.transpose({axes})`")
        return
    order = _order(before, after)
    sizes = _size_arguments(operation, operands) or after
    split = ", ".join(sizes[at] for at in order)
    axes = ", ".join(str(order.index(at)) for at in range(len(after)))
    yield Remedy(f"Split, then move: `{array}.reshape({split}).transpose({axes})`")
    yield Remedy(f"Split the axis first, and then move it: `.transpose({axes})`")


def _order(shape: Shape, axes: Shape) -> list[int]:
    """Return the places of axes in the order of a shape, in which some of them are one axis."""
    others = list(range(len(axes)))
    order: list[int | None] = []
    for size in shape:
        # Sizes may be equal: each axis is one place.
        at = next((at for at in others if axes[at] == size), None)
        order.append(at)
        others = [other for other in others if other != at]
    places: list[int] = []
    for at in order:
        places += others if at is None else [at]
        others = [] if at is None else others
    return places


def _size_arguments(operation: Operation, operands: list[cst.BaseExpression]) -> Shape | None:
    """Return the sizes that a call of ``reshape`` names."""
    sizes = operands[1:]
    if len(sizes) == 1 and isinstance(sizes[0], (cst.Tuple, cst.List)):
        sizes = [element.value for element in sizes[0].elements]
    if len(sizes) != len(operation.shapes[1]):
        return None
    return tuple(operation.module.parsed.code(node) for node in sizes)


def _last_axis(operation: Operation) -> Iterator[Remedy]:
    """``mx.softmax(scores, axis=-2)``."""
    node = operation.node
    change = None
    if isinstance(node, cst.Call) and not any(arg.star for arg in node.args):
        named = [a.value for a in node.args if a.keyword and a.keyword.value == "axis"]
        places = [a.value for a in node.args if a.keyword is None]
        axis = named or places[1:2]
        if axis:
            change = ProposedFix("Normalize the last axis", False, ((axis[0], "-1"),))
    yield Remedy("Normalize the axis that is summed: `axis=-1`", change)


def _named_axis(operation: Operation) -> Iterator[Remedy]:
    """``mx.softmax(scores)``, ``scores.logsumexp()``."""
    node = operation.node
    change = None
    if isinstance(node, cst.Call) and node.args:
        last = node.args[-1].value
        text = f"{operation.module.parsed.code(last)}, axis=-1"
        change = ProposedFix("Reduce the last axis", False, ((last, text),))
    yield Remedy("Pass the axis: `axis=-1`, or `axis=None` if all axes are meant", change)


def _parts(operation: Operation) -> Iterator[Remedy]:
    """``mx.split(x, 4)`` of 10 rows."""
    yield Remedy("Pass the number of equal parts, or a list of the indices to split at")


def _bounds(operation: Operation) -> Iterator[Remedy]:
    """``mx.zeros(3)[3]``."""
    size = int(operation.event.reason.rpartition(" ")[2])
    valid = f"Use an index from {-size} to {size - 1}" if size else "The axis is empty"
    yield Remedy(f"{valid}: MLX does not check bounds")


def _column(operation: Operation) -> Iterator[Remedy]:
    """``model(x) - y``, where the model ends in ``nn.Linear(n, 1)``."""
    yield Remedy("Drop the axis first: `model(x).squeeze(-1)`")


_BY_CODE: dict[str, Callable[[Operation], Iterator[Remedy]]] = {
    "API-006": _named_axis,
    "API-009": _parts,
    "INDEX-001": _bounds,
    "NN-011": _column,
}


def _written_shape(operation: Operation) -> Iterator[Remedy]:
    """``x.swapaxes(1, 2)  # (B, S, D)``."""
    if " passes " in operation.event.reason:
        yield Remedy("Pass an array of the annotated shape, or correct the annotation")
    elif " its comment says " in operation.event.reason:
        yield Remedy(f"Correct the comment to {shape_text(operation.shapes[0])}, or the expression")
    yield Remedy("Correct the annotation, or what it is written for")
