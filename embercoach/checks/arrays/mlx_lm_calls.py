"""API-030 and API-002: calls of mlx-lm's public functions, and what becomes of their results."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.dataflow.contents import Contents, contents_of
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.dataflow.scopes import scope_of
from embercoach.analysis.syntax.trees import dotted, target_names
from embercoach.analysis.values.facts import calls_of
from embercoach.checks.fallbacks import MISSING, REFUSED, is_expected
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.facts import CallFact

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
_LOADS = ("load", "load_model")
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
            "API-030",
            node=argument.node,
            message=f"mlx-lm's `{name}()` takes no `{keyword}`",
            help=refused[keyword],
        )


class _Held(NamedTuple):
    """A tree in which a path has the value of a call alone, and the uses of that path."""

    contents: Contents
    uses: list[cst.BaseExpression]


@check("API-002", "API-030", of=(_PACKAGE,))
def loaded_model(fact: CallFact, module: Module) -> Iterator[Report]:
    """``logits, cache = model(tokens, cache)``, ``model.layers[0].register_forward_hook(f)``."""
    if (fact.symbol or "").rpartition(".")[2] not in _LOADS:
        return
    held = _held(fact, module)
    for use in () if held is None else held.uses:
        assert held is not None
        call = held.contents.parent_of(use)
        if isinstance(call, cst.Call) and call.func is use:
            statement = held.contents.statement_of(call)
            if _unpacks_cache(statement, call):
                yield _report(
                    call,
                    statement,
                    module,
                    "mlx-lm's models return the logits alone, not a pair with the cache",
                    "Pass `cache=make_prompt_cache(model)`, which the call updates in place",
                )
        yield from _members_of_torch(use, held.contents, module)


def _held(fact: CallFact, module: Module) -> _Held | None:
    """Return what the first target of a call is used for, if it has no other value."""
    statement, function = fact.place.statement, fact.place.function
    if not isinstance(statement, cst.Assign) or statement.value is not fact.node:
        return None
    target: cst.BaseExpression = statement.targets[0].target
    if isinstance(target, (cst.Tuple, cst.List)):
        target = target.elements[0].value
    if isinstance(target, cst.Name):
        contents = contents_of(module.tree if function is None else function.node.body)
        bound = scope_of(module, function).reaching.bindings.get(target.value, ())
        if not all(_is_of_same(one.value, fact, module) for one in bound):
            return None
        uses = contents.uses(target.value)
        return _Held(contents, [use for use in uses if not _is_hidden(use, contents, target.value)])
    path = dotted(target)
    cls = None if function is None else function.cls
    if path is None or cls is None or not path.startswith("self."):
        return None
    contents = contents_of(cls.node)
    assigned = [node for node in contents.targets if dotted(node) == path]
    if any(contents.statement_of(node) is not statement for node in assigned):
        return None
    found = (node for node in contents.of(cst.Attribute) if dotted(node) == path)
    return _Held(contents, [node for node in found if node not in assigned])


def _is_of_same(value: cst.BaseExpression | None, fact: CallFact, module: Module) -> bool:
    """Return whether a value is that of another call of the same function."""
    call = None if value is None else calls_of(module).get(value)
    return call is not None and call.symbol == fact.symbol


def _is_hidden(use: cst.Name, contents: Contents, name: str) -> bool:
    """Return whether a function within binds the name itself."""
    for outer in contents.above(use):
        if isinstance(outer, (cst.FunctionDef, cst.Lambda)):
            parameters = contents_of(outer.params).of(cst.Param)
            if any(one.name.value == name for one in parameters):
                return True
            if name in contents_of(outer.body).stored:
                return True
    return False


#: What names of caches and states contain.
_STATES = ("cache", "kv", "past", "state", "hidden", "mem")


def _unpacks_cache(statement: cst.CSTNode, call: cst.Call) -> bool:
    if not isinstance(statement, cst.Assign) or statement.value is not call:
        return False
    target = statement.targets[0].target
    if not isinstance(target, cst.Tuple) or len(target.elements) != len(("logits", "cache")):
        return False
    second = (dotted(target.elements[1].value) or "").lower()
    return second.startswith("_") or any(word in second for word in _STATES)


def _members_of_torch(
    owner: cst.BaseExpression, contents: Contents, module: Module, *, in_loop: bool = False
) -> Iterator[Report]:
    """Yield the calls of torch's methods on a model, and on the layers below it."""
    from embercoach.analysis.mlx_api.replacements import MODULE_ADVICE

    node: cst.CSTNode | None = owner
    while True:
        parent = contents.parent_of(node)
        if isinstance(parent, cst.For) and parent.iter is node and not in_loop:
            body = contents_of(parent.body)
            for name in target_names(parent.target) if isinstance(parent.target, cst.Name) else ():
                for use in body.uses(name) if name not in body.stored else ():
                    yield from _members_of_torch(use, contents, module, in_loop=True)
            return
        if not isinstance(parent, (cst.Attribute, cst.Subscript)) or parent.value is not node:
            return
        node = parent
        call = contents.parent_of(node)
        name = node.attr.value if isinstance(node, cst.Attribute) else ""
        if name in MODULE_ADVICE and isinstance(call, cst.Call) and call.func is node:
            statement = contents.statement_of(node)
            if not is_expected(module, statement, MISSING, broadly=True):
                text = f"MLX layers have no `.{name}`"
                yield _report(node, statement, module, text, MODULE_ADVICE[name], "API-002")
            return


