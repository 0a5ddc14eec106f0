"""What the tests of the sLSTM share: inputs of any shape, and comparisons with the oracle."""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.recurrent.slstm import oracle
from tests.xlstm_kernels.recurrent.slstm.gradient_case import BARS, Case, judge
from tests.xlstm_kernels.recurrent.slstm.inputs import Inputs
from tests.xlstm_kernels.recurrent.slstm.oracle import STATE, VALUE

M = 3  # the place of m among the states


@pytest.fixture
def draw_inputs(draw) -> Callable[..., Inputs]:
    """Shape (B, T, N, D), dtype, scale of Wx."""

    def inputs(
        shape: tuple[int, int, int, int], dtype: mx.Dtype = mx.float32, scale: float = 1.0
    ) -> Inputs:
        batch, steps, heads, units = shape
        return Inputs(
            draw((batch, steps, 4, heads, units), dtype, scale),
            draw((4, heads, units, units), dtype, max(units, 1) ** -0.5),
            draw((4, heads, units), dtype),
        )

    return inputs


@pytest.fixture
def draw_states(draw) -> Callable[..., mx.array]:
    """A state as it may come from an earlier call: n is at least one."""

    def states(shape: tuple[int, int, int]) -> mx.array:
        y, c, n, m = (draw(shape, mx.float32) for _ in range(4))
        return mx.stack([mx.tanh(y), c, mx.abs(n) + 1, m])

    return states


@pytest.fixture
def expect(wide) -> Callable[..., oracle.Result]:
    """What the oracle makes of the same numbers."""

    def expected(
        inputs: Inputs, initial: mx.array | None = None, mask: mx.array | None = None
    ) -> oracle.Result:
        return oracle.slstm(
            *(wide(array) for array in inputs),
            None if initial is None else wide(initial),
            None if mask is None else np.array(mask),
        )

    return expected


@pytest.fixture
def check(relative_error) -> Callable[..., None]:
    """Compare both results with the oracle's, state by state.

    ``terms``: the scale of the terms of the sum m: where they cancel, their rounding is left.
    """

    def compare(
        results: tuple[mx.array, mx.array], expected: oracle.Result, terms: float = 0.0
    ) -> None:
        states, last = results
        assert states.dtype == last.dtype == mx.float32
        for k, limit in enumerate((VALUE, STATE, STATE, STATE)):
            for actual, exact in (
                (states[k], expected.states[k]),
                (last[k, :, 0], expected.last[k]),
            ):
                scale = np.maximum(np.abs(exact), terms) if k == M else exact
                assert relative_error(actual, exact, scale) < limit

    return compare


@pytest.fixture
def check_product(relative_error, wide) -> Callable[..., None]:
    """As `check` where m is big: c exp(m) and n exp(m) are what counts, m is but rounded."""

    def compare(results: tuple[mx.array, mx.array], expected: oracle.Result) -> None:
        for actual, exact in zip(
            (results[0], results[1][:, :, 0]), (expected.states, expected.last), strict=True
        ):
            assert relative_error(actual[0], exact[0]) < VALUE
            assert relative_error(actual[3], exact[3]) < 2e-7
            away = np.exp(wide(actual[3]) - exact[3])
            for k in (1, 2):
                product = wide(actual[k]) * away
                distance = np.linalg.norm(product - exact[k]) / np.linalg.norm(exact[k])
                assert distance < STATE

    return compare


@pytest.fixture
def check_case(check, expect) -> Callable[..., list[mx.array]]:
    """Compare the results of a case and its gradients, which are returned, with the oracles'."""

    def compare(
        case: Case, device: str, bars: dict[str, float] = BARS, definition: Case | None = None
    ) -> list[mx.array]:
        definition = definition or case
        results, found = case.run(device)
        check(results, expect(definition.inputs, definition.initial, definition.mask))
        judge(found, definition.expected(), bars)
        return found

    return compare


@pytest.fixture
def draw_case(draw, draw_inputs, draw_states) -> Callable[..., Case]:
    """Shape (B, T, N, D), whether to begin with nothing, and with a mask, dtype, scale of Wx."""

    def case(shape, *, fresh=False, masked=False, dtype=mx.float32, scale=1.0) -> Case:
        batch, steps, heads, units = shape
        first = (batch, heads, units)
        return Case(
            draw_inputs(shape, dtype, scale),
            mx.zeros((4, *first)) if fresh else draw_states(first),
            (
                draw((4, batch, steps, heads, units), mx.float32),
                draw((4, batch, 1, heads, units), mx.float32),
            ),
            draw((batch, steps), mx.float32) > -0.5 if masked else None,
        )

    return case
