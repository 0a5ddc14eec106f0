"""Hazards of a kernel, found in its program and in the traces of following it.

Each module takes a ``Program`` or a ``Trace`` and gives frozen results with their places. Which
rule they break, and whether the launch makes it true, is for the checks to say.
"""

from __future__ import annotations
