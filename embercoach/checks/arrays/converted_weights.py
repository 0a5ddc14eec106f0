"""WEIGHTS-001: ``sanitize`` changes the layout of weights that it has changed before."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import libcst as cst

from embercoach.analysis.dataflow.contents import Contents, bound_by, contents_of, root_name
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.project.module import Module
from embercoach.analysis.values.facts import Fact
from embercoach.checks.registry import Report, check

_SAVES = ("save_safetensors", "save_weights")
#: Folders up where ``convert`` may be: ``mlx_audio/convert.py`` of ``mlx_audio/stt/models/x/y.py``.
_MOST_LEVELS = 8
_MOVES = frozenset(("transpose", "swapaxes", "moveaxis"))
#: What a test may ask of a name or a rank without a look at the sizes.
_ASKED = frozenset(("any", "all", "len", "startswith", "endswith", "split", "lower"))


class _Loop(NamedTuple):
    """A loop over the weights: the names of a key and its value, and what is derived of the key."""

    keys: frozenset[str]
    value: str
    body: Contents


@check("WEIGHTS-001")
def weights_changed_again(module: Module, _: list[Fact]) -> Iterator[Report]:
    """``if "conv" in k: v = v.transpose(0, 2, 1)`` and ``out[k] = v`` in ``sanitize``."""
    sanitizing = [function for function in module.functions if "sanitize" in function.name]
    if not sanitizing or not _is_loaded_again(module):
        return
    for function in sanitizing:
        contents = contents_of(function.node.body)
        if len(contents.of(cst.Return)) > 1:
            continue  # one of them may be for converted weights
        literals = frozenset(
            name
            for name in contents.assigned
            if (values := contents.values_of({name})) and all(map(_is_literal, values))
        )
        for loop in contents.of(cst.For):
            over = _over_weights(loop, literals)
            if over is None or any(isinstance(a, cst.If) for a in contents.above(loop)):
                continue
            again = (
                change
                for change, key in _changes(over)
                if _depends_on_name_alone(change, _known_by(key, literals, over), over)
            )
            first = next(again, None)
            if first is not None:
                yield _again(first, module)
                break


def _is_loaded_again(module: Module) -> bool:
    """Return whether converted weights are saved: by the file, or by ``convert`` of its package."""
    find, probed = module.project.resolve, module.dependencies
    return any(name in module.source for name in _SAVES) or any(
        find(module.path, "convert", level, probed) for level in range(2, _MOST_LEVELS)
    )


def _over_weights(loop: cst.For, literals: frozenset[str]) -> _Loop | None:
    names = loop.target.elements if isinstance(loop.target, cst.Tuple) else ()
    key, value = (e.value for e in names) if len(names) == 2 else (None, None)
    if not (isinstance(key, cst.Name) and isinstance(value, cst.Name)):
        return None
    if not isinstance(loop.iter, cst.Call) or last_name(loop.iter) != "items":
        return None
    body = contents_of(loop.body)
    keys = _derived({key.value} | literals, body, value.value) - literals
    return _Loop(keys, value.value, body)


def _derived(known: AbstractSet[str], body: Contents, value: str) -> frozenset[str]:
    """Return some names, and those that a body computes of nothing else, in the order of names."""
    names = {*known}
    for name in sorted(body.assigned - {value}):
        values = body.values_of({name})
        if values and all(_roots(one) <= {*names, name} for one in values):
            names.add(name)
    return frozenset(names)


def _known_by(key: str, literals: frozenset[str], loop: _Loop) -> frozenset[str]:
    """Return the names that have the same value when the key comes back."""
    return _derived({key} | literals, loop.body, loop.value) | {loop.value}


def _roots(node: cst.CSTNode) -> set[str]:
    """Return the names that an expression reads, but for functions that change no answer."""
    contents = contents_of(node)
    bound = {root_name(target) for target in contents.targets}
    return {name for name in contents.names if contents.uses(name)} - _ASKED - bound


def _is_literal(value: cst.BaseExpression) -> bool:
    return isinstance(value, (cst.Tuple, cst.List, cst.Set)) and not _roots(value)


def _changes(loop: _Loop) -> Iterator[tuple[cst.BaseExpression, str]]:
    """Yield the changes of a value's layout that are stored by a name of the key."""
    for change in (*loop.body.calls, *loop.body.of(cst.BinaryOperation)):
        if not _changes_layout(change, loop.value):
            continue
        statement = loop.body.statement_of(change)
        around = loop.body.parent_of(change)
        if not isinstance(around, (cst.Assign, cst.IfExp)):
            continue  # what follows may give it another rank
        stores = _stores(loop) if _rebinds(statement, loop.value) else [statement]
        keys = {_key_of(store, loop) for store in stores}
        key = keys.pop() if len(keys) == 1 else None
        if key is not None:
            yield change, key


