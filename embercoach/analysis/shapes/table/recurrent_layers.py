"""Recurrent layers of ``mlx.nn``: the hidden states of all steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from embercoach.analysis.shapes.arrays import UNKNOWN, DType, ShapedArray, promote
from embercoach.analysis.shapes.size_integers import Integer, multiply
from embercoach.analysis.shapes.table.elementwise import array_argument
from embercoach.analysis.shapes.table.joining_shapes import fits
from embercoach.analysis.shapes.table.layer_shapes import (
    is_set,
    parameter,
    positive,
    size_of,
    transposed,
)
from embercoach.analysis.shapes.table.products import (
    addmm,
    inexact,
    optional_array,
    weighted,
    with_last,
    without_last,
)
from embercoach.analysis.shapes.table.transfers import layer, layer_call

if TYPE_CHECKING:
    from embercoach.analysis.shapes.requirements import Requirements

Attributes = dict[str, Any]


def _sizes(
    requirements: Requirements, input_size: object, hidden_size: object
) -> tuple[Integer, Integer]:
    hidden = positive(requirements, hidden_size, "hidden_size")
    return size_of(requirements, input_size, "input_size"), hidden


@layer("RNN")
def rnn(
    requirements: Requirements,
    input_size: object,
    hidden_size: object,
    bias: object = True,
    nonlinearity: object = None,
) -> Attributes:
    """``nn.RNN``: one weight for the input, one for the hidden state."""
    inner, hidden = _sizes(requirements, input_size, hidden_size)
    return {
        "hidden_size": hidden_size,
        "Wxh": parameter(hidden, inner),
        "Whh": parameter(hidden, hidden),
        "bias": parameter(hidden) if is_set(bias) else None,
        "nonlinearity": UNKNOWN,
    }


@layer("GRU")
def gru(
    requirements: Requirements, input_size: object, hidden_size: object, bias: object = True
) -> Attributes:
    """``nn.GRU``: weights of three gates."""
    inner, hidden = _sizes(requirements, input_size, hidden_size)
    gates = multiply(3, hidden)
    return {
        "hidden_size": hidden_size,
        "Wx": parameter(gates, inner),
        "Wh": parameter(gates, hidden),
        "b": parameter(gates) if is_set(bias) else None,
        "bhn": parameter(hidden) if is_set(bias) else None,
    }


@layer("LSTM")
def lstm(
    requirements: Requirements, input_size: object, hidden_size: object, bias: object = True
) -> Attributes:
    """``nn.LSTM``: weights of four gates."""
    inner, hidden = _sizes(requirements, input_size, hidden_size)
    gates = multiply(4, hidden)
    return {
        "hidden_size": hidden_size,
        "Wx": parameter(gates, inner),
        "Wh": parameter(gates, hidden),
        "bias": parameter(gates) if is_set(bias) else None,
    }


def _projected(requirements: Requirements, x: object, weight: object, bias: object) -> ShapedArray:
    """The input of all steps times its weight."""
    if bias is None:
        found = weighted(requirements, x, transposed(weight))
    else:
        found = addmm(requirements, bias, x, transposed(weight))
    array = array_argument(requirements, found)
    given = array_argument(requirements, x)
    requirements.least_rank(given, 2, f"{given.shape} has no axis of steps")
    if given.shape.rank is not None and given.shape.head[-2] == 0:
        requirements.fail(f"{given.shape} has no steps")
    return array


def _states(
    requirements: Requirements,
    projected: ShapedArray,
    size: Integer,
    weight: object,
    states: tuple[ShapedArray | None, ...],
) -> ShapedArray:
    """The states of all steps, which the given ones broadcast to."""
    whole = projected.shape
    step = with_last(without_last(whole, 2), size)
    dtype: DType = projected.dtype
    for number, state in enumerate(states):
        if state is None:
            continue
        reason = f"the state {state.shape} doesn't fit the states {step} of a step"
        if number == 0:
            matrix = array_argument(requirements, weight)
            dtype = inexact(requirements, promote(promote(dtype, state.dtype), matrix.dtype))
            requirements.least_rank(state, 1, reason)
            requirements.equal(state.shape.size(-1), size, reason)
        else:
            dtype = promote(dtype, state.dtype)
        fits(requirements, state.shape, step, reason)
    shape = with_last(without_last(whole), size)
    return ShapedArray(shape, dtype)


def _hidden_size(requirements: Requirements, weight: object) -> Integer:
    return array_argument(requirements, weight).shape.size(-1)


@layer_call("RNN")
def rnn_call(
    requirements: Requirements, attributes: Attributes, x: object, hidden: object = None
) -> object:
    """The hidden states (..., steps, hidden_size)."""
    weight = attributes.get("Whh", UNKNOWN)
    projected = _projected(
        requirements, x, attributes.get("Wxh", UNKNOWN), attributes.get("bias", UNKNOWN)
    )
    size = _hidden_size(requirements, weight)
    state = optional_array(requirements, hidden)
    return _states(requirements, projected, size, weight, (state,))


@layer_call("GRU")
def gru_call(
    requirements: Requirements, attributes: Attributes, x: object, hidden: object = None
) -> object:
    """The hidden states (..., steps, hidden_size)."""
    weight = attributes.get("Wh", UNKNOWN)
    projected = _projected(
        requirements, x, attributes.get("Wx", UNKNOWN), attributes.get("b", UNKNOWN)
    )
    size = _hidden_size(requirements, weight)
    return _states(requirements, projected, size, weight, (optional_array(requirements, hidden),))


@layer_call("LSTM")
def lstm_call(
    requirements: Requirements,
    attributes: Attributes,
    x: object,
    hidden: object = None,
    cell: object = None,
) -> object:
    """The hidden states and the cells, both (..., steps, hidden_size)."""
    weight = attributes.get("Wh", UNKNOWN)
    projected = _projected(
        requirements, x, attributes.get("Wx", UNKNOWN), attributes.get("bias", UNKNOWN)
    )
    size = _hidden_size(requirements, weight)
    states = optional_array(requirements, hidden), optional_array(requirements, cell)
    found = _states(requirements, projected, size, weight, states)
    return found, found
