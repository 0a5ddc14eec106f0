"""The documentation as the tests see it: what it tells its readers to write and to run, tried out.

Every document is played in a folder of its own, from its first block to its last, as a reader
would: blocks with a `title` are written to the file of that name, `bash` and `console` blocks are
run, and what a `console` block shows below a command must be what the command prints, where `...`
stands for what is left out. `python -m tests.regenerate documents` writes today's output.
"""

from __future__ import annotations

import doctest
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sexpdata
import tree_sitter
import tree_sitter_lua
import yaml
from jsonschema import Draft7Validator
from packaging.requirements import Requirement

from embercoach.config import load
from tests.examples.programs import ROOT
from tests.examples.readme import SIMULATOR, TRY, Block, blocks, without_times

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
#: The bugs found in public code: test_found.py runs its scripts.
FOUND = ROOT / "docs" / "found.md"
#: Sections that have tests of their own: tests/examples/test_readme.py, and for what a rule's page
#: begins with tests/repository/test_contributing.py.
ELSEWHERE = {
    ("README.md", TRY),
    ("README.md", SIMULATOR),
    ("README.md", "Test it"),
    ("CONTRIBUTING.md", "Add a rule"),
    ("cuda.md", "Metal kernels on NVIDIA GPUs"),
    *(("found.md", one.heading) for one in blocks(FOUND.read_text(encoding="utf-8"))),
}
#: Commands that are not run here, and why.
NOT_RUN = {
    "python -m venv .venv && . .venv/bin/activate": "makes the environment that this runs in",
    "pre-commit install": "writes into the hooks of the checkout",
    "pre-commit try-repo ../embercoach embercoach --all-files": "installs: test_fresh.py",
    "python -m pytest -n auto -m commit": "is a part of the suite that runs this",
    "python -m pytest -k HOST-PULL-001": "is a part of the suite that runs this",
    "python -m pytest -n auto": "is what runs this",
    "python -m pytest -n auto -m exhaustive --sample-seconds 120 --sample-seed 7": (
        "takes minutes: tests/repository/test_sampling.py"
    ),
    "python .ci/mutants.py --seed 7 --each 20 --json mutants.json": "changes the checkout",
    "python .ci/mutants.py --only mutants.json --result survived --json again.json": (
        "changes the checkout"
    ),
    "bash .ci/run": "runs this too: tests/repository/test_gate.py",
    "embercoach check --watch .": "never ends: tests/cli/test_watch.py",
    "python examples/lint_many_dask.py --shards 2 -o findings.json "
    "fleet/audio fleet/text fleet/vision": "test_lint_many_dask.py",
    "python -m tests.regenerate": "writes into these documents",
    "python -m tests.fuzz python metal --seconds 600 --jobs 2 --corpus corpus": "test_harnesses.py",
    "python -m tests.fuzz python --reproduce fuzz-faults/python-0123456789ab": "test_harnesses.py",
    "python -m tests.benchmarks.gpu --json figures.json": "takes minutes: test_gpu_benchmarks.py",
    "python -m tests.benchmarks.gpu --from figures.json --picture figures.svg": (
        "test_gpu_benchmarks.py"
    ),
    "python -m tests.benchmarks.gpu.linear_algebra": "takes minutes: test_gpu_benchmarks.py",
    "python -m tests.benchmarks.search --backend cuda --size 1000000 --dimension 128": (
        "needs a GPU and faiss-cpu"
    ),
    "python -m tests.benchmarks.advice --json advice.json": "takes minutes on a GPU",
    "python -m tests.benchmarks.advice --backend native": (
        "takes 15 s: tests/docs/test_kernel_advice.py"
    ),
    "python -m tests.benchmarks.profile.measure --json times.json": "takes minutes on a GPU",
    "python -m tests.benchmarks.profile.profiles --json profiles.json": "takes minutes",
    "python -m tests.benchmarks.profile.compare": "tests/simulator/test_profile_validation.py",
    "python -m tests.benchmarks.profile.calibrate": "fits constants: takes minutes",
    "python -m tests.benchmarks.gpu.language_model --json language-model.json": (
        "takes minutes on a GPU: test_gpu_benchmarks.py"
    ),
    "embercoach run --cuda --sanitize -- python generate.py": "needs an NVIDIA GPU: tests/cuda",
    "python .ci/rehearsal.py": "takes 50 s: the job `package` of ci.yml",
    **dict.fromkeys(
        (
            "uvx embercoach check .",
            "pipx run embercoach check .",
            "uvx --from . embercoach check examples/train_classifier.py",
            "pipx run --spec . embercoach check examples/train_classifier.py",
        ),
        "installs: .ci/rehearsal.py",
    ),
    **dict.fromkeys(
        (
            "docker build --tag embercoach .",
            "docker build --tag embercoach:simulator --target simulator .",
            'docker run --rm --network none --volume "$PWD:/project:ro" embercoach check .',
            (
                'docker run --rm --network none --volume "$PWD:/project:ro" embercoach:simulator '
                "simulate examples/softmax_race.py"
            ),
        ),
        "needs Docker: the job `image` of ci.yml",
    ),
    "mkdocs serve -f .mkdocs.yml": "never ends: test_site.py builds",
    "mkdocs build -f .mkdocs.yml": "test_site.py builds",
    "python .ci/screenshots.py .site pictures": "needs a browser: test_site_browser.py",
    "python examples/train_xlstm.py --plot docs/images/parity_slstm.svg": "test_train_xlstm.py",
    "python examples/train_xlstm.py --blocks m --plot docs/images/parity_mlstm.svg": (
        "test_train_xlstm.py"
    ),
    "python examples/train_xlstm.py --task cups --steps 300": "test_train_xlstm.py",
    "python examples/train_xlstm.py --task cups --blocks m": "test_train_xlstm.py",
    "python examples/train_lm.py --plot docs/images/lm_loss.svg": "test_train_lm.py",
    "python examples/train_lm.py --precision bfloat16 --recompute": "test_train_lm.py",
    "python examples/train_lm.py --packed": "test_train_lm.py",
    "python examples/train_lm.py --checkpoints run --save-every 100": "test_train_lm.py",
    "python examples/train_lm.py --checkpoints run --resume": "test_train_lm.py",
    "mlx.launch -n 2 python examples/train_lm.py": "test_train_lm.py",
    "python examples/train_and_sample/measure.py --size small --rounds 9 --json figures.json": (
        "takes a minute: test_train_and_sample.py"
    ),
}
#: Packages of others that readers are told to install, each for the tests that need it.
OTHERS = {"mlstm_kernels", "xlstm", "flashrnn", "mlx-vlm", "mlx-audio"}
#: What a document finds in its reader's project, from another one.
GIVEN = {"README.md": ("kernels.md", "kernels.py")}
#: Commands that answer 1 where they find something.
FINDERS = ("embercoach check", "embercoach merge", "embercoach simulate", "pytest ")
#: What a forge or a terminal that runs the tests would change.
FOREIGN = ("CI", "COLUMNS", "FORCE_COLOR", "NO_COLOR", "PYTEST_ADDOPTS")
PROMPT = "$ "


