"""Tables that one test checks row by row: thousands of tests would cost more than the checks.

A run of whole files checks the cases of a parametrized test in one test too, unless a case has
marks or the test uses a fixture that is made for each test. With `-k`, or the name of a test as an
argument, each case is a test.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Collection, Sequence
from typing import Any

import pytest
from hypothesis import is_hypothesis_test

#: Marks of a test that choose among its cases, or change what a failure of one means.
OF_EACH_CASE = {"sampled", "xfail", "exhaustive"}
#: What a row may raise, such as `pytest.fail()` in `pytest.raises()`.
FAILURES = (Exception, pytest.fail.Exception)


def each_row(
    names: str, rows: Sequence[Any], *, ids: Callable[[Any], str] = str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make one test of a check and a table; it fails with every row that fails.

    Args:
        names: of the arguments that a row gives, separated by commas; the others are fixtures.
        rows: the values, tuples where there are several names.
        ids: names a row in the list of failures.
    """
    keys = [name.strip() for name in names.split(",")]

    def decorate(check: Callable[..., None]) -> Callable[..., None]:
        def named_rows() -> list[tuple[str, dict[str, Any]]]:
            return [
                (ids(row), dict(zip(keys, (row,) if len(keys) == 1 else row, strict=True)))
                for row in rows
            ]

        return one_test(check, keys, named_rows)

    return decorate


def one_test(
    check: Callable[..., None],
    keys: Collection[str],
    named_rows: Callable[[], list[tuple[str, dict[str, Any]]]],
) -> Callable[..., None]:
    """A test of all rows; it takes the parameters of the check that no row gives."""

    @functools.wraps(check)
    def test(**fixtures: Any) -> None:
        rows = named_rows()
        assert rows
        results = [(name, result_of(check, {**fixtures, **values})) for name, values in rows]
        failed = [(name, error) for name, error in results if error and not is_skip(error)]
        if failed:
            lines = [f"{name}: {type(error).__name__}: {error}" for name, error in failed]
            message = f"{len(failed)} of {len(rows)} rows:\n" + "\n".join(lines)
            raise AssertionError(message) from failed[0][1]
        skips = [str(error) for _, error in results if error]
        if skips:
            reasons = "; ".join(dict.fromkeys(skips))
            pytest.skip(f"{len(skips)} of {len(rows)} rows: {reasons}")

    del test.__wrapped__
    signature = inspect.signature(check)
    given = [one for name, one in signature.parameters.items() if name not in keys]
    test.__signature__ = signature.replace(parameters=given)  # type: ignore[attr-defined]
    return test


def result_of(check: Callable[..., None], arguments: dict[str, Any]) -> BaseException | None:
    """What a check raised."""
    try:
        check(**arguments)
    except (*FAILURES, pytest.skip.Exception) as error:
        return error
    return None


def is_skip(error: BaseException | None) -> bool:
    return isinstance(error, pytest.skip.Exception)


def cases_as_rows(
    collector: pytest.Module | pytest.Class, name: str, check: Callable[..., None]
) -> pytest.Function | None:
    """One test of all cases of a parametrized test; None where each case has to be a test."""
    marks: list[pytest.Mark] = list(getattr(check, "pytestmark", []))
    tables = [mark for mark in marks if mark.name == "parametrize"]
    others = [mark for mark in marks if mark.name != "parametrize"]
    of_module = {mark.name for mark in collector.iter_markers()}
    if (
        not tables
        or is_hypothesis_test(check)
        or (OF_EACH_CASE | {"parametrize"}) & of_module
        or OF_EACH_CASE & {mark.name for mark in others}
        or not all(map(is_plain, tables))
    ):
        return None
    keys = {key for table in tables for key in names_of(table)}
    test = one_test(check, keys, lambda: rows_of(tables))
    test.pytestmark = others  # type: ignore[attr-defined]
    item = pytest.Function.from_parent(collector, name=name, callobj=test)
    definitions = item._fixtureinfo.name2fixturedefs  # type: ignore[attr-defined]
    needed = set(item.fixturenames) - {"request"} | inspect.signature(test).parameters.keys()
    for fixture in needed:
        for definition in definitions.get(fixture, [None]):
            if definition is None or definition.scope == "function" or definition.params:
                return None
    return item


def is_plain(table: pytest.Mark) -> bool:
    """Whether a table's rows are values alone: no marks, no parameters of fixtures."""
    values = table.args[1] if len(table.args) == 2 else None
    return (
        isinstance(values, Collection)
        and len(values) > 0
        and table.kwargs.keys() <= {"ids"}
        and not any(
            mark
            for value in values
            if is_parameter_set(value)
            for mark in value.marks
            if changes(mark)
        )
    )


def changes(mark: pytest.Mark | pytest.MarkDecorator) -> bool:
    """Whether a mark does something: a `skipif` whose condition is false does not."""
    condition = mark.kwargs.get("condition", mark.args[0] if mark.args else True)
    return mark.name != "skipif" or condition is not False


def is_parameter_set(value: object) -> bool:
    return isinstance(value, type(pytest.param()))


def names_of(table: pytest.Mark) -> list[str]:
    names = table.args[0]
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)


def rows_of(tables: Sequence[pytest.Mark]) -> list[tuple[str, dict[str, Any]]]:
    """Every combination of the tables' rows, in pytest's order, with names like pytest's."""
    return [
        (
            "[" + "-".join(name for name, _ in row) + "]",
            {key: value for _, values in row for key, value in values.items()},
        )
        for row in itertools.product(*map(rows_of_table, tables))
    ]


def rows_of_table(table: pytest.Mark) -> list[tuple[str, dict[str, Any]]]:
    keys, ids = names_of(table), table.kwargs.get("ids")
    rows = []
    for index, case in enumerate(table.args[1]):
        values: Sequence[Any]
        if is_parameter_set(case):
            values, name = case.values, case.id
        else:
            values, name = (case if len(keys) > 1 else (case,)), None
        if name is None and isinstance(ids, Sequence):
            name = ids[index]
        if name is None:
            make = ids if callable(ids) else None
            parts = zip(keys, values, strict=True)
            name = "-".join(name_of(key, value, index, make) for key, value in parts)
        rows.append((str(name), dict(zip(keys, values, strict=True))))
    return rows


def name_of(key: str, value: Any, index: int, make: Callable[[Any], object] | None) -> str:
    made = None if make is None else make(value)
    value = value if made is None else made
    if isinstance(value, (str, int, float, complex, bool, type(None))):
        return str(value)
    return getattr(value, "__name__", f"{key}{index}")
