"""API-030, and API-002 of models that mlx-lm loads."""

from __future__ import annotations

import pytest

from tests.checks.findings import codes

START = """
from mlx_lm import load, stream_generate
from mlx_lm.sample_utils import make_logits_processors
from mlx_lm.utils import generate_step

"""
LOADED = START + 'model, tokenizer = load("m")\n'


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ("logits, cache = model(x)", ["API-030"]),
        ("def f(x, c):\n    logits, _ = model(x, c)", ["API-030"]),
        ("def f(model, x):\n    logits, cache = model(x)", []),
        ("def f(x):\n    first, second = model(x)", []),
        ("model = other(model)\nlogits, cache = model(x)", []),
        ('model, tokenizer = load("n")\nlogits, cache = model(x)', ["API-030"]),
        ("model.model.layers[0].register_forward_hook(f)", ["API-002"]),
        ("model.layers[0](x)\nmodel.eval()", []),
    ],
)
def test_models_that_are_loaded(lines: str, found: list[str]) -> None:
    assert codes(LOADED + lines, "API-0") == found


def test_models_of_an_attribute() -> None:
    body = """
class Runner:
    def __init__(self, path):
        self.model, self.tokenizer = load(path)
        {more}

    def step(self, x, cache):
        logits, cache = self.model(x, cache)
        return logits
"""
    assert codes(START + body.format(more="pass"), "API-030") == ["API-030"]
    assert codes(START + body.format(more="self.model = wrap(self.model)"), "API-030") == []


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ("for part in stream_generate(m, t, p):\n    print(part)", 1),
        ("for part in stream_generate(m, t, p):\n    text = text + part", 1),
        ("for part in stream_generate(m, t, p):\n    part = part.text\n    print(part)", 0),
        ("for part in stream_generate(m, t, p):\n    parts.append(part)", 0),
        ("for (token, _), n in zip(generate_step(p, m), range(9)):\n    token.item()", 1),
        ("for token, logprobs in generate_step(p, m):\n    logprobs.item()", 0),
        ("for token in other(p, m):\n    token.item()", 0),
        ("p = make_logits_processors()\nif p is not None:\n    p(x)", 1),
        ("p = make_logits_processors()\nfor one in p:\n    one(x, y)", 0),
    ],
)
def test_results(lines: str, found: int) -> None:
    assert codes(START + lines, "API-030") == ["API-030"] * found


def test_a_handler_of_other_releases() -> None:
    call = "    for _ in stream_generate(m, t, p, temp=0.5):\n        pass\n"
    assert codes(f"{START}try:\n{call}except TypeError:\n    pass", "API-030") == []
    assert codes(f"{START}try:\n{call}except OSError:\n    pass", "API-030") == ["API-030"]