class DocumentError(AssertionError):
    """A block that does not hold, with its place."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command, and the output that a document shows of it; None where it shows none."""

    line: str
    shown: str | None = None


def title(block: Block) -> str:
    """The file that a block is, or nothing."""
    found = re.search(r'title="([^"]+)"', block.language)
    return found[1] if found else ""


def language(block: Block) -> str:
    """What a block is written in."""
    return block.language.split(" ")[0]


def commands(block: Block) -> list[Command]:
    """The commands of a `bash` or `console` block."""
    if language(block) == "bash":
        joined = block.text.replace("\\\n", "")
        return [Command(line) for line in joined.splitlines() if shlex.split(line, comments=True)]
    parts = re.split(r"^\$ (.*)\n", block.text, flags=re.MULTILINE)
    if parts[0]:
        raise DocumentError(f"a console block begins with a command after '{PROMPT}'")
    return [Command(*pair) for pair in zip(parts[1::2], parts[2::2], strict=True)]


def bare(line: str) -> str:
    """A command without the comment behind it."""
    return re.sub(r"\s+# .*", "", line).strip()


def installed(line: str) -> list[Requirement] | None:
    """What a command installs with pip, as requirements; None for any other command."""
    words = shlex.split(line, comments=True)
    if words[:2] == ["pip", "install"]:
        words = words[2:]
    elif words[:4] == ["python", "-m", "pip", "install"]:
        words = words[4:]
    else:
        return None
    named = [word for word in words if not word.startswith("-")]
    return [Requirement(re.sub(r"^\.(?=$|\[)", "embercoach", word)) for word in named]


