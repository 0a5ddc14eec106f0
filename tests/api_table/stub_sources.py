"""Reads an installed MLX's stubs and Python sources unimported: names and signatures."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import TypeGuard

from embercoach.analysis.mlx_api.result_expressions import UNKNOWN, Result

Names = dict[str, dict[str, str]]  # module -> name in it -> where that is defined

_HOMES = ("mlx.nn", "mlx.optimizers")  # users find here what these packages define deeper
_STAR_DEPTH = 4  # star imports reach through fewer modules than this


def python_trees(root: Path) -> dict[str, ast.Module]:
    """The parsed modules of `mlx.nn`, `mlx.optimizers` and `mlx.utils` by module name."""
    paths = [*root.glob("nn/**/*.py"), *root.glob("optimizers/*.py"), root / "utils.py"]
    trees = {}
    for path in sorted(paths):
        parts = path.relative_to(root).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        trees[".".join(("mlx", *parts))] = ast.parse(path.read_text("utf-8"))
    return trees


def resolve_names(trees: dict[str, ast.Module]) -> Names:
    """Every name of every module that is defined in one of them, or is one of them."""
    names = {module: dict(_definitions(module, tree)) for module, tree in trees.items()}
    for _ in range(_STAR_DEPTH):
        for module, tree in trees.items():
            names[module].update(_imports(module, tree, names))
    return names


def public_homes(names: Names) -> dict[str, str]:
    """`mlx.nn.layers.linear.Linear` -> `mlx.nn.Linear`, for all that is re-exported upwards."""
    return {
        target: f"{home}.{name}"
        for home in _HOMES
        for name, target in names[home].items()
        if target.startswith(f"{home}.") and target not in names
    }


def exports_of(names: Names, homes: dict[str, str]) -> Names:
    """Return each module's public names that are defined elsewhere, and where."""
    exports: Names = {}
    for module, known in names.items():
        for name, target in known.items():
            home = homes.get(target, target)
            if not name.startswith("_") and home != f"{module}.{name}":
                exports.setdefault(module, {})[name] = home
    return exports


