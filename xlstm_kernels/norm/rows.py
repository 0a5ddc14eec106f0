"""Kernels that normalise rows: how a row lies over a threadgroup, and the forward pass in Metal.

A threadgroup takes a row, keeps it in the registers of its threads, and goes on to the row that
lies threadgroups_per_grid further on. So each element is read once, a weight once for all the rows
of a threadgroup, and any number of rows fits the limits of any grid. Row, and with it every
barrier, is the same for all threads of a group; groups are whole simdgroups and the grid is whole
groups, so every simdgroup is full.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.msl import THREADGROUP_SUM

if TYPE_CHECKING:
    import mlx.core as mx

_SIMD_WIDTH = 32
_MAX_SIMDGROUPS = 16
_COLUMNS_PER_THREAD = 4
# Elements of a row in registers, for each thread: with those of a weight and a bias, so few that
# every GPU still takes threadgroups of 512. What is left of wider rows is read again.
_MAX_VALUES = 16
_MAX_ROW_GROUPS = 65535
# A threadgroup takes as many rows as this, so that a weight costs little compared with them, unless
# that leaves fewer elements in flight than a GPU's memory needs to be busy.
_ROWS_PER_GROUP = 16
_BUSY_ELEMENTS = 2**18


def row_launch(
    rows: int,
    columns: int,
    dtype: mx.Dtype,
    output_shapes: tuple[tuple[int, ...], ...],
    output_dtypes: tuple[mx.Dtype, ...],
    *,
    heads: int = 1,
    rows_per_group: int = _ROWS_PER_GROUP,
    max_values: int = _MAX_VALUES,
    streams: int = 1,
) -> Launch:
    """The launch of a kernel that takes rows one at a time.

    Args:
        rows: of each head.
        columns: elements of a row.
        dtype: of the rows.
        output_shapes: of the launch.
        output_dtypes: of the launch.
        heads: how many sets of rows there are, each with its own weight.
        rows_per_group: how many of them a threadgroup takes, if that leaves enough threadgroups.
        max_values: elements of a row that a thread keeps in registers, a power of two.
        streams: how many arrays like the rows are read together.

    Returns:
        A grid of threadgroups one row wide, along x over the rows, along y over the heads.
    """
    simdgroups = min(math.ceil(columns / (_SIMD_WIDTH * _COLUMNS_PER_THREAD)), _MAX_SIMDGROUPS)
    threads = simdgroups * _SIMD_WIDTH
    values = _COLUMNS_PER_THREAD
    while values < max_values and values * threads < columns:
        values *= 2
    busy = math.ceil(_BUSY_ELEMENTS / (max(columns * heads, 1) * streams))
    groups = min(rows, max(busy, math.ceil(rows / rows_per_group)), _MAX_ROW_GROUPS)
    return Launch(
        grid=(groups * threads, heads, 1),
        threadgroup=(threads, 1, 1),
        output_shapes=output_shapes,
        output_dtypes=output_dtypes,
        template=(("T", dtype), ("MAX_SIMDGROUPS", _MAX_SIMDGROUPS), ("VALUES", values)),
    )


#: Where a thread finds its elements: at thread_column, then each stride further on.
COLUMNS = """
    const uint thread_column = thread_index_in_threadgroup;
    const uint stride = threads_per_threadgroup.x;
