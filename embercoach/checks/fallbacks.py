"""Code that expects an error: tests of errors, and names of MLX that may be missing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import libcst as cst

from embercoach.analysis.calls.definitions import FunctionInfo
from embercoach.analysis.dataflow.contents import contents_of, root_name
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.parse import outline_of
from embercoach.analysis.values.memo import kept_for_file
from embercoach.files import MOST_NAMED_BYTES, read_text

#: The functions of pytest and unittest that expect an error.
NAMES = frozenset({"raises", "assertRaises", "assertRaisesRegex"})


def is_meant_to_raise(module: Module, node: cst.CSTNode) -> bool:
    """Test whether a node is in ``with pytest.raises(...):`` or in the arguments of such a call."""
    if not any(name in module.source for name in NAMES):
        return False
    return node in _tested(module.tree)


@kept_for_file
def _tested(tree: cst.CSTNode) -> set[cst.CSTNode]:
    """Return all nodes below tests of errors, and of local functions that these name."""
    contents = contents_of(tree)
    found: set[cst.CSTNode] = set()
    for node in contents.of(cst.Call, cst.With):
        items = [item.item for item in node.items] if isinstance(node, cst.With) else [node]
        if any(map(_tests_errors, items)):
            found.update(contents_of(node))
    named = {node.value for node in found if isinstance(node, cst.Name)}
    for function in contents.of(cst.FunctionDef):
        is_local = any(isinstance(node, cst.FunctionDef) for node in contents.above(function))
        if is_local and function.name.value in named:
            found.update(contents_of(function))
    return found


def _tests_errors(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Call) and last_name(node) in NAMES


#: Errors of a missing name, and those that a call of it with other arguments raises.
MISSING = frozenset(("AttributeError", "ImportError", "ModuleNotFoundError", "NameError"))
REFUSED = MISSING | {"TypeError", "ValueError"}
_BROAD = frozenset(("Exception", "BaseException"))
#: What the names in a test contain that asks for a version or a feature.
_ASKING = ("attr", "version", "_has_", "support", "compat", "type_checking")
_MOST_IMPORTED = 128  # modules that a file reaches
_WITHIN = 80  # characters after ``hasattr(`` in which texts are names
_LONGEST = 60  # characters of a dotted name in a text


def is_caught(module: Module, node: cst.CSTNode, errors: frozenset[str]) -> bool:
    """Test whether a ``try`` around a statement catches one of some errors, or all."""
    around = _outwards(module, node)
    return any(_handles(outer, inner, errors, broadly=True) for outer, inner in around)


def is_expected(
    module: Module, node: cst.CSTNode, errors: frozenset[str], *, broadly: bool
) -> bool:
    """Test whether a ``try`` or an ``if`` around a statement deals with what it raises.

    Args:
        module: the file.
        node: the statement.
        errors: the errors that a handler must name.
        broadly: a handler of all exceptions counts too; within a handler it always does.
    """
    return any(
        _handles(outer, inner, errors, broadly=broadly)
        or (isinstance(outer, cst.If) and _is_question(outer.test))
        or (isinstance(outer, (cst.IndentedBlock, cst.Module)) and inner in _asserted(outer))
        for outer, inner in _outwards(module, node)
    )


def is_patched(module: Module, owner: str, name: str) -> bool:
    """Test whether a file asks for a name, or sets it: ``hasattr(mx, "norm")``, ``mx.norm = f``.

    So may a module that it imports: a function there may say whether the name can be used, or
    replace it. One that a module further away sets by a computed name, ``setattr(mx, name, f)``,
    may be any name of the owner.
    """
    for source in (module, *module.imported):
        names = _names_of(source)
        if name in names.asked or name in names.set_by_text or f"{owner}.{name}" in names.assigned:
            return True
    return owner in _owners_set_by_imports(module)


def is_patched_member(
    module: Module, owner: str, node: cst.Attribute, function: FunctionInfo | None
) -> bool:
    """Test whether a file asks objects for a member, or sets it: ``hasattr(x, "numpy")``.

    A function that asks one of its parameters says nothing of objects that it is not given: it
    converts those of several libraries.
    """
    name = node.attr.value
    for source in (module, *module.imported):
        names = _names_of(source)
        if name in names.set_by_text or f"{owner}.{name}" in names.assigned:
            return True
        if name in names.asked and _is_asked(source, node, function):
            return True
    return owner in _owners_set_by_imports(module)


def _is_asked(source: Module, node: cst.Attribute, function: FunctionInfo | None) -> bool:
    """Test whether a file asks for a member of what may be the object that a function has."""
    contents = contents_of(source.tree)
    here = None if function is None else contents_of(function.node)
    given = {
        last_name(call)
        for call in (() if here is None else here.calls)
        if root_name(node.value) in map(root_name, (argument.value for argument in call.args))
    }
    questions = [call for call in contents.calls if _asks_for(call, node.attr.value)]
    for call in questions:
        asking = next((n for n in contents.above(call) if isinstance(n, cst.FunctionDef)), None)
        if asking is None or function is None or asking is function.node:
            return True
        parameters = contents_of(asking.params).of(cst.Param)
        is_own = root_name(call.args[0].value) in {one.name.value for one in parameters}
        if not is_own or asking.name.value in given:
            return True
    return not questions  # it computes the names


def _asks_for(call: cst.Call, name: str) -> bool:
    if last_name(call) not in ("hasattr", "getattr") or len(call.args) < len(("object", "name")):
        return False
    text = call.args[1].value
    return isinstance(text, cst.SimpleString) and text.raw_value == name


@kept_for_file
def _owners_set_by_imports(module: Module) -> frozenset[str]:
    """Objects of which a module sets or asks for names it computes, or an imported one sets."""
    graph = module.project.graph
    root = module.project.boundaries(module.path.parent).imports
    pending = [(str(module.path), root)]
    seen = set(pending)
    found: set[str] = set()
    while pending and len(seen) < _MOST_IMPORTED:
        node = pending.pop()
        path = Path(node[0])
        # The package's own module runs before what the package contains.
        nodes = {*graph.imports(node).anywhere, (str(path.with_name("__init__.py")), root)}
        module.named.update(nodes)  # what they say decides what is found
        try:
            source = read_text(path, limit=MOST_NAMED_BYTES, root=root)
        except (OSError, ValueError):
            continue
        asks = "setattr(" in source or (node == (str(module.path), root) and "hasattr(" in source)
        outline = outline_of(source) if asks else None
        found.update(() if outline is None else _owners(outline))
        pending += nodes - seen
        seen |= nodes
    return frozenset(found)


@kept_for_file
def reached_sources(module: Module, others: tuple[Module, ...]) -> tuple[str, ...]:
    """Return the texts of files, of their packages, and of what all these import."""
    graph = module.project.graph
    pending = [
        (str(path), module.project.boundaries(file.path.parent).imports)
        for file in (module, *others)
        for path in (file.path, file.path.with_name("__init__.py"))
    ]
    seen = set(pending)
    found: list[str] = []
    while pending and len(found) < _MOST_IMPORTED:
        node = pending.pop(0)
        module.named.add(node)  # what it says decides what is found
        try:
            found.append(read_text(Path(node[0]), limit=MOST_NAMED_BYTES, root=node[1]))
        except (OSError, ValueError):
            continue
        new = [one for one in graph.imports(node).anywhere if one not in seen]
        seen.update(new)
        pending += new
    return tuple(found)


@kept_for_file
def attributes_set_in(source: str) -> frozenset[str]:
    """Return the attributes that a text assigns to other objects than ``self``."""
    tree = outline_of(source)
    return frozenset(
        node.attr
        for node in (() if tree is None else ast.walk(tree))
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and not (isinstance(node.value, ast.Name) and node.value.id == "self")
    )


class _Names(NamedTuple):
    """Names that a source asks for or sets.

    asked: as texts after ``hasattr(``, ``getattr(`` or ``setattr(``.
    set_by_text: after ``setattr(``, or at the end of a dotted text, as ``mock.patch`` takes it.
    assigned: dotted paths at the left of a line's ``=``, and the last two parts of each.
    """

    asked: frozenset[str]
    set_by_text: frozenset[str]
    assigned: frozenset[str]


@kept_for_file
def _names_of(module: Module) -> _Names:
    source = module.source
    lines = (line for line in source.splitlines() if "=" in line and "." in line)
    paths = (line.partition("=")[0].strip() for line in lines)
    ends = (text.rpartition(".")[2] for text in _texts_after(source, "mlx.", 0))
    return _Names(
        frozenset(_texts_after(source, "attr(", _WITHIN)),
        frozenset((*_texts_after(source, "setattr(", _WITHIN), *ends)),
        frozenset(end for path in paths for end in (path, ".".join(path.split(".")[-2:]))),
    )


def _owners(tree: ast.Module) -> Iterator[str]:
    """Yield the objects of ``setattr(mx.random, name, f)`` and ``hasattr(mx.fast, name)``."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("setattr", "hasattr")
            and len(node.args) > 1
            and not isinstance(node.args[1], ast.Constant)
        ):
            yield ast.unparse(node.args[0])


def _texts_after(source: str, mark: str, within: int) -> Iterator[str]:
    """Yield the string literals that begin soon after a mark, or around it."""
    at = source.find(mark)
    while at >= 0:
        text = source[at : at + len(mark) + (within or _LONGEST)]
        for quote in "\"'":
            parts = text.split(quote)
            yield from parts[1::2] if within else parts[:1]
        at = source.find(mark, at + 1)


def _outwards(module: Module, node: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    """Yield the nodes around a statement, each with the one that it directly contains."""
    yield node, node  # the test of an ``if``, the items of a ``with``
    for outer in contents_of(module.tree).above(node):
        yield outer, node
        node = outer


def is_attempted(module: Module, statement: cst.CSTNode) -> bool:
    """Test whether a statement is in the body of a ``try``, or of a ``with`` for its errors."""
    return any(
        inner is outer.body
        if isinstance(outer, cst.Try)
        else isinstance(outer, cst.With)
        and any("aises" in n or "suppress" in n for i in outer.items for n in contents_of(i).names)
        for outer, inner in _outwards(module, statement)
    )


def _handles(
    outer: cst.CSTNode, inner: cst.CSTNode, errors: frozenset[str], *, broadly: bool
) -> bool:
    if isinstance(outer, cst.With):
        names = {name for item in outer.items for name in contents_of(item).names}
        suppresses = "suppress" in names and names & (errors | _BROAD if broadly else errors)
        return bool(suppresses) or any("patch" in name.lower() for name in names)
    if not isinstance(outer, (cst.Try, cst.TryStar)) or inner is outer.finalbody or outer is inner:
        return False
    broadly = broadly or inner in outer.handlers  # it is the fallback
    for handler in outer.handlers:
        names = {"Exception"} if handler.type is None else {*contents_of(handler.type).names}
        if names & errors or (broadly and names & _BROAD):
            return True
    return False


@kept_for_file
def _asserted(block: cst.IndentedBlock | cst.Module) -> frozenset[cst.CSTNode]:
    """Return the statements of a block that follow one which asserts a version or a feature."""
    for at, line in enumerate(block.body):
        if isinstance(line, cst.SimpleStatementLine) and any(
            isinstance(small, cst.Assert) and _is_question(small.test) for small in line.body
        ):
            return frozenset(block.body[at + 1 :])
    return frozenset()


@kept_for_file
def _is_question(test: cst.BaseExpression) -> bool:
    names = [f"_{name.lower()}" for name in contents_of(test).names]
    return any(mark in name for name in names for mark in _ASKING)
