"""The form of a case: a small program as a guide teaches it, and what the linter owes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from textwrap import dedent, indent
from typing import Any


@dataclass(frozen=True, slots=True)
class Mark:
    """A finding that is due, on the line of one of its places, with the words that it says."""

    code: str
    places: tuple[str, ...]
    says: tuple[str, ...] = ()

    def lines(self, program: str) -> frozenset[int]:
        """The lines of the places, from 1."""
        return frozenset(program[: program.index(p)].count("\n") + 1 for p in self.places)


def mark(code: str, *places: str, says: str = "") -> Mark:
    """Shorthand for a `Mark`."""
    return Mark(code, places, tuple(says.split()))


@dataclass(frozen=True, slots=True)
class Case:
    """A program of a guide, retyped as small as it gets.

    Attributes:
        name: the number of the guide and what the program is about; verdicts on claims that
            several guides make are numbered ``v``.
        reason: why it is broken, or why it is right, in a line.
        program: a complete module.
        flagged: warnings and errors that are due under ``recommended`` and ``ember``.
        noted: notes that are due under ``recommended``, warnings or errors under ``ember``.
        allowed: codes that may be reported besides, as they name the same cause.
        needs: modules that running the program takes, besides mlx.
    """

    name: str
    reason: str
    program: str
    flagged: tuple[Mark, ...] = ()
    noted: tuple[Mark, ...] = ()
    allowed: frozenset[str] = frozenset()
    needs: tuple[str, ...] = ()

    @property
    def marks(self) -> tuple[Mark, ...]:
        """All findings that are due."""
        return self.flagged + self.noted


def case(
    name: str,
    reason: str,
    *,
    flagged: Mark | tuple[Mark, ...] = (),
    noted: Mark | tuple[Mark, ...] = (),
    allowed: str = "",
    needs: str = "",
    form: Callable[[str], str] = str,
) -> Callable[[str], Case]:
    """Make a case of a program that is indented and lacks ``import mlx.core as mx``."""

    def of_program(program: str) -> Case:
        text = form(dedent(program).lstrip("\n"))
        if "mlx" not in text and "torch" not in needs:
            text = "import mlx.core as mx\n" + text
        due = [(marks,) if isinstance(marks, Mark) else marks for marks in (flagged, noted)]
        return Case(name, reason, text, *due, frozenset(allowed.split()), tuple(needs.split()))

    return of_program


def kernel_case(
    name: str, reason: str, *, inputs: str = "x", outputs: str = "y", header: str = "", **more: Any
) -> Callable[[str], Case]:
    """Make a case of the body of a kernel with these inputs and outputs."""
    names = (tuple(inputs.split()), tuple(outputs.split()))
    return case(name, reason, form=lambda body: kernel_program(body, *names, header), **more)


def kernel_program(
    body: str, inputs: tuple[str, ...], outputs: tuple[str, ...], header: str
) -> str:
    """A module with one kernel of this body, and a function that launches it the right way."""
    parameters = ", ".join(f"{name}: mx.array" for name in inputs)
    first = inputs[0]
    shapes, dtypes = f"[{first}.shape] * {len(outputs)}", f"[{first}.dtype] * {len(outputs)}"
    return (
        "import mlx.core as mx\n"
        f'HEADER = """\n{dedent(header).strip()}\n"""\n'
        f'BODY = """\n{indent(dedent(body).strip(), "    ")}\n"""\n'
        "KERNEL = mx.fast.metal_kernel(\n"
        f'    name="guided", input_names={list(inputs)}, output_names={list(outputs)},\n'
        "    header=HEADER, source=BODY,\n"
        ")\n"
        f"def launch({parameters}) -> list[mx.array]:\n"
        "    return KERNEL(\n"
        f"        inputs=[{', '.join(inputs)}],\n"
        f"        grid=({first}.size, 1, 1), threadgroup=(32, 1, 1),\n"
        f"        output_shapes={shapes}, output_dtypes={dtypes},\n"
        "    )\n"
    )