@check("API-030", of=(_PACKAGE,))
def called_list(fact: CallFact, module: Module) -> Iterator[Report]:
    """``process = make_logits_processors(...)``, then ``process(logits)``."""
    if (fact.symbol or "").rpartition(".")[2] != "make_logits_processors":
        return
    held = _held(fact, module)
    for use in () if held is None else held.uses:
        assert held is not None
        call = held.contents.parent_of(use)
        if isinstance(call, cst.Call) and call.func is use:
            yield _report(
                call,
                held.contents.statement_of(call),
                module,
                "`make_logits_processors()` returns a list, which is not callable",
                "Write `for process in processors: logits = process(tokens, logits)`",
            )


@check("API-030", of=(_PACKAGE,))
def generated_item(fact: CallFact, module: Module) -> Iterator[Report]:
    """``text += part`` of ``stream_generate``, ``token.item()`` of ``generate_step``."""
    name, loop = (fact.symbol or "").rpartition(".")[2], fact.place.statement
    if name not in ("stream_generate", "generate_step") or not isinstance(loop, cst.For):
        return
    target: cst.BaseExpression = loop.target
    if last_name(loop.iter) == "zip" and isinstance(target, cst.Tuple):
        target = target.elements[0].value
    elif loop.iter is not fact.node:
        return
    if name == "generate_step" and isinstance(target, cst.Tuple):
        target = target.elements[0].value
    body = contents_of(loop.body)
    if not isinstance(target, cst.Name) or target.value in body.stored or _asks(target.value, body):
        return
    misused = _as_text if name == "stream_generate" else _as_array
    for use in body.uses(target.value):
        node = misused(use, body)
        if node is None:
            continue
        shown = f"`{name}()` yields "
        yield _report(
            node,
            body.statement_of(use),
            module,
            shown + ("responses, not texts" if misused is _as_text else "tokens as Python ints"),
            "Write `response.text`" if misused is _as_text else "Remove the method",
        )


def _asks(name: str, body: Contents) -> bool:
    """Return whether a loop asks for the type of an item, or whether it has an attribute."""
    return any(
        last_name(call) in ("isinstance", "hasattr", "getattr", "type")
        and any(dotted(argument.value) == name for argument in call.args)
        for call in body.calls
    )


def _as_text(use: cst.Name, body: Contents) -> cst.CSTNode | None:
    """Return the name where it is added to another value, or printed."""
    parent = body.parent_of(use)
    if isinstance(parent, cst.AugAssign) and isinstance(parent.operator, cst.AddAssign):
        return use
    if isinstance(parent, cst.BinaryOperation) and isinstance(parent.operator, cst.Add):
        return use
    call = body.parent_of(parent) if isinstance(parent, cst.Arg) else None
    is_print = isinstance(call, cst.Call) and last_name(call) == "print"
    return use if is_print else None


_OF_ARRAYS = ("item", "tolist", "astype", "reshape", "shape", "squeeze")


def _as_array(use: cst.Name, body: Contents) -> cst.CSTNode | None:
    parent = body.parent_of(use)
    if not isinstance(parent, cst.Attribute) or parent.value is not use:
        return None
    return parent if parent.attr.value in _OF_ARRAYS else None


def _report(
    node: cst.CSTNode,
    statement: cst.CSTNode,
    module: Module,
    message: str,
    help: str,  # noqa: A002 - as reports name it
    code: str = "API-030",
) -> Report:
    place = module.frame.place()._replace(statement=statement)
    return Report(code, node, place, message=message, help=help, context="default")
