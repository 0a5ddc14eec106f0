"""NN: attributes of modules that are trained by accident, or never, and what training replaces."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from embercoach.analysis import mlx_api
from embercoach.analysis.calls.definitions import ClassInfo, FunctionInfo
from embercoach.analysis.dataflow.contents import bound_by, contents_of
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.dataflow.scopes import Expression, Scope, resolved, scope_of
from embercoach.analysis.dataflow.value_sources import Source, sources_of
from embercoach.analysis.evaluate.members import member
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import DEFINITIONS, SCOPES, dotted, evaluated
from embercoach.analysis.values.facts import (
    AttributeFact,
    CallFact,
    Fact,
    FactPlace,
    InstanceCallFact,
    calls_of,
)
from embercoach.analysis.values.inheritance import MODULE_CLASS, is_layer, lineage
from embercoach.analysis.values.lattice import (
    Array,
    BoundMember,
    Dict,
    Instance,
    LibraryObject,
    Sequence,
    Symbol,
    Transformed,
    Value,
    any_item,
    options,
)
from embercoach.analysis.values.memo import kept_for_file
from embercoach.analysis.values.promotion import SIGNED
from embercoach.analysis.work import MOST_STEPS
from embercoach.checks.registry import ProposedFix, Report, check
from embercoach.terminal_text import quoted


@check("NN-007")
def replaced_call(fact: InstanceCallFact, module: Module) -> Iterator[Report]:
    """``layer.__call__ = f``."""
    yield Report.at(
        fact,
        message="`__call__` set on an instance: calls of the module never run it",
        help="Replace the module by one that wraps it, or set `__call__` of a subclass",
    )


def _methods_of_layers(
    name: str, module: Module
) -> Iterator[tuple[FunctionInfo, ClassInfo, cst.FunctionDef, FactPlace]]:
    """Yield the methods of a name in the layers of a file, with their classes and places."""
    for info in module.functions:
        cls, node = info.cls, info.node
        is_method = info.name == name and isinstance(node, cst.FunctionDef)
        if cls is not None and cls.frame is not None and is_method and is_layer(cls):
            place = cls.frame.place()._replace(statement=node)
            yield info, cls, cst.ensure_type(node, cst.FunctionDef), place


#: What ``nn.quantize`` passes by keyword.
_PASSED = ("group_size", "bits", "mode")


@check("NN-012")
def without_mode(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``def to_quantized(self, group_size, bits)`` of a layer without others in it."""
    if "def to_quantized" not in module.source:
        return
    for info, cls, node, place in _methods_of_layers("to_quantized", module):
        if not info.is_method or any(parameter.star == "**" for parameter in info.parameters):
            continue
        names = {parameter.name for parameter in info.parameters}
        lacking = [name for name in _PASSED if name not in names]
        if lacking and not _has_layers(cls, module):
            yield Report(
                "NN-012",
                node.name,
                place,
                message=f"`to_quantized()` lacks `{lacking[-1]}`, which `nn.quantize()` passes",
                help=f"Add `{lacking[-1]}`, and pass it to `mx.quantize()`",
                context="default",
            )


def _has_layers(cls: ClassInfo, module: Module) -> bool:
    """Return whether a layer holds others: ``nn.quantize`` asks those instead."""
    names = {name for base in lineage(cls) for name in base.setters}
    return any(_is_layer(member(module.frame, Instance(cls), name)) for name in names)


def _is_layer(value: Value) -> bool:
    for option in options(value):
        inner = any_item(option) if type(option) is Sequence else option
        inner = inner.item if type(inner) is Dict else inner
        if type(inner) is Instance and is_layer(inner.info):
            return True
        if type(inner) is LibraryObject and mlx_api.is_layer(inner.cls):
            return True
    return False


#: Classes of a file that are fixed: the place of each is searched.
MOST_FIXED = 20


