"""Calls that MLX accepts and that compute something else than their author means."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import reduce
from itertools import pairwise
from typing import Any

from embercoach.analysis.shapes.arrays import ArrayShape, Origin, ShapedArray
from embercoach.analysis.shapes.axis_origins import (
    CENTERED,
    EXPLICIT,
    LINEAR,
    NORMALIZING,
    OF_ALL_ROWS,
    ORDERING,
    PAIRED,
    REDUCTIONS,
    REPEATING,
    SELECTING,
    SHIFTED,
    SQUARED,
    STACKING,
    TILING,
    WEIGHTED,
    WEIGHTED_LOGS,
    TableCall,
    is_layer,
)
from embercoach.analysis.shapes.size_integers import (
    ANY_INT,
    Comparison,
    Integer,
    SizeExpr,
    add,
    at_least,
    compare,
    exact_quotient,
    product,
)

MISREAD = "SHAPE-008"
_TRANSPOSES = frozenset(("mlx.core.transpose", "mlx.core.permute_dims", "mlx.core.array.transpose"))
_SPLITS = frozenset(("mlx.core.split", "mlx.core.array.split"))


def misread_arguments(call: TableCall) -> Iterator[str]:
    """Find what a call's arguments mean in torch and not in MLX: a reason for each."""
    node, name = call.node, call.name
    if not isinstance(node, ast.Call) or not call.arguments:
        return
    if name in _TRANSPOSES:
        axes = _written_axes(node, is_method=name.startswith("mlx.core.array."))
        if len(axes) > 1 and axes == list(range(len(axes))):
            yield f"`transpose` to the axes {', '.join(map(str, axes))} changes nothing"
    elif name in _SPLITS:
        named = _named_lengths(node, 0 if name.startswith("mlx.core.array.") else 1)
        yield from _lengths(named, call)


def _written_axes(node: ast.Call, *, is_method: bool) -> list[object]:
    """Return the axes that a call names by numbers; empty if it computes some."""
    given = node.args if is_method else node.args[1:]
    given = given or [one.value for one in node.keywords if one.arg == "axes"]
    if len(given) == 1 and isinstance(given[0], (ast.Tuple, ast.List)):
        given = given[0].elts
    if not all(isinstance(one, ast.Constant) for one in given):
        return []
    return [one.value for one in given if isinstance(one, ast.Constant)]


def _lengths(named: str, call: TableCall) -> Iterator[str]:
    """``mx.split(x, [a, b], axis=-1)`` of an axis of a + b: lengths, not positions."""
    parts = call.argument(1, "indices_or_sections")
    if type(parts) in (int, SizeExpr):
        return
    sizes = parts if isinstance(parts, (tuple, list)) else ()
    if len(sizes) > 1 and all(type(one) in (int, SizeExpr) for one in sizes):
        size = _split_size(call)
        is_rising = all(at_least(after, before) for before, after in pairwise(sizes))
        if size is not None and not is_rising:
            given = reduce(add, sizes)
            # The last one may be left out, as positions leave out the last part.
            if any(compare(n, size) is Comparison.EQUAL for n in (given, add(given, sizes[-1]))):
                written = ", ".join(map(str, sizes))
                yield f"`split` takes positions, and ({written}) are lengths of {size} elements"
            return
    if named:
        yield f"`split` takes positions, and `{named}` has lengths"


def _split_size(call: TableCall) -> Integer | None:
    """Return the size of the axis that is split; None if it is unknown."""
    array = call.arguments[0]
    if type(array) is not ShapedArray:
        return None
    shape = array.shape
    if "axis" not in call.keywords and len(call.arguments) < 3:
        return shape.head[0] if shape.head else None
    axes = call.axes(shape, 2)
    if not axes or not -shape.least_rank <= axes[0] < 0:
        return None
    return shape.size(axes[0])


_LENGTHS = ("lengths", "lens", "seqlens")
_CUMULATED = ("cu_", "cum", "offset")


