"""``embercoach completion``: scripts that make a shell complete our command lines."""

from __future__ import annotations

import click

from embercoach.cli.entry import PROGRAM, group


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print a shell's completion script.

    For bash put `eval "$(embercoach completion bash)"` into ~/.bashrc, for zsh the same with `zsh`
    into ~/.zshrc; for fish save the script as ~/.config/fish/completions/embercoach.fish.
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(group, {}, PROGRAM, f"_{PROGRAM.upper()}_COMPLETE").source())
