"""API-001, 002, 004, 008 and DEPRECATED-001: names and members that MLX lacks, or has otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import libcst as cst

from embercoach.analysis import mlx_api
from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.mlx_api.replacements import Deprecated
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values.facts import CallFact, MissingMemberFact, PropertyCallFact
from embercoach.analysis.values.lattice import Array, DType, LibraryObject, Symbol
from embercoach.checks.fallbacks import MISSING, is_expected, is_patched, is_patched_member
from embercoach.checks.registry import ProposedFix, Report, check
from embercoach.checks.source_text import mlx_alias

#: Placeholders of a pattern: the array, and the arguments.
_OWNER, _ARGUMENTS = "{x}", "{args}"


def member_fix(node: cst.Attribute, call: cst.Call, module: Module) -> ProposedFix | None:
    """Rewrite a call of a member: ``mx.expand_dims(x, 0)`` for ``x.unsqueeze(0)``."""
    from embercoach.analysis.mlx_api import replacements

    mx, owner = mlx_alias(module), node.value
    table = replacements.MEMBERS_WITH_ARGUMENTS if call.args else replacements.MEMBERS
    pattern = table.get(node.attr.value)
    simple = isinstance(owner, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
    if mx is None or not pattern or not simple or any(a.keyword or a.star for a in call.args):
        return None
    if node.attr.value == "expand" and len(call.args) == 1:
        return None  # a shape, or a size
    pattern = pattern.replace("{mx}", mx)
    code = module.parsed.code
    if "\n" in code(call):
        return _in_place(node, call, pattern, module)
    arguments = ", ".join(code(argument.value) for argument in call.args)
    text = pattern.format(x=code(owner), args=arguments)
    title = f"Write `{text}`" if len(text) < 40 else "Rewrite it"
    return ProposedFix(title, False, ((call, text),))


def _in_place(
    node: cst.Attribute, call: cst.Call, pattern: str, module: Module
) -> ProposedFix | None:
    """Change only what is around the array and the arguments, which keep their lines.

    None where a comment is in between.
    """
    whole, owner = module.parsed.bare_code(call), module.parsed.code(node.value)
    head, _, tail = whole[len(owner) :].partition("(")
    if "#" in whole[len(owner) :]:
        return None
    before, _, after = pattern.partition(_OWNER)
    start, end = len(owner), len(whole)
    if after.startswith("."):  # the dot keeps its line
        start += len(head) - len(head.lstrip(" \t\r\n\\"))
    middle, _, closing = after.partition(_ARGUMENTS)
    parts = [((0, 0), before)] if before else []
    if call.args:
        middle = middle.rstrip() if tail[:1].isspace() else middle
        parts.append(((start, end - len(tail)), middle))
        parts.append(((end - 1, end), closing))
    else:
        parts.append(((start, end), after))
    edits = tuple((call, call, span, text) for span, text in parts)
    return ProposedFix("Write it as MLX has it", False, (), parts=edits)


#: What returns the indices.
_INDICES = {
    "topk": "mx.argpartition(-x, k - 1, axis=-1)[..., :k]",
    "sort": "mx.argsort(x, axis=...)",
    "max": "mx.argmax(x, axis=...)",
    "min": "mx.argmin(x, axis=...)",
}
_FUNCTIONS = tuple(f"mlx.core.{name}" for name in _INDICES)
#: Words in names of indices.
_WORDS = frozenset(
    """