def _definitions(module: str, tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name, f"{module}.{node.name}"


def _imports(module: str, tree: ast.Module, names: Names) -> dict[str, str]:
    prefix = f"{module}."
    children = [name for name in names if name.startswith(prefix)]
    found = {name[len(prefix) :]: name for name in children if "." not in name[len(prefix) :]}
    for node in tree.body:
        if isinstance(node, ast.Import):
            found.update(
                {i.asname: i.name for i in node.names if i.asname and i.name[:4] == "mlx."}
            )
        elif isinstance(node, ast.ImportFrom):
            origin = _origin(node, module, is_package=bool(children))
            for item in node.names:
                found.update(_imported(origin, item, names))
    return found


def _imported(origin: str, item: ast.alias, names: Names) -> dict[str, str]:
    known = names.get(origin, {})
    if item.name == "*":
        return {name: target for name, target in known.items() if not name.startswith("_")}
    submodule = f"{origin}.{item.name}"
    target = submodule if submodule in names else known.get(item.name)
    return {item.asname or item.name: target} if target else {}


def _origin(node: ast.ImportFrom, module: str, *, is_package: bool) -> str:
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    base = parts[: len(parts) - node.level + (1 if is_package else 0)]
    return ".".join([*base, *([node.module] if node.module else [])])


# Order in which the kinds of a parameter are written, joined by "|".
KINDS = (
    "scalar",
    "bool",
    "int",
    "ints",
    "float",
    "str",
    "dtype",
    "stream",
    "callable",
    "array",
    "list[array]",
    "tree",
)
_SCALARS = {"bool", "int", "float", "complex"}
_STREAMS = {"Stream", "ThreadLocalStream", "Device", "DeviceType", "StreamOrDevice"}
_SEQUENCES = {"list", "tuple", "List", "Tuple", "Sequence"}
_ATOMS = {
    "array": "array",
    "Dtype": "dtype",
    "Device": "device",
    "Stream": "stream",
    "bool": "bool",
    "int": "int",
    "float": "float",
    "complex": "complex",
    "str": "str",
    "bytes": "bytes",
    "None": "none",
    "NDArray": "numpy",
    "ModuleType": "module",
    "Callable": "callable",
}


@dataclass(frozen=True, slots=True)
class Accepts:
    """The kinds that a parameter takes, in table form, and whether None is one."""

    kinds: str
    nullable: bool = False


def members(annotation: ast.expr) -> list[ast.expr]:
    """The parts of a union, in any of its spellings; the annotation itself where it is none."""
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        return members(annotation.left) + members(annotation.right)
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return members(ast.parse(annotation.value, mode="eval").body)
    if isinstance(annotation, ast.Subscript):
        head = last_name(annotation.value)
        if head == "Union":
            return [part for item in _items(annotation) for part in members(item)]
        if head == "Optional":
            return [*members(annotation.slice), ast.Constant(None)]
        if head == "Annotated":
            return members(_items(annotation)[0])
    return [annotation]


def last_name(node: ast.expr) -> str:
    """The last part of a dotted name (`array` of `mlx.core.array`), `None` of None, else ""."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Constant) and node.value is None:
        return "None"
    return ""


def result_of(annotation: ast.expr | None, resolve: Callable[[str], str | None]) -> Result:
    """The result expression of a return annotation; `resolve` finds a class's qualified name."""
    if annotation is None:
        return UNKNOWN
    parts = members(annotation)
    return union_of([_single_result(part, resolve) for part in parts])


def _single_result(node: ast.expr, resolve: Callable[[str], str | None]) -> Result:
    if isinstance(node, ast.Subscript):
        return _container_result(node, resolve)
    name = last_name(node)
    if name == "scalar":
        return union_of([Result(kind) for kind in sorted(_SCALARS)])
    if name in _ATOMS:
        return Result(_ATOMS[name])
    if name in {"list", "tuple", "dict"}:
        items = (UNKNOWN,) * (2 if name == "dict" else 1)
        return Result(name, items, variadic=name == "tuple")
    target = resolve(name)
    return Result("instance", target=target) if target else UNKNOWN


def _container_result(node: ast.Subscript, resolve: Callable[[str], str | None]) -> Result:
    head = last_name(node.value)
    items = _items(node)
    if head == "Callable":
        return Result("callable")
    if head in {"tuple", "Tuple"}:
        variadic = isinstance(items[-1], ast.Constant) and items[-1].value is ...
        parts = tuple(result_of(item, resolve) for item in (items[:1] if variadic else items))
        if variadic and parts == (Result("int"),):
            return Result("shape")
        return Result("tuple", parts, variadic)
    if head in {"list", "List"}:
        return Result("list", (result_of(items[0], resolve),))
    if head in {"dict", "Dict"}:
        return Result("dict", tuple(result_of(item, resolve) for item in items))
    return UNKNOWN


def accepts_of(annotation: ast.expr | None, default: ast.expr | None = None) -> Accepts:
    """Return the kinds that a parameter takes, by annotation or else by default."""
    if annotation is None:
        return _accepts_of_default(default)
    kinds: set[str] = set()
    nullable = isinstance(default, ast.Constant) and default.value is None
    for part in members(annotation):
        if last_name(part) == "None":
            nullable = True
        else:
            kinds |= _single_accepts(part)
    return Accepts(join_kinds(kinds), nullable)


def _single_accepts(node: ast.expr) -> set[str]:
    if isinstance(node, ast.Subscript):
        return {_container_accepts(node)}
    name = last_name(node)
    if name in _STREAMS:
        return {"stream"}
    if name in {"NDArray", "ArrayLike", "DLPackCompatible"}:
        return set()  # comes with `array` wherever it occurs
    if name == "DtypeCategory":
        return {"dtype"}
    if name in {"array", "scalar", "str"} or name in _SCALARS:
        return {name}
    return {{"Dtype": "dtype", "Callable": "callable", "tuple": "ints"}.get(name, "any")}


def _container_accepts(node: ast.Subscript) -> str:
    head = last_name(node.value)
    if head == "Callable":
        return "callable"
    if head == "Literal":
        return "str"
    leaves = {last_name(leaf) for leaf in _leaves(node)}
    if head in {"dict", "Dict"} and "array" in leaves:
        return "tree"
    if head in _SEQUENCES and leaves == {"int"}:
        return "ints"
    if head in _SEQUENCES and leaves == {"array"}:
        return "list[array]"
    return "any"


def _leaves(node: ast.expr) -> Iterable[ast.expr]:
    """The innermost types of nested containers, without `...`."""
    if isinstance(node, ast.Subscript):
        for item in _items(node):
            yield from _leaves(item)
    elif not (isinstance(node, ast.Constant) and node.value is ...):
        yield node


def _accepts_of_default(default: ast.expr | None) -> Accepts:
    if isinstance(default, ast.UnaryOp):
        default = default.operand
    if not isinstance(default, ast.Constant):
        return Accepts("any")
    if default.value is None:
        return Accepts("any", nullable=True)
    name = type(default.value).__name__
    return Accepts(name if name in KINDS else "any")


def join_kinds(kinds: set[str]) -> str:
    """Write a set of kinds in table form: numbers of several types are one `scalar`."""
    kinds = set(kinds)
    if "any" in kinds or not kinds:
        return "any"
    if len(kinds & _SCALARS) > 1 or "complex" in kinds or "scalar" in kinds:
        kinds = (kinds - _SCALARS) | {"scalar"}
    if "ints" in kinds:
        kinds.discard("int")
    return "|".join(kind for kind in KINDS if kind in kinds)


def _items(node: ast.Subscript) -> list[ast.expr]:
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]


