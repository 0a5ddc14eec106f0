"""A plugin that cannot be used is an error that names it and the reason."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from embercoach import rulebook
from embercoach.plugins.discovery import PluginError, find
from embercoach.plugins.loading import PluginRequest, load, loaded
from tests.plugins.packages import EVAL, Package, page

FIRST = Package("rules_of_first")


def load_from(*folders: Path) -> None:
    load(PluginRequest(installed=False, folders=tuple(map(str, folders))))


@pytest.mark.parametrize(
    ("package", "error"),
    [
        (Package("rules_of_a", prefix="KERNEL", codes=("KERNEL-EVAL-001",)), "clashes with KERNEL"),
        (Package("rules_of_b", prefix="KERN", codes=("KERN-EVAL-001",)), "clashes with KERNEL"),
        (Package("rules_of_c", prefix="SIMS", codes=("SIMS-EVAL-001",)), "SIM of EmberCoach"),
        (Package("rules_of_d", prefix="ALLOY", codes=("ALLOY-EVAL-001",)), "ALL of EmberCoach"),
        (Package("rules_of_e", prefix="acme", codes=("acme-EVAL-001",)), "prefix must be"),
        (Package("rules_of_f", prefix="A", codes=("A-EVAL-001",)), "prefix must be"),
        (Package("rules_of_g", codes=()), "ACME-EVAL-001 has no page"),
        (Package("rules_of_h", codes=("ACME-EVAL-001", "ACME-EVAL-002")), "has no check"),
        (Package("rules_of_i", EVAL.replace("001", "1"), codes=("ACME-EVAL-1",)), "code must be"),
        (Package("rules_of_j", EVAL.replace("{prefix}", "OTHER")), "must be like ACME-NAME-001"),
        (Package("rules_of_k", "1 / 0"), "cannot load rules_of_k:RULES: ZeroDivisionError"),
        (Package("rules_of_l", rules="exit('no')"), "cannot load rules_of_l:RULES: SystemExit: no"),
        (Package("rules_of_m", rules="X = 1"), "AttributeError"),
        (Package("rules_of_n", rules="RULES = [eval_outside]"), "must name a RuleSet, got list"),
        (Package("rules_of_o", rules="RULES = RuleSet('ACME', PAGES, (print,))"), "decorator"),
        (Package("rules_of_p", rules="RULES = RuleSet('ACME', 'x', ())"), "pages must be the Path"),
        (Package("rules_of_q", "eval_outside = 1", codes=()), "checks must be"),
        (Package("rules_of_r", codes=(), rules="RULES = RuleSet('ACME', PAGES, ())"), "no rules"),
        (Package("rules_of_s", EVAL.replace('of=("mlx.core.eval",)', "of='mlx.'")), "the string"),
    ],
    ids=lambda value: value.module if isinstance(value, Package) else "",
)
def test_a_plugin_that_breaks_the_form_is_refused(
    package: Package, error: str, tmp_path: Path
) -> None:
    with pytest.raises(PluginError, match=f"plugin {package.module}: ") as caught:
        load_from(package.write(tmp_path))
    assert error in str(caught.value)
    assert "--no-plugins" in str(caught.value)
    assert loaded() == ()
    assert rulebook.codes() == rulebook.builtin_codes()


def test_two_plugins_with_one_prefix_clash(tmp_path: Path) -> None:
    second = Package("rules_of_second").write(tmp_path / "second")
    with pytest.raises(PluginError, match="prefix ACME clashes with ACME of plugin rules_of_first"):
        load_from(FIRST.write(tmp_path / "first"), second)
    assert rulebook.codes() == rulebook.builtin_codes()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("no title", "must begin with '# NAME (CODE)'"),
        (page("ACME-EVAL-001").replace("toml", "json"), "must end with '## Metadata'"),
        (page("ACME-EVAL-002"), "is the page of 'ACME-EVAL-002'"),
        (page("ACME-EVAL-001").replace("since", "sense"), "lacks the text 'since'"),
    ],
)
def test_a_page_that_breaks_the_form_is_refused(text: str, error: str, tmp_path: Path) -> None:
    FIRST.write(tmp_path)
    (tmp_path / "rules_of_first_pages" / "ACME-EVAL-001.md").write_text(text, encoding="utf-8")
    with pytest.raises(
        PluginError, match=r"plugin rules_of_first: invalid page ACME-EVAL-001\.md"
    ) as caught:
        load_from(tmp_path)
    assert error in str(caught.value)
    assert rulebook.codes() == rulebook.builtin_codes()


def test_loaded_rules_are_in_the_rule_book_until_others_are_loaded(tmp_path: Path) -> None:
    load_from(FIRST.write(tmp_path))
    assert rulebook.codes() - rulebook.builtin_codes() == {"ACME-EVAL-001"}
    assert rulebook.rule("ACME-EVAL-001").summary == "Summary of ACME-EVAL-001"
    load(PluginRequest(installed=False))
    assert rulebook.codes() == rulebook.builtin_codes()
    with pytest.raises(KeyError):
        rulebook.rule("ACME-EVAL-001")


@pytest.mark.parametrize(
    ("file", "data"),
    [
        ("entry_points.txt", b"\xff[embercoach.rules]\nrules = rules_of_first:RULES\n"),
        ("entry_points.txt", b"[embercoach.rules]\nrules\n"),
        ("METADATA", b"Name: \xff\nVersion: 1.0\n"),
        ("METADATA", b"Version: 1.0\n"),
        ("METADATA", b"Name: rules_of_first\n"),
    ],
)
def test_malformed_metadata_is_refused(file: str, data: bytes, tmp_path: Path) -> None:
    info = FIRST.write(tmp_path) / "rules_of_first-1.0.dist-info"
    (info / file).write_bytes(data)
    with pytest.raises(PluginError, match=rf"plugin {info.name}: malformed metadata: .*no-plugins"):
        load_from(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no named pipes")
def test_entry_points_are_regular_files_of_bounded_size(tmp_path: Path) -> None:
    info = FIRST.write(tmp_path) / "rules_of_first-1.0.dist-info"
    points = info / "entry_points.txt"
    points.write_bytes(points.read_bytes() + b"#" * 1_000_000)
    assert not list(find([str(tmp_path)]))
    points.unlink()
    os.mkfifo(points)
    assert not list(find([str(tmp_path)]))


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege on Windows")
def test_lock_files_of_editors_are_no_pages_and_no_modules(tmp_path: Path) -> None:
    FIRST.write(tmp_path)
    for name in ("rules_of_first_pages/.#ACME-EVAL-001.md", ".#rules_of_first.py"):
        (tmp_path / name).symlink_to("somebody@host.1")
    load_from(tmp_path)
    assert list(loaded()[0].pages) == ["ACME-EVAL-001"]


def test_a_page_that_is_no_file_is_refused(tmp_path: Path) -> None:
    page = FIRST.write(tmp_path) / "rules_of_first_pages" / "ACME-EVAL-001.md"
    page.unlink()
    page.mkdir()
    with pytest.raises(PluginError, match="plugin rules_of_first: cannot be read: "):
        load_from(tmp_path)


def test_a_plugin_that_is_refused_takes_those_before_away(tmp_path: Path) -> None:
    load_from(FIRST.write(tmp_path / "first"))
    with pytest.raises(PluginError):
        load_from(Package("rules_of_broken", "1 / 0").write(tmp_path / "broken"))
    assert loaded() == ()
    assert rulebook.codes() == rulebook.builtin_codes()