def _named_lengths(node: ast.Call, at: int) -> str:
    """The name of what is passed, or the list of it, where that says lengths; empty for others."""
    found: ast.AST | None = node.args[at] if at < len(node.args) else None
    while isinstance(found, ast.Call) and not found.args:  # ``lengths.tolist()``
        found = found.func.value if isinstance(found.func, ast.Attribute) else None
    name = str(getattr(found, "attr", getattr(found, "id", "")))
    return name if name.endswith(_LENGTHS) and not name.startswith(_CUMULATED) else ""


def moved_axis(before: ArrayShape, after: ArrayShape) -> Integer | None:
    """Return the axis whose elements a reshape mixes with those of others.

    A reshape splits axes, and merges neighbours. Then of the numbers of elements ahead of two axes,
    before and after it, one divides the other.
    """
    if before.rank is None or after.rank is None:
        return None
    if 1 in after.head and 1 not in before.head:
        return None  # one of the axes is meant to be of size 1
    if ANY_INT in before.head or ANY_INT in after.head:
        return _kept_axis(before, after)
    if compare(product(before.head), product(after.head)) is not Comparison.EQUAL:
        return None
    for at in range(1, len(before.head)):
        ahead = product(before.head[:at])
        for end in range(1, len(after.head)):
            now = product(after.head[:end])
            if not isinstance(ahead, SizeExpr) or not isinstance(now, SizeExpr):
                continue
            if exact_quotient(ahead, now) is None and exact_quotient(now, ahead) is None:
                return before.head[at]
    return None


def _is_of_weight(node: ast.AST) -> bool:
    """Return whether a call reshapes a weight: what is loaded may have the axes of torch."""
    return any(
        isinstance(one, ast.Attribute) and one.attr.endswith("weight") for one in ast.walk(node)
    )


def _kept_axis(before: ArrayShape, after: ArrayShape) -> Integer | None:
    """Return the axis that a reshape keeps, with more elements ahead of it than it has after."""
    for at, size in enumerate(before.head):
        if not isinstance(size, SizeExpr) or before.head.count(size) != 1:
            continue
        if after.head.count(size) != 1:
            continue
        ahead = product(before.head[:at])
        now = product(after.head[: after.head.index(size)])
        quotient = exact_quotient(ahead, now) if isinstance(ahead, SizeExpr) else None
        if isinstance(quotient, SizeExpr):
            return size
    return None


def _swapped_axis(array: ShapedArray, after: ArrayShape) -> Integer | None:
    """Return the axis that a reshape moves, ``(B, T, ?)`` to ``(B, ?, T)``, where it keeps others.

    A row more or less, reshaped, is the shift of relative positions: only stacks are meant.
    """
    before, origin = array.shape, array.origin
    if before.rank != after.rank or 1 in after.head or origin is None or origin.name != STACKING:
        return None
    named = [n for n in before.head if isinstance(n, SizeExpr) and after.head.count(n) == 1]
    moved = [n for n in named if before.head.index(n) != after.head.index(n)]
    return moved[0] if moved and len(named) > 1 else None


def _is_shift(array: ShapedArray, after: ArrayShape) -> bool:
    """Return whether it may be the shift of relative positions: a row more or less, reshaped."""
    if array.shape.rank != after.rank:
        return False
    is_cut = array.origin is not None and array.origin.name.endswith("__getitem__")
    return is_cut or any(isinstance(n, SizeExpr) and len(n.terms) > 1 for n in after.head)


def _puts_copies_ahead(node: ast.AST, array: ShapedArray, after: ArrayShape) -> bool:
    """``mx.repeat(x, n, axis=0).reshape(n, ...)``: copies are next to each other, not ahead."""
    origin = array.origin
    if origin is None or origin.name != REPEATING or len(origin.axes) != 1:
        return False
    before, number = origin.before, _argument(origin.node, 1, "repeats")
    at = origin.axes[0] + (before.rank or 0)
    if before.rank is None or at < 0 or before.head[at] == 1 or before.head[:at] != after.head[:at]:
        return False
    sizes = _sizes_of(node)
    if number is None or at >= len(sizes) or ast.dump(sizes[at]) != ast.dump(number):
        return False
    return after.rank != before.rank


