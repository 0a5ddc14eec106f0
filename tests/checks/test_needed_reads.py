"""Reads in loops that no plain change makes fewer are notes, and their near misses warnings."""

from __future__ import annotations

import pytest

from tests.checks.findings import findings

PULLS = tuple(
    f"{family}-00{n}"
    for family, last in (("GRAPH-BREAK", 8), ("HOST-PULL", 8))
    for n in range(1, last + 1)
)

SEARCHES = {
    "a candidate of the best": (
        "mx.argsort(x)[::-1]",
        "if int(c) not in banned:\n    break",
        "sink",
    ),
    "a sorted array": ("mx.sort(x)", "if c.item() > 3:\n    return c", "sink"),
    "in the order of the text": ("x", "if int(c) not in banned:\n    break", "loop"),
    "all of them": ("mx.argsort(x)[::-1]", "if int(c) not in banned:\n    out.append(c)", "loop"),
    "a break of an inner loop": (
        "mx.argsort(x)",
        "for b in banned:\n    if int(c) == b:\n        break",
        "loop",
    ),
}


@pytest.mark.parametrize(("array", "body", "expected"), SEARCHES.values(), ids=SEARCHES)
def test_a_search(array: str, body: str, expected: str) -> None:
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    source = f"def find(x: mx.array, banned, out):\n    for c in {array}:\n{lines}\n"
    assert findings(source, PULLS)[-1].context == expected


TABLE = """
def frequencies(dim: int, base: float, given: mx.array):
    inverse = 1.0 / (base ** (mx.arange(0, dim, 2).astype(mx.float32) / dim))
    out = []
    for i in range({}.shape[0]):
        out.append({}[i].item())
    return out
"""


@pytest.mark.parametrize(("array", "expected"), [("inverse", "sink"), ("given", "loop")])
def test_a_table(array: str, expected: str) -> None:
    assert findings(TABLE.format(array, array), PULLS)[-1].context == expected


def test_a_table_that_a_loop_makes_again() -> None:
    again = "def run(n, given):\n    for _ in range(n):\n        frequencies(8, 2.0, given)\n"
    assert findings(TABLE.format("inverse", "inverse") + again, PULLS)[-1].context == "loop"


SHORT = {
    "before the main loop": ("for i in range(width):", "while True:\n        model(x)", "sink"),
    "alone": ("for i in range(width):", "return out", "loop"),
}


@pytest.mark.parametrize(("loop", "after", "expected"), SHORT.values(), ids=SHORT)
def test_a_short_loop(loop: str, after: str, expected: str) -> None:
    source = f"""
def search(model, x: mx.array, count, width=4):
    out = []
    {loop}
        out.append(x[i].item())
    {after}
"""
    assert findings(source, PULLS)[0].context == expected


LISTS = {
    "handed over in parts": "out.append(v.item())\nif len(out) > 8:\n    send(out)\n    out = []",
    "tested": "out.append(v.item())\nif max(out) > 3:\n    print(out)",
}
KEPT = {
    "kept": "out.append(v.item())",
    "counted": "out.append(v.item())\nif len(out) > 8:\n    print(v.shape)",
}


@pytest.mark.parametrize(
    ("body", "expected"),
    [*((b, "sink") for b in LISTS.values()), *((b, "loop") for b in KEPT.values())],
    ids=[*LISTS, *KEPT],
)
def test_a_list_that_the_loop_reads(body: str, expected: str) -> None:
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    source = (
        f"def run(batches: list[mx.array], send):\n    out = []\n    for v in batches:\n{lines}\n"
    )
    assert findings(source, ("GRAPH-BREAK-001",))[-1].context == expected


ROWS = {
    "a part that moves": ("mx.mean(x[a : a + n])", "sink"),
    "limits that move": ("mx.max(mx.clip(x, 0, a))", "sink"),
    "rows": ("mx.max(x[a])", "loop"),
    "the same part": ("mx.max(x[1:5])", "loop"),
}


@pytest.mark.parametrize(("array", "expected"), ROWS.values(), ids=ROWS)
def test_a_reduction(array: str, expected: str) -> None:
    source = f"def run(x: mx.array, n, use):\n    for a in range(n):\n        use({array}.item())\n"
    assert findings(source, PULLS)[-1].context == expected


MIXED = {
    "a closure": (
        """
def run(x: mx.array, out):
    first = x[0] < 5
    def add(part):
        if first:
            out.append(part)
    for i in range(9):
        add(i)
        first = not first
""",
        ["loop", "loop"],
    ),
    "the end of a loop": (
        """
def run(x: mx.array, step):
    done = False
    while not done:
        x = step(x)
        done = mx.all(x == 3)
""",
        ["sink"],
    ),
    "a parameter": (
        "def run(x: mx.array, mask: bool | mx.array):\n    if mask:\n        x += 1\n",
        [],
    ),
    "a number": (
        "def run(x: mx.array):\n    n = 0\n    for _ in x:\n        if n:\n            n = x[0]\n",
        [],
    ),
}


