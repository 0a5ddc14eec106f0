"""``embercoach completion``: scripts that make a shell complete our command lines."""

from __future__ import annotations

import click

from embercoach.cli.entry import COMPLETE, PROGRAM, group


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish", "powershell"]))
def command(shell: str) -> None:
    """Print a shell's completion script.

    For bash put `eval "$(embercoach completion bash)"` into ~/.bashrc, for zsh the same with `zsh`
    into ~/.zshrc; for fish save the script as ~/.config/fish/completions/embercoach.fish; for
    PowerShell put `embercoach completion powershell | Out-String | Invoke-Expression` in $PROFILE.
    """
    from click.shell_completion import get_completion_class

    import embercoach.cli.powershell  # noqa: F401  (registers it)

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(group, {}, PROGRAM, COMPLETE).source())
