"""The preprocessor: macros expanded, conditions decided, and a way back to the text."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field

from embercoach.metal.library import (
    ADDRESS_SPACES,
    ENTRY_QUALIFIERS,
    is_known,
    is_standard_header,
)
from embercoach.metal.tokens import Token, tokens, tokens_of

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


class Macro(Struct, frozen=True):
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


class Directive(NamedTuple):
    """A line that is for the preprocessor.

    Attributes:
        mark: the index of its ``#`` among the tokens.
        end: that of the line's end.
        name: the word after the mark, empty without one.
        words: the tokens after the name, without white space.
    """

    mark: int
    end: int
    name: str
    words: tuple[Token, ...]

    @property
    def macro(self) -> Macro | None:
        """The macro that a ``#define`` defines, None when it defines none."""
        return _defined(self.words)


def directives(tokens: Sequence[Token]) -> Iterator[Directive]:
    """Find the directives of a text, under whatever condition they are."""
    fresh, end = True, 0
    for mark, token in enumerate(tokens):
        if token.text == "#" and fresh:
            end = mark + 1
            while end < len(tokens) and tokens[end].kind != "newline":
                end += 1
            words = [word for word in tokens[mark + 1 : end] if word.kind != "space"]
            yield Directive(mark, end, words[0].text if words else "", tuple(words[1:]))
        fresh = token.kind == "newline" or (fresh and token.kind == "space")


def _defined(words: Sequence[Token]) -> Macro | None:
    """Return the macro that the words after ``#define`` define."""
    if not words or words[0].kind != "name":
        return None
    name, inner = words[0].text, words[1:]
    if not inner or inner[0].text != "(" or inner[0].spaced:
        return Macro(name, None, False, tuple(inner))
    closing = next((i for i, token in enumerate(inner) if token.text == ")"), None)
    if closing is None:
        return None
    parameters = [token.text for token in inner[1:closing] if token.text != ","]
    variadic = parameters[-1:] == ["..."]
    if variadic:
        # GNU's form names the rest: rest...
        named = len(parameters) > 1 and inner[closing - 2].kind == "name"
        parameters[-1:] = [] if named else [_REST]
    return Macro(name, tuple(parameters), variadic, tuple(inner[closing + 1 :]))


#: The contents of a macro that vanishes without a trace for the grammar.
_EMPTY_WORDS = (
    ADDRESS_SPACES | ENTRY_QUALIFIERS | {"METAL_FUNC", "inline", "static", "constexpr", "const"}
)


class Macros(Struct, frozen=True, dict=True):
    """The macros of a text, those around it included."""

    items: tuple[Macro, ...] = ()

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of the macros."""
        return frozenset(macro.name for macro in self.items)

    @cached_property
    def functions(self) -> frozenset[str]:
        """The names of the function-like ones."""
        return frozenset(macro.name for macro in self.items if macro.parameters is not None)

    @cached_property
    def mentioned(self) -> frozenset[str]:
        """Every name in a macro or naming one: where it is expanded, it may be declared."""
        return self.names.union(*(macro.names for macro in self.items))

    @property
    def paste(self) -> bool:
        """Return whether a macro builds names with ``##``: then any name may be declared."""
        return any(token.text == "##" for macro in self.items for token in macro.body)

    @cached_property
    def blanks(self) -> frozenset[str]:
        """Object-like macros that represent a pragma, qualifiers, or nothing."""
        return frozenset(m.name for m in self.items if m.parameters is None and _vanishes(m))

    def joined(self, other: Macros) -> Macros:
        """These macros and those of a text around this one."""
        return Macros(other.items + self.items)


def _vanishes(macro: Macro) -> bool:
    words = [token.text for token in macro.body]
    return words[:1] in (["_Pragma"], ["__attribute__"]) or _EMPTY_WORDS.issuperset(words)


