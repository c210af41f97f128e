"""Take SQL apart into tokens, as the servers' own lexers do. Pure.

Sources: MySQL reference manual, "Literal Values", "Schema Object Names", "Comments"; MariaDB's, "String
Literals", "Identifier Names", "Comment Syntax"; sql_lex.cc of both. The text has to be decoded by the
character set of its session: in some, the second byte of a letter is a quote or a backslash.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Final, Literal, NamedTuple

TokenKind = Literal["word", "name", "string", "symbol", "open", "close", "comment", "unclosed"]

_GAP: Final = r"[ \t\n\v\f\r]++"
_LINE: Final = r"--(?=[\x00-\x20\x7f]|\Z)[^\n]*+|\#[^\n]*+"
_BLOCK: Final = r"/\*(?!M?!)(?:[^*]++|\*(?!/))*+(?:\*/)?+"
_NAME: Final = r"`(?:[^`]++|``)*+`"
_DOUBLE_NAME: Final = r'"(?:[^"]++|"")*+"'
_STRING: Final = r"'(?:[^'\\]++|''|\\.)*+'"
_DOUBLE_STRING: Final = r'"(?:[^"\\]++|""|\\.)*+"'
_PLAIN_STRING: Final = r"'(?:[^']++|'')*+'"
_DOLLARS: Final = r"\$(?P<tag>[0-9A-Za-z_\u0080-\U0010ffff]*+)\$(?:[^$]++|\$(?!(?P=tag)\$))*+\$(?P=tag)\$"
_WORD: Final = r"[0-9A-Za-z_$\u0080-\U0010ffff]++"
# What is repeated gives nothing back: the time taken grows with the text, no faster.

_ESCAPES: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


class Token(NamedTuple):
    """`text` is the token as it stands in the statement, from the offset `at`. Its kind:

    word: a keyword, an identifier without quotes, a number. name: an identifier in quotes. string: a literal.
    open, close: the beginning of an executable comment with its version, and the end of one; what is in it
    are tokens like others. comment: any other comment, a gap to the servers. unclosed: a quote that is not
    closed, and everything behind it. symbol: any other character.
    """

    kind: TokenKind
    text: str
    at: int

    @property
    def end(self) -> int:
        """The offset behind it."""
        return self.at + len(self.text)

    @property
    def word(self) -> str:
        """A word in capitals, a symbol as it is, "" for anything in quotes."""
        return self.text.upper() if self.kind == "word" else self.text if self.kind == "symbol" else ""

    @property
    def name(self) -> str:
        """What it names, as an identifier: "" for a string or symbol."""
        if self.kind == "name":
            quote = self.text[0]
            return self.text[1:-1].replace(quote * 2, quote)
        return self.text if self.kind == "word" else ""


def tokens(
    text: str,
    *,
    ansi_quotes: bool = False,
    backslash_escapes: bool = True,
    dollar_quotes: bool = False,
    m_comments: bool = True,
    comments: bool = False,
) -> Iterator[Token]:
    """The tokens of a statement. Nothing but white space and, unless `comments` are wanted, comments is left
    out.

    By sql_mode: with `ansi_quotes` "..." is a name, and with `backslash_escapes` a backslash escapes what
    follows it in a string. `dollar_quotes`: MySQL's $$...$$, since 8.1, which in MariaDB are words.
    `m_comments`: MariaDB's executable comments /*M! ... */, which in MySQL are comments like others.
    """
    outside, inside = _patterns(ansi_quotes, backslash_escapes, dollar_quotes, m_comments)
    pattern, at = outside, 0
    while at < len(text):
        for match in pattern.finditer(text, at):
            kind = match.lastgroup
            if kind == "gap" or (kind == "comment" and not comments):
                continue
            at = match.end()
            if kind == "tag":
                kind = "string"
            yield Token(kind, match[0], match.start())  # type: ignore[arg-type]
            if kind == "open" or kind == "close":
                # `*/` is an end where something was begun, and two symbols elsewhere.
                pattern = inside if kind == "open" else outside
                break
        else:
            return


def string_value(token: Token, *, backslash_escapes: bool = True) -> str:
    """What a string holds."""
    if token.text[0] == "$":
        tag = token.text[: token.text.index("$", 1) + 1]
        return token.text[len(tag) : -len(tag)]
    quote, inner = token.text[0], token.text[1:-1]
    if not backslash_escapes or "\\" not in inner:
        return inner.replace(quote * 2, quote)
    parts = re.split(r"(\\.)", inner, flags=re.DOTALL)
    return "".join(
        _ESCAPES.get(part[1], part[1]) if number % 2 else part.replace(quote * 2, quote)
        for number, part in enumerate(parts)
    )


@cache
def _patterns(
    ansi_quotes: bool, backslash_escapes: bool, dollar_quotes: bool, m_comments: bool
) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """The tokens outside of executable comments, and those in them."""
    single = _STRING if backslash_escapes else _PLAIN_STRING
    block = _BLOCK if m_comments else _BLOCK.replace("M?!", "!")
    double = _DOUBLE_STRING if backslash_escapes else _PLAIN_STRING.replace("'", '"')
    kinds = [
        rf"(?P<gap>{_GAP})",
        rf"(?P<word>{_WORD})",
        rf"(?P<name>{_NAME}|{_DOUBLE_NAME})" if ansi_quotes else rf"(?P<name>{_NAME})",
        rf"(?P<string>{single})" if ansi_quotes else rf"(?P<string>{single}|{double})",
        rf"(?P<comment>{_LINE}|{block})",
        r"(?P<open>/\*M?!(?:\d{5,6})?+)",
        r"(?P<unclosed>[`'\"].*+)",
        r"(?P<symbol>.)",
    ]
    if dollar_quotes:
        # The group in it is the last that matches, and tells it apart.
        kinds.insert(1, _DOLLARS)
    outside = "|".join(kinds)
    inside = rf"(?P<close>\*/)|{outside}"
    return re.compile(outside, re.DOTALL), re.compile(inside, re.DOTALL)
