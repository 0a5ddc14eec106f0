"""Recurrent layers of ``mlx.nn``: the hidden states of all steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from embercoach.analysis.shapes.arrays import UNKNOWN, DType, ShapedArray, promote
from embercoach.analysis.shapes.size_integers import Integer, multiply
from embercoach.analysis.shapes.table import layer, layer_call
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

if TYPE_CHECKING:
    from embercoach.analysis.shapes.requirements import Requirements

Attributes = dict[str, Any]


def _gates(
    requirements: Requirements,
    input_size: object,
    hidden_size: object,
    number: int,
    names: tuple[str, str],
) -> tuple[Attributes, Integer]:
    """The weights of so many gates, for the input and for the hidden state, and their rows."""
    hidden = positive(requirements, hidden_size, "hidden_size")
    inner = size_of(requirements, input_size, "input_size")
    rows = multiply(number, hidden)
    weights = parameter(rows, inner), parameter(rows, hidden)
    return {"hidden_size": hidden_size, **dict(zip(names, weights, strict=True))}, rows


@layer("RNN")
def rnn(
    requirements: Requirements,
    input_size: object,
    hidden_size: object,
    bias: object = True,
    nonlinearity: object = None,
) -> Attributes:
    """``nn.RNN``: one weight for the input, one for the hidden state."""
    made, rows = _gates(requirements, input_size, hidden_size, 1, ("Wxh", "Whh"))
    return {**made, "bias": parameter(rows) if is_set(bias) else None, "nonlinearity": UNKNOWN}


@layer("GRU")
def gru(
    requirements: Requirements, input_size: object, hidden_size: object, bias: object = True
) -> Attributes:
    """``nn.GRU``: weights of three gates."""
    made, rows = _gates(requirements, input_size, hidden_size, 3, ("Wx", "Wh"))
    hidden = made["Wh"].shape.head[1]
    biases = (parameter(rows), parameter(hidden)) if is_set(bias) else (None, None)
    return {**made, "b": biases[0], "bhn": biases[1]}


@layer("LSTM")
def lstm(
    requirements: Requirements, input_size: object, hidden_size: object, bias: object = True
) -> Attributes:
    """``nn.LSTM``: weights of four gates."""
    made, rows = _gates(requirements, input_size, hidden_size, 4, ("Wx", "Wh"))
    return {**made, "bias": parameter(rows) if is_set(bias) else None}


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
    attributes: Attributes,
    x: object,
    names: tuple[str, str, str],
    *given: object,
) -> ShapedArray:
    """The states of all steps, which the given ones broadcast to.

    Args:
        requirements: get what the call requires.
        attributes: of the layer.
        x: its input.
        names: of the weights of input and state, and of the bias.
        given: the first states; None for zeros.
    """
    matrix, weight, bias = (attributes.get(name, UNKNOWN) for name in names)
    projected = _projected(requirements, x, matrix, bias)
    size = array_argument(requirements, weight).shape.size(-1)
    states = [optional_array(requirements, one) for one in given]
    whole = projected.shape
    step = with_last(without_last(whole, 2), size)
    dtype: DType = projected.dtype
    for number, state in enumerate(states):
        if state is None:
            continue
        reason = f"the state {state.shape} doesn't fit the states {step} of a step"
        if number == 0:
            hidden = array_argument(requirements, weight)
            dtype = inexact(requirements, promote(promote(dtype, state.dtype), hidden.dtype))
            requirements.least_rank(state, 1, reason)
            requirements.equal(state.shape.size(-1), size, reason)
        else:
            dtype = promote(dtype, state.dtype)
        fits(requirements, state.shape, step, reason)
    return ShapedArray(with_last(without_last(whole), size), dtype)


@layer_call("RNN")
def rnn_call(
    requirements: Requirements, attributes: Attributes, x: object, hidden: object = None
) -> object:
    """The hidden states (..., steps, hidden_size)."""
    return _states(requirements, attributes, x, ("Wxh", "Whh", "bias"), hidden)


@layer_call("GRU")
def gru_call(
    requirements: Requirements, attributes: Attributes, x: object, hidden: object = None
) -> object:
    """The hidden states (..., steps, hidden_size)."""
    return _states(requirements, attributes, x, ("Wx", "Wh", "b"), hidden)


@layer_call("LSTM")
def lstm_call(
    requirements: Requirements,
    attributes: Attributes,
    x: object,
    hidden: object = None,
    cell: object = None,
) -> object:
    """The hidden states and the cells, both (..., steps, hidden_size)."""
    found = _states(requirements, attributes, x, ("Wx", "Wh", "bias"), hidden, cell)
    return found, found
