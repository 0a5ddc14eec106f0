"""Every rule page is true: its evidence runs, and its examples are flagged, or not, as it says."""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

import pytest

from embercoach import rulebook
from embercoach.checks import Project, check_objective_c, check_source
from embercoach.config import Settings
from embercoach.engine.check_run import run
from embercoach.rulebook import FIX
from embercoach.testing.rule_pages import (
    Block,
    Page,
    execute,
    fix_errors,
    form_errors,
    page_of,
    page_paths,
    read_page,
)
from embercoach.testing.rule_pages import lint as page_findings

if TYPE_CHECKING:
    from embercoach.finding import Finding

PAGES = [read_page(path) for path in page_paths()]
#: Characters of a first line, a message or a help at most.
LONGEST = 100
#: Codes about comments are found by the engine, after the checks.
SUPPRESSION_FAMILY = "noqa"
#: What the page's kernel may take, in seconds: the page about endless loops has one.
PATIENCE = 1.0
SIMULATOR = pytest.mark.skipif(sys.platform != "linux", reason="the simulator is tested on Linux")


def is_simulated(block: Block) -> bool:
    return rulebook.rule(block.path.stem).kind is not None


def uses_simulator(block: Block) -> bool:
    return is_simulated(block) or "embercoach.simulator" in block.code


def blocks_in(section: str, *, runs: bool = False) -> list[pytest.param]:
    """The blocks under a heading; those that run torch need it, and are in the gate's last step."""

    def marks(block: Block) -> tuple[pytest.MarkDecorator, ...]:
        found = (SIMULATOR,) if uses_simulator(block) else ()
        return (*found, pytest.mark.oracle) if runs and "import torch" in block.code else found

    return [
        pytest.param(b, id=b.label, marks=marks(b))
        for page in PAGES
        for b in page.blocks_of(section)
    ]


def simulated(block: Block) -> list[Found]:
    """What the simulator finds while the block runs, or is compiled; notes too."""
    from embercoach.simulator import activate
    from embercoach.simulator.session.compiling import compiling

    compiles = block.path.stem.startswith("SIM-COMPILE")
    profile = block.path.stem.startswith("SIM-COST")
    with compiling() if compiles else activate(timeout=PATIENCE, profile=profile) as recorder:
        execute(block)
    found = [*recorder.findings, *recorder.notes]
    return [Found(finding.code, finding.line or 0, None) for finding in found]


@dataclass(frozen=True, slots=True)
class Found:
    """A finding in an example: its code, its line, and whether it has a fix and a safe one."""

    code: str
    line: int
    safe: bool | None


@functools.cache
def found_by_checks(block: Block) -> tuple[Finding, ...]:
    """What the checks find; three tests ask for it."""
    return page_findings(block)


@functools.cache
def found_by_engine(block: Block) -> list[Found]:
    """What a run finds, which judges comments too."""
    name, data = "example.py", block.code.encode()
    result = run([], Settings(root=Path.cwd()), cache=False, stdin=(name, data))
    assert result.problems == ()
    return [Found(f.code, f.line, f.fix and f.fix.safe) for f in result.findings]


def lint(block: Block) -> list[Found]:
    """All findings in a block, of whatever severity."""
    if is_simulated(block):
        return simulated(block)
    if rulebook.rule(block.path.stem).family == SUPPRESSION_FAMILY:
        return found_by_engine(block)
    return [Found(f.code, f.line, f.fix and f.fix.safe) for f in found_by_checks(block)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path.stem)
def test_a_page_keeps_to_the_form(page: Page) -> None:
    assert form_errors(page) == []


def test_the_first_line_of_a_page_is_one_line() -> None:
    long = [page.path.stem for page in PAGES if len(page.rule.summary) > LONGEST]
    assert long == []
    lower = [page.path.stem for page in PAGES if page.rule.summary[0].islower()]
    assert lower == []


def test_names_and_summaries_are_unique() -> None:
    for values in ([p.rule.name for p in PAGES], [p.rule.summary for p in PAGES]):
        assert [value for value, count in Counter(values).items() if count > 1] == []


def test_checks_and_pages_are_the_same() -> None:
    from embercoach.checks import registered_codes
    from embercoach.engine import suppressions

    reported = registered_codes() | set(suppressions.CODES)
    assert sorted(reported - rulebook.static_codes()) == [], "checks without a page"
    assert sorted(rulebook.static_codes() - reported) == [], "pages without a check"