def _argument(call: ast.AST, at: int, name: str) -> ast.expr | None:
    """Return the expression of an argument of a function; None if it isn't there."""
    if not isinstance(call, ast.Call):
        return None
    named = [one.value for one in call.keywords if one.arg == name]
    return named[0] if named else call.args[at] if at < len(call.args) else None


def _sizes_of(call: ast.AST) -> list[ast.expr]:
    """Return the sizes that a ``reshape`` names."""
    if not isinstance(call, ast.Call):
        return []
    sizes = call.args
    if sizes and isinstance(sizes[-1], (ast.Tuple, ast.List)):
        sizes = sizes[-1].elts
    return sizes


#: What the names of numbers of heads end with.
HEADS = ("heads", "head")
#: Names of sizes of batches.
BATCHES = frozenset(("b", "bs", "bsz", "batch", "batch_size"))
_AVERAGES = (".mean", ".var")
#: Layers that normalize the last axis.
_ROW_NORMS = ("LayerNorm", "RMSNorm")
_RESHAPES = frozenset(("mlx.core.reshape", "mlx.core.array.reshape"))
#: Layers that give (B, H, W, C), and the axes of height and width in (B, C, H, W).
_IMAGES = frozenset(("mlx.nn.Conv2d", "mlx.nn.ConvTranspose2d"))
_CHANNELS_FIRST = ((-2, -1), (-4, -2, -1))
_ROTATIONS = frozenset(("mlx.core.fast.rope", "mlx.nn.RoPE"))
_RECURRENT = ("mlx.nn.RNN", "mlx.nn.GRU", "mlx.nn.LSTM")
#: Calls that reduce all axes where none is named.
_OVER_ALL = frozenset(("mlx.core.softmax", "mlx.core.logsumexp", "mlx.core.array.logsumexp"))
INDEXING = frozenset(("mlx.core.array.__getitem__", "mlx.core.array.__setitem__"))
#: Differences of predictions and targets; other losses compare the shapes.
_DIFFERENCES = frozenset(
    (
        "mlx.core.subtract",
        "mlx.nn.losses.hinge_loss",
        "mlx.nn.losses.huber_loss",
        "mlx.nn.losses.log_cosh_loss",
    )
)


#: The node, the rule, and a reason.
_Found = Iterator[tuple[ast.AST, str, str]]


def suspicions_of(call: TableCall, result: ShapedArray, owner: str) -> _Found:
    """Find what a call does that its author can't mean.

    Args:
        call: that is made.
        result: of the call.
        owner: the name of the class whose method calls it; empty elsewhere.
    """
    find = _FINDERS.get(call.name)
    if find is not None:
        yield from find(call, result)
    yield from _other_axes(call, owner)


def may_be_suspicious(call: TableCall) -> bool:
    """Return whether anything is looked for in a call: by its name, or by what its argument is."""
    if call.name in _FINDERS:
        return bool(call.arrays)
    first = call.arguments[0] if call.arguments else None
    return type(first) is ShapedArray and (
        first.origin is not None or call.name.endswith(_AVERAGES) or _is_real_fourier(call.name)
    )


def _in_difference(call: TableCall, result: ShapedArray) -> _Found:
    if difference := _of_column(call.arrays):
        yield call.node, "NN-011", difference
    elif call.name in PAIRED:
        yield from _in_pair(call, result)


def _in_pair(call: TableCall, result: ShapedArray) -> _Found:
    arrays = call.arrays
    if len(arrays) == 2:
        yield from _paired(call.node, *arrays)
        yield from _without_axis(*arrays)
        yield from _of_unlike_rows(*arrays)
        yield from _of_all_rows(call.name, *arrays)


