"""The language model: resumed and divided runs are the run itself, and it learns a text."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import socket
import subprocess
import sys
from pydoc_data.topics import topics
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import mlx.core as mx
import numpy as np
import pytest
from click.testing import CliRunner, Result
from mlx import nn
from mlx.utils import tree_flatten

from tests.examples.programs import LANGUAGE, ROOT, check, imported
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


def weights_of(training: object) -> np.ndarray:
    return np.concatenate([np.array(each).ravel() for _, each in tree_flatten(training.weights)])


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


def test_checkpoints_hold_float32_weights(text, tmp_path) -> None:
    invoke("--text", text, "--checkpoints", tmp_path, "--precision", "bfloat16")
    arrays = mx.load(str(tmp_path / "step-000006.safetensors"))
    assert {name.split(".")[0] for name in arrays} == {
        "weights",
        "optimizer",
        "random",
        "order",
        "losses",
    }
    assert all(a.dtype == mx.float32 for name, a in arrays.items() if name.startswith("weights"))


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
        (("--text", "nothing"), "'nothing' does not exist"),
        (("--text", os.devnull), "a text of 0 bytes has no two windows"),
        (("--precision", "float64"), "'float64' is not one of"),
        (("--text", "examples"), "'examples' is a directory"),
        (("--width", "18"), "--width must be a multiple of 2 * heads = 4"),
        (("--blocks", "mx"), "--blocks must be letters m and s"),
        (("--blocks", ""), "--blocks must be letters m and s"),
        (("--prompt", ""), "--prompt must not be empty"),
        (("--checkpoints", "LICENSE"), "'LICENSE' is a file"),
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


def test_windows_are_the_text(text) -> None:
    content = text.read_bytes()
    windows = example.cut(content, 8)
    assert windows.dtype == mx.uint8
    assert bytes(windows[:, :-1].reshape(-1).tolist()) == content[: windows.shape[0] * 8]
    assert bytes(windows[:, 1:].reshape(-1).tolist()) == content[1 : windows.shape[0] * 8 + 1]
    assert windows.shape[0] * 8 < len(content) <= (windows.shape[0] + 1) * 8 + 1


def test_an_epoch_takes_each_window_once(text) -> None:
    training = example.Training(options(batch=10), text.read_bytes(), mx.distributed.init())
    count, steps = training.windows.shape[0], training.windows.shape[0] // 10
    epochs = [
        [bytes(row) for step in range(steps) for row in training.batch(first + step).tolist()]
        for first in (0, steps)
    ]
    assert sorted(epochs[0])[:5] != epochs[0][:5] != epochs[1][:5]
    assert training.windows.shape[0] + training.held_out.shape[0] == -(-count * 20 // 19)
    rows = sorted(map(bytes, training.windows.tolist()))
    for drawn in epochs:
        left = list(rows)
        for row in drawn:
            left.remove(row)
        assert len(left) == count % 10


def test_the_default_text_ships_with_python() -> None:
    text = example.read((), packed=False).decode()
    assert len(text) > 100_000
    assert topics["if"] in text


def test_several_files_are_one_text_or_documents(tmp_path) -> None:
    paths = tuple(tmp_path / name for name in "ab")
    for path in paths:
        path.write_text(f"text {path.name}", encoding="utf-8")
    assert example.read(paths, packed=False) == b"text a\n\ntext b"
    assert example.read(paths, packed=True) == b"\0text a\0text b"


def test_packed_documents_do_not_see_each_other() -> None:
    """The losses of a window are those of its documents alone, and so are the gradients."""
    documents = [b"\0" + word for word in (b"apple", b"b", b"cheese", b"apple")]
    content = b"".join(documents)
    training = example.Training(options(packed=True, length=4), content, mx.distributed.init())
    model, window = training.use(training.weights), mx.array([list(content)])

    def of_window() -> mx.array:
        # The last document predicts the next one's first byte, which is zero.
        return mx.sum(training.losses_of(model, window))

    def of_documents() -> mx.array:
        followed = [mx.array([[*one, 0]]) for one in documents[:-1]]
        alone = [*followed, mx.array([list(documents[-1])])]
        return sum(mx.sum(training.losses_of(model, one)) for one in alone)

    (one, packed), (other, exact) = (
        nn.value_and_grad(model, each)() for each in (of_window, of_documents)
    )
    assert one.item() == pytest.approx(other.item(), rel=1e-6)
    for (name, gradient), (_, expected) in zip(
        tree_flatten(packed), tree_flatten(exact), strict=True
    ):
        assert mx.allclose(gradient, expected, rtol=1e-4, atol=1e-5).item(), name
    unpacked = example.Training(options(length=4), content, mx.distributed.init())
    seen = mx.sum(unpacked.losses_of(model, window))
    assert seen.item() != pytest.approx(other.item(), rel=1e-3)


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


def test_bfloat16_and_recomputing_change_little(text) -> None:
    exact = trained(text)
    rounded, recomputed = trained(text, precision="bfloat16"), trained(text, recompute=True)
    assert np.array_equal(weights_of(exact), weights_of(recomputed))
    assert not np.array_equal(weights_of(exact), weights_of(rounded))
    for one, other in zip(exact.losses, rounded.losses, strict=True):
        assert one.item() == pytest.approx(other.item(), rel=0.01)
    parameters = dict(tree_flatten(rounded.use(rounded.weights).parameters()))
    assert parameters["backbone.blocks.0.mlstm_layer.q.weight"].dtype == mx.bfloat16
    assert parameters["backbone.out_norm.weight"].dtype == mx.float32


def test_the_curve_is_drawn(text, tmp_path) -> None:
    picture = tmp_path / "curve.svg"
    invoke("--text", text, "--plot", picture)
    root = ET.parse(picture).getroot()
    texts = {"".join(one.itertext()).strip() for one in root.iter() if one.tag.endswith("text")}
    assert texts >= {"step", "bits per byte"}


def test_a_picture_without_matplotlib(text, tmp_path, monkeypatch) -> None:
    """Refused before the training, not after it."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    arguments = ["--text", str(text), "--plot", str(tmp_path / "curve.svg")]
    result = CliRunner().invoke(example.main, arguments)
    assert result.exit_code == 2
    assert "--plot needs matplotlib" in result.output


@pytest.mark.sampled(0)
@pytest.mark.parametrize("profile", ["recommended", "ember"])
def test_nothing_in_it_is_found(profile: str) -> None:
    """But for numbers that people read, each with its reason."""
    result = check("--profile", profile, LANGUAGE)
    assert result.returncode == 0, result.stdout
    source = (ROOT / LANGUAGE).read_text(encoding="utf-8")
    reasons = re.findall(r"# embercoach: ignore\[[A-Z-]+001\] (.+)$", source, re.MULTILINE)
    assert len(reasons) == source.count("embercoach: ignore") == 4
    assert len(source.splitlines()) <= 300


def test_the_commands_of_the_page_are_understood() -> None:
    lines = [line for one in blocks(PAGE) for line in one.text.splitlines() if LANGUAGE in line]
    assert len(lines) > 3
    for line in lines:
        words = shlex.split(line)
        launcher = ["mlx.launch", "-n", "2"] if words[0] == "mlx.launch" else []
        assert words[: len(launcher) + 2] == [*launcher, "python", LANGUAGE]
        example.main.make_context(LANGUAGE, words[words.index(LANGUAGE) + 1 :])
