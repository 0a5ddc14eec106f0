"""Which checks see a call: those that want its function, its method, or any call."""

from __future__ import annotations

import pytest

import embercoach.checks  # noqa: F401  (registers the checks)
from embercoach.analysis import mlx_api
from embercoach.checks.registry import CHECKS, FACTS, check

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
        if not check.function.__module__.startswith("embercoach.checks.torch_")
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
