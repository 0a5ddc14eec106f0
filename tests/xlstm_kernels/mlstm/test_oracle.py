"""The definition that the mLSTM is tested by, against numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.xlstm_kernels.mlstm.oracle import log_sigmoid, mlstm

INF = math.inf


def one_head(*rows: float | list[float]) -> np.ndarray:
    return np.array(rows, np.float64)[None, None]


def test_log_sigmoid_in_both_tails():
    x = np.array([-INF, -800.0, 0.0, 40.0, INF])
    assert log_sigmoid(x) == pytest.approx([-INF, -800, -math.log(2), -math.exp(-40), 0])


def test_two_steps_by_hand():
    """DK = 4, so q is halved. f = 0 halves the past; i = log 2 doubles what comes."""
    q = one_head([2.0, 0, 0, 0], [2.0, 4.0, 0, 0])
    k = one_head([3.0, 1.0, 0, 0], [1.0, -1.0, 0, 0])
    v = one_head([5.0, 7.0], [1.0, -1.0])
    result = mlstm(q, k, v, one_head(0.0, math.log(2)), one_head(0.0, 0.0), eps=0)

    # m_1 = max(-log 2 + 0, 0) = 0: forget 1/2 of nothing, admit all.
    # C = k v^T, q . n = 3 is greater than exp(-0), h = 3 v / 3.
    assert result.h[0, 0, 0] == pytest.approx([5, 7])
    # m_2 = max(-log 2 + 0, log 2) = log 2: forget 1/4, admit 1.
    assert result.m[0, 0] == pytest.approx(math.log(2))
    assert result.n[0, 0] == pytest.approx([3 / 4 + 1, 1 / 4 - 1, 0, 0])
    assert result.c[0, 0] == pytest.approx(
        np.array([[15 / 4 + 1, 21 / 4 - 1], [5 / 4 - 1, 7 / 4 + 1], [0, 0], [0, 0]])
    )
    # q . n = 7/4 - 2 * 3/4 = 1/4, less than exp(-m) = 1/2.
    assert result.h[0, 0, 1] == pytest.approx([2 * (19 / 4 + 2 * 1 / 4), 2 * (17 / 4 + 2 * 11 / 4)])
    # All terms of q . n are positive but one: (7/4 + 2 (1/4 + 1)) / (1/2).
    assert result.cancellation[0, 0] == pytest.approx([1, 8.5])


def test_eps_is_added_to_the_denominator():
    q, k, v = one_head([1.0]), one_head([1.0]), one_head([6.0])
    gates = one_head(0.0), one_head(0.0)
    assert mlstm(q, k, v, *gates, eps=2).h == pytest.approx(np.full((1, 1, 1, 1), 2))


def test_the_past_without_the_present():
    """i = -inf admits nothing, f = +inf forgets nothing."""
    q, k, v = one_head([1.0]), one_head([np.pi]), one_head([6.0])
    states = one_head([8.0])[0][None], one_head(2.0), np.array([[0.5]])
    result = mlstm(q, k, v, one_head(-INF), one_head(INF), states, eps=0)
    assert (result.c, result.n, result.m) == (8, 2, 0.5)
    assert result.h == pytest.approx(np.full((1, 1, 1, 1), 4))


def test_the_present_without_the_past():
    """f = -inf is a hard reset."""
    q, k, v = one_head([1.0]), one_head([3.0]), one_head([6.0])
    states = one_head([8.0])[0][None], one_head(2.0), np.array([[0.5]])
    result = mlstm(q, k, v, one_head(-2.0), one_head(-INF), states, eps=0)
    assert (result.c, result.n, result.m) == (18, 3, -2)
    # q . n = 3 is less than exp(2).
    assert result.h == pytest.approx(np.full((1, 1, 1, 1), 18 / math.exp(2)))


def test_nothing_at_all():
    q, k, v = one_head([1.0], [1.0]), one_head([3.0], [3.0]), one_head([6.0], [5.0])
    result = mlstm(q[:, :, :1], k[:, :, :1], v[:, :, :1], one_head(-INF), one_head(-INF))
    assert (result.h, result.c, result.n, result.m) == (0, 0, 0, -INF)
    # And what comes after it starts anew.
    result = mlstm(q, k, v, one_head(-INF, 1.0), one_head(-INF, 0.0), eps=0)
    assert (result.c, result.n, result.m) == (15, 3, 1)
    assert result.h[..., 0] == pytest.approx(one_head(0.0, 5.0))


def test_masked_steps_are_not_there():
    generator = np.random.default_rng(0)
    q, k, v = generator.standard_normal((3, 2, 1, 4, 3))
    i, f = generator.standard_normal((2, 2, 1, 4))
    mask = np.array([[True, False, True, True], [False, True, True, False]])
    result = mlstm(q, k, v, i, f, mask=mask)
    for row in range(2):
        kept = mask[row]
        alone = mlstm(*(x[row : row + 1, :, kept] for x in (q, k, v, i, f)))
        np.testing.assert_array_equal(result.h[row, 0, kept], alone.h[0, 0])
        np.testing.assert_array_equal(result.h[row, 0, ~kept], 0)
        for one, other in ((result.c, alone.c), (result.n, alone.n), (result.m, alone.m)):
            np.testing.assert_array_equal(one[row], other[0])


def test_split_in_two():
    generator = np.random.default_rng(1)
    q, k, v = generator.standard_normal((3, 2, 3, 5, 4))
    i, f = generator.standard_normal((2, 2, 3, 5))
    whole = mlstm(q, k, v, i, f)
    first = mlstm(*(x[:, :, :2] for x in (q, k, v, i, f)))
    second = mlstm(*(x[:, :, 2:] for x in (q, k, v, i, f)), (first.c, first.n, first.m))
    np.testing.assert_array_equal(np.concatenate([first.h, second.h], axis=2), whole.h)
    np.testing.assert_array_equal(second.c, whole.c)


def test_h_does_not_hang_on_the_scale_of_the_states():
    """Only eps does: (C, n, m) and (C e^-a, n e^-a, m + a) are the same."""
    generator = np.random.default_rng(2)
    q, k, v = generator.standard_normal((3, 1, 1, 5, 4))
    i, f = generator.standard_normal((2, 1, 1, 5))
    c, n, m = generator.standard_normal((1, 1, 4, 4)), generator.standard_normal((1, 1, 4)), 0.3
    one = mlstm(q, k, v, i, f, (c, n, np.array([[m]])), eps=0)
    shift = 7.0
    shifted = c * math.exp(-shift), n * math.exp(-shift), np.array([[m + shift]])
    np.testing.assert_allclose(mlstm(q, k, v, i, f, shifted, eps=0).h, one.h, rtol=1e-13)
