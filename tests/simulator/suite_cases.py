"""The cases of the kernel suite, found in its modules."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from tests.simulator import suite

# The judge of the suite needs MLX; its cases do not.
MODULES = [
    import_module(f"{suite.__name__}.{found.name}")
    for found in iter_modules(suite.__path__)
    if found.name != "judgement"
]
BUGS = [case for module in MODULES for case in getattr(module, "BUGS", ())]
CLEAN = [case for module in MODULES for case in getattr(module, "CLEAN", ())]