def environment(programs: Path) -> dict[str, str]:
    """The environment of a reader who has installed this checkout and activated its environment."""
    for name, module in (("embercoach", "embercoach"), ("pytest", "pytest"), ("python", "")):
        script = programs / name
        call = f"{shlex.quote(sys.executable)} {f'-m {module}' if module else ''}"
        script.write_text(f'#!/bin/sh\nexec {call} "$@"\n', encoding="utf-8")
        script.chmod(0o755)
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in FOREIGN and not name.startswith(("GITHUB_", "CI_", "PYTEST_"))
    }
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    return kept | {"PATH": path, "PYTHONPATH": str(ROOT)}


class Playground:
    """A folder in which a document is played."""

    def __init__(self, folder: Path, document: Path) -> None:
        self._document = document
        self._folder = folder / "project"
        self._folder.mkdir()
        programs = folder / "bin"
        programs.mkdir()
        self._environment = environment(programs)
        if given := GIVEN.get(document.name):
            source, name = given
            (block,) = (
                block
                for block in blocks((ROOT / "docs" / source).read_text(encoding="utf-8"))
                if title(block) == name
            )
            self._write(name, block.text)

    def play(self) -> Iterator[tuple[Block, list[tuple[Command, str]]]]:
        """Go through the blocks; of each, its commands and what they printed.

        Raises:
            DocumentError: a block does not hold.
        """
        for block in blocks(self._document.read_text(encoding="utf-8")):
            if (self._document.name, block.heading) in ELSEWHERE:
                continue
            try:
                yield block, self._block(block)
            except Exception as error:
                place = f"{self._document.name}:{block.start + 1}"
                raise DocumentError(f"{place}: {error}") from error

    def _block(self, block: Block) -> list[tuple[Command, str]]:
        if (kind := language(block)) in ("bash", "console"):
            return [(command, self.run(command.line)) for command in commands(block)]
        if kind not in READERS:
            raise DocumentError(f"nothing tests a block of '{kind}'")
        if name := title(block):
            self._write(name, block.text)
        READERS[kind](block, self._folder)
        if title(block) == ".gitlab-ci.yml":
            lines = [line for job in yaml.safe_load(block.text).values() for line in job["script"]]
            return [(Command(line), self.run(line)) for line in lines]
        return []

    def _write(self, name: str, text: str) -> None:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def run(self, line: str) -> str:
        """Run a command line, and give what it prints.

        Raises:
            DocumentError: it fails.
        """
        if bare(line) in NOT_RUN:
            return ""
        if (wanted := installed(line)) is not None:
            _installable(wanted)
            return ""
        result = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
        )
        if result.returncode not in ((0, 1) if line.startswith(FINDERS) else (0,)):
            raise DocumentError(f"{line!r} answers {result.returncode}:\n{result.stdout}")
        return result.stdout


def _installable(wanted: list[Requirement]) -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = tomllib.loads(text)["project"]["optional-dependencies"]
    for requirement in wanted:
        if requirement.name not in {"embercoach", *OTHERS}:
            raise DocumentError(f"installs {requirement.name}, which is not ours")
        if unknown := requirement.extras - set(extras):
            raise DocumentError(f"there is no extra {', '.join(unknown)}")


# --- blocks that are read by something ---------------------------------------------------------


def _python(block: Block, folder: Path) -> None:
    if not title(block):
        exec(compile(block.text, f"{folder}/{block.start}", "exec"), {"__name__": "document"})


