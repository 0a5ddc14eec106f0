"""Evaluations and synchronizations of a program that runs, by file and line."""

from __future__ import annotations
