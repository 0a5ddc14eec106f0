"""The policy of severities: from a rule's own severity, the context of a finding and the profile.

docs/rules.md shows the same table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embercoach.finding import Severity

PROFILES = ("recommended", "ember")
#: Where a finding stands.
CONTEXTS = (
    "compiled",  # in a function that mx.compile or mx.vmap traces: it raises
    "differentiated",  # the value flows into a differentiated result: the gradient is lost
    "avoidable",  # it costs time in every iteration, forward pass or call, and its help saves that
    "minor",  # it costs time once, or nothing saves it
    "test",
    "benchmark",
    "default",  # the place makes no difference
)
_FAILING: dict[str, Severity] = {"compiled": "error", "differentiated": "error"}


def severities(
    own: Severity, ember: Severity, *, costs: bool, is_checked_in_tests: bool
) -> dict[str, dict[str, Severity]]:
    """The severities of a rule by profile, and by the contexts that differ from ``default``.

    Args:
        own: the rule's severity in the profile `recommended`.
        ember: its severity in the profile `ember`.
        costs: the harm is time or memory alone, except where the program fails.
        is_checked_in_tests: findings in tests, and warnings in benchmarks, are as severe as others.
    """
    common: dict[str, Severity] = {}
    if costs:
        common |= {**_FAILING, "test": "note", "benchmark": "note"}
    elif not is_checked_in_tests:
        common["test"] = "note"
        if own == "warning":  # the numbers of a benchmark are filler
            common["benchmark"] = "note"
    minor: dict[str, Severity] = {"minor": "note"} if costs else {}
    return {
        "recommended": {"default": own, **common, **minor},
        "ember": {"default": ember, **common},
    }