Resolve = Callable[[str], "str | None"]  # a class's name in its module -> its qualified name
_ACTIVATION = "_make_activation_module"  # MLX's decorator that makes `__call__` of a function


@dataclass(frozen=True, slots=True)
class RawParam:
    """One parameter; kind is normal, positional_only, keyword_only, variadic or keywords."""

    name: str
    accepts: Accepts
    has_default: bool
    kind: str


@dataclass(slots=True)
class RawEntry:
    """One public name as MLX's files declare it; `like` names the function a layer applies."""

    kind: str
    returns: Result = UNKNOWN
    params: list[RawParam] = field(default_factory=list)
    bases: list[str] = field(default_factory=list)
    like: str = ""


def read_callable(node: ast.FunctionDef, resolve: Resolve, *, owned: bool = False) -> RawEntry:
    """The entry of a function, or of a method or property where it is `owned` by a class."""
    decorators = {last_name(item) for item in node.decorator_list}
    params = list(_params(node.args))
    if owned and "staticmethod" not in decorators:
        params = params[1:]
    returns = result_of(node.returns, resolve)
    if "property" in decorators:
        return RawEntry("property", returns)
    return RawEntry("method" if owned else "function", returns, params)


def merge_overloads(first: RawEntry, second: RawEntry) -> RawEntry:
    """One entry that takes what either takes; parameters are matched by place, then by name."""
    longer, shorter = sorted((first, second), key=lambda entry: -len(entry.params))
    places, others = _by_place(longer), _by_place(shorter)
    merged = [
        _merge_params(param, other)
        for param, other in zip_longest(places, others)
        if param is not None
    ]
    names = {param.name for param in shorter.params}
    keywords = [param for param in longer.params if param.kind not in _PLACED]
    merged += [
        param if param.name in names else replace(param, has_default=True) for param in keywords
    ]
    returns = union_of([first.returns, second.returns])
    return RawEntry(first.kind, returns, merged)


_PLACED = {"normal", "positional_only"}


def _by_place(entry: RawEntry) -> list[RawParam]:
    return [param for param in entry.params if param.kind in _PLACED]


def _merge_params(param: RawParam, other: RawParam | None) -> RawParam:
    if other is None:
        return replace(param, has_default=True)
    kinds = {*param.accepts.kinds.split("|"), *other.accepts.kinds.split("|")}
    accepts = Accepts(join_kinds(kinds), param.accepts.nullable or other.accepts.nullable)
    return replace(param, accepts=accepts, has_default=param.has_default or other.has_default)


def _params(args: ast.arguments) -> Iterator[RawParam]:
    positional = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(positional) - len(args.defaults)) + list(args.defaults)
    for index, (arg, default) in enumerate(zip(positional, defaults, strict=True)):
        kind = "positional_only" if index < len(args.posonlyargs) else "normal"
        yield RawParam(arg.arg, accepts_of(arg.annotation, default), default is not None, kind)
    if args.vararg:
        accepts = accepts_of(args.vararg.annotation)
        yield RawParam(args.vararg.arg, accepts, True, "variadic")
    for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        accepts = accepts_of(arg.annotation, default)
        yield RawParam(arg.arg, accepts, default is not None, "keyword_only")
    if args.kwarg:
        yield RawParam(args.kwarg.arg, accepts_of(args.kwarg.annotation), True, "keywords")


def class_entries(
    node: ast.ClassDef, qualname: str, resolve: Resolve, *, dunders: frozenset[str] | None = None
) -> dict[str, RawEntry]:
    """A class and its public members by qualified name; its parameters are `__init__`'s.

    `dunders` are the special methods to keep; None keeps all of them.
    """
    entries = {qualname: RawEntry("class", Result("instance", target=qualname))}
    for member in node.body:
        if not isinstance(member, ast.FunctionDef) or _is_setter(member):
            continue
        entry = read_callable(member, resolve, owned=True)
        name = f"{qualname}.{member.name}"
        if member.name == "__init__":
            entries[qualname].params = entry.params
        elif _is_kept(member.name, dunders):
            known = entries.get(name)
            entries[name] = merge_overloads(known, entry) if known else entry
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and last_name(decorator.func) == _ACTIVATION:
            param = RawParam("x", Accepts("any"), False, "normal")
            entries[f"{qualname}.__call__"] = RawEntry(
                "method", params=[param], like=ast.unparse(decorator.args[0])
            )
    return entries


