"""Parsing what changed in a text gives what parsing all of it gives."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embercoach.analysis.parse import parse, skeleton
from embercoach.analysis.reparsing import reparse
from embercoach.checks import Project, SyntaxProblem, check_source
from tests.analysis.programs import PROGRAMS

PATH = Path("edited.py")
PROGRAM = '''\
"""What it is about."""

# Above an import.
import mlx.core as mx


@mx.compile
def norm(x: mx.array) -> mx.array:
    """Why."""
    if x.sum() > 0:  # embercoach: ignore[GRAPH-BREAK-003]
        return x
    return x / mx.max(x).item()
    # Below the last statement.

# At the left.
class Model:
    scale = mx.array(0.5)

    def __call__(self, x: mx.array) -> mx.array:
        return norm(x * self.scale.astype(mx.bfloat16)); print(x)


print(norm(mx.ones(3))); loss = mx.ones(2).sum()
while loss > 1:
    loss = loss / 2
# The end.
'''


@settings(max_examples=30)
@given(PROGRAMS, PROGRAMS, PROGRAMS, st.booleans())
def test_the_code_is_the_text(one: str, other: str, added: str, is_first: bool) -> None:
    """Whatever is known from before: equal texts twice, none, all."""
    before = reparse(one + other + one, {})
    source = added + other + one if is_first else one + added + other + one
    after = reparse(source, {} if before is None else before.parts)
    if after is not None:
        assert after.tree.code == source
        assert after.tree.default_indent == parse(source).default_indent
        nodes: list[cst.CSTNode] = [after.tree]
        seen: set[int] = set()
        while nodes:
            node = nodes.pop()
            # Facts are told apart by their nodes. Space is shared by all.
            if isinstance(
                node, cst.BaseExpression | cst.BaseSmallStatement | cst.BaseCompoundStatement
            ):
                assert id(node) not in seen
                seen.add(id(node))
            nodes.extend(node.children)


@settings(max_examples=40)
@given(st.data())
def test_findings_are_those_of_the_whole_text(data: st.DataObject) -> None:
    """One edit after the other, broken texts among them."""
    text, edited = PROGRAM, Project(edited=True)
    for _ in range(3):
        lines = text.split("\n")
        at = data.draw(st.integers(0, len(lines) - 1))
        change = data.draw(st.sampled_from(["drop", "double", "add", "cut"]))
        if change == "drop":
            del lines[at]
        elif change == "double":
            lines.insert(at, lines[at])
        elif change == "add":
            lines.insert(at, data.draw(st.sampled_from(["", "x = mx.array(2.0)", "    pass", "#"])))
        else:
            lines[at] = lines[at][: data.draw(st.integers(0, len(lines[at])))]
        text = "\n".join(lines)
        assert outcome(text, edited) == outcome(text, Project())


def outcome(text: str, project: Project) -> object:
    try:
        return check_source(text, PATH, project).findings
    except SyntaxProblem as problem:
        return str(problem)


def test_what_did_not_change_is_not_parsed_again() -> None:
    before = reparse(PROGRAM, {})
    assert before is not None
    changed = PROGRAM.replace("loss / 2", "loss / 3")
    after = reparse(changed, before.parts)
    assert after is not None
    blocks = [
        {s.name.value: s.body for s in tree.body if isinstance(s, cst.FunctionDef | cst.ClassDef)}
        for tree in (before.tree, after.tree)
    ]
    assert blocks[0].keys() == {"norm", "Model"}
    assert all(blocks[0][name] is body for name, body in blocks[1].items())
    assert after.tree.code == changed


@pytest.mark.parametrize(
    "source",
    [
        "",
        "# only a comment\n",
        "x = 1\r\ny = 2\r\n",
        "\ufeffx = 1\n",
        "x = 1 \\\n\ny = 2\n",
        "x = (\n",
    ],
)
def test_what_is_doubtful_is_left_to_the_whole(source: str) -> None:
    assert reparse(source, {}) is None


def test_blocks_that_are_indented_otherwise() -> None:
    """Which indentation is a module's own can't be told from a part."""
    source = "if x:\n  y\nif y:\n    z\n"
    assert skeleton(source) is not None
    assert reparse(source, {}) is None