def read_macros(text: str) -> Macros:
    """Return the macros that a text defines, under whatever condition."""
    if "define" not in text:
        return Macros()
    found = (one.macro for one in directives(tokens(text)) if one.name == "define")
    return Macros(tuple(macro for macro in found if macro is not None))


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
        """Yield the tokens with all macros in them replaced.

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
        """Return the arguments of a use by parameter, and where it ends."""
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
        """Return an argument with the macros in it replaced."""
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
        """Return the body of a macro with its arguments put in."""
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


if TYPE_CHECKING:
    #: The value of an expression whose unknown names are left in it, None when it has none.
    Evaluate = Callable[[str], int | None]

_OPENING = frozenset({"if", "ifdef", "ifndef"})
_ALWAYS_DEFINED = frozenset({"__METAL__", "__METAL_VERSION__"})
#: Names that are not macros although a condition may hold them.
_WORDS = frozenset({"true", "false"})
#: An empty stretch that nothing follows.
_NOTHING = (-1, -1)


class Expanded(Struct, frozen=True):
    """A text after preprocessing.

    Attributes:
        starts: where each piece of ``text`` starts.
        pieces: start and end in the original text, and whether the piece is copied from there.
        problems: offset and reason.
        spent: tokens that macros have yielded.
    """

    text: str
    starts: tuple[int, ...] = ()
    pieces: tuple[tuple[int, int, bool], ...] = ()
    macros: Mapping[str, Macro] = field(default_factory=dict)
    foreign: bool = False
    problems: tuple[tuple[int, str], ...] = ()
    spent: int = 0

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Return the stretch of the original text that a stretch of this text stems from."""
        if not self.starts:
            return start, end
        index = max(bisect_right(self.starts, start) - 1, 0)
        begin, stop, copied = self.pieces[index]
        shift = begin - self.starts[index]
        if copied and start < end <= stop - shift:
            return start + shift, end + shift
        first, last = self._offset(start, at_end=False), self._offset(end, at_end=True)
        return first, max(first, last)

    def _offset(self, offset: int, *, at_end: bool) -> int:
        index = max(bisect_right(self.starts, offset - at_end) - 1, 0)
        begin, end, copied = self.pieces[index]
        if copied:
            return min(begin + offset - self.starts[index], end)
        return end if at_end else begin


class _Branch(Struct):
    """One ``#if`` that is open: whether its text counts, and whether a branch has counted."""

    active: bool
    taken: bool


def preprocess(
    text: str, evaluate: Evaluate, macros: Mapping[str, Macro] | None = None, foreign: bool = False
) -> Expanded:
    """Run the preprocessor.

    Args:
        text: a body, a header or a file.
        evaluate: returns the value of an expression without macros.
        macros: those that are defined already.
        foreign: whether macros may be defined that are not known.
    """
    known = dict(macros or {})
    if "#" not in text and not any(name in text for name in known):
        return Expanded(text, macros=known, foreign=foreign)
    return _Preprocessor(text, evaluate, known, foreign).run()


