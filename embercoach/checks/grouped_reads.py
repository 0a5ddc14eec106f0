"""Fixes of several pulls in a row: one ``mx.eval`` of all their arrays before the first.

Each pull of a lazy array waits for the GPU; the first ``mx.eval`` waits for all of them. The fixes
are unsafe: they evaluate arrays also where ``and`` or an exception would have prevented it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.calls.library import numpy_api
from embercoach.analysis.facts.contexts import was_evaluated
from embercoach.analysis.facts.facts import CallFact, TruthFact, calls_of
from embercoach.analysis.syntax.trees import dotted, names_below, statements_below, walk
from embercoach.analysis.values.joins import definite_array
from embercoach.analysis.values.lattice import BoundMember, Sequence
from embercoach.checks.read_syntax import COMPREHENSIONS, fresh, names_tested, parents, stored
from embercoach.checks.registry import ProposedFix
from embercoach.checks.source_text import mlx_alias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import Fact, FactPlace
    from embercoach.analysis.project.module import Module

CASTS = frozenset(("builtins.int", "builtins.float", "builtins.bool"))
#: Statements without a pull that may stand between two pulls of a group.
MOST_BETWEEN = 3
MOST_ARRAYS = 8
#: What an array's expression may consist of, so that it can be computed earlier.
_PURE = (
    *(cst.Name, cst.Attribute, cst.Subscript, cst.SubscriptElement, cst.Index, cst.Slice),
    *(cst.Call, cst.Arg, cst.BinaryOperation, cst.UnaryOperation, cst.Comparison),
    *(cst.ComparisonTarget, cst.Integer, cst.Float, cst.SimpleString, cst.Tuple, cst.List),
    *(cst.Element,),
)


@dataclass(frozen=True, slots=True)
class _Read:
    """A pull: the expression of its array, and the statement that it is in."""

    array: cst.BaseExpression
    place: FactPlace
    text: str
    is_path: bool


@dataclass(slots=True)
class _Group:
    """Pulls of one block whose arrays are all known before the statement ``first``."""

    first: cst.CSTNode
    reads: list[_Read] = field(default_factory=list)
    bound: set[str] = field(default_factory=set)
    is_quiet: bool = True
    between: int = 0

    def takes(self, read: _Read) -> bool:
        """Test whether a pull's array is the same before the group."""
        if self.bound.intersection(names_below(read.array)):
            return False
        has_attributes = any(isinstance(node, cst.Attribute) for node in walk(read.array))
        return self.is_quiet or not has_attributes


def grouped_fix(
    module: Module, function: FunctionInfo | None, array: cst.CSTNode
) -> ProposedFix | None:
    """Insert ``mx.eval(a, b)`` before ``a.item()`` and ``b.item()``.

    Args:
        module: the module of the pull.
        function: the function of the pull, None at module level.
        array: the expression of the pulled array.
    """
    return _fixes(module, function).get(array)


@lru_cache(maxsize=8)
def _fixes(module: Module, function: FunctionInfo | None) -> dict[cst.CSTNode, ProposedFix]:
    """The fix of each pull of a function that is in a group, by the array's expression."""
    reads: dict[cst.CSTNode, list[_Read]] = defaultdict(list)
    seen: set[cst.CSTNode] = set()
    for fact in module.facts_of(function):
        array = _array_of(fact)
        if array is not None and array not in seen:
            seen.add(array)
            read = _read(module, fact, array)
            if read is not None:
                reads[fact.place.statement].append(read)
    if sum(map(len, reads.values())) < 2 or mlx_alias(module) is None:
        return {}
    body = module.tree if function is None else function.node.body
    found: dict[cst.CSTNode, ProposedFix] = {}
    for block in _blocks(body):
        for group in _groups(module, block, reads):
            fix = _fix(module, group)
            if fix is not None:
                found.update((read.array, fix) for read in group.reads)
    return found


def _array_of(fact: Fact) -> cst.BaseExpression | None:
    """The expression of the array that a fact pulls."""
    if isinstance(fact, TruthFact):
        plain = fact.form not in ("chained", "comprehension", "while", "guard")
        return fact.node if plain and definite_array(fact.value) is not None else None
    if not isinstance(fact, CallFact) or fact.place.periodic:
        return None
    callee, name = fact.callee, fact.symbol
    if isinstance(callee, BoundMember):
        is_pull = callee.name in ("item", "tolist") and definite_array(callee.owner) is not None
        return fact.receiver_node if is_pull else None
    first = fact.positional(0)
    if name is None or first is None or definite_array(first.value) is None:
        return None
    is_pull = name in CASTS or (name.startswith("numpy.") and numpy_api.takes_data(name))
    return first.node if is_pull else None


def _read(module: Module, fact: Fact, array: cst.BaseExpression) -> _Read | None:
    """The pull of an array that is known before its statement, None for any other."""
    if was_evaluated(fact.place, array):
        return None
    root = _head(fact.place.statement, array)
    path = dotted(array)
    if root is None or not _runs_first(module, root, array):
        return None
    if path is None and not _is_pure(module, array):
        return None
    text = path or module.parsed.code(array)
    return None if "\n" in text else _Read(array, fact.place, text, path is not None)


def _head(statement: cst.CSTNode, array: cst.CSTNode) -> cst.CSTNode | None:
    """The part of a statement that runs once, before its bodies, and has the array."""
    if isinstance(statement, cst.BaseSmallStatement):
        return statement
    head = {cst.If: "test", cst.For: "iter"}.get(type(statement))
    root: cst.CSTNode | None = None if head is None else getattr(statement, head)
    return root if root is array or (root is not None and array in parents(root)) else None


