"""The labels are what they should be, and the measurement counts right."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.accuracy.candidates import FAMILIES, Finder
from tests.accuracy.evaluate import (
    DriftError,
    Finding,
    Label,
    LinterError,
    Score,
    check_drift,
    group_findings,
    mistakes,
    overlap,
    read_labels,
    score,
    table,
)
from tests.accuracy.hints import HINTS
from tests.accuracy.sample import (
    HINT_SHARES,
    LABELS,
    PACKAGES,
    SEED,
    Sources,
    draw,
    line_hash,
    overlapping,
)

CONTENT = json.loads(LABELS.read_text(encoding="utf-8"))
SITES = CONTENT["sites"]


# ---- the labels


def test_every_site_is_labelled():
    assert {type(site["truth"]) for site in SITES} <= {bool, str}
    assert {site["truth"] for site in SITES} == {True, False, "unsure"}


@pytest.mark.parametrize("family", FAMILIES)
def test_each_family_has_enough_sites_of_both_truths(family):
    truths = Counter(site["truth"] for site in SITES if site["family"] == family)
    assert truths[True] + truths[False] >= 120
    assert truths[True] >= 50
    assert truths[False] >= 80


def test_a_quarter_comes_from_tests_scripts_and_top_level_code():
    assert sum(site["script"] for site in SITES) >= 0.25 * len(SITES)


def test_the_sample_is_the_one_that_is_drawn():
    assert CONTENT["seed"] == SEED
    pins = {name: {"version": v, "dist": d} for name, (v, d, _) in PACKAGES.items()}
    assert CONTENT["packages"] == pins
    assert {site["package"] for site in SITES} == set(PACKAGES)
    assert not {"mlx-vlm", "mlx-audio"} & set(PACKAGES), "these stay unlabelled"


def test_no_site_is_labelled_twice():
    keys = ("package", "file", "line", "column", "end_line", "end_column", "family")
    assert len({tuple(site[key] for key in keys) for site in SITES}) == len(SITES)


def test_no_code_is_kept():
    allowed = {"package", "file", "line", "column", "end_line", "end_column", "family", "kind"}
    allowed |= {"script", "truth", "line_hash", "rivals"}
    for site in SITES:
        assert set(site) == allowed
        assert len(site["line_hash"]) == 16


def test_every_hint_has_its_share():
    for family in FAMILIES:
        assert set(HINT_SHARES[family]) == set(HINTS)


# ---- the candidates


def found(source: str, family: str) -> set[tuple[str, str]]:
    lines = source.splitlines()
    return {
        (site.kind, lines[site.line - 1][site.column - 1 : site.end_column - 1])
        for site in Finder("p", "f.py", source).sites()
        if site.family == family and site.line == site.end_line
    }


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x.item()", {("item", "x.item()")}),
        ("d.item(3)", set()),
        ("float(y)", {("cast", "float(y)")}),
        ('float("inf")', set()),
        ("import numpy as n\nn.array(y)", {("numpy", "n.array(y)")}),
        ("import numpy as n\nn.zeros((2, 3))", set()),
        (
            "import mlx.core as mx\nimport numpy as np\nmx.array(np.ones(n))",
            {("round-trip", "mx.array(np.ones(n))"), ("numpy", "np.ones(n)")},
        ),
        ("é = f'{y}'", {("format", "y")}),
        ("for i in range(n): pass", {("range", "range(n)")}),
        ("import mlx.core as mx\nmx.zeros((n, 3))", {("shape", "n")}),
        ("memoryview(y)", {("memoryview", "memoryview(y)")}),
    ],
)
def test_host_pull_candidates(source, expected):
    assert found(source, "host-pull") == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("if x > y: pass", {("if", "x > y")}),
        ("if x and not y: pass", {("if", "x"), ("not", "y")}),
        ("z = x or y", {("boolop", "x")}),
        ("assert f(x), 'no'", {("assert", "f(x)")}),
        ("while 0 < x < 3: pass", {("chain", "0 < x < 3")}),
        ("[a for a in b if a]", {("comprehension", "a")}),
        ("1 if x else 2", {("ternary", "x")}),
        ("v in x", {("in", "v in x")}),
        ("max(x, y)", {("builtin", "max(x, y)")}),
        ("max(1, 2)", set()),
        ("if x is None or isinstance(x, int): pass", set()),
        ("if mode == 'fast': pass", set()),
        ("if __name__ == name: pass", set()),
    ],
)
def test_truth_candidates(source, expected):
    assert found(source, "truth") == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x * 2", {("binop", "x * 2")}),
        ("2 * 3", set()),
        ("x + 'a'", set()),
        ("x @ y", set()),
        ("x -= y", {("augmented", "x -= y")}),
        ("import mlx.core as mx\nmx.maximum(x, 0.0)", {("call", "mx.maximum(x, 0.0)")}),
        ("import numpy as np\nnp.maximum(x, 0.0)", set()),
        ("x > -1", {("compare", "x > -1")}),
        ("x > y", set()),
    ],
)
def test_scalar_candidates(source, expected):
    assert found(source, "scalar") == expected


# ---- the sample


def test_drawing_is_seeded_and_keeps_to_its_quotas(tmp_path):
    lines = [f"x{i} = float(a{i}) * {i}" for i in range(40)]
    (tmp_path / "f.py").write_text("\n".join(lines))
    sites = list(Finder("p", "f.py", "\n".join(lines)).sites())
    sources = Sources({"p": tmp_path})
    quotas = {"host-pull": 7, "truth": 3, "scalar": 5}
    first = draw(sites, sources, quotas, "seed")
    assert first == draw(list(sites), sources, quotas, "seed")
    assert first != draw(sites, sources, quotas, "other")
    assert Counter(site.family for site in first) == {"host-pull": 7, "scalar": 5}


def test_a_truth_test_that_is_one_pull_has_it_as_a_rival():
    sites = list(Finder("p", "f.py", "if x.item(): pass").sites())
    pull, test = sorted(sites, key=lambda site: site.family)
    assert pull.span == test.span
    assert overlapping(test, sites) == [list(pull.span)]
    assert overlapping(pull, sites) == []


# ---- the matching

LINE = "if float(loss.item()) * 2 > 3: stop()"
ITEM = (1, 10, 1, 21)
CAST = (1, 4, 1, 22)
PRODUCT = (1, 4, 1, 26)
TEST = (1, 4, 1, 30)


def label(span, family, *, truth=True, rivals=()):
    return Label("p", "f.py", span, family, "kind", False, truth, line_hash(LINE), rivals)


def scored(labels, findings, tmp_path):
    (tmp_path / "f.py").write_text(LINE + "\n")
    return score(labels, {("p", "f.py"): findings}, {"p": tmp_path})


@pytest.mark.parametrize(
    ("span", "family", "rivals", "finding", "flagged"),
    [
        (ITEM, "host-pull", (CAST, PRODUCT, TEST), Finding("GRAPH-BREAK-001", ITEM), True),
        (CAST, "host-pull", (ITEM, PRODUCT, TEST), Finding("GRAPH-BREAK-001", ITEM), False),
        (TEST, "truth", (ITEM, CAST, PRODUCT), Finding("GRAPH-BREAK-001", ITEM), False),
        (TEST, "truth", (ITEM, CAST, PRODUCT), Finding("GRAPH-BREAK-003", TEST), True),
        # A report of the whole statement still fits the test best.
        (TEST, "truth", (ITEM, CAST), Finding("GRAPH-BREAK-003", (1, 1, 1, 38)), True),
        (TEST, "truth", (), Finding("HOST-PULL-001", TEST), False),
        (PRODUCT, "scalar", (ITEM, CAST, TEST), Finding("PYTHON-SCALAR-002", PRODUCT), True),
        (PRODUCT, "scalar", (ITEM, CAST, TEST), Finding("GRAPH-BREAK-001", PRODUCT), False),
        (ITEM, "truth", (ITEM,), Finding("GRAPH-BREAK-001", ITEM), False),
        (ITEM, "host-pull", (), Finding("GRAPH-BREAK-001", (1, 25, 1, 26)), False),
    ],
)
def test_a_finding_belongs_to_the_site_it_fits_best(
    span, family, rivals, finding, flagged, tmp_path
):
    scores = scored([label(span, family, rivals=rivals)], [finding], tmp_path)
    assert scores[family].hits == int(flagged)
    assert len(scores[family].misses) == int(not flagged)


def test_counts_precision_and_recall(tmp_path):
    labels = [
        label(ITEM, "host-pull", rivals=(CAST,)),
        label(CAST, "host-pull", truth=False, rivals=(ITEM,)),
        label((1, 32, 1, 38), "host-pull"),
        label(TEST, "truth", truth=False),
        label(PRODUCT, "scalar", truth=None),
    ]
    findings = [Finding("GRAPH-BREAK-001", ITEM), Finding("HOST-PULL-002", CAST)]
    result = scored(labels, findings, tmp_path)["host-pull"]
    assert (result.hits, len(result.misses), len(result.false_alarms)) == (1, 1, 1)
    assert result.precision == 0.5
    assert result.recall == 0.5
    scores = scored(labels, [], tmp_path)
    assert scores["truth"].rejections == 1
    assert (scores["scalar"].hits, scores["scalar"].misses) == (0, [])


def test_spans_of_several_lines_overlap_by_characters():
    widths = [10, 10, 10]
    assert overlap((1, 1, 3, 11), (1, 1, 3, 11), widths) == 1.0
    assert overlap((1, 1, 1, 5), (2, 1, 2, 5), widths) == 0.0
    assert 0.0 < overlap((1, 5, 2, 5), (2, 1, 2, 5), widths) < 1.0


def test_table_and_mistakes_name_what_went_wrong():
    wrong = label(TEST, "truth", truth=False)
    missed = label(ITEM, "host-pull")
    scores = {
        "host-pull": Score(hits=3, misses=[missed]),
        "truth": Score(hits=1, false_alarms=[(wrong, "GRAPH-BREAK-003")]),
    }
    assert "0.750" in table(scores)
    assert mistakes(scores).splitlines() == [
        "host-pull: missed p f.py:1:10 (kind)",
        "truth: wrongly GRAPH-BREAK-003 at p f.py:1:4 (kind)",
    ]


# ---- drift and the linter's output


def test_drift_names_the_changed_line(tmp_path):
    (tmp_path / "f.py").write_text(LINE + "\n")
    check_drift([label(ITEM, "host-pull")], {"p": tmp_path})
    (tmp_path / "f.py").write_text("# new first line\n" + LINE + "\n")
    with pytest.raises(DriftError, match=r"p f\.py:1:10"):
        check_drift([label(ITEM, "host-pull")], {"p": tmp_path})
    with pytest.raises(DriftError):
        check_drift([label(ITEM, "host-pull")], {"p": tmp_path / "gone"})


@pytest.mark.parametrize("prefix", ["", "/tmp/corpus/", "../corpus/"])
def test_findings_are_grouped_by_package_and_file(prefix):
    entry = {
        "path": f"{prefix}p-1.0-wheel/p/f.py",
        "line": 1,
        "column": 2,
        "end_line": 3,
        "end_column": 4,
        "code": "GRAPH-BREAK-001",
    }
    grouped = group_findings([entry], {"p": Path("cache/p-1.0-wheel")})
    assert grouped == {("p", "p/f.py"): [Finding("GRAPH-BREAK-001", (1, 2, 3, 4))]}


def test_a_finding_outside_the_corpus_is_an_error():
    with pytest.raises(LinterError, match="elsewhere"):
        group_findings([{"path": "elsewhere/f.py"}], {"p": Path("cache/p-1.0-wheel")})


def test_a_site_without_a_truth_is_an_error(tmp_path):
    content = {"packages": {}, "sites": [dict(SITES[0], truth=None)]}
    (tmp_path / "labels.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match="unlabelled"):
        read_labels(tmp_path / "labels.json")
