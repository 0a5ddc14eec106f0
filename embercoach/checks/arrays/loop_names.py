"""LOOP-002 and -003: dictionaries that iterations replace, and names that a loop takes over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.dataflow.contents import bound_by, contents_of
from embercoach.analysis.dataflow.origins import Stop
from embercoach.analysis.syntax.trees import DEFINITIONS, target_names
from embercoach.checks.registry import Report, check
from embercoach.terminal_text import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from embercoach.analysis.dataflow.contents import Contents
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.facts import Fact

#: Characters of a name that a message quotes.
_LONGEST = 24


@check("LOOP-002", "LOOP-003")
def names_of_loops(module: Module, _: list[Fact]) -> Iterator[Report]:
    """``for key in keys: out = {key: f(key)}``, and ``for x in xs`` over an ``x`` of before."""
    for function in module.functions:
        contents = contents_of(function.node.body, DEFINITIONS)
        for loop in contents.of(cst.For):
            block = contents.parent_of(loop)
            statements = block.body if isinstance(block, cst.IndentedBlock) else ()
            if loop not in statements:
                continue
            at = statements.index(loop)
            before, after = statements[:at], statements[at + 1 :]
            targets = frozenset(target_names(loop.target)) - {"_"}
            if after and targets:
                yield from _replaced(loop, targets, after, module)
                yield from _taken_over(loop, targets, before, after, module)


def _replaced(
    loop: cst.For,
    targets: frozenset[str],
    after: Sequence[cst.BaseStatement],
    module: Module,
) -> Iterator[Report]:
    """Report a dictionary with entries of one iteration, which is read after the loop alone."""
    inside = contents_of(loop.body)
    if inside.of(cst.Break):
        return
    for statement in inside.of(cst.Assign):
        target, value = statement.targets[0].target, statement.value
        if not isinstance(target, cst.Name) or not isinstance(value, cst.Dict):
            continue
        keys = (one.key for one in value.elements if isinstance(one, cst.DictElement))
        if not any(targets & contents_of(key).names for key in keys):
            continue
        if all(use is target for use in inside.uses(target.value)) and _is_read(
            target.value, after
        ):
            name = quoted(target.value, _LONGEST)
            yield Report.in_file(
                module,
                target,
                "LOOP-002",
                message=f"each iteration replaces `{name}`: only the last one's entries are left",
                help=f"Create `{name}` before the loop, and add entries: `{name}.update(...)`",
            )


def _taken_over(
    loop: cst.For,
    targets: frozenset[str],
    before: Sequence[cst.BaseStatement],
    after: Sequence[cst.BaseStatement],
    module: Module,
) -> Iterator[Report]:
    """Report a loop variable of the name of a result that the code after the loop reads."""
    for name in sorted(targets):
        made = next(
            (one for one in map(_assign, reversed(before)) if one and name in bound_by(one)), None
        )
        if made is None or not isinstance(made.value, cst.Call):
            continue
        if isinstance(made.targets[0].target, cst.Name) and _is_read(name, after):
            shown = quoted(name, _LONGEST)
            yield Report.in_file(
                module,
                loop.target,
                "LOOP-003",
                message=f"loop variable `{shown}` replaces a result that is used after the loop",
                help="Give the loop variable another name",
                related=(Stop(made, made, "the result is computed here"),),
            )


def _assign(statement: cst.BaseStatement) -> cst.Assign | None:
    line = statement.body if isinstance(statement, cst.SimpleStatementLine) else ()
    return next((one for one in line if isinstance(one, cst.Assign)), None)


def _is_read(name: str, statements: Sequence[cst.BaseStatement]) -> bool:
    """Return whether statements read a name before they bind it anew."""
    for statement in statements:
        contents: Contents = contents_of(statement)
        values = [one.value for one in contents.of(cst.Assign) if name in bound_by(one)]
        values += [one.iter for one in contents.of(cst.For) if name in bound_by(one)]
        if values:
            return any(contents_of(value).uses(name) or _is_name(value, name) for value in values)
        if contents.uses(name):
            return True
    return False


def _is_name(node: cst.BaseExpression, name: str) -> bool:
    return isinstance(node, cst.Name) and node.value == name
