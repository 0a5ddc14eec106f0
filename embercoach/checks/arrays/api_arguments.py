"""API-003: calls that the signature of a function of MLX refuses, also by ``**config``."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from embercoach.analysis import mlx_api
from embercoach.analysis.calls.definitions import FunctionInfo
from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.dataflow.scopes import bindings_at, bodies_of, is_rebound
from embercoach.analysis.dataflow.value_sources import Source, changed_keys, sources_of
from embercoach.analysis.mlx_api import ApiEntry
from embercoach.analysis.project.module import Module
from embercoach.analysis.shapes.node_shapes import is_scalar
from embercoach.analysis.syntax.trees import dotted, evaluated
from embercoach.analysis.values.facts import CallFact, Fact, calls_by_function
from embercoach.analysis.values.lattice import (
    NONE,
    Array,
    BoundMember,
    Dict,
    Number,
    Sequence,
    Str,
    Symbol,
    Tree,
    Unknown,
    Value,
    options,
)
from embercoach.analysis.values.memo import kept_for_file
from embercoach.analysis.values.promotion import DTYPES, FLOATING
from embercoach.analysis.work import MOST_CALLS
from embercoach.checks.fallbacks import REFUSED, is_patched
from embercoach.checks.registry import ProposedFix, Report, check
from embercoach.checks.source_text import mlx_alias

#: Characters of a called expression that a message quotes.
_LONGEST_NAME = 32
#: What takes entries out of a dictionary.
_REMOVES = ("pop", "popitem", "clear", "__delitem__")


@check("API-003", unless=REFUSED)
def refused_entry(fact: CallFact, module: Module) -> Iterator[Report]:
    """``optim.Adam(**config)`` of a dictionary with ``"lr"``."""
    starred = [argument for argument in fact.arguments if argument.star == "**"]
    if not starred:
        return
    entries = [_class_or_function(callee) for callee in options(fact.callee)]
    known = sorted((e for e in entries if e is not None), key=lambda entry: entry.name)
    if not known or len(known) < len(entries):
        return
    accepted = {param.name for entry in known for param in entry.params}
    given = {a.keyword for a in fact.arguments}
    for argument in starred:
        passed = sources_of(module).of(fact, argument.node)
        for name, where, node in dict.fromkeys(_keys(passed, fact, module)):
            if name not in accepted and name not in given:
                shown = module.parsed.code(fact.node.func)
                yield _refused(where, node, name, known[0], shown)


_PAIR = "clip_grad_norm"


@check("API-003")
def pair_of_gradients(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``optimizer.update(model, clip_grad_norm(grads, 1.0))``, of gradients and their norm."""
    sources = sources_of(module)
    for function, contents in bodies_of(module) if _PAIR in module.source else ():
        for call in contents.calls:
            if last_name(call) not in ("update", "apply_gradients"):
                continue
            for argument in call.args:
                passed = Source(argument.value, contents.statement_of(call), function, module)
                ends = [sources.library_call(end) for end in sources.ends(passed)]
                if ends and all(end and end.name == f"mlx.optimizers.{_PAIR}" for end in ends):
                    yield Report.at(
                        passed,
                        message=f"`{_PAIR}` returns a pair of gradients and their norm, not a tree",
                        help=f"Unpack its result: `grads, norm = optim.{_PAIR}(...)`",
                    )


@check("API-003", of=("functools.partial",), unless=REFUSED)
def refused_in_partial(fact: CallFact, module: Module) -> Iterator[Report]:
    """``partial(nn.LayerNorm, elementwise_affine=False)``."""
    first = fact.positional(0)
    entry = None if first is None else _class_or_function(first.value)
    if first is None or entry is None or any(a.star for a in fact.arguments):
        return
    accepted = {param.name for param in entry.params}
    for argument in fact.arguments:
        if argument.keyword is not None and argument.keyword not in accepted:
            yield _refused(fact, argument.node, argument.keyword, entry)


def _refused(where: Fact, node: cst.CSTNode, name: str, entry: ApiEntry, shown: str = "") -> Report:
    if not shown or len(shown) > _LONGEST_NAME:
        shown = entry.name.rpartition(".")[2]
    return Report.at(
        where,
        node=node,
        message=f"`{shown}()` has no parameter `{name[:24]}`",
        help=f"Use one of: {_listed(entry)}",
    )


