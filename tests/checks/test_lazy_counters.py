"""LAZY-007: arrays that a step of a cache updates, and that nothing evaluates."""

from __future__ import annotations

from tests.checks.findings import codes, pointed

CACHE = """
class Cache:
    def __init__(self, size):
        self.keys = None
        self.count = mx.array([size])

    @property
    def state(self):
        return {state}

    def {method}(self, n, keys=None):
        {step}
        {result}
"""


def program(
    state: str = "self.keys",
    method: str = "advance",
    step: str = "self.count -= n",
    result: str = "return keys",
) -> str:
    return CACHE.format(state=state, method=method, step=step, result=result)


def test_an_array_that_state_leaves_out_is_found() -> None:
    assert pointed(program(), "LAZY-007") == [("LAZY-007", "self.count")]


def test_an_array_in_state_is_found_where_a_method_only_counts() -> None:
    both = "self.keys, self.count"
    assert codes(program(state=both, result="pass"), "LAZY-007") == ["LAZY-007"]
    assert codes(program(state=both), "LAZY-007") == []


def test_arrays_that_are_evaluated_or_used_are_silent() -> None:
    assert codes(program(result="mx.eval(self.count)"), "LAZY-007") == []
    assert codes(program(result="self.keys = mx.depends(keys, self.count)"), "LAZY-007") == []
    assert codes(program(result="return keys + self.count"), "LAZY-007") == []


def test_numbers_and_what_runs_once_are_silent() -> None:
    assert codes(program(method="prepare"), "LAZY-007") == []
    assert codes(program(step="self.count -= keys"), "LAZY-007") == []
    assert codes(program().replace("mx.array([size])", "size"), "LAZY-007") == []
    assert codes(program().replace("class Cache", "class Cache(nn.Module)"), "LAZY-007") == []
