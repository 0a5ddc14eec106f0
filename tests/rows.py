"""Tables that one test checks row by row: thousands of tests would cost more than the checks."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any


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
        signature = inspect.signature(check)

        @functools.wraps(check)
        def test(**fixtures: Any) -> None:
            assert rows
            failures = []
            for row in rows:
                values = (row,) if len(keys) == 1 else row
                try:
                    check(**fixtures, **dict(zip(keys, values, strict=True)))
                except Exception as error:  # noqa: BLE001  (each row is its own test)
                    failures.append(f"{ids(row)}: {type(error).__name__}: {error}")
            assert not failures, f"{len(failures)} of {len(rows)} rows:\n" + "\n".join(failures)

        del test.__wrapped__
        given = [one for name, one in signature.parameters.items() if name not in keys]
        test.__signature__ = signature.replace(parameters=given)  # type: ignore[attr-defined]
        return test

    return decorate
