"""PowerShell's completion, which click lacks; importing this module registers it."""

from __future__ import annotations

import os
from typing import Any, ClassVar

from click.shell_completion import CompletionItem, ShellComplete, add_completion_class

#: The words before the one to complete are passed one a line. An empty variable is not set.
_SOURCE = """\
Register-ArgumentCompleter -Native -CommandName %(prog_name)s -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $before = $commandAst.CommandElements | Where-Object { $_.Extent.EndOffset -lt $cursorPosition }
    $words = $before | ForEach-Object { $_.Extent.Text.Trim('"', "'") }
    $env:COMP_WORDS = $words -join "`n"
    $env:COMP_CWORD = $wordToComplete
    $env:%(complete_var)s = "powershell_complete"
    %(prog_name)s | ForEach-Object {
        $type, $value = $_ -split ",", 2
        if ($type -eq "plain") {
            [System.Management.Automation.CompletionResult]::new($value)
        } elseif ($type) {
            [System.Management.Automation.CompletionCompleters]::CompleteFilename($value)
        }
    }
    $env:COMP_WORDS = $env:COMP_CWORD = $env:%(complete_var)s = $null
}
"""


@add_completion_class
class PowerShellComplete(ShellComplete):
    """Completion in Windows PowerShell 5.1 and in PowerShell 7."""

    name: ClassVar[str] = "powershell"
    source_template: ClassVar[str] = _SOURCE

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words after the program's name, and the incomplete one."""
        words = os.environ.get("COMP_WORDS", "").split("\n")
        return words[1:], os.environ.get("COMP_CWORD", "")

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Return the type of a completion and its value, as click's own classes do."""
        return f"{item.type},{item.value}"
