"""Write what is generated and kept in the repository: `python -m tests.regenerate [PART...]`.

Each test that compares such a part with today's names its command. Snapshots are written by
`python -m pytest --snapshot-update`, MLX's API by `python -m tests.api_table.generate`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from embercoach.config.schema import rendered_json_schema
from tests.benchmarks.advice import page
from tests.benchmarks.profile import page as profile_page
from tests.docs import documents
from tests.examples import readme
from tests.examples.programs import ROOT, imported

if TYPE_CHECKING:
    from collections.abc import Callable


def schema() -> None:
    """Write the configuration's JSON Schema."""
    path = ROOT / "embercoach" / "config" / "embercoach.schema.json"
    path.write_text(rendered_json_schema(), encoding="utf-8")


def outputs() -> None:
    """Write today's output into the documents."""
    for command in documents.regenerate():
        click.echo(f"{command}: leave out lines with `...` again")


def tables() -> None:
    """Write the tables of rules, of configuration keys and of the action's inputs."""
    documentation = imported(".ci/documentation.py")
    for page_name in documentation.GENERATED:
        path = ROOT / "docs" / page_name
        path.write_text(documentation.with_table(page_name), encoding="utf-8")


def terminal() -> None:
    """Write the picture of a terminal."""
    module = imported(".ci/terminal.py")
    module.PICTURE.write_text(module.picture(), encoding="utf-8")


#: Each part by its name, in the order in which they are written.
PARTS: dict[str, Callable[[], None]] = {
    "schema": schema,
    "readme": readme.regenerate,
    "documents": outputs,
    "tables": tables,
    "terminal": terminal,
    "advice": page.regenerate,
    "profile": profile_page.regenerate,
}


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice(list(PARTS)))
def main(parts: tuple[str, ...]) -> None:
    """Write the parts, by default all of them."""
    for name in parts or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    sys.exit(main())
