"""ATTR-001: attributes that no class of the instance defines or assigns.

The class is one of the project, or that of a list, a dictionary or a text of the same function.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

import libcst as cst

from embercoach.analysis import mlx_api
from embercoach.analysis.calls.definitions import ClassInfo, FunctionInfo
from embercoach.analysis.dataflow.contents import Contents, contents_of
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.dataflow.scopes import passed_arguments
from embercoach.analysis.dataflow.value_sources import Source, sources_of
from embercoach.analysis.evaluate.missing_members import is_undefined
from embercoach.analysis.mlx_api.replacements import MODULE_ADVICE
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values.facts import Fact, MissingAttributeFact
from embercoach.analysis.values.inheritance import MODULE_CLASS, is_layer, lineage, subclasses
from embercoach.analysis.values.lattice import Class, Instance, Symbol
from embercoach.analysis.values.memo import kept_for_file
from embercoach.checks.fallbacks import MISSING, attributes_set_in, reached_sources
from embercoach.checks.registry import Report, check

#: Bases of the library of which all members are known.
_PLAIN = frozenset(
    (
        *(MODULE_CLASS, "builtins.object", "abc.ABC"),
        *("mlx_lm.models.base.BaseModelArgs", "mlx_vlm.models.base.BaseModelArgs"),
    )
)
_DECORATORS = frozenset(("dataclass", "dataclasses.dataclass"))
#: Methods and texts of classes whose attributes are not all written as such.
_DYNAMIC = ("__getattr__", "__getattribute__", "__setattr__", "__slots__")
_SETTING = ("setattr(", "__dict__", "vars(", "exec(")
#: Functions that set no attributes of an object that they get, but for those of its classes.
_READING = frozenset(
    ("super", "__init__", "isinstance", "hasattr", "type", "value_and_grad", "quantize", "print")
)
#: Attributes of modules, which are dictionaries.
_OF_MODULES = frozenset(dir(dict))
_LONGEST = 28


@check("ATTR-001", unless=MISSING)
def missing_attribute(fact: MissingAttributeFact, module: Module) -> Iterator[Report]:
    """``self.query_proj`` of a class that defines ``quant_proj``."""
    cls, name = fact.cls, fact.name
    if is_layer(cls) and (name in _OF_MODULES or name in MODULE_ADVICE or _is_of_module(name)):
        return
    if not _is_closed(cls) or _is_defined_elsewhere(cls, name, module):
        return
    if not _is_certain(fact, module):
        return
    near = get_close_matches(name, sorted(_members(cls)), n=1)
    yield Report.at(
        fact,
        node=fact.node.attr,
        message=f"`{cls.name[:_LONGEST]}` has no attribute `{name[:_LONGEST]}`",
        help=f"Did you mean `{near[0][:_LONGEST]}`?"
        if near
        else "Assign it in `__init__`, or remove what reads it",
    )


#: The types of literals, whose objects have the attributes of the type alone.
_BUILT_IN: dict[type[cst.CSTNode], type] = {
    **dict.fromkeys((cst.List, cst.ListComp), list),
    **dict.fromkeys((cst.Dict, cst.DictComp), dict),
    **dict.fromkeys((cst.Set, cst.SetComp), set),
    **dict.fromkeys((cst.SimpleString, cst.FormattedString), str),
    cst.Tuple: tuple,
    cst.Integer: int,
    cst.Float: float,
}


@check("ATTR-001", unless=MISSING)
def attribute_of_literal(module: Module, _: list[Fact]) -> Iterator[Report]:
    """``caches = []``, then ``caches.manager = manager``."""
    contents = contents_of(module.tree)
    made = {
        target.target.value
        for node in contents.of(cst.Assign)
        if type(node.value) in _BUILT_IN
        for target in node.targets
        if isinstance(target.target, cst.Name)
    }
    targets = frozenset(contents.targets)
    for node in contents.of(cst.Attribute) if made else ():
        owner, name = node.value, node.attr.value
        if not isinstance(owner, cst.Name) or owner.value not in made:
            continue
        types = () if name in _OF_MODULES else _types_of(owner, contents)
        if not types or any(hasattr(one, name) for one in types):
            continue
        near = get_close_matches(name, dir(types[0]), n=1)
        remedy = f"Did you mean `{near[0]}`?" if near else "Remove it, or convert the object"
        yield Report.in_file(
            module,
            node.attr,
            message=f"a `{types[0].__name__}` has no attribute `{name[:_LONGEST]}`",
            help="Use a variable, or an object of a class for both" if node in targets else remedy,
        )


_SCOPES = (cst.FunctionDef, cst.Lambda, cst.ClassDef)
#: What binds names to values that are not followed.
_BINDING = (
    *(cst.AsName, cst.ImportAlias, cst.MatchAs, cst.NameItem, cst.Param),
    *(cst.FunctionDef, cst.ClassDef),
)


def _types_of(use: cst.Name, contents: Contents) -> tuple[type, ...]:
    """Return the types of all that a scope binds to a name; none if one is not a literal."""
    around = next((node for node in contents.above(use) if isinstance(node, _SCOPES)), None)
    return _types_in(around, use.value, contents)


@kept_for_file
def _types_in(around: cst.CSTNode | None, name: str, file: Contents) -> tuple[type, ...]:
    scope = file if around is None else contents_of(around)
    targets = frozenset(scope.targets)
    found: list[type | None] = []
    for node in scope.reads.get(name, ()):
        parent = scope.parent_of(node)
        above = scope.parent_of(parent)
        is_label = isinstance(parent, cst.Attribute) and parent.attr is node
        if isinstance(parent, cst.AssignTarget) and isinstance(above, cst.Assign):
            outer = () if around is not None else file.above(node)
            is_own = not any(isinstance(one, _SCOPES) for one in outer)
            found.append(_built_in(above.value) if is_own else None)
        elif not is_label and (isinstance(parent, _BINDING) or node in targets):
            return ()
    return () if None in found else tuple(dict.fromkeys(one for one in found if one))


def _built_in(node: cst.BaseExpression) -> type | None:
    """Return the type of a literal; None for other expressions."""
    is_bytes = isinstance(node, cst.SimpleString) and "b" in node.prefix.lower()
    return bytes if is_bytes else _BUILT_IN.get(type(node))


def _is_of_module(name: str) -> bool:
    return mlx_api.member(MODULE_CLASS, name) is not None


def _is_certain(fact: MissingAttributeFact, module: Module) -> bool:
    """Return whether an object is of the class: ``self``, one made here, or one that fits it."""
    owner, function = fact.node.value, fact.place.function
    path = dotted(owner)
    if path is None:
        return False
    method = function
    while method is not None and method.cls is None:
        method = method.outer
    is_self = method is not None and method.is_method and path == method.parameters[0].name
    if is_self:
        return not _is_mixin(fact.cls)
    tree: cst.CSTNode = module.tree if function is None else function.node
    if path.startswith("self.") and method is not None and method.cls is not None:
        tree = method.cls.node
    read = _read_of(tree).get(path, set())
    known = {name for name in read if not is_undefined(fact.cls, name)}
    if len(known) > 1 and len(known) > len(read - known) and not _is_guessed(fact, path, module):
        return True
    made = sources_of(module).ends(sources_of(module).of(fact, owner))
    return (
        bool(made)
        and all(_makes(source, fact.cls) for source in made)
        and path not in _passed(tree)
    )


def _is_mixin(cls: ClassInfo) -> bool:
    """Return whether other classes are to make what a class reads: it makes nothing itself."""
    return (
        cls.name.endswith("Base")
        or "Mixin" in cls.name
        or not any("__init__" in one.methods or one.annotations for one in lineage(cls))
    )


def _is_guessed(fact: MissingAttributeFact, path: str, module: Module) -> bool:
    """Return whether an object is of a parameter that has no annotation, or gets other objects."""
    function, name = fact.place.function, path.partition(".")[0]
    while function is not None:
        for parameter in function.parameters:
            if parameter.name == name and path == name:
                return parameter.annotation is None or _gets_others(function, name, fact, module)
        function = function.outer
    return False


def _gets_others(
    function: FunctionInfo, name: str, fact: MissingAttributeFact, module: Module
) -> bool:
    """Return whether a call passes an object of another class: ``Head(config.text)``."""
    sources = sources_of(module)
    for call in sources.callers(function):
        given = passed_arguments(call).get(name)
        if given is None or isinstance(given, cst.Name):
            continue
        value = sources.value(sources.of(call, given))
        if not isinstance(value, Instance) or fact.cls not in lineage(value.info):
            return True
    return False


def _makes(source: Source, cls: ClassInfo) -> bool:
    """Return whether an expression is a call of the class by its name."""
    return isinstance(source.node, cst.Call) and last_name(source.node) == cls.name


@kept_for_file
def _read_of(tree: cst.CSTNode) -> dict[str, set[str]]:
    """Return the attributes that a tree names of each path."""
    found: dict[str, set[str]] = {}
    for node in contents_of(tree).of(cst.Attribute):
        path = dotted(node.value)
        if path is not None:
            found.setdefault(path, set()).add(node.attr.value)
    return found


@kept_for_file
def _passed(tree: cst.CSTNode) -> frozenset[str | None]:
    """Return the paths that a tree passes to calls: these may set attributes."""
    return frozenset(dotted(a.value) for a in contents_of(tree).of(cst.Arg))


def _decorator(node: cst.Decorator) -> str | None:
    """Return the name of a decorator, or of what makes it."""
    made = node.decorator
    return dotted(made.func if isinstance(made, cst.Call) else made)


@kept_for_file
def _is_closed(cls: ClassInfo) -> bool:
    """Return whether all that sets attributes of a class is known."""
    for one in lineage(cls):
        if any(
            not isinstance(base, Class) and not (isinstance(base, Symbol) and base.name in _PLAIN)
            for base in one.bases
        ):
            return False
        if any(_decorator(node) not in _DECORATORS for node in one.node.decorators):
            return False
        if one.node.keywords or any(n in one.methods or n in one.variables for n in _DYNAMIC):
            return False
        if any(text in one.module.source for text in _SETTING) or _gives_itself(one):
            return False
    return True


def _gives_itself(cls: ClassInfo) -> bool:
    """Return whether ``__init__`` passes the object to a function, which may set attributes."""
    made = cls.methods.get("__init__")
    calls = () if made is None else contents_of(made.node.body).calls
    return made is not None and any(
        isinstance(argument.value, cst.Name) and argument.value.value == made.parameters[0].name
        for call in calls
        if last_name(call) not in _READING
        for argument in call.args
    )


def _is_defined_elsewhere(cls: ClassInfo, name: str, module: Module) -> bool:
    """Return whether a file of the project sets the attribute, or names it in a text."""
    classes = (*lineage(cls), *subclasses(cls, module))
    files = tuple(dict.fromkeys((module, *(one.module for one in classes))))
    return (
        any(_is_quoted(name, file) for file in files)
        or any(name in _set_in(one) for one in classes)
        or any(name in one.methods or name in one.variables for one in classes)
        or any(_may_set(source, name) for source in reached_sources(module, files[1:]))
    )


def _may_set(source: str, name: str) -> bool:
    """Return whether a text assigns an attribute to another object than ``self``."""
    named = source.count(f".{name}")  # most files name it nowhere
    return named > source.count(f"self.{name}") and name in attributes_set_in(source)


@kept_for_file
def _set_in(cls: ClassInfo) -> frozenset[str]:
    """Return the attributes that the text of a class assigns, also by ``with`` and ``for``."""
    return frozenset(node.attr.value for node in _assigned(cls.node))


def _assigned(tree: cst.CSTNode) -> Iterator[cst.Attribute]:
    contents = contents_of(tree)
    for node in (*contents.targets, *(node.name for node in contents.of(cst.AsName))):
        if isinstance(node, cst.Attribute):
            yield node


def _is_quoted(name: str, module: Module) -> bool:
    return f'"{name}"' in module.source or f"'{name}'" in module.source


def _members(cls: ClassInfo) -> set[str]:
    return {
        name
        for one in lineage(cls)
        for names in (one.methods, one.variables, one.annotations, one.setters)
        for name in names
    }
