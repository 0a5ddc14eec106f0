"""The tables of `docs/profile-validation.md`, from the figures in `docs/images`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.benchmarks import saved_figures
from tests.benchmarks.profile.case import held_out
from tests.benchmarks.profile.compare import Row, load, parts, rows, summary
from tests.benchmarks.profile.failures import REASONS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "profile-validation.md"
#: Begins the line before a table; its name follows.
MARK = "<!-- profile: "
#: A prediction that is so many times too long or too short fails.
FACTOR = 2.0


def regenerate() -> None:
    """Write the tables."""
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def filled(text: str) -> str:
    """The text with the tables of today's figures."""
    found = rows(load()[1])
    tables = {"summary": _summary, "failures": _failures, "cases": _cases}
    return saved_figures.filled(text, MARK, lambda name: tables[name](found))


def failing(found: Sequence[Row]) -> list[Row]:
    """Rows whose prediction fails, the worst first."""
    bad = [row for row in found if row.factor > FACTOR]
    return sorted(bad, key=lambda row: -row.factor)


def _summary(found: Sequence[Row]) -> Iterator[str]:
    yield "| cases | number | rank correlation | median error | within a factor of 2 |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for name, some in parts(found).items():
        figures = summary(some)
        yield (
            f"| {name} | {figures.cases} | {figures.rank_correlation:.3f} |"
            f" {figures.median_error:.1%} | {figures.within_two:.0%} |"
        )


def _failures(found: Sequence[Row]) -> Iterator[str]:
    yield "| case | measured, µs | predicted, µs | reason |"
    yield "| --- | ---: | ---: | --- |"
    for row in failing(found):
        times = f"{_time(row.case.microseconds)} | {_time(row.predicted)}"
        yield f"| {row.case.name} | {times} | {REASONS[row.case.name]} |"


def _cases(found: Sequence[Row]) -> Iterator[str]:
    yield "| case | of | measured, µs | predicted, µs | ratio | bound |"
    yield "| --- | --- | ---: | ---: | ---: | --- |"
    for row in sorted(found, key=lambda row: row.case.microseconds):
        case = row.case
        is_fitted = not (held_out(case.name) or case.is_later)
        name = f"{case.name} \\*" if is_fitted else case.name
        yield (
            f"| {name} | {case.group} | {_time(case.microseconds)} | {_time(row.predicted)} |"
            f" {row.predicted / case.microseconds:.2f} | {row.bound} |"
        )


def _time(microseconds: float) -> str:
    return f"{microseconds:,.1f}" if microseconds < 100 else f"{microseconds:,.0f}"
