"""The lexer of SQL, and the quoting that it undoes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.engines.mysql_sql.hostile_names import NAMES, TEXTS
from zbackup.engines.mysql.sql.lexer import Token, string_value, tokens
from zbackup.engines.mysql.sql.quoting import identifier, literal, qualified
from zbackup.model.errors import Refused


def _kinds(text: str, **mode: bool) -> list[tuple[str, str]]:
    return [(token.kind, token.text) for token in tokens(text, **mode)]


W, N, S, Y = "word", "name", "string", "symbol"


@pytest.mark.parametrize(
    ("text", "mode", "expected"),
    [
        ("a `b``c` 'd''e' \"f\"", {}, [(W, "a"), (N, "`b``c`"), (S, "'d''e'"), (S, '"f"')]),
        ('"a""b"', {"ansi_quotes": True}, [(N, '"a""b"')]),
        (r'"a\"', {"ansi_quotes": True}, [(N, r'"a\"')]),
        (r"'a\'b' c", {}, [(S, r"'a\'b'"), (W, "c")]),
        (r"'a\' c", {"backslash_escapes": False}, [(S, r"'a\'"), (W, "c")]),
        (r'"a\" c', {"backslash_escapes": False}, [(S, r'"a\"'), (W, "c")]),
        (r"`a\` c", {}, [(N, r"`a\`"), (W, "c")]),
        ("`a\n  KEY ` b", {}, [(N, "`a\n  KEY `"), (W, "b")]),
        ("a -- b ' \n c", {}, [(W, "a"), (W, "c")]),
        ("a --b", {}, [(W, "a"), (Y, "-"), (Y, "-"), (W, "b")]),
        ("a --\x01b\nc", {}, [(W, "a"), (W, "c")]),
        ("a --\u00a0b", {}, [(W, "a"), (Y, "-"), (Y, "-"), (W, "\u00a0b")]),
        ("a --", {}, [(W, "a")]),
        ("a # b ` \n c", {}, [(W, "a"), (W, "c")]),
        ("a /* ' ` */ b", {}, [(W, "a"), (W, "b")]),
        ("a /* b", {}, [(W, "a")]),
        ("a /*/ b */ c", {}, [(W, "a"), (W, "c")]),
        ("/*!50100 a*/ b", {}, [("open", "/*!50100"), (W, "a"), ("close", "*/"), (W, "b")]),
        ("/*!100100a*/", {}, [("open", "/*!100100"), (W, "a"), ("close", "*/")]),
        ("/*!7 */", {}, [("open", "/*!"), (W, "7"), ("close", "*/")]),
        ("/*M!100401 a*/", {}, [("open", "/*M!100401"), (W, "a"), ("close", "*/")]),
        ("/*! a /* b */ c */", {}, [("open", "/*!"), (W, "a"), (W, "c"), ("close", "*/")]),
        ("/*! '*/' */", {}, [("open", "/*!"), (S, "'*/'"), ("close", "*/")]),
        ("2*/*c*/3", {}, [(W, "2"), (Y, "*"), (W, "3")]),
        ("2 */ 3", {}, [(W, "2"), (Y, "*"), (Y, "/"), (W, "3")]),
        ("`a", {}, [("unclosed", "`a")]),
        ("a 'b", {}, [(W, "a"), ("unclosed", "'b")]),
        ("AS $$ it's $$", {"dollar_quotes": True}, [(W, "AS"), (S, "$$ it's $$")]),
        ("AS $j$ $$ ' $j$ b", {"dollar_quotes": True}, [(W, "AS"), (S, "$j$ $$ ' $j$"), (W, "b")]),
        ("$a$ b", {"dollar_quotes": True}, [(W, "$a$"), (W, "b")]),
        ("AS $$", {}, [(W, "AS"), (W, "$$")]),
    ],
)
def test_the_tokens_are_those_of_the_servers(
    text: str, mode: dict[str, bool], expected: list[tuple[str, str]]
) -> None:
    assert _kinds(text, **mode) == expected


def test_comments_are_tokens_where_they_are_wanted() -> None:
    assert _kinds("a /* b */ -- c", comments=True) == [(W, "a"), ("comment", "/* b */"), ("comment", "-- c")]


@given(st.text(alphabet="ab `'\"\\/*!-#$;.,\n\t@\u00e4", max_size=60), st.booleans(), st.booleans())
def test_the_tokens_and_the_gaps_are_the_whole_text(text: str, ansi: bool, escapes: bool) -> None:
    at = 0
    for token in tokens(text, ansi_quotes=ansi, backslash_escapes=escapes, dollar_quotes=True, comments=True):
        assert text[token.at : token.end] == token.text != ""
        assert not text[at : token.at].strip(" \t\n\v\f\r")
        at = token.end
    assert not text[at:].strip(" \t\n\v\f\r")


@given(NAMES, NAMES, st.booleans(), st.booleans())
def test_a_quoted_name_is_that_name_in_every_mode(schema: str, name: str, ansi: bool, escapes: bool) -> None:
    said = f"DROP TABLE {qualified(schema, name)}, {identifier(name)}"
    found = list(tokens(said, ansi_quotes=ansi, backslash_escapes=escapes))
    assert [token.kind for token in found] == [W, W, N, Y, N, Y, N]
    assert (found[2].name, found[4].name, found[6].name) == (schema, name, name)


@given(TEXTS)
def test_a_quoted_text_is_that_text(text: str) -> None:
    (found,) = tokens(literal(text))
    assert found.kind == S and string_value(found) == text


def test_what_escapes_stand_for() -> None:
    def value(text: str, *, escapes: bool = True) -> str:
        return string_value(Token("string", text, 0), backslash_escapes=escapes)

    assert value(r"'\0\n\Z\%\q\'''\\n'") == "\0\n\x1a\\%q''\\n"
    assert value(r"'a\nb'''", escapes=False) == r"a\nb'"
    assert value('"a""b\'\'"') == "a\"b''"
    assert value("$x$ a $x$") == " a "


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_a_name_that_no_server_has_is_refused(name: str) -> None:
    with pytest.raises(Refused, match="is no name that a server has"):
        identifier(name)


@pytest.mark.parametrize("piece", ["'", "`", "/*", "/*!", "$a$", "'\\", "--", "*/", '"'])
def test_a_long_statement_is_read_once(piece: str) -> None:
    """To look at the rest again behind each piece would take hours: 10^10 steps and more."""
    count = 200_000
    found = tokens(piece * count + " " + "a" * count, dollar_quotes=True)
    assert sum(len(token.text) for token in found) > 0
