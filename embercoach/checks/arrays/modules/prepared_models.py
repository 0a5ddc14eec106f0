"""NN-005: inference in training mode, with a model that is trained elsewhere or loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.analysis.evaluate.members import member
from embercoach.analysis.facts.facts import LocalCall
from embercoach.analysis.values.inheritance import is_layer
from embercoach.analysis.values.lattice import Instance
from embercoach.checks.arrays.modules.mode_effects import ModeEffects, is_imported
from embercoach.checks.arrays.modules.mode_layers import DEEPEST, NAMES, changes_by_mode
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import ClassInfo
    from embercoach.analysis.facts.facts import Fact, ProjectCall
    from embercoach.analysis.project.module import Module
    from embercoach.checks.arrays.modules.mode_effects import Effect

#: What a file would say that chooses the mode, or that differentiates.
_BY_MODE = (".eval()", "train(False", "train(mode=", "value_and_grad", "mx.grad")


@check("NN-005")
def inference_in_training_mode(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``model(x)`` after ``fit(model)`` of another file, or after ``model.load_weights(path)``."""
    if any(text in module.source for text in _BY_MODE):
        return
    imported = [fact for fact in facts if is_imported(fact, module)]
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
    for fact in facts:
        if not (type(fact) is LocalCall or is_imported(fact, module)):
            continue
        cls = fact.function.cls
        if cls is None or fact.function.name != "__call__" or not _is_inference(fact):
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
        if (is_trained and changes_by_mode(cls, module, DEEPEST)) or (
            is_loaded and changes_by_mode(cls, module, DEEPEST, certain=True)
        ):
            yield Report.at(
                fact,
                "NN-005",
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


def _is_inference(call: LocalCall | ProjectCall) -> bool:
    """Return whether a model is called outside of layers, tests and what is differentiated."""
    caller = call.place.function
    if caller is None:
        return True
    is_part = caller.cls is not None and is_layer(caller.cls)
    return not (is_part or caller.differentiated or caller.is_test)
