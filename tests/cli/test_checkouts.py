"""Several checkouts in one run, each with its own settings; and shards of a run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from embercoach.cli.entry import expanded

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tests.cli.conftest import Ran

    Cli = Callable[..., Ran]

PULL = "import mlx\nbad_pull\n"
USE = """\
import mlx.core as mx
from shared.ops import norm


def show(x: mx.array) -> None:
    for _ in range(3):
        print(norm(x).item())
"""


def write(files: dict[str, str]) -> None:
    for name, text in files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def report(ran: Ran) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(ran.out)
    return data


def found(ran: Ran) -> list[tuple[str, str, str]]:
    return [(f["path"], f["code"], f["severity"]) for f in report(ran)["findings"]]


@pytest.mark.usefixtures("planted")
def test_a_file_in_two_checkouts_is_the_inner_ones(embercoach: Cli, project: Path) -> None:
    write({"x.py": PULL, "sub/embercoach.toml": 'profile = "ember"\n', "sub/x.py": PULL})
    ran = embercoach("check", "--output-format", "json", ".", "sub")
    assert found(ran) == [
        ("sub/x.py", "GRAPH-BREAK-001", "error"),
        ("x.py", "GRAPH-BREAK-001", "warning"),
    ]
    assert report(ran)["summary"]["files_checked"] == 2


def test_modules_of_one_name_do_not_mix(embercoach: Cli, project: Path) -> None:
    """``norm`` is an array in one checkout, and a number in the other."""
    write(
        {
            "a/.git/HEAD": "",
            "a/use.py": USE,
            "a/shared/__init__.py": "",
            "a/shared/ops.py": "import mlx.core as mx\n\n\ndef norm(x):\n    return mx.sum(x)\n",
            "b/.git/HEAD": "",
            "b/use.py": USE,
            "b/shared/__init__.py": "",
            "b/shared/ops.py": "def norm(x):\n    return 3.0\n",
            "c/.git/HEAD": "",
            "c/use.py": USE,
        }
    )
    alone = {
        top: found(embercoach("check", "--no-cache", "--output-format", "json", top))
        for top in "abc"
    }
    assert (len(alone["a"]), alone["b"]) == (1, [])
    for order in (["a", "b", "c"], ["c", "b", "a"]):
        ran = embercoach("check", "--no-cache", "--output-format", "json", *order)
        assert found(ran) == [*alone["a"], *alone["b"], *alone["c"]]


@pytest.mark.usefixtures("planted")
def test_a_wrong_configuration_costs_its_own_checkout_only(embercoach: Cli, project: Path) -> None:
    write(
        {
            "a/x.py": PULL,
            "b/embercoach.toml": 'profile = "recommended"\nignore = ["NOPE-001"]\n',
            "b/x.py": PULL,
            "c/embercoach.toml": 'baseline = "absent.json"\n',
            "c/x.py": PULL,
        }
    )
    ran = embercoach("check", "--output-format", "json", "a", "b", "c")
    assert ran.code == 2
    assert [path for path, _, _ in found(ran)] == ["a/x.py", "c/x.py"]
    wrong, absent = report(ran)["problems"]
    assert (wrong["path"], wrong["line"]) == ("b/embercoach.toml", 2)
    assert "NOPE-001" in wrong["message"]
    assert absent["path"] == "c/absent.json"
    assert "there is no such baseline" in absent["message"]
    ran = embercoach("check", "--show-files", "a", "b")
    assert (ran.code, ran.out) == (2, "a/x.py\n")
    assert "NOPE-001" in ran.err
    ran = embercoach("check", "b", "b/x.py")
    assert (ran.code, ran.out) == (2, "")


@pytest.mark.usefixtures("planted")
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_paths_from_a_file(embercoach: Cli, project: Path, ending: str) -> None:
    write({"a b/x.py": PULL, "日本/x.py": PULL, "@types/x.py": PULL})
    lines = ["a b", "", "日本", "./@types"]
    Path("list.txt").write_bytes(ending.join(lines).encode("utf-8-sig"))
    ran = embercoach("check", "--output-format", "json", "@list.txt")
    assert [path for path, _, _ in found(ran)] == ["@types/x.py", "a b/x.py", "日本/x.py"]
    assert embercoach("@list.txt").code == 1
    ran = embercoach("check", "--output-format", "json", "--", "@types")
    assert [path for path, _, _ in found(ran)] == ["@types/x.py"]
    ran = embercoach("check", "@types")
    assert ran.code == 2
    assert "cannot read types: No such file or directory (write ./@types" in ran.err
    assert "./@types" in ran.err


@pytest.mark.parametrize("arguments", [["simulate", "a.py", "@b"], ["--", "@b"], ["x", "--", "@"]])
def test_a_programs_own_arguments_stay(arguments: list[str]) -> None:
    assert expanded(arguments) == arguments
    assert expanded(tuple(arguments)) == arguments


@pytest.mark.usefixtures("planted")
def test_shards_part_the_files(embercoach: Cli, project: Path) -> None:
    write({f"a/p{number}/m.py": PULL for number in range(9)})
    write({f"b/m{number}.py": PULL for number in range(9)})
    listed = embercoach("check", "--show-files", "a", "b").out.splitlines()
    parts = [
        embercoach("check", "--show-files", "--shard", f"{n}/3", "a", "b").out.splitlines()
        for n in (1, 2, 3)
    ]
    assert sorted(path for part in parts for path in part) == listed
    assert all(parts)
    # A folder of half the files would be too much for one.
    assert all(any(path.startswith("b/") for path in part) for part in parts)
    shards = [
        report(embercoach("check", "--shard", f"{n}/3", "--output-format", "json", "a", "b"))
        for n in (1, 2, 3)
    ]
    assert [[f["path"] for f in shard["findings"]] for shard in shards] == parts
    assert [shard["run"]["shard"] for shard in shards] == [
        {"number": n, "count": 3, "files": len(part), "all_files": 18}
        for n, part in enumerate(parts, 1)
    ]
    # Other names above, and other files beside, change nothing.
    os.rename("a", "elsewhere")  # noqa: PTH104
    write({f"new/a/p{number}/{name}.py": PULL for number in range(3, 30) for name in "mn"})
    moved = embercoach("check", "--show-files", "--shard", "2/3", str(project / "new" / "a"))
    shown = {line.removeprefix(f"{project}/new/") for line in moved.out.splitlines()}
    kept = {f"a/p{number}/m.py" for number in range(3, 9)}
    assert shown & kept == set(parts[1]) & kept
    assert {path.replace("/m.", "/n.") for path in shown & kept} <= shown


@pytest.mark.usefixtures("planted")
def test_a_shard_speaks_for_its_own_part_of_a_baseline(embercoach: Cli, project: Path) -> None:
    write({f"m{number}.py": PULL for number in range(8)})
    known = ["--baseline", "known.json"]
    assert embercoach("baseline", "update", *known, ".").code == 0
    for number in (1, 4):
        Path(f"m{number}.py").unlink()
    Path("m6.py").write_text("import mlx\n")
    shards = [
        embercoach(
            "check", *known, "--baseline-strict", "--shard", f"{n}/2", "--output-format", "json"
        )
        for n in (1, 2)
    ]
    baselines = [report(shard)["summary"]["baseline"] for shard in shards]
    assert sum(b["fixed"] for b in baselines) == 3
    assert sum(b["known"] for b in baselines) == 5
    assert [shard.code for shard in shards] == [int(b["fixed"] > 0) for b in baselines]


@pytest.mark.usefixtures("planted")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--shard", "0/2"], "shard must be NUMBER/COUNT such as 2/5, got '0/2'"),
        (["--shard", "3/2"], "2/5, got '3/2'"),
        (["--shard", "2"], "2/5, got '2'"),
        (["--shard", "a/b"], "2/5, got 'a/b'"),
        (["--shard", "1/2", "--fix"], "--shard and --fix exclude each other"),
        (["--shard", "1/2", "--add-noqa"], "--shard and --add-noqa exclude each other"),
        (["--shard", "1/2", "-"], "--shard and standard input (-) exclude each other"),
    ],
)
def test_mistakes(embercoach: Cli, options: list[str], message: str) -> None:
    ran = embercoach("check", *options)
    assert ran.code == 2
    assert message in ran.err
