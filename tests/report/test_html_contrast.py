"""Contrast of the HTML report's colors, by the formula of WCAG 2.2."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

STYLE = (files("embercoach.report.html") / "templates/report.css").read_text(encoding="utf-8")
LEAST = 4.5
SURFACES = ("paper", "panel", "code")
SEVERITIES = ("error", "warning", "note")
#: Colors of tokens: of comments, and the others'.
TOKENS = ("soft", "string", "number", "keyword", "definition")
#: Pairs of text and background that the style sheet combines.
PAIRS = [
    *((text, surface) for text in ("ink", "soft", "link") for surface in SURFACES),
    *((severity, f"{severity}-wash") for severity in SEVERITIES),
    *((text, f"{severity}-wash") for text in ("ink", "soft") for severity in SEVERITIES),
    *((token, "panel") for token in TOKENS),
    *((token, f"{severity}-wash") for token in TOKENS for severity in SEVERITIES),
]


def channel(value: int) -> float:
    share = value / 255
    return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4


def luminance(color: str) -> float:
    digits = color if len(color) == 6 else "".join(2 * digit for digit in color)
    red, green, blue = (channel(int(digits[at : at + 2], 16)) for at in (0, 2, 4))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def themes() -> dict[str, dict[str, str]]:
    """The colors of each theme; those that it does not set are of the light one."""
    made = {}
    for name, text in zip(("light", "dark", "print"), STYLE.split(":root {")[1:], strict=True):
        colors = re.findall(r"--([a-z-]+): #([0-9a-f]{6}|[0-9a-f]{3});", text.partition("}")[0])
        made[name] = made.get("light", {}) | dict(colors)
    return made


def test_the_formula() -> None:
    assert contrast("000", "ffffff") == pytest.approx(21)
    assert contrast("777777", "ffffff") == pytest.approx(4.478, abs=0.001)


@pytest.mark.parametrize("theme", ["light", "dark", "print"])
def test_text_has_a_contrast_of_at_least_4_5(theme: str) -> None:
    colors = themes()[theme]
    ratios = {pair: contrast(*(colors[name] for name in pair)) for pair in PAIRS}
    assert {pair: round(ratio, 2) for pair, ratio in ratios.items() if ratio < LEAST} == {}


def test_the_colors_of_tokens_are_among_the_pairs() -> None:
    assert set(re.findall(r"\.token-[a-z] { color: var\(--([a-z]+)\)", STYLE)) == set(TOKENS)
