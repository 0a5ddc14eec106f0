"""Notebooks as Jupyter, editors and scripts write them."""

from __future__ import annotations

import json
from typing import Any

PYTHON = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python", "version": "3.12.0"},
}


def code(text: str, /, **more: Any) -> dict[str, Any]:
    """A code cell with an output, its source a string a line."""
    output = {"name": "stdout", "output_type": "stream", "text": ["1\n"]}
    cell = {
        "cell_type": "code",
        "execution_count": 3,
        "metadata": {},
        "outputs": [output],
        "source": text.splitlines(keepends=True),
    }
    return cell | more


def prose(source: str) -> dict[str, Any]:
    """A cell of Markdown."""
    return {"cell_type": "markdown", "metadata": {}, "source": [source]}


def notebook(*cells: str | dict[str, Any], **more: Any) -> dict[str, Any]:
    """A notebook; texts are code cells."""
    whole = [code(cell) if isinstance(cell, str) else cell for cell in cells]
    return {
        "cells": [cell | {"id": f"cell-{number}"} for number, cell in enumerate(whole, 1)],
        "metadata": PYTHON,
        "nbformat": 4,
        "nbformat_minor": 5,
    } | more


def written(data: dict[str, Any]) -> str:
    """As Jupyter writes it."""
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def sources(text: str) -> list[str]:
    """The cells' sources in a notebook's file."""
    return ["".join(cell["source"]) for cell in json.loads(text)["cells"]]
