"""Macros and their expansion, as C++ defines it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from embercoach.metal.preprocessor.tokens import Token, solid, tokens_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_REST = "__VA_ARGS__"
#: Tokens that macros may yield in one text; macros that double each other grow without end.
_BUDGET = 60_000
#: Uses of macros in the arguments of others.
_MAX_NESTING = 40
#: Tokens of arguments that are read, those inside others again.
_MAX_READ = 400_000
#: Characters that count as one token more, and those of a name that is pasted together.
_LONG = 16
_MAX_PASTED = 1_000
#: Macros that one token came from.
_MAX_DEPTH = 256


class ExpansionError(Exception):
    """A use of a macro that cannot be expanded."""

    @classmethod
    def without_end(cls, name: str) -> ExpansionError:
        """Return the error of a use whose parenthesis is never closed."""
        return cls(f"a use of the macro `{name}` without an end")


@dataclass(frozen=True, slots=True)
class Macro:
    """A macro.

    Attributes:
        parameters: None of an object-like one.
        variadic: the last parameter takes all arguments that are left.
        body: its replacement without white space.
    """

    name: str
    parameters: tuple[str, ...] | None
    variadic: bool
    body: tuple[Token, ...]

    @property
    def text(self) -> str:
        """The replacement, its tokens apart as they are written."""
        return "".join(" " * token.spaced + token.text for token in self.body).strip()

    @property
    def names(self) -> frozenset[str]:
        """The names in the replacement."""
        return frozenset(token.text for token in self.body if token.kind == "name")


def read_definition(tokens: Sequence[Token]) -> Macro | None:
    """The macro that the tokens after ``#define`` define, None when they define none."""
    rest = [token for token in tokens if token.kind != "newline"]
    while rest and rest[0].kind == "space":
        del rest[0]
    if not rest or rest[0].kind != "name":
        return None
    name = rest.pop(0).text
    if not rest or rest[0].text != "(" or rest[0].spaced:
        return Macro(name, None, False, tuple(solid(rest)))
    inner = solid(rest)
    closing = next((i for i, token in enumerate(inner) if token.text == ")"), None)
    if closing is None:
        return None
    words = [token.text for token in inner[1:closing] if token.text != ","]
    variadic = words[-1:] == ["..."]
    if variadic:
        # GNU's form names the rest: rest...
        words[-1:] = [] if len(words) > 1 and inner[closing - 2].kind == "name" else [_REST]
    return Macro(name, tuple(words), variadic, tuple(inner[closing + 1 :]))


