"""`python -m xlstm_kernels.generate`: its text, its figures, its errors."""

from __future__ import annotations

import dataclasses
import json
import re
import sys

import mlx.core as mx
import pytest
from mlx.utils import tree_map

from tests.xlstm_kernels.language_models.conftest import save_tokenizer
from xlstm_kernels import generate
from xlstm_kernels.nn import xLSTMLMModel, xLSTMLMModelConfig

FIGURES = re.compile(
    r"prompt: 5 tokens, [\de.+]+ tokens/s; text: \d+ tokens, [\de.+]+ tokens/s; "
    r"peak memory \d\.\d{3} GB\n"
)


@pytest.fixture
def run(mlx_lm, folder, capsys):
    """Run the command in this process; return what it prints."""

    def ran(*words: str) -> tuple[str, str]:
        assert generate.main(["--model", str(folder), "--prompt", "To be", *words]) == 0
        captured = capsys.readouterr()
        return captured.out, captured.err

    return ran


def test_text_and_figures(run, mlx_lm, loaded):
    text, figures = run("--max-tokens", "9")
    assert text == mlx_lm.generate(*loaded, "To be", max_tokens=9) + "\n"
    assert FIGURES.fullmatch(figures)


def test_a_seed_repeats_the_text(run):
    words = ("--max-tokens", "9", "--temp", "1.5", "--seed")
    first, _ = run(*words, "1")
    assert run(*words, "1")[0] == first
    assert run(*words, "2")[0] != first


@pytest.mark.parametrize(
    "words", [("--quantize", "8", "--group-size", "32"), ("--dtype", "bfloat16"), ("--chunk", "2")]
)
def test_options(words, run):
    text, figures = run("--max-tokens", "3", *words)
    assert len(text) > 1
    assert FIGURES.fullmatch(figures)


def test_the_model_of_the_paper(mlx_lm, tmp_path, capsys):
    """A checkpoint of `xLSTMLMModel`, whose configuration has no type that mlx-lm knows."""
    config = xLSTMLMModelConfig(vocab_size=257, embedding_dim=32, num_blocks=2, slstm_at=(1,))
    mx.random.seed(5)
    model = xLSTMLMModel(config)
    model.update(tree_map(lambda array: array + mx.random.normal(array.shape, scale=0.2), model))
    model.save_weights(str(tmp_path / "model.safetensors"))
    (tmp_path / "config.json").write_text(json.dumps(dataclasses.asdict(config)))
    save_tokenizer(tmp_path)
    words = ["--model", str(tmp_path), "--prompt", "To be", "--max-tokens", "6"]
    assert generate.main(words) == 0
    tokenizer = mlx_lm.utils.load_tokenizer(tmp_path)
    tokens = prompt = tokenizer.encode("To be")
    for _ in range(6):
        tokens = [*tokens, int(mx.argmax(model(mx.array([tokens]))[0, -1]).item())]
    assert capsys.readouterr().out == tokenizer.decode(tokens[len(prompt) :]) + "\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "FOLDER", "--prompt", ""], "--prompt must have at least one token"),
        (["--model", "/nowhere", "--prompt", "x"], "/nowhere: no such folder"),
        (["--model", "EMPTY", "--prompt", "x"], "EMPTY/config.json: no such file"),
        (["--prompt", "x"], "the following arguments are required: --model"),
        (
            ["--model", "FOLDER", "--prompt", "x", "--max-tokens", "0"],
            "argument --max-tokens: must be at least 1, got 0",
        ),
        (
            ["--model", "FOLDER", "--prompt", "x", "--temp", "-1"],
            "argument --temp: must be 0 or more, got -1",
        ),
        (
            ["--model", "FOLDER", "--prompt", "x", "--quantize", "7"],
            "argument --quantize: invalid choice: 7 (choose from 2, 3, 4, 5, 6, 8)",
        ),
    ],
)
def test_errors_are_one_line(words, message, mlx_lm, folder, tmp_path, capsys):
    places = {"FOLDER": str(folder), "EMPTY": str(tmp_path)}
    with pytest.raises(SystemExit) as stopped:
        generate.main([places.get(word, word) for word in words])
    assert stopped.value.code == 2
    assert capsys.readouterr().err == f"Error: {message.replace('EMPTY', str(tmp_path))}\n"


def test_a_token_that_the_model_lacks(mlx_lm, checkpoint, capsys):
    """MLX reads past the embeddings without an error."""
    folder = checkpoint(vocab_size=60)
    save_tokenizer(folder)
    with pytest.raises(SystemExit, match="2"):
        generate.main(["--model", str(folder), "--prompt", "To be"])
    message = f"Error: {folder}: token 220 of the tokenizer must be below vocab_size = 60\n"
    assert capsys.readouterr().err.endswith(message)


def test_a_folder_without_a_tokenizer(mlx_lm, checkpoint, capsys):
    with pytest.raises(SystemExit):
        generate.main(["--model", str(checkpoint()), "--prompt", "x"])
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("/model: no tokenizer files, such as tokenizer.json")


def test_a_tokenizer_that_cannot_be_read(mlx_lm, checkpoint, capsys):
    path = checkpoint()
    (path / "tokenizer.json").write_text("{}")
    with pytest.raises(SystemExit):
        generate.main(["--model", str(path), "--prompt", "x"])
    (line,) = capsys.readouterr().err.splitlines()
    assert re.match(r"Error: .*/model: no usable tokenizer: \S", line)


def test_without_mlx_lm(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "mlx_lm", None)
    with pytest.raises(SystemExit):
        generate.main(["--model", "x", "--prompt", "x"])
    assert "Error: mlx-lm is needed: pip install 'embercoach[lm]'" in capsys.readouterr().err
