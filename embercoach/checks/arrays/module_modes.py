"""NN-005 and NN-006: modules that are evaluated in training mode, or trained in evaluation mode."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple, TypeGuard

import libcst as cst

from embercoach.analysis.calls.definitions import ClassInfo, FunctionInfo
from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.contexts import hot_functions
from embercoach.analysis.dataflow.function_summaries import located_calls
from embercoach.analysis.dataflow.layout import layout_of
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.dataflow.scopes import (
    bodies_of,
    display,
    made_in_init,
    passed_with_owner,
    scope_of,
)
from embercoach.analysis.dataflow.value_sources import value_in
from embercoach.analysis.evaluate.members import member
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import DEFINITIONS, dotted
from embercoach.analysis.values.facts import (
    CallFact,
    Fact,
    LocalCall,
    ProjectCall,
    calls_by_function,
    calls_of,
)
from embercoach.analysis.values.inheritance import (
    find_method,
    is_called,
    is_forward,
    is_layer,
    lineage,
)
from embercoach.analysis.values.lattice import (
    Instance,
    LibraryObject,
    Sequence,
    Transformed,
    Value,
    any_item,
)
from embercoach.analysis.work import MOST_CALLS, MOST_STEPS
from embercoach.checks.registry import Report, check

#: Starts of the names of functions that may switch a model to training.
_TRAINING = ("train", "fit")

Kind = Literal["eval", "train", "update", "load"]


class Effect(NamedTuple):
    """A call that has an effect on the object of a path: by itself, or by what it calls."""

    path: str
    kind: Kind
    node: cst.Call
    statement: cst.CSTNode


def is_imported(fact: Fact, module: Module) -> TypeGuard[ProjectCall]:
    """Return whether a function of another file is called."""
    return type(fact) is ProjectCall and fact.function.module is not module


def _calls(facts: list[Fact], module: Module) -> list[LocalCall | ProjectCall]:
    """Return the calls of functions of the file, and of other files."""
    return [fact for fact in facts if type(fact) is LocalCall or is_imported(fact, module)]


class ModeEffects:
    """The effects of the functions of a file on models."""

    def __init__(self, module: Module) -> None:
        """Index the calls of the file."""
        self._module = module
        self._calls: dict[cst.CSTNode, LocalCall | ProjectCall] = {
            call.node: call for call in _calls(module.facts(), module)
        }
        self._known: dict[FunctionInfo, tuple[Effect, ...]] = {}

    def of(self, body: cst.CSTNode) -> Iterator[Effect]:
        """Yield the effects of a body, those of what it calls among them."""
        for node, statement in located_calls(body):
            effects = _direct(node) or self._of_callee(node)
            yield from (Effect(path, kind, node, statement) for path, kind in effects)

    def _of_callee(self, node: cst.Call) -> list[tuple[str, Kind]]:
        call = self._calls.get(node)
        if call is None:
            return _unknown(node)
        return list(self._mapped(call, self._effects(call.function)))

    def _effects(self, function: FunctionInfo) -> tuple[Effect, ...]:
        known = self._known.get(function)
        if known is None:
            self._known[function] = ()  # for functions that call each other
            found = dict.fromkeys(self.of(function.node.body))
            known = self._known[function] = tuple(found)[:MOST_STEPS]
        return known

    def _mapped(
        self, call: LocalCall | ProjectCall, effects: tuple[Effect, ...]
    ) -> Iterator[tuple[str, Kind]]:
        """Yield the effects as the caller sees them, on what it passes."""
        function = call.function
        passed = passed_with_owner(call) if effects else {}
        for path, kind, _, _ in effects:
            name, dot, rest = path.partition(".")
            receiver = dotted(passed[name]) if name in passed else None
            if function.module is self._module and not scope_of(self._module, function).binds(name):
                receiver = name
            if receiver is not None:
                yield f"{receiver}{dot}{rest}", kind


def _direct(node: cst.Call) -> list[tuple[str, Kind]]:
    """``model.eval()``, ``model.train()``, ``optimizer.update(model, gradients)``."""
    func = node.func
    path = dotted(func.value) if isinstance(func, cst.Attribute) else None
    if path is None or not isinstance(func, cst.Attribute) or any(a.star for a in node.args):
        return []
    name, given = func.attr.value, [a.value for a in node.args]
    if name == "eval" and not given:
        return [(path, "eval")]
    if name == "train" and len(given) < 2:
        is_off = bool(given) and isinstance(given[0], cst.Name) and given[0].value == "False"
        return [(path, "eval" if is_off else "train")]
    if name == "load_weights":
        return [(path, "load")]
    if name != "update":
        return []
    if len(given) == 2 and "opt" in path.rpartition(".")[2].lower():
        model = dotted(given[0])
        return [] if model is None else [(model, "update")]
    if len(given) == 1 and isinstance(given[0], cst.Call):  # model.update(opt.apply_gradients(...))
        applied = given[0].func
        if isinstance(applied, cst.Attribute) and applied.attr.value == "apply_gradients":
            return [(path, "update")]
    return []


def _unknown(node: cst.Call) -> list[tuple[str, Kind]]:
    """``train_epoch(model)`` of a function that is not known may call ``model.train()``."""
    name = (dotted(node.func) or "").rpartition(".")[2]
    if not name.lstrip("_").startswith(_TRAINING):
        return []
    paths = (dotted(argument.value) for argument in node.args)
    return [(path, "train") for path in paths if path is not None]


#: Layers that compute something else in training.
NAMES = ("Dropout", "BatchNorm")


class _Layer(NamedTuple):
    """A layer of MLX: its class, and the call that makes it, if that is known."""

    name: str
    made: cst.BaseExpression | None = None

    @property
    def drops(self) -> bool:
        """Return whether it is other than a dropout, or ``nn.Dropout()`` or ``nn.Dropout(0.1)``."""
        if not self.name.startswith("Dropout"):
            return True
        if not isinstance(self.made, cst.Call):
            return False
        rate = self.made.args[0].value if self.made.args else None
        return rate is None or (isinstance(rate, cst.Float) and rate.evaluated_value > 0)


def _layers_of(cls: ClassInfo, module: Module, depth: int = MOST_CALLS) -> Iterator[_Layer]:
    """Yield the layers of MLX that a layer holds, by itself or in others."""
    if depth == 0 or not is_layer(cls):
        return
    for name in {name for base in lineage(cls) for name in base.setters}:
        value = member(module.frame, Instance(cls), name)
        made = made_in_init(cls, name)
        yield from _layers_in(value, made, module, depth)
        init = find_method(cls, "__init__")
        for call in _sequence(made) if init is not None and depth > 1 else ():
            held = value_in(call, init, cls.module)
            if type(held) is Instance:
                yield from _layers_of(held.info, module, depth - 1)


def _layers_in(
    value: Value, made: cst.BaseExpression | None, module: Module, depth: int
) -> Iterator[_Layer]:
    """Yield the layers of MLX that a value is or holds, of which ``made`` may be the call."""
    if type(value) is LibraryObject and value.cls.startswith("mlx.nn."):
        yield _Layer(value.cls.removeprefix("mlx.nn."), made)
    elif type(value) is Instance:
        yield from _layers_of(value.info, module, depth - 1)
    elif type(value) is Sequence and depth:
        for item in value.items if value.items is not None else (any_item(value),):
            yield from _layers_in(item, None, module, depth - 1)
    yield from (_Layer(last_name(call), call) for call in _sequence(made))


def _sequence(made: cst.BaseExpression | None) -> Iterator[cst.Call]:
    """Yield the calls that make the layers of ``nn.Sequential(Block(4), nn.Dropout(0.5))``.

    Those of ``nn.Sequential(*[Block(4) for _ in range(3)])`` as well.
    """
    if not isinstance(made, cst.Call) or not (dotted(made.func) or "").endswith("Sequential"):
        return
    for argument in made.args:
        node = argument.value
        nodes: Iterable[cst.BaseExpression] = (node,)
        if argument.star == "*":
            if isinstance(node, (cst.ListComp, cst.GeneratorExp)):
                nodes = (node.elt,)
            else:
                nodes = display(node) or ()
        yield from (one for one in nodes if isinstance(one, cst.Call))


def changes_by_mode(cls: ClassInfo, module: Module, *, certain: bool = False) -> bool:
    """Return whether a layer holds one that computes something else in training.

    With ``certain``, a dropout counts if its rate is a literal above 0.
    """
    layers = _layers_of(cls, module)
    return any(v.name.startswith(NAMES) and (v.drops or not certain) for v in layers)


def is_by_mode(value: Value, module: Module, *, names: tuple[str, ...] = NAMES) -> bool:
    """Return whether a value is, or holds, a layer that computes something else in training."""
    return any(
        layer.name.startswith(names) for layer in _layers_in(value, None, module, MOST_CALLS)
    )


#: What a file would say that chooses the mode, or that differentiates.
_BY_MODE = (".eval()", "train(False", "train(mode=", "value_and_grad", "mx.grad")


@check("NN-005")
def inference_in_training_mode(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``model(x)`` after ``fit(model)`` of another file, or after ``model.load_weights(path)``."""
    if any(text in module.source for text in _BY_MODE):
        return
    calls = _calls(facts, module)
    imported = [call for call in calls if is_imported(call, module)]
    if not imported and not any(name in module.source for name in NAMES):
        return
    effects = ModeEffects(module)
    found = {fact: tuple(effects.of(fact.function.node.body)) for fact in imported}
    kinds = {effect.kind for ofs in found.values() for effect in ofs}
    if "eval" in kinds:
        return
    trained = [(fact, cls) for fact in imported for cls in _trained_by(fact, found[fact], module)]
    is_loaded = ".load_weights(" in module.source or "load" in kinds
    ranges = module.parsed.converted.ranges or {}
    for fact in calls:
        cls = fact.function.cls
        if cls is None or not is_called(fact.function) or not _is_outside(fact):
            continue
        if ".eval()" in cls.module.source:
            continue
        is_trained = any(
            one is cls
            and (
                trainer.place.function is not fact.place.function
                or ranges.get(id(trainer.node), 0) < ranges.get(id(fact.node), 0)
            )
            for trainer, one in trained
        )
        if (is_trained and changes_by_mode(cls, module)) or (
            is_loaded and changes_by_mode(cls, module, certain=True)
        ):
            yield Report.at(
                fact,
                message="model is called in training mode: dropout and batch norm are active",
                help="Call `model.eval()` once the weights are trained or loaded",
            )


