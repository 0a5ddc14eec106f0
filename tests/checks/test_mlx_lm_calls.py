"""API-030, and API-002 of models that mlx-lm loads."""

from __future__ import annotations

import pytest

from tests.checks.findings import codes

START = """
from mlx_lm import load, stream_generate
from mlx_lm.sample_utils import make_logits_processors
from mlx_lm.generate import generate_step

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


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ("from mlx_lm.utils import make_kv_caches, load_model", 1),
        ("import mlx_lm.utils\nmlx_lm.utils.generate(1)", 1),
        ("from mlx_lm.models import cache\ncache.MambaCache", 1),
        ("try:\n    from mlx_lm.models.cache import MambaCache\nexcept ImportError:\n    pass", 0),
        ("from mlx_lm.models.cache import KVCache", 0),
        ("import mlx_LM", 1),
        ("from MLX_VLM.utils import load", 1),
        ("from .MLX import load\nimport mlxtend, MLXserver", 0),
        ("try:\n    import MLX\nexcept ImportError:\n    MLX = None", 0),
    ],
)
def test_names_that_are_imported(lines: str, found: int) -> None:
    assert codes(lines, "API-030") == ["API-030"] * found


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ("cache.ArraysCache(*sizes)", 0),
        ("cache.ArraysCache(left_padding=[1])", 1),
        ("cache.ArraysCache(size=2)\ncache.ArraysCache(2)", 0),
        ("cache.BatchRotatingKVCache(8)", 1),
        ("class C(cache.ArraysCache):\n    def __init__(self):\n        super().__init__()", 1),
        ("class C(cache.ArraysCache, M):\n    def __init__(self):\n        super().__init__()", 0),
        ("class C(cache.ArraysCache):\n    pass\nC()", 0),
    ],
)
def test_caches_that_are_made(lines: str, found: int) -> None:
    assert codes(f"from mlx_lm.models import cache\n{lines}", "API-030") == ["API-030"] * found


@pytest.mark.parametrize(
    ("start", "found"),
    [
        ("import mlx.optimizers as optim", ["API-002"]),
        ("import mlx.optimizers as optim\nimport torch", []),
        ("import mlx.optimizers as optim\nclass O:\n    def zero_grad(self):\n        pass", []),
    ],
)
def test_members_of_unknown_optimizers(start: str, found: list[str]) -> None:
    assert codes(f"{start}\ndef f(optimizer):\n    optimizer.zero_grad()", "API-002") == found


@pytest.mark.parametrize("name", ["cache.KVCache", "mlx_lm.models.cache.KVCache"])
def test_arguments_of_a_cache_of_a_module(name: str) -> None:
    start = "import mlx_lm\nfrom mlx_lm.models import cache\n"
    assert codes(f"{start}{name}(8)\n{name}()", ("API", "CACHE")) == ["CACHE-004"]
