"""The labels are complete, and the measurement counts each site once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.accuracy.corpus import LABELS
from tests.accuracy.evaluate import (
    DriftError,
    Finding,
    Label,
    LinterError,
    check_drift,
    group_findings,
    line_hash,
    read_labels,
    score,
)

CONTENT = json.loads(LABELS.read_text(encoding="utf-8"))
SITES = CONTENT["sites"]


def test_every_site_is_labelled_once_and_without_its_code():
    place = {"package", "file", "line", "column", "end_line", "end_column", "family"}
    assert {frozenset(site) for site in SITES} == {
        frozenset(place | {"kind", "script", "truth", "line_hash", "rivals"})
    }
    assert len({tuple(site[key] for key in sorted(place)) for site in SITES}) == len(SITES)
    assert {site["package"] for site in SITES} == set(CONTENT["packages"])
    truths = Counter((site["family"], site["truth"]) for site in SITES)
    for family in ("host-pull", "truth", "scalar"):
        assert truths[family, True] >= 50
        assert truths[family, False] >= 80


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
