"""Syntax errors that no macro and no limit of the grammar explains, found in the tokens of a text.

The grammar guesses at code that compiles: calls of macros without ``;``, conditions inside of an
expression. So a text is incorrect only where C++ refuses neighbouring tokens, or two brackets,
whatever is around them. Code under ``#if`` and arguments of macros may be anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from embercoach.metal.contract import ATTRIBUTES
from embercoach.metal.library import ADDRESS_SPACES, KEYWORDS, is_standard_header
from embercoach.metal.preprocessor import directives
from embercoach.metal.syntax import PREAMBLE_BLANKS
from embercoach.metal.text_facts import TextSpan
from embercoach.metal.tokens import Token, tokens

if TYPE_CHECKING:
    from embercoach.metal.program.written_facts import MetalText

_CLOSING = {"(": ")", "[": "]", "{": "}"}
#: Operators that need an operand after them; ``*`` and ``&`` end types as well.
_OPEN_ENDED = frozenset(
    ("=", "+", "-", "/", "%", "|", "^", "==", "!=", "<=", "||", "<<", "+=", "-=", "*=", "/=")
).union(("%=", "|=", "&=", "^=", "<<=", ">>=", "."))
#: Words that continue an expression or a type.
_CONTINUING = frozenset(
    ("and", "and_eq", "bitand", "bitor", "not_eq", "or", "or_eq", "xor", "xor_eq")
).union(("const", "volatile"))
#: What may follow the parameters or the array of a declarator.
_AFTER_DECLARATOR = ADDRESS_SPACES | frozenset(
    ["alignas", "asm", "final", "mutable", "noexcept", "override", "requires", "throw", "try"]
)
_CLAUSES = frozenset({"if", "for", "while", "switch", "constexpr", "catch"})
#: Attributes of parameters, which end their declarator.
_PARAMETER_MARKS = ATTRIBUTES.keys() | {"buffer", "texture", "sampler", "threadgroup", "stage_in"}


class SyntaxFault(NamedTuple):
    """An error of a text."""

    place: TextSpan
    message: str


def syntax_fault(text: MetalText) -> SyntaxFault | None:
    """Return the first certain syntax error of a text; None where none is certain."""
    # Macros that open or close brackets make these pairs invisible.
    if not all(_is_paired(macro.body) for macro in text.macros.items):
        return None
    return _Scan(text).fault()


class _Scan:
    """The tokens of a text, with a ``#`` for each directive, and the brackets around them.

    Attributes:
        open: indices of the brackets that are open, and
        macros_open: those of them that begin the arguments of what may be a macro.
        partners: of each closing bracket the opening one, by index.
        conditions: the open brackets at the start of each condition that is not at its end.
    """

    def __init__(self, text: MetalText) -> None:
        self.text = text
        self.tokens: list[Token] = []
        self.open: list[int] = []
        self.macros_open: list[int] = []
        self.partners: dict[int, int] = {}
        self.conditions: list[int] = []
        self.macros = text.macros.names | PREAMBLE_BLANKS
        includes = [d.target for d in text.directives if d.kind == "include"]
        # What an unknown header, or the text before a part of a file, defines may be any word.
        self.is_complete = all(map(is_standard_header, includes)) and (
            any("metal" in target for target in includes)
            if text.kind == "file"
            else text.kind == "header" or text.names_known
        )

    def fault(self) -> SyntaxFault | None:
        every = tokens(self.text.text)
        lines = {one.mark: one for one in directives(every)}
        end = 0
        for index, token in enumerate(every):
            if index in lines:
                end = lines[index].end
                if not self._follow(lines[index].name):
                    return None
                self.tokens.append(token)
            elif index >= end and token.kind not in ("space", "newline"):
                self.tokens.append(token)
                at = len(self.tokens) - 1
                fault = None if self.conditions else self._at(at)
                if fault is not None:
                    return fault
                if not self._match(at):
                    return self._mismatch(at)
        return None if self.conditions else self._unfinished()

    def _follow(self, directive: str) -> bool:
        """Return whether each branch of a condition closes the brackets that it opens."""
        if directive in ("if", "ifdef", "ifndef"):
            self.conditions.append(len(self.open))
        elif directive in ("else", "elif", "endif"):
            if self.conditions[-1:] != [len(self.open)]:
                return False
            if directive == "endif":
                self.conditions.pop()
        return True

    def _match(self, at: int) -> bool:
        """Add a bracket; return False if it closes another one than the innermost."""
        mark = self._mark(at)
        if mark in _CLOSING:
            self.open.append(at)
            if self._mark(at) == "(" and self._may_be_macro(at - 1):
                self.macros_open.append(at)
        elif mark in _CLOSING.values():
            if not self.open or _CLOSING[self._mark(self.open[-1])] != mark:
                return False
            opening = self.partners[at] = self.open.pop()
            if self.macros_open[-1:] == [opening]:
                self.macros_open.pop()
        return True

    def _mark(self, at: int) -> str:
        """Return the mark at an index, "" for other tokens and for none."""
        known = 0 <= at < len(self.tokens) and self.tokens[at].kind == "mark"
        return self.tokens[at].text if known else ""

    def _word(self, at: int) -> str:
        """Return the name at an index, "" for other tokens and for none."""
        known = 0 <= at < len(self.tokens) and self.tokens[at].kind == "name"
        return self.tokens[at].text if known else ""

    def _may_be_macro(self, at: int) -> bool:
        word = self._word(at)
        if not word or word in KEYWORDS:
            return False
        is_foreign = not self.is_complete or word.startswith("_") or word.isupper()
        return is_foreign or word in self.macros

    def _is_operand(self, at: int) -> bool:
        """Return whether a token is a number, or a name that is nothing but a name."""
        if self._word(at):
            return self._word(at) not in KEYWORDS and not self._may_be_macro(at)
        return at >= 0 and self.tokens[at].kind == "number"

    def _is_attribute(self, opening: int) -> bool:
        return "[" in (self._mark(opening - 1), self._mark(opening + 1))

    def _opens_block(self, opening: int) -> bool:
        """Return whether a ``{`` opens the statements of a clause or of a function."""
        if self._mark(opening - 1) == ")":
            before = self._word(self.partners.get(opening - 1, 0) - 1)
            return before in _CLAUSES or self._is_operand(self.partners.get(opening - 1, 0) - 1)
        return self._word(opening - 1) in ("else", "do") or self._mark(opening - 1) == ";"

    def _at(self, at: int) -> SyntaxFault | None:
        """Return the fault of a token after those before it."""
        if at == 0 or self._mark(at - 1) == "#" or self.macros_open:
            return None
        around = self.open[-1] if self.open else -1
        inside, mark, last = self._mark(around), self._mark(at), self.tokens[at - 1].text
        if mark == ";" and (
            inside == "[" or (inside == "(" and self._word(around - 1) not in _CLAUSES)
        ):
            return self._fault(at, f"expected `{_CLOSING[inside]}` before `;`")
        if mark in (";", ",", ")", "]"):
            return self._missing_operand(at)
        if mark == "}" and self._opens_block(around) and self._ends_statement(at - 1):
            return self._fault(at - 1, f"expected `;` after `{last}`")
        if self._begins(at) and self._ends_operand(at - 1, self._word(at)):
            wanted = "`,`" if inside == "(" else "`;`"
            return self._fault(at - 1, f"expected {wanted} after `{last}`")
        return None

    def _begins(self, at: int) -> bool:
        """Return whether a token can only begin what follows an expression or a declarator."""
        if self._mark(at) or self.tokens[at].kind == "string":
            return False
        return self._word(at) not in _CONTINUING and not self._may_be_macro(at)

    def _missing_operand(self, at: int) -> SyntaxFault | None:
        last, before = self._mark(at - 1), self.tokens[at - 2].text if at > 1 else ""
        is_open = last in _OPEN_ENDED or (last == "," and self._mark(at) != "]")
        if not is_open or before in ("operator", "["):
            return None
        return self._fault(at, f"expected an expression before `{self.tokens[at].text}`")

    def _ends_operand(self, at: int, following: str) -> bool:
        """Return whether an operand or a parameter ends here, so that a word can't follow."""
        token = self.tokens[at]
        if token.kind == "number":
            return True
        if token.kind == "name":
            before = self.tokens[at - 1].text if at else ""
            if not self._is_operand(at) or self._word(at - 2) == "operator":
                return False
            if before in (".", "->"):
                return True
            starts = before in _OPEN_ENDED or before == "return"
            return starts and following not in ADDRESS_SPACES
        opening = self.partners.get(at)
        if opening is None or following in _AFTER_DECLARATOR or following.startswith("_"):
            return False
        if token.text == ")":
            return self._is_operand(opening - 1) and self._word(opening - 1) != "requires"
        if token.text == "]" and self._is_attribute(opening):
            inside = self._mark(self.open[-1]) if self.open else ""
            is_parameter = self._word(opening + 2) in _PARAMETER_MARKS and inside == "("
            return is_parameter and self._is_operand(opening - 1)
        return token.text == "]" and opening < at - 1 and self._word(opening - 1) != "operator"

    def _ends_statement(self, at: int) -> bool:
        """Return whether an expression ends here that only ``;`` may follow."""
        opening = self.partners.get(at)
        if opening is None:
            return self._is_operand(at)
        if self._mark(at) == "]":
            return not self._is_attribute(opening)
        return self._mark(at) == ")" and self._is_operand(opening - 1)

    def _mismatch(self, at: int) -> SyntaxFault | None:
        if self.conditions or not self.is_complete:
            return None
        mark = self._mark(at)
        if self.open:
            opening = self._mark(self.open[-1])
            line = self._place(self.open[-1]).line
            return self._fault(at, f"`{mark}` does not close `{opening}` of line {line}")
        # A body may end MLX's function, and begin another one that MLX's brace ends.
        every = [token.text for token in tokens(self.text.text) if token.kind == "mark"]
        may_begin = "#" in every or every.count("{") == every.count("}")
        if self.text.kind == "body" and mark == "}" and may_begin:
            return None
        return self._fault(at, f"`{mark}` closes nothing")

    def _unfinished(self) -> SyntaxFault | None:
        if not self.is_complete or not self.tokens:
            return None
        last = len(self.tokens) - 1
        if self.open:
            return self._fault(self.open[-1], f"nothing closes `{self._mark(self.open[-1])}`")
        if self.text.kind == "body" and self._ends_statement(last):
            return self._fault(last, f"expected `;` after `{self.tokens[last].text}`")
        return None

    def _fault(self, at: int, message: str) -> SyntaxFault:
        return SyntaxFault(self._place(at), f"syntax error: {message}")

    def _place(self, at: int) -> TextSpan:
        start, end = self.tokens[at].start, self.tokens[at].end
        before = self.text.text[:start]
        return TextSpan(start, end, before.count("\n") + 1, start - before.rfind("\n"))


def _is_paired(body: Sequence[Token]) -> bool:
    marks = [token.text for token in body if token.kind == "mark"]
    return all(marks.count(first) == marks.count(last) for first, last in _CLOSING.items())
