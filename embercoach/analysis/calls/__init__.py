"""Calls: functions of the project and of libraries, parameters and results."""

from __future__ import annotations