@pytest.mark.parametrize(("source", "expected"), MIXED.values(), ids=MIXED)
def test_a_name_that_holds_an_array_or_a_bool(source: str, expected: list[str]) -> None:
    found = findings(source, ("GRAPH-BREAK-003", "GRAPH-BREAK-004"))
    assert [one.context for one in found] == expected


def test_the_test_of_a_builtin_reduction_is_reported_once() -> None:
    source = (
        "def run(x: mx.array, xs, t):\n    if len(xs) > t and max(x) < max(xs):\n        return 1\n"
    )
    assert [one.code for one in findings(source, PULLS)] == ["GRAPH-BREAK-007"]


ONCE = {
    "a cached function": "@functools.lru_cache\ndef run(n):\n    {}\n",
    "an empty cache": """
class Rope:
    def run(self, n):
        if n > 9 or self.key not in self.tables:
            self.tables[self.key] = n
            {}
""",
    "an empty attribute": """
class Rope:
    def run(self, n):
        if n > self.n or self.cos is None or self.sin is None:
            self.cos = n
            {}
""",
}
AGAIN = {
    "a plain function": "def run(n):\n    {}\n",
    "a cache that stays empty": """
class Rope:
    def run(self, n):
        if self.key not in self.tables:
            {}
""",
    "a test for a key": """
class Rope:
    def run(self, n):
        if self.key in self.tables:
            self.tables[self.key] = n
            {}
""",
}


@pytest.mark.parametrize(
    ("source", "expected"),
    [*((s, "script") for s in ONCE.values()), *((s, "loop") for s in AGAIN.values())],
    ids=[*ONCE, *AGAIN],
)
def test_a_read_that_runs_once(source: str, expected: str) -> None:
    read = "return [v.item() for v in mx.random.normal((n,))]"
    assert findings("import functools\n" + source.format(read), PULLS)[-1].context == expected


MASKS = {
    "an unknown value": ("x[mask]", 1),
    "an attribute": ("x.rows[mask]", 1),
    "an assignment": ("x[mask] = 0", 0),
    "a list": ("[1, 2][mask]", 0),
}


@pytest.mark.parametrize(("read", "count"), MASKS.values(), ids=MASKS)
def test_a_mask_that_reads_an_unknown_value(read: str, count: int) -> None:
    source = f"def run(x, given: mx.array, use):\n    mask = given == 3\n    {read}\n"
    assert len(findings(source, "API-005")) == count
    assert findings("import numpy as np\n" + source, "API-005") == []


def test_an_attribute_is_no_table() -> None:
    """Weights that are loaded replace what ``__init__`` has made."""
    source = """
class Body(nn.Module):
    def __init__(self):
        super().__init__()
        self.parents = mx.zeros((9,))

    def run(self):
        return [int(self.parents[i].item()) for i in range(self.parents.size)]
"""
    assert findings(source, PULLS)[-1].context == "loop"


def test_a_table_that_is_assigned_to_is_none() -> None:
    source = """
def run(counts, n):
    frames = mx.zeros((n,))
    for i in range(n):
        frames[i] = counts[i]
    return [int(frames[i].item()) for i in range(n)]
"""
    assert findings(source, PULLS)[-1].context == "loop"


def test_a_list_whose_end_an_array_takes_may_be_an_array() -> None:
    source = """
def run(parts: list[mx.array]):
    ends = [0]
    for part in parts:
        lengths = mx.cumsum(part) + ends[-1]
        ends.extend(lengths.tolist())
    return mx.array(ends)
"""
    assert findings(source, PULLS)[-1].context == "loop"


def test_an_array_that_numpy_holds_is_pulled_once_by_an_expression() -> None:
    source = """
import numpy as np
def run(x: mx.array, scale: mx.array, table):
    for _ in range(9):
        project(np.array(table), x, scale)
def project(states, x, scale):
    return (states @ x) / scale
"""
    assert [one.code for one in findings(source, PULLS)] == ["HOST-PULL-004"]


KEYS = {
    "keys": ("mx.array(list(counts.keys()))", 0),
    "a set": ("mx.array(sorted({*tokens})).astype(mx.int32)", 0),
    "keys by a comprehension": ("mx.array(list({t: 1 for t in tokens}))", 0),
    "values": ("mx.array(list(counts.values())).astype(mx.int32)", 1),
    "the tokens": ("mx.array(tokens).astype(mx.int32)", 1),
}


@pytest.mark.parametrize(("index", "count"), KEYS.values(), ids=KEYS)
def test_indices_of_a_dictionary(index: str, count: int) -> None:
    source = f"""
def run(logits: mx.array, counts: dict, tokens: list[int], penalty: mx.array):
    index = {index}
    logits[:, index] = logits[:, index] - penalty
"""
    assert len(findings(source, "INDEX-003")) == count
