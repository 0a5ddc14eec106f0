"""Checkpoints of NX-AI's package xlstm (Apache-2.0), against its own models in torch on a CPU."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from xlstm_kernels.checkpoints import convert_weights, create_model
from xlstm_kernels.nn import xLSTM, xLSTMLMModel

pytestmark = pytest.mark.oracle
VOCABULARY, STEPS, GREEDY = 53, 37, 64
BAR, LAYER_BAR = 5e-6, 2e-6  # relative L2 errors, against float64
LOGIT_BAR = 1e-4  # the greatest difference of logits


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch", reason="the oracle needs torch")


@pytest.fixture(scope="module")
def xlstm(torch) -> Any:
    pytest.importorskip("mlstm_kernels", reason="the oracle needs mlstm_kernels")
    return pytest.importorskip("xlstm", reason="package xlstm is not here")


@dataclass(frozen=True)
class Theirs:
    """One of their models with drawn weights, and its configuration as a file would have it."""

    model: Any
    config: dict[str, Any]

    def ours(self, folder: Path) -> Any:
        """The same in MLX, by way of a safetensors file."""
        from safetensors.torch import save_file

        weights = {name: t.float().contiguous() for name, t in self.model.state_dict().items()}
        if self.config.get("tie_weights"):
            del weights["lm_head.weight"]  # as safetensors' `save_model` does
        save_file(weights, folder / "model.safetensors")
        config, converted = convert_weights(
            mx.load(str(folder / "model.safetensors")), json.loads(json.dumps(self.config))
        )
        model = create_model(config)
        model.load_weights(list(converted.items()))
        return model.eval()


def drawn(torch, kind: type, config: Any) -> Any:
    """One of their models in float64, with weights drawn around its initial ones."""
    torch.manual_seed(6)
    model = kind(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            scale = 0.3 if parameter.ndim == 1 or "recurrent" in name else 0.1
            parameter.add_(scale * torch.randn(parameter.shape))
    return model.double().eval()


# --- xLSTMLMModel ------------------------------------------------------------------------------

STACKS: dict[str, dict[str, Any]] = {
    "mixed": {"slstm_at": [1]},
    "mLSTM": {"slstm_block": None},
    "sLSTM": {"mlstm_block": None},
    "biases": {"bias": True, "dropout": 0.1, "add_embedding_dropout": True},
    "tied, without norm": {"tie_weights": True, "add_post_blocks_norm": False},
    "other sizes": {
        "mlstm_block": {
            "num_heads": 2,
            "qkv_proj_blocksize": 16,
            "proj_factor": 1.5,
            "conv1d_kernel_size": 3,
            "round_proj_up_to_multiple_of": 32,
            "round_proj_up_dim_up": False,
        },
        "slstm_block": {"num_heads": 2, "conv1d_kernel_size": 0, "group_norm_weight": False},
        "feedforward": {"proj_factor": 2.1, "act_fn": "swish", "bias": True},
        "slstm_at": [0, 2],
    },
    "without feed-forward": {"slstm_at": [1], "feedforward": None},
}


def language_model(torch, settings: dict[str, Any]) -> Theirs:
    from xlstm import (
        FeedForwardConfig,
        mLSTMBlockConfig,
        mLSTMLayerConfig,
        sLSTMBlockConfig,
        sLSTMLayerConfig,
        xLSTMLMModel,
        xLSTMLMModelConfig,
    )

    settings = {"slstm_block": {}, "mlstm_block": {}, "feedforward": {}, **settings}
    mlstm, slstm, ffn = (settings.pop(k) for k in ("mlstm_block", "slstm_block", "feedforward"))
    config = xLSTMLMModelConfig(
        mlstm_block=None if mlstm is None else mLSTMBlockConfig(mlstm=mLSTMLayerConfig(**mlstm)),
        slstm_block=None
        if slstm is None
        else sLSTMBlockConfig(
            slstm=sLSTMLayerConfig(backend="vanilla", **slstm),
            feedforward=None if ffn is None else FeedForwardConfig(**ffn),
        ),
        context_length=64,
        **{"num_blocks": 3, "embedding_dim": 32, "vocab_size": VOCABULARY, **settings},
    )
    model = drawn(torch, xLSTMLMModel, config)
    return Theirs(model, dataclasses.asdict(config))


@pytest.fixture(scope="module", params=STACKS)
def stack(request, torch, xlstm) -> Theirs:
    return language_model(torch, STACKS[request.param])


@pytest.fixture(scope="module")
def tokens() -> np.ndarray:
    return np.random.default_rng(12).integers(VOCABULARY, size=(2, STEPS))


def test_logits_of_a_block_stack(torch, stack, tokens, tmp_path, relative_error):
    model = stack.ours(tmp_path)
    assert isinstance(model, xLSTMLMModel)
    with torch.no_grad():
        expected = stack.model(torch.tensor(tokens)).numpy()
    whole = model(mx.array(tokens))
    assert relative_error(whole, expected) < BAR
    assert np.abs(np.array(whole) - expected).max() < LOGIT_BAR
    cache, outputs = model.init_cache(2), []
    for piece in mx.split(mx.array(tokens), [20, *range(21, STEPS)], axis=1):
        one = model(piece, cache)
        outputs.append(one)
    assert relative_error(mx.concatenate(outputs, axis=1), expected) < BAR


def test_greedy_tokens_of_a_block_stack(torch, stack, tokens, tmp_path):
    model, prompt = stack.ours(tmp_path), tokens[:1, :5]
    expected, state = [], None
    with torch.no_grad():
        for token in prompt[0]:
            logits, state = stack.model.step(torch.tensor([[token]]), state)
        for _ in range(GREEDY):
            expected.append(int(logits[0, -1].argmax()))
            logits, state = stack.model.step(torch.tensor([[expected[-1]]]), state)
    assert greedy(model, prompt) == expected
    # A tied model without norm repeats its token.
    assert len(set(expected)) > 1 or stack.config["tie_weights"]


def greedy(model: Any, prompt: np.ndarray) -> list[int]:
    cache = model.init_cache(1)
    logits = model(mx.array(prompt), cache)
    found = []
    for _ in range(GREEDY):
        token = mx.argmax(logits[:, -1:], axis=-1)
        found.append(token.item())
        logits = model(token, cache)
    return found


# --- xLSTMLarge --------------------------------------------------------------------------------

LARGE: dict[str, dict[str, Any]] = {
    "single": {},
    "fused": {"weight_mode": "fused"},
    "biases": {"use_bias": True},
    "fused biases": {"use_bias": True, "weight_mode": "fused"},
    "without norm": {"add_out_norm": False, "qk_dim_factor": 1.0, "v_dim_factor": 2.0},
}


@pytest.fixture(scope="module", params=LARGE)
def large(request, torch, xlstm) -> Theirs:
    from xlstm.xlstm_large.model import xLSTMLarge, xLSTMLargeConfig

    config = xLSTMLargeConfig(
        embedding_dim=64,
        num_heads=2,
        num_blocks=3,
        vocab_size=VOCABULARY,
        chunkwise_kernel="chunkwise--native_autograd",
        sequence_kernel="native_sequence__native",
        step_kernel="native",
        mode="inference",
        return_last_states=True,
        ffn_round_up_to_multiple_of=8,
        **LARGE[request.param],
    )
    model = drawn(torch, xLSTMLarge, config)
    values = {**dataclasses.asdict(config), "mode": "train", "return_last_states": False}
    return Theirs(model, values)


def test_logits_of_xlstm_large(torch, large, tokens, tmp_path, relative_error):
    model = large.ours(tmp_path)
    assert isinstance(model, xLSTM)
    with torch.no_grad():
        expected, _ = large.model(torch.tensor(tokens))
    actual = model(mx.array(tokens))
    assert relative_error(actual, expected.numpy()) < BAR
    assert np.abs(np.array(actual) - expected.numpy()).max() < LOGIT_BAR


def test_greedy_tokens_of_xlstm_large(torch, large, tokens, tmp_path):
    model, prompt = large.ours(tmp_path), tokens[:1, :5]
    with torch.no_grad():
        expected, _ = large.model.generate(torch.tensor(prompt), max_length=GREEDY)
    assert greedy(model, prompt) == expected[0].tolist()
