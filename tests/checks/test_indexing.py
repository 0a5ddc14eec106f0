"""INDEX: writes to copies, repeated indices, shared arrays and floating indices."""

from __future__ import annotations

from textwrap import indent

import pytest

from tests.checks.findings import codes, messages

FAMILY = ("INDEX-002", "INDEX-003", "INDEX-004", "INDEX-005", "INDEX-006")


def function(body: str) -> str:
    """A function of arrays ``a`` and ``v``, an unknown ``u``, and a list ``rows`` of arrays."""
    start = "def work(a: mx.array, v: mx.array, u, n: int):\n    rows = [a, v]\n"
    return start + indent(body, "    ")


ONE_FINDING = [
    ("002", "a[0][1] = 7"),
    ("002", "a[0, 1][2] = v"),
    ("002", "a[0][1][2] = v"),
    ("002", "a[1:][0] = v"),
    ("002", "a[0][1] += v"),
    ("002", "rows[0][1][2] = v"),
    ("002", "a.transpose()[0] = v"),
    ("002", "row = a[0]\nrow[1] = v"),
    ("002", "row = a[0]\nrow += v"),
    ("002", "for row in a:\n    row[0] = v"),
    ("003", "a[v.astype(mx.int32)] += u"),
    ("003", "a[mx.array([0, 0, 1])] *= u"),
    ("004", "old = a\na += v\nreturn a - old"),
    ("004", "for _ in range(n):\n    old = a\n    a += v\n    if u(a - old):\n        break"),
    ("004", "xs = [mx.zeros(3)] * n\nxs[0] += v\nreturn xs"),
    ("004", "xs = n * [mx.zeros(3)]\nxs[0][1] = v\nreturn xs"),
    ("004", "old = a\nfor _ in range(n):\n    a += v\nreturn a - old"),
    ("006", "return mx.take_along_axis(a, indices=mx.linspace(0, 1, 3), axis=0)"),
    ("006", "return mx.take(a, mx.floor(mx.array([0.5])))"),
]


@pytest.mark.parametrize(("number", "body"), ONE_FINDING)
def test_statements(number: str, body: str) -> None:
    assert codes(function(body), FAMILY) == [f"INDEX-{number}"]


SILENT = [
    "rows[0][1] = v",
    "row = rows[0]\nrow[1] = v",
    "a[v] += u",
    "a[v] = a[v] * u",
    "a[mx.arange(4)] += 1",
    "a[mx.argsort(v)] += 1",
    "i = mx.argpartition(v, 3)[:3]\na[i] += 1",
    "a[mx.argmax(v)] += 1",
    "a[mx.array([0, 2])] += 1",
    "for i in v:\n    a[i] += 1",
    "old = a\na += v\nreturn a",
    "old = a\nold = u\na += v\nreturn a - old",
    "if n:\n    b = a\n    b += v\nelse:\n    b = a + v\nreturn b",
]


@pytest.mark.parametrize("body", SILENT)
def test_near_misses(body: str) -> None:
    assert codes(function(body), FAMILY) == []


CHANGED = """
def changed(x):
    x += 1
    return x

def caller():
    w = mx.zeros((3,))
    BODY
"""


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("for _ in range(3):\n        new = changed(w)\n    return new", 1),
        ("w = changed(w)\n    return w", 0),
        ("return changed(w)", 0),
    ],
)
def test_callers_of_functions_that_change_arguments(body: str, count: int) -> None:
    found = messages(CHANGED.replace("BODY", body), "INDEX-005")
    assert found == ["in-place update changes the caller's array passed as `x`"] * count


KEPT = """
def masked(x, width: int):
    x[:, :width] = 0.0
    return x

def placed(x, v):
    x[0] = v
    return x

class Data:
    def __init__(self, count):
        self.items = [mx.ones((4, 4)) for _ in range(count)]
        self.stack = mx.ones((3, 4, 4))

    def read(self, i, v):
        BODY
"""


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("return masked(self.items[i], 2)", 1),
        ("for x in self.items:\n            yield masked(x, 2)", 1),
        ("self.items[i] = masked(self.items[i], 2)", 0),
        ("return masked(self.stack[i], 2)", 0),
        ("return mx.stack([masked(x, 2) for x in self.stack])", 0),
    ],
)
def test_elements_that_an_object_keeps(body: str, count: int) -> None:
    found = messages(KEPT.replace("BODY", body), "INDEX-005")
    assert found == ["in-place update changes the caller's array passed as `x`"] * count


TABLE = """
class Table:
    def __init__(self):
        self.rows = mx.zeros((3, 3))
        self.rows[0] = mx.ones((3,))

    def last(self):
        return self.rows[3]
"""


@pytest.mark.parametrize(
    ("more", "count"),
    [("", 1), ("    def grow(self):\n        self.rows = mx.zeros((4, 3))\n", 0)],
)
def test_an_array_that_only_init_sets(more: str, count: int) -> None:
    assert codes(TABLE + more, "INDEX-001") == ["INDEX-001"] * count
