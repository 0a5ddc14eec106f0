"""Pulls in loops: a sink where the host needs the value in the iteration, else a warning."""

from __future__ import annotations

import pytest

from tests.checks.findings import codes, findings

PULLS = ("GRAPH-BREAK-001", "GRAPH-BREAK-002", "GRAPH-BREAK-003", "HOST-PULL-001", "HOST-PULL-002")
DECODE = """
import numpy as np

def generate(model, prompt: mx.array, n, tokenizer, queue, ends, mask: mx.array):
    out = []
    total = 0
    token = prompt
    for i in range(n):
        token = mx.argmax(model(token[None]), axis=-1)
{}
    return out, total
"""
#: Statements of a loop that generates tokens, and the context of the last pull in them.
LOOPS = {
    "printed as text": ("t = token.item()\nprint(f'{t:.2f}', end='')", "sink"),
    "all done": ("if bool(mx.all(token == 7)): break", "sink"),
    "all done, a truth test": ("if mx.all(token == 7):\n    break", "sink"),
    "a row of tokens": ("ts = token.tolist()\nfor t in ts:\n    tokenizer.add_token(t)", "sink"),
    "a copy for another library": ("queue.put(np.array(token).astype(np.uint32))", "sink"),
    "after mx.eval": ("mx.eval(model.state)\ntotal += token.item()", "sink"),
    "collected from a row": ("for t in token.tolist():\n    out.append(t)", "loop"),
    "summed by an assignment": ("total = total + float(token.item())", "loop"),
    "a test of convergence": ("if mx.max(token).item() < 3: break", "loop"),
    "a test of convergence, truth": ("if mx.max(token) < 3:\n    break", "loop"),
    "a branch that computes": ("if mx.any(token):\n    token = token + mask", "loop"),
    "in the last iteration": ("if i > 8:\n    out = token.item()\n    break", "sink"),
    "in some iterations": (
        "if i > 8:\n    out += token.item()\n    if i < 9:\n        continue\n    break",
        "loop",
    ),
    "a whole array": ("out.append(np.array(token))", "sink"),
    "an element through a name": ("m = mask[i]\nprint(m.tolist())", "loop"),
    "read twice": ("queue.put(token.tolist())\nprint(token.tolist())", "evaluated"),
    "a copy read twice": ("queue.put(token[0].tolist())\nprint(token[0].tolist())", "loop"),
    "only the size": ("n = int(np.array(token).size)\nprint(n)", "loop"),
    "in a comprehension": ("print([t.item() for t in [token, mask]])", "loop"),
}


@pytest.mark.parametrize(("body", "expected"), LOOPS.values(), ids=LOOPS)
def test_a_pull_in_a_loop(body: str, expected: str) -> None:
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    assert findings(DECODE.format(lines), PULLS)[-1].context == expected


TRAIN = """
import mlx.optimizers as optim

def train(model, loss_fn, batches):
    opt = optim.SGD(0.1)
    step = nn.value_and_grad(model, loss_fn)
    state = [model.state, opt.state]
    for x in batches:
        loss, grads = step(model, x)
        {}
"""
UPDATE = "opt.update(model, grads)"
STEPS = {
    "the loss, before mx.eval": (f"print(loss.item()); {UPDATE}; mx.eval(state)", "loop"),
    "the loss, without mx.eval": (f"{UPDATE}; print(loss.item())", "loop"),
    "a gradient alone": ("print(loss.item())", "loop"),
    "the loss, after mx.eval": (f"{UPDATE}; mx.eval(state); print(loss.item())", "sink"),
    "the rate, after mx.eval of a list": (
        f"{UPDATE}; mx.eval(state); print(opt.learning_rate.item())",
        "evaluated",
    ),
    "the rate, after mx.eval of the state": (
        f"{UPDATE}; mx.eval(opt.state); print(opt.learning_rate.item())",
        "evaluated",
    ),
}


@pytest.mark.parametrize(("body", "expected"), STEPS.values(), ids=STEPS)
def test_a_pull_in_a_training_step(body: str, expected: str) -> None:
    assert findings(TRAIN.format(body), PULLS)[-1].context == expected


