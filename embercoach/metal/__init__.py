"""Metal kernels as text: MLX's contract, the syntax of a body, and where its characters stem from.

Nothing here knows of the Python analysis, and nothing here imports MLX.
"""

from __future__ import annotations
