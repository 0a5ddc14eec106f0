"""Kernels followed thread by thread with unknown data.

Nothing is compiled and nothing of the user's runs: a threadgroup's statements are followed in
lockstep over known thread positions and unknown contents.
"""

from __future__ import annotations
