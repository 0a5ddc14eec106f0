"""A kernel whose threads do something to each other, and the program that launches it."""

from __future__ import annotations

from dataclasses import dataclass

MARK = "// <- "


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of the inputs x and n and the outputs y and z, with one launch.

    ``grid`` and ``threadgroup`` are texts, of Python, in which ``t`` and ``rows`` are unknown.
    """

    name: str
    source: str
    threadgroup: str = "(128, 1, 1)"
    grid: str = "(rows * 128, 1, 1)"
    header: str = ""
    template: str = "[]"
    atomic: bool = False

    def written_out(self) -> str:
        return f"""\
HEADER = '''{self.header}'''
SOURCE = '''{self.source}'''
KERNEL = mx.fast.metal_kernel(
    name="{self.name}",
    input_names=["x", "n"],
    output_names=["y", "z"],
    source=SOURCE,
    header=HEADER,
    atomic_outputs={self.atomic},
)


def launch(x: mx.array, n: mx.array, rows: int, t: int) -> list[mx.array]:
    return KERNEL(
        inputs=[x, n],
        template={self.template},
        grid={self.grid},
        threadgroup={self.threadgroup},
        output_shapes=[x.shape, x.shape],
        output_dtypes=[mx.float32, mx.float32],
        init_value=0,
    )
"""


def marked(program: str) -> list[tuple[int, str]]:
    """The lines with marks, as they count below the imports that ``findings`` writes."""
    return [
        (number, f"KERNEL-{code}")
        for number, line in enumerate(program.split("\n"), start=3)
        for code in line.partition(MARK)[2].strip().split()
    ]
