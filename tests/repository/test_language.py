"""The words that `.ci/language.toml` excludes: found in texts alone, and in none of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.examples.programs import imported

if TYPE_CHECKING:
    from pathlib import Path

language = imported(".ci/language.py")


def found(folder: Path, name: str, text: str) -> list[tuple[int, str]]:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return [(hit.line, hit.word) for hit in language.hits_in(path, name)]


@pytest.mark.sampled(0)
def test_our_texts_have_no_excluded_words() -> None:
    assert list(map(str, language.all_hits())) == []


@pytest.mark.parametrize(
    ("name", "text", "hits"),
    [
        ("a.py", '"""What it is."""\n', [(1, "What ...")]),
        ("a.py", 'def f():\n    """Whether it is."""\n', [(2, "Whether ...")]),
        ("a.py", 'def f():\n    """Return whether it is."""\n', []),
        ("a.py", "x = 1  # the wrong value\n", [(1, "wrong")]),
        ("a.py", "# it passes\n# over these\n", [(1, "passes over")]),
        ("a.py", 'raise E("it is no " "number")\n', [(1, "is no")]),
        ("a.py", 'raise E(\n    f"a {x} that"\n    f" is no {y}"\n)\n', [(3, "is no")]),
        ("a.py", 'raise E(f"a {wrong or {1: 2}} b")\n', []),
        ("a.py", 'f("is", "no use")\n', []),
        ("a.py", "right = wrong\n", []),
        ("a.py", 'x = "wrong"\n', []),
        ("a.py", 'x = """\nint wrong;\n"""\n', []),
        ("a.py", 'x = r"is no (\\w+)"\n', []),
        ("a.py", "# `wrong` and ``is no``\n", []),
        ("a.py", '"""A\n\nroom."""\n', [(3, "room")]),
        ("a.md", "# A\n\nThe wrong\nroom.\n", [(3, "wrong"), (4, "room")]),
        ("a.md", "`wrong`\n\n```python\nwrong\n```\n\n[x](wrong.md)\n", []),
        ("a.md", "| a | b |\n| --- | --- |\n| x | told |\n", [(3, "told")]),
        ("a.schema.json", '{\n "told": {"description": "a room"}}\n', [(2, "told"), (2, "room")]),
        ("a.yml", "# a house\nname: a room\n", [(1, "house"), (2, "room")]),
        ("a.toml", 'a = "a room"  # a house\nroom = 1\n', [(1, "room"), (1, "house")]),
        ("a.h", "// a house\nint room = 1; /* told */\n", [(1, "house"), (2, "told")]),
        ("a.html", "<p title='a room'>told</p><!-- {{ house }} -->", [(1, "room"), (1, "told")]),
        ("a.js", 'const room = "the house"; // told\n', [(1, "house"), (1, "told")]),
        ("a.css", "/* a house */ .room { }\n", [(1, "house")]),
        ("run", "#!/usr/bin/env bash\n# a house\nroom=1\n", [(2, "house")]),
        ("prelude/metal_math", "// a house\n", [(1, "house")]),
    ],
)
def test_words_are_found_in_texts_alone(
    name: str, text: str, hits: list[tuple[int, str]], tmp_path: Path
) -> None:
    assert found(tmp_path, name, text) == hits


@pytest.mark.parametrize(
    "allowed",
    [
        "the right-hand side, a right shift, left to right, right after it",
        "there is no value, it is no longer there, and no more than two",
        "the home directory, $HOME and /home/me",
        "the carry of an addition, carry bits",
        "mem_flags, wrong-mem-flags",
    ],
)
def test_literal_meanings_are_allowed(allowed: str, tmp_path: Path) -> None:
    assert found(tmp_path, "a.md", f"{allowed}\n") == []
