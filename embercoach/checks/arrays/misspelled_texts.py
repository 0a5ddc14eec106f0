"""LOGIC-003: a text that is another one of the file, but for a slip in one word.

Keys, names of weights and filters are texts, so that nothing reports a misspelled one: it is equal
to no other, and the test or the lookup never succeeds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.dataflow.contents import contents_of
from embercoach.checks.registry import Report, check
from embercoach.terminal_text import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.facts import Fact

#: Letters that a word has at least where a slip is sought, and that a text has at most.
_SHORTEST, _LONGEST = 5, 40
#: Times that a file has the correct spelling at least.
_FREQUENT = 3


@check("LOGIC-003")
def misspelled_text(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``if "meessage_id" in message``, where all others are ``"message_id"``."""
    if module.is_test:
        return
    contents = contents_of(module.tree)
    texts: dict[str, list[cst.SimpleString]] = {}
    for node in contents.of(cst.SimpleString):
        text = node.value[1:-1]
        if _SHORTEST <= len(text) <= _LONGEST and text.replace(".", "_").isidentifier():
            texts.setdefault(text, []).append(node)
    alike: dict[str, list[str]] = {}
    for text in texts:
        alike.setdefault("".join(sorted(set(text))), []).append(text)
    source = module.source
    for group in alike.values():
        for text in group if len(group) > 1 else ():
            if len(texts[text]) > 1 or source.count(text) > 1:
                continue
            meant = [o for o in group if source.count(o) >= _FREQUENT and _is_slip(text, o)]
            node = texts[text][0]
            statement = contents.statement_of(node)
            is_listed = isinstance(contents.parent_of(node), (cst.Element, cst.DictElement))
            if len(meant) != 1 or is_listed:
                continue  # a table may have the names of a checkpoint as they are
            if any(one in contents_of(statement) for one in texts[meant[0]]):
                continue  # it replaces one spelling by the other
            yield Report.in_file(
                module,
                node,
                message=f"`{quoted(text, 24)}` stands here alone, and is misspelled",
                help=f"Did you mean `{quoted(meant[0], 40)}`?",
            )


def _is_slip(text: str, other: str) -> bool:
    """Return whether one word differs: two letters changed places, or one within it is missing."""
    words, others = (one.replace(".", "_").split("_") for one in (text, other))
    pairs = [pair for pair in zip(words, others, strict=False) if pair[0] != pair[1]]
    if len(words) != len(others) or len(pairs) != 1:
        return False
    one, two = sorted(pairs[0], key=len)
    if len(one) < _SHORTEST or not (one + two).isalpha():
        return False
    at = next((i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), len(one))
    if len(one) == len(two):
        return one[at : at + 2] == two[at : at + 2][::-1] and one[at + 2 :] == two[at + 2 :]
    return 0 < at < len(one) and one[at:] == two[at + 1 :]
