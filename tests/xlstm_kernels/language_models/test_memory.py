"""Memory of generation: the same after any number of tokens, and for prompts of any length."""

from __future__ import annotations

import mlx.core as mx
import pytest

from tests.xlstm_kernels.language_models.conftest import drawn_model
from xlstm_kernels.mlx_lm import Model

pytestmark = pytest.mark.exhaustive
SETTINGS = {"hidden_size": 32, "num_hidden_layers": 2, "slstm_at": [1]}


@pytest.fixture
def model(mlx_lm) -> Model:
    model = drawn_model(**SETTINGS)
    mx.eval(model.parameters())
    return model


def test_10000_tokens_take_no_more_memory_than_100(model):
    from mlx_lm.generate import generate_step

    active, peaks = [], []
    for count, _ in enumerate(generate_step(mx.array([1, 2, 3]), model, max_tokens=10_000)):
        if count in (100, 5000, 9999):
            active.append(mx.get_active_memory())
            peaks.append(mx.get_peak_memory())
            mx.reset_peak_memory()
    # Between two tokens the next step may have begun.
    assert max(active) - min(active) < 2e5
    assert peaks[2] <= 1.01 * peaks[1]
