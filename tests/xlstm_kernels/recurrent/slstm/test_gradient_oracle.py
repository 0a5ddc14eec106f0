"""The oracle of gradients, against finite differences and what clip and cut mean."""

from __future__ import annotations

import numpy as np
import pytest

from tests.xlstm_kernels.conftest import wide
from tests.xlstm_kernels.recurrent.slstm import oracle
from tests.xlstm_kernels.recurrent.slstm.gradient_oracle import gradients


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("fresh", [False, True])
def test_the_oracle_is_the_slope(fresh, masked, draw_case):
    """Central differences along random directions of every argument."""
    case = draw_case((2, 5, 2, 3), fresh=fresh, masked=masked)
    arguments = list(map(wide, case.arrays))
    of_states, of_last = map(wide, case.cotangents)
    mask = None if case.mask is None else np.array(case.mask)
    generator = np.random.default_rng(1)

    def loss(*at):
        result = oracle.slstm(*at, mask)
        return (result.states * of_states).sum() + (result.last * of_last[:, :, 0]).sum()

    for index, gradient in enumerate(case.expected()[:4]):
        direction = generator.standard_normal(gradient.shape)
        if fresh and index == 3:
            direction[2] = 0  # m jumps where n becomes something
        ends = []
        for sign in (1, -1):
            moved = list(arguments)
            moved[index] = moved[index] + sign * 1e-6 * direction
            ends.append(loss(*moved))
        slope = (ends[0] - ends[1]) / 2e-6
        assert slope == pytest.approx((gradient * direction).sum(), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("masked", [False, True])
def test_the_oracle_cuts_what_is_fed_back(masked, draw_case):
    """As if R y were not computed but given: added to Wx beforehand, R zero."""
    case = draw_case((2, 5, 2, 3), masked=masked)
    wx, r, b, initial = map(wide, case.arrays)
    mask = None if case.mask is None else np.array(case.mask)
    heard, y = [], initial[0]
    states = oracle.slstm(wx, r, b, initial, mask).states
    for t in range(wx.shape[1]):
        heard.append(y)
        y = (
            states[0, :, t]
            if mask is None
            else np.where(mask[:, t, None, None], states[0, :, t], y)
        )
    heard = np.stack(heard, axis=1)
    given = wx + np.einsum("gnoi,btni->btgno", r, heard)
    of_states, of_last = map(wide, case.cotangents)
    cotangents = of_states, of_last[:, :, 0]
    plain = gradients(given, 0 * r, b, initial, cotangents, mask=mask)
    cut = case.expected(cut=True)
    np.testing.assert_allclose(cut.wx, plain.wx, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(cut.initial, plain.initial, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        cut.r, np.einsum("btgno,btni->gnoi", plain.wx, heard), rtol=1e-12, atol=1e-12
    )


def test_the_oracle_clips_what_is_fed_back(draw_case):
    """As if all were cut, and each y had what is left of its gradient as a cotangent."""
    case = draw_case((2, 5, 2, 3))
    clipped, exact = case.expected(clipval=0.3), case.expected()
    assert (np.abs(clipped.fed) > 0.3).any()
    assert (np.abs(clipped.fed) < 0.3).any()
    left = np.clip(clipped.fed, -0.3, 0.3)
    of_states, of_last = map(wide, case.cotangents)
    of_states[0, :, :-1] += left[:, 1:]
    same = gradients(*map(wide, case.arrays), (of_states, of_last[:, :, 0]), cut=True)
    np.testing.assert_allclose(clipped.wx, same.wx, rtol=1e-12)
    np.testing.assert_allclose(clipped.initial[0], left[:, 0], rtol=1e-12)
    np.testing.assert_allclose(clipped.initial[1:], same.initial[1:], rtol=1e-12)
    assert np.linalg.norm(exact.wx - clipped.wx) > 0.01
    np.testing.assert_array_equal(case.expected(clipval=1e9).wx, exact.wx)