"""


def each_element(
    statements: str, *, held: str, left: str, held_after: str = "", left_after: str = ""
) -> str:
    """MSL that runs statements for each element of the row that is the thread's, at `column`.

    Args:
        statements: to run.
        held: run before them for the elements in registers, of which `k` is the number.
        left: run before them for elements beyond, which are read again each time.
        held_after: run after them for the elements in registers.
        left_after: run after them for elements beyond.
    """
    return f"""
        #pragma clang loop unroll(full)
        for (uint k = 0; k < VALUES; ++k) {{
            const uint column = thread_column + k * stride;
            if (column < columns) {{
                {held}
                {statements}
                {held_after}
            }}
        }}
        for (uint column = thread_column + VALUES * stride; column < columns; column += stride) {{
            {left}
            {statements}
            {left_after}
        }}
    """


def held_elements(**arrays: str) -> str:
    """MSL that reads, once for all rows, elements of a row of factors.

    Args:
        **arrays: the expression of the element at `column`, by the name of the register array.
    """
    declared = "\n".join(f"    float {name}[VALUES];" for name in arrays)
    read = "\n".join(f"            {name}[k] = {element};" for name, element in arrays.items())
    return f"""
{declared}
    #pragma clang loop unroll(full)
    for (uint k = 0; k < VALUES; ++k) {{
        const uint column = thread_column + k * stride;
        if (column < columns) {{
{read}
        }}
    }}
    """


def threadgroup_sum(value: str, partial: str) -> str:
    """MSL of the sum of `value` over the threadgroup."""
    return (
        f"xlstm_threadgroup_sum({value}, {partial}, simdgroup_index_in_threadgroup, "
        "thread_index_in_simdgroup, simdgroups_per_threadgroup)"
    )


#: MSL of `value`, an element of the row, from memory or from the registers `held`.
VALUE = "const float value = static_cast<float>(row_values[column * values_step]);"
HELD_VALUE = "const float value = held[k];"
_FACTORS = {
    # name of the input: register array, factor of an element, what it does to the result
    "weight": ("weights", "factor", "result *= factor;"),
    "bias": ("biases", "offset", "result += offset;"),
}


def read_factor(extra: str) -> str:
    """MSL of the element at `column` of what all rows of a head share."""
    return f"static_cast<float>({extra}[(first + column) * {extra}_strides[0]])"


def _moments(centred: bool) -> str:
    """Compute `scale`, and the other inputs of `normalise`, from the elements of a row."""
    length = "static_cast<float>(columns)"
    if not centred:
        return f"""
        float squares = 0.0f;
        {each_element("squares += value * value;", held=VALUE + " held[k] = value;", left=VALUE)}
        squares = {threadgroup_sum("squares", "partial")};
        const float scale = metal::precise::rsqrt(squares / {length} + epsilon);
        """
    # The mean as rounded lies close to the values if these lie close to each other, and then the
    # difference is exact: its small mean and its squares keep the digits that a big mean has not.
    near = "const float distance = value - about; moments += float2(distance, distance * distance);"
    return f"""
        float sum = 0.0f;
        {each_element("sum += value;", held=VALUE + " held[k] = value;", left=VALUE)}
        const float about = {threadgroup_sum("sum", "partial")} / {length};
        float2 moments = float2(0.0f);
        {each_element(near, held=HELD_VALUE, left=VALUE)}
        moments = {threadgroup_sum("moments", "partial_moments")} / {length};
        const float variance = metal::max(moments.y - moments.x * moments.x, 0.0f);
        const float scale = metal::precise::rsqrt(variance + epsilon);
        """


def _store(centred: bool, extras: tuple[str, ...]) -> str:
    factors = [(extra, *_FACTORS[extra]) for extra in extras if extra in _FACTORS]
    normalised = "((value - about) - moments.x) * scale" if centred else "value * scale"
    gate = (
        "result /= 1.0f + metal::precise::exp(-static_cast<float>(row_gate[column * gate_step]));"
    )
    statements = [
        f"float result = {normalised};",
        *(applied for _, _, _, applied in factors),
        *([gate] if "gate" in extras else []),
        "row_normalised[column] = static_cast<T>(result);",
    ]
    held = [f"const float {name} = {array}[k];" for _, array, name, _ in factors]
    left = [f"const float {name} = {read_factor(extra)};" for extra, _, name, _ in factors]
    return each_element(
        " ".join(statements),
        held=" ".join([HELD_VALUE, *held]),
        left=" ".join([VALUE, *left]),
    )


#: MSL of what all rows of a threadgroup have in common: their head, its first feature.
LOCATE = """
    const uint length = values_shape[1];
    const uint columns = values_shape[3];
    const uint rows = values_shape[0] * length;
    const int64_t features = static_cast<int64_t>(values_shape[2]) * columns;
    const int64_t head = threadgroup_position_in_grid.y;
    const int64_t first = head * columns;
"""


def row_of(values: str, *others: str) -> str:
    """MSL of pointers to a row, `row_` and the input's name, and of the `_step` between elements.

    Args:
        values: an input (batch, length, heads, columns).
        *others: inputs (batch, length, heads * columns).
    """
    located = f"""
        const int64_t batch = row / length;
        const int64_t position = row % length;
        const auto row_{values} = {values} + (batch * {values}_strides[0]
            + position * {values}_strides[1] + head * {values}_strides[2]);
        const int64_t {values}_step = {values}_strides[3];"""
    for other in others:
        located += f"""
        const auto row_{other} = {other} + (batch * {other}_strides[0]
            + position * {other}_strides[1] + first * {other}_strides[2]);
        const int64_t {other}_step = {other}_strides[2];"""
    return located


def _launch(values: mx.array, *_others: mx.array) -> Launch:
    batch, length, heads, columns = values.shape
    return row_launch(
        batch * length,
        columns,
        values.dtype,
        ((batch, length, heads * columns),),
        (values.dtype,),
        heads=heads,
    )


@functools.cache
def norm_kernel(extras: tuple[str, ...] = (), *, centred: bool = False) -> Kernel:
    """The kernel of an RMS norm, or with `centred` of a layer norm, over the last of four axes.

    Its inputs are the values (B, S, NH, DH), epsilon (0-d), and the extras: weight (NH*DH), bias
    (NH*DH) and gate (B, S, NH*DH), all of any strides. It gives (B, S, NH*DH).

    Args:
        extras: which of "weight", "bias" and "gate" there are, in this order.
        centred: whether each row's mean is taken from it.
    """
    family = "layer" if centred else "rms"
    suffix = "".join(
        {"weight": "_weighted", "bias": "_biased", "gate": "_gated"}[e] for e in extras
    )
    factors = {_FACTORS[extra][0]: read_factor(extra) for extra in extras if extra in _FACTORS}
    return Kernel(
        name=f"xlstm_{family}_norm{suffix}",
        inputs=("values", "epsilon", *extras),
        outputs=("normalised",),
        launch=_launch,
        header=THREADGROUP_SUM,
        contiguous_inputs=False,
        body=f"""
    // values: (batch, length, heads, columns); epsilon: 0-d; weight, bias: (heads * columns);
    // gate, normalised: (batch, length, heads * columns), normalised contiguous.
    threadgroup float partial[MAX_SIMDGROUPS];
    {"threadgroup float2 partial_moments[MAX_SIMDGROUPS];" if centred else ""}
    {COLUMNS}
    {LOCATE}
    {held_elements(**factors) if factors else ""}
    for (uint row = threadgroup_position_in_grid.x; row < rows; row += threadgroups_per_grid.x) {{
        {row_of("values", *(("gate",) if "gate" in extras else ()))}
        const auto row_normalised = normalised + (row * features + first);
        float held[VALUES];
        {_moments(centred)}
        {_store(centred, extras)}
    }}
    """,
    )