#: Special methods that a wheel's stubs name or not by the Python that they were made with.
_BY_PYTHON = frozenset({"__buffer__", "__release_buffer__"})


def _is_kept(name: str, dunders: frozenset[str] | None) -> bool:
    if name.startswith("__"):
        return name not in _BY_PYTHON if dunders is None else name in dunders
    return not name.startswith("_")


def _is_setter(node: ast.FunctionDef) -> bool:
    return any(isinstance(d, ast.Attribute) and d.attr == "setter" for d in node.decorator_list)


def self_assignments(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr, ast.FunctionDef]]:
    """Attributes that a class's `__init__` assigns one by one: name, value, the method."""
    for method in node.body:
        if not isinstance(method, ast.FunctionDef) or method.name != "__init__":
            continue
        for statement in ast.walk(method):
            if not isinstance(statement, ast.Assign):
                continue
            for target in statement.targets:
                if isinstance(target, ast.Attribute) and last_name(target.value) == "self":
                    yield target.attr, statement.value, method


STUBS = ("__init__", "cuda", "distributed", "fast", "fft", "linalg", "metal", "random")
_LAYER_DUNDERS = frozenset({"__call__"})


@dataclass(slots=True)
class StubSources:
    """Declarations of MLX's files.

    `entries` by qualified name; `aliases` of stub modules (`mlx.core.acos` of `mlx.core.arccos`);
    `exports`: for each Python module, the names it has from elsewhere.
    """

    entries: dict[str, RawEntry] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    exports: Names = field(default_factory=dict)


def read_sources(root: Path) -> StubSources:
    """Read the package installed at `root`; raises `FileNotFoundError` where files are missing."""
    sources = StubSources()
    for stub in STUBS:
        module = "mlx.core" if stub == "__init__" else f"mlx.core.{stub}"
        tree = ast.parse((root / "core" / f"{stub}.pyi").read_text("utf-8"))
        _StubReader(sources, module, tree).read()
    trees = python_trees(root)
    names = resolve_names(trees)
    homes = public_homes(names)
    hidden = {
        f"{module}.{node.name}": node
        for module, tree in trees.items()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name.startswith("_")
    }
    for module, tree in trees.items():
        sources.entries[module] = RawEntry("module")
        _PythonReader(sources, module, names[module], homes, hidden).read(tree)
    sources.exports = exports_of(names, homes)
    return sources


class _StubReader:
    """Reads one `.pyi` module of `mlx.core`."""

    def __init__(self, sources: StubSources, module: str, tree: ast.Module) -> None:
        self.entries = sources.entries
        self.aliases = sources.aliases
        self.module = module
        self.tree = tree
        self.classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}

    def read(self) -> None:
        self.entries[self.module] = RawEntry("module")
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                entry = read_callable(node, self.resolve)
                known = self.entries.get(f"{self.module}.{node.name}")
                entry = merge_overloads(known, entry) if known else entry
                self.entries[f"{self.module}.{node.name}"] = entry
            elif isinstance(node, ast.ClassDef) and not _is_hidden(node):
                self.read_class(node)
            elif isinstance(node, ast.AnnAssign) and last_name(node.annotation) != "TypeAlias":
                result = result_of(node.annotation, self.resolve)
                kind = "dtype" if result == Result("dtype") else "constant"
                self.entries[f"{self.module}.{last_name(node.target)}"] = RawEntry(kind, result)
            elif isinstance(node, ast.Assign) and last_name(node.value):
                target = ast.unparse(node.value).replace("linalg.", "mlx.core.linalg.")
                target = target if target.startswith("mlx.") else f"{self.module}.{target}"
                self.aliases[f"{self.module}.{last_name(node.targets[0])}"] = target

    def resolve(self, name: str) -> str | None:
        """A stub's class name as a qualified name; those of `mlx.core` are known everywhere."""
        if name in self.classes:
            return f"{self.module}.{name}"
        return f"mlx.core.{name}" if f"mlx.core.{name}" in self.entries else None

    def read_class(self, node: ast.ClassDef) -> None:
        qualname = f"{self.module}.{node.name}"
        self.entries.update(class_entries(node, qualname, self.resolve))
        for member in node.body:  # an enum's members
            if isinstance(member, ast.Assign):
                constant = RawEntry("constant", Result("instance", target=qualname))
                self.entries[f"{qualname}.{last_name(member.targets[0])}"] = constant


