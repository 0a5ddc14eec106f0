"""Enumerate candidate sites of Python sources by syntax alone.

The accuracy measurement must not lean on the linter that it judges, so nothing here infers what a
value is: a site is a candidate because of its shape (`float(x)`, `if x:`, `x * 2`).
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from tests.accuracy.hints import CASTS, Names, Scope, calls_into, mentioned, rooted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

FAMILIES = ("host-pull", "truth", "scalar")

ELEMENTWISE = frozenset(
    {
        "add",
        "subtract",
        "multiply",
        "divide",
        "power",
        "maximum",
        "minimum",
        "clip",
        "remainder",
        "floor_divide",
        "logaddexp",
        "arctan2",
        "equal",
        "not_equal",
        "greater",
        "greater_equal",
        "less",
        "less_equal",
    }
)
SHAPED = frozenset(
    {
        "zeros",
        "ones",
        "full",
        "reshape",
        "broadcast_to",
        "arange",
        "repeat",
        "tile",
        "eye",
        "expand_dims",
    }
)
TRUTH_BUILTINS = frozenset({"max", "min", "sorted", "any", "all", "sum"})
NEVER_ARRAY_CALLS = frozenset({"isinstance", "issubclass", "hasattr", "callable"})
NAMED_PULLS = {"memoryview": "memoryview", "print": "print", "str": "format", "range": "range"}
OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
DISPLAYS = (ast.JoinedStr, ast.List, ast.Tuple, ast.Dict, ast.Set, *COMPREHENSIONS)
INTERPOLATED = (ast.Name, ast.Call, ast.Subscript, ast.Attribute)
SCRIPT_WORDS = ("test", "example", "bench", "script", "demo")

# A match is (kind, the expression that makes the site, what its hint is taken from).
Match = tuple[str, ast.expr, ast.AST]


@dataclass(frozen=True, slots=True)
class Site:
    """One candidate; lines and columns count from 1, columns in characters, the end exclusive.

    `element` says that a subscript is what it tests or compares, `number` that a numeric literal
    is one of its parts, `scaling` that it is an augmented `*=`, `/=` or `**=`.
    """

    package: str
    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    family: str
    kind: str
    hint: str
    script: bool
    element: bool = False
    number: bool = False
    scaling: bool = False

    @property
    def span(self) -> tuple[int, int, int, int]:
        """Return the place as (line, column, end line, end column)."""
        return (self.line, self.column, self.end_line, self.end_column)


def is_number(node: ast.AST) -> bool:
    """Tell whether `node` is a numeric literal, signed or not."""
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float, complex))


def is_plain(node: ast.AST) -> bool:
    """Tell whether `node` could be a Python number: literal, name, attribute or call."""
    if isinstance(node, ast.UnaryOp):
        return is_plain(node.operand)
    return is_number(node) or isinstance(node, (ast.Name, ast.Attribute, ast.Call))


def is_text_or_display(node: ast.AST) -> bool:
    """Tell whether `node` is a string, a list or another display that is no number."""
    if isinstance(node, ast.Constant):
        return not is_number(node)
    return isinstance(node, DISPLAYS)


def is_element(node: ast.AST) -> bool:
    """Tell whether `node` is a subscript, or the comparison of one."""
    left = node.left if isinstance(node, ast.Compare) else node
    return isinstance(left, ast.Subscript)


def never_array(test: ast.AST) -> bool:
    """Tell whether the truth of `test` is trivially not that of an array."""
    if isinstance(test, (ast.Constant, ast.Lambda)) or is_text_or_display(test):
        return True
    if isinstance(test, ast.Call):
        return isinstance(test.func, ast.Name) and test.func.id in NEVER_ARRAY_CALLS
    if isinstance(test, ast.Compare):
        if all(isinstance(op, (ast.Is, ast.IsNot)) for op in test.ops):
            return True
        sides = [test.left, *test.comparators]
        return any(is_text_or_display(side) for side in sides) or "__name__" in mentioned(test)
    return False


# ---- host pulls


def host_pulls(node: ast.AST, names: Names) -> Iterator[Match]:
    """Yield the sites where `node` may pull a value to the host."""
    if isinstance(node, ast.FormattedValue) and isinstance(node.value, INTERPOLATED):
        yield "format", node.value, node.value
    if not isinstance(node, ast.Call):
        return
    function = node.func
    if isinstance(function, ast.Attribute) and function.attr in ("item", "tolist"):
        if not node.args:
            yield function.attr, node, function.value
        return
    kind = _pull_kind(node, names)
    if kind:
        yield kind, node, ast.Tuple(elts=_arguments(node), ctx=ast.Load())
    yield from _shape_arguments(node, names)


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _pull_kind(call: ast.Call, names: Names) -> str | None:
    function = call.func
    if isinstance(function, ast.Attribute) and function.attr == "format":
        return "format" if _arguments(call) and rooted(function) not in names.numpy else None
    if not _arguments(call) or all(is_number(a) or is_text_or_display(a) for a in call.args):
        return None
    if isinstance(function, ast.Name):
        return "cast" if function.id in CASTS else NAMED_PULLS.get(function.id)
    if not isinstance(function, ast.Attribute):
        return None
    root = rooted(function)
    if root in names.numpy:
        return "numpy"
    if root in names.torch and function.attr in ("from_numpy", "tensor"):
        return "torch"
    if root in names.mlx and function.attr == "array" and call.args:
        return "round-trip" if calls_into(call.args[0], names.numpy) else None
    return None


def _shape_arguments(call: ast.Call, names: Names) -> Iterator[Match]:
    function = call.func
    if not isinstance(function, ast.Attribute) or function.attr not in SHAPED:
        return
    of_mlx = rooted(function) in names.mlx
    if not of_mlx and function.attr != "reshape":
        return
    for argument in call.args[1 if of_mlx and function.attr == "reshape" else 0 :]:
        inner = argument.elts if isinstance(argument, (ast.Tuple, ast.List)) else [argument]
        named = [part for part in inner if isinstance(part, (ast.Name, ast.Subscript, ast.Call))]
        if named and (len(inner) > 1 or isinstance(argument, ast.Tuple)):
            yield "shape", named[0], named[0]
            return


# ---- truth values


def truths(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the expressions whose truth value `node` takes, with the kind of each."""
    for kind, test in _tests(node):
        yield from _leaves(test, kind)
    if isinstance(node, ast.Compare) and not never_array(node):
        kind = _comparison_kind(node)
        if kind:
            yield kind, node
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        telling = bool(node.args) and not all(is_number(argument) for argument in node.args)
        if node.func.id in TRUTH_BUILTINS and telling:
            yield "builtin", node


