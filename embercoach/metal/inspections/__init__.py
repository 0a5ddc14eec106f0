"""What is wrong with a kernel: questions asked of its program, and of what following it showed.

Each module takes a ``Program`` or a ``Trace`` and gives frozen results with their places. Which
rule they break, and whether the launch makes it true, is for the checks to say.
"""

from __future__ import annotations