def _class_or_function(callee: object) -> ApiEntry | None:
    """Return the entry of a function or class of MLX whose parameters are all known."""
    if not isinstance(callee, Symbol) or not callee.name.startswith("mlx."):
        return None
    entry = mlx_api.lookup(callee.name)
    if entry is None or entry.kind not in ("class", "function"):
        return None
    if entry.kind == "class" and callee.name.startswith("mlx.core."):
        return None
    return None if any(param.kind == "keywords" for param in entry.params) else entry


def _listed(entry: ApiEntry) -> str:
    names = [f"`{param.name}`" for param in entry.params][:4]
    return ", ".join(names) if names else "no keyword arguments"


def _keys(
    passed: Source, where: Fact, module: Module, depth: int = MOST_CALLS
) -> Iterator[tuple[str, Fact, cst.CSTNode]]:
    """Yield the keys of a dictionary, and the call and the expression that each is reported at."""
    if depth == 0 or _is_reduced(passed):
        return
    # What a list or another dictionary holds has no name that ``_is_reduced`` knows.
    changed = frozenset() if isinstance(passed.node, cst.Name) else changed_keys(module)
    for end in sources_of(module).ends(passed, through_callers=True):
        for key, value in _entries(end.node):
            if key is None:
                yield from _keys(end.at(value), where, module, depth - 1)
            elif key not in changed:
                yield key, where, where.node
        if isinstance(end.node, cst.Name) and end.function is not None:
            yield from _gathered(end.node.value, end.function, module, depth)


def _entries(node: cst.CSTNode) -> Iterator[tuple[str | None, cst.BaseExpression]]:
    """Yield the keys and values of a dictionary as written; None for one that is unpacked in it."""
    if isinstance(node, cst.Dict):
        for element in node.elements:
            literal = element.key if isinstance(element, cst.DictElement) else None
            key = evaluated(literal) if isinstance(literal, cst.SimpleString) else None
            if isinstance(key, str) or isinstance(element, cst.StarredDictElement):
                yield key if isinstance(key, str) else None, element.value
    elif isinstance(node, cst.Call) and dotted(node.func) == "dict":
        for argument in node.args:
            if argument.keyword is not None or argument.star == "**":
                yield argument.keyword.value if argument.keyword else None, argument.value


def _gathered(
    name: str, function: FunctionInfo, module: Module, depth: int
) -> Iterator[tuple[str, Fact, cst.CSTNode]]:
    """Yield the keys that callers pass for ``**name``."""
    stars = {parameter.name: parameter.star for parameter in function.parameters}
    if stars.get(name) != "**" or is_rebound(function.module, function, name):
        return
    named = {name for name, star in stars.items() if not star}
    for call in calls_by_function(module).get(function, ()):
        for argument in call.node.args:
            if argument.keyword is not None and argument.keyword.value not in named:
                yield argument.keyword.value, call, argument.value
            elif argument.star == "**":
                given = sources_of(module).of(call, argument.value)
                found = _keys(given, call, module, depth - 1)
                yield from (entry for entry in found if entry[0] not in named)


def _is_reduced(passed: Source) -> bool:
    """Return whether entries may be taken out of a dictionary, where its name is bound."""
    path = dotted(passed.node)
    if path is None:
        return False
    bound = bindings_at(path, passed.statement, passed.function, passed.module)
    function = None if bound is None else bound.function
    return path in _reduced(passed.module.tree if function is None else function.node)


@kept_for_file
def _reduced(tree: cst.CSTNode) -> frozenset[str]:
    """Return the paths of what a tree takes entries out of, or deletes."""
    contents = contents_of(tree)
    methods = (call.func for call in contents.calls)
    found: list[cst.CSTNode] = [
        method.value
        for method in methods
        if isinstance(method, cst.Attribute) and method.attr.value in _REMOVES
    ]
    parts = (statement.target for statement in contents.of(cst.Del))
    found += [part.value if isinstance(part, cst.Subscript) else part for part in parts]
    return frozenset(path for target in found if (path := dotted(target)) is not None)


