"""Values that the host reads: HOST-PULL and GRAPH-BREAK."""

from __future__ import annotations
