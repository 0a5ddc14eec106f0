"""Addresses of the project's site and of a rule's page on it: the one definition of both."""

from __future__ import annotations

from embercoach import rulebook

SITE = "https://OWNER.github.io/embercoach/"
#: What stands for the code of a rule in an address.
CODE = "{code}"
#: The default of the setting `rules-url`.
RULES_URL = f"{SITE}rules/{CODE}/"


def rule_url(code: str, rules_url: str = RULES_URL) -> str | None:
    """The address of a rule's page.

    Args:
        code: of a finding; a saved report may have any text here.
        rules_url: the setting; without links it is empty.

    Returns:
        None without links, and for a code without a page on the site, as a plugin's.
    """
    if not rules_url or code not in rulebook.builtin_codes():
        return None
    return rules_url.replace(CODE, code)
