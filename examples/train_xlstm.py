"""Train a small xLSTM to track a state on short sequences, and test it on longer ones.

    python examples/train_xlstm.py
    python examples/train_xlstm.py --task cups --blocks ms --plot curve.svg

After each token the model predicts the state that the tokens so far lead to: whether the number of
ones is odd (`parity`), or which of three cups the pea is under (`cups`). This needs a memory whose
next state depends on the last one, as in the sLSTM with its recurrent weights. An mLSTM only sums
what it reads: its blocks (`--blocks m`) guess on sequences that are longer than the training's.

It takes less than a minute on two cores; the first run also compiles. On a Mac the kernels run on
Metal. `--plot` needs matplotlib: `python -m pip install ".[examples]"`.
"""

from __future__ import annotations

import importlib.util
import math
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
from mlx.utils import tree_flatten
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from xlstm_kernels.nn import xLSTM, xLSTMConfig

LONGER = (4, 16)  # lengths of the tests, in lengths of the training
TESTS = 256  # sequences
MAX_NORM = 1.0  # of all gradients of a step


@dataclass(frozen=True, slots=True)
class Task:
    """A map from token ids (B, S), 0 to `states` - 1, to the state after each token."""

    name: str
    states: int
    track: Callable[[mx.array], mx.array]

    @property
    def chance(self) -> float:
        """The accuracy of guessing."""
        return 1 / self.states


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the command line."""

    task: Task
    blocks: str
    steps: int
    batch: int
    length: int
    width: int
    heads: int
    learning_rate: float
    seed: int
    picture: Path | None


@dataclass(frozen=True, slots=True)
class Training:
    """The loss and the accuracy of each step, and the seconds of all steps."""

    losses: tuple[float, ...]
    accuracies: tuple[float, ...]
    seconds: float


# --- the tasks ---------------------------------------------------------------------------------


def parity(bits: mx.array) -> mx.array:
    """Return 1 after each token if the number of ones so far is odd, else 0."""
    return mx.remainder(mx.cumsum(bits, axis=1), mx.array(2))


def cups(swaps: mx.array) -> mx.array:
    """Return the cup that the pea is under; it starts under the first of three.

    The token t swaps cup t with the next one, the last with the first. The pea goes from
    p to 2t + 1 - p modulo 3: the sum of the 2t + 1 with alternating signs says where it is.
    """
    turn = mx.arange(swaps.shape[1])
    sign = mx.where(mx.remainder(turn, mx.array(2)) == mx.array(0), mx.array(1), mx.array(-1))
    mirrors = swaps + swaps + mx.array(1)
    return mx.remainder(sign * mx.cumsum(sign * mirrors, axis=1), mx.array(3))


TASKS = {one.name: one for one in (Task("parity", 2, parity), Task("cups", 3, cups))}


def draw(task: Task, count: int, length: int) -> tuple[mx.array, mx.array]:
    """Draw random sequences and their correct answers, (count, length) each."""
    tokens = mx.random.randint(0, task.states, (count, length))
    return tokens, task.track(tokens)


# --- the model ---------------------------------------------------------------------------------


def build(options: Options) -> xLSTM:
    """Build a model with a block for each letter: s for sLSTM, m for mLSTM."""
    return xLSTM(
        xLSTMConfig(
            vocab_size=options.task.states,
            hidden_size=options.width,
            num_hidden_layers=len(options.blocks),
            num_heads=options.heads,
            slstm_num_heads=options.heads,
            slstm_at=tuple(index for index, kind in enumerate(options.blocks) if kind == "s"),
            ffn_round_up_to_multiple_of=8,
        )
    )


def correct(logits: mx.array, answers: mx.array) -> mx.array:
    """Return ones for correct answers and zeros for others, (B, S)."""
    return (mx.argmax(logits, axis=-1) == answers).astype(mx.float32)


def loss_and_accuracy(
    model: xLSTM, tokens: mx.array, answers: mx.array
) -> tuple[mx.array, mx.array]:
    logits = model(tokens)
    return mx.mean(nn.losses.cross_entropy(logits, answers)), mx.mean(correct(logits, answers))


# --- training ----------------------------------------------------------------------------------


def schedule(peak: float, steps: int) -> Callable[[mx.array], mx.array]:
    """Rise to the peak in 1/20 of the steps, then fall along half a cosine to 1/20 of the peak."""
    rise = math.ceil(steps / 20)
    fall = optim.cosine_decay(peak, max(steps - rise, 1), peak / 20)
    return optim.join_schedules([optim.linear_schedule(peak / 20, peak, rise), fall], [rise])


def train(model: xLSTM, options: Options) -> Iterator[list[float]]:
    """Update the model in place, and yield the loss and the accuracy of each step.

    They are read while the next step runs, so that the GPU does not wait.
    """
    shape = options.task, options.batch, options.length
    optimizer = optim.AdamW(learning_rate=schedule(options.learning_rate, options.steps))
    gradients_of = nn.value_and_grad(model, loss_and_accuracy)
    state = [model.state, optimizer.state]

    def update(tokens: mx.array, answers: mx.array) -> mx.array:
        measured, gradients = gradients_of(model, tokens, answers)
        clipped, _ = optim.clip_grad_norm(gradients, MAX_NORM)
        optimizer.update(model, clipped)
        return mx.stack(measured)

    step = mx.compile(update, inputs=state, outputs=state)
    measured = step(*draw(*shape))
    mx.async_eval(measured, state)
    for _ in range(options.steps - 1):
        following = step(*draw(*shape))
        mx.async_eval(following, state)
        yield measured.tolist()  # embercoach: ignore[HOST-PULL-001] the next step is running
        measured = following
    mx.eval(measured, state)
    yield measured.tolist()  # embercoach: ignore[HOST-PULL-001] there is no next step


def watch(measured_steps: Iterator[list[float]], steps: int, console: Console) -> Training:
    """Run the steps, with a progress bar on a terminal."""
    start, measured = time.perf_counter(), []
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    about = TextColumn("{task.fields[about]}")
    with Progress(*columns, about, console=console, disable=not console.is_terminal) as bar:
        run = bar.add_task("training", total=steps, about="compiling")
        for loss, accuracy in measured_steps:
            measured.append((loss, accuracy))
            bar.update(run, advance=1, about=f"loss {loss:.4f}, {accuracy:.1%} correct")
    losses, accuracies = zip(*measured, strict=True)
    return Training(losses, accuracies, time.perf_counter() - start)


def accuracy_by_position(model: xLSTM, task: Task, length: int) -> mx.array:
    """Return the accuracy after each token of unseen sequences, (length,)."""
    tokens, answers = draw(task, TESTS, length)
    return mx.mean(correct(model(tokens), answers), axis=0)


def stretches(length: int) -> list[tuple[int, int]]:
    """Return the positions (first, end) of the training, and those that the tests add."""
    ends = [length, *(length * times for times in LONGER)]
    return list(zip([0, *ends], ends, strict=False))


# --- output ------------------------------------------------------------------------------------


def table(options: Options, accuracies: list[float]) -> Table:
    shown = Table("tokens read", "", "correct answers")
    for first, end in stretches(options.length):
        share = sum(accuracies[first:end]) / (end - first)
        kind = "longer than any in training" if first else "as long as in training"
        shown.add_row(f"{first + 1} to {end}", kind, f"{share:.2%}")
    shown.add_row("", "guessing", f"{options.task.chance:.2%}")
    return shown


def plot(path: Path, options: Options, training: Training, accuracies: list[float]) -> None:
    """Write the loss by step, and the accuracy by position, as an SVG without the date."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "train_xlstm", "svg.fonttype": "none"}):
        figure = Figure(figsize=(9, 3.6), layout="constrained")
        figure.suptitle(f"{options.task.name}, blocks: {options.blocks}")
        learning, lasting = figure.subplots(1, 2)
        learning.semilogy(range(1, len(training.losses) + 1), training.losses)
        learning.axhline(
            -math.log(options.task.chance), color="gray", linestyle="--", label="guessing"
        )
        learning.set(xlabel="step", ylabel="loss (cross entropy)")
        learning.legend()
        lasting.plot(range(1, len(accuracies) + 1), accuracies)
        lasting.axvspan(1, options.length, color="tab:green", alpha=0.2, label="trained on")
        lasting.axhline(options.task.chance, color="gray", linestyle="--", label="guessing")
        lasting.set(xlabel="tokens read", ylabel="correct answers", ylim=(0, 1.05))
        lasting.set_xscale("log", base=2)
        lasting.xaxis.set_major_formatter("{x:.0f}")
        lasting.legend(loc="lower left")
        figure.savefig(path, format="svg", metadata={"Date": None})


