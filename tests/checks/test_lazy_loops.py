"""LAZY: which loops are flagged, and which are not."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from tests.checks.findings import codes, findings

START = """
def loss_fn(model, x):
    return mx.mean(mx.square(model(x)))


def work(model, optimizer, batches, log, n):
    step = nn.value_and_grad(model, loss_fn)
    total, losses = mx.array(0.0), []
"""
STEP = "loss, gradients = step(model, x)\noptimizer.update(model, gradients)\n"
EVAL = "mx.eval(model.parameters(), optimizer.state)\n"


def training(body: str, *, after: str = "", over: str = "for x in batches:") -> list[str]:
    """The codes of LAZY for a loop over batches, and statements after it.

    LAZY-006 is left out: most of these loops do not evaluate the optimizer's state.
    """
    loop = over + "\n" + indent(dedent(body).strip(), "    ")
    source = START + indent(loop + "\n" + after, "    ")
    return [code for code in codes(source, "LAZY") if code != "LAZY-006"]


@pytest.mark.parametrize(
    "body",
    [
        STEP + EVAL + "total += loss.item()",
        "def show():\n    log(total)\n" + STEP + EVAL + "total += loss",
        STEP + EVAL + "total += loss\nlog(total)",
        STEP + EVAL + "total += loss\nlog(f'{total}')",
        STEP + EVAL + "losses.append(loss)\nif len(losses) > 9:\n    log(losses)",
    ],
)
def test_an_accumulator_that_may_be_evaluated_is_not_flagged(body: str) -> None:
    assert training(body) == []


@pytest.mark.parametrize(
    ("body", "over", "flagged"),
    [
        (STEP, "for x in batches:", True),
        (STEP, "for x in range(100):", True),
        (STEP, "for x in range(4):", False),
        (STEP, "for x in (n, log):", False),
        (STEP + "print(loss)", "for x in batches:", False),
        (STEP + "log(model)", "for x in batches:", False),
        (STEP + "if x % 10 == 0:\n    log(loss.item())", "for x in range(n):", False),
        (STEP + "yield x", "for x in batches:", False),
    ],
)
def test_a_training_loop_evaluates(body: str, over: str, flagged: bool) -> None:
    assert training(body, over=over) == ["LAZY-002"] * flagged


def test_the_remedy_names_the_programs_model_and_optimizer() -> None:
    for statement in ("opt.update(net, grads)", "net.update(opt.apply_gradients(grads, net))"):
        head = START.replace("model, optimizer", "net").replace("(model, loss", "(net, loss")
        source = (
            f"import mlx.optimizers as optim\n{head}    opt = optim.Adam(1e-3)\n"
            f"    for x in batches:\n        loss, grads = step(net, x)\n        {statement}\n"
        )
        (found,) = findings(source, "LAZY-002")
        assert "`mx.eval(net.parameters(), opt.state)`" in (found.help or "")


@pytest.mark.parametrize(
    ("body", "remedy"),
    [
        (STEP + EVAL + "total += loss", "Add `total` to the arguments of the loop's `mx.eval()`"),
        (
            "part = nn.losses.mse_loss(model(x), x)\ntotal += part * x.sum()",
            "Call `mx.eval(total)` in each iteration",
        ),
    ],
)
def test_a_help_names_an_evaluation_where_there_is_one(body: str, remedy: str) -> None:
    loop = "for x in batches:\n" + indent(body, "    ") + "\nmx.eval(total)\n"
    source = START + indent(loop, "    ")
    assert remedy in [found.help for found in findings(source, "LAZY-001")]


def test_a_forward_pass_in_parts_is_not_flagged() -> None:
    program = """
class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3)

    def __call__(self, x, cache, index):
        cache[index[0]] = x[:, -2:]
        index[0] += 1
        return self.conv(x)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Part()

    def decode(self, z: mx.array):
        cache, index, outs = [None] * 4, [0], []
        for i in range(z.shape[1]):
            index[0] = 0
            outs.append(self.part(z[:, i : i + 1], cache, index))
        return mx.concatenate(outs, axis=1)
"""
    assert codes(program, "LAZY") == []


def test_a_chunk_of_an_outer_loop_is_evaluated_as_a_whole() -> None:
    program = """
def chunks(fn, batches):
    for batch in batches:
        total = mx.array(0.0)
        for x in batch:
            loss, gradient = mx.value_and_grad(fn)(x)
            total = total + loss
        {}
"""
    assert codes(program.format("mx.eval(total)"), "LAZY-001") == []
    assert codes(program.format("mx.eval(loss)"), "LAZY-001") == ["LAZY-001"]


def test_a_variable_that_stands_for_itself_ends_the_search() -> None:
    body = (
        "part = x[1:]\npart = part[:, 1:] if n else part[1:]\n"
        "part = mx.contiguous(part)\nmx.eval(part)\nlosses.append(part)"
    )
    assert training(body) == []


def test_an_update_of_an_unknown_optimizer_by_keywords() -> None:
    program = """
def loss_fn(model, x):
    return mx.mean(model(x))

def train(model: nn.Module, optimizer, batches: list[mx.array]):
    step = nn.value_and_grad(model, loss_fn)
    for batch in batches:
        loss, gradients = step(model, batch)
        optimizer.update(model=model, gradients=gradients)
"""
    assert codes(program, "LAZY-002") == ["LAZY-002"]
    assert not codes(program + "        mx.eval(loss)\n", "LAZY-002")
