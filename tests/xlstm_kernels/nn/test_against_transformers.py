"""xLSTM against Hugging Face's, in torch on a CPU: its weights load by their names, and agree.

Theirs runs its own code, as where the package xlstm is not installed, in float64 on the same
numbers.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from xlstm_kernels.checkpoints import convert_weights, create_model
from xlstm_kernels.nn import xLSTM, xLSTMConfig

pytestmark = pytest.mark.oracle
STEPS = 70  # more than a chunk of theirs, and no multiple of one
BAR = 5e-6


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch", reason="the oracle needs torch")


@pytest.fixture(scope="module")
def modeling(torch) -> Any:
    """Hugging Face's module, made to believe that there is no xlstm."""
    pytest.importorskip("transformers", reason="the oracle is transformers' xLSTM")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("transformers.utils.is_xlstm_available", lambda: False)
        module = importlib.import_module("transformers.models.xlstm.modeling_xlstm")
    assert not module.external_xlstm
    return module


SETTINGS: dict[str, dict[str, Any]] = {
    "single": {},
    "fused": {},
    "tied": {"tie_word_embeddings": True},
    "biases": {"use_bias": True},
    "no out norm": {"add_out_norm": False},
    "parallel": {"chunkwise_kernel": "parallel--native_autograd"},
}


@pytest.fixture(scope="module", params=SETTINGS)
def theirs(request, torch, modeling) -> Any:
    """A model with weights drawn for the test, in float64."""
    generator = torch.Generator().manual_seed(11)
    config = modeling.xLSTMConfig(
        vocab_size=61,
        hidden_size=128,
        num_hidden_layers=3,
        num_heads=2,
        chunk_size=32,
        weight_mode="single",
        **SETTINGS[request.param],
    )
    model = modeling.xLSTMForCausalLM(config).eval()
    if request.param == "fused":
        # Their initial values of fused gates do not fit each other, and raise.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(modeling.xLSTMPreTrainedModel, "_init_weights", lambda *_: None)
            config.weight_mode = "fused"
            model = modeling.xLSTMForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            drawn = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(1 + 0.3 * drawn if parameter.ndim == 1 else 0.15 * drawn)
    return model.double()


@pytest.fixture(scope="module")
def tokens() -> np.ndarray:
    return np.random.default_rng(12).integers(61, size=(2, STEPS))


@pytest.fixture(scope="module")
def expected(torch, theirs, tokens) -> np.ndarray:
    with torch.no_grad():
        return theirs(torch.tensor(tokens)).logits.double().numpy()


@pytest.fixture
def ours(theirs) -> xLSTM:
    """The same weights, by the same names, in a model of the same configuration."""
    model = xLSTM(xLSTMConfig.from_dict(theirs.config.to_dict()))
    weights = {
        name: mx.array(tensor.float().numpy()) for name, tensor in theirs.state_dict().items()
    }
    if theirs.config.weight_mode == "single" and not theirs.config.use_bias:
        assert model.sanitize(weights).keys() == weights.keys()
    model.load_weights(list(model.sanitize(weights).items()))
    return model


def test_logits(ours, expected, tokens, relative_error):
    predicted = ours(mx.array(tokens))
    assert relative_error(predicted, expected) < BAR


def test_a_checkpoint_of_theirs_loads_as_it_is(
    theirs, tokens, expected, tmp_path: Path, relative_error
):
    """Written by `save_pretrained`, read by MLX; if names differ, converted."""
    theirs.float().save_pretrained(tmp_path)
    theirs.double()
    values = json.loads((tmp_path / "config.json").read_text())
    path = str(tmp_path / "model.safetensors")
    config, weights = convert_weights(mx.load(path), values)
    model = create_model(config)
    if theirs.config.weight_mode == "single" and not theirs.config.use_bias:
        model.load_weights(path)
    else:
        model.load_weights(list(weights.items()))
    assert relative_error(model(mx.array(tokens)), expected) < BAR
