"""Kernels with one cost fault each, and well-written ones, found in the modules of `costs`.

They were written before the notes on costs were seen, from their table in `docs/profile.md`. Those
of `later` were written from the rules' pages, after the notes on the others were corrected: 13 of
their 15 faults were noted at once, and 1 of 15 clean kernels, whose reads were indeed uncoalesced.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from tests.simulator import costs

MODULES = [
    import_module(f"{costs.__name__}.{found.name}") for found in iter_modules(costs.__path__)
]
FAULTS = [case for module in MODULES for case in getattr(module, "FAULTS", ())]
CLEAN = [case for module in MODULES for case in getattr(module, "CLEAN", ())]
