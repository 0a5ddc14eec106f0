"""API-007 and COMPLEX: operations that the GPU lacks, or that reject complex arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.analysis import mlx_api
from embercoach.analysis.values.lattice import Array, DType, LibraryObject, Symbol, as_array
from embercoach.analysis.values.promotion import COMPLEX
from embercoach.checks.fallbacks import REFUSED, is_expected, is_meant_to_raise
from embercoach.checks.registry import VALUE, Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import BinaryFact, CallFact, Fact, InvertFact
    from embercoach.analysis.project.module import Module

#: Functions of ``mx.linalg`` that raise on a stream of the GPU.
_ON_CPU = """
cholesky cholesky_inv eig eigh eigvals eigvalsh inv lu lu_factor pinv qr solve solve_triangular svd
tri_inv
"""
ON_CPU = tuple(f"mlx.core.linalg.{name}" for name in _ON_CPU.split())


@check("API-007", of=ON_CPU)
def linear_algebra(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.linalg.inv(x)`` on the default device, which is the GPU."""
    if fact.keyword("stream") is not None or any(a.star for a in fact.arguments):
        return
    if _chooses_device(module) or any(map(_chooses_device, module.imported)):
        return
    if is_expected(module, fact.place.statement, REFUSED | {"RuntimeError"}, broadly=True):
        return
    name = (fact.symbol or "").rpartition(".")[2]
    yield Report.at(
        fact,
        "API-007",
        message=f"`mx.linalg.{name}` raises on the GPU, the default device",
        help="Pass `stream=mx.cpu`",
    )


def _chooses_device(module: Module) -> bool:
    """Test whether a file names the CPU, or takes a stream from elsewhere."""
    source = module.source
    return "cpu" in source or "stream" in source or "set_default_device" in source


#: Special methods of arrays, by operator.
METHODS = {
    "%": "__mod__",
    "&": "__and__",
    "|": "__or__",
    "^": "__xor__",
    "<<": "__lshift__",
    ">>": "__rshift__",
    "~": "__invert__",
}
REAL_TRANSFORMS = frozenset(f"mlx.core.fft.{name}" for name in ("rfft", "rfft2", "rfftn"))
#: Dtypes that keep both parts of a complex number, or that are unknown.
WHOLE = frozenset({None, "bool", *COMPLEX})


@check("COMPLEX-001", of=("mlx.", VALUE))
def unsupported_call(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.sigmoid(z)``, ``nn.SiLU()(z)``."""
    entry, callee = fact.entry, fact.callee
    if entry is None or not entry.real_only or not isinstance(callee, Symbol | LibraryObject):
        return
    for param, argument in fact.matched:
        if param.name in entry.real_only and _is_complex(as_array(argument.value)):
            name = callee.name if isinstance(callee, Symbol) else callee.cls
            yield from _unsupported(fact, module, f"`{_shown(name)}`")
            return


@check("COMPLEX-001")
def unsupported_operator(fact: BinaryFact, module: Module) -> Iterator[Report]:
    """``z % 2``, ``z & mask``."""
    if fact.operator in METHODS and (_is_complex(fact.left.array) or _is_complex(fact.right.array)):
        yield from _operator(fact, module, fact.operator)


@check("COMPLEX-001")
def unsupported_inversion(fact: InvertFact, module: Module) -> Iterator[Report]:
    """``~z``."""
    if _is_complex(as_array(fact.value)):
        yield from _operator(fact, module, "~")


def _operator(fact: Fact, module: Module, operator: str) -> Iterator[Report]:
    entry = mlx_api.array_member(METHODS[operator])
    if entry is not None and "self" in entry.real_only:
        yield from _unsupported(fact, module, f"`{operator}`")


def _unsupported(fact: Fact, module: Module, what: str) -> Iterator[Report]:
    if is_meant_to_raise(module, fact.node):
        return
    yield Report.at(
        fact,
        "COMPLEX-001",
        message=f"{what} raises a ValueError on a complex64 array",
        help="Apply it to the parts (mx.real(z), mx.imag(z)) or to the magnitude (mx.abs(z))",
    )


@check("COMPLEX-002", of=(".astype", "mlx.core.astype"))
def complex_cast(fact: CallFact, module: Module) -> Iterator[Report]:
    """``z.astype(mx.float32)``."""
    array, dtype = fact.array, fact.argument(0, "dtype")
    if fact.symbol is not None:
        first, dtype = fact.argument(0, "a"), fact.argument(1, "dtype")
        array = None if first is None else as_array(first.value)
    if not _is_complex(array) or dtype is None or not isinstance(dtype.value, DType):
        return
    if dtype.value.name not in WHOLE:
        yield Report.at(
            fact,
            "COMPLEX-002",
            message=f"cast from complex64 to {dtype.value.name} drops the imaginary part",
            help="Use mx.real(z), mx.abs(z) for the magnitude, or z.view(mx.float32)",
        )


@check("COMPLEX-003", of=REAL_TRANSFORMS)
def real_transform(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.fft.rfft(z)``."""
    argument = fact.argument(0, "a")
    if argument is not None and _is_complex(as_array(argument.value)):
        short = (fact.symbol or "").rpartition(".")[2]
        yield Report.at(
            fact,
            "COMPLEX-003",
            message=f"`{short}` drops the imaginary part of its complex64 input",
            help=f"Use mx.fft.{short[1:]} for a complex array, or pass mx.real(z) or mx.abs(z)",
        )


def _is_complex(array: Array | None) -> bool:
    return array is not None and array.dtype in COMPLEX


def _shown(name: str) -> str:
    """The name as programs write it: ``mx.linalg.inv``, ``nn.silu``."""
    return name.replace("mlx.core.", "mx.", 1).replace("mlx.nn.", "nn.", 1)
