"""What the server names itself, and its diagnostics that no check reports."""

from __future__ import annotations

from lsprotocol import types

SOURCE = "embercoach"
#: The kind of the code action that applies all safe fixes.
FIX_ALL = "source.fixAll.embercoach"


def line_diagnostic(
    message: str,
    severity: types.DiagnosticSeverity,
    line: int = 1,
    code: str | None = None,
) -> types.Diagnostic:
    """A diagnostic of a whole line, counted from 1."""
    return types.Diagnostic(
        range=types.Range(types.Position(line - 1, 0), types.Position(line, 0)),
        severity=severity,
        code=code,
        source=SOURCE,
        message=message,
    )


def configuration_diagnostic(message: str, line: int | None) -> types.Diagnostic:
    """A mistake in a configuration file, on its line if that is known."""
    return line_diagnostic(message, types.DiagnosticSeverity.Error, line or 1, code="configuration")


def unchecked_diagnostic(message: str) -> types.Diagnostic:
    """The reason why a text was not checked to the end."""
    return line_diagnostic(message, types.DiagnosticSeverity.Warning, code="not-checked")
