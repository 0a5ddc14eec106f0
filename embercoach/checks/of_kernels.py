"""The checks of kernels. Importing this registers them, which takes longer than most files' checks.

They report nothing where there is no kernel, so that it makes no difference when they are loaded.
"""

from __future__ import annotations

from embercoach.checks.body import (  # noqa: F401  (importing a module registers its checks)
    kernel_atomics,
    kernel_cost,
    kernel_counts,
    kernel_fill,
    kernel_flow,
    kernel_index,
    kernel_language,
    kernel_memory,
    kernel_pointers,
    kernel_precision,
    kernel_storage,
    kernel_unit,
    kernel_writes,
)
from embercoach.checks.contract import (  # noqa: F401  (importing a module registers its checks)
    kernel_escapes,
    kernel_inputs,
    kernel_names,
    kernel_settings,
    kernel_signature,
    kernel_source,
    kernel_strides,
)
from embercoach.checks.launch import (  # noqa: F401  (importing a module registers its checks)
    kernel_cache,
    kernel_gradient,
    kernel_grid,
    kernel_launch,
    kernel_results,
    kernel_rounding,
    kernel_sizes,
    kernel_values,
    kernel_varying,
)
from embercoach.checks.programs import (  # noqa: F401  (importing a module registers its checks)
    metal_bodies,
)
