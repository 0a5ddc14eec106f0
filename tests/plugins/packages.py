"""Packages of rules as pip installs them, written by hand: no installer runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PAGE = """\
# rule-{name} ({code})

Summary of {code}

Text of {code}.

## Metadata
```toml
since = "1.0.0"
severity = "warning"
ember = "error"
costs = true
```
"""
HEAD = """\
from pathlib import Path

from embercoach.api import Replacement, Report, RuleSet, on_call, on_operation

PAGES = Path(__file__).parent / "{module}_pages"
"""
#: Reports each call of ``mx.eval`` outside of a function `train_step`.
EVAL = """
@on_call("{prefix}-EVAL-001", of=("mlx.core.eval",))
def eval_outside(call):
    if call.place.function != "train_step":
        yield Report(call, "mx.eval outside of train_step", "Evaluate once a step")
"""


@dataclass(frozen=True)
class Package:
    """A distribution with one module; ``codes`` get a page each."""

    module: str
    checks: str = EVAL
    prefix: str = "ACME"
    codes: tuple[str, ...] = ("ACME-EVAL-001",)
    version: str = "1.0"
    rules: str = 'RULES = RuleSet("{prefix}", PAGES, (eval_outside,))\n'

    def write(self, folder: Path) -> Path:
        """Install it into a folder, which is returned."""
        pages = folder / f"{self.module}_pages"
        pages.mkdir(parents=True, exist_ok=True)
        for code in self.codes:
            pages.joinpath(f"{code}.md").write_text(page(code), encoding="utf-8")
        text = HEAD + self.checks + "\n\n" + self.rules
        text = text.replace("{module}", self.module).replace("{prefix}", self.prefix)
        folder.joinpath(f"{self.module}.py").write_text(text, encoding="utf-8")
        declare(folder, self.module, self.version)
        return folder


def page(code: str) -> str:
    """A valid page, without examples."""
    return PAGE.format(code=code, name=code.lower())


def declare(folder: Path, module: str, version: str = "1.0") -> None:
    """Write a distribution's metadata, with an entry point to ``RULES`` of a module."""
    info = folder / f"{module}-{version}.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    text = f"Metadata-Version: 2.1\nName: {module}\nVersion: {version}\n"
    info.joinpath("METADATA").write_text(text, encoding="utf-8")
    points = f"[embercoach.rules]\nrules = {module}:RULES\n"
    info.joinpath("entry_points.txt").write_text(points, encoding="utf-8")
