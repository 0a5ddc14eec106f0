"""The command group, and the run of a command line to its exit code."""

from __future__ import annotations

import codecs
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import click

from embercoach.cli.standard_streams import StreamError
from embercoach.terminal_text import escaped, log_line

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: Exit  Incomplete: something was not checked, or the command line or configuration is invalid.
CLEAN, FOUND, INCOMPLETE, INTERRUPTED = 0, 1, 2, 130

PROGRAM = "embercoach"
#: The variable by which shells ask for completions.
COMPLETE = "_EMBERCOACH_COMPLETE"
COMMANDS = {
    "check": "Check MLX and Metal code (the default command).",
    "baseline": "Record today's findings, so that checks report only new ones.",
    "simulate": "Run a program's Metal kernels on the CPU and check them at run time.",
    "run": "Run a program whose Metal kernels run on an NVIDIA GPU, as they are.",
    "trace": "Run a program and list where it waits for MLX: evaluations, host copies, retraces.",
    "shapes": "Print a program with the shapes of its arrays.",
    "port": "Port kernels of a .metal file to mx.fast.metal_kernel.",
    "merge": "Merge saved reports: shards of a run, or runs over several checkouts.",
    "report": "Write an HTML report: charts, a searchable list, annotated sources.",
    "explain": "Explain a rule, with evidence and examples.",
    "rules": "List the rules.",
    "config": "Show the effective configuration of files: settings, rules, exclusions.",
    "server": "Start the language server: diagnostics, rule pages, quick fixes.",
    "completion": "Print a shell's completion script.",
}
#: Commands that the help page does not list.
HIDDEN = ("dev",)
DEFAULT = "check"
#: Commands by the words that other tools have for them.
FOREIGN = {
    **dict.fromkeys(("lint", "scan", "analyze", "analyse"), "check"),
    **dict.fromkeys(("fix", "format"), "check --fix"),
    "test": "simulate pytest",
    "profile": "simulate --profile",
    "rule": "explain",
    "lsp": "server",
}


class UserError(click.ClickException):
    """An error of the user, reported in one line."""

    exit_code = INCOMPLETE


class CommandGroup(click.Group):
    """Loads a command's module when it is called; the default command is `check`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of the help page."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command."""
        if cmd_name not in (*COMMANDS, *HIDDEN):
            return None
        module = import_module(f"embercoach.cli.commands.{cmd_name}")
        command: click.Command = module.command
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the default command where the arguments start with none."""
        own = {name for option in self.get_params(ctx) for name in option.opts}
        if args and args[0] not in {*COMMANDS, *HIDDEN, *own}:
            _refuse_misspelt(args[0])
            args.insert(0, DEFAULT)
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Commands, options of the group, and completions of the default command."""
        default = self.get_command(ctx, DEFAULT)
        assert default is not None
        found = super().shell_complete(ctx, incomplete)
        if incomplete.startswith("-"):
            return found + default.shell_complete(ctx, incomplete)
        # Not both: bash drops the words if files are among the completions.
        return found or default.params[0].shell_complete(ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without loading their modules."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _refuse_misspelt(word: str) -> None:
    """Refuse a path that does not exist and is, or is similar to, a word for a command.

    Raises:
        click.UsageError: the word is such a path.
    """
    if word.startswith("-") or not word.isalpha() or os.path.lexists(word):
        return
    from embercoach.config.errors import nearest

    near = FOREIGN.get(word) or nearest(word, COMMANDS, cutoff=0.75)
    if near is not None:
        raise click.UsageError(f"no such command or path '{word}'; did you mean '{near}'?")


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from embercoach import __version__

        click.echo(f"{PROGRAM} {__version__}")
        ctx.exit()


@click.group(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="`embercoach PATH` is `embercoach check PATH`: see `embercoach check --help`.",
)
@click.option(
    "-V",
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version and exit.",
)
def group() -> None:
    """EmberCoach finds bugs and slow code in MLX programs and Metal kernels, and fixes them."""


def start(arguments: Sequence[str]) -> int:
    """Run a command line and return the exit code; nothing is raised."""

    def run() -> object:
        if COMPLETE in os.environ:
            import embercoach.cli.powershell  # noqa: F401  (registers it)
        words = expanded(arguments)
        return group.main(words, prog_name=PROGRAM, standalone_mode=False)

    return guarded(run, debug="--debug" in arguments)


def guarded(run: Callable[[], object], *, debug: bool) -> int:
    """Run a function and return the exit code; errors become a message and a code.

    With ``debug`` an internal error is raised.
    """
    _tolerate_odd_names()
    try:
        result = run()
        sys.stdout.flush()
    except click.ClickException as error:
        _show(error)
        return INCOMPLETE
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        silence_stdout()
        return FOUND
    except StreamError as error:
        silence_stdout()
        _complain(f"{PROGRAM}: cannot write {error.filename}: {error.strerror}")
        return INCOMPLETE
    except Exception as error:
        from embercoach.config import ConfigError  # a command that ends well may need none of it

        if isinstance(error, ConfigError):
            _show(UserError(str(error)))
            return INCOMPLETE
        if debug:
            raise
        _complain(f"{PROGRAM}: internal error: {type(error).__name__}: {error}")
        return INCOMPLETE
    return result if isinstance(result, int) else CLEAN


def expanded(arguments: Sequence[str]) -> list[str]:
    """Replace ``@file`` by the lines of the file, as ruff and mypy do.

    Arguments after ``--`` stay as they are, and so does the command line of a simulated program.

    Raises:
        click.UsageError: a file can't be read.
    """
    if [*arguments[:1]] in (["simulate"], ["trace"]):
        return [*arguments]
    words: list[str] = []
    for number, argument in enumerate(arguments):
        if argument == "--":
            return [*words, *arguments[number:]]
        if len(argument) < 2 or not argument.startswith("@"):
            words.append(argument)
            continue
        try:
            data = Path(argument[1:]).read_bytes()
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or error
            raise click.UsageError(
                f"cannot read {argument[1:]}: {reason} (write ./{argument} for a path)"
            ) from error
        lines = os.fsdecode(data.removeprefix(codecs.BOM_UTF8)).splitlines()
        words += [line for line in lines if line.strip()]
    return words


#: How click shows the help of a command without arguments, in versions that make it an error.
_HELP = getattr(click.exceptions, "NoArgsIsHelpError", ())


def _show(error: click.ClickException) -> None:
    """Print an error as escaped lines: its message may quote a file or an argument."""
    if isinstance(error, _HELP):
        error.show()
        return
    shown = StringIO()
    error.show(shown)
    said = error.format_message()
    # click leaves out colors where it does not write to a terminal.
    before, found, after = shown.getvalue().rpartition(click.unstyle(said))
    text = f"{before}{escaped(said)}{after}" if found else f"Error: {escaped(said)}\n"
    for line in text.removesuffix("\n").split("\n"):
        _complain(line)


def _complain(line: str) -> None:
    """Print a line to standard error, if that can be written."""
    with contextlib.suppress(OSError, ValueError):
        print(log_line(line), file=sys.stderr, flush=True)  # noqa: T201


def silence_stdout() -> None:
    """Redirect standard output to nowhere: its reader has gone, or its device is full."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _tolerate_odd_names() -> None:
    # File names need not be valid text; printing one must not fail.
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
