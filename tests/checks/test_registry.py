"""Which checks see a call: those that want its function, its method, or any call."""

from __future__ import annotations

from pathlib import Path

import pytest

import embercoach.checks  # noqa: F401  (registers the checks)
from embercoach.analysis import mlx_api
from embercoach.analysis.facts.facts import CallFact
from embercoach.analysis.project.driver import analyse_module
from embercoach.analysis.project.project import Project
from embercoach.checks.registry import CHECKS, FACTS, check, checks_of


def last_call(source: str) -> CallFact:
    """The last recorded call of a program."""
    head = "import math\nimport numpy as np\nimport mlx.core as mx\nimport mlx.nn as nn\n"
    module = Project().open(Path("/nowhere/a.py"), f"{head}x = mx.ones(2)\n{source}")
    return [fact for fact in analyse_module(module) if isinstance(fact, CallFact)][-1]


@pytest.mark.parametrize(
    ("source", "symbol", "entry", "matched"),
    [
        ("mx.sum(x, axis=0)", "mlx.core.sum", "mlx.core.sum", ["a", "axis"]),
        ("x.sum(0)", None, "mlx.core.array.sum", ["axis"]),
        ("nn.ReLU()(x)", None, "mlx.nn.ReLU.__call__", ["x"]),
        ("np.exp(x)", "numpy.exp", None, []),
    ],
)
def test_a_call_knows_what_mlx_says_of_it(
    source: str, symbol: str | None, entry: str | None, matched: list[str]
) -> None:
    call = last_call(source)
    assert call.symbol == symbol
    assert (call.entry and call.entry.name) == entry
    assert [parameter.name for parameter, _ in call.matched] == matched
    assert (call.array is not None) == source.startswith("x.")


@pytest.mark.parametrize(
    ("source", "seen", "unseen"),
    [
        ("x.item()", "item_call", "tolist_call"),
        ("x.tolist()", "tolist_call", "item_call"),
        ("np.exp(x)", "numpy_call", "scalar_cast"),
        ("math.sqrt(x)", "scalar_cast", "numpy_call"),
        ("float(x)", "scalar_cast", "builtin_reduction"),
        ("mx.eval(x)", "eval_in_inner_loop", "round_trip"),
        ("mx.array(x)", "round_trip", "eval_in_inner_loop"),
        ("x.square()", "scalar_argument", "item_call"),
        ("mx.square(x)", "array_as_int", "text_call"),
        ("mx.square(x)", "unsupported_call", "made_per_iteration"),
        ("nn.ReLU()(x)", "made_per_iteration", "array_as_int"),
        ("print(x)", "refused_entry", "array_grid"),
    ],
)
def test_a_check_sees_the_calls_that_it_wants(source: str, seen: str, unseen: str) -> None:
    found = {check.__name__ for check in checks_of(last_call(source))}
    assert seen in found
    assert unseen not in found
    anything = {one.function.__name__ for one in CHECKS["CallFact"] if "" in one.names}
    assert anything < found


#: Methods of lists of arrays.
LIST_METHODS = {"append"}
#: Methods of dictionaries, sets and optimizers.
OTHER_METHODS = {
    *("get", "setdefault", "pop", "add", "discard", "remove", "update"),
    *("subtract", "multiply", "divide"),  # of `x.at[i]`
}


def test_every_wanted_name_of_mlx_exists() -> None:
    checks = (
        check
        for check in CHECKS["CallFact"]
        if not check.function.__module__.startswith("embercoach.checks.torch.")
    )
    wanted = {name for one in checks for name in one.names - {"", "."}}
    of_mlx = {name for name in wanted if name.startswith("mlx.") and not name.endswith(".")}
    assert of_mlx
    assert all(mlx_api.lookup(name) is not None for name in of_mlx)
    methods = {name[1:] for name in wanted if name.startswith(".")} - LIST_METHODS - OTHER_METHODS
    assert all(mlx_api.array_member(name) is not None for name in methods)


def test_a_check_of_something_else_is_refused() -> None:
    def check_of_text(text: str) -> None: ...

    with pytest.raises(TypeError, match=f"check_of_text: first .*{FACTS[0]}.* got str"):
        check("DTYPE-001")(check_of_text)  # type: ignore[type-var]
