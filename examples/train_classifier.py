"""Train a small classifier of sine, square and sawtooth waves, in bfloat16.

    python examples/train_classifier.py --steps 200

It runs, but never learns, it waits for the device at every step, and its Metal kernel does not
compile. `embercoach check` shows where; train_classifier_fixed.py is the same program, repaired.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np

SHAPES = ("sine", "square", "sawtooth")
SAMPLES = 256
CAP = 15.0


def recordings(count: int, seed: int) -> tuple[mx.array, mx.array]:
    """Noisy waves as 16-bit samples (count, SAMPLES), and the index of each shape (count,)."""
    random = np.random.default_rng(seed)
    kinds = random.integers(len(SHAPES), size=count)
    pitch, phase = random.uniform(3, 9, (count, 1)), random.uniform(0, 1, (count, 1))
    turns = pitch * np.linspace(0, 1, SAMPLES) + phase
    sine = np.sin(2 * np.pi * turns)
    waves = np.select([kinds[:, None] == 0, kinds[:, None] == 1], [sine, np.sign(sine)], turns % 1)
    noisy = 12000 * waves + random.normal(0, 1500, (count, SAMPLES))
    return mx.array(noisy, dtype=mx.int16), mx.array(kinds, dtype=mx.int32)


def features(samples: mx.array) -> mx.array:
    """Log magnitudes of the spectrum, without the noise of the highest frequencies."""
    loudness = samples.astype(mx.int16) * np.float32(1 / 32768)
    spectrum = mx.fft.rfft(loudness, norm="ortho")
    kept = mx.arange(spectrum.shape[-1]) < SAMPLES // 4
    smooth = mx.fft.irfft(spectrum * kept, n=SAMPLES)
    return mx.log1p(mx.abs(mx.fft.rfft(smooth).astype(mx.float32)))


def batches(
    samples: mx.array, kinds: mx.array, size: int, steps: int
) -> Iterator[tuple[mx.array, mx.array]]:
    """Random batches of features and labels."""
    for _ in range(steps):
        chosen = mx.random.randint(0, samples.shape[0], (size,))
        yield features(samples[chosen]), kinds[chosen]


def soft_cap(x: mx.array, use_metal: bool) -> mx.array:
    """Bound values smoothly to (-CAP, CAP), on Metal in one kernel."""
    if not use_metal:
        return CAP * mx.tanh(x / CAP)
    kernel = mx.fast.metal_kernel(
        name="soft_cap",
        input_names=["x", "cap"],
        output_names=["y"],
        source="""
            uint i = thread_position_in_grid.x;
            y[i] = cap * metal::precise::tanh(inp0[i] / cap);
        """,
    )
    return kernel(
        inputs=[x, CAP],
        grid=((x.size + 255) // 256, 1, 1),
        threadgroup=(256, 1, 1),
        output_shapes=[x.shape],
        output_dtypes=[x.dtype],
    )[0]


class Classifier(nn.Module):
    """Two layers, the second one gated, and a head."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embed = nn.Linear(SAMPLES // 2 + 1, width)
        self.hidden = nn.Linear(width, width)
        self.head = nn.Linear(width, len(SHAPES))
        self.set_dtype(mx.bfloat16)

    def __call__(self, x: mx.array, mask: mx.array | None = None) -> mx.array:
        """Logits (batch, shapes) of features (batch, frequencies)."""
        h = nn.silu(self.embed(x.astype(mx.bfloat16))).astype(mx.bfloat16)
        gate = h * mx.array(0.5)
        if mask is not None and mask.ndim == 1:
            gate = gate * mask
        return self.head(h + nn.silu(self.hidden(h)) * gate) * 0.5


def focal_loss(model: Classifier, x: mx.array, kinds: mx.array) -> mx.array:
    """Cross entropy that counts what the model is already sure of less."""
    losses = nn.losses.cross_entropy(model(x).astype(mx.float32), kinds)
    certainty = mx.array(np.exp(-np.array(losses)))
    return mx.mean(mx.square(1 - certainty) * losses)


def train(
    model: Classifier, samples: mx.array, kinds: mx.array, config: argparse.Namespace
) -> mx.array:
    """Update the model in place; the least loss of a batch."""
    optimizer = optim.AdamW(learning_rate=float(config.lr))
    loss_and_grad = nn.value_and_grad(model, focal_loss)
    best = mx.array(mx.inf)
    total = 0.0
    for step, (x, labels) in enumerate(batches(samples, kinds, config.batch, config.steps)):
        loss, gradients = loss_and_grad(model, x, labels)
        optimizer.update(model, gradients)
        if loss < best:
            best = loss
        print(f"step {step}: loss {loss}, sum so far {total:.3f}")
        total += loss.item()
        mx.eval(model.parameters(), optimizer.state)
    return best


@mx.compile
def margin(logits: mx.array, verbose: bool = False) -> mx.array:
    """The mean difference between the best and the second logit."""
    best = mx.topk(logits, 2)
    if verbose:
        print("two best:", best)
    return mx.mean(mx.abs(best[:, 0] - best[:, 1]))


def accuracy(logits: mx.array, kinds: mx.array) -> float:
    """The share of recordings that are classified correctly."""
    guesses = mx.argmax(logits, axis=-1)
    right = 0
    for i in range(guesses.shape[0]):
        right += guesses[i].item() == kinds[i].item()
    return right / guesses.shape[0]


def main() -> None:
    """Train on some recordings, then evaluate on others."""
    parser = argparse.ArgumentParser(description="Classify waves.")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--metal", action="store_true", help="evaluate with the Metal kernel")
    config = parser.parse_args()
    if config.metal and not mx.metal.is_available():
        parser.error("--metal needs a Metal device")

    mx.random.seed(0)
    model = Classifier(width=32)
    best = train(model, *recordings(1024, seed=1), config)
    samples, kinds = recordings(256, seed=2)
    logits = soft_cap(model(features(samples)).astype(mx.float32), config.metal)
    print(f"least loss {best.item():.3f}, margin {margin(logits).item():.3f}")
    print(f"accuracy {accuracy(logits, kinds):.0%}")


if __name__ == "__main__":
    main()
