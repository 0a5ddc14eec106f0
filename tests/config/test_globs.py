"""Patterns match what pathspec and git say, in a time that no pattern can blow up."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from embercoach.config.globs import MOST_WILDCARDS, spec_of, within_names

PATTERNS = st.lists(
    st.sampled_from(
        ["a", "b", ".", "*", "*", "?", "[ab]", "[!a]", "/", "/**/", "**/", "/**", "\\*"]
    ),
    min_size=1,
    max_size=9,
).map("".join)
PATHS = st.lists(st.text("aab.*", min_size=1, max_size=6), min_size=1, max_size=5).map("/".join)


class BracketsAsInGit(GitIgnoreSpecPattern):
    """A pattern of pathspec whose ``[!a]`` matches no ``/``."""

    __slots__ = ()

    @classmethod
    def pattern_to_regex(cls, pattern):
        expression, includes = super().pattern_to_regex(pattern)
        return expression and within_names(expression), includes


@given(PATTERNS, st.lists(PATHS, min_size=1, max_size=12), st.booleans())
def test_patterns_match_as_pathspec_has_them(
    pattern: str, paths: list[str], is_excepted: bool
) -> None:
    assume("//" not in pattern)
    lines = ["*", f"!{pattern}"] if is_excepted else [pattern]
    try:
        expected = GitIgnoreSpec([BracketsAsInGit(line) for line in lines])
    except (ValueError, re.error):
        assume(False)
    ours = spec_of(lines)
    for path in [*paths, *(f"{path}/" for path in paths)]:
        assert ours.check_file(path).include == expected.check_file(path).include


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 200 + "b", "a" * 250),
        ("**/a/" * 9 + "b", "a/" * 1_000 + "c"),
        ("/*a*/" + "**/*a*a/" * 6 + "b", ("a" * 80 + "/") * 40 + "c"),
        ("a?" + "*[ab]*" * 20 + "c", "a" * 250),
    ],
)
def test_many_wildcards_are_matched_at_once(pattern: str, path: str) -> None:
    spec = spec_of([pattern])
    assert not spec.match_file(path)
    assert spec.match_file(path[:-1] + pattern[-1])


def test_more_wildcards_than_a_name_has_characters_are_refused() -> None:
    with pytest.raises(ValueError, match="too many wildcards"):
        spec_of(["*a" * (MOST_WILDCARDS + 1)])
