"""CACHE: mlx-lm's caches, of which a member or the whole list is taken for something else."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst

from embercoach.analysis.dataflow.contents import Contents, bound_by, contents_of, root_name
from embercoach.analysis.dataflow.origins import Stop
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.dataflow.value_sources import Source, sources_of
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import DEFINITIONS, dotted, target_names
from embercoach.analysis.values.facts import Fact
from embercoach.analysis.values.lattice import Function, Symbol
from embercoach.analysis.values.memo import kept_for_file
from embercoach.checks.registry import ProposedFix, Report, check
from embercoach.terminal_text import quoted

#: mlx-lm's function that makes one cache a layer, of the kinds that the model needs.
_MAKER = "make_prompt_cache"


@check("CACHE-001")
def cache_members(module: Module, _: list[Fact]) -> Iterator[Report]:
    """``cache[0].step``."""
    if _MAKER not in module.source or module.is_test:
        return
    contents = contents_of(module.tree)
    for node in contents.of(cst.Attribute):
        if node.attr.value != "step" or not isinstance(node.value, cst.Subscript):
            continue
        statement = contents.statement_of(node)
        if _is_made(node.value.value, statement, contents, module):
            yield Report.in_file(
                module,
                node,
                message="`step` is how far a cache's buffers grow at once, not how much it holds",
                help="Read `.offset`, the number of tokens in the cache",
                change=ProposedFix("Read `.offset`", False, ((node.attr, "offset"),)),
            )


def _is_made(
    node: cst.BaseExpression, statement: cst.CSTNode, contents: Contents, module: Module
) -> bool:
    """Return whether all values of an expression are results of ``make_prompt_cache``."""
    around = next((one for one in contents.above(node) if isinstance(one, cst.FunctionDef)), None)
    function = next((one for one in module.functions if one.node is around), None)
    ends = sources_of(module).ends(Source(node, statement, function, module), through_callers=True)
    made = [isinstance(end.node, cst.Call) and last_name(end.node) == _MAKER for end in ends]
    # An attribute may be None before.
    empty = [isinstance(end.node, cst.Name) and end.node.value == "None" for end in ends]
    return any(made) and all(one or other for one, other in zip(made, empty, strict=True))


@check("CACHE-002")
def offset_before_update(module: Module, _: list[Fact]) -> Iterator[Report]:
    """``offset = cache.offset``, then ``cache.update_and_fetch(k, v)``, then ``offset``.

    Also ``offset = cache[0].offset`` before the loop over the layers, which update their caches.
    """
    if _UPDATE not in module.source or not any(end in module.source for end in _KEPT):
        return
    for function in module.functions:
        contents = contents_of(function.node.body, DEFINITIONS)
        if "offset" not in contents.names:
            continue
        place = {node: number for number, node in enumerate(contents)}
        for owner, assigned, target in _offsets(contents):
            cache = module.parsed.code(owner)
            later = _read_by_layers(owner, assigned, target, contents, place)
            if later is not None and _has_array_offsets(module):
                yield _aliased(later, cache, assigned, contents, module)
                continue
            updated = next(
                (u for u in _updates(contents, cache, module) if place[u] > place[assigned]), None
            )
            if updated is None:
                continue
            end = max(place[node] for node in contents_of(updated))
            for read in contents.uses(target.value):
                if place[read] > end and _is_position(read, target, assigned, contents, place):
                    if _has_array_offsets(module):
                        yield _aliased(read, cache, assigned, contents, module)
                    break


_UPDATE = "update_and_fetch"
#: Ends of an expression that a name is bound to; ``offset=cache.offset`` ends in another way.
_KEPT = (".offset\n", ".offset if ", ".offset #", ".offset  #", ".offset else ", "].offset")


def _has_array_offsets(module: Module) -> bool:
    """Return whether caches are mlx-lm's, or of a file near that adds to an array of offsets."""
    if "mlx_lm" in module.source:
        return True
    near = {module, *module.imported}
    near |= {further for one in module.imported for further in one.imported}
    return any("offset = mx.array(" in one.source and _adds_in_place(one) for one in near)


@kept_for_file
def _adds_in_place(module: Module) -> bool:
    updates = contents_of(module.tree).of(cst.AugAssign)
    return any(dotted(update.target) == "self.offset" for update in updates)


