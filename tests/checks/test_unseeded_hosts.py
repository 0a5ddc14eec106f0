"""RANDOM-007: a program that seeds `mx.random` alone."""

from __future__ import annotations

import pytest

from tests.checks.findings import codes

PROGRAM = """
import random
import numpy as np
from project import set_seed

def main(rows: list, seed: int):
    mx.random.seed(seed)
    BODY
    return mx.random.normal((2,))
"""


@pytest.mark.parametrize(
    ("body", "flagged"),
    [
        ("np.random.shuffle(rows)", True),
        ("random.shuffle(rows)", True),
        ("random.seed(seed)\n    random.shuffle(rows)", False),
        ("set_seed(seed)\n    random.shuffle(rows)", False),
        ("np.random.default_rng(seed).shuffle(rows)", False),
    ],
)
def test_generators_that_nothing_seeds(body: str, flagged: bool) -> None:
    assert bool(codes(PROGRAM.replace("BODY", body), "RANDOM-007")) is flagged
