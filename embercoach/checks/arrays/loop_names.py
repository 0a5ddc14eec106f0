"""LOOP: names that a loop replaces, takes over, renews in part, or changes after they are used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import libcst as cst

from embercoach.analysis.dataflow.contents import Contents, bound_by, contents_of, root_name
from embercoach.analysis.dataflow.origins import Stop
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import DEFINITIONS, target_names
from embercoach.analysis.values.facts import Fact
from embercoach.checks.registry import Report, check
from embercoach.terminal_text import quoted

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


class _Part(NamedTuple):
    """A name that holds a part of a call's result: which call, and which part of it."""

    name: str
    part: str
    callee: str
    call: cst.Call
    statement: cst.Assign


@check("LOOP-001")
def stale_parts(module: Module, _: list[Fact]) -> Iterator[Report]:
    """``logits, hidden = model(x)``, and in a loop ``logits, _ = model(y)`` and ``hidden``."""
    for function in module.functions:
        body = function.node.body
        if not isinstance(body, cst.IndentedBlock):
            continue
        contents = contents_of(body, DEFINITIONS)
        loops = contents.of(cst.For, cst.While)
        if loops:
            parts = list(_parts(contents))
            for loop in loops:
                yield from _in_loop(loop, parts, contents, module)


def _in_loop(
    loop: cst.BaseCompoundStatement, parts: list[_Part], contents: Contents, module: Module
) -> Iterator[Report]:
    inside = contents_of(loop.body)
    if any(isinstance(node, (cst.For, cst.While)) for node in contents.above(loop)):
        return  # what an outer loop renews is renewed
    renewed = [part for part in parts if part.statement in inside]
    if not renewed:
        return
    bound = {name for one in inside.of(cst.Assign, cst.For) for name in bound_by(one)}
    bound |= {one.name.value for one in inside.of(cst.FunctionDef)}
    before = [part for part in parts if part.statement not in inside]
    for part in before:
        if part.name in bound or not inside.uses(part.name):
            continue
        for new in renewed:
            sibling = next(
                (
                    old
                    for old in before
                    if old.call is part.call
                    and (old.name, old.part, old.callee) == (new.name, new.part, new.callee)
                ),
                None,
            )
            if sibling is not None and new.call is not part.call:
                yield _stale(part, new, inside, module)
                break


def _stale(part: _Part, new: _Part, inside: Contents, module: Module) -> Report:
    read = inside.uses(part.name)[0]
    name, other = quoted(part.name, _LONGEST), quoted(new.name, _LONGEST)
    return Report.in_file(
        module,
        read,
        "LOOP-001",
        message=f"`{name}` is that of before the loop, which renews `{other}` alone",
        help=f"Assign `{name}` where the loop assigns `{other}`",
        related=(
            Stop(part.statement, part.statement, "both are parts of this result"),
            Stop(new.statement, new.statement, "the loop renews one of them here"),
        ),
    )


def _parts(contents: Contents) -> Iterator[_Part]:
    """Yield the names that hold parts of results: by unpacking, or as an attribute or an item."""
    results: dict[str, cst.Call] = {}
    for statement in contents.of(cst.Assign):
        target, value = statement.targets[0].target, statement.value
        if isinstance(value, cst.Call) and isinstance(target, cst.Name):
            results[target.value] = value
        elif isinstance(value, cst.Call) and isinstance(target, cst.Tuple):
            for index, element in enumerate(target.elements):
                if isinstance(element.value, cst.Name):
                    yield from _part(element.value.value, str(index), value, statement)
        elif isinstance(target, cst.Name):
            found = _taken(value)
            if found is not None and found[0] in results:
                yield from _part(target.value, found[1], results[found[0]], statement)


def _part(name: str, part: str, call: cst.Call, statement: cst.Assign) -> Iterator[_Part]:
    callee = last_name(call)
    if callee and name != "_":
        yield _Part(name, part, callee, call, statement)


def _taken(value: cst.BaseExpression) -> tuple[str, str] | None:
    """Return the name and the attribute or item of ``result.logits[:, -1]`` and ``result[0]``."""
    part: str | None = None
    while isinstance(value, (cst.Attribute, cst.Subscript)):
        if isinstance(value, cst.Attribute):
            part = value.attr.value
        elif len(value.slice) == 1 and isinstance(value.slice[0].slice, cst.Index):
            index = value.slice[0].slice.value
            part = index.value if isinstance(index, cst.Integer) else part
        value = value.value
    return (value.value, part) if part and isinstance(value, cst.Name) else None


#: Characters of a name that a message quotes.
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
    name = quoted(name, 20)
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
