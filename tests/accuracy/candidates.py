"""Enumerate candidate sites of Python sources by syntax alone.

The accuracy measurement must not lean on the linter it judges, so nothing here infers what a
value is: a site is a candidate because of its shape (`float(x)`, `if x:`, `x * 2`), and its hint
is a cheap guess used only to balance the sample.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

FAMILIES = ("host-pull", "truth", "scalar")
HINTS = ("direct", "assigned", "passed", "reduced", "pulled", "none", "meta")

ELEMENTWISE = frozenset(
    "add subtract multiply divide power maximum minimum clip remainder floor_divide logaddexp "
    "arctan2 equal not_equal greater greater_equal less less_equal".split()
)
SHAPED = frozenset(
    "zeros ones full random_normal reshape broadcast_to arange repeat tile eye expand_dims".split()
)
CASTS = frozenset({"float", "int", "bool", "complex"})
TRUTH_BUILTINS = frozenset({"max", "min", "sorted", "any", "all", "sum"})
NEVER_ARRAY_CALLS = frozenset({"isinstance", "issubclass", "hasattr", "callable"})
METADATA = frozenset({"shape", "ndim", "size", "dtype", "nbytes", "itemsize"})
HOST_QUESTIONS = frozenset(
    "len is_available default_device rank init device_info get_active_memory get_peak_memory "
    "get_cache_memory hasattr isinstance".split()
)
REDUCTIONS = frozenset("all any allclose array_equal max min sum mean isnan abs norm".split())
NAMED_PULLS = {"memoryview": "memoryview", "print": "print", "str": "format", "range": "range"}
OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
SCRIPT_WORDS = ("test", "example", "bench", "script", "demo")


@dataclass(frozen=True, slots=True)
class Site:
    """One candidate; lines and columns count from 1, columns in characters, the end exclusive."""

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

    @property
    def span(self) -> tuple[int, int, int, int]:
        """Return the place as (line, column, end line, end column)."""
        return (self.line, self.column, self.end_line, self.end_column)


@dataclass(slots=True)
class Names:
    """What the imports of a file call MLX, NumPy and PyTorch."""

    mlx: set[str] = field(default_factory=set)
    numpy: set[str] = field(default_factory=set)
    torch: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, tree: ast.AST) -> Names:
        """Collect the names that any import statement of `tree` binds."""
        names = cls()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    names._add(alias.name, alias.asname or alias.name.partition(".")[0])
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    names._add(node.module, alias.asname or alias.name)
        return names

    def _add(self, module: str, bound: str) -> None:
        root = module.partition(".")[0]
        if root in ("mlx", "numpy", "torch"):
            getattr(self, root).add(bound)


def rooted(node: ast.AST) -> str | None:
    """Return the name at the root of a dotted expression, `mx` for `mx.random.normal`."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def mentioned(node: ast.AST) -> set[str]:
    """Return every plain or dotted name in `node`, `self.scale` as well as `self`."""
    found: set[str] = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            found.add(inner.id)
        elif isinstance(inner, ast.Attribute) and rooted(inner):
            found.add(ast.unparse(inner))
    return found


def calls_into(node: ast.AST, roots: set[str]) -> bool:
    """Tell whether `node` holds a call of something that lives under one of `roots`."""
    return any(
        isinstance(inner, ast.Call) and rooted(inner.func) in roots for inner in ast.walk(node)
    )


