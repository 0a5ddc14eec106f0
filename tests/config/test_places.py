"""The lines of what a TOML document says."""

from __future__ import annotations

import time

import pytest

from embercoach.config.configuration_files import TomlLines

DOCUMENT = '''\
# ignore = [] is no statement
[project]
ignore = "another's"
text = """
ignore = 1
[tool.embercoach]
"""

[tool.embercoach]  # ours
respect-gitignore = true
per-file-ignores = { "a/**" = [
    "DTYPE" ] }
ignore = [
    # "FFT" is commented out
    "DTYPE",
    "FFT",
]
simulator.timeout = 3
"kernel-builders"."a.b" = { source = 0 }

[tool.embercoach.per-file-profiles]
"x/**" = "ember"
"y.z" = "ember"

[[array]]
a = 1
[[array]]
b = 2
'''
DOCUMENT_LINES = DOCUMENT.splitlines()
OURS = ("tool", "embercoach")


@pytest.mark.parametrize("ending", ["\n", "\r\n"], ids=["unix", "windows"])
@pytest.mark.parametrize(
    ("place", "words", "starts"),
    [
        ((*OURS, "ignore"), (), "ignore = ["),
        ((*OURS, "ignore"), ('"FFT"',), '    "FFT",'),
        ((*OURS, "ignore"), ('"absent"', '"DTYPE"'), '    "DTYPE",'),
        ((*OURS, "respect-gitignore"), (), "respect-gitignore"),
        ((*OURS, "per-file-ignores"), ('"DTYPE"',), '    "DTYPE" ]'),
        ((*OURS, "simulator"), (), "simulator.timeout"),
        ((*OURS, "simulator", "timeout"), (), "simulator.timeout"),
        ((*OURS, "kernel-builders", "a.b"), (), '"kernel-builders"'),
        ((*OURS, "per-file-profiles"), (), "[tool.embercoach.per-file-profiles]"),
        ((*OURS, "per-file-profiles", "y.z"), (), '"y.z"'),
        (OURS, (), "[tool.embercoach]  # ours"),
        (("project", "ignore"), (), 'ignore = "another\'s"'),
        (("array", "b"), (), "b = 2"),
    ],
)
def test_lines(place: tuple[str, ...], words: tuple[str, ...], starts: str, ending: str) -> None:
    number = TomlLines(DOCUMENT.replace("\n", ending)).find(place, words)
    assert number is not None
    assert DOCUMENT_LINES[number - 1].startswith(starts)


def test_what_is_not_there_has_no_line() -> None:
    assert TomlLines(DOCUMENT).find((*OURS, "absent")) is None
    assert TomlLines("").find(OURS) is None


def test_long_documents_take_no_longer_for_it() -> None:
    items = "".join(f'    "item {number}",\n' for number in range(3000))
    start = time.process_time()
    assert TomlLines(f"a = [\n{items}]\nb = 1\n" + "c.d = 1\n").find(("b",)) == 3003
    assert time.process_time() - start < 1


def test_a_value_whose_end_is_hard_to_find_has_no_line() -> None:
    """Each line looks like the last one; the statements before it are found."""
    lines = TomlLines('a = 1\nb = """\n' + "]\n" * 20_000 + '"""\nc = 1\n')
    assert [lines.find((name,)) for name in "abc"] == [1, None, None]
