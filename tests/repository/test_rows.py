"""Cases that are rows of one test: which ones fail or skip, and what their names are."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.rows import cases_as_rows, each_row, rows_of


@pytest.mark.parametrize("letter", ["a", pytest.param("b", id="second")])
@pytest.mark.parametrize(("number", "kind"), [(1, int), (2, SimpleNamespace())])
def cases(number: int, kind: object, letter: str) -> None:
    """A test of four cases."""


def test_cases_have_pytests_order_and_names() -> None:
    names, values = zip(*rows_of(cases.pytestmark), strict=True)
    assert names == ("[1-int-a]", "[1-int-second]", "[2-kind1-a]", "[2-kind1-second]")
    assert values[1] == {"letter": "b", "number": 1, "kind": int}


def test_every_row_that_fails_is_named() -> None:
    @each_row("number", [1, 2, 3, 4])
    def check(number: int) -> None:
        assert number < 3
        if number == 1:
            pytest.fail("one")
        if number == 2:
            pytest.skip("two")

    with pytest.raises(AssertionError) as failure:
        check()
    first, *rows = str(failure.value).splitlines()
    assert first == "3 of 4 rows:"
    assert [row.partition(":")[0] for row in rows if row[0].isdigit()] == ["1", "3", "4"]


def test_rows_that_are_skipped_are_counted() -> None:
    ran = []

    @each_row("number", [1, 2, 3])
    def check(number: int) -> None:
        if number < 3:
            pytest.skip("small")
        ran.append(number)

    with pytest.raises(pytest.skip.Exception, match=r"^2 of 3 rows: small$"):
        check()
    assert ran == [3]


@pytest.mark.parametrize("each", [1, 2])
def case(each: int) -> None:
    """A test whose cases need nothing of their own."""


@pytest.mark.parametrize("each", [1, 2])
def case_with_folder(each: int, tmp_path: Path) -> None:
    """A test of which each case has a folder."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("each", [1, 2])
def sampled_case(each: int) -> None:
    """A test of which the default suite has one case."""


@pytest.mark.parametrize("each", [1, pytest.param(2, marks=pytest.mark.xfail)])
def case_that_fails(each: int) -> None:
    """A test with a case that has to fail."""


def test_only_cases_that_need_nothing_of_their_own_are_rows(request: pytest.FixtureRequest) -> None:
    module = request.node.getparent(pytest.Module)
    made = {
        check.__name__: cases_as_rows(module, check.__name__, check)
        for check in (case, case_with_folder, sampled_case, case_that_fails)
    }
    assert [name for name, item in made.items() if item is not None] == ["case"]
