"""Inference: what the values of a file are, and the facts that checks read.

Two passes infer values. `evaluate`, `calls` and `values` run each function once for all callers, on
LibCST's nodes, which reports and fixes need; they know kinds, dtypes and constants. `shapes` runs
each path and each call, on the nodes of `ast`, with symbols for sizes. `dataflow` says where values
come from, where they go, and whether they are evaluated.
"""

from __future__ import annotations