HOT = {
    "returned, and dropped": ("return x.sum().item()", "for x in xs:\n        f(x)", "loop"),
    "compared there": (
        "t = x.sum().item()\n    if t == 3:\n        out.clear()",
        "for x in xs:\n        f(x)",
        "sink",
    ),
    "fed back": ("return x * x.sum().item()", "for x in xs:\n        f(x)", "loop"),
    "returned, and then passed on by another function": (
        "return x.tolist()\ndef choose(x):\n    return rng.choices(f(x), k=2)",
        "for x in xs:\n        choose(x)",
        "sink",
    ),
    "returned, and then fed back by another function": (
        "return x.sum().item()\ndef scaled(x):\n    return x * f(x)",
        "for x in xs:\n        scaled(x)",
        "loop",
    ),
    "returned, and then dropped by another function": (
        "return x.tolist()\ndef dropped(x):\n    f(x)",
        "for x in xs:\n        dropped(x)",
        "loop",
    ),
    "evaluated by all callers": (
        "out.append(x.item())",
        "for x in xs:\n        y = x + 1\n        mx.eval(y)\n        f(y)",
        "evaluated",
    ),
    "evaluated by one caller": (
        "out.append(x.item())",
        "for x in xs:\n        y = x + 1\n        mx.eval(y)\n        f(y)\n        f(x)",
        "loop",
    ),
}


@pytest.mark.parametrize(("body", "caller", "expected"), HOT.values(), ids=HOT)
def test_a_pull_in_a_function_that_a_loop_calls(body: str, caller: str, expected: str) -> None:
    program = f"out = []\ndef f(x: mx.array):\n    {body}\ndef g(xs: list[mx.array]):\n    {caller}"
    assert findings(program, PULLS)[-1].context == expected


SEEDS = {
    "a prompt that the host appends to": (
        "ids = list(x.tolist())\n    while n:\n        ids.append(n)\n        n = f(mx.array(ids))",
        "sink",
    ),
    "numbers computed one by one": (
        "out = []\n    for v in x.tolist():\n        out.append(v * 2)\n    return mx.array(out)",
        "function",
    ),
}


@pytest.mark.parametrize(("body", "expected"), SEEDS.values(), ids=SEEDS)
def test_a_pull_into_a_list(body: str, expected: str) -> None:
    assert findings(f"def g(x: mx.array, n, f):\n    {body}", PULLS)[-1].context == expected


def test_the_help_says_what_to_do_instead() -> None:
    def help_of(body: str) -> str:
        lines = "\n".join(f"        {line}" for line in body.splitlines())
        return findings(DECODE.format(lines), PULLS)[-1].help

    assert "pass it on" in help_of("t = token.item()\ntoken = mx.array([[t]])")
    assert "together after the loop" in help_of("out.append(token.item())")
    assert "before the loop" in help_of("print(mask.sum().item())")
    assert "first read" in help_of("print(token[0].tolist())\nqueue.put(token[0].tolist())")
    assert "need no evaluation" in help_of("print(np.array(token).shape)")


@pytest.mark.parametrize(
    "body",
    [
        "out.append(t.item() if hasattr(t, 'item') else t)",
        "try:\n            n = int(t.item())\n        except Exception:\n            n = int(t)",
    ],
)
@pytest.mark.parametrize("module", ["generate", "utils"])
def test_mlx_lm_yields_python_ints(body: str, module: str) -> None:
    program = (
        f"from mlx_lm.{module} import generate_step\n"
        "def tokens(model, prompt: list[int]):\n    out = []\n"
        f"    for t, _ in generate_step(mx.array(prompt), model):\n        {body}\n"
    )
    assert codes(program, PULLS) == []


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("mx.zeros_like(x).any()", "sink"),
    ],
)
def test_a_truth_test_evaluates_what_it_depends_on(test: str, expected: str) -> None:
    program = (
        "import numpy as np\ndef f(x: mx.array, y):\n    x = x + 1\n"
        f"    if {test}:\n        return None\n    return np.array(x)"
    )
    assert findings(program, "HOST-PULL-002")[-1].context == expected