idx idxs ind inds index indexes indices indexs ids order position positions pred preds predicted
prediction predictions argmax argmin arg label labels
""".split()  # noqa: SIM905
)
#: Words in names of what the indices are of.
_VALUES = frozenset(("value", "values", "val", "vals"))


@check("API-008", of=(*_FUNCTIONS, ".max", ".min"))
def unpacked_values(fact: CallFact, module: Module) -> Iterator[Report]:
    """``values, indices = mx.topk(x, k)``, ``indices = mx.sort(x)[1]``."""
    if fact.entry is None:
        return
    name = fact.entry.name.rpartition(".")[2]
    if name not in _INDICES or not _takes_indices(fact):
        return
    yield Report.at(
        fact,
        message=f"`{name}()` returns values alone, not a pair of values and indices",
        help=f"Get the indices from `{_INDICES[name]}`",
    )


def _takes_indices(fact: CallFact) -> bool:
    """Return whether a statement takes indices from the result."""
    statement = fact.place.statement
    member = contents_of(statement).parent_of(fact.node)
    if isinstance(member, cst.Attribute) and member.attr.value in ("values", "indices"):
        return True
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        return False
    target, value = statement.targets[0].target, statement.value
    if value is fact.node and isinstance(target, cst.Tuple) and len(target.elements) == 2:
        first, second = (_words(element.value) for element in target.elements)
        is_pair = second == {""} and not _VALUES.isdisjoint(first)
        return is_pair or not _WORDS.isdisjoint(second) or (first == {""} and bool(second))
    if not isinstance(value, cst.Subscript) or value.value is not fact.node:
        return False
    index = value.slice[0].slice if len(value.slice) == 1 else None
    is_second = (
        isinstance(index, cst.Index)
        and isinstance(index.value, cst.Integer)
        and index.value.value == "1"
    )
    return is_second and not _WORDS.isdisjoint(_words(target))


def _words(node: cst.BaseExpression) -> set[str]:
    """Return the words in the last name of a path."""
    return set((dotted(node) or "?").rpartition(".")[2].lower().strip("_").split("_"))


PREFIX = "mlx.core."
#: Releases that are old enough for a fix not to ask which one the program supports.
OLD = frozenset(("0.24.1",))


@check("DEPRECATED-001", of=("mlx.core.metal.",))
def deprecated_function(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.metal.clear_cache()``."""
    from embercoach.analysis.mlx_api.replacements import DEPRECATED

    instead = DEPRECATED.get(fact.symbol or "")
    if instead is None or is_expected(module, fact.place.statement, MISSING, broadly=False):
        return
    name = instead.name.removeprefix(PREFIX)
    if is_patched(module, mlx_alias(module) or "mx", name):
        return
    yield Report.at(
        fact,
        node=fact.node.func,
        message=f"`mx.metal.{name}()` is deprecated",
        help=f"Use `mx.{name}()`, which MLX has since {instead.since}",
        change=_change(fact, module, instead),
    )


def _change(fact: CallFact, module: Module, instead: Deprecated) -> ProposedFix | None:
    """Write the new name: ``mx.clear_cache``."""
    func = fact.node.func
    if not isinstance(func, cst.Attribute):
        return None
    owner = func.value
    mx = module.parsed.code(owner.value) if isinstance(owner, cst.Attribute) else mlx_alias(module)
    if mx is None:
        return None
    text = f"{mx}.{instead.name.removeprefix(PREFIX)}"
    return ProposedFix(f"Write `{text}`", instead.since in OLD, ((func, text),))


#: The names that users give to modules of MLX.
LONGEST = 40  # characters of a name that is compared with MLX's
_SHORT = {"mlx.core": "mx", "mlx.nn": "nn", "mlx.optimizers": "optim"}


class _Advice(NamedTuple):
    help: str
    name: str | None = None  # of the replacement, where that takes the same arguments


@check("API-001", "API-002")
def missing_member(fact: MissingMemberFact, module: Module) -> Iterator[Report]:
    """``mx.norm``, ``from mlx.core import copy``, ``array.clone()``, ``dtype.itemsize``."""
    if isinstance(fact.owner, Array):
        yield from _missing_in_array(fact, module)
        return
    if isinstance(fact.owner, DType):
        yield from _missing_in_dtype(fact, module)
        return
    if not isinstance(fact.owner, Symbol):
        yield from _missing_in_module(fact, module)
        return
    from embercoach.analysis.mlx_api import replacements

    owner, name = fact.owner.name, fact.name
    full = f"{owner}.{name}"
    if full in replacements.MLX_LM_GONE:
        return  # API-030
    # A handler of all errors hides a name that no release has, which is then never run.
    never_existed = full in {**replacements.RENAMED, **replacements.ADVICE}
    never_existed = never_existed and full not in replacements.REMOVED
    if is_expected(module, fact.place.statement, MISSING, broadly=not never_existed):
        return
    if is_patched(module, _written_owner(fact, module), name):
        return
    advice = _advice(owner, name)
    removed = replacements.REMOVED.get(full)
    short = _short(full)
    yield Report.at(
        fact,
        "API-001",
        message=f"MLX has no `{short}`" if removed is None else f"`{short}` was removed from MLX",
        help=advice.help if removed is None else f"{advice.help} (last in MLX {removed})",
        change=_renaming(fact, advice),
    )
    entry = None if advice.name is None else mlx_api.lookup(advice.name)
    if fact.call is not None and entry is not None and entry.returns == "array":
        yield from _missing_in_chain(fact, fact.call, module)


