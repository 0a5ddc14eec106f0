"""``embercoach.testing.page_tests``: an incorrect page fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from embercoach.api import Call, Replacement, Report, RuleSet, on_call
from embercoach.testing import PageTest, page_tests
from tests.plugins.packages import page

CODE = "ACME-EVAL-001"
TEXT = """\
## What it does
Text.

## Why it hurts
Text.

## Evidence
```python
assert 1 + 1 == 2
```

## Bad
```python
import mlx.core as mx

mx.eval(mx.ones(3))
```

## Good
```python
import mlx.core as mx

x = mx.ones(3)
```

## Remedy
```python
import mlx.core as mx

assert mx.square(2).item() == 4
```
"""


@on_call(CODE, of=("mlx.core.eval",))
def check(call: Call) -> Iterator[Report]:
    yield Report(call, "a call of eval", "Do not call it", Replacement("Remove it", "None"))


def failures(folder: Path, text: str) -> list[str]:
    head = page(CODE).replace('fix = "none"', 'fix = "unsafe"').replace(f"Text of {CODE}.\n", text)
    (folder / f"{CODE}.md").write_text(head, encoding="utf-8")
    return [str(test) for test in page_tests(RuleSet("ACME", folder, (check,))) if fails(test)]


def fails(test: PageTest) -> bool:
    try:
        test()
    except AssertionError:
        return True
    return False


def test_a_correct_page_passes(tmp_path: Path) -> None:
    assert failures(tmp_path, TEXT) == []


@pytest.mark.parametrize(
    ("old", "new", "failed"),
    [
        ("== 2", "== 3", ["evidence:23:run"]),
        ("mx.eval(mx.ones(3))", "mx.ones(3)", ["fix", "bad:28"]),
        ("x = mx.ones(3)", "mx.eval(mx.ones(3))", ["good:35"]),
        ("x = mx.ones(3)", "assert mx.ones(3).shape == ()", ["good:35:run"]),
        ("assert mx.square(2).item() == 4", "mx.eval(mx.ones(3))", ["remedy:42"]),
        ("mx.square(2).item() == 4", "mx.square(2).item() == 5", ["remedy:42:run"]),
        ("## Why it hurts\nText.\n\n", "", ["form"]),
    ],
)
def test_an_incorrect_page_fails(old: str, new: str, failed: list[str], tmp_path: Path) -> None:
    assert failures(tmp_path, TEXT.replace(old, new)) == [f"{CODE}:{name}" for name in failed]