class Expander:
    """Expands macros.

    Args:
        macros: those that are defined now; may change between uses.
    """

    def __init__(self, macros: Mapping[str, Macro]) -> None:
        self._macros = macros
        self._spent = 0
        self._read = 0
        self._nesting = 0

    @property
    def spent(self) -> int:
        """The tokens that macros have yielded, and those of arguments that were read."""
        return self._spent + self._read

    def expands(self, token: Token) -> bool:
        """Return whether a token is the name of a macro that may be expanded here."""
        return (
            token.kind == "name" and token.text in self._macros and token.text not in token.hidden
        )

    def expand(
        self, tokens: Sequence[Token], more: Callable[[bool], Token | None] | None = None
    ) -> Iterator[Token]:
        """The tokens with all macros in them replaced.

        Args:
            tokens: what to expand, without white space.
            more: gives what follows in the text, should a macro's arguments be there: peeks with
                False, takes with True.

        Raises:
            ExpansionError: incorrect number of arguments, or a use that yields too much.
        """
        pending = list(reversed(tokens))
        while pending:
            token = pending.pop()
            if not self.expands(token):
                yield token
                continue
            if self._spent > _BUDGET or self._read > _MAX_READ or len(token.hidden) > _MAX_DEPTH:
                raise ExpansionError("macros that yield too much")
            macro = self._macros[token.text]
            if macro.parameters is None:
                found = self._replaced(macro, {}, token, token.end, token.hidden | {macro.name})
            else:
                if not self._called(pending, more):
                    yield token
                    continue
                arguments, end = self._arguments(macro, pending, more)
                hidden = token.hidden | {macro.name}
                found = self._replaced(macro, arguments, token, end, hidden)
            self._spent += len(found) + 1 + sum(len(made.text) for made in found) // _LONG
            if self._spent > _BUDGET:
                raise ExpansionError("macros that yield too much")
            pending.extend(reversed(found))

    @staticmethod
    def _called(pending: list[Token], more: Callable[[bool], Token | None] | None) -> bool:
        following = pending[-1] if pending else more(False) if more is not None else None
        return following is not None and following.text == "("

    def _arguments(
        self, macro: Macro, pending: list[Token], more: Callable[[bool], Token | None] | None
    ) -> tuple[dict[str, list[Token]], int]:
        """The arguments of a use by parameter, and where it ends."""
        names = macro.parameters or ()
        listed: list[list[Token]] = [[]]
        depth = 0
        while True:
            token = pending.pop() if pending else more(True) if more is not None else None
            if token is None:
                raise ExpansionError.without_end(macro.name)
            depth += (token.text == "(") - (token.text == ")")
            if depth == 0:
                break
            self._read += 1
            rest = macro.variadic and len(listed) == len(names)
            if depth == 1 and token.text == "," and not rest:
                listed.append([])
            else:
                listed[-1].append(token)
        # The first token is the opening parenthesis.
        del listed[0][0]
        if macro.variadic and len(listed) == len(names) - 1:
            listed.append([])
        if not names and listed == [[]]:
            listed = []
        if len(listed) != len(names):
            raise ExpansionError(f"an incorrect number of arguments for the macro `{macro.name}`")
        return dict(zip(names, listed, strict=True)), token.end

    def _inside(self, argument: list[Token]) -> list[Token]:
        """An argument with the macros in it replaced."""
        if self._nesting == _MAX_NESTING:
            raise ExpansionError("macros that are nested too deep")
        self._nesting += 1
        try:
            return list(self.expand(argument))
        finally:
            self._nesting -= 1

    def _replaced(
        self,
        macro: Macro,
        arguments: dict[str, list[Token]],
        use: Token,
        end: int,
        hidden: frozenset[str],
    ) -> list[Token]:
        """The body of a macro with its arguments put in."""
        body, found = macro.body, list[Token]()
        full: dict[str, list[Token]] = {}
        index = 0
        while index < len(body):
            token = body[index]
            following = body[index + 1] if index + 1 < len(body) else None
            if token.text == "#" and following is not None and following.text in arguments:
                found.append(_quoted(arguments[following.text]))
                index += 2
                continue
            if token.text == "##" and found and following is not None:
                right = arguments.get(following.text, [following])
                _paste(found, right)
                index += 2
                continue
            if token.text in arguments and token.kind == "name":
                given = arguments[token.text]
                if following is None or following.text != "##":
                    if token.text not in full:
                        full[token.text] = self._inside(given)
                    given = full[token.text]
                # What is pasted to nothing must leave something to paste to.
                found += given or ([_EMPTY] if following and following.text == "##" else [])
            else:
                found.append(token)
            index += 1
        start, end = use.start, max(use.end, end)
        return [
            Token(token.kind, token.text, start, end, False, token.spaced, token.hidden | hidden)
            for token in found
            if token is not _EMPTY
        ]


_EMPTY = Token("space", "", 0, 0)


def _quoted(tokens: list[Token]) -> Token:
    """``#x``: the argument as a string."""
    text = "".join((" " if t.spaced and i else "") + t.text for i, t in enumerate(tokens))
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return Token("string", f'"{escaped}"', 0, 0)


def _paste(found: list[Token], right: Sequence[Token]) -> None:
    """``a##b``: join the last token with the first of what follows."""
    left = found.pop()
    if not right:
        if left.text != ",":
            found.append(left)
        return
    if len(left.text) > _MAX_PASTED:
        raise ExpansionError("`##` that makes too long a token")
    pieces = list(tokens_of(left.text + right[0].text))
    if len(pieces) != 1:
        if left.text != ",":
            raise ExpansionError("`##` that makes no token")
        # The habit of `, ##__VA_ARGS__`.
        pieces = [left, right[0]]
    found += [piece._replace(hidden=left.hidden & right[0].hidden) for piece in pieces]
    found += right[1:]
