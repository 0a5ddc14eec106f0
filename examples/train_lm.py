"""Train an xLSTM to predict the next byte of a text, on one device or several.

    python examples/train_lm.py --checkpoints run
    python examples/train_lm.py --checkpoints run --resume
    mlx.launch -n 2 python examples/train_lm.py

docs/training-language-models.md has the options, what they cost, and what a model learns.
"""

from __future__ import annotations

import importlib.util
import json
import math
import time
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import click
import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
from mlx.utils import tree_flatten, tree_map, tree_map_with_path
from rich.console import Console
from rich.progress import Progress
from xlstm_kernels.nn import xLSTM, xLSTMConfig

BYTES = 256
HELD_OUT = 20  # one window in so many is for the evaluation
MAX_NORM = 1.0  # of all gradients of a step
TEMPERATURE = 0.7  # of samples
BEGIN = b"\0"  # of a document, with `--packed`


@dataclass(frozen=True, slots=True)
class Options:
    """The options that the trained weights depend on."""

    blocks: str
    width: int
    heads: int
    steps: int
    batch: int
    length: int
    learning_rate: float
    precision: str
    recompute: bool
    packed: bool
    seed: int


def read(paths: tuple[Path, ...], *, packed: bool) -> bytes:
    """Return the bytes of files, or of Python's help topics, one after the other."""
    texts = [one.read_bytes() for one in paths] or [topics[n].encode() for n in sorted(topics)]
    return b"".join(BEGIN + text for text in texts) if packed else b"\n\n".join(texts)


def cut(text: bytes, length: int) -> mx.array:
    """Cut a text into windows (count, length + 1): the last byte of one begins the next."""
    count = (len(text) - 1) // length
    if count < 2:
        raise click.UsageError(f"a text of {len(text)} bytes has no two windows of {length} bytes")
    numbers = mx.array(list(text[: count * length + 1]), dtype=mx.uint8)
    return mx.as_strided(numbers, (count, length + 1), (length, 1))


def build(options: Options) -> xLSTM:
    """Build a model with a block for each letter: s for sLSTM, m for mLSTM."""
    config = xLSTMConfig(
        *(BYTES, options.width, len(options.blocks), options.heads),
        slstm_num_heads=options.heads,
        slstm_at=tuple(index for index, kind in enumerate(options.blocks) if kind == "s"),
        ffn_round_up_to_multiple_of=8,
    )
    model = xLSTM(config)
    model.backbone.recompute_blocks = options.recompute
    return model


def require_usable(options: Options, prompt: str, picture: Path | None) -> None:
    """Refuse, before the training, what would fail in it or after it."""
    least, no_plots = 2 * options.heads, importlib.util.find_spec("matplotlib") is None
    mistakes = (
        (set(options.blocks) - {*"ms"} or not options.blocks, "--blocks must be letters m and s"),
        (options.width % least, f"--width must be a multiple of 2 * heads = {least}"),
        (not prompt, "--prompt must not be empty"),
        (picture and not picture.parent.is_dir(), f"--plot: there is no folder for {picture}"),
        (picture and no_plots, '--plot needs matplotlib: python -m pip install ".[examples]"'),
    )
    if made := [message for is_made, message in mistakes if is_made]:
        raise click.UsageError(made[0])


