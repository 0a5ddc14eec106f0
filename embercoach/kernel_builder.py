"""Wrappers of ``mx.fast.metal_kernel`` that a project declares: where MLX gets what from."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

#: The parameters of ``mx.fast.metal_kernel`` in their order.
PARAMETERS = (
    *("name", "input_names", "output_names", "source", "header", "ensure_row_contiguous"),
    *("atomic_outputs", "compile_options"),
)


class Fixed(Struct, frozen=True):
    """A constant that a wrapper passes."""

    value: str | bool | tuple[str, ...]


#: Where a wrapper takes an argument from: its own keyword, its own position from 0, or nowhere.
Origin: TypeAlias = "str | int | Fixed"


class KernelBuilder(Struct, frozen=True):
    """A class or function whose calls describe a kernel.

    Attributes:
        symbol: dotted name, as in an import: ``package.module.Name``.
        origins: for parameters of ``metal_kernel``, where their arguments come from. What is
            passed for others is unknown.
    """

    symbol: str
    origins: tuple[tuple[str, Origin], ...]

    @property
    def last_name(self) -> str:
        """The name without its module."""
        return self.symbol.rpartition(".")[2]

    def origin(self, parameter: str) -> Origin | None:
        """Where the argument for a parameter of ``metal_kernel`` comes from, None if unknown."""
        return next((origin for name, origin in self.origins if name == parameter), None)
