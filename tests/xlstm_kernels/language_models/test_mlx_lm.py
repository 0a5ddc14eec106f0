"""xLSTM in mlx-lm: its functions and commands on a small model of both kinds of blocks."""

from __future__ import annotations

import functools
import json
import shutil
import sys

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten

from tests.xlstm_kernels.language_models.conftest import drawn_model
from xlstm_kernels import mlx_lm as module
from xlstm_kernels.mlx_lm.__main__ import run

PROMPTS = ["To be", "a prompt that is longer than the others", "x"]
COUNT = 6
END = 256


@functools.cache
def continuation(prompt: tuple[int, ...]) -> list[int]:
    """Continue a prompt without a cache: each token from the whole sequence before it."""
    model, tokens = drawn_model(), list(prompt)
    for _ in range(COUNT):
        tokens.append(int(mx.argmax(model(mx.array([tokens]))[0, -1]).item()))
    return tokens[len(prompt) :]


def greedy(prompt: list[int]) -> list[int]:
    """Return the tokens after a prompt, none of them an end."""
    tokens = continuation(tuple(prompt))
    assert END not in tokens
    return tokens


# --- generation --------------------------------------------------------------------------------


@pytest.mark.parametrize(("prompt", "prefill"), [(PROMPTS[0], 1), (PROMPTS[1], 4), (PROMPTS[2], 4)])
def test_stream_generate(prompt, prefill, mlx_lm, loaded):
    model, tokenizer = loaded
    responses = mlx_lm.stream_generate(
        model, tokenizer, prompt, max_tokens=COUNT, prefill_step_size=prefill
    )
    expected = greedy(tokenizer.encode(prompt))
    assert [one.token for one in responses] == expected


@pytest.mark.exhaustive
@pytest.mark.parametrize("prompts", [PROMPTS[:1], PROMPTS], ids=len)
def test_steps_as_cuda_takes_them(prompts, mlx_lm, loaded, monkeypatch):
    """Compiled, for one sequence and for several that end at different places."""
    monkeypatch.setattr(module, "_launches_dominate", lambda: True)
    model, tokenizer = loaded
    tokens = [tokenizer.encode(prompt) for prompt in prompts]
    results = mlx_lm.batch_generate(model, tokenizer, tokens, max_tokens=COUNT)
    assert results.texts == [tokenizer.decode(greedy(one)) for one in tokens]


@pytest.mark.parametrize(
    "settings", [{"prefill_step_size": 7}, {"completion_batch_size": 2, "prefill_batch_size": 1}]
)
def test_batch_generate(settings, mlx_lm, loaded):
    """Prompts of several lengths, also when one joins others that are already under way."""
    model, tokenizer = loaded
    prompts = [tokenizer.encode(prompt) for prompt in PROMPTS]
    lengths = [COUNT, 2, 4]
    first = mlx_lm.batch_generate(
        model, tokenizer, prompts, max_tokens=lengths, return_prompt_caches=True, **settings
    )
    seen = []
    for text, prompt, length in zip(first.texts, prompts, lengths, strict=True):
        assert text == tokenizer.decode(greedy(prompt)[:length])
        seen.append([*prompt, *greedy(prompt)[:length]])
    following = tokenizer.encode("!")
    second = mlx_lm.batch_generate(
        model, tokenizer, [following] * 3, prompt_caches=first.caches, max_tokens=4, **settings
    )
    for text, tokens in zip(second.texts, seen, strict=True):
        assert text == tokenizer.decode(greedy([*tokens, *following])[:4])


def test_left_padding(mlx_lm, loaded):
    model, _ = loaded
    padding, tokens = [0, 3, 7], mx.array(np.random.default_rng(5).integers(256, size=(3, 9)))
    cache = model.make_cache()
    for entry in cache:
        entry.left_padding = mx.array(padding)
    logits = mx.concatenate([model(tokens[:, :4], cache), model(tokens[:, 4:], cache)], axis=1)
    for row, padded in enumerate(padding):
        alone = model(tokens[row : row + 1, padded:])
        assert mx.allclose(logits[row : row + 1, padded:], alone, atol=1e-4).item()


