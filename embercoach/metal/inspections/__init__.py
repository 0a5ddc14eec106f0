"""The faults of a kernel: queries of its program, and of the trace of following it.

Each module takes a ``Program`` or a ``Trace`` and gives frozen results with their places. Which
rule they break, and whether the launch makes it true, is for the checks to say.
"""

from __future__ import annotations