def _written_owner(fact: MissingMemberFact, module: Module) -> str:
    """Return the module as the file names it: ``mx``."""
    node = fact.node
    if isinstance(node, cst.Attribute):
        return module.parsed.code(node.value)
    assert isinstance(fact.owner, Symbol)
    return _short(fact.owner.name)


def _short(full: str) -> str:
    """Return the name as users write it: ``mx.linalg.norm``."""
    for module, short in _SHORT.items():
        if full.startswith(f"{module}.") or full == module:
            return short + full.removeprefix(module)
    return full


def _advice(owner: str, name: str) -> _Advice:
    from embercoach.analysis.mlx_api import replacements

    full = f"{owner}.{name}"
    text = replacements.ADVICE.get(full)
    if text is not None:
        return _Advice(text)
    renamed = replacements.RENAMED.get(full)
    if renamed is not None:
        same = not replacements.takes_other_arguments(full)
        return _Advice(f"Use `{_short(renamed)}`", renamed if same else None)
    others = replacements.namesakes(owner, name)
    if others:
        return _Advice(f"Use `{_short(others[0])}`", others[0])
    close = replacements.similar(owner, name) if len(name) <= LONGEST else None
    member = mlx_api.array_member(name) if owner == "mlx.core" else None
    if member is not None:  # ``mx.shape(x)``
        return _Advice(f"Use `x.{name}{'' if member.kind == 'property' else '()'}`")
    if close is not None:
        return _Advice(f"Did you mean `{_short(close)}`?")
    return _Advice(f"Checked against MLX {mlx_api.version()}: remove it, or define it")


def _renaming(fact: MissingMemberFact, advice: _Advice) -> ProposedFix | None:
    """Write the other name, if it can be reached from the same module."""
    assert isinstance(fact.owner, Symbol)
    node, prefix = fact.node, f"{fact.owner.name}."
    if advice.name is None or not isinstance(node, cst.Attribute):
        return None
    if not advice.name.startswith(prefix):
        return None
    end = advice.name.removeprefix(prefix)
    return ProposedFix(f"Write `{_short(advice.name)}`", False, ((node.attr, end),))


def _missing_in_array(fact: MissingMemberFact, module: Module) -> Iterator[Report]:
    from embercoach.analysis.mlx_api import replacements

    if not replacements.is_known_elsewhere(fact.name):
        return
    if is_expected(module, fact.place.statement, MISSING, broadly=True):
        return
    if _is_patched(fact, "array", module):
        return
    yield _missing_from_array(fact, fact.node, fact.call, module)
    if fact.call is not None and _returns_array(fact.name):
        yield from _missing_in_chain(fact, fact.call, module)


def _is_patched(fact: MissingMemberFact, owner: str, module: Module) -> bool:
    node, function = fact.node, fact.place.function
    return isinstance(node, cst.Attribute) and is_patched_member(module, owner, node, function)


def _missing_in_dtype(fact: MissingMemberFact, module: Module) -> Iterator[Report]:
    from embercoach.analysis.mlx_api import replacements

    if not is_expected(module, fact.place.statement, MISSING, broadly=True):
        yield Report.at(
            fact,
            "API-002",
            message=f"MLX dtypes have no `.{fact.name}`",
            help=replacements.DTYPE_ADVICE[fact.name],
        )


def _missing_from_array(
    fact: MissingMemberFact, node: cst.CSTNode, call: cst.Call | None, module: Module
) -> Report:
    assert isinstance(node, cst.Attribute)
    name = node.attr.value
    change = None if call is None else member_fix(node, call, module)
    return Report.at(
        fact,
        "API-002",
        node=node,
        message=f"MLX arrays have no `.{name}`",
        help=_member_help(name, call),
        change=change,
    )


