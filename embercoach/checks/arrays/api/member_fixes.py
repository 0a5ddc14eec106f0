"""Fixes of API-002: calls of members that MLX's arrays lack, written as MLX has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.checks.registry import ProposedFix
from embercoach.checks.source_text import mlx_alias

if TYPE_CHECKING:
    from embercoach.analysis.project.module import Module

#: Placeholders of a pattern: the array, and the arguments.
_OWNER, _ARGUMENTS = "{x}", "{args}"


def member_fix(node: cst.Attribute, call: cst.Call, module: Module) -> ProposedFix | None:
    """Rewrite a call of a member: ``mx.expand_dims(x, 0)`` for ``x.unsqueeze(0)``."""
    from embercoach.analysis.mlx_api import replacements

    mx, owner = mlx_alias(module), node.value
    table = replacements.MEMBERS_WITH_ARGUMENTS if call.args else replacements.MEMBERS
    pattern = table.get(node.attr.value)
    simple = isinstance(owner, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
    if mx is None or not pattern or not simple or any(a.keyword or a.star for a in call.args):
        return None
    if node.attr.value == "expand" and len(call.args) == 1:
        return None  # a shape, or a size
    pattern = pattern.replace("{mx}", mx)
    code = module.parsed.code
    if "\n" in code(call):
        return _in_place(node, call, pattern, module)
    arguments = ", ".join(code(argument.value) for argument in call.args)
    text = pattern.format(x=code(owner), args=arguments)
    title = f"Write `{text}`" if len(text) < 40 else "Rewrite it"
    return ProposedFix(title, False, ((call, text),))


def _in_place(
    node: cst.Attribute, call: cst.Call, pattern: str, module: Module
) -> ProposedFix | None:
    """Change only what is around the array and the arguments, which keep their lines.

    None where a comment is in between.
    """
    whole, owner = module.parsed.bare_code(call), module.parsed.code(node.value)
    head, _, tail = whole[len(owner) :].partition("(")
    if "#" in whole[len(owner) :]:
        return None
    before, _, after = pattern.partition(_OWNER)
    start, end = len(owner), len(whole)
    if after.startswith("."):  # the dot keeps its line
        start += len(head) - len(head.lstrip(" \t\r\n\\"))
    middle, _, closing = after.partition(_ARGUMENTS)
    parts = [((0, 0), before)] if before else []
    if call.args:
        middle = middle.rstrip() if tail[:1].isspace() else middle
        parts.append(((start, end - len(tail)), middle))
        parts.append(((end - 1, end), closing))
    else:
        parts.append(((start, end), after))
    edits = tuple((call, call, span, text) for span, text in parts)
    return ProposedFix("Write it as MLX has it", False, (), parts=edits)
