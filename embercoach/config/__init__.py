"""Configuration: read from files near the linted ones, overridden by the command line."""

from __future__ import annotations

from embercoach.config.errors import ConfigError
from embercoach.config.load import Configurations, Overrides, load
from embercoach.config.settings import DEFAULT_EXCLUDE, Settings

__all__ = [
    "DEFAULT_EXCLUDE",
    "ConfigError",
    "Configurations",
    "Overrides",
    "Settings",
    "load",
]
