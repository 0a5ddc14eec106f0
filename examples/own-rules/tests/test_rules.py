"""The examples of every page give the findings that the page says."""

from __future__ import annotations

import pytest
from acme_rules import RULES
from embercoach.testing import PageTest, page_tests


@pytest.mark.parametrize("test", page_tests(RULES), ids=str)
def test_pages(test: PageTest) -> None:
    test()