def _runs_first(module: Module, root: cst.CSTNode, array: cst.CSTNode) -> bool:
    """Test whether a statement evaluates an expression once, with the names from before it."""
    above = parents(root)
    node = array
    names = set(names_below(array))
    while node in above:
        node, below = above[node], node
        if isinstance(node, (cst.Lambda, cst.NamedExpr)):
            return False
        if isinstance(node, cst.IfExp) and below is not node.test:
            return False
        if isinstance(node, cst.CompFor) and below is not node.iter:
            return False
        if isinstance(node, COMPREHENSIONS) and below is not node.for_in:
            return False
        if isinstance(node, cst.CompFor) and isinstance(above.get(node), cst.CompFor):
            return False  # of an inner ``for`` clause
        if (
            isinstance(node, cst.BooleanOperation)
            and below is node.right
            and names & names_tested(root)
            and not _computes(module, node.left)
        ):
            return False
        if isinstance(node, cst.Comparison) and len(node.comparisons) > 1:
            return False
    return True


def _computes(module: Module, node: cst.BaseExpression) -> bool:
    """Test whether MLX computes an operand: it doesn't guard the next one, as a type test does."""
    return _is_pure(module, node) and any(isinstance(part, cst.Call) for part in walk(node))


def _is_pure(module: Module, array: cst.BaseExpression) -> bool:
    """Test whether an expression only calls MLX, and neither draws numbers nor communicates."""
    calls = calls_of(module)
    for node in walk(array):
        if not isinstance(node, _PURE):
            return False
        if isinstance(node, cst.Call):
            fact = calls.get(node)
            if fact is None:
                return False
            symbol = fact.symbol or ""
            is_method = fact.array is not None and fact.entry is not None
            is_function = symbol.startswith("mlx.core.") and symbol.count(".") == 2
            if not is_function and not (is_method and symbol == ""):
                return False
            if isinstance(fact.callee, BoundMember) and fact.callee.name in ("item", "tolist"):
                return False
    return True


def _blocks(body: cst.CSTNode) -> Iterator[list[cst.CSTNode]]:
    """The statements of each block of a function, in order."""
    for node in statements_below(body):
        if isinstance(node, (cst.IndentedBlock, cst.Module)):
            block: list[cst.CSTNode] = []
            for statement in node.body:
                if isinstance(statement, cst.SimpleStatementLine):
                    block.extend(statement.body)
                else:
                    block.append(statement)
            yield block


def _groups(
    module: Module, block: list[cst.CSTNode], reads: dict[cst.CSTNode, list[_Read]]
) -> Iterator[_Group]:
    """Pulls that follow each other and don't depend on each other."""
    group: _Group | None = None
    for statement in block:
        here = reads.get(statement, [])
        if group is not None and here:
            is_full = len(group.reads) + len(here) > MOST_ARRAYS
            if is_full or not all(map(group.takes, here)):
                yield group
                group = None
        if here:
            if group is None:
                group = _Group(statement)
            group.reads += here
            group.between = 0
        if group is None:
            continue
        group.between += not here
        if not isinstance(statement, cst.BaseSmallStatement) or group.between > MOST_BETWEEN:
            yield group
            group = None
        else:
            group.bound |= stored(statement)
            group.is_quiet = group.is_quiet and _is_quiet(module, statement)
    if group is not None:
        yield group


def _is_quiet(module: Module, statement: cst.CSTNode) -> bool:
    """Test whether no call of a statement may change an attribute."""
    calls = calls_of(module)
    for node in walk(statement):
        if isinstance(node, cst.Call):
            fact = calls.get(node)
            if fact is None:
                return False
            owner = fact.callee.owner if isinstance(fact.callee, BoundMember) else None
            is_own = isinstance(owner, Sequence) or fact.array is not None
            if fact.symbol is None and not is_own:
                return False
    return True


def _fix(module: Module, group: _Group) -> ProposedFix | None:
    mx = mlx_alias(module)
    texts = list(dict.fromkeys(read.text for read in group.reads))
    if mx is None or not 2 <= len(texts) <= MOST_ARRAYS:
        return None
    lines: list[tuple[cst.CSTNode, str]] = []
    names: dict[str, str] = {}
    for read in group.reads:
        if read.text in names:
            continue
        if read.is_path:
            names[read.text] = read.text
            continue
        name = _name(module, read, names.values())
        if name is None:
            return None
        names[read.text] = name
        lines.append((group.first, f"{name} = {read.text}"))
    lines.append((group.first, f"{mx}.eval({', '.join(names.values())})"))
    edits = [(read.array, names[read.text]) for read in group.reads if not read.is_path]
    return ProposedFix("Evaluate the arrays at once", False, tuple(edits), tuple(lines))


def _name(module: Module, read: _Read, taken: Iterable[str]) -> str | None:
    """A new name for an array, after what its value is assigned to, or what it is made of."""
    statement = read.place.statement
    stem = next((n for n in names_below(read.array) if n != mlx_alias(module)), "one")
    if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
        target = statement.targets[0].target
        stem = target.value if isinstance(target, cst.Name) else stem
    names = (f"{stem}_array", *(f"{stem}_array_{n}" for n in range(2, MOST_ARRAYS + 1)))
    return next((name for name in names if name not in taken and fresh(module, name)), None)