class _Preprocessor:
    def __init__(
        self, text: str, evaluate: Evaluate, macros: dict[str, Macro], foreign: bool
    ) -> None:
        self._tokens = tokens(text)
        self._directives = {one.mark: one for one in directives(self._tokens)}
        self._text = text
        self._evaluate = evaluate
        self._macros = macros
        self._foreign = foreign
        self._expander = Expander(macros)
        self._at = 0
        self._branches: list[_Branch] = []
        self._output: list[str] = []
        self._length = 0
        self._starts: list[int] = []
        self._pieces: list[tuple[int, int, bool]] = []
        self._problems: list[tuple[int, str]] = []
        #: The stretch of the text that is copied and not put out yet.
        self._copied = _NOTHING

    def run(self) -> Expanded:
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            directive = self._directives.get(self._at)
            if directive is not None:
                self._at = directive.end
                self._directive(directive)
                continue
            if self._branches and not self._active:
                self._at += 1
            elif self._expander.expands(token):
                self._use(token)
            else:
                self._at += 1
                self._emit(token)
        self._flush()
        if self._branches:
            self._problems.append((len(self._text), "a condition of the preprocessor has no end"))
        return Expanded(
            "".join(self._output),
            tuple(self._starts),
            tuple(self._pieces),
            self._macros,
            self._foreign,
            tuple(self._problems),
            self._expander.spent,
        )

    def _emit(self, token: Token) -> None:
        if not token.copied:
            self._flush()
            self._put(f" {token.text} ", (token.start, token.end, False))
        elif token.start == self._copied[1]:
            self._copied = self._copied[0], token.end
        else:
            self._flush()
            self._copied = token.start, token.end

    def _flush(self) -> None:
        """Put out the stretch that is copied."""
        start, end = self._copied
        if start < end:
            self._put(self._text[start:end], (start, end, True))
        self._copied = _NOTHING

    def _put(self, text: str, piece: tuple[int, int, bool]) -> None:
        self._starts.append(self._length)
        self._pieces.append(piece)
        self._output.append(text)
        self._length += len(text)

    def _use(self, token: Token) -> None:
        """Expand a macro where the text uses it."""
        before = self._at
        self._at += 1
        try:
            if self._is_open(token):
                raise ExpansionError.without_end(token.text)
            for found in list(self._expander.expand([token], self._following)):
                self._emit(found)
        except ExpansionError as error:
            self._problems.append((token.start, str(error)))
            self._at = before + 1
            self._emit(token)

    def _following(self, take: bool) -> Token | None:
        """Return the next token of the text that is not white space; ``take`` moves after it."""
        at = self._at
        while at < len(self._tokens) and self._tokens[at].kind in ("space", "newline"):
            at += 1
        if take:
            self._at = at + 1
        return self._tokens[at] if at < len(self._tokens) else None

    def _is_open(self, token: Token) -> bool:
        """Return whether a use of a macro with arguments begins here that never ends."""
        if self._macros[token.text].parameters is None:
            return False
        following = self._following(take=False)
        return following is not None and following.start in self._unclosed

    @cached_property
    def _unclosed(self) -> frozenset[int]:
        """The offsets of parentheses that nothing closes; searched once."""
        pending: list[int] = []
        for token in self._tokens:
            if token.text == "(":
                pending.append(token.start)
            elif token.text == ")" and pending:
                pending.pop()
        return frozenset(pending)

    # Directives

    def _directive(self, directive: Directive) -> None:
        name = directive.name
        if name in _OPENING:
            self._open(directive)
        elif name in ("elif", "else", "endif"):
            self._continue(directive)
        elif self._active:
            self._order(directive)

    @property
    def _active(self) -> bool:
        """Return whether the text counts here; no branch inside one that does not is active."""
        return not self._branches or self._branches[-1].active

    def _open(self, directive: Directive) -> None:
        words = directive.words
        if not self._active:
            self._branches.append(_Branch(active=False, taken=True))
            return
        if directive.name == "if":
            value = self._decide(words)
        else:
            defined = self._defined(words[0].text) if words else None
            value = defined if directive.name == "ifdef" or defined is None else not defined
        group = self._groups.get(directive.mark, ())
        if value is None or any(
            one.name == "elif" and self._decide(one.words) is None for one in group
        ):
            self._copy_group(directive)
        else:
            self._branches.append(_Branch(active=bool(value), taken=bool(value)))

    def _continue(self, directive: Directive) -> None:
        name = directive.name
        if not self._branches:
            offset = self._tokens[directive.mark].start
            self._problems.append((offset, f"`#{name}` without `#if`"))
            return
        branch = self._branches[-1]
        if name == "endif":
            self._branches.pop()
        elif branch.taken:
            branch.active = False
        else:
            branch.active = branch.taken = name == "else" or bool(self._decide(directive.words))

    @cached_property
    def _groups(self) -> dict[int, list[Directive]]:
        """The directives of each group besides the first, by where it begins."""
        found: dict[int, list[Directive]] = {}
        around: list[int] = []
        for one in self._directives.values():
            if one.name in _OPENING:
                around.append(one.mark)
            elif around and one.name in ("elif", "else", "endif"):
                found.setdefault(around[-1], []).append(one)
                if one.name == "endif":
                    around.pop()
        return found

    def _copy_group(self, first: Directive) -> None:
        """Leave a group in the text; what its branches define is not known after it."""
        group = self._groups.get(first.mark, [])
        closed = bool(group) and group[-1].name == "endif"
        end = group[-1].end if closed else len(self._tokens)
        for at in range(first.mark, end):
            self._emit(self._tokens[at])
            one = self._directives.get(at)
            if one is not None and one.name in ("define", "undef") and one.words:
                self._macros.pop(one.words[0].text, None)
        self._at = end

    def _order(self, directive: Directive) -> None:
        """``#define`` and its like; pragmas are nothing here."""
        offset, name = self._tokens[directive.mark].start, directive.name
        if name == "define":
            macro = directive.macro
            if macro is None:
                self._problems.append((offset, "not understood: #define"))
            else:
                self._macros[macro.name] = macro
        elif name == "undef" and directive.words:
            self._macros.pop(directive.words[0].text, None)
        elif name == "include":
            target = "".join(token.text for token in directive.words)
            self._foreign = self._foreign or not is_standard_header(target)
        elif name == "error":
            self._problems.append((offset, "an #error directive"))

    # Conditions

    def _defined(self, name: str) -> bool | None:
        if name in self._macros or name in _ALWAYS_DEFINED:
            return True
        return None if self._foreign or is_known(name, "value") else False

    def _decide(self, words: Sequence[Token]) -> int | None:
        """Return the value of a condition, None when it depends on something unknown."""
        try:
            expanded = list(self._expander.expand(self._without_defined(words)))
        except ExpansionError:
            return None
        texts = []
        for token in expanded:
            named = token.kind == "name" and token.text not in _WORDS
            unknown = named and (self._foreign or is_known(token.text, "value"))
            texts.append(token.text if not named or unknown else "0")
        return self._evaluate(" ".join(texts)) if texts else None

    def _without_defined(self, words: Sequence[Token]) -> list[Token]:
        """Return the condition with ``defined(x)`` replaced by its value, or by an unknown name."""
        found: list[Token] = []
        index = 0
        while index < len(words):
            token = words[index]
            index += 1
            if token.text == "defined":
                wrapped = index < len(words) and words[index].text == "("
                name = words[index + wrapped].text if index + wrapped < len(words) else ""
                index += 3 if wrapped else 1
                value = self._defined(name)
                text = "__unknown" if value is None else str(int(value))
                token = Token("name" if value is None else "number", text, token.start, token.end)
            found.append(token)
        return found