# --- options -----------------------------------------------------------------------------------


def picture_path(
    _context: click.Context, _option: click.Parameter, path: Path | None
) -> Path | None:
    """Reject a path that would fail after the training."""
    if path is None:
        return None
    if path.suffix != ".svg":
        raise click.BadParameter(
            f"the picture is an SVG: its name must end in .svg, not {path.name!r}"
        )
    if not path.parent.is_dir():
        raise click.BadParameter(f"there is no folder {str(path.parent)!r}")
    if importlib.util.find_spec("matplotlib") is None:
        raise click.UsageError('--plot needs matplotlib: python -m pip install ".[examples]"')
    return path


def block_letters(_context: click.Context, _option: click.Parameter, blocks: str) -> str:
    if not re.fullmatch("[ms]+", blocks):
        raise click.BadParameter(f"one letter a block, m for mLSTM or s for sLSTM, not {blocks!r}")
    return blocks


COUNT = click.IntRange(min=1)


@click.command(context_settings={"show_default": True})
@click.option("--task", type=click.Choice(list(TASKS)), default="parity")
@click.option("--blocks", default="s", callback=block_letters, help="One letter each: s or m.")
@click.option("--steps", type=COUNT, default=200, help="Updates of the weights.")
@click.option("--batch", type=COUNT, default=64, help="Sequences a step.")
@click.option("--length", type=COUNT, default=16, help="Tokens of each, in training.")
@click.option("--width", type=COUNT, default=32, help="Of the residual stream.")
@click.option("--heads", type=COUNT, default=1, help="They share out the width.")
@click.option(
    "--learning-rate", type=click.FloatRange(min=0, min_open=True), default=0.005, help="Its peak."
)
@click.option("--seed", type=click.IntRange(0, 2**64 - 1), default=0)
@click.option(
    "--plot",
    "picture",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    callback=picture_path,
    help="Draw loss and accuracy into this SVG file.",
)
def main(task: str, **others: Any) -> None:
    """Train a small xLSTM to track a state, and test it on longer sequences."""
    options = Options(task=TASKS[task], **others)
    if options.width % (2 * options.heads):
        raise click.UsageError(
            f"--width must be a multiple of 2 * heads = {2 * options.heads}, as queries are half "
            f"as wide, got {options.width}"
        )
    mx.random.seed(options.seed)
    model = build(options)

    size = sum(array.size for _, array in tree_flatten(model.parameters()))
    click.echo(
        f"{task}, blocks: {options.blocks}, {size:,} parameters; "
        f"{options.steps} steps of {options.batch} sequences of {options.length} tokens"
    )
    training = watch(train(model, options), options.steps, Console(stderr=True))
    click.echo(
        f"loss {training.losses[0]:.4f} -> {training.losses[-1]:.4f}, "
        f"by guessing {-math.log(options.task.chance):.4f}; {training.seconds:.0f} s"
    )

    shares = accuracy_by_position(model, options.task, stretches(options.length)[-1][1])
    accuracies = shares.tolist()  # embercoach: ignore[HOST-PULL-001] for people to read
    Console().print(table(options, accuracies))
    if options.picture:
        plot(options.picture, options, training, accuracies)
        click.echo(f"wrote {options.picture}")


if __name__ == "__main__":
    main()
