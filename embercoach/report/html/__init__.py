"""One HTML file of a run's findings: no network, no other file, safe whatever the sources hold."""

from __future__ import annotations