def called_name(call: ast.Call) -> str:
    """Return the last name of what `call` calls, `item` for `x.sum().item()`, else nothing."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


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
    shown = (ast.JoinedStr, ast.List, ast.Tuple, ast.Dict, ast.Set, *COMPREHENSIONS)
    return isinstance(node, shown)


def never_array(test: ast.AST) -> bool:
    """Tell whether the truth of `test` is trivially not that of an array."""
    if isinstance(test, (ast.Constant, ast.JoinedStr, ast.Lambda)) or is_text_or_display(test):
        return True
    if isinstance(test, ast.Call):
        return isinstance(test.func, ast.Name) and test.func.id in NEVER_ARRAY_CALLS
    if isinstance(test, ast.Compare):
        if all(isinstance(op, (ast.Is, ast.IsNot)) for op in test.ops):
            return True
        sides = [test.left, *test.comparators]
        return any(is_text_or_display(side) for side in sides) or "__name__" in mentioned(test)
    return False


class Scope:
    """The cheap hints of one function or module body."""

    def __init__(self, body: ast.AST, names: Names) -> None:
        self.names = names
        self.assigned: set[str] = set()
        self.passed: set[str] = set()
        self._annotations(body)
        for _ in range(2):
            self._assignments(body)
        for node in ast.walk(body):
            if isinstance(node, ast.Call) and rooted(node.func) in names.mlx:
                for argument in node.args:
                    if isinstance(argument, (ast.Name, ast.Attribute)):
                        self.passed.add(ast.unparse(argument))

    def _annotations(self, body: ast.AST) -> None:
        if isinstance(body, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for argument in (*body.args.posonlyargs, *body.args.args, *body.args.kwonlyargs):
                if argument.annotation and "array" in ast.unparse(argument.annotation):
                    self.assigned.add(argument.arg)

    def _assignments(self, body: ast.AST) -> None:
        for node in ast.walk(body):
            if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and node.value:
                if self.hint(node.value) in ("direct", "assigned"):
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    for target in targets:
                        self._bind(target)

    def _bind(self, target: ast.AST) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            for inner in target.elts:
                self._bind(inner)
        elif isinstance(target, (ast.Name, ast.Attribute)):
            self.assigned.add(ast.unparse(target))

    def hint(self, node: ast.AST) -> str:
        """Guess from syntax how likely `node` is to be an array; see `HINTS`."""
        called = {called_name(inner) for inner in ast.walk(node) if isinstance(inner, ast.Call)}
        metadata = any(
            isinstance(inner, ast.Attribute) and inner.attr in METADATA for inner in ast.walk(node)
        )
        if metadata or called & HOST_QUESTIONS:
            return "meta"
        if called & (CASTS | {"item", "tolist"}) or calls_into(node, self.names.numpy):
            return "pulled"
        if calls_into(node, self.names.mlx):
            return "direct"
        held = mentioned(node)
        if held & self.assigned:
            return "assigned"
        if self._reduces(node):
            return "reduced"
        return "passed" if held & self.passed else "none"


    def _reduces(self, node: ast.AST) -> bool:
        # A builtin max(...) says nothing; a method x.max() is an array's, whosever array it is.
        return any(
            isinstance(inner, ast.Call)
            and isinstance(inner.func, ast.Attribute)
            and inner.func.attr in REDUCTIONS
            for inner in ast.walk(node)
        )


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

    def _walk(self, node: ast.AST, scope: Scope, top: bool) -> Iterator[Site]:
        if isinstance(node, FUNCTIONS) and not isinstance(node, ast.Lambda):
            scope, top = Scope(node, self.names), False
        elif isinstance(node, ast.ClassDef):
            top = False
        for family, kind, place, subject in self._matches(node):
            site = self._site(family, kind, place, scope.hint(subject), top)
            if (family, site.span) not in self.seen:
                self.seen.add((family, site.span))
                yield site
        for child in ast.iter_child_nodes(node):
            yield from self._walk(child, scope, top)

    def _matches(self, node: ast.AST) -> Iterator[tuple[str, str, ast.expr, ast.AST]]:
        for kind, place, subject in self._host_pulls(node):
            yield "host-pull", kind, place, subject
        for kind, place in self._truths(node):
            yield "truth", kind, place, place
        for kind, place in self._scalars(node):
            yield "scalar", kind, place, place

    def _site(self, family: str, kind: str, place: ast.expr, hint: str, top: bool) -> Site:
        assert place.end_lineno is not None and place.end_col_offset is not None
        return Site(
            package=self.package,
            file=self.file,
            line=place.lineno,
            column=self._column(place.lineno, place.col_offset),
            end_line=place.end_lineno,
            end_column=self._column(place.end_lineno, place.end_col_offset),
            family=family,
            kind=kind,
            hint=hint,
            script=top or self.script_file,
        )

    def _column(self, line: int, offset: int) -> int:
        # ast counts UTF-8 bytes, reports count characters.
        return len(self.lines[line - 1].encode()[:offset].decode()) + 1

    # ---- host pulls

    def _host_pulls(self, node: ast.AST) -> Iterator[tuple[str, ast.expr, ast.AST]]:
        if isinstance(node, ast.FormattedValue):
            if isinstance(node.value, (ast.Name, ast.Call, ast.Subscript, ast.Attribute)):
                yield "format", node.value, node.value
        if not isinstance(node, ast.Call):
            return
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr in ("item", "tolist"):
            if not node.args:
                yield function.attr, node, function.value
            return
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        subject = ast.Tuple(elts=arguments, ctx=ast.Load())
        if not arguments or all(is_number(a) or is_text_or_display(a) for a in node.args):
            if not (isinstance(function, ast.Attribute) and function.attr == "format"):
                yield from self._shapes(node)
                return
        if isinstance(function, ast.Name):
            kind = self._named_pull(function.id)
            if kind:
                yield kind, node, subject
        elif isinstance(function, ast.Attribute):
            root = rooted(function)
            if root in self.names.numpy:
                yield "numpy", node, subject
            elif root in self.names.torch and function.attr in ("from_numpy", "tensor"):
                yield "torch", node, subject
            elif root in self.names.mlx and function.attr == "array":
                if calls_into(node.args[0], self.names.numpy) if node.args else False:
                    yield "round-trip", node, subject
            elif function.attr == "format" and arguments:
                yield "format", node, subject
        yield from self._shapes(node)

    def _named_pull(self, name: str) -> str | None:
        if name in CASTS:
            return "cast"
        return NAMED_PULLS.get(name)

    def _shapes(self, node: ast.Call) -> Iterator[tuple[str, ast.expr, ast.AST]]:
        if not isinstance(node.func, ast.Attribute) or node.func.attr not in SHAPED:
            return
        if rooted(node.func) not in self.names.mlx and node.func.attr != "reshape":
            return
        first = 1 if rooted(node.func) in self.names.mlx and node.func.attr == "reshape" else 0
        for argument in node.args[first:]:
            inner = argument.elts if isinstance(argument, (ast.Tuple, ast.List)) else [argument]
            named = [e for e in inner if isinstance(e, (ast.Name, ast.Subscript, ast.Call))]
            if named and (len(inner) > 1 or isinstance(argument, ast.Tuple)):
                yield "shape", named[0], named[0]
                return

    # ---- truth values

    def _truths(self, node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
        if isinstance(node, ast.If):
            yield from self._leaves(node.test, "if")
        elif isinstance(node, ast.While):
            yield from self._leaves(node.test, "while")
        elif isinstance(node, ast.Assert):
            yield from self._leaves(node.test, "assert")
        elif isinstance(node, ast.IfExp):
            yield from self._leaves(node.test, "ternary")
        elif isinstance(node, ast.comprehension):
            for test in node.ifs:
                yield from self._leaves(test, "comprehension")
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield from self._leaves(node.operand, "not")
        elif isinstance(node, ast.BoolOp):
            # The last operand's truth is taken only where the whole is a test.
            for operand in node.values[:-1]:
                yield from self._leaves(operand, "boolop")
        elif isinstance(node, ast.Compare) and not never_array(node):
            if len(node.ops) > 1:
                yield "chain", node
            elif isinstance(node.ops[0], (ast.In, ast.NotIn)):
                yield "in", node
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in TRUTH_BUILTINS and node.args:
                if not all(is_number(argument) for argument in node.args):
                    yield "builtin", node

    def _leaves(self, test: ast.expr, kind: str) -> Iterator[tuple[str, ast.expr]]:
        if isinstance(test, ast.BoolOp):
            for operand in test.values:
                yield from self._leaves(operand, kind)
        elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            yield from self._leaves(test.operand, "not")
        elif not never_array(test):
            if isinstance(test, ast.Compare) and len(test.ops) > 1:
                kind = "chain"
            elif isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.In, ast.NotIn)):
                kind = "in"
            yield kind, test

    # ---- scalars

    def _scalars(self, node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
        if isinstance(node, ast.BinOp) and isinstance(node.op, OPERATORS):
            if self._arithmetic(node.left, node.right):
                yield "binop", node
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, OPERATORS):
            if self._arithmetic(node.target, node.value):
                # The whole statement is the place, as it is no expression of its own.
                yield "augmented", _spanning(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ELEMENTWISE and rooted(node.func) in self.names.mlx:
                if any(is_number(a) or isinstance(a, (ast.Name, ast.Attribute)) for a in node.args):
                    yield "call", node
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            sides = (node.left, node.comparators[0])
            if isinstance(node.ops[0], COMPARISONS) and sum(map(is_number, sides)) == 1:
                if not any(map(is_text_or_display, sides)):
                    yield "compare", node

    def _arithmetic(self, left: ast.AST, right: ast.AST) -> bool:
        if is_text_or_display(left) or is_text_or_display(right):
            return False
        if is_number(left) and is_number(right):
            return False
        return is_plain(left) or is_plain(right)


def _spanning(node: ast.AugAssign) -> ast.expr:
    whole = ast.Tuple(elts=[node.target, node.value], ctx=ast.Load())
    return ast.copy_location(whole, node)


def mentions_mlx(source: bytes) -> bool:
    """Tell whether a file's bytes mention mlx at all."""
    return b"mlx" in source


def sites_of_file(package: str, root: Path, path: Path) -> list[Site]:
    """Return the candidates of one file under `root`, none where it never mentions mlx."""
    source = path.read_bytes()
    if not mentions_mlx(source):
        return []
    file = path.relative_to(root).as_posix()
    return list(Finder(package, file, source.decode("utf-8-sig")).sites())


def sites_of_package(package: str, root: Path) -> list[Site]:
    """Return the candidates of an unpacked package, in order of path and statement."""
    paths = sorted(root.rglob("*.py"))
    return [site for path in paths for site in sites_of_file(package, root, path)]