def test_kinds_and_pages_are_the_same() -> None:
    from embercoach.simulator.model import CODE_OF_COST, CODE_OF_KIND

    codes = CODE_OF_KIND | CODE_OF_COST
    assert {kind: rule.code for kind, rule in rulebook.kinds().items()} == codes
    assert {rule.code for rule in rulebook.kinds().values()} == (
        rulebook.codes() - rulebook.static_codes()
    )
    for kind, rule in rulebook.kinds().items():
        assert (rule.name, rule.fix) == (kind, "none")
        severities = {severity for table in rule.severity.values() for severity in table.values()}
        is_note = rule.code.startswith(("SIM-BENIGN", "SIM-COST"))
        assert (severities == {"note"}) == is_note, rule.code


@pytest.mark.parametrize("block", [*blocks_in("Evidence"), *blocks_in(FIX)])
def test_code_that_proves_something_can_fail(block: Block) -> None:
    nodes = ast.walk(ast.parse(block.code))
    assert any(isinstance(node, ast.Assert) for node in nodes)


@pytest.mark.parametrize("block", [*blocks_in("Evidence", runs=True), *blocks_in(FIX, runs=True)])
def test_evidence_and_remedies_hold(block: Block) -> None:
    execute(block)


@pytest.mark.parametrize("block", blocks_in(FIX))
def test_remedies_satisfy_the_checks(block: Block) -> None:
    """Code that follows the help is not reported again, nor by another rule."""
    assert [f for f in found_by_checks(block) if is_more_than_note(f, block.path.stem)] == []


#: A function or a dtype of MLX in prose.
MLX_NAME = re.compile(r"\b(?:mx|nn|optim)\.[\w.]*\w")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path.stem)
def test_remedies_use_what_the_help_names(page: Page) -> None:
    bad = [block for block in page.blocks_of("Bad") if not is_simulated(block)]
    found = [finding for block in bad for finding in found_by_checks(block)]
    named = {n for f in found if f.code == page.path.stem for n in MLX_NAME.findall(f.help)}
    code = "".join(block.code for block in page.blocks_of(FIX))
    assert [name for name in sorted(named) if name not in code] == []


def is_more_than_note(finding: Finding, own: str) -> bool:
    """Return whether a finding is a warning; of a page whose rule has only notes, also a note."""
    rule = rulebook.rule(finding.code)
    only_notes = finding.code == own and rule.severity_in("recommended", "default") == "note"
    return only_notes or rule.severity_in("recommended", finding.context) != "note"


def test_pages_have_remedies() -> None:
    without = [page.path.stem for page in PAGES if FIX not in page.sections]
    assert [code for code in without if rulebook.rule(code).kind is None] == []


@pytest.mark.parametrize(
    "block",
    [
        p
        for p in blocks_in("Good", runs=True)
        if not is_simulated(p.values[0]) and p.values[0].language == "python"
    ],
)
def test_good_examples_run(block: Block) -> None:
    execute(block)


#: An assignment is reported for the arithmetic that it feeds, which has a finding of its own.
#: Where a barrier is missing, what is read may not have been written yet.
COMPANIONS = {
    "API-023": {"PYTHON-SCALAR-002"},
    "API-026": {"PYTHON-SCALAR-003"},
    "ASSIGN-SCALAR-001": {"PYTHON-SCALAR-002"},
    "COMPILE-004": {"MEMORY-002"},
    "SIM-RACE-001": {"SIM-UNINIT-001"},
}


@pytest.mark.parametrize("block", blocks_in("Bad"))
def test_bad_examples_are_flagged_with_their_code_alone(block: Block) -> None:
    findings = lint(block)
    companions = COMPANIONS.get(block.path.stem, set())
    assert {found.code for found in findings} - companions == {block.path.stem}, findings


@pytest.mark.parametrize("block", blocks_in("Good"))
def test_good_examples_are_silent(block: Block) -> None:
    assert lint(block) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path.stem)
def test_fixes_are_as_the_page_says(page: Page) -> None:
    if page.rule.kind is not None:
        pytest.skip("the simulator offers no fixes: test_kinds_and_pages_are_the_same")
    code = page.path.stem
    found = [f for block in page.blocks_of("Bad") for f in lint(block) if f.code == code]
    kinds = {f.safe for f in found if f.safe is not None}
    assert fix_errors(page, kinds) == []