#: Methods of arrays whose arguments are checked: those that torch and NumPy spell otherwise.
_METHODS = """
all any argmax argmin astype cummax cummin cumprod cumsum diagonal flatten item logcumsumexp
logsumexp max mean min moveaxis prod reshape round split squeeze std sum swapaxes tolist transpose
var view
"""
METHODS = tuple(f".{name}" for name in _METHODS.split())
#: Functions of which another rule checks the arguments, or the table has not all of them.
OTHERS = frozenset(("mlx.core.arange", "mlx.core.jvp", "mlx.core.vjp", "mlx.core.vmap"))
#: What helps instead of the list of parameters.
HELP = {
    "mlx.core.where": "Pass both values: MLX has no shapes that depend on data",
    "mlx.core.default_device": "Use `with mx.stream(mx.cpu):` for a block of code",
    "mlx.core.random.normal": "Pass the shape as a tuple: `mx.random.normal((3, 4))`",
    "mlx.core.random.uniform": "Pass the shape as a keyword: `mx.random.uniform(shape=(3, 4))`",
    "mlx.core.zeros": "Pass the shape as a tuple: `mx.zeros((3, 4))`",
    "mlx.core.ones": "Pass the shape as a tuple: `mx.ones((3, 4))`",
    "mlx.core.concat": "Pass a list: `mx.concat([a, b], axis=0)`",
    "mlx.core.concatenate": "Pass a list: `mx.concatenate([a, b], axis=0)`",
    "mlx.core.stack": "Pass a list: `mx.stack([a, b], axis=0)`",
}
#: Functions that take the shape as their first argument.
SHAPED = frozenset(("mlx.core.zeros", "mlx.core.ones", "mlx.core.empty", "mlx.core.random.normal"))
_DTYPE_PROBLEM = "takes an MLX dtype as"
MOST_LISTED = 60  # characters of parameters in a help text