def test_a_prompt_computes_no_logits(mlx_lm):
    """Only the last step's are read: those of the prompt would be 400 MB."""
    model = drawn_model(vocab_size=100_000, hidden_size=32, num_hidden_layers=1, slstm_at=[])
    mx.eval(model.parameters())
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    next(mlx_lm.generate.__globals__["generate_step"](mx.zeros((1001,), mx.int32), model))
    assert mx.get_peak_memory() - before < 40e6


# --- caches ------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"conv1d_kernel_size": 0}, {"slstm_at": []}], ids="".join)
def test_prompt_caches_are_saved_and_loaded(settings, mlx_lm, tmp_path):
    from mlx_lm.models.cache import load_prompt_cache, make_prompt_cache, save_prompt_cache

    model, path = drawn_model(**settings), str(tmp_path / "cache.safetensors")
    cache = make_prompt_cache(model)
    prompt, following = mx.array([[1, 2, 3, 4, 5]]), mx.array([[6, 7]])
    model(prompt, cache)
    save_prompt_cache(path, cache)
    logits = model(following, cache)
    assert mx.array_equal(model(following, load_prompt_cache(path)), logits).item()
    whole = model(mx.concatenate([prompt, following], axis=1))
    assert mx.allclose(logits, whole[:, -2:], atol=1e-4).item()


def test_caches_are_batch_first(mlx_lm, loaded):
    """`ArraysCache` takes sequences out of a batch, and adds some."""
    model, _ = loaded
    tokens = mx.array(np.random.default_rng(6).integers(256, size=(5, 8)))
    expected = model(tokens)[:, -1]
    some, others = model.make_cache(), model.make_cache()
    model(tokens[:3, :-1], some)
    model(tokens[3:, :-1], others)
    assert {array.shape[0] for entry in some for array in entry.cache} == {3}
    for entry, other in zip(some, others, strict=True):
        entry.filter([2, 0])
        entry.extend(other)
    logits = model(mx.take(tokens, mx.array([2, 0, 3, 4]), axis=0)[:, -1:], some)
    assert mx.allclose(logits[:, -1], expected[mx.array([2, 0, 3, 4])], atol=1e-4).item()


# --- files -------------------------------------------------------------------------------------


def test_convert(mlx_lm, folder, tmp_path, relative_error, wide):
    """Quantization includes all layers of full width but the gates."""
    target = tmp_path / "quantized"
    mlx_lm.convert(str(folder), str(target), quantize=True, q_bits=8, q_group_size=32)
    weights = mx.load(str(target / "model.safetensors"))
    packed = {name.removesuffix(".scales") for name in weights if name.endswith(".scales")}
    linear = {
        name.removesuffix(".weight")
        for name, array in tree_flatten(drawn_model().parameters())
        if array.ndim > 1 and not name.endswith(("conv1d.weight", "recurrent_weight", ".bias"))
    }
    assert {name.rpartition(".")[2] for name in linear - packed} == {"igate_preact", "fgate_preact"}
    assert packed < linear
    model, _ = mlx_lm.load(str(target))
    tokens = mx.array([[3, 1, 4, 1, 5]])
    assert relative_error(model(tokens), wide(drawn_model()(tokens))) < 5e-2


def test_a_folder_that_names_its_model(mlx_lm, folder, tmp_path, monkeypatch):
    """`model_file` in config.json: mlx-lm loads it without `register()`."""
    copied = shutil.copytree(folder, tmp_path / "model")
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps({**config, "model_file": "xlstm.py"}))
    (copied / "xlstm.py").write_text("from xlstm_kernels.mlx_lm import Model, ModelArgs\n")
    monkeypatch.delitem(sys.modules, "mlx_lm.models.xlstm")
    model, _ = mlx_lm.load(str(copied), trust_remote_code=True)
    tokens = mx.array([[3, 1, 4]])
    assert mx.array_equal(model(tokens), drawn_model()(tokens)).item()


# --- commands ----------------------------------------------------------------------------------


def test_commands_without_mlx_lm(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "mlx_lm.cli", None)
    with pytest.raises(SystemExit) as stopped:
        run()
    assert stopped.value.code == 2
    assert "pip install 'embercoach[lm]'" in capsys.readouterr().err