LONGEST_MEAN = 65
NAME = "a" * 300
#: Code that names and operands make messages of.
LONG_NAMES = f"""
import mlx.core as mx
import numpy as np

{NAME} = mx.ones((3,), dtype=mx.int32)
spectrum = mx.fft.rfftn(mx.fft.rfft({NAME}, norm="ortho"), norm="forward")
back = mx.fft.irfftn(spectrum, s=(3,), norm="backward")
for _ in range(3):
    np.testing.assert_array_almost_equal({NAME}, {NAME})
    {NAME} *= 2
    print({NAME} * np.float32(0.5), sorted({NAME}), {NAME}.{NAME}.astype(mx.float16) > 1e9)
"""
LONG_TENSOR = f"""
#include <torch/extension.h>
void f(torch::Tensor {NAME}) {{
    auto host = {NAME}.cpu();
    id<MTLBuffer> b = [device newBufferWithBytes:{NAME}.cpu().data_ptr() length:4 options:0];
}}
"""


@pytest.fixture(scope="module")
def findings() -> list[Finding]:
    """The findings of all bad examples in Python and host code, and of programs of long names."""
    blocks = [block for page in PAGES for block in page.blocks_of("Bad")]
    found = [
        one
        for block in blocks
        if not block.path.stem.startswith(("KERNEL-", "SIM-", "NOQA-"))
        for one in found_by_checks(block)
    ]
    found += check_source(LONG_NAMES, Path("example.py"), Project()).findings
    found += check_objective_c(LONG_TENSOR).findings
    return [one for one in found if not one.code.startswith("KERNEL-")]


def test_messages_and_helps_are_short(findings: list[Finding]) -> None:
    assert {"HOST-PULL-003", "FFT-NORM-001", "HOST-COPY-001"} <= {one.code for one in findings}
    texts = [text for one in findings for text in (one.message, one.help)]
    assert [text for text in texts if len(text) > LONGEST] == []
    assert mean(map(len, {one.message for one in findings})) <= LONGEST_MEAN


def test_helps_are_sentences(findings: list[Finding]) -> None:
    for one in findings:
        assert one.help[0].isupper(), one
        assert not one.help.endswith("."), one
        assert not one.message.endswith("."), one


TOP = "# bad-name (DTYPE-099)\n\nA line\n\n"
CODE = "## Bad\n```python\nx = 1\n```\n## Good\n```python\nx = 2\nraise KeyError(x)\n```\n"
TEXT = "## What it reports\nA\n## Why it hurts\nB\n"
PROOF = "## Evidence\n```python\nassert True\n```\n"
METADATA = '## Metadata\n```toml\nsince = "0.1.0"\nseverity = "note"\nember = "error"\n```\n'
PATH = Path("DTYPE-099.md")


def made(*parts: str) -> Page:
    return page_of(f"{TOP}{''.join(parts)}\n{METADATA}", PATH)


def test_a_page_is_taken_apart() -> None:
    page = made(CODE, TEXT, PROOF)
    assert form_errors(page) == []
    assert form_errors(made(CODE, "## How to fix\nNot executed: a reason.\n", TEXT, PROOF)) == []
    lines = f"{TOP}{CODE}{TEXT}{PROOF}".splitlines()
    assert [lines[block.line - 1] for block in page.blocks] == ["x = 1", "x = 2", "assert True"]
    rule = page.rule
    assert (rule.code, rule.name, rule.family, rule.fix) == (
        "DTYPE-099",
        "bad-name",
        "dtype",
        "none",
    )
    assert rule.summary == "A line"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (TEXT + CODE, "the sections are"),
        ("## Bad\nwords\n## Good\nwords\n" + TEXT + PROOF, "no block under 'Good'"),
        (PROOF + CODE + TEXT, "the sections are"),
        (CODE + "## How to fix\nwords\n" + TEXT + PROOF, "needs a block under 'How to fix'"),
    ],
)
def test_a_page_that_breaks_the_form_is_told(text: str, error: str) -> None:
    assert any(found.startswith(error) for found in form_errors(made(text)))


@pytest.mark.parametrize("fence", ["```\nx = 1\n```", "    x = 1", "```py\nx = 1\n```"])
def test_code_that_no_test_would_see_is_refused(fence: str) -> None:
    with pytest.raises(ValueError, match="not ```python"):
        made(CODE, f"## How to fix\n\n{fence}\n")


def test_a_failing_block_points_into_its_page() -> None:
    page = made(CODE, TEXT, PROOF)
    (block,) = page.blocks_of("Good")
    with pytest.raises(KeyError) as caught:
        execute(block)
    place = caught.traceback[-1]
    assert Path(place.path).name == PATH.name
    assert place.lineno + 1 == block.line + 1