def _in_normalization(call: TableCall, result: ShapedArray) -> _Found:
    array = call.arguments[0]
    if type(array) is not ShapedArray:
        return
    if call.name in _OVER_ALL and len(call.arguments) == 1 and "axis" not in call.keywords:
        sizes = (*array.shape.head, *array.shape.tail)
        if sum(type(size) is not int or size != 1 for size in sizes) > 1:
            many = f"all {len(sizes)} axes" if array.shape.rank else "all axes"
            yield call.node, "API-006", f"`{call.short}` without `axis` reduces {many}"
    elif call.name in NORMALIZING:
        axes = call.axes(array.shape)
        yield from _shifted(call, array, axes)
        if len(axes) == 1 and -axes[0] <= array.shape.least_rank:
            yield from _of_one(call, array.shape, axes[0])


def _in_reshape(call: TableCall, result: ShapedArray) -> _Found:
    node, array, after = call.node, call.arguments[0], result.shape
    if type(array) is not ShapedArray:
        return
    what = f"from {array.shape} to {after}"
    axis = moved_axis(array.shape, after) or _swapped_axis(array, after)
    if axis is None:
        if _puts_copies_ahead(node, array, after):
            yield node, "SHAPE-004", f"{what} copies and elements are mixed"
    elif not _is_shift(array, after) and not _is_of_weight(node):
        yield node, "SHAPE-004", f"{what} the elements of {axis} are mixed"


def _in_einsum(call: TableCall, result: ShapedArray) -> _Found:
    """``mx.einsum("bij,bjd->bid", mx.softmax(scores, axis=1), v)``."""
    subscripts, *operands = call.arguments
    if not isinstance(subscripts, str) or "->" not in subscripts or "." in subscripts:
        return
    inputs, output = subscripts.replace(" ", "").split("->")
    terms = inputs.split(",")
    if len(terms) < 2 or len(terms) != len(operands):
        return
    for term, operand in zip(terms, operands, strict=True):
        origin = operand.origin if isinstance(operand, ShapedArray) else None
        if origin is None or origin.name not in NORMALIZING or len(origin.axes) != 1:
            continue
        letter = term[origin.axes[0]] if -len(term) <= origin.axes[0] else ""
        summed = [one for one in term if one not in output]
        if letter and letter in output and summed:
            reason = f"axis {origin.axes[0]} is normalized, and {summed[-1]!r} is summed"
            yield origin.node, "SHAPE-005", reason


def _in_index(call: TableCall, result: ShapedArray) -> _Found:
    node, (array, index) = call.node, call.arguments[:2]
    if type(array) is ShapedArray:
        yield from _rows_by_rows(node, array, index)
        yield from _by_order(node, array, index)
        yield from _cut_heads(node, array.shape, index)
        yield from _last_sequence(node, array, index)


def _in_rotation(call: TableCall, result: ShapedArray) -> _Found:
    """``rope(q)`` of (B, L, heads, D): it turns by positions along the second last axis."""
    first = call.arguments[0]
    is_known = type(first) is ShapedArray and first.shape.rank == 4
    size = first.shape.size(-2) if is_known else None
    found = size.symbol if isinstance(size, SizeExpr) else None
    if found is not None and not found.is_local and found.name.endswith(HEADS):
        yield call.node, "SHAPE-007", f"`rope` takes positions along axis -2, which is {found.name}"


def _in_recurrence(call: TableCall, result: ShapedArray) -> _Found:
    """``nn.GRU`` of (T, B, D), as torch takes it: it runs through the second last axis."""
    first = call.arguments[0]
    shape = first.shape if type(first) is ShapedArray else ArrayShape()
    if shape.rank == 3 and _is_batch(shape.size(-2)):
        reason = f"`{call.short}` runs through axis -2, which is {shape.size(-2)}"
        yield call.node, "SHAPE-007", reason


def _is_batch(size: Integer) -> bool:
    found = size.symbol if isinstance(size, SizeExpr) else None
    return found is not None and found.name.lower() in BATCHES


def _in_product(call: TableCall, result: ShapedArray) -> _Found:
    left, right = call.arguments[0], call.argument(1, "b")
    if type(left) is ShapedArray and type(right) is ShapedArray:
        yield from _weighted(left)
        yield from _tiled_heads(right)


