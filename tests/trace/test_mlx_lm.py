"""A trace of mlx-lm against the synchronizations that its source has, found by reading it.

Both programs run a Llama of two small layers with random weights.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("mlx_lm")
pytestmark = pytest.mark.exhaustive
MODEL = """\
import mlx.core as mx
from mlx_lm.models.llama import Model, ModelArgs

mx.random.seed(0)
model = Model(ModelArgs(
    model_type="llama", hidden_size=64, num_hidden_layers=2, intermediate_size=128,
    num_attention_heads=4, rms_norm_eps=1e-5, vocab_size=96, num_key_value_heads=2,
))
"""
GENERATE = f"""{MODEL}
from mlx_lm.generate import generate_step

print([token for token, _ in generate_step(mx.array([1, 2, 3, 4, 5]), model, max_tokens=8)])
"""
TRAIN = f"""{MODEL}
from mlx import optimizers
from mlx_lm.tuner.trainer import TrainingArgs, train
from mlx_lm.tuner.utils import linear_to_lora_layers

model.freeze()
linear_to_lora_layers(model, 2, {{"rank": 4, "scale": 2.0, "dropout": 0.0}})
data = [([7 * n % 96 for n in range(40)], 0)] * 4
train(
    model, optimizers.Adam(1e-3), data, data,
    TrainingArgs(batch_size=2, iters=6, val_batches=1, steps_per_report=2, steps_per_eval=3,
                 steps_per_save=3, max_seq_length=64, adapter_file="adapters.safetensors"),
)
"""
#: Of 5 tokens, 4 are prefilled in one call; each of 8 tokens is computed while the one before is
#: read. The first is waited for.
GENERATED = {
    "mx.eval([c.state for c in prompt_cache])": 1,
    "mx.async_eval(y, logprobs)": 1,
    "mx.async_eval(next_y, next_logprobs)": 8,
    "mx.eval(y)": 1,
    "yield y.item(), logprobs": 8,
}
#: 6 steps; reports after 2, 4 and 6; validation at 1, 3 and 6; adapters saved twice, to two files,
#: and at the end.
TRAINED = {
    "mx.eval(all_losses, ntokens)": 3,
    "avg_loss = (all_losses / ntokens).item()": 3,
    "mx.eval(state, losses, n_tokens, grad_accum)": 6,
    "train_loss = mx.distributed.all_sum(losses, stream=mx.cpu).item()": 3,
    "n_tokens = mx.distributed.all_sum(n_tokens, stream=mx.cpu).item()": 3,
    "learning_rate = optimizer.learning_rate.item()": 3,
    "mx.save_safetensors(str(args.adapter_file), adapter_weights)": 3,
    "mx.save_safetensors(str(checkpoint), adapter_weights)": 2,
}


@pytest.mark.parametrize(
    ("program", "expected"), [(GENERATE, GENERATED), (TRAIN, TRAINED)], ids=["generate", "lora"]
)
def test_every_synchronization_is_found_and_none_else(
    program: str, expected: dict[str, int], tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    command = [
        *(sys.executable, "-m", "embercoach", "trace", "--output-format", "json", "-o", "t.json"),
        *("--", "python", "program.py"),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    sites = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))["sites"]
    found: Counter[str] = Counter()
    for site in sites:
        if site["kind"] not in ("compile", "retrace"):
            assert "mlx_lm" in site["path"], site
            found[site["text"]] += site["count"]
    assert found == expected
