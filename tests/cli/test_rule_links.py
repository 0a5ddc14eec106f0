"""The setting of links to rules, in all commands that write them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from embercoach.rulebook import SITE
from tests.cli.conftest import Ran

Cli = Callable[..., Ran]
CODE = "HOST-PULL-001"
OTHER = "https://example.org/rules?code={code}"
PULL = "import mlx.core as mx\n\n\ndef f(x: mx.array):\n    for _ in x:\n        x.tolist()\n"


def test_one_setting_is_for_all_reports(embercoach: Cli, project: Path) -> None:
    (project / "a.py").write_text(PULL)
    (project / "embercoach.toml").write_text(f'rules-url = "{OTHER}"\n')
    link = OTHER.replace("{code}", CODE)
    embercoach("check", "--output-format", "json", "-o", "saved.json", "a.py")
    for command in (
        ("check", "--output-format", "sarif", "-o", "out", "a.py"),
        ("report", "-o", "out", "a.py"),
        ("report", "-o", "out", "--from", "saved.json"),
        ("merge", "--output-format", "sarif", "-o", "out", "saved.json"),
    ):
        assert embercoach(*command).code < 2
        text = (project / "out").read_text()
        assert link in text
        assert f"{SITE}rules/" not in text


@pytest.mark.parametrize("url", ["javascript:alert(1)//{code}", "https://e.org/{code}\\u001b]8;;"])
def test_other_addresses_are_refused(url: str, embercoach: Cli, project: Path) -> None:
    (project / "a.py").write_text(PULL)
    (project / "embercoach.toml").write_text(f'rules-url = "{url}"\n')
    result = embercoach("check", "a.py")
    assert result.code == 2
    assert "rules-url must be an http or https URL with {code} after its host, got " in result.err
    assert "\x1b" not in result.err