def _in_attention(call: TableCall, result: ShapedArray) -> _Found:
    keys = call.argument(1, "k")
    if type(keys) is ShapedArray:
        yield from _tiled_heads(keys)


def _tiled_heads(keys: ShapedArray) -> _Found:
    """``mx.tile(keys, (1, groups, 1, 1))``: query heads of a group are next to each other."""
    origin = keys.origin
    if origin is None or origin.name != TILING or origin.axes != (-3,) or keys.shape.rank != 4:
        return
    if origin.before.rank == 4 and origin.before.head[1] != 1:
        reason = f"`tile` of heads {origin.before} puts copies after all heads"
        yield origin.node, "SHAPE-008", reason


#: By the name of what is called: what finds suspicions, besides those of other axes.
_FINDERS: dict[str, Callable[..., _Found]] = {
    **dict.fromkeys(PAIRED, _in_pair),
    **dict.fromkeys(_DIFFERENCES, _in_difference),
    **dict.fromkeys((*_OVER_ALL, *NORMALIZING), _in_normalization),
    **dict.fromkeys(_RESHAPES, _in_reshape),
    **dict.fromkeys(_ROTATIONS, _in_rotation),
    **dict.fromkeys(_RECURRENT, _in_recurrence),
    "mlx.core.einsum": _in_einsum,
    "mlx.core.array.__getitem__": _in_index,
    "mlx.core.matmul": _in_product,
    "mlx.core.fast.scaled_dot_product_attention": _in_attention,
}


def _other_axes(call: TableCall, owner: str) -> _Found:
    """Find calls along another axis than belongs to their argument, or to their class."""
    for at, reason in _other_axis(call):
        yield at, "SHAPE-007", reason
    first = call.arguments[0]
    if type(first) is ShapedArray and call.name.endswith(_AVERAGES):
        axes = call.axes(first.shape)
        is_image = first.origin is not None and first.origin.name in _IMAGES
        if is_image and axes in _CHANNELS_FIRST:
            reason = f"`{call.short}` over width and channels of {first.shape}"
            yield call.node, "SHAPE-007", reason
        is_row = not owner.endswith(_ROW_NORMS) or len(axes) != 1 or axes[0] == -1
        if not is_row and (first.shape.rank or 0) > 2:
            yield call.node, "SHAPE-007", f"`{owner}` normalizes axis {axes[0]} of {first.shape}"


def _other_axis(call: TableCall) -> Iterator[tuple[ast.AST, str]]:
    """Find calls along another axis than the one that their argument was made along."""
    first, node, name, short = call.arguments[0], call.node, call.name, call.short
    if type(first) is not ShapedArray or first.shape.rank == 1:
        return
    if _is_real_fourier(name):
        yield from ((node, one) for one in _transformed(call, first.shape))
    origin = first.origin
    if origin is None:
        return
    if name in REDUCTIONS or name in ORDERING or short == "cumsum":
        axes = call.axes(first.shape, 2 if short == "argpartition" else 1)
        if not _differ(axes, origin.axes):
            return
        values, is_earlier = _meant_along(name, axes, origin)
        if values:
            where = f"`{short}` over axis {axes[0]} of {values} along axis {origin.axes[0]}"
            yield origin.node if is_earlier else node, where
    elif name == "mlx.core.divide" and type(call.arguments[1]) is ShapedArray:
        yield from ((node, one) for one in _scaled(first, call.arguments[1]))


def _is_real_fourier(name: str) -> bool:
    return name.startswith("mlx.core.fft.r")


def _meant_along(name: str, axes: tuple[int, ...], origin: Origin) -> tuple[str, bool]:
    """Say what values are along another axis than a call's, and whether the earlier one errs.

    Empty where both may be meant.
    """
    short, is_last = name.rpartition(".")[2], axes[0] == -1
    # Where one of the axes is the last, the other one is at fault.
    if origin.name == SQUARED and short in ("mean", "sum"):
        return "values that are centered", is_last
    if origin.name == WEIGHTED_LOGS and short in ("mean", "sum"):
        return "probabilities", is_last
    if origin.name == WEIGHTED and short == "sum" and axes == (-2,):
        return ("values with weights", True) if origin.before.size(-2) != 1 else ("", False)
    if origin.name in NORMALIZING and name in ORDERING and is_last:
        return "values that are normalized", True
    if short == "cumsum" and origin.name in NORMALIZING:
        return "values that are normalized", False
    if short == "cumsum" and origin.name in SELECTING:
        return "values that are sorted", False
    return "", False