def _toml(block: Block, folder: Path) -> None:
    if title(block) in ("pyproject.toml", "embercoach.toml"):
        load([str(folder)])
    else:
        tomllib.loads(block.text)


def _yaml(block: Block, folder: Path) -> None:
    document = yaml.safe_load(block.text)
    if "repos" in document:
        from pre_commit.clientlib import load_config

        path = folder / ".pre-commit-config.yaml"
        path.write_text(block.text, encoding="utf-8")
        load_config(path)
        _hooks(document)
    elif "jobs" in document:
        _valid("vendor.github-workflows", document)
        _inputs(document)
    elif title(block) == ".gitlab-ci.yml":
        _valid("vendor.gitlab-ci", document)
    else:
        raise DocumentError("neither hooks, nor a workflow, nor a pipeline")


def _valid(schema: str, document: Any) -> None:
    from check_jsonschema.builtin_schemas import get_builtin_schema

    # YAML 1.1 reads a workflow's `on` as true.
    words = {"on" if key is True else key: value for key, value in document.items()}
    Draft7Validator(get_builtin_schema(schema)).validate(json.loads(json.dumps(words)))


def _hooks(document: dict[str, Any]) -> None:
    ours = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    named = {hook["id"] for repository in document["repos"] for hook in repository["hooks"]}
    if unknown := named - {hook["id"] for hook in ours}:
        raise DocumentError(f"there is no hook {', '.join(unknown)}")


def _inputs(document: dict[str, Any]) -> None:
    declared = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["inputs"]
    for job in document["jobs"].values():
        for step in job["steps"]:
            if "/embercoach@" in step.get("uses", "") and (
                unknown := step.get("with", {}).keys() - declared.keys()
            ):
                raise DocumentError(f"the action has no input {', '.join(unknown)}")


def _json(block: Block, _: Path) -> None:
    json.loads(block.text)


def _lua(block: Block, _: Path) -> None:
    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_lua.language()))
    if parser.parse(block.text.encode()).root_node.has_error:
        raise DocumentError("no Lua")


def _elisp(block: Block, _: Path) -> None:
    sexpdata.loads(block.text)


def _written(block: Block, _: Path) -> None:
    if not title(block):
        raise DocumentError("is in no file that a command reads")


def _text(block: Block, _: Path) -> None:
    """Commands that need other tools than Python: nothing here runs them."""


READERS: dict[str, Callable[[Block, Path], None]] = {
    "elisp": _elisp,
    "json": _json,
    "lua": _lua,
    "markdown": _written,
    "metal": _written,
    "python": _python,
    "text": _text,
    "toml": _toml,
    "yaml": _yaml,
}


# --- output ------------------------------------------------------------------------------------


def agrees(shown: str, printed: str) -> bool:
    """Whether a document shows what was printed, but for what it leaves out and for seconds."""
    return doctest.OutputChecker().check_output(
        without_times(shown), without_times(printed), doctest.ELLIPSIS
    )


def regenerated(markdown: str, played: list[tuple[Block, list[tuple[Command, str]]]]) -> str:
    """The document with the output of today below its commands."""
    lines = markdown.splitlines(keepends=True)
    for block, ran in reversed(played):
        if language(block) == "console" and not all(
            agrees(command.shown or "", printed) for command, printed in ran
        ):
            new = [f"{PROMPT}{command.line}\n{printed}" for command, printed in ran]
            lines[block.start + 1 : block.end - 1] = new
    return "".join(lines)


def regenerate() -> Iterator[str]:
    """Write today's output into the documents; yield the commands whose `...` were replaced."""
    for path in DOCUMENTS:
        markdown = path.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            played = list(Playground(Path(folder), path).play())
        if (new := regenerated(markdown, played)) == markdown:
            continue
        path.write_text(new, encoding="utf-8")
        for command, printed in (pair for _, ran in played for pair in ran):
            shown = command.shown or ""
            if shown.count("...") > printed.count("...") and shown not in new:
                yield f"{path.name}: {command.line}"
