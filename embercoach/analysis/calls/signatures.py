"""Signatures of the project's functions, and of the constructors that dataclasses generate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.syntax.trees import dotted, evaluated
from embercoach.analysis.values.inheritance import MODULE_CLASS, lineage
from embercoach.analysis.values.lattice import Class, Symbol
from embercoach.analysis.values.memo import kept_for_file

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import ClassInfo, FunctionInfo

#: Decorators that keep the parameters of what they decorate.
_KEEPING = frozenset(
    (
        *("abc.abstractmethod", "builtins.classmethod", "builtins.staticmethod"),
        *("functools.cache", "functools.lru_cache", "functools.wraps"),
        *("mlx.core.compile", "mlx.core.checkpoint", "mlx.core.custom_function"),
        *("typing.override", "typing_extensions.override", "typing.final", "torch.no_grad"),
    )
)
#: Bases that take no arguments and generate no constructor.
_PLAIN = frozenset((MODULE_CLASS, "builtins.object", "abc.ABC"))
#: The base of dataclasses in mlx-lm has no fields.
_OF_DATACLASSES = frozenset(
    f"{package}.models.base.BaseModelArgs" for package in ("mlx_lm", "mlx_vlm")
)
_DATACLASSES = frozenset(("dataclass", "dataclasses.dataclass"))
_FIELDS = frozenset(("field", "dataclasses.field"))
_NAMED_TUPLES = frozenset(("typing.NamedTuple",))


class Signature(NamedTuple):
    """The arguments that a call may pass.

    Attributes:
        places: the names of positional parameters, in order.
        keywords: the names that can be passed by keyword.
        required: the names without a default, in order.
        has_more: whether ``*args`` takes more positional arguments.
        has_any: whether ``**kwargs`` takes any keyword.
    """

    places: tuple[str, ...]
    keywords: tuple[str, ...]
    required: tuple[str, ...]
    has_more: bool = False
    has_any: bool = False


@kept_for_file
def signature_of(function: FunctionInfo, *, is_bound: bool) -> Signature | None:
    """Return what a call of a function may pass; None if a decorator may change that.

    Args:
        function: the function.
        is_bound: whether an instance or a class comes first.
    """
    node = function.node
    if isinstance(node, cst.FunctionDef) and (
        len(function.decorators) < len(node.decorators)
        or not _KEEPING.issuperset(function.decorators)
    ):
        return None
    by_place = {param.name.value for param in node.params.posonly_params}
    plain = [p for p in function.parameters if not p.star]
    places = [p for p in plain if not p.keyword_only]
    has_more = any(p.star == "*" for p in function.parameters)
    if is_bound:
        if not places:
            return None
        plain, places = [p for p in plain if p is not places[0]], places[1:]
    return Signature(
        tuple(p.name for p in places),
        tuple(p.name for p in plain if p.name not in by_place),
        tuple(p.name for p in plain if p.default is None),
        has_more,
        any(p.star == "**" for p in function.parameters),
    )


@kept_for_file
def generated_signature(cls: ClassInfo) -> Signature | None:
    """Return what a call of a class without ``__init__`` may pass; None if that is unknown."""
    classes = [*lineage(cls)]
    bases = {base for one in classes for base in one.bases}
    libraries = {base.name for base in bases if isinstance(base, Symbol)}
    if any(not isinstance(base, (Class, Symbol)) for base in bases):
        return None
    if any(one.node.keywords for one in classes) or any("__new__" in c.methods for c in classes):
        return None
    kinds = {_dataclass(one) for one in classes}
    if libraries & _NAMED_TUPLES:
        is_plain = len(classes) == 1 and libraries <= _NAMED_TUPLES and kinds == {""}
        return _of_fields(_fields(cls)) if is_plain else None
    if not libraries <= _PLAIN | _OF_DATACLASSES or "unknown" in kinds:
        return None
    if _dataclass(cls) == "dataclass":
        fields: dict[str, bool | None] = {}
        for one in reversed(classes):
            held = _fields(one) if _dataclass(one) else {}
            if held is None:
                return None
            fields |= held
        return _of_fields(fields)
    is_plain = kinds == {""} and not libraries & _OF_DATACLASSES
    return Signature((), (), ()) if is_plain else None


def _of_fields(fields: dict[str, bool | None] | None) -> Signature | None:
    if fields is None:
        return None
    names = tuple(name for name, state in fields.items() if state is not None)
    return Signature(names, names, tuple(n for n in names if not fields[n]))


def _dataclass(cls: ClassInfo) -> str:
    """Return ``dataclass`` for one, nothing for a class without decorators, else ``unknown``."""
    if not cls.node.decorators:
        return ""
    nodes = [decorator.decorator for decorator in cls.node.decorators]
    if len(nodes) > 1:
        return "unknown"
    call = nodes[0] if isinstance(nodes[0], cst.Call) else None
    name = dotted(nodes[0] if call is None else call.func)
    options = {a.keyword.value for a in call.args if a.keyword} if call is not None else set()
    is_plain = options <= {"eq", "frozen", "repr", "slots", "order", "unsafe_hash"}
    return "dataclass" if name in _DATACLASSES and is_plain else "unknown"


def _fields(cls: ClassInfo) -> dict[str, bool | None] | None:
    """Return the fields of a class by whether they have a default; None for no parameter.

    None for all of them if a statement of the class may add one, or change their order.
    """
    found: dict[str, bool | None] = {}
    for name, value, annotation in _declared(cls):
        kind = annotation_kind(annotation)
        if kind == "KW_ONLY":
            return None
        if kind == "ClassVar":
            continue
        has_default: bool | None = value is not None
        if isinstance(value, cst.Call) and dotted(value.func) in _FIELDS:
            given = {a.keyword.value: a.value for a in value.args if a.keyword is not None}
            if "kw_only" in given or any(a.star for a in value.args):
                return None
            has_default = bool({"default", "default_factory"} & given.keys())
            if "init" in given:
                has_default = None if dotted(given["init"]) == "False" else has_default
        found[name] = has_default
    return found


def annotation_kind(annotation: cst.BaseExpression) -> str:
    """Return the last name of an annotation without its arguments, also of one in quotes."""
    if isinstance(annotation, cst.SimpleString):
        return str(evaluated(annotation)).partition("[")[0].rpartition(".")[2]
    whole = annotation.value if isinstance(annotation, cst.Subscript) else annotation
    return (dotted(whole) or "").rpartition(".")[2]


def _declared(
    cls: ClassInfo,
) -> Iterator[tuple[str, cst.BaseExpression | None, cst.BaseExpression]]:
    """Yield the annotated names of a class, with what they are assigned and the annotations."""
    for statement in contents_of(cls.node.body).statements:
        if isinstance(statement, cst.AnnAssign) and isinstance(statement.target, cst.Name):
            yield statement.target.value, statement.value, statement.annotation.annotation
