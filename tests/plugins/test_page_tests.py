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

## How to fix
```python
import mlx.core as mx

assert mx.square(2).item() == 4
```

## What it reports
Text.

## Why it hurts
Text.

## Evidence
```python
assert 1 + 1 == 2
```
"""


@on_call(CODE, of=("mlx.core.eval",))
def check(call: Call) -> Iterator[Report]:
    yield Report(call, "a call of eval", "Do not call it", Replacement("Remove it", "None"))


def failures(folder: Path, text: str) -> list[str]:
    head = page(CODE).replace("since", 'fix = "unsafe"\nsince').replace(f"Text of {CODE}.\n", text)
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
        ("== 2", "== 3", ["evidence:34:run"]),
        ("mx.eval(mx.ones(3))", "mx.ones(3)", ["fix", "bad:7"]),
        ("x = mx.ones(3)", "mx.eval(mx.ones(3))", ["good:14"]),
        ("x = mx.ones(3)", "assert mx.ones(3).shape == ()", ["good:14:run"]),
        ("assert mx.square(2).item() == 4", "mx.eval(mx.ones(3))", ["how to fix:21"]),
        ("mx.square(2).item() == 4", "mx.square(2).item() == 5", ["how to fix:21:run"]),
        ("## Why it hurts\nText.\n\n", "", ["form"]),
    ],
)
def test_an_incorrect_page_fails(old: str, new: str, failed: list[str], tmp_path: Path) -> None:
    assert failures(tmp_path, TEXT.replace(old, new)) == [f"{CODE}:{name}" for name in failed]
