"""API-030 and API-002: names and arguments that mlx-lm does not have, and results of its calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import libcst as cst

from embercoach.analysis.dataflow.contents import Contents, contents_of
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.mlx_api.replacements import MLX_LM_GONE, MODULE_ADVICE
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values.facts import CallFact, Fact, MissingMemberFact, calls_of
from embercoach.analysis.values.lattice import Symbol, Value, options
from embercoach.checks.fallbacks import MISSING, REFUSED, is_expected
from embercoach.checks.registry import VALUE, Report, check

_CACHES = "mlx_lm.models.cache."


@check("API-030", unless=MISSING)
def removed_name(fact: MissingMemberFact, module: Module) -> Iterator[Report]:
    """``from mlx_lm.utils import make_kv_caches``."""
    owner = fact.owner.name if isinstance(fact.owner, Symbol) else ""
    last, remedy = MLX_LM_GONE.get(f"{owner}.{fact.name}", ("", ""))
    if last:
        yield Report.at(
            fact,
            message=f"`{fact.name}` was removed from `{owner}`",
            help=f"{remedy} (last in mlx-lm {last})",
        )


#: Modules whose names are of small letters alone.
_SMALL = frozenset(("mlx", "mlx_audio", "mlx_embeddings", "mlx_lm", "mlx_vlm", "mlx_whisper"))


@check("API-030", unless=MISSING)
def other_case(module: Module, _: list[Fact]) -> Iterator[Report]:
    """``from mlx_LM import load``: names of modules are compared by case on all systems."""
    contents = contents_of(module.tree)
    plain = [(node, alias.name) for node in contents.of(cst.Import) for alias in node.names]
    members = [(n, n.module) for n in contents.of(cst.ImportFrom) if n.module and not n.relative]
    for node, named in (*plain, *members):
        first = (dotted(named) or "").partition(".")[0]
        if first in _SMALL or first.lower() not in _SMALL:
            continue
        if module.import_module(first, 0) is None:
            yield Report.in_file(
                module,
                node,
                message=f"no module `{first}`: names of modules are case-sensitive",
                help=f"Write `{first.lower()}`",
            )


class _Parameters(NamedTuple):
    """The parameters of a class, and how many of the first ones have no default."""

    names: tuple[str, ...]
    required: int


_MADE = {
    "ArraysCache": _Parameters(("size", "left_padding"), 1),
    "ChunkedKVCache": _Parameters(("chunk_size",), 1),
    "BatchKVCache": _Parameters(("left_padding",), 1),
    "BatchRotatingKVCache": _Parameters(("max_size", "left_padding"), 2),
}


@check("API-030", of=(_CACHES, VALUE), unless=REFUSED)
def refused_by_cache(fact: CallFact, module: Module) -> Iterator[Report]:
    """``ArraysCache()``, ``BatchRotatingKVCache(max_size)``."""
    yield from _refused(fact.node, _cache_of(fact.callee), module)


@check("API-030", unless=REFUSED)
def refused_by_base(module: Module, _: list[Fact]) -> Iterator[Report]:
    """``super().__init__()`` in a class of ArraysCache."""
    for cls in module.classes:
        name = _cache_of(cls.bases[0]) if len(cls.bases) == 1 else ""
        made = cls.methods.get("__init__")
        contents = contents_of(made.node.body) if name and made is not None else None
        for call in () if contents is None else contents.calls:
            owner = call.func.value if isinstance(call.func, cst.Attribute) else None
            if last_name(call) == "__init__" and owner is not None and last_name(owner) == "super":
                yield from _refused(call, name, module)


def _refused(call: cst.Call, name: str, module: Module) -> Iterator[Report]:
    """Yield the call of a class of caches that misses an argument."""
    parameters = _MADE.get(name)
    if parameters is None or any(argument.star for argument in call.args):
        return
    named = {one.keyword.value for one in call.args if one.keyword is not None}
    given = {*parameters.names[: len(call.args) - len(named)], *named}
    missed = [one for one in parameters.names[: parameters.required] if one not in given]
    if missed:
        text, remedy = f"mlx-lm's `{name}` needs `{missed[0]}`", f"Pass `{missed[0]}=`"
        yield Report.in_file(module, call, message=text, help=remedy)


def _cache_of(value: Value) -> str:
    """Return the class that a value is; of a fallback the one that mlx-lm still has."""
    names = {one.name if isinstance(one, Symbol) else "" for one in options(value)}
    present = [name for name in names if name not in MLX_LM_GONE]
    owner, _, name = present[0].rpartition(".") if len(present) == 1 else ("", "", "")
    return name if f"{owner}." == _CACHES else ""


_SAMPLER = "Pass `sampler=make_sampler(temp, top_p)` of `mlx_lm.sample_utils`"
_PROCESSORS = "Pass `logits_processors=make_logits_processors(...)` of `mlx_lm.sample_utils`"
#: Keywords of the first releases, which only a sampler or a list of processors takes today.
_GENERATION = {
    **dict.fromkeys(
        ("temp", "temperature", "top_p", "top_k", "min_p", "min_tokens_to_keep"), _SAMPLER
    ),
    **dict.fromkeys(("repetition_penalty", "repetition_context_size", "logit_bias"), _PROCESSORS),
    "formatter": "Remove it",
    "cache": "Pass `prompt_cache=`",
}
_GENERATES = ("generate", "stream_generate", "generate_step", "speculative_generate_step")
_REFUSED = {
    **dict.fromkeys(_GENERATES, _GENERATION),
    "make_sampler": {
        "temperature": "Pass `temp=`",
        **dict.fromkeys(("repetition_penalty", "repetition_context_size"), _PROCESSORS),
    },
    "make_logits_processors": {
        **dict.fromkeys(("temp", "temperature", "top_p", "min_p"), _SAMPLER),
        "penalty": "Pass `repetition_penalty=`",
    },
}
_LOADS, _PROCESSORS_OF = ("load", "load_model"), "make_logits_processors"
_PACKAGE = "mlx_lm."


@check("API-030", of=(_PACKAGE,))
def refused_keyword(fact: CallFact, module: Module) -> Iterator[Report]:
    """``generate(model, tokenizer, prompt, temp=0.7)``."""
    name = (fact.symbol or "").rpartition(".")[2]
    refused = _REFUSED.get(name, {})
    for argument in fact.arguments:
        keyword = argument.keyword or ""
        if keyword not in refused:
            continue
        if is_expected(module, fact.place.statement, REFUSED, broadly=False):
            return
        yield Report.at(
            fact,
            node=argument.node,
            message=f"mlx-lm's `{name}()` takes no `{keyword}`",
            help=refused[keyword],
        )


@check("API-002", "API-030", of=(_PACKAGE,))
def misused_result(fact: CallFact, module: Module) -> Iterator[Report]:
    """``logits, _ = model(x, c)``, ``model.to("cuda")``, ``make_logits_processors()(x)``."""
    name = (fact.symbol or "").rpartition(".")[2]
    if name not in (*_LOADS, _PROCESSORS_OF):
        return
    contents, uses = _uses(fact, module)
    for use in uses:
        call = contents.parent_of(use)
        statement = contents.statement_of(use)
        if not isinstance(call, cst.Call) or call.func is not use:
            if name in _LOADS:
                yield from _member_of_torch(use, contents, module)
        elif name == _PROCESSORS_OF:
            text = "`make_logits_processors()` returns a list, which is not callable"
            remedy = "Write `for process in processors: logits = process(tokens, logits)`"
            yield Report.in_file(module, call, "API-030", message=text, help=remedy)
        elif _unpacks_cache(statement, call):
            text = "mlx-lm's models return the logits alone, not a pair with the cache"
            remedy = "Pass `cache=make_prompt_cache(model)`, which the call updates in place"
            yield Report.in_file(module, call, "API-030", message=text, help=remedy)


def _uses(fact: CallFact, module: Module) -> tuple[Contents, list[cst.BaseExpression]]:
    """Return where the first target of a call is used, if it has no other value."""
    statement, function = fact.place.statement, fact.place.function
    around: cst.CSTNode = module.tree if function is None else function.node.body
    target: cst.CSTNode | None = None
    if isinstance(statement, cst.Assign) and statement.value is fact.node:
        target = statement.targets[0].target
    if isinstance(target, (cst.Tuple, cst.List)):
        target = target.elements[0].value
    path = "" if target is None else dotted(target) or ""
    if path.startswith("self.") and function is not None and function.cls is not None:
        around = function.cls.node
    contents = contents_of(around)
    bound = [node for node in contents.targets if dotted(node) == path]
    others = (contents.statement_of(node) for node in bound)
    if not path or not all(_is_of_same(one, fact, module) for one in others):
        return contents, []
    nodes: list[cst.Name | cst.Attribute] = contents.of(cst.Name, cst.Attribute)
    named = (node for node in nodes if dotted(node) == path and not contents.is_label(node))
    return contents, [n for n in named if n not in bound and not _is_hidden(n, path, contents)]


def _is_hidden(use: cst.CSTNode, path: str, contents: Contents) -> bool:
    """Return whether a function inside has a parameter of the name."""
    outer = (
        node for node in contents.above(use) if isinstance(node, (cst.FunctionDef, cst.Lambda))
    )
    return any(p.name.value == path for o in outer for p in contents_of(o.params).of(cst.Param))


def _is_of_same(statement: cst.CSTNode, fact: CallFact, module: Module) -> bool:
    """Return whether a statement assigns the result of another call of the same function."""
    call = calls_of(module).get(statement.value) if isinstance(statement, cst.Assign) else None
    return call is not None and call.symbol == fact.symbol


#: What names of caches and states contain.
_STATES = ("cache", "kv", "past", "state", "hidden", "mem")


def _unpacks_cache(statement: cst.CSTNode, call: cst.Call) -> bool:
    target = statement.targets[0].target if isinstance(statement, cst.Assign) else None
    if not isinstance(target, cst.Tuple) or len(target.elements) != len(("logits", "cache")):
        return False
    second = (dotted(target.elements[1].value) or "").lower()
    is_state = second.startswith("_") or any(word in second for word in _STATES)
    return is_state and isinstance(statement, cst.Assign) and statement.value is call


def _member_of_torch(
    owner: cst.BaseExpression, contents: Contents, module: Module
) -> Iterator[Report]:
    """Yield the call of a method of torch on a model, or on a layer below it."""
    node: cst.CSTNode = owner
    parent = contents.parent_of(node)
    while isinstance(parent, (cst.Attribute, cst.Subscript)) and parent.value is node:
        node, parent = parent, contents.parent_of(parent)
    name = node.attr.value if isinstance(node, cst.Attribute) else ""
    if name in MODULE_ADVICE and isinstance(parent, cst.Call) and parent.func is node:
        statement = contents.statement_of(node)
        if not is_expected(module, statement, MISSING, broadly=True):
            text = f"MLX layers have no `.{name}`"
            yield Report.in_file(module, node, "API-002", message=text, help=MODULE_ADVICE[name])


@check("API-030", of=(_PACKAGE,))
def generated_item(fact: CallFact, module: Module) -> Iterator[Report]:
    """``text += part`` of ``stream_generate``, ``token.item()`` of ``generate_step``."""
    name, loop = (fact.symbol or "").rpartition(".")[2], fact.place.statement
    if name not in ("stream_generate", "generate_step") or not isinstance(loop, cst.For):
        return
    target: cst.BaseExpression = loop.target
    is_zipped = last_name(loop.iter) == "zip"
    for _ in range(is_zipped + (name == "generate_step")):
        target = target.elements[0].value if isinstance(target, cst.Tuple) else target
    body = contents_of(loop.body)
    is_iterated = loop.iter is fact.node or is_zipped
    if not is_iterated or not isinstance(target, cst.Name) or target.value in body.stored:
        return
    if any(last_name(call) in ("isinstance", "hasattr", "getattr", "type") for call in body.calls):
        return  # an item may be of another release
    for use in body.uses(target.value):
        if name == "stream_generate" and _is_text(use, body):
            text = "`stream_generate()` yields responses, not texts"
            yield Report.in_file(module, use, message=text, help="Write `response.text`")
        parent = body.parent_of(use)
        is_read = isinstance(parent, cst.Attribute) and parent.attr.value in _OF_ARRAYS
        if name == "generate_step" and is_read and isinstance(parent, cst.Attribute):
            text = "`generate_step()` yields tokens as Python ints"
            yield Report.in_file(module, parent, message=text, help="Remove the method")


_OF_ARRAYS = ("item", "tolist", "astype", "reshape", "squeeze")


def _is_text(use: cst.Name, body: Contents) -> bool:
    """Return whether a name is added to another value, or printed."""
    parent = body.parent_of(use)
    if isinstance(parent, (cst.AugAssign, cst.BinaryOperation)):
        return isinstance(parent.operator, (cst.AddAssign, cst.Add))
    call = body.parent_of(parent) if isinstance(parent, cst.Arg) else None
    return isinstance(call, cst.Call) and last_name(call) == "print"