def _transformed(call: TableCall, shape: ArrayShape) -> Iterator[str]:
    """``mx.fft.rfft(frames, n=n_fft, axis=1)``, where the last axis has ``n_fft`` elements."""
    number, axes = call.argument(1, "n"), call.axes(shape, 2)
    if not isinstance(number, SizeExpr) or len(axes) != 1 or shape.rank is None or axes[0] >= 0:
        return
    if shape.size(-1) == number and axes[0] != -1 and shape.size(axes[0]) != number:
        yield f"transform over axis {axes[0]} of arrays with {number} samples along axis -1"


def _scaled(array: ShapedArray, scale: ShapedArray) -> Iterator[str]:
    """``(x - x.mean(axis=1)) / x.std(axis=0)``: values and their scale of unlike axes."""
    origin, other = array.origin, scale.origin
    if origin is None or other is None or not _differ(origin.axes, other.axes):
        return
    if other.before != array.shape or other.name not in REDUCTIONS:
        return
    kind = other.name.rpartition(".")[2]
    where, along = f"`{kind}` over axis {other.axes[0]} of", f"along axis {origin.axes[0]}"
    if origin.name == CENTERED and kind == "std":
        yield f"{where} values that are centered {along}"
    elif origin.name in SELECTING and kind == "sum":
        yield f"{where} values that are chosen {along}"


