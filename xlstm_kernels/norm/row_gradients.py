"""The gradients of norms of heads in Metal, all by one kernel, which reads x and dy once.

With n the normalised row, s what it was multiplied by, and r = n * weight + bias:

    p = dy * sigmoid(gate),  g = p * weight
    dx = s (g - mean(g) - n mean(g n)), without mean(g) for the RMS norm
    dweight, dbias = sums over the rows of p * n and of p
    dgate = dy * r * sigmoid'(gate)

Mean and s are computed anew. A threadgroup takes rows of one head, as in `rows`, and keeps the sums
for the weight and the bias in registers until it has been through all of them.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING

import mlx.core as mx

from xlstm_kernels.kernel import Kernel
from xlstm_kernels.msl import SIGMOID, THREADGROUP_SUM
from xlstm_kernels.norm.rows import (
    COLUMNS,
    HELD_VALUE,
    LOCATE,
    VALUE,
    each_element,
    held_elements,
    read_factor,
    row_launch,
    row_of,
    threadgroup_sum,
)

if TYPE_CHECKING:
    from xlstm_kernels.differentiation import Arrays
    from xlstm_kernels.kernel import Launch

# Up to five arrays of them are in registers, in addition to x.
_MAX_VALUES = 8
_ROWS_PER_GROUP = 32


def norm_gradient(
    extras: tuple[str, ...],
    primals: Arrays,
    cotangent: mx.array,
    epsilon: mx.array,
    *,
    centred: bool,
    backend: str,
) -> Arrays:
    """The gradients in x and in the extras, each in its shape and dtype.

    Args:
        extras: which of "weight", "bias" and "gate" there are, in this order.
        primals: x (B, S, NH, DH), not empty, and the extras.
        cotangent: (B, S, NH*DH).
        epsilon: 0-d, float32.
        centred: whether each row's mean is taken from it.
        backend: one that runs kernels.
    """
    x, *given = primals
    arrays = dict(zip(extras, given, strict=True))
    # A bias is in no gradient but the gate's.
    read = [array for name, array in arrays.items() if name != "bias" or "gate" in arrays]
    kernel = _kernel(extras, centred=centred)
    gradients = kernel(x, epsilon, cotangent, *read, backend=backend)
    found = dict(zip(kernel.outputs, gradients, strict=True))
    results = [found["values_gradient"]]
    for name, array in arrays.items():
        if name == "gate":
            results.append(found["gate_gradient"])
        else:
            results.append(mx.sum(found[f"{name}_sums"], axis=0).astype(array.dtype))
    return tuple(results)


# --- Metal -------------------------------------------------------------------------------------


def _launch(outputs: tuple[str, ...], values: mx.array, *others: mx.array) -> Launch:
    batch, length, heads, columns = values.shape
    launch = row_launch(
        *(batch * length, columns, values.dtype, (values.shape,), (values.dtype,)),
        heads=heads,
        rows_per_group=_ROWS_PER_GROUP,
        max_values=_MAX_VALUES,
        streams=2 + ("gate_gradient" in outputs),
    )
    groups = launch.grid[0] // launch.threadgroup[0]
    sums = ((groups, heads * columns), mx.float32)
    made = {
        "values_gradient": (values.shape, values.dtype),
        "weight_sums": sums,
        "bias_sums": sums,
    }
    template = launch.template
    if "gate_gradient" in outputs:
        gate = others[-1]
        made["gate_gradient"] = (gate.shape, gate.dtype)
        template = (*template, ("GateT", gate.dtype))
    shapes, dtypes = zip(*(made[name] for name in outputs), strict=True)
    return replace(launch, output_shapes=shapes, output_dtypes=dtypes, template=template)


def _elements(extras: tuple[str, ...]) -> tuple[str, str, str]:
    """MSL that declares `given`, `opened`, `factor` and `offset`, as far as there are such.

    They are dy, the sigmoid of the gate and its slope, weight and bias. Three times: from memory
    into registers, from registers, and from memory for elements that have no register.
    """
    gated, weighted = "gate" in extras, "weight" in extras
    biased = "bias" in extras and gated
    given = "const float given = static_cast<float>(row_cotangent[column * cotangent_step]);"
    gate = "const float shut = static_cast<float>(row_gate[column * gate_step]);"
    opened = "const float2 opened = xlstm_sigmoid(shut);"
    held_factor = [
        *(["const float factor = weights[k];"] if weighted else []),
        *(["const float offset = biases[k];"] if biased else []),
    ]
    left_factor = [
        *([f"const float factor = {read_factor('weight')};"] if weighted else []),
        *([f"const float offset = {read_factor('bias')};"] if biased else []),
    ]
    read = [given, *([gate, opened] if gated else [])]
    keep = ["held_given[k] = given;", *(["held_gate[k] = shut;"] if gated else [])]
    again = [
        "const float given = held_given[k];",
        *(["const float shut = held_gate[k];", opened] if gated else []),
    ]
    return (
        " ".join([*read, *keep, *held_factor]),
        " ".join([*again, *held_factor]),
        " ".join([*read, *left_factor]),
    )


def _statistics(extras: tuple[str, ...], *, centred: bool) -> str:
    """From the elements, kept on the way, to `scale`, `along` = mean(g n), and the means."""
    first, _, left = _elements(extras)
    pulled = "const float pulled = given"
    pulled += " * opened.x" if "gate" in extras else ""
    pulled += " * factor;" if "weight" in extras else ";"
    length = "static_cast<float>(columns)"
    if not centred:
        add = "moments += float2(value * value, value * pulled);"
        both = each_element(
            f"{pulled} {add}", held=f"{VALUE} held[k] = value; {first}", left=f"{VALUE} {left}"
        )
        return f"""
        float2 moments = float2(0.0f);
        {both}
        moments = {threadgroup_sum("moments", "partial_moments")} / {length};
        const float scale = metal::precise::rsqrt(moments.x + epsilon);
        const float along = moments.y * scale;
        """
    # Of the differences from the mean as rounded, as in `rows`.
    add = """const float distance = value - about;
             moments += float4(distance, distance * distance, pulled, pulled * distance);"""
    return f"""
        float sum = 0.0f;
        {each_element("sum += value;", held=VALUE + " held[k] = value;", left=VALUE)}
        const float about = {threadgroup_sum("sum", "partial")} / {length};
        float4 moments = float4(0.0f);
        {each_element(f"{pulled} {add}", held=f"{HELD_VALUE} {first}", left=f"{VALUE} {left}")}
        moments = {threadgroup_sum("moments", "partial_moments")} / {length};
        const float variance = metal::max(moments.y - moments.x * moments.x, 0.0f);
        const float scale = metal::precise::rsqrt(variance + epsilon);
        const float along = scale * (moments.w - moments.x * moments.z);
        """


def _store(extras: tuple[str, ...], *, centred: bool) -> str:
    """MSL that writes the gradients of a row, and adds what it has for the weight and the bias."""
    gated, weighted = "gate" in extras, "weight" in extras
    _, held, left = _elements(extras)
    statements = [
        "const float normalised = "
        + ("((value - about) - moments.x) * scale;" if centred else "value * scale;"),
        "const float through = given" + (" * opened.x;" if gated else ";"),
        "const float pulled = through" + (" * factor;" if weighted else ";"),
        "row_gradient[column] = static_cast<T>(scale * ("
        + ("(pulled - moments.z)" if centred else "pulled")
        + " - normalised * along));",
    ]
    if gated:
        result = "normalised" + (" * factor" if weighted else "")
        result += " + offset" if "bias" in extras else ""
        slope = f"given * ({result}) * opened.y"
        statements.append(f"row_gate_gradient[column] = static_cast<GateT>({slope});")
    added = {"weight": "through * normalised", "bias": "through"}
    sums = {name: term for name, term in added.items() if name in extras}
    held_sums = [f"{name}_held[k] += {term};" for name, term in sums.items()]
    # Elements that have no register have their sums in memory, which no other thread looks at.
    left_sums = [
        f"{name}_sums[block + column] = {term} + "
        f"(row == first_row ? 0.0f : {name}_sums[block + column]);"
        for name, term in sums.items()
    ]
    return each_element(
        " ".join(statements),
        held=f"{HELD_VALUE} {held}",
        left=f"{VALUE} {left}",
        held_after=" ".join(held_sums),
        left_after=" ".join(left_sums),
    )


@functools.cache
def _kernel(extras: tuple[str, ...], *, centred: bool) -> Kernel:
    """The kernel that gives all gradients of a norm with these extras."""
    gated = "gate" in extras
    sums = tuple(name for name in ("weight", "bias") if name in extras)
    suffix = "".join(
        {"weight": "_weighted", "bias": "_biased", "gate": "_gated"}[e] for e in extras
    )
    read = {
        register: read_factor(extra)
        for extra, register, needed in (("weight", "weights", True), ("bias", "biases", gated))
        if extra in extras and needed
    }
    outputs = (
        "values_gradient",
        *(f"{name}_sums" for name in sums),
        *(("gate_gradient",) * gated),
    )
    write = " ".join(f"{name}_sums[block + column] = {name}_held[k];" for name in sums)
    moments = "float4" if centred else "float2"
    return Kernel(
        name=f"xlstm_{'layer' if centred else 'rms'}_norm_heads_gradient{suffix}",
        inputs=(
            *("values", "epsilon", "cotangent"),
            *(extra for extra in extras if extra != "bias" or gated),
        ),
        outputs=outputs,
        launch=functools.partial(_launch, outputs),
        header=THREADGROUP_SUM + SIGMOID,
        contiguous_inputs=False,
        body=f"""
    // values: (batch, length, heads, columns); epsilon: 0-d; weight, bias: (heads * columns);
    // cotangent, gate: (batch, length, heads * columns), all of any strides. values_gradient: as
    // values, gate_gradient: as gate; weight_sums, bias_sums: (threadgroups, heads * columns), of
    // the rows of a threadgroup. These are contiguous.
    {"threadgroup float partial[MAX_SIMDGROUPS];" if centred else ""}
    threadgroup {moments} partial_moments[MAX_SIMDGROUPS];
    {COLUMNS}
    {LOCATE}
    {held_elements(**read) if read else ""}
    {" ".join(f"float {name}_held[VALUES] = {{}};" for name in sums)}
    const uint first_row = threadgroup_position_in_grid.x;
    const int64_t block = first_row * features + first;
    for (uint row = first_row; row < rows; row += threadgroups_per_grid.x) {{
        {row_of("values", "cotangent", *(("gate",) if gated else ()))}
        const auto row_gradient = values_gradient + (row * features + first);
        {"const auto row_gate_gradient = gate_gradient + (row * features + first);" * gated}
        float held[VALUES];
        float held_given[VALUES];
        {"float held_gate[VALUES];" * gated}
        {_statistics(extras, centred=centred)}
        {_store(extras, centred=centred)}
    }}
    {each_element("", held=write, left="") if sums else ""}
    """,
    )