class _PythonReader:
    """Reads one `.py` module of `mlx.nn`, `mlx.optimizers` or `mlx.utils`."""

    def __init__(
        self,
        sources: StubSources,
        module: str,
        names: dict[str, str],
        homes: dict[str, str],
        hidden: dict[str, ast.ClassDef],
    ) -> None:
        self.entries = sources.entries
        self.module = module
        self.names = names
        self.homes = homes
        self.hidden = hidden

    def read(self, tree: ast.Module) -> None:
        for node in tree.body:
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or node.name[0] == "_":
                continue
            qualname = self.homes.get(f"{self.module}.{node.name}", f"{self.module}.{node.name}")
            if isinstance(node, ast.ClassDef):
                self.read_class(node, qualname)
            else:
                self.entries[qualname] = read_callable(node, self.resolve)

    def resolve(self, name: str) -> str | None:
        """A name of this module as the qualified name under which users find it."""
        target = self.names.get(name)
        return self.homes.get(target, target) if target else None

    def read_class(self, node: ast.ClassDef, qualname: str) -> None:
        public, hidden = self.split_bases(node)
        for parent in [node, *hidden]:  # what hidden bases define is the public class's own
            members = class_entries(parent, qualname, self.resolve, dunders=_LAYER_DUNDERS)
            for name, result in self.attributes(parent):
                members.setdefault(f"{qualname}.{name}", RawEntry("property", result))
            for name, entry in members.items():
                self.entries.setdefault(name, entry)
        self.entries[qualname].bases = public

    def split_bases(self, node: ast.ClassDef) -> tuple[list[str], list[ast.ClassDef]]:
        """The nearest public bases, and the hidden classes passed on the way to them."""
        public: list[str] = []
        hidden: list[ast.ClassDef] = []
        for base in node.bases:
            target = self.names.get(last_name(base), "")
            if target in self.hidden:
                further, deeper = self.split_bases(self.hidden[target])
                public += further
                hidden += [self.hidden[target], *deeper]
            elif target:
                public.append(self.homes.get(target, target))
        return public, hidden

    def attributes(self, node: ast.ClassDef) -> Iterator[tuple[str, Result]]:
        """Attributes whose type `__init__` shows: calls of MLX, typed parameters, constants."""
        found: dict[str, list[Result]] = {}
        for name, value, method in self_assignments(node):
            rebound = {node.id for node in ast.walk(method) if _is_stored(node)}
            args = [arg for arg in method.args.args if arg.arg not in rebound]
            types = {arg.arg: arg.annotation for arg in args}
            found.setdefault(name, []).append(self.value_of(value, types))
        for name, results in found.items():
            result = union_of(results)
            if result != UNKNOWN and not name.startswith("_"):
                yield name, result

    def value_of(self, value: ast.expr, types: dict[str, ast.expr | None]) -> Result:
        if isinstance(value, ast.IfExp):
            branches = (value.body, value.orelse)
            return union_of([self.value_of(branch, types) for branch in branches])
        if isinstance(value, ast.Name):
            return result_of(types.get(value.id), self.resolve)
        if isinstance(value, ast.Constant):
            kind = "None" if value.value is None else type(value.value).__name__
            return result_of(ast.Name(kind), self.resolve)
        if not isinstance(value, ast.Call):
            return UNKNOWN
        if isinstance(value.func, ast.Name):
            target = self.resolve(value.func.id)
            return Result("instance", target=target) if target else UNKNOWN
        name = ast.unparse(value.func)
        entry = self.entries.get(name.replace("mx.", "mlx.core.", 1))
        return entry.returns if entry else UNKNOWN


def _is_stored(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _is_hidden(node: ast.ClassDef) -> bool:
    return any(last_name(base) == "Protocol" for base in node.bases)


def union_of(results: list[Result]) -> Result:
    """One result that covers all of `results`: flattened, without duplicates, unknown if any is."""
    flat: list[Result] = []
    for result in results:
        flat.extend(result.items if result.head == "union" else [result])
    unique = sorted(set(flat), key=str)
    if not unique or UNKNOWN in unique:
        return UNKNOWN
    return unique[0] if len(unique) == 1 else Result("union", tuple(unique))
