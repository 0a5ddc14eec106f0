"""The checks of kernels. Importing this registers them, which takes longer than most files' checks.

They report nothing where there is no kernel, so that it makes no difference when they are loaded.
"""

from __future__ import annotations

from embercoach.checks import (  # noqa: F401  (importing a module registers its checks)
    kernel_atomics,
    kernel_cache,
    kernel_cost,
    kernel_counts,
    kernel_escapes,
    kernel_fill,
    kernel_flow,
    kernel_gradient,
    kernel_grid,
    kernel_index,
    kernel_inputs,
    kernel_language,
    kernel_launch,
    kernel_memory,
    kernel_names,
    kernel_pointers,
    kernel_precision,
    kernel_results,
    kernel_rounding,
    kernel_settings,
    kernel_signature,
    kernel_sizes,
    kernel_source,
    kernel_storage,
    kernel_strides,
    kernel_unit,
    kernel_values,
    kernel_varying,
    kernel_writes,
    metal_bodies,
)