@check("API-003", of=("mlx.", *METHODS), unless=REFUSED)
def refused_call(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.sum(x, dim=0)``, ``mx.where(mask)``, ``mx.default_device(mx.cpu)``."""
    entry = fact.entry
    if entry is None or not _is_checkable(fact, entry):
        return
    problem = (
        _of_another_type(fact)
        or _arrays_without_list(fact, module)
        or _arrays_as_ints(fact, module)
        or _unknown_keyword(fact, entry)
        or _too_many(fact, entry)
        or _missing(fact, entry)
        or _given_twice(fact)
    )
    if problem is None:
        return
    owner, _, name = _written(fact, module).rpartition(".")
    if is_patched(module, owner, name):
        return
    yield Report.at(
        fact,
        message=f"`{_written(fact, module)}()` {problem}",
        help=_help(fact, entry, problem),
        change=_change(fact, module, entry, problem),
        covers=tuple(argument.node for param, argument in fact.matched if param.takes_only_ints),
    )


def _help(fact: CallFact, entry: ApiEntry, problem: str) -> str:
    if problem.startswith("takes ints"):
        return "Pass Python ints, such as those of `.shape`"
    dtypes = [a.value for p, a in fact.matched if p.accepts == "dtype"]
    if _is_reshape(fact, problem):
        return "Use `.reshape(...)`: MLX's `view` changes the dtype"
    if problem.startswith(_DTYPE_PROBLEM) and not isinstance(dtypes[0], Number):
        return "Pass a dtype of MLX, such as `mx.float32`"
    is_usual = not problem.startswith(("has no parameter", "gets the argument"))
    return (is_usual and HELP.get(entry.name)) or _signature(entry)


def _is_reshape(fact: CallFact, problem: str) -> bool:
    """Test for ``x.view(2, -1)``, as in torch."""
    is_view = isinstance(fact.callee, BoundMember) and fact.callee.name == "view"
    is_dtype = any(isinstance(argument.value, (Str, Symbol)) for argument in fact.arguments)
    return is_view and not is_dtype and problem.startswith((_DTYPE_PROBLEM, "takes at most"))


def _is_checkable(fact: CallFact, entry: ApiEntry) -> bool:
    if isinstance(fact.callee, BoundMember) and type(fact.receiver) is not Array:
        return False
    if entry.kind == "method" and fact.symbol is not None:  # of the class: the owner comes first
        return False
    if entry.name in OTHERS or entry.name.endswith("_kernel"):
        return False
    is_core = entry.name.startswith("mlx.core.")
    if entry.kind == "class":  # of a class in C++ the table has no constructor
        return not is_core or entry.name == "mlx.core.array"
    return entry.kind in ("function", "method")


def _written(fact: CallFact, module: Module) -> str:
    func = fact.node.func
    if isinstance(fact.callee, BoundMember):
        return f".{fact.callee.name}"
    text = module.parsed.code(func)
    return text if len(text) <= 40 else text.rpartition(".")[2]


def _unknown_keyword(fact: CallFact, entry: ApiEntry) -> str | None:
    if any(param.kind == "keywords" for param in entry.params):
        return None
    for argument in fact.arguments:
        name = argument.keyword
        # MLX takes many parameters by keyword that its signatures show as positional.
        if name is not None and all(param.name != name for param in entry.params):
            return f"has no parameter `{name}`"
    return None


def _too_many(fact: CallFact, entry: ApiEntry) -> str | None:
    if any(param.kind == "variadic" for param in entry.params):
        return None
    most = sum(param.kind in ("normal", "positional_only") for param in entry.params)
    given = sum(a.keyword is None and not a.star for a in fact.arguments)
    if given <= most:
        return None
    return (
        f"takes at most {most} positional arguments, got {given}" if most else "takes no arguments"
    )


def _missing(fact: CallFact, entry: ApiEntry) -> str | None:
    if any(argument.star for argument in fact.arguments):
        return None
    given = {param.name for param, _ in fact.matched} | {a.keyword for a in fact.arguments}
    missing = [p.name for p in entry.params if not p.has_default and p.name not in given]
    return f"misses the argument `{missing[0]}`" if missing else None


def _of_another_type(fact: CallFact) -> str | None:
    """``mx.zeros(3, 4)``, ``x.astype("float32")``, ``mx.random.uniform((3, 4))``."""
    for param, argument in fact.matched:
        value = argument.value
        if param.name == "learning_rate" and isinstance(value, (Tree, Dict)):
            return "takes the learning rate first, not the parameters"
        if param.name == "low" and isinstance(value, Sequence) and value.kind in ("list", "tuple"):
            return "takes the lower bound first, not the shape"
        if param.expects_array and param.kind != "variadic":
            given = "None" if value is NONE and not param.nullable else _is_no_array(value)
            if given is not None:
                return f"takes an array as `{param.name}`, got {given}"
        if param.accepts != "dtype":
            continue
        is_text = isinstance(value, Str) and value.text is not None
        if isinstance(value, (Number, Sequence)) or is_text:
            return f"{_DTYPE_PROBLEM} `{param.name}`"
        if isinstance(value, Symbol) and value.name.startswith(("numpy.", "torch.", "builtins.")):
            return f"{_DTYPE_PROBLEM} `{param.name}`, not `{value.name}`"
    return None


def _is_no_array(value: Value) -> str | None:
    """Return what a value is that MLX does not convert to an array; None for what may be one."""
    if isinstance(value, Sequence) and value.kind in ("list", "tuple"):
        return f"a {value.kind}"
    if isinstance(value, Dict):
        return "a dictionary"
    return "a text" if isinstance(value, Str) else None


def _arrays_without_list(fact: CallFact, module: Module) -> str | None:
    """``mx.concat(a, b)``: the second array is taken for the axis."""
    second = fact.positional(1)
    if second is None or type(second.value) is not Array:
        return None
    param, first = fact.matched[0]
    if param.accepts != "list[array]" or type(first.value) is not Array:
        return None
    if is_scalar(module, second.node):
        return None
    return "takes a list of arrays, got several arguments"


def _arrays_as_ints(fact: CallFact, module: Module) -> str | None:
    """``mx.zeros((n / 2,))``, ``x.reshape(y, 3)``: arrays that MLX can't convert to ints."""
    taking = [(param, argument) for param, argument in fact.matched if param.takes_only_ints]
    counts = [argument for param, argument in fact.matched if taking and param.kind == "variadic"]
    for param, argument in taking:
        value = argument.value
        whole = type(value) is Array
        items = (value,) if whole else _items(value)
        floating = [i.dtype for i in items if type(i) is Array and i.dtype in FLOATING]
        if floating:
            return f"takes ints as `{param.name}`, got a {floating[0]} array"
        is_count = whole and param.name == "shape" and is_scalar(module, argument.node)
        if is_count or (whole and len(counts) > 1 and param.kind == "variadic"):
            return f"takes ints as `{param.name}`, got an array"
    return None


def _items(value: Value) -> tuple[Value, ...]:
    is_shape = isinstance(value, Sequence) and value.kind in ("tuple", "list")
    return (value.items or ()) if is_shape and isinstance(value, Sequence) else ()


def _given_twice(fact: CallFact) -> str | None:
    names = [param.name for param, _ in fact.matched if param.kind != "variadic"]
    if len(set(names)) == len(names):
        return None
    twice = next((name for name in names if names.count(name) > 1), None)
    return None if twice is None else f"gets the argument `{twice}` twice"


def _signature(entry: ApiEntry) -> str:
    names = [f"`{p.name}`" for p in entry.params]
    text = ", ".join(names)
    while len(text) > MOST_LISTED:
        names.pop()
        text = ", ".join([*names, "..."])
    return f"MLX {mlx_api.version()} takes: {text}" if names else "Remove the arguments"


def _change(fact: CallFact, module: Module, entry: ApiEntry, problem: str) -> ProposedFix | None:
    """Write MLX's keywords for torch's; the stream of a ``with`` for the default device."""
    from embercoach.analysis.mlx_api.replacements import KEYWORDS

    if _arrays_without_list(fact, module) is not None:
        return _as_list(fact, module)
    if entry.name == "mlx.core.default_device":
        return _as_stream(fact)
    if entry.name in (*SHAPED, "mlx.core.random.uniform"):
        change = _shape_fix(fact, module, entry)
        if change is not None:
            return change
    func = fact.node.func
    if _is_reshape(fact, problem) and isinstance(func, cst.Attribute):
        return ProposedFix("Use `.reshape`", False, ((func.attr, "reshape"),))
    if problem.startswith(_DTYPE_PROBLEM):
        return _dtype_fix(fact, module)
    edits: list[tuple[cst.CSTNode, str]] = []
    for argument, written in zip(fact.node.args, fact.arguments, strict=False):
        name = argument.keyword
        # MLX takes many parameters by keyword that its signatures show as positional.
        if name is None or any(param.name == name.value for param in entry.params):
            continue
        near = (KEYWORDS.get(name.value), f"{name.value}s", name.value.removesuffix("s"))
        param = next((param for param in entry.params if param.name in near), None)
        taken = any(param is other for other, _ in fact.matched)
        if param is None or taken or written.star:
            return None
        edits.append((name, param.name))
    if not edits or len({text for _, text in edits}) < len(edits):
        return None
    return ProposedFix("Write MLX's keyword arguments", False, tuple(edits))


def _as_list(fact: CallFact, module: Module) -> ProposedFix | None:
    """``mx.concat([a, b])`` for ``mx.concat(a, b)``."""
    given = [argument for argument in fact.arguments if argument.keyword is None]
    if any(argument.star or type(argument.value) is not Array for argument in given):
        return None
    return ProposedFix("Pass a list", False, _enclosed(fact, module, len(given), "[{}]"))


def _enclosed(
    fact: CallFact, module: Module, count: int, form: str
) -> tuple[tuple[cst.CSTNode, str], ...]:
    """Put the first arguments into brackets, each with the parentheses around it."""
    before, after = form.split("{}")
    texts = [module.parsed.code(argument.value) for argument in fact.node.args[:count]]
    texts[0] = before + texts[0]
    texts[-1] += after
    return tuple((fact.node.args[i], texts[i]) for i in sorted({0, count - 1}))


def _dtype_fix(fact: CallFact, module: Module) -> ProposedFix | None:
    """``mx.zeros(s, dtype=mx.int32)`` for ``dtype="int32"`` and ``dtype=np.int32``."""
    mx = mlx_alias(module)
    for param, argument in fact.matched:
        value = argument.value
        if param.accepts != "dtype" or mx is None:
            continue
        name = value.text if isinstance(value, Str) else getattr(value, "name", None)
        short = (name or "").rpartition(".")[2]
        if isinstance(value, (Str, Symbol)) and short in DTYPES - {"bool"}:
            text = f"{mx}.{short}"
            return ProposedFix(f"Use `{text}`", False, ((argument.node, text),))
    return None


def _shape_fix(fact: CallFact, module: Module, entry: ApiEntry) -> ProposedFix | None:
    """``mx.zeros((3, 4))`` for ``mx.zeros(3, 4)``, ``uniform(shape=s)`` for ``uniform(s)``."""
    positional = [a for a in fact.arguments if a.keyword is None]
    if any(argument.star for argument in fact.arguments) or not positional:
        return None
    if entry.name not in SHAPED:
        is_shape = len(positional) == 1 and isinstance(positional[0].value, Sequence)
        if not is_shape or fact.keyword("shape") is not None:
            return None
        edits = _enclosed(fact, module, 1, "shape={}")
        return ProposedFix("Pass the shape by keyword", False, edits)
    if len(positional) < 2 or not all(isinstance(a.value, (Number, Unknown)) for a in positional):
        return None
    edits = _enclosed(fact, module, len(positional), "({})")
    return ProposedFix("Pass the shape as a tuple", False, edits)


def _as_stream(fact: CallFact) -> ProposedFix | None:
    func, statement = fact.node.func, fact.place.statement
    if not isinstance(statement, cst.With) or not isinstance(func, cst.Attribute):
        return None
    if len(fact.arguments) != 1 or all(item.item is not fact.node for item in statement.items):
        return None
    return ProposedFix("Use the device's stream", False, ((func.attr, "stream"),))