class Training:
    """A model in training: float32 weights, the optimizer's state, and the losses so far."""

    def __init__(self, options: Options, text: bytes, group: mx.distributed.Group) -> None:
        mx.random.seed(options.seed)  # of the first weights
        self.key = mx.random.key(options.seed)  # of all that is drawn later
        self.options, self.group, windows = options, group, cut(text, options.length)
        self.windows = windows[mx.array([row for row in range(len(windows)) if row % HELD_OUT])]
        self.held_out, self.order = windows[::HELD_OUT], mx.array([])
        self.about = {**asdict(options), "text": zlib.crc32(text)}
        self.model = build(options)
        self.weights = self.model.trainable_parameters()
        peak, rise = options.learning_rate, math.ceil(options.steps / 20)
        rising = optim.linear_schedule(peak / 20, peak, rise)
        falling = optim.cosine_decay(peak, max(options.steps - rise, 1), peak / 20)
        self.optimizer = optim.AdamW(optim.join_schedules([rising, falling], [rise]))
        self.optimizer.init(self.weights)
        self.losses: list[mx.array] = []

    def use(self, weights: dict[str, Any]) -> xLSTM:
        """Return the model with these weights, its matrices in the precision of the options."""
        dtype = mx.bfloat16 if self.options.precision == "bfloat16" else mx.float32
        self.model.update(tree_map(lambda a: a.astype(dtype) if a.ndim > 1 else a, weights))
        return self.model

    def losses_of(self, model: xLSTM, windows: mx.array) -> mx.array:
        """Return the loss of each byte of windows but the first, in nats."""
        inputs, answers = windows[:, :-1], windows[:, 1:]
        begun = mx.cumsum(mx.logical_not(inputs).astype(mx.int32), axis=1)  # BEGIN is zero
        logits = model(inputs, seq_idx=begun if self.options.packed else None)
        return nn.losses.cross_entropy(logits, answers)

    def batch(self, step: int) -> mx.array:
        """Return this process's share of a batch. Each epoch takes all windows in a new order."""
        count, size = self.windows.shape[0], self.options.batch
        place = step % (count // size)
        if place == 0:
            self.key, key = mx.random.split(self.key)
            self.order = mx.random.permutation(count, key=key)
        rows = self.order[place * size : (place + 1) * size]
        return self.windows[rows[self.group.rank() :: self.group.size()]]

    def steps(self) -> Iterator[int]:
        """Update the weights; yield the number of steps done, while the last one runs."""

        def loss(weights: dict[str, Any], batch: mx.array) -> mx.array:
            return mx.mean(self.losses_of(self.use(weights), batch))

        def update(weights: dict[str, Any], batch: mx.array) -> tuple[mx.array, dict[str, Any]]:
            measured = mx.value_and_grad(loss)(weights, batch)
            # One by one: a loss that is kept would keep the gradients that are sent with it.
            mean, gradients = (nn.average_gradients(each, self.group) for each in measured)
            clipped, _ = optim.clip_grad_norm(gradients, MAX_NORM)
            return mean, self.optimizer.apply_gradients(clipped, weights)

        step = mx.compile(update, inputs=self.optimizer.state, outputs=self.optimizer.state)
        for number in range(len(self.losses), self.options.steps):
            mean, self.weights = step(self.weights, self.batch(number))
            mx.async_eval(mean, self.weights, self.optimizer.state)
            self.losses.append(mean)
            yield number + 1

    def bits_per_byte(self) -> float:
        """Evaluate the model on the windows that the training leaves out."""
        model, nats = self.use(self.weights), mx.array(0, dtype=mx.float32)
        share = self.held_out[self.group.rank() :: self.group.size()]
        for first in range(0, share.shape[0], self.options.batch):
            nats = nats + mx.sum(self.losses_of(model, share[first : first + self.options.batch]))
            mx.eval(nats)
        total = mx.distributed.all_sum(nats, group=self.group)
        count = self.held_out.shape[0] * self.options.length
        return total.item() / count / math.log(2)  # embercoach: ignore[GRAPH-BREAK-001] to print

    def save(self, folder: Path) -> None:
        """Write all that the next step depends on, in a file that is whole or not there."""
        tree = {"weights": self.weights, "optimizer": self.optimizer.state, "random": self.key}
        tree |= {"order": self.order, "losses": mx.stack(self.losses)}
        draft, about = folder / "draft.safetensors", {"about": json.dumps(self.about)}
        mx.save_safetensors(str(draft), dict(tree_flatten(tree)), about)
        draft.replace(folder / f"step-{len(self.losses):06}.safetensors")

    def load(self, folder: Path) -> None:
        """Continue from the newest checkpoint of a folder."""
        if not (paths := sorted(folder.glob("step-*.safetensors"))):
            raise click.UsageError(f"--resume: there is no checkpoint in {str(folder)!r}")
        arrays, metadata = mx.load(str(paths[-1]), return_metadata=True)
        about = json.loads(metadata["about"])
        if other := [name for name in self.about if self.about[name] != about.get(name)]:
            raise click.UsageError(f"--resume: {paths[-1]} has another {', '.join(other)}")
        # In the order of this tree, by which sums over all gradients round.
        held = {"weights": self.weights, "optimizer": self.optimizer.state}
        tree = tree_map_with_path(lambda name, _: arrays[name], held)
        self.weights, self.optimizer.state = tree.values()
        self.key, self.order, self.losses = arrays["random"], arrays["order"], [*arrays["losses"]]


def watch(training: Training, folder: Path | None, save_every: int, console: Console) -> None:
    """Run the steps with a progress bar, and write checkpoints."""
    steps, is_first = training.options.steps, training.group.rank() == 0
    with Progress(console=console, disable=not console.is_terminal) as bar:
        run = bar.add_task("compiling", total=steps)
        for done in training.steps():
            before = training.losses[max(done - 2, 0)]
            loss = before.item()  # embercoach: ignore[GRAPH-BREAK-001] the next step is running
            bar.update(run, completed=done, description=f"loss {loss:.4f}")
            if folder and is_first and (done % save_every == 0 or done == steps):
                training.save(folder)


def sample(model: xLSTM, prompt: bytes, count: int, key: mx.array) -> bytes:
    """Continue a prompt, which is not empty, by random bytes, in memory that does not grow."""
    token, cache, tokens = mx.array([list(prompt)]), model.init_cache(1), []
    for now in mx.random.split(key, count):
        logits = model(token, cache)
        sharpened = mx.divide(logits, mx.array(TEMPERATURE, dtype=logits.dtype))
        token = mx.random.categorical(sharpened[:, -1:], key=now)
        mx.async_eval(token, cache)
        tokens.append(token)
    said = mx.concatenate(tokens, axis=1)[0]
    return bytes(said.tolist())  # embercoach: ignore[HOST-PULL-001] for people to read


def plot(path: Path, losses: list[float]) -> None:
    """Write the loss by step as an SVG without the date."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "train_lm", "svg.fonttype": "none"}):
        figure = Figure(figsize=(6, 3.6), layout="constrained")
        axes = figure.subplots()
        axes.plot(range(1, len(losses) + 1), [loss / math.log(2) for loss in losses])
        axes.set(xlabel="step", ylabel="bits per byte", ylim=(0, None))
        figure.savefig(path, format="svg", metadata={"Date": None})


COUNT = click.IntRange(min=1)
TEXT = click.Path(exists=True, dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
PICTURE = click.Path(dir_okay=False, writable=True, path_type=Path)


@click.command(context_settings={"show_default": True})
@click.option("--text", type=TEXT, multiple=True, help="Train on this file, or on several.")
@click.option("--packed", is_flag=True, help="No file, or help topic, sees another one.")
@click.option("--blocks", default="ms", help="One letter each: m for mLSTM, s for sLSTM.")
@click.option("--width", type=COUNT, default=64, help="Of the residual stream.")
@click.option("--heads", type=COUNT, default=4, help="They share out the width.")
@click.option("--steps", type=COUNT, default=600, help="Updates of the weights.")
@click.option("--batch", type=COUNT, default=16, help="Windows a step, of all processes.")
@click.option("--length", type=COUNT, default=64, help="Bytes of a window.")
@click.option("--learning-rate", type=float, default=0.005, help="Its peak.")
@click.option("--precision", type=click.Choice(["float32", "bfloat16"]), default="float32")
@click.option("--recompute", is_flag=True, help="Save memory: mx.checkpoint in each block.")
@click.option("--seed", type=click.IntRange(0, 2**32), default=0)
@click.option("--checkpoints", "folder", type=FOLDER, help="Write checkpoints here.")
@click.option("--save-every", type=COUNT, default=100, help="Steps between checkpoints.")
@click.option("--resume", is_flag=True, help="Continue from the newest checkpoint.")
@click.option("--prompt", default="The ", help="Beginning of the sample.")
@click.option("--sample", "letters", type=COUNT, default=300, help="Bytes to sample.")
@click.option("--plot", "picture", type=PICTURE, help="Draw the loss: an SVG.")
def main(
    text: tuple[Path, ...],
    folder: Path | None,
    save_every: int,
    resume: bool,
    prompt: str,
    letters: int,
    picture: Path | None,
    **others: Any,
) -> None:
    """Train an xLSTM to predict the next byte of a text."""
    options = Options(**others)
    require_usable(options, prompt, picture)
    content = read(text, packed=options.packed)
    training = Training(options, content, group := mx.distributed.init())
    if options.batch > (count := len(training.windows)) or options.batch % group.size():
        raise click.UsageError(f"--batch must divide by {group.size()} and be at most {count}")
    if resume:
        training.load(folder or Path())
    elif folder:
        folder.mkdir(parents=True, exist_ok=True)
    before, start = len(training.losses), time.perf_counter()
    watch(training, folder, save_every, Console(stderr=True))
    seconds, bits = time.perf_counter() - start, training.bits_per_byte()
    if group.rank():
        return
    losses = mx.stack(training.losses).tolist()  # embercoach: ignore[HOST-PULL-001] is printed
    size = sum(array.size for _, array in tree_flatten(training.weights))
    speed = (options.steps - before) * options.batch * options.length / seconds
    click.echo(
        f"{size:,} parameters, {len(content):,} bytes, {group.size()} processes\n"
        f"loss {losses[0]:.4f} -> {losses[-1]:.4f}, held out {bits:.4f} bits per byte\n"
        f"{seconds:.0f} s, {speed:,.0f} bytes/s, {mx.get_peak_memory() / 2**20:,.0f} MB"
    )
    begin, model = BEGIN * options.packed, training.use(training.weights)
    said = sample(model, begin + prompt.encode(), letters, training.key)
    click.echo(prompt + said.decode(errors="replace"))
    if picture:
        plot(picture, losses)


if __name__ == "__main__":
    main()