def _changes_layout(node: cst.BaseExpression, value: str) -> bool:
    if isinstance(node, cst.BinaryOperation):
        one = node.right
        added = isinstance(one, (cst.Integer, cst.Float)) and isinstance(node.operator, cst.Add)
        return added and isinstance(node.left, cst.Name) and node.left.value == value
    if not isinstance(node, cst.Call) or last_name(node) not in _MOVES:
        return False
    func = node.func
    owner = func.value if isinstance(func, cst.Attribute) else None
    moved = node.args[0].value if node.args and root_name(func) == "mx" else owner
    return isinstance(moved, cst.Name) and moved.value == value


def _rebinds(statement: cst.CSTNode, value: str) -> bool:
    return isinstance(statement, cst.Assign) and any(
        isinstance(one.target, cst.Name) and one.target.value == value for one in statement.targets
    )


def _stores(loop: _Loop) -> list[cst.Assign]:
    """Return the statements that store the value as it is."""
    return [
        one
        for one in loop.body.of(cst.Assign)
        if isinstance(one.value, cst.Name)
        and one.value.value == loop.value
        and isinstance(one.targets[0].target, cst.Subscript)
    ]


def _key_of(store: cst.CSTNode, loop: _Loop) -> str | None:
    """Return the name by which a statement stores a value; None for other keys."""
    target = store.targets[0].target if isinstance(store, cst.Assign) else None
    if not isinstance(target, cst.Subscript) or len(target.slice) != 1:
        return None
    index = target.slice[0].slice
    key = index.value if isinstance(index, cst.Index) else None
    return key.value if isinstance(key, cst.Name) and key.value in loop.keys else None


def _depends_on_name_alone(change: cst.CSTNode, known: frozenset[str], loop: _Loop) -> bool:
    """Return whether nothing but some names and the rank of the value decide about a change."""
    body = loop.body
    ends = (test for one in _ends_that_store(body) for test in _tests_of(one, body))
    tests = [*_tests_of(change, body)]
    return (
        all(_asks_for(test, known | loop.keys, loop) for test in ends)
        and all(_asks_for(test, known, loop) for test in tests)
        and not any(_is_renamed_after(test, loop) for test in tests)
    )


def _ends_that_store(body: Contents) -> Iterator[cst.Continue]:
    """Yield the ends of an iteration before which a value is stored in another way."""
    for leave in body.of(cst.Continue):
        block = next((one for one in body.above(leave) if isinstance(one, cst.If)), leave)
        if any(isinstance(one, cst.Subscript) for one in contents_of(block).targets):
            yield leave


def _tests_of(node: cst.CSTNode, body: Contents) -> Iterator[cst.BaseExpression]:
    """Yield the tests that decide whether a node is reached."""
    inner = node
    for outer in body.above(node):
        if isinstance(outer, (cst.If, cst.IfExp)) and inner is not outer.test:
            yield outer.test
        inner = outer


def _asks_for(test: cst.CSTNode, names: frozenset[str], loop: _Loop) -> bool:
    inside = contents_of(test)
    return _roots(test) <= names and all(_is_rank(u, inside) for u in inside.uses(loop.value))


def _is_renamed_after(test: cst.CSTNode, loop: _Loop) -> bool:
    """Return whether what a test finds in a key is replaced before the value is stored by it."""
    order = loop.body.of(cst.Assign, cst.If, cst.IfExp)
    at = next(i for i, one in enumerate(order) if getattr(one, "test", None) is test)
    asked = contents_of(test)
    sought = {text.raw_value for text in asked.of(cst.SimpleString)}
    for one in order[at:]:
        if not isinstance(one, cst.Assign) or asked.names.isdisjoint(
            set(bound_by(one)) & loop.keys
        ):
            continue
        gone = {text.raw_value for text in contents_of(one.value).of(cst.SimpleString)}
        if last_name(one.value) != "replace" or any(a in b or b in a for a in gone for b in sought):
            return True
    return False


def _is_rank(use: cst.Name, inside: Contents) -> bool:
    """Return whether a test reads the value's rank: ``v.ndim`` or ``len(v.shape)``."""
    parent = inside.parent_of(use)
    name = parent.attr.value if isinstance(parent, cst.Attribute) else ""
    around = [one for one in inside.above(use) if isinstance(one, cst.Call)]
    return name == "ndim" or (name == "shape" and bool(around) and last_name(around[0]) == "len")


def _again(change: cst.BaseExpression, module: Module) -> Report:
    what = "adds to" if isinstance(change, cst.BinaryOperation) else "transposes"
    return Report.in_file(
        module,
        change,
        "WEIGHTS-001",
        message=f"`sanitize` {what} weights that a converted checkpoint has in this form",
        help="Test the shape or the layout too: converted weights come back when they are loaded",
        context=None,
    )
