"""The kernels of a file as MLX writes them, for whoever asks about a place in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import libcst as cst
from msgspec import Struct

from embercoach.analysis.project.driver import analyse_module
from embercoach.analysis.project.project import Project
from embercoach.analysis.syntax.parse import Span, reading
from embercoach.analysis.values.lattice import StringLiteral
from embercoach.checks.programs.kernels import PythonKernel, definitions
from embercoach.metal.contract import MSL_TYPES, KernelArguments, signature

if TYPE_CHECKING:
    from embercoach.kernel_builder import KernelBuilder

_T = TypeVar("_T")


class UnknownFactError(ValueError):
    """A fact that the exact name depends on is unknown."""


def function_name(kernel: KernelArguments) -> str:
    """Return the name of the generated function, unique to name, template, dtypes and input kinds.

    Raises:
        UnknownFactError: a dtype, a size, a rank or a template argument is unknown.
    """
    parts = [f"custom_kernel_{kernel.name}"]
    if kernel.template is None:
        raise UnknownFactError("the template arguments are unknown")
    if kernel.template:
        values = "_".join(_known(t.argument, f"template {t.name}") for t in kernel.template)
        parts.append(f"_{values}".replace("-", "_"))
    for given in kernel.inputs:
        dtype = MSL_TYPES.get(given.dtype) if given.dtype else None
        mark = {"&": "s", "*": "c" if given.address_space == "constant" else ""}
        _known(given.address_space, f"the size of {given.name}")
        kind = _known(given.declarator, f"the rank of {given.name}")
        parts.append(_known(dtype, f"the dtype of {given.name}") + mark[kind])
    for output in kernel.outputs:
        dtype = MSL_TYPES.get(output.dtype) if output.dtype else None
        parts.append(_known(dtype, f"the dtype of {output.name}"))
    return "_".join(parts)


def head(kernel: KernelArguments) -> str:
    """Return the head of the function, as far as it is known: choices represent what is unknown.

    MLX's code generation bug is left out: ``Signature.malformed`` reports it.
    """
    made = signature(kernel)
    lines = []
    if kernel.template is None:
        lines.append("template <the launch's template arguments>")
    elif kernel.template:
        kinds = (f"{t.kind or '<typename, int or bool>'} {t.name}" for t in kernel.template)
        lines.append(f"template <{', '.join(kinds)}>")
    try:
        name = function_name(kernel)
    except UnknownFactError:
        name = f"custom_kernel_{kernel.name}_..."
    lines.append(f"[[kernel]] void {name}(")
    lines.append(",\n".join(f"  {p.text}" for p in made.parameters) + ")")
    return "\n".join(lines)


def _known(value: _T | None, what: str) -> _T:
    if value is None:
        raise UnknownFactError(f"{what} is unknown")
    return value


class WrittenKernel(Struct, frozen=True):
    """A kernel, and the head of the function that MLX writes for it.

    Attributes:
        name: the ``name`` given to ``metal_kernel``, empty where it is unknown.
        lines: first and last lines of what belongs to it in the file: where it is built and
            launched, and the literals of its source.
        heads: each different head, with the lines of the launches that it is for; no lines where
            the file does not launch the kernel.
        malformed: MLX's parameter list does not compile for one of these launches.
    """

    name: str
    lines: tuple[tuple[int, int], ...]
    heads: tuple[tuple[str, tuple[int, ...]], ...]
    malformed: bool

    def covers(self, line: int) -> bool:
        """Return whether a line of the file belongs to the kernel."""
        return any(first <= line <= last for first, last in self.lines)

    def captions(self) -> Iterator[tuple[str, str]]:
        """Yield each head, after the sentence that introduces it."""
        name = f"The kernel `{self.name}`" if self.name else "The kernel"
        for head, launches in self.heads:
            where = ""
            if launches:
                numbers = ", ".join(map(str, launches))
                where = f", launched in line{'s' if len(launches) > 1 else ''} {numbers}"
            yield f"{name}{where}, as MLX writes it:", head


#: The note on a kernel that is ``malformed``.
MALFORMED = "MLX closes this parameter list too early: see KERNEL-SIG-008."


def mentions_kernels(source: str, builders: tuple[KernelBuilder, ...]) -> bool:
    """Return whether a file may build or launch kernels: it names a builder."""
    return "metal_kernel" in source or any(builder.last_name in source for builder in builders)


def written_kernels(source: str, path: Path, project: Project) -> tuple[WrittenKernel, ...]:
    """Get the kernels of a Python file whose texts and names are known, in the order of the file.

    Raises:
        SyntaxProblem: the source does not parse, or nests too deeply to be analysed.
    """
    with reading(source):
        module = project.open(path, source)
        built = definitions(module, analyse_module(module))
        spans = module.parsed.spans(dict(node for kernel in built for node in _nodes(kernel)))
        found = [_written(kernel, spans) for kernel in built]
    project.release()
    known = [kernel for kernel in found if kernel is not None]
    return tuple(sorted(known, key=lambda kernel: kernel.lines))


def _nodes(kernel: PythonKernel) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    """Yield the nodes of a kernel in a file, each with its statement."""
    if kernel.own:
        yield kernel.fact.node, kernel.fact.place.statement
    for literal in kernel.source.literals if kernel.source is not None else ():
        if isinstance(literal, StringLiteral) and literal.module is kernel.module:
            yield literal.node, literal.statement
    for launch in kernel.calls:
        yield launch.node, launch.place.statement


def _written(kernel: PythonKernel, spans: dict[cst.CSTNode, Span]) -> WrittenKernel | None:
    heads: dict[str, list[int]] = {}
    made: list[KernelArguments] = []
    for launch in kernel.ways:
        arguments = kernel.arguments(launch)
        if arguments is None:
            return None
        made.append(arguments)
        lines = heads.setdefault(head(arguments), [])
        if launch is not None:
            lines.append(spans[launch.fact.node].line)
    places = (spans[node] for node, _ in _nodes(kernel))
    return WrittenKernel(
        made[0].name,
        tuple(sorted({(span.line, span.end_line) for span in places})),
        tuple((text, tuple(sorted(set(lines)))) for text, lines in heads.items()),
        any(signature(arguments).malformed for arguments in made),
    )
