"""Metal text as a program: typed expressions and statements, macros expanded, names resolved.

The modules `written_*` have the facts of a text as it is written, before macros are expanded.
"""

from __future__ import annotations
