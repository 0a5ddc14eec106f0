"""TORCH-KERNEL: texts and launches of ``torch.mps.compile_shader``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import libcst as cst
from msgspec.structs import replace

from embercoach.analysis.calls.torch_api import COMPILE_SHADER
from embercoach.analysis.project.module import Module
from embercoach.analysis.values.facts import Argument, CallFact, Fact
from embercoach.analysis.values.lattice import (
    BoundMember,
    Number,
    Sequence,
    ShaderLibrary,
    Str,
    as_number,
)
from embercoach.analysis.values.strings import Folded, fold
from embercoach.checks.programs.metal_checks import MetalKernel
from embercoach.checks.registry import ProposedFix, Report, check, load_kernel_checks
from embercoach.metal.execution.events import Configuration
from embercoach.metal.program.types import INTEGER_NAMES
from embercoach.metal.program.written_facts import MetalText
from embercoach.metal.text_facts import WrittenFunction, WrittenParameter
from embercoach.metal.work_budget import WorkBudget

#: What may define a kernel under a name that is not written.
_MAKES_NAMES = ("##", "host_name")
_FLOATS = frozenset(("float", "half", "bfloat"))
#: Attributes of arguments that are in other tables than the buffers.
_OTHER_TABLES = frozenset(("texture", "sampler", "threadgroup", "stage_in"))


def _launched(fact: CallFact) -> tuple[str, MetalText] | None:
    """Return the kernel that a call launches, and the text of its library; None if unknown."""
    callee = fact.callee
    if not isinstance(callee, BoundMember) or not isinstance(callee.owner, ShaderLibrary):
        return None
    from embercoach.metal.program.written_facts import read_unit

    source = fold(callee.owner.source)
    if source is None or source.holes:
        return None
    return callee.name, read_unit(source.text.text)


@check("TORCH-KERNEL-001", of=(".",))
def unknown_kernel(fact: CallFact, module: Module) -> Iterator[Report]:
    """``library.name(...)`` where the text has no such kernel."""
    launched = _launched(fact)
    if launched is None:
        return
    name, text = launched
    is_known = name in text.text or any(mark in text.text for mark in _MAKES_NAMES)
    if not is_known and text.parse_ok and text.names_known and not name.startswith("__"):
        kernels = ", ".join(sorted(f.name for f in text.entry_points))
        yield Report.at(
            fact,
            node=fact.node.func,
            message="the shader source has no kernel of this name",
            help=f"Launch one of its kernels: {kernels}"[:100],
        )


@check("TORCH-KERNEL-002", of=(".",))
def argument_count(fact: CallFact, module: Module) -> Iterator[Report]:
    """Yield a launch with fewer or more arguments than the kernel has buffers."""
    buffers = _buffers(fact)
    given = [a for a in fact.arguments if a.keyword is None]
    if buffers is None or len(buffers) == len(given):
        return
    unused = given[len(buffers) :]
    missing = ", ".join(f"`{p.name}`" for p in buffers[len(given) :])
    plural = "" if len(buffers) == 1 else "s"
    yield Report.at(
        fact,
        node=unused[0].node if unused else None,
        message=f"the kernel takes {len(buffers)} argument{plural}, got {len(given)}",
        help="Drop the argument, or declare a buffer" if unused else f"Pass {missing}"[:100],
    )


@check("TORCH-KERNEL-003", of=(".",))
def scalar_type(fact: CallFact, module: Module) -> Iterator[Report]:
    """Yield a Python number whose bytes the kernel reads as another type."""
    if fact.keyword("arg_casts") is not None:
        return
    given = [a for a in fact.arguments if a.keyword is None]
    for index, (parameter, argument) in enumerate(zip(_buffers(fact) or (), given, strict=False)):
        number = argument.value
        if parameter.address_space != "constant" or not isinstance(number, Number):
            continue
        passed = {"int": "int64", "float": "float32"}.get(number.kind)
        narrow = INTEGER_NAMES | (_FLOATS - {"float"})
        is_float = number.kind == "float" and parameter.type in narrow
        is_int = number.kind == "int" and parameter.type in _FLOATS and number.const != 0
        if is_float or is_int:
            yield Report.at(
                fact,
                node=argument.node,
                message=f"passed as {passed}, but the kernel reads its bytes as {parameter.type}",
                help=_remedy(parameter.type, index, is_int=is_int),
                change=_as_float(argument) if is_int and parameter.type == "float" else None,
            )


def _remedy(declared: str, index: int, *, is_int: bool) -> str:
    if declared in ("half", "bfloat"):
        cast = "fp16" if declared == "half" else "bf16"
        if is_int:
            return "Declare `constant float&`, and pass a float"
        return f'Declare `constant float&`, or pass `arg_casts={{{index}: "{cast}"}}`'
    return "Pass a float: `float(n)`" if is_int else "Pass an integer, or declare `constant float&`"


def _as_float(argument: Argument) -> ProposedFix | None:
    node = argument.node
    if not isinstance(node, cst.Integer) or not node.value.isdecimal():
        return None
    return ProposedFix(f"Write `{node.value}.0`", False, ((node, f"{node.value}.0"),))


def _buffers(fact: CallFact) -> tuple[WrittenParameter, ...] | None:
    """Return the arguments of the kernel that is launched, by buffer index; None if unknown."""
    launched = _launched(fact)
    if launched is None or any(argument.star for argument in fact.arguments):
        return None
    name, text = launched
    found = [f for f in text.entry_points if f.name == name and f.entry == "kernel"]
    if len(found) != 1 or not text.parse_ok or any(m in text.text for m in _MAKES_NAMES):
        return None
    return _by_index(found[0])


def _by_index(function: WrittenFunction) -> tuple[WrittenParameter, ...] | None:
    numbered: dict[int, WrittenParameter] = {}
    for parameter in function.parameters:
        marks = {mark.name: mark.arguments for mark in parameter.attributes}
        if marks.keys() & _OTHER_TABLES or "function_constant" in marks:
            return None
        if parameter.address_space not in ("device", "constant"):
            if not marks:
                return None
            continue
        index = marks.get("buffer", str(len(numbered)))
        if index is None or not index.strip().isdecimal() or int(index) in numbered:
            return None
        numbered[int(index)] = parameter
    if sorted(numbered) != list(range(len(numbered))):
        return None
    return tuple(numbered[index] for index in range(len(numbered)))


@check()
def shader_texts(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """Yield each text that is known as a whole, once."""
    calls = [fact for fact in facts if isinstance(fact, CallFact)]
    for fact in calls:
        given = fact.argument(0, "source") if fact.symbol == COMPILE_SHADER else None
        source = fold(given.value) if given is not None and isinstance(given.value, Str) else None
        if source is not None and not source.holes:
            assert given is not None
            launches = [call for call in calls if _library_of(call) == given.value]
            yield from _reports(fact, source, launches, module)


def _library_of(fact: CallFact) -> Str | None:
    """Return the text of the library whose kernel a call launches."""
    callee = fact.callee
    if isinstance(callee, BoundMember) and isinstance(callee.owner, ShaderLibrary):
        return callee.owner.source
    return None


def _reports(
    fact: CallFact, source: Folded, launches: list[CallFact], module: Module
) -> Iterator[Report]:
    from embercoach.checks.programs.kernels import TextPlaces, kernel_file
    from embercoach.checks.programs.metal_checks import MetalFile
    from embercoach.checks.programs.metal_findings import python_reports
    from embercoach.metal.program.written_facts import read_unit

    load_kernel_checks()
    budget = kernel_file(module).budget
    text = read_unit(source.text.text)
    budget.note(text.refusal)
    code = MetalFile(text, partial(_kernels, text.text, launches, budget))
    places = TextPlaces(module, fact.place, None, {"file": source})
    yield from python_reports(code, places, "MetalCode", "MetalFile")


def _kernels(text: str, launches: list[CallFact], budget: WorkBudget) -> tuple[MetalKernel, ...]:
    """Return the kernels of a text, as the file launches them where it says so."""
    from embercoach.checks.programs.kernel_plans import kernels_of_unit

    found = []
    for kernel in kernels_of_unit(text, budget):
        own = [f for f in launches if isinstance(f.callee, BoundMember)]
        known = [_configuration(f) for f in own if f.callee.name == kernel.name]  # type: ignore[attr-defined]
        configurations = tuple(c for c in known if c is not None)
        if configurations and len(configurations) == len(known):
            found.append(replace(kernel, configurations=configurations))
        else:
            found.append(kernel)
    return tuple(found)


def _configuration(fact: CallFact) -> Configuration | None:
    """Get the launch of ``library.kernel(..., threads=..., group_size=...)``; None if unknown."""
    from embercoach.metal.execution.events import Configuration

    group = _sizes(fact.keyword("group_size"))
    if group is None or None in group:
        return None
    threads = _sizes(fact.keyword("threads")) or (None, None, None)
    known = (group[0] or 1, group[1] or 1, group[2] or 1)
    groups = tuple(
        None if n is None else -(-n // size) for n, size in zip(threads, known, strict=True)
    )
    return Configuration(known, frozenset(), groups, {}, grid=threads)  # type: ignore[arg-type]


def _sizes(argument: Argument | None) -> tuple[int | None, int | None, int | None] | None:
    """Get the sizes along x, y and z, None for an unknown one; None where even their number is."""
    value = None if argument is None else argument.value
    items = value.items if isinstance(value, Sequence) else (value,) if value is not None else None
    if items is None or not 1 <= len(items) <= 3:
        return None
    found = []
    for item in items:
        number = as_number(item)
        known = number is not None and isinstance(number.const, int) and number.const > 0
        found.append(number.const if known and number is not None else None)
    if len(items) == 1 and not isinstance(value, Sequence) and found[0] is None:
        return None
    x, y, z = (*found, 1, 1)[:3]
    return x, y, z  # type: ignore[return-value]
