"""Junk: random text, random tokens, real programs with lines lost, doubled and swapped."""

from __future__ import annotations

import ast
import copy
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from embercoach.checks import Project, check_source
from tests.analysis.programs import PROGRAMS
from tests.robustness.outcome import outcome_of
from tests.robustness.tokens import TOKENS

HERE = Path(__file__).resolve().parent
PATH = Path("/nowhere/program.py")
IMPORTS = "import mlx.core as mx\nimport mlx.nn as nn\nimport numpy as np\n"
ROOT = HERE.parents[1]
#: Real programs, with MLX and without.
PROGRAM_FILES = [
    *sorted((ROOT / "xlstm_kernels").rglob("*.py")),
    *sorted((ROOT / "embercoach" / "analysis").glob("*.py")),
    *sorted((ROOT / "tests" / "xlstm_kernels").glob("*.py")),
]
# Examples differ a thousandfold in time, so that a deadline each says little: the outcome has its
# own limit, far above.
JUNK = settings(suppress_health_check=list(HealthCheck))
SLOW = settings(JUNK, max_examples=settings().max_examples // 7)


MARKS = st.sampled_from("()[]{}:=,.\"'\\#@ \n\t\r\x0cxf1é\ufeff\u2028")
SEPARATED = st.tuples(st.sampled_from(["", " "]), st.lists(st.sampled_from(TOKENS), max_size=60))


@JUNK
@given(st.text() | st.text(MARKS, max_size=80) | SEPARATED.map(lambda t: IMPORTS + t[0].join(t[1])))
def test_any_text(text: str) -> None:
    event(outcome_of(text, PATH))


@SLOW
@given(PROGRAMS)
def test_any_program(program: str) -> None:
    event(outcome_of(IMPORTS + program, PATH))


def mutated(path: Path, random: Random) -> str:
    """A real program with statements lost, doubled and moved, and expressions exchanged.

    It always parses.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    bodies = [b for node in nodes if isinstance(b := getattr(node, "body", None), list) and b]
    for _ in range(random.randrange(12)):
        body, other = random.choice(bodies), random.choice(bodies)
        statement = copy.deepcopy(random.choice(body or [ast.Pass()]))
        other.insert(random.randrange(len(other) + 1), statement)
        if body and random.random() < 0.7:
            del body[random.randrange(len(body))]
    for body in bodies:
        body[:] = body or [ast.Pass()]
    values = [n for n in nodes if isinstance(n, ast.Assign | ast.Return | ast.Expr) and n.value]
    for _ in range(random.randrange(12)):
        one, two = random.choice(values), random.choice(values)
        one.value, two.value = two.value, one.value
    return ast.unparse(ast.fix_missing_locations(tree))


@SLOW
@given(st.sampled_from(PROGRAM_FILES), st.randoms(use_true_random=True))
def test_mutated_programs(path: Path, random: Random) -> None:
    program = mutated(path, random)
    compiles = True
    try:
        compile(program, "program", "exec")
    except SyntaxError:  # a ``return`` outside of a function and the like
        compiles = False
    outcome = outcome_of(program, PATH)
    assert outcome == "checked" or not compiles


@JUNK
@given(st.lists(st.sampled_from(TOKENS), max_size=40))
def test_any_kernel_body(tokens: list[str]) -> None:
    body = " ".join(tokens)
    source = (
        f"{IMPORTS}k = mx.fast.metal_kernel(name='k', input_names=['x'], output_names=['y'], "
        f"source={body!r})\n"
    )
    assert outcome_of(source, PATH) == "checked"


@pytest.mark.sampled(0)
@pytest.mark.parametrize(
    "paths",
    [PROGRAM_FILES[:4], pytest.param(PROGRAM_FILES[:20], marks=pytest.mark.exhaustive)],
    ids=["few", "many"],
)
def test_a_second_check_says_the_same(paths: list[Path]) -> None:
    project = Project()
    for path in paths:
        source = path.read_text(encoding="utf-8")
        first = check_source(source, path, project)
        assert check_source(source, path, project) == first
        alone = check_source(source, path, Project())
        assert alone.findings == first.findings
        # What other files have led to since can only be more.
        assert set(alone.dependencies) <= set(first.dependencies)