def _trained_by(
    call: ProjectCall, effects: tuple[Effect, ...], module: Module
) -> Iterator[ClassInfo]:
    """Yield the classes of the models that a function updates: its arguments, or its object's."""
    updated = [effect.path.split(".") for effect in effects if effect.kind == "update"]
    if not updated:
        return
    values = [argument.value for argument in call.arguments]
    if call.is_bound and call.function.cls is not None:
        owner = Instance(call.function.cls)
        values += [member(module.frame, owner, path[1]) for path in updated if len(path) == 2]
    yield from (value.info for value in values if type(value) is Instance)


def _is_outside(call: LocalCall | ProjectCall) -> bool:
    """Return whether a call is outside of layers, tests and what is differentiated."""
    caller = call.place.function
    if caller is None:
        return True
    is_part = caller.cls is not None and is_layer(caller.cls)
    return not (is_part or caller.differentiated or caller.is_test)


#: Names of functions that evaluate a model, and the definition or the call of one.
_EVALUATES = re.compile(r"_?(valid|eval|accuracy|predict|infer|score)")
_EVALUATING = re.compile(r"\bdef _?(valid|eval)|(?<!\.)\b_?(valid|eval|accuracy)\w*\(")


@check("NN-005")
def evaluated_in_training_mode(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``model(x)`` outside of the loss, in a file that never calls ``model.eval()`` before."""
    source = module.source
    if "value_and_grad" not in source or "train(mode=" in source:
        return
    if not ("train(" in source or _EVALUATING.search(source)):
        return
    switches = _switches(module)
    if len(switches) > 1:
        return
    if not any(name in source for name in NAMES) and not _imports(facts, module):
        return
    if any(e.kind == "eval" for e in _imported_effects(facts, module)):
        return
    calls = [call for call in _calls(facts, module) if not _is_transformed(call, module)]
    by_mode = {call for call in calls if _calls_by_mode(call, module)}
    losses = {f for c in by_mode if (f := c.place.function) is not None and f.differentiated}
    roots = {root.info for root in module.gradient_roots}
    if any(changes_by_mode(cls, module) for cls in _layers(module)):
        losses |= {info for info in roots if info.module is module}
    for fact in calls:
        is_loss = fact.function in losses or _is_loss_of(fact, roots, module)
        is_named = _is_named_evaluation(fact, module)
        if "train(" not in source and not is_named:
            continue
        if switches and not _is_before(fact, switches[0], module):
            continue
        if fact not in by_mode and not is_loss and not (is_named and _evaluates(fact, module)):
            continue
        if _is_outside(fact):
            yield Report.at(
                fact,
                message="model is evaluated in training mode: dropout and batch norm are active",
                help="Call `model.eval()` before, and `model.train()` before training goes on",
            )


@check("NN-005", of=("mlx.nn.Dropout", "mlx.nn.Dropout2d", "mlx.nn.Dropout3d"))
def dropout_of_one_call(fact: CallFact, module: Module) -> Iterator[Report]:
    """``nn.Dropout(0.1)(x)`` in a layer, as ``F.dropout(x, 0.1)`` in PyTorch."""
    function, rate = fact.place.function, fact.argument(0, "p")
    outer = contents_of(fact.place.statement).parent_of(fact.node)
    is_called_once = isinstance(outer, cst.Call) and outer.func is fact.node
    if function is None or not is_forward(function) or not is_called_once:
        return
    # A rate that the caller passes, or a test of the mode, may switch it off.
    passed = {one.name for one in function.parameters[1:]}
    used = () if rate is None else contents_of(rate.node).names
    if "training" not in contents_of(function.node).names and passed.isdisjoint(used):
        yield Report.at(
            fact,
            message="dropout made in a call: `model.eval()` does not switch it off",
            help="Make it in `__init__`: `self.dropout = nn.Dropout(...)`",
        )


def _switches(module: Module) -> list[cst.Call]:
    """Return the calls of a file that switch a model to evaluation."""
    found = []
    for call in contents_of(module.tree).calls:
        name = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        given = [dotted(argument.value) for argument in call.args]
        if (name == "eval" and not given) or (name == "train" and given == ["False"]):
            found.append(call)
    return found


def _is_before(
    fact: LocalCall | ProjectCall, switch: cst.Call, module: Module, depth: int = MOST_CALLS
) -> bool:
    """Return whether a call comes before a switch that its function, or all callers, make once."""
    ranges = module.parsed.converted.ranges or {}
    above = contents_of(module.tree).above(switch)
    around = next((n for n in above if isinstance(n, (cst.For, cst.While, *DEFINITIONS))), None)
    function = fact.place.function
    if around is not (None if function is None else function.node):
        callers = () if function is None else calls_by_function(module).get(function, ())
        before = (_is_before(call, switch, module, depth - 1) for call in callers)
        return depth > 0 and bool(callers) and all(before)
    if function is not None and function in hot_functions(module):
        return False
    return ranges.get(id(fact.node), 0) < ranges.get(id(switch), 0)


def _layers(module: Module) -> Iterator[ClassInfo]:
    """Yield the classes of a file that are layers."""
    owners = dict.fromkeys(info.cls for info in module.functions if info.cls is not None)
    yield from (cls for cls in owners if is_layer(cls))


def _is_named_evaluation(call: LocalCall | ProjectCall, module: Module) -> bool:
    """Return whether a call is in, or is of, a function whose name says that it evaluates."""
    caller = call.function if is_imported(call, module) else call.place.function
    return caller is not None and _EVALUATES.match(caller.name) is not None


def _evaluates(call: LocalCall | ProjectCall, module: Module) -> bool:
    """Return whether a function of another file calls the model that it is given, untrained."""
    if not is_imported(call, module):
        return False
    function = call.function
    given = [a.value for a in call.arguments if not a.star]
    names = [p.name for p in function.parameters if not p.star][call.is_bound :]
    models = {n for n, v in zip(names, given, strict=False) if is_by_mode(v, module)}
    paths = [dotted(call.func) for call in contents_of(function.node.body).calls]
    trains = any((path or "").rpartition(".")[2] == "value_and_grad" for path in paths)
    return not trains and not models.isdisjoint(paths)


def _imports(facts: list[Fact], module: Module) -> bool:
    return any(is_imported(fact, module) for fact in facts)


def _imported_effects(facts: list[Fact], module: Module) -> Iterator[Effect]:
    """Yield the effects on models of functions of other files."""
    effects = ModeEffects(module)
    for function in {f.function for f in facts if is_imported(f, module)}:
        yield from effects.of(function.node.body)


def _calls_by_mode(call: LocalCall | ProjectCall, module: Module) -> bool:
    """Return whether a model with such layers is called."""
    cls = call.function.cls
    return is_called(call.function) and cls is not None and changes_by_mode(cls, module)


def _is_loss_of(call: LocalCall | ProjectCall, losses: set[FunctionInfo], module: Module) -> bool:
    """Return whether a loss of another file is called with a model that has such layers."""
    if not is_imported(call, module) or call.function not in losses:
        return False
    given = (argument.value for argument in call.arguments)
    return any(is_by_mode(value, module) for value in given)


def _is_transformed(call: LocalCall | ProjectCall, module: Module) -> bool:
    """Return whether a gradient or a compilation of a function is called."""
    fact = calls_of(module).get(call.node)
    return fact is not None and isinstance(fact.callee, Transformed)


@check("NN-006")
def trained_in_evaluation_mode(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """A loop that trains a model and calls ``model.eval()`` alone, by itself or in a function."""
    source = module.source
    if not any(text in source for text in ("value_and_grad", "optim", "opt.update(")):
        return
    if ".eval()" not in source and not _imports(facts, module):
        return
    effects = ModeEffects(module)
    reported: set[cst.CSTNode] = set()
    for function, contents in bodies_of(module):
        loops: list[cst.For | cst.While] = contents.of(cst.For, cst.While)
        for loop in loops[:MOST_STEPS]:
            for effect in _left_in_evaluation(loop, effects):
                leaves = layout_of(module, function).leaves(effect.statement, loop)
                if effect.node in reported or leaves:
                    continue
                reported.add(effect.node)
                yield Report.in_file(
                    module,
                    effect.node,
                    function=function,
                    message="leaves the model in evaluation mode: training goes on without",
                    help="Call `model.train()` after it, or at the start of each iteration",
                    context=None,
                )


def _left_in_evaluation(loop: cst.For | cst.While, effects: ModeEffects) -> list[Effect]:
    """Get the calls that switch a model to evaluation which the loop trains, and never switches."""
    found = list(effects.of(loop.body))
    paths = {
        kind: {e.path for e in found if e.kind == kind} for kind in ("eval", "train", "update")
    }
    left = (paths["eval"] & paths["update"]) - paths["train"]
    return [effect for effect in found if effect.kind == "eval" and effect.path in left]
