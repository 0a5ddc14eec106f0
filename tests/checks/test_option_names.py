"""ATTR-002: names that a parser does not define."""

from __future__ import annotations

import pytest

from tests.checks.findings import messages

START = """
import argparse
from elsewhere import add_options, use

def made():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("-n", "--num-tokens", type=int)
    {more}
    return parser

"""
READ = ["no option of the parser defines `tokens`"]


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ("pass", READ),
        ('parser.add_mutually_exclusive_group().add_argument("--tokens")', []),
        ('parser.add_subparsers(dest="tokens")', []),
        ('parser.add_argument("--count", dest="tokens")', []),
        ("parser.set_defaults(tokens=1)", []),
        ("parser.set_defaults(**defaults)", []),
        ("parser.add_argument(name)", []),
        ('parser.add_argument("--list", action=ListAction)', []),
        ('parser.add_argument("--x", action=argparse.BooleanOptionalAction)', READ),
        ("add_options(parser)", []),
        ('parser.add_subparsers().add_parser("run", parents=[common])', []),
    ],
)
def test_options_of_the_parser(more: str, found: list[str]) -> None:
    program = START.format(more=more) + "args = made().parse_args()\nargs.num_tokens, args.tokens"
    assert messages(program, "ATTR-002") == found


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ("args, rest = made().parse_known_args()\nargs.tokens", READ),
        ("def f():\n    p = made()\n    return p.parse_args()\nargs = f()\nargs.tokens", READ),
        ("def f(o):\n    return o.tokens\nargs = made().parse_args()\nf(args)", READ),
        ("def f(o):\n    return o.tokens\nargs = made().parse_args()\nf(args)\nf(other)", []),
        ("def f(args):\n    return args.tokens\nargs = made().parse_args()", []),
        ("args = made().parse_args()\ndef f():\n    return args.tokens", READ),
        ("args = made().parse_args()\nargs = use(args)\nargs.tokens", []),
        ("args = made().parse_args()\nuse(args)\nargs.tokens", []),
        ("args = made().parse_args()\nargs.tokens\nuse(args)", READ),
        ("args = made().parse_args()\nargs.tokens = 2\nprint(args.tokens)", []),
        ('args = made().parse_args()\nif hasattr(args, "tokens"):\n    args.tokens', []),
        ("args = made().parse_args(namespace=other)\nargs.tokens", []),
    ],
)
def test_variables_that_hold_a_namespace(lines: str, found: list[str]) -> None:
    assert messages(START.format(more="pass") + lines, "ATTR-002") == found
