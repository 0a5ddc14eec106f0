"""Fixes: source text as it stands on disk, edits applied without conflict, safe writing."""

from __future__ import annotations

from embercoach.fixes.application import apply
from embercoach.fixes.source import DecodingError, LineIndex, SourceText, decode, encode

__all__ = ["DecodingError", "LineIndex", "SourceText", "apply", "decode", "encode"]
