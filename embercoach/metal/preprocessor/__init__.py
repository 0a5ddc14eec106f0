"""The preprocessor of Metal text: tokens, macros and conditions."""

from __future__ import annotations