def _differ(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Return whether two calls work along one axis each, and not along the same."""
    return len(a) == len(b) == 1 and a != b


def _paired(node: ast.AST, a: ShapedArray, b: ShapedArray) -> _Found:
    """``(n, 1) - (n,)``: every element of one with every element of the other."""
    for column, vector in ((a, b), (b, a)):
        sizes, others = column.shape.sizes, vector.shape.sizes
        if sizes is None or others is None or len(sizes) != len(others) + 1 or not others:
            continue
        if sizes[-1] != 1 or type(sizes[-1]) is not int or sizes[-2] is ANY_INT:
            continue
        if sizes[-2] != others[-1] or sizes[-2] == 1:
            continue
        if column.origin is not None and column.origin.name in EXPLICIT:
            continue
        reason = f"{a.shape} and {b.shape} broadcast to all pairs"
        yield node, "SHAPE-003", reason


def _of_column(arrays: list[ShapedArray]) -> str:
    """Return the difference of ``nn.Linear(n, 1)`` outputs and a vector; empty if it is none."""
    if len(arrays) < 2:
        return ""
    first, second = arrays[:2]
    for column, vector in ((first, second), (second, first)):
        shape, size = column.shape, vector.shape.size(-1) if vector.shape.rank == 1 else 1
        if size == 1 or shape.rank not in (None, 2) or not is_layer(column, LINEAR):
            continue
        if shape.size(-1) == 1:
            return f"outputs {column.shape} and targets {vector.shape} broadcast to all pairs"
    return ""


def out_of_bounds(node: ast.AST, array: Any, index: Any) -> Iterator[tuple[ast.AST, str]]:
    """Yield the numbers of an index that are beyond the ends of their axes: ``mx.zeros(3)[3]``."""
    if type(array) is not ShapedArray or not isinstance(node, ast.Subscript):
        return
    indices, nodes = (index,), [node.slice]
    if type(index) is tuple:
        indices = index
        nodes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice] * len(index)
    taken = [one is not None and one is not Ellipsis for one in indices]
    rank = array.shape.rank
    if len(nodes) != len(indices) or (rank is not None and sum(taken) > rank):
        return
    is_after = False
    for at, one in enumerate(indices):
        is_after = is_after or one is Ellipsis
        if type(one) is not int:
            continue
        axis = -sum(taken[at:]) if is_after else sum(taken[:at])
        size = array.shape.size(axis)
        if type(size) is int and not -size <= one < size:
            axis = axis if rank is None else axis % rank
            yield nodes[at], f"index {one} is out of bounds for axis {axis} of size {size}"


def _without_axis(a: ShapedArray, b: ShapedArray) -> _Found:
    """``x - x.mean(axis=1)``: the mean of a row is combined with a column, for any sizes."""
    for reduced, other in ((a, b), (b, a)):
        origin, shape = reduced.origin, other.shape
        if origin is None or origin.name not in REDUCTIONS or len(origin.axes) != 1:
            continue
        if shape.least_rank < 2 or origin.before != shape:
            continue
        if reduced.shape.least_rank != shape.least_rank - 1:
            continue  # it keeps the axis
        # Without the first axis, the others stay where they are.
        if origin.axes[0] != -shape.rank if shape.rank else origin.axes[0] == -1:
            reason = f"{reduced.shape} is broadcast along axis {origin.axes[0]} of {shape}"
            yield origin.node, "SHAPE-003", reason


def _of_unlike_rows(a: ShapedArray, b: ShapedArray) -> _Found:
    """``(x * x).sum(axis=1) + (codes * codes).sum(axis=1)``: rows of x and codes in pairs."""
    if a.shape.rank != 1 or b.shape.rank != 1 or a.origin is None or b.origin is None:
        return
    if not all(one.name in REDUCTIONS and one.axes == (-1,) for one in (a.origin, b.origin)):
        return
    first, second = a.origin.before, b.origin.before
    if first.rank != 2 or second.rank != 2 or first.head[1] != second.head[1]:
        return
    rows = first.head[0], second.head[0]
    if rows[0] != rows[1] and any(_setting(one) for one in rows):
        yield a.origin.node, "SHAPE-003", f"sums of rows of {first} and of {second} are paired"


def _of_all_rows(name: str, a: ShapedArray, b: ShapedArray) -> _Found:
    """``probs > probs.min()``: each row of probabilities is compared with the least of all rows."""
    for one, other in ((a, b), (b, a)):
        origin = one.origin
        if origin is None or origin.name != OF_ALL_ROWS or origin.before != other.shape:
            continue
        if other.shape.rank is not None or name.rpartition(".")[2] in _COMPARISONS:
            what = f"all axes of {other.shape}, whose rows are normalized one by one"
            yield origin.node, "SHAPE-007", f"`{_called(origin.node)}` over {what}"


_COMPARISONS = frozenset(("less", "less_equal", "greater", "greater_equal"))


def _called(node: ast.AST) -> str:
    """Return the last name of what a call calls."""
    func = getattr(node, "func", None)
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "call")


def _rows_by_rows(node: ast.AST, array: ShapedArray, index: Any) -> _Found:
    """``x[:, last]`` of an index for each row: each row gets the elements of all."""
    if not isinstance(index, tuple) or len(index) != 2 or index[0] != slice(None):
        return
    chosen = index[1]
    if not isinstance(chosen, ShapedArray) or chosen.shape.rank != 1 or not array.shape.head:
        return
    rows, number = array.shape.head[0], chosen.shape.head[0]
    if isinstance(rows, SizeExpr) and rows == number and array.shape.least_rank > 1:
        yield node, "SHAPE-003", f"each row of {array.shape} gets the elements of all {rows} rows"


def _last_sequence(node: ast.AST, array: ShapedArray, index: Any) -> _Found:
    """``nn.GRU(4, 5)(x)[-1]``: of (B, T, H), where torch's last state is meant."""
    origin = array.origin
    if type(index) is not int or index != -1 or origin is None or array.shape.rank != 3:
        return
    if origin.name in _RECURRENT and not _is_batch(array.shape.size(-2)):
        layer = origin.name.rpartition(".")[2]
        yield node, "SHAPE-007", f"`[-1]` is the last sequence that `{layer}` gives"


def _by_order(node: ast.AST, array: ShapedArray, index: Any) -> _Found:
    """``probs[..., mx.argsort(probs)]``: each row gets the elements in the orders of all rows."""
    if not isinstance(index, tuple) or not index or not isinstance(index[-1], ShapedArray):
        return
    origin, others = index[-1].origin, index[:-1]
    if origin is None or origin.name not in ORDERING or origin.before != array.shape:
        return
    # Who names the axis has several.
    names_axis = _argument(origin.node, 1, "axis") is not None
    is_row = array.shape.rank is None and not names_axis
    if array.shape.rank == 1 or is_row:
        return
    if all(type(one) is slice or one is Ellipsis for one in others):
        reason = f"each row of {array.shape} gets the elements in the orders of all rows"
        yield node, "SHAPE-003", reason


def _cut_heads(node: ast.AST, shape: ArrayShape, index: Any) -> _Found:
    """``keys[:, -window:]`` of (B, heads, L, D): heads are cut where positions are meant."""
    if shape.rank is None or not isinstance(index, tuple) or len(index) > shape.rank:
        return
    for size, part in zip(shape.head, index, strict=False):
        if type(part) is not slice:
            return
        found = _setting(size)
        bounds = [one for one in map(_setting, (part.start, part.stop)) if one]
        if found.endswith(HEADS) and any(one.endswith(_POSITIONS) for one in bounds):
            yield node, "SHAPE-007", f"{bounds[0]} cuts an axis of {found}"


def _setting(size: Any) -> str:
    """Return the name of a setting that a size is, or is the negative of; empty for others."""
    symbols = list(size.symbols) if isinstance(size, SizeExpr) else []
    return symbols[0].name if len(symbols) == 1 and not symbols[0].is_local else ""


#: What the names of numbers of positions end with.
_POSITIONS = ("window", "window_size", "context", "length", "seq_len", "max_len")


def _shifted(call: TableCall, scores: ShapedArray, axes: tuple[int, ...]) -> _Found:
    """``mx.softmax(scores + mask[:, None, :, None], axis=-1)``: the mask changes nothing."""
    origin = scores.origin
    if origin is not None and origin.name == SHIFTED and axes == (-1,):
        reason = f"what is added has one element along the last axis of {scores.shape}"
        yield origin.node, "SHAPE-007", f"{reason}, and `{call.short}` drops it"


def _of_one(call: TableCall, shape: ArrayShape, axis: int) -> _Found:
    """``mx.softmax(nn.Linear(dim, 1)(x), axis=-1)``: ones."""
    size = shape.size(axis)
    others = [n for n in (*shape.head, *shape.tail) if type(n) is not int]
    if type(size) is int and size == 1 and others:
        reason = f"`{call.short}` over axis {axis} of {shape}, which has one element"
        yield call.node, "SHAPE-007", reason


def _weighted(weights: ShapedArray) -> _Found:
    """``mx.softmax(scores, axis=-2) @ v``: weights that don't add up to 1 along the sum."""
    origin = weights.origin
    if origin is None or origin.name not in NORMALIZING or origin.name.endswith("log_softmax"):
        return
    if not origin.axes or origin.axes[0] >= 0:
        return
    if -1 not in origin.axes and origin.before.rank != 1:
        axis = _written_axis(origin)
        yield origin.node, "SHAPE-005", f"axis {axis} is normalized, and the last one is summed"


def _written_axis(origin: Origin) -> str:
    """Return the axis of a softmax as its call names it, with its size."""
    node, axis = origin.node, origin.axes[0]
    given = [one.value for one in getattr(node, "keywords", ()) if one.arg == "axis"]
    written = [ast.unparse(one) for one in given or getattr(node, "args", ())[1:2]]
    text = written[0] if written and len(written[0]) <= MOST_WRITTEN else str(axis)
    size = origin.before.size(axis) if origin.before.rank is not None else ANY_INT
    return text if size is ANY_INT else f"{text} ({size})"


#: Characters of an axis that a reason quotes.
MOST_WRITTEN = 8
