"""Hovers: the pages of the findings at a place, and its kernel's signature."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach import rulebook
from embercoach.checks.programs.generated_signatures import MALFORMED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from embercoach.checks.programs.generated_signatures import WrittenKernel
    from embercoach.finding import Finding
    from embercoach.server.analysis import Checked
    from embercoach.server.wire import Hover

_SEPARATOR = "\n\n---\n\n"


def found_at(checked: Checked, line: int, column: int) -> list[Finding]:
    """The findings that a place lies in."""
    return [
        finding
        for finding in checked.result.findings
        if (finding.line, finding.column) <= (line, column)
        and (line, column) < (finding.end_line, finding.end_column)
    ]


def hover(
    checked: Checked, findings: Sequence[Finding], kernels: Sequence[WrittenKernel]
) -> Hover | None:
    """The pages of the findings' rules, and the heads of kernels, in Markdown."""
    parts = list(_pages(findings)) + [part for kernel in kernels for part in _heads(kernel)]
    if not parts:
        return None
    found: Hover = {"contents": {"kind": "markdown", "value": _SEPARATOR.join(parts)}}
    if findings:
        first = findings[0]
        found["range"] = checked.positions.between(
            first.line, first.column, first.end_line, first.end_column
        )
    return found


def signatures(kernels: Sequence[WrittenKernel]) -> str | None:
    """The heads of kernels in Markdown; None without kernels."""
    return _SEPARATOR.join(part for kernel in kernels for part in _heads(kernel)) or None


def _pages(findings: Sequence[Finding]) -> Iterator[str]:
    for code in dict.fromkeys(finding.code for finding in findings):
        yield rulebook.rule(code).page.rstrip()


def _heads(kernel: WrittenKernel) -> Iterator[str]:
    for caption, head in kernel.captions():
        yield f"{caption}\n\n```metal\n{head}\n{{ source }}\n```"
    if kernel.malformed:
        yield MALFORMED