def _missing_in_chain(fact: MissingMemberFact, call: cst.Call, module: Module) -> Iterator[Report]:
    """Yield the members that follow in ``x.permute(0, 2, 1).unsqueeze(0)``."""
    from embercoach.analysis.mlx_api import replacements

    statement = contents_of(fact.place.statement)
    while True:
        node = statement.parent_of(call)
        outer = statement.parent_of(node)
        if not isinstance(node, cst.Attribute) or node.value is not call:
            return
        name = node.attr.value
        following = outer if isinstance(outer, cst.Call) and outer.func is node else None
        if mlx_api.array_member(name) is None:
            if not replacements.is_known_elsewhere(name):
                return
            yield _missing_from_array(fact, node, following, module)
        if following is None or not _returns_array(name):
            return
        call = following


def _returns_array(name: str) -> bool:
    """Return whether calling a member of arrays returns an array, here or in another library."""
    from embercoach.analysis.mlx_api import replacements

    entry = mlx_api.array_member(name) or mlx_api.lookup(f"mlx.core.{name}")
    pattern = replacements.MEMBERS.get(name) or replacements.MEMBERS_WITH_ARGUMENTS.get(name)
    if pattern is not None:
        return not pattern.endswith((".ndim", ".size"))
    return entry is not None and entry.returns == "array"


def _missing_in_module(fact: MissingMemberFact, module: Module) -> Iterator[Report]:
    """``model.state_dict()``, ``optimizer.zero_grad()``."""
    from embercoach.analysis.mlx_api import replacements

    if is_expected(module, fact.place.statement, MISSING, broadly=True):
        return
    if _is_patched(fact, "Module", module):
        return
    is_optimizer = isinstance(fact.owner, LibraryObject) and "optimizers" in fact.owner.cls
    yield Report.at(
        fact,
        "API-002",
        message=f"MLX {'optimizers' if is_optimizer else 'layers'} have no `.{fact.name}`",
        help=replacements.MODULE_ADVICE[fact.name],
    )


def _member_help(name: str, call: cst.Call | None) -> str:
    from embercoach.analysis.mlx_api import replacements

    text = replacements.MEMBER_ADVICE.get(name)
    if text is not None:
        return text
    pattern = replacements.MEMBERS.get(name) or replacements.MEMBERS_WITH_ARGUMENTS.get(name)
    if pattern == "{x}":
        return "Remove it: memory is shared by CPU and GPU"
    if pattern is not None:
        return f"Use `{pattern.format(mx='mx', x='x', args='...')}`"
    for owner in ("mlx.core", "mlx.core.linalg", "mlx.nn"):
        if mlx_api.lookup(f"{owner}.{name}") is not None:
            more = ", ..." if call is not None and call.args else ""
            return f"Use `{_short(f'{owner}.{name}')}(x{more})`"
    renamed = replacements.RENAMED.get(f"mlx.core.{name}")
    if renamed is not None:
        return f"Use `{_short(renamed)}(x)`"
    close = replacements.similar("mlx.core.array", name) if len(name) <= LONGEST else None
    if close is not None:
        return f"Did you mean `.{close.rpartition('.')[2]}`?"
    return f"Checked against MLX {mlx_api.version()}: use a function of `mlx.core`"


@check("API-004", unless=MISSING | {"TypeError"})
def property_call(fact: PropertyCallFact, module: Module) -> Iterator[Report]:
    """``x.size()``, ``x.shape()``: the attribute is a property."""
    assert isinstance(fact.node.func, cst.Attribute)
    attribute = module.parsed.code(fact.node.func)
    owner = module.parsed.code(fact.node.func.value)
    text: str | None = attribute if not fact.node.args else None
    if fact.name == "size" and len(fact.node.args) <= 1:
        index = f"[{module.parsed.code(fact.node.args[0].value)}]" if fact.node.args else ""
        text = f"{owner}.shape{index}"
    change = None
    if text is not None:
        change = ProposedFix("Read the property", False, ((fact.node, text),))
    remedy = f"Read the property: `.{fact.name}`"
    if fact.name == "size":
        remedy = "Use `x.shape`, or `x.size` for the number of elements"
    elif fact.name == "step":
        remedy, change = "Use `optimizer.update(model, gradients)`", None
    yield Report.at(
        fact,
        message=f"`.{fact.name}` is not callable: it is a property",
        help=remedy,
        change=change,
    )
