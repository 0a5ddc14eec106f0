"""The linter keeps its precision and recall on real MLX code that people labelled by hand."""

from __future__ import annotations

import pytest

from tests.accuracy.evaluate import evaluate, mistakes, table

pytestmark = pytest.mark.corpus

# Family: the lowest precision and recall that the linter may have.
BARS = {"host-pull": (0.97, 0.90), "truth": (0.97, 0.90), "scalar": (0.97, 0.85)}


@pytest.fixture(scope="module")
def scores():
    """Lint the labelled files once."""
    measured = evaluate()
    report = table(measured) + "\n" + mistakes(measured)
    print(report)  # noqa: T201 - pytest shows it with -s and where a bar is missed
    return measured


@pytest.mark.parametrize("family", BARS)
def test_precision_and_recall(family, scores):
    precision, recall = BARS[family]
    report = table(scores) + "\n" + mistakes({family: scores[family]})
    assert scores[family].precision >= precision, report
    assert scores[family].recall >= recall, report