def _tests(node: ast.AST) -> Iterable[tuple[str, ast.expr]]:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return [("not", node.operand)]
    if isinstance(node, ast.comprehension):
        return [("comprehension", test) for test in node.ifs]
    if isinstance(node, ast.BoolOp):
        # The last operand's truth is taken only where the whole is a test.
        return [("boolop", operand) for operand in node.values[:-1]]
    kinds = {ast.If: "if", ast.While: "while", ast.Assert: "assert", ast.IfExp: "ternary"}
    kind = kinds.get(type(node))
    return [(kind, node.test)] if kind else []  # type: ignore[attr-defined]


def _comparison_kind(node: ast.AST) -> str | None:
    if isinstance(node, ast.Compare):
        if len(node.ops) > 1:
            return "chain"
        if isinstance(node.ops[0], (ast.In, ast.NotIn)):
            return "in"
    return None


def _leaves(test: ast.expr, kind: str) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(test, ast.BoolOp):
        for operand in test.values:
            yield from _leaves(operand, kind)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _leaves(test.operand, "not")
    elif not never_array(test):
        yield _comparison_kind(test) or kind, test


# ---- scalars


def scalars(node: ast.AST, names: Names) -> Iterator[tuple[str, ast.expr]]:
    """Yield the arithmetic, calls and comparisons that may mix arrays and Python numbers."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, OPERATORS):
        if _mixes(node.left, node.right):
            yield "binop", node
    elif isinstance(node, ast.AugAssign) and isinstance(node.op, OPERATORS):
        if _mixes(node.target, node.value):
            # The whole statement is the place, as it is no expression of its own.
            whole = ast.Tuple(elts=[node.target, node.value], ctx=ast.Load())
            yield "augmented", ast.copy_location(whole, node)
    elif isinstance(node, ast.Call) and _is_elementwise(node, names):
        yield "call", node
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        sides = (node.left, node.comparators[0])
        comparable = isinstance(node.ops[0], COMPARISONS) and not any(
            map(is_text_or_display, sides)
        )
        if comparable and sum(map(is_number, sides)) == 1:
            yield "compare", node


def _is_elementwise(call: ast.Call, names: Names) -> bool:
    function = call.func
    if not isinstance(function, ast.Attribute) or function.attr not in ELEMENTWISE:
        return False
    plain = any(is_number(a) or isinstance(a, (ast.Name, ast.Attribute)) for a in call.args)
    return plain and rooted(function) in names.mlx


def _mixes(left: ast.AST, right: ast.AST) -> bool:
    if is_text_or_display(left) or is_text_or_display(right):
        return False
    if is_number(left) and is_number(right):
        return False
    return is_plain(left) or is_plain(right)


# ---- files


class Finder:
    """Walk one parsed file and yield its candidates."""

    def __init__(self, package: str, file: str, text: str) -> None:
        self.package = package
        self.file = file
        self.lines = text.splitlines()
        self.tree = ast.parse(text)
        self.names = Names.of(self.tree)
        self.script_file = any(
            word in part.lower() for part in PurePosixPath(file).parts for word in SCRIPT_WORDS
        )
        self.seen: set[tuple[str, tuple[int, int, int, int]]] = set()

    def sites(self) -> Iterator[Site]:
        """Yield the file's sites in source order of their statements, each place once a family."""
        yield from self._walk(self.tree, Scope(self.tree, self.names), top=True)

    def _walk(self, node: ast.AST, scope: Scope, *, top: bool) -> Iterator[Site]:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            scope, top = Scope(node, self.names), False
        elif isinstance(node, ast.ClassDef):
            top = False
        for family, (kind, place, subject) in self._matches(node):
            site = self._site(family, kind, place, scope.hint(subject), script=top)
            if kind == "augmented" and isinstance(node, ast.AugAssign):
                scaling = isinstance(node.op, (ast.Mult, ast.Div, ast.Pow))
                site = replace(site, scaling=scaling)
            if (family, site.span) not in self.seen:
                self.seen.add((family, site.span))
                yield site
        for child in ast.iter_child_nodes(node):
            yield from self._walk(child, scope, top=top)

    def _matches(self, node: ast.AST) -> Iterator[tuple[str, Match]]:
        for match in host_pulls(node, self.names):
            yield "host-pull", match
        for kind, place in truths(node):
            yield "truth", (kind, place, place)
        for kind, place in scalars(node, self.names):
            yield "scalar", (kind, place, place)

    def _site(self, family: str, kind: str, place: ast.expr, hint: str, *, script: bool) -> Site:
        end_line = place.end_lineno or place.lineno
        return Site(
            package=self.package,
            file=self.file,
            line=place.lineno,
            column=self._column(place.lineno, place.col_offset),
            end_line=end_line,
            end_column=self._column(end_line, place.end_col_offset or 0),
            family=family,
            kind=kind,
            hint=hint,
            script=script or self.script_file,
            element=is_element(place),
            number=any(is_number(side) for side in ast.iter_child_nodes(place)),
        )

    def _column(self, line: int, offset: int) -> int:
        # ast counts UTF-8 bytes, reports count characters.
        return len(self.lines[line - 1].encode()[:offset].decode()) + 1


def sites_of_file(package: str, root: Path, path: Path) -> list[Site]:
    """Return the candidates of one file under `root`, none where its bytes never mention mlx."""
    source = path.read_bytes()
    if b"mlx" not in source:
        return []
    file = path.relative_to(root).as_posix()
    return list(Finder(package, file, source.decode("utf-8-sig")).sites())


def sites_of_package(package: str, root: Path) -> list[Site]:
    """Return the candidates of an unpacked package, in order of path and statement."""
    paths = sorted(root.rglob("*.py"))
    return [site for path in paths for site in sites_of_file(package, root, path)]
