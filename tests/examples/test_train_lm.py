"""The language model: resumed and divided runs are the run itself, and it learns a text."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import mlx.core as mx
import numpy as np
import pytest
from click.testing import CliRunner, Result

from tests.examples.programs import LANGUAGE, ROOT, imported
from tests.examples.readme import blocks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LAUNCH = "from mlx._distributed_utils.launch import main; main()"
SHORT = {"blocks": "ms", "width": 16, "heads": 2, "steps": 6, "batch": 4, "length": 8}
FEW = [word for name, value in SHORT.items() for word in (f"--{name}", str(value))]
PAGE = (ROOT / "docs/training-language-models.md").read_text(encoding="utf-8")

example = imported(LANGUAGE)


@pytest.fixture(autouse=True)
def eager() -> Iterator[None]:
    """Without MLX's compiler, which takes longer than a short training."""
    mx.disable_compile()
    yield
    mx.enable_compile()


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A text whose next byte is easy to tell, but for the first of a line."""
    path = tmp_path / "text"
    words = np.random.default_rng(1).choice(["apple", "bread", "cheese"], 300)
    path.write_text("\n".join(words), encoding="utf-8")
    return path


def invoke(*arguments: object) -> Result:
    result = CliRunner().invoke(example.main, [*FEW, *map(str, arguments), "--sample", "3"])
    assert result.exit_code == 0, result.output
    return result


def options(**changes: object) -> object:
    settings = {"learning_rate": 0.01, "precision": "float32", "recompute": False, "seed": 0}
    return example.Options(**{**SHORT, **settings, "packed": False, **changes})


def trained(text: Path, **changes: object) -> object:
    training = example.Training(options(**changes), text.read_bytes(), mx.distributed.init())
    assert list(training.steps()) == list(range(1, training.options.steps + 1))
    return training


def loaded(path: Path) -> dict[str, np.ndarray]:
    return {name: np.array(array) for name, array in mx.load(str(path)).items()}


def same(one: np.ndarray, other: np.ndarray) -> bool:
    return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


def apart(one: dict[str, np.ndarray], other: dict[str, np.ndarray], prefix: str) -> float:
    """The distance of all arrays of a kind, relative to their norm."""
    names = sorted(name for name in one if name.startswith(prefix) and one[name].ndim)
    first, second = (
        np.concatenate([each[name].ravel() for name in names]) for each in (one, other)
    )
    return float(np.linalg.norm(first - second) / np.linalg.norm(first))


# --- checkpoints -------------------------------------------------------------------------------


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "more",
    [
        (),
        ("--precision", "bfloat16"),
        ("--recompute",),
        ("--packed",),
        ("--batch", "96"),  # an epoch has 2 steps: some end where checkpoints are, some elsewhere
    ],
    ids=" ".join,
)
def test_a_resumed_run_ends_with_the_same_bits(more, text, tmp_path) -> None:
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    common = ("--text", text, "--save-every", 3, *more)
    said = invoke(*common, "--checkpoints", whole).stdout
    names = [f"step-00000{step}.safetensors" for step in (3, 6)]
    assert sorted(path.name for path in whole.iterdir()) == names
    resumed.mkdir()
    (resumed / names[0]).write_bytes((whole / names[0]).read_bytes())
    again = invoke(*common, "--checkpoints", resumed, "--resume").stdout
    arrays, expected = (loaded(folder / names[1]) for folder in (resumed, whole))
    assert arrays.keys() == expected.keys()
    assert [name for name in expected if not same(arrays[name], expected[name])] == []
    timeless = re.compile(r"^\d+ s, .*$", re.MULTILINE)
    assert timeless.sub("", again) == timeless.sub("", said)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--seed", "1", "--steps", "7"), "has another steps, seed"),
        (("--text", ROOT / "LICENSE"), "has another text"),
    ],
)
def test_other_options_are_refused(more, message, text, tmp_path) -> None:
    invoke("--text", text, "--checkpoints", tmp_path, "--save-every", 6)
    arguments = [*FEW, "--text", str(text), "--checkpoints", str(tmp_path), "--resume"]
    result = CliRunner().invoke(example.main, [*arguments, *map(str, more)])
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--resume", "--checkpoints", "nowhere"), "there is no checkpoint in 'nowhere'"),
        (("--batch", "100000"), "--batch must divide by 1 and be at most"),
        (("--text", os.devnull), "a text of 0 bytes has no two windows"),
        (("--width", "18"), "--width must be a multiple of 2 * heads = 4"),
        (("--blocks", "mx"), "--blocks must be letters m and s"),
        (("--prompt", ""), "--prompt must not be empty"),
        (("--plot", "nowhere/curve.svg"), "--plot: there is no folder for nowhere/curve.svg"),
    ],
)
def test_mistakes_are_reported(arguments, message, monkeypatch) -> None:
    monkeypatch.chdir(ROOT)
    result = CliRunner().invoke(example.main, [*FEW, *arguments])
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


# --- several processes -------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.mark.sampled(0)
@pytest.mark.skipif(sys.platform == "win32", reason="MLX has no ring there")
def test_two_processes_train_as_one_does(text, tmp_path) -> None:
    alone, divided = tmp_path / "alone", tmp_path / "divided"
    single = invoke("--text", text, "--checkpoints", alone, "--save-every", 1)
    launcher = [sys.executable, "-c", LAUNCH, "-n", "2", "--python", sys.executable]
    settings = ["--starting-port", str(free_port()), "--env", "MLX_DISABLE_COMPILE=1"]
    files = ["--text", str(text), "--checkpoints", str(divided), "--save-every", "1"]
    launched = subprocess.run(
        [*launcher, *settings, str(ROOT / LANGUAGE), *FEW, *files],
        capture_output=True,
        cwd=ROOT,
        text=True,
        timeout=120,
        check=False,
    )
    assert launched.returncode == 0, launched.stderr
    assert "2 processes" in launched.stdout, launched.stdout + launched.stderr
    first, last = (
        [loaded(folder / f"step-00000{step}.safetensors") for folder in (alone, divided)]
        for step in (1, 6)
    )
    assert apart(*first, "losses") < 1e-6
    assert apart(*first, "optimizer") < 1e-5  # the gradient, and its square
    # Adam makes whole steps of gradients that are nothing but rounding errors.
    assert apart(*last, "losses") < 1e-5
    assert apart(*last, "weights") < 1e-2
    held_out = [re.findall(r"held out (\S+) bits", one.stdout) for one in (single, launched)]
    assert float(held_out[0][0]) == pytest.approx(float(held_out[1][0]), abs=1e-3)


# --- its parts ---------------------------------------------------------------------------------


@pytest.mark.sampled(0)
def test_it_learns(text) -> None:
    training = trained(text, steps=60, batch=16, width=32, blocks="m")
    first, last = (training.losses[at].item() for at in (0, -1))
    assert first > 5
    assert last < 1
    assert training.bits_per_byte() == pytest.approx(last / np.log(2), abs=0.5)
    model = training.use(training.weights)
    said = example.sample(model, b"apple\nbre", 2, training.key)
    assert said == b"ad"


def test_the_commands_of_the_page_are_understood() -> None:
    lines = [line for one in blocks(PAGE) for line in one.text.splitlines() if LANGUAGE in line]
    assert len(lines) > 3
    for line in lines:
        words = shlex.split(line)
        launcher = ["mlx.launch", "-n", "2"] if words[0] == "mlx.launch" else []
        assert words[: len(launcher) + 2] == [*launcher, "python", LANGUAGE]
        example.main.make_context(LANGUAGE, words[words.index(LANGUAGE) + 1 :])