@check("NN-001")
def no_super_init(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``class Model(nn.Module)`` whose ``__init__`` leaves out ``super().__init__()``."""
    found = 0
    for info, cls, node, place in _methods_of_layers("__init__", module):
        if _initializes(node):
            continue
        found += 1
        yield Report(
            "NN-001",
            node.name,
            place,
            message=f"`{cls.name}.__init__()` does not call `super().__init__()`",
            help="Call `super().__init__()` first: it creates what `freeze` and training need",
            context="default",
            change=_call_first(info, cls, module) if found <= MOST_FIXED else None,
        )


def _initializes(node: cst.FunctionDef) -> bool:
    """Test whether a constructor calls another one, sets the state itself, raises, or is `...`."""
    last = _last(node)
    if last and isinstance(last[-1], cst.Expr) and isinstance(last[-1].value, cst.Ellipsis):
        return True
    names = (attribute.attr.value for attribute in contents_of(node.body).of(cst.Attribute))
    return any(isinstance(statement, cst.Raise) for statement in last) or any(
        name in ("__init__", "_no_grad") for name in names
    )


def _last(node: cst.FunctionDef) -> tuple[cst.CSTNode, ...]:
    suite = node.body
    last = suite if isinstance(suite, cst.SimpleStatementSuite) else suite.body[-1]
    simple = (cst.SimpleStatementLine, cst.SimpleStatementSuite)
    return tuple(last.body) if isinstance(last, simple) else ()


def _call_first(info: FunctionInfo, cls: ClassInfo, module: Module) -> ProposedFix | None:
    """Insert the call before the first statement that is not the docstring."""
    if cls.bases != (Symbol(MODULE_CLASS),) or not isinstance(info.node.body, cst.IndentedBlock):
        return None
    for line in info.node.body.body:
        if not isinstance(line, cst.SimpleStatementLine):
            return None
        first = line.body[0]
        if isinstance(first, cst.Expr) and isinstance(first.value, cst.SimpleString):
            continue
        column = module.parsed.spans({first: first})[first].column
        text = f"super().__init__()\n{' ' * column}{module.parsed.code(first)}"
        return ProposedFix("Call `super().__init__()`", False, ((first, text),))
    return None


#: Optimizers that keep moments of the gradients; SGD does so with a momentum.
_OPTIMIZERS = frozenset(
    f"mlx.optimizers.{name}"
    for name in (
        *("SGD", "RMSprop", "Adagrad", "AdaDelta", "Adam", "AdamW", "Adamax", "Lion"),
        *("Adafactor", "Muon"),
    )
)


@check("NN-009", of=_OPTIMIZERS)
def optimizer_in_loop(fact: CallFact, module: Module) -> Iterator[Report]:
    """``for batch in data: optimizer = optim.Adam(lr); ...; optimizer.update(model, grads)``."""
    statement, function, loop = fact.place.statement, fact.place.function, fact.place.loop
    if fact.symbol == "mlx.optimizers.SGD" and fact.argument(1, "momentum") is None:
        return
    if not isinstance(statement, cst.Assign) or statement.value is not fact.node:
        return
    names = set(bound_by(statement))
    if loop is not None:
        body: cst.CSTNode = loop.body
    elif function is not None and not isinstance(function.node, cst.Lambda):
        calls = sources_of(module).callers(function)
        if not any(call.place.loops for call in calls):
            return
        body = function.node.body
    else:
        return
    model = _updated_model(body, names)
    # One that is bound there is another one in each iteration.
    if model is not None and model not in contents_of(body).assigned:
        yield Report.at(
            fact,
            message="optimizer made in every iteration: its state is lost after each step",
            help="Make the optimizer once, before the loop",
        )


def _updated_model(body: cst.CSTNode, optimizers: set[str]) -> str | None:
    """Return the name of the model that one of the optimizers updates, once in each iteration."""
    for node in contents_of(body, (cst.For, cst.While, *SCOPES)).calls:
        func = node.func
        if not isinstance(func, cst.Attribute) or dotted(func.value) not in optimizers:
            continue
        if func.attr.value == "update" and node.args:
            path = dotted(node.args[0].value)
            return None if path is None else path.partition(".")[0]
    return None


@check("NN-010", of=(".update",))
def gradients_as_parameters(fact: CallFact, module: Module) -> Iterator[Report]:
    """``model.update(grads)``."""
    owner = fact.callee.owner if isinstance(fact.callee, BoundMember) else None
    is_module = isinstance(owner, Instance) and is_layer(owner.info)
    if isinstance(owner, LibraryObject):
        is_module = owner.cls.startswith("mlx.nn.")
    given = fact.positional(0)
    if not is_module or given is None or not isinstance(given.node, cst.Name):
        return
    place = fact.place
    held = scope_of(module, place.function).reaching.before(place.statement, given.node.value)
    if held and all(_is_gradient(binding.value, module) for binding in held):
        yield Report.at(
            fact,
            message=f"`update({given.node.value})` replaces the parameters by gradients",
            help="Use `optimizer.update(model, grads)`",
        )


def _is_gradient(made: cst.BaseExpression | None, module: Module) -> bool:
    """Return whether a call of a differentiated function computes a value, or a pair with it."""
    fact = None if made is None else calls_of(module).get(made)
    callee = None if fact is None else fact.callee
    while isinstance(callee, Transformed) and callee.transform in ("compile", "partial", "same"):
        callee = callee.inner
    return isinstance(callee, Transformed) and "grad" in callee.transform


#: Functions of NumPy and audio libraries that make windows, filters and grids.
_MAKERS = frozenset(
    (
        *("hanning", "hamming", "blackman", "bartlett", "kaiser", "get_window"),
        *("linspace", "logspace", "geomspace", "mel_filters", "mel_filter_bank", "sinusoids"),
    )
)
#: What a docstring or a comment says of an array that no one trains.
_UNTRAINED = re.compile(
    r"\b(not|never|isn't) (be )?(learn|train)|non-?train|untrain|no gradient", re.IGNORECASE
)
_TRAINED = re.compile(r"learn|trainable", re.IGNORECASE)
#: Functions that a table of positions takes of its angles.
WAVES = frozenset({"mlx.core.sin", "mlx.core.cos"})


def is_host_table(made: cst.CSTNode, symbols: set[str]) -> bool:
    """``mx.array(np.hanning(n))``, and sines and cosines of NumPy."""
    if "mlx.core.array" not in symbols:
        return False
    if {"numpy.sin", "numpy.cos"} <= symbols:
        return "numpy.random" not in symbols
    return any(last_name(call) in _MAKERS for call in contents_of(made).calls)


def is_fixed_projection(fact: AttributeFact, module: Module) -> bool:
    """Return whether random numbers are drawn once: sine and cosine take products with them.

    Such random Fourier features are fixed, unless the class says that they are learned.
    """
    if fact.name == "weight":
        return False  # what checkpoints hold
    if _UNTRAINED.search(_beside(fact, module)) is not None:
        return True
    if not _is_projected(fact, module):
        return False
    text = module.parsed.code(fact.owner.node)
    return _TRAINED.search(text) is None or _UNTRAINED.search(text) is not None


def _beside(fact: AttributeFact, module: Module) -> str:
    """Return the line of the assignment, with its comment, and the line before."""
    span = module.parsed.spans({fact.node: fact.place.statement})[fact.node]
    lines = module.source.splitlines()[max(span.line - 2, 0) : span.line]
    return "\n".join(line.partition("#")[2] for line in lines)


def _is_projected(fact: AttributeFact, module: Module) -> bool:
    """Return whether a method takes both waves of what is computed from the attribute."""
    for method in fact.owner.methods.values():
        waves = {
            call.symbol
            for call in module.facts_of(method)
            if type(call) is CallFact
            and call.symbol in WAVES
            and call.arguments
            and _mentions(call.arguments[0].node, fact.name, method, module)
        }
        if waves == WAVES:
            return True
    return False


def _mentions(node: cst.CSTNode, name: str, method: FunctionInfo, module: Module) -> bool:
    """Return whether an expression, or what its name is bound to, reads an attribute."""
    made = resolved(node, method, module)
    return any(node.attr.value == name for node in contents_of(made).of(cst.Attribute))


RANDOM = "mlx.core.random"


def functions_of(start: Expression, module: Module) -> set[str]:
    """Return the functions of MLX that an expression calls, through names and functions.

    All functions of ``mlx.core.random`` count as one.
    """
    sources = sources_of(module)
    found: set[str] = set()
    pending = [start]
    seen: set[int] = set()
    while pending and len(seen) < MOST_STEPS:
        expression = pending.pop()
        if id(expression.node) in seen:
            continue
        seen.add(id(expression.node))
        contents = contents_of(expression.node)
        pending += [value for name in contents.reads for value in _bound(name, expression.scope)]
        for node in contents.calls:
            source = _source(node, expression.scope)
            pending += [_body(callee.function) for callee in sources.callees(source)]
            call = sources.library_call(source)
            name = _of_numpy(node, expression.scope) if call is None else call.name
            found.add(RANDOM if name.startswith(f"{RANDOM}.") else name)
    return found - {""}


def _of_numpy(node: cst.Call, scope: Scope) -> str:
    """``numpy.sin`` for a call of ``np.sin``."""
    head, _, rest = (dotted(node.func) or "").partition(".")
    is_numpy = scope.module.frame.names.get(head) == Symbol("numpy")
    if not is_numpy:
        return ""
    return "numpy.random" if rest.startswith("random.") else f"numpy.{rest}"


def _source(node: cst.Call, scope: Scope) -> Source:
    function = scope.owner if scope.owner is not scope.module else None
    return Source(node, node, function, scope.module)  # type: ignore[arg-type]


def _body(function: FunctionInfo) -> Expression:
    return Expression(function.node.body, scope_of(function.module, function))


def _bound(name: str, scope: Scope) -> Iterator[Expression]:
    """Find the values of a name, and those that its elements are assigned."""
    found = scope.find(name)
    if found is None:
        return
    scope, value = found
    if value is not None:
        if isinstance(value.node, DEFINITIONS):
            return
        yield value
    bindings = scope.reaching.bindings.get(name, ())
    for binding in bindings:
        if binding.kind in ("assigned", "updated") and binding.value is not None:
            yield Expression(binding.value, scope)
    if isinstance(scope.owner, FunctionInfo):
        for statement in contents_of(scope.owner.node.body).statements:
            if isinstance(statement, cst.Assign) and _stores_to(statement, name):
                yield Expression(statement.value, scope)


def _stores_to(statement: cst.Assign, name: str) -> bool:
    """``table[:, 0::2] = value``."""
    target = statement.targets[0].target
    return isinstance(target, cst.Subscript) and dotted(target.value) == name


#: Characters of a name that a message quotes.
MOST_QUOTED = 24
#: Functions that make tables of constants: positions, masks, frequencies.
TRIANGLES = frozenset(f"mlx.core.{name}" for name in ("tri", "tril", "triu"))
TABLES = TRIANGLES | {"mlx.core.arange", "mlx.core.linspace"}
#: Functions in the initial values of parameters, such as the logarithms of Mamba's decay rates.
STARTS = frozenset(f"mlx.core.{name}" for name in ("random", "log", "zeros", "ones", "full"))
#: What a file that trains calls.
TRAINING = "value_and_grad"
#: Layers of MLX without parameters.
BARE = frozenset(
    f"mlx.nn.{name}"
    for name in (
        *("ALiBi", "AvgPool1d", "AvgPool2d", "AvgPool3d", "CELU", "Dropout", "Dropout2d"),
        *("Dropout3d", "ELU", "GELU", "GLU", "HardShrink", "HardTanh", "Hardswish", "Identity"),
        *("LeakyReLU", "LogSigmoid", "LogSoftmax", "MaxPool1d", "MaxPool2d", "MaxPool3d", "Mish"),
        *("ReLU", "ReLU2", "ReLU6", "RoPE", "SELU", "SiLU", "Sigmoid", "Softmax", "Softmin"),
        *("SinusoidalPositionalEncoding", "Softplus", "Softshrink", "Softsign", "Step", "Tanh"),
        "Upsample",
    )
)


@check("NN-002")
def constant_parameter(fact: AttributeFact, module: Module) -> Iterator[Report]:
    """``self.positions = mx.arange(n)`` in ``__init__``."""
    value = fact.value
    if fact.name.startswith("_") or type(value) is not Array or value.traced:
        return
    if not _is_built(fact) or not _is_table(fact, value, module):
        return
    if _is_frozen(fact.owner, fact.name):
        return
    yield Report.at(
        fact,
        message=f"constant array `{quoted(fact.name, MOST_QUOTED)}` is a trainable parameter",
        help="Begin its name with `_` and `mx.eval()` it, or call "
        "`self.freeze(keys=[...], recurse=False)`",
        context="avoidable" if TRAINING in module.source else "minor",
    )


def _is_built(fact: AttributeFact) -> bool:
    """Return whether the attribute is set while the module is built."""
    function = fact.place.function
    return function is not None and function.name == "__init__"


def _is_frozen(owner: ClassInfo, name: str) -> bool:
    """Return whether a class or a base freezes parameters, or mentions that one in a string."""
    return any(not _texts(cls).isdisjoint(("", name)) for cls in lineage(owner))


@kept_for_file
def _texts(cls: ClassInfo) -> frozenset[str]:
    """Return the strings in a class; the empty one if it calls ``freeze``."""
    contents = contents_of(cls.node)
    found = {str(evaluated(node)) or '""' for node in contents.of(cst.SimpleString)}
    freezes = any(node.attr.value == "freeze" for node in contents.of(cst.Attribute))
    return frozenset(found | {""} if freezes else found)


def _is_of_sizes(node: cst.BaseExpression) -> bool:
    """Test for ``mx.array(dims**-0.5)`` and ``mx.array(1 / math.sqrt(dims))``."""
    contents = contents_of(node)
    roots = any(last_name(call) == "sqrt" for call in contents.calls)
    powers = (isinstance(one.operator, cst.Power) for one in contents.of(cst.BinaryOperation))
    return roots or any(powers)


def _is_table(fact: AttributeFact, value: Array, module: Module) -> bool:
    """Return whether an array is a table of constants: integers, masks, positions, frequencies."""
    statement = fact.place.statement
    given = statement.value if isinstance(statement, (cst.Assign, cst.AnnAssign)) else None
    if given is None:
        return False
    if value.dtype in SIGNED or value.dtype == "bool":
        return True
    symbols = functions_of(Expression(given, scope_of(module, fact.place.function)), module)
    if value.scalar:
        return _is_of_sizes(given)
    if not TABLES.isdisjoint(symbols):
        starts = STARTS & symbols
        if symbols >= WAVES:  # positions of a transformer, with the logarithm of their periods
            return "mlx.core.random" not in starts
        return not starts or not TRIANGLES.isdisjoint(symbols)
    if "mlx.core.random" in symbols:
        return is_fixed_projection(fact, module)
    return is_host_table(given, symbols)


@check("NN-003")
def layers_in_tuple(fact: AttributeFact, module: Module) -> Iterator[Report]:
    """``self.layers = (nn.Linear(2, 2), nn.Linear(2, 2))``."""
    if fact.name.startswith("_") or not _holds_tuple(fact.value):
        return
    if _is_held_elsewhere(fact):
        return
    yield Report.at(
        fact,
        message="layers in a tuple are not found by parameters(): never trained or loaded",
        help="Use a list",
    )


def _holds_tuple(value: Value, depth: int = 3) -> bool:
    """Return whether layers with parameters are in a tuple or a set, in a list or not."""
    if type(value) is not Sequence or depth == 0:
        return False
    items = value.items if value.items is not None else (any_item(value),)
    if value.kind in ("tuple", "set"):
        return any(map(has_parameters, items))
    return value.kind == "list" and any(_holds_tuple(item, depth - 1) for item in items)


def has_parameters(value: Value) -> bool:
    """Return whether a value is a layer that certainly has parameters."""
    if type(value) is LibraryObject:
        return mlx_api.is_layer(value.cls) and value.cls not in BARE
    if type(value) is not Instance or not is_layer(value.info):
        return False
    attributes = (v for cls in lineage(value.info) for v in cls.attributes.values())
    return any(type(v) is LibraryObject and has_parameters(v) for v in attributes)


def _is_held_elsewhere(fact: AttributeFact) -> bool:
    """Return whether the layers may have separate names: ``(self.up, self.down)``."""
    statement = fact.place.statement
    given = statement.value if isinstance(statement, (cst.Assign, cst.AnnAssign)) else None
    if isinstance(given, cst.Tuple):
        return not all(isinstance(element.value, cst.Call) for element in given.elements)
    if given is None:
        return True
    plain = ("affine", "False")  # a norm without parameters
    contents = contents_of(given)
    return not contents.calls or any(
        node.keyword is not None
        and (node.keyword.value, getattr(node.value, "value", None)) == plain
        for node in contents.of(cst.Arg)
    )


@check("NN-004")
def private_layer(fact: AttributeFact, module: Module) -> Iterator[Report]:
    """``self._head = nn.Linear(2, 2)``."""
    statement = fact.place.statement
    if not fact.name.startswith("_") or not _is_built(fact):
        return
    if not isinstance(statement, cst.Assign) or _is_held_elsewhere(fact):
        return
    if has_parameters(fact.value) or _lists_layers(fact.value):
        yield Report.at(
            fact,
            message="layer under a private name is not found by parameters()",
            help="Drop the underscore, unless the layer is never trained, saved or loaded",
        )


def _lists_layers(value: Value) -> bool:
    if type(value) is not Sequence or value.kind != "list":
        return False
    return any(map(has_parameters, value.items or (any_item(value),)))