def _offsets(
    contents: Contents,
) -> Iterator[tuple[cst.Name | cst.Subscript, cst.Assign, cst.Name]]:
    """Yield assignments of ``cache.offset`` to a name: the cache, the statement and the name."""
    for statement in contents.of(cst.Assign):
        target = statement.targets[0].target
        value = statement.value
        values = [value.body, value.orelse] if isinstance(value, cst.IfExp) else [value]
        for read in values:
            if (
                isinstance(target, cst.Name)
                and isinstance(read, cst.Attribute)
                and read.attr.value == "offset"
                and isinstance(read.value, (cst.Name, cst.Subscript))
            ):
                yield read.value, statement, target


def _read_by_layers(
    owner: cst.Name | cst.Subscript,
    assigned: cst.Assign,
    target: cst.Name,
    contents: Contents,
    place: dict[cst.CSTNode, int],
) -> cst.Name | None:
    """Return where a loop over layers, each with its cache, passes the first cache's offset on."""
    caches = root_name(owner) if isinstance(owner, cst.Subscript) else ""
    for loop in contents.of(cst.For) if caches else ():
        if place[loop] < place[assigned] or assigned in contents_of(loop):
            continue
        body, items = contents_of(loop.body), frozenset(target_names(loop.target))
        held = frozenset(_caches_of(loop.target, loop.iter, caches))
        given = [argument.value for call in body.calls for argument in call.args]
        methods = [call.func for call in body.calls if isinstance(call.func, cst.Attribute)]
        given += [method.value for method in methods if method.attr.value == _UPDATE]
        if not any(
            root_name(one) == caches if isinstance(one, cst.Subscript) else dotted(one) in held
            for one in given
        ):
            continue
        rebound = [
            one
            for one in contents.of(cst.Assign)
            if target.value in bound_by(one) and place[one] > place[assigned]
        ]
        for read in body.uses(target.value) if not rebound else ():
            call = body.parent_of(body.parent_of(read))
            if isinstance(call, cst.Call) and root_name(call.func) in items:
                return read
    return None


def _caches_of(
    target: cst.BaseExpression, iterable: cst.BaseExpression, caches: str
) -> Iterator[str]:
    """Yield the names that a loop gives to the items of a list: of ``zip(self.layers, cache)``."""
    if root_name(iterable) == caches:
        yield from target_names(target)
    elif isinstance(iterable, cst.Call) and isinstance(target, cst.Tuple):
        parts = [element.value for element in target.elements]
        name = last_name(iterable)
        given = [argument.value for argument in iterable.args]
        if name == "enumerate":
            parts, given = parts[1:], given[:1]
        if name in ("zip", "enumerate"):
            for part, one in zip(parts, given, strict=False):
                yield from _caches_of(part, one, caches)


def _updates(contents: Contents, cache: str, module: Module) -> Iterator[cst.Call]:
    """Yield the calls that add keys and values to a cache."""
    for call in contents.calls:
        func = call.func if last_name(call) == _UPDATE else None
        if isinstance(func, cst.Attribute) and module.parsed.code(func.value) == cache:
            yield call


def _is_position(
    read: cst.Name,
    target: cst.Name,
    assigned: cst.Assign,
    contents: Contents,
    place: dict[cst.CSTNode, int],
) -> bool:
    """Return whether a name that is not bound again is the offset of a rotary embedding."""
    argument = contents.parent_of(read)
    call = None if argument is None else contents.parent_of(argument)
    if not isinstance(call, cst.Call) or not any("rope" in n.lower() for n in _callee(call)):
        return False
    return not any(
        place[assigned] < place[one] < place[read] and target.value in bound_by(one)
        for one in contents.of(cst.Assign)
    )


def _callee(call: cst.Call) -> tuple[str, ...]:
    return ((dotted(call.func) or "").replace("rotary", "rope"),)


def _aliased(
    read: cst.Name, cache: str, assigned: cst.Assign, contents: Contents, module: Module
) -> Report:
    shown = quoted(read.value, 20)
    used = Stop(read, contents.statement_of(read), "the name is the offset after the update here")
    return Report.in_file(
        module,
        assigned.value,
        "CACHE-002",
        message=f"`{shown}` changes with the cache, where that keeps its offset as an array",
        help=f"Copy it: `{quoted(cache, 20)}.offset + 0`",
        related=(used,),
    )


