"""Pulls of values that go through functions which only the host has, before they return to MLX."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from embercoach.analysis import mlx_api
from embercoach.analysis.calls.library import numpy_api
from embercoach.analysis.facts.facts import CallFact
from embercoach.analysis.values.joins import pulls_of
from embercoach.analysis.values.lattice import NO_PULLS, Symbol, Unknown

if TYPE_CHECKING:
    import libcst as cst

    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.lattice import Pulls

#: Functions of NumPy that slices of an array replace, or methods of it.
_BY_SLICES = frozenset(("flip", "fliplr", "flipud", "astype", "isscalar", "ndim", "shape", "size"))

#: Functions of linear algebra that MLX computes on the GPU too: others raise there.
_ON_DEVICE = frozenset(("linalg.norm", "linalg.cross"))
#: Functions whose first argument has sizes, which are Python numbers.
_OF_SHAPES = frozenset(
    f"{library}.{name}"
    for library in ("numpy", "mlx.core")
    for name in ("zeros", "ones", "empty", "full")
)


def takes_host_detour(pull: cst.CSTNode, module: Module, *, only_by_numpy: bool = False) -> bool:
    """Test whether a function that MLX lacks takes a pulled value: ``np.unique(np.array(x))``.

    Unknown functions are such functions, unless ``only_by_numpy``.
    """
    return pull in _detours(module, only_by_numpy=only_by_numpy)


@lru_cache(maxsize=4)
def _detours(module: Module, *, only_by_numpy: bool) -> Pulls:
    """The pulls whose values such functions take."""
    found: list[Pulls] = []
    for fact in module.facts():
        if not isinstance(fact, CallFact):
            continue
        if only_by_numpy and not (fact.symbol or "").startswith("numpy."):
            continue
        if not is_replaceable(fact):
            found += [pulls_of(argument.value) for argument in fact.arguments]
        elif fact.symbol in _OF_SHAPES and fact.arguments:
            found += [pulls_of(fact.arguments[0].value)]
    return NO_PULLS.union(*found)


def is_replaceable(fact: CallFact) -> bool:
    """Test whether MLX, or Python on its arrays, does what a call does."""
    callee = fact.callee
    if not isinstance(callee, Symbol):
        return not isinstance(callee, Unknown)
    library, _, rest = callee.name.partition(".")
    if library != "numpy":
        return library in ("mlx", "builtins", "math")
    # Masked arrays select: ``mx.where`` does that.
    if rest in numpy_api.CONVERSIONS or rest in _BY_SLICES or rest.startswith("ma."):
        return True
    if rest.startswith("linalg.") and rest not in _ON_DEVICE:
        return False
    entry = mlx_api.lookup(f"mlx.core.{rest}")
    if entry is None:
        return False
    # ``np.where(mask)`` finds indices: the shape of its result depends on the numbers.
    required = [parameter.name for parameter in entry.params if not parameter.has_default]
    given = [a for a in fact.arguments if a.keyword is None or a.keyword in required]
    return len(required) <= len(given)
