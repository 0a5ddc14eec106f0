"""LOOP-004: functions and generators that a loop keeps, and that read its variables later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.dataflow.contents import contents_of, root_name
from embercoach.analysis.syntax.trees import DEFINITIONS, target_names
from embercoach.checks.registry import Report, check
from embercoach.terminal_text import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.dataflow.contents import Contents
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.facts import Fact

#: Characters of a name that a message quotes.
_LONGEST = 20
#: Displays whose items outlive the iteration, with what is in between.
_HOLDS = (
    *(cst.Tuple, cst.List, cst.Set, cst.Element),
    *(cst.Dict, cst.DictElement, cst.IfExp),
)
#: Methods of containers that keep what they get.
_KEEPS = frozenset(("append", "appendleft", "add", "insert", "setdefault"))
_COLLECTS = frozenset(("list", "tuple", "set"))

_COMPREHENSIONS = (cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)

Late = cst.GeneratorExp | cst.Lambda | cst.FunctionDef


@check("LOOP-004")
def late_names(module: Module, _: list[Fact]) -> Iterator[Report]:
    """``[(cache.extract(i) for cache in caches) for i in rows]``."""
    outermost = [one.node.body for one in module.functions if one.outer is None]
    top = contents_of(module.tree, DEFINITIONS)
    reported: set[cst.CSTNode] = set()
    for contents in (top, *map(contents_of, outermost)):
        found: list[Late] = [*contents.of(cst.GeneratorExp), *contents.of(cst.Lambda)]
        found += [one for one in contents.of(cst.FunctionDef) if _loop_around(one, contents)]
        for late in found:
            read = _read_late(late)
            changing = (_changing(held, contents) & read for held in _kept(late, contents))
            names = next(filter(None, changing), None) if read else None
            if names and late not in reported:
                reported.add(late)
                yield _report(late, min(names), contents, module)


def _report(late: Late, name: str, contents: Contents, module: Module) -> Report:
    name = quoted(name, _LONGEST)
    is_generator = isinstance(late, cst.GeneratorExp)
    kind = "generator" if is_generator else "function"
    bound = f"Bind the value now: a parameter `{name}={name}`"
    return Report.in_file(
        module,
        late.name if isinstance(late, cst.FunctionDef) else late,
        "LOOP-004",
        message=f"this {kind} reads `{name}` after the loop: each gets its last value",
        help="Make a list of it" if is_generator else bound,
    )


def _read_late(late: Late) -> frozenset[str]:
    """Return the names of around that a function or generator reads when it runs."""
    if isinstance(late, cst.GeneratorExp):
        # The first iterable is evaluated at once.
        clause = late.for_in
        parts: list[cst.CSTNode] = [late.elt, *(test.test for test in clause.ifs)]
        bound = set(target_names(clause.target))
        if clause.inner_for_in is not None:
            parts.append(clause.inner_for_in)
    else:
        parts, bound = [late.body], set()
        bound.update(param.name.value for param in contents_of(late.params).of(cst.Param))
    names: set[str] = set()
    for part in parts:
        inside = contents_of(part)
        bound |= inside.stored
        bound.update(param.name.value for param in inside.of(cst.Param))
        names.update(name for name in inside.names if inside.uses(name) or name == _name(part))
    return frozenset(names - bound)


def _name(node: cst.CSTNode) -> str | None:
    return node.value if isinstance(node, cst.Name) else None


def _kept(late: Late, contents: Contents) -> Iterator[cst.CSTNode]:
    """Yield what may be kept of a function or generator: itself, or its name in the loop."""
    loop = _loop_around(late, contents)
    if isinstance(late, cst.FunctionDef):
        name = late.name.value if not late.decorators else None
    else:
        yield late
        statement = contents.parent_of(late)
        targets = statement.targets if isinstance(statement, cst.Assign) else ()
        name = _name(targets[0].target) if len(targets) == 1 else None
    if loop is None or name is None:
        return
    inside = contents_of(loop.body)
    uses = [use for use in inside.uses(name) if use not in inside.targets]
    # A generator that something else in the loop uses may be empty by then.
    if len(uses) == 1 or not isinstance(late, cst.GeneratorExp):
        yield from uses


def _loop_around(node: cst.CSTNode, contents: Contents) -> cst.For | None:
    """Return the innermost loop statement of the same function around a node."""
    for around in contents.above(node):
        if isinstance(around, (*DEFINITIONS, cst.While)):
            return None
        if isinstance(around, cst.For):
            return around
    return None


def _changing(held: cst.CSTNode, contents: Contents) -> frozenset[str]:
    """Return the names that later iterations change, of the loops that keep an expression."""
    names: set[str] = set()
    parent = contents.parent_of(held)
    while isinstance(parent, (*_HOLDS, *_COMPREHENSIONS)):
        if isinstance(parent, _COMPREHENSIONS):
            is_element = held in (getattr(parent, "elt", None), getattr(parent, "value", None))
            is_list = not isinstance(parent, cst.GeneratorExp) or _is_collected(parent, contents)
            if not is_element or not is_list:
                return frozenset(names)
            clause: cst.CompFor | None = parent.for_in
            while clause is not None:
                names.update(target_names(clause.target))
                clause = clause.inner_for_in
        held, parent = parent, contents.parent_of(parent)
    loop = _loop_around(held, contents)
    if loop is not None and _is_kept_by(held, parent, loop, contents):
        names.update(target_names(loop.target))
        names |= contents_of(loop.body).assigned
    return frozenset(names)


def _is_collected(outer: cst.GeneratorExp, contents: Contents) -> bool:
    argument = contents.parent_of(outer)
    call = contents.parent_of(argument) if isinstance(argument, cst.Arg) else None
    return isinstance(call, cst.Call) and _name(call.func) in _COLLECTS


def _is_kept_by(
    top: cst.CSTNode, parent: cst.CSTNode | None, loop: cst.For, contents: Contents
) -> bool:
    """Return whether a statement of a loop puts an expression where only code after it reads."""
    if isinstance(parent, cst.Arg):
        call = contents.parent_of(parent)
        func = call.func if isinstance(call, cst.Call) else None
        if not isinstance(func, cst.Attribute) or func.attr.value not in _KEEPS:
            return False
        owner: cst.BaseExpression = func.value
    elif isinstance(parent, cst.Assign) and len(parent.targets) == 1:
        target = parent.targets[0].target
        if not isinstance(target, (cst.Subscript, cst.Attribute)):
            return False
        owner = target.value
    else:
        return False
    name = root_name(owner)
    inside = contents_of(loop.body)
    if not name or name in inside.assigned:
        return False
    uses = [use for use in inside.uses(name) if use not in contents_of(owner) and use is not owner]
    return not uses and not _leaves_after(top, contents)


def _leaves_after(node: cst.CSTNode, contents: Contents) -> bool:
    """Return whether the loop ends after the statement of a node, in the same block."""
    line = next((a for a in contents.above(node) if isinstance(a, cst.SimpleStatementLine)), None)
    block = None if line is None else contents.parent_of(line)
    if line is None or not isinstance(block, cst.IndentedBlock):
        return False
    after = block.body[list(block.body).index(line) + 1 :]
    return any(contents_of(one).of(cst.Break, cst.Return, cst.Raise) for one in after)