_MASK = "create_attention_mask"


@check("CACHE-003")
def mask_of_all_caches(module: Module, _: list[Fact]) -> Iterator[Report]:
    """``create_attention_mask(h, cache)`` with the list of the caches of all layers."""
    if f"{_MASK}(" not in module.source:
        return
    needs = _needs_one_cache(module)
    if not needs:
        return
    for function in module.functions:
        names = {parameter.name for parameter in function.parameters}
        contents = contents_of(function.node.body, DEFINITIONS)
        for call in contents.calls:
            given = _second(call) if last_name(call) == _MASK else None
            if isinstance(given, cst.Name) and given.value in names:
                cache = given.value
                if _is_list(cache, contents):
                    shown = quoted(cache, 20)
                    yield Report.in_file(
                        module,
                        given,
                        message=f"mask made from the list `{shown}` leaves out padding and windows",
                        help=f"Pass the cache of a layer, such as `{shown}[0]`",
                    )


def _second(call: cst.Call) -> cst.BaseExpression | None:
    named = next((a.value for a in call.args if a.keyword and a.keyword.value == "cache"), None)
    return named or (call.args[1].value if len(call.args) > 1 else None)


def _needs_one_cache(module: Module) -> bool:
    """Return whether the function that makes masks asks one cache for its mask.

    That of older releases took the list, and asked the first layer's cache: that is not enough
    where layers have caches of several kinds.
    """
    found = module.frame.lookup(_MASK)
    if isinstance(found, Symbol):
        return found.name.startswith("mlx_lm.")
    if not isinstance(found, Function):
        return False
    names = contents_of(found.info.node).names
    return "make_mask" in names or ("offset" in names and len(_kinds_of_caches(module)) > 1)


def _kinds_of_caches(module: Module) -> set[str]:
    """Return the classes of the caches that a model of the file makes for its layers."""
    makers = (f for f in module.functions if f.name == "make_cache")
    calls = (last_name(call) or "" for f in makers for call in contents_of(f.node.body).calls)
    return {name for name in calls if name.endswith("Cache")}


def _is_list(cache: str, contents: Contents) -> bool:
    """Return whether a function goes through a parameter with the layers, or makes it a list."""
    for call in contents.calls:
        if last_name(call) == "zip" and any(dotted(a.value) == cache for a in call.args):
            return True
    return any(
        cache in bound_by(one)
        and isinstance(one.value, cst.BinaryOperation)
        and cst.List in (type(one.value.left), type(one.value.right))
        for one in contents.of(cst.Assign)
    )


_OWNERS = tuple(f"{package}.models.cache" for package in ("mlx_lm", "mlx_vlm", "mlx_audio.lm"))


@check("CACHE-004")
def cache_arguments(module: Module, _: list[Fact]) -> Iterator[Report]:
    """``KVCache(head_dim, n_kv_heads)``, as the first releases of mlx-lm had it."""
    if "KVCache(" not in module.source:
        return
    contents = contents_of(module.tree)
    for call in contents.calls:
        first, dot, rest = (dotted(call.func) or "").partition(".")
        if not call.args or not f".{first}{dot}{rest}".endswith(".KVCache"):
            continue
        found = module.frame.lookup(first)
        whole = f"{found.name}{dot}{rest}" if isinstance(found, Symbol) else ""
        if whole in [f"{one}.KVCache" for one in _OWNERS]:
            yield Report.in_file(
                module,
                call,
                message="`KVCache()` takes no arguments",
                help="Write `KVCache()`: it takes the sizes from the first keys",
            )


#: Parameters that hold the caches of all layers.
_CACHES = frozenset(("cache", "caches", "kv_cache", "kv_caches", "past_key_values"))
_DEEPEST = 4
#: Words of names in functions that know how many tokens a cache holds.
_KNOWING = frozenset(
    (
        *("offset", "offsets", "past", "pos", "start", "prefix", "prev", "total"),
        *("history", "kv", "step"),
    )
)
_ADD_KEYS = "Add the cache's offset to the keys, as mlx-lm's `create_attention_mask` does"
_ADD_IDS = "Add the offset of the cache: `mx.arange(L) + cache[0].offset`"


@check("CACHE-005")
def cache_left_out(module: Module, _: list[Fact]) -> Iterator[Report]:
    """``create_additive_causal_mask(h.shape[1])``, then ``layer(h, mask, cache[i])``."""
    if module.is_test or "cache" not in module.source or "mx." not in module.source:
        return
    for function in module.functions:
        cache = next((p.name for p in function.parameters if p.name in _CACHES), None)
        if cache is None:
            continue
        contents = contents_of(function.node.body, DEFINITIONS)
        names = (word for name in contents.names if name != cache for word in name.split("_"))
        if not _KNOWING.isdisjoint(names):
            continue
        shown = quoted(cache, 20)
        short = f"mask without the tokens in `{shown}`: it has fewer keys"
        uses = [(one, _is_square, short, _ADD_KEYS) for one in _masks(contents, cache)]
        again = f"positions start at 0 also after the tokens in `{shown}`"
        uses += [(one, _is_range, again, _ADD_IDS) for one in _positions(contents)]
        for value, is_made, message, remedy in uses:
            statement = contents.statement_of(value)
            made = _made(Source(value, statement, function, module), is_made)
            if made is None or _is_for_none(made, cache, contents):
                continue
            yield Report.in_file(module, made, function=function, message=message, help=remedy)
            break


def _masks(contents: Contents, caches: str) -> Iterator[cst.BaseExpression]:
    """Yield the masks that are passed to a layer together with its cache."""
    loops: list[cst.For | cst.CompFor] = contents.of(cst.For, cst.CompFor)
    loops = [loop for loop in loops if caches in contents_of(loop.iter).names]
    items = {name for loop in loops for name in target_names(loop.target)}
    for call in contents.calls:
        given = [argument.value for argument in call.args]
        if not any(_is_cache(one, caches, items) for one in given):
            continue
        for one in given:
            if isinstance(one, cst.Name) and "mask" in one.value:
                yield one


def _is_cache(node: cst.BaseExpression, caches: str, items: set[str]) -> bool:
    if isinstance(node, cst.Subscript):
        return root_name(node) == caches
    return isinstance(node, cst.Name) and node.value in items and "mask" not in node.value


def _positions(contents: Contents) -> Iterator[cst.BaseExpression]:
    """Yield what a learned embedding of positions is given."""
    for call in contents.calls:
        name = (last_name(call) or "").lower()
        if len(call.args) == 1 and (name == "wpe" or ("pos" in name and "emb" in name)):
            yield call.args[0].value


def _made(
    source: Source, is_made: Callable[[cst.Call], bool], depth: int = _DEEPEST
) -> cst.Call | None:
    """Return the call that makes an array, if it is one that is asked for."""
    for end in sources_of(source.module).ends(source) if depth else ():
        node = end.node
        found = next(filter(is_made, contents_of(node).calls), None)
        if found is None and isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            found = _made(end.at(node.func.value), is_made, depth - 1)  # ``mask.astype(h.dtype)``
        if found is not None and end.function is source.function:
            return found
    return None


def _is_square(call: cst.Call) -> bool:
    """Test for a causal mask with as many keys as queries, such as ``mx.tri(L)``."""
    name, sizes = last_name(call), [one for one in call.args if one.keyword is None]
    if name in ("tri", "create_additive_causal_mask"):
        return len(sizes) == 1
    made = call.args[0].value if name in ("tril", "triu") and call.args else None
    shape = made.args[0].value if isinstance(made, cst.Call) and made.args else None
    axes = [e.value for e in shape.elements] if isinstance(shape, (cst.Tuple, cst.List)) else []
    return len(axes) == 2 and axes[0].deep_equals(axes[1])


def _is_range(call: cst.Call) -> bool:
    return last_name(call) == "arange" and len(call.args) == 1


def _is_for_none(node: cst.CSTNode, caches: str, contents: Contents) -> bool:
    """Return whether a mask is made only without a cache."""
    tests = (one.test for one in contents.above(node) if isinstance(one, (cst.If, cst.IfExp)))
    return any(caches in contents_of(test).names for test in tests)
