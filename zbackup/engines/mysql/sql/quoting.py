"""The one place that makes names and texts part of a statement. Pure.

Values go to the server as arguments of a statement (`%s`), which PyMySQL quotes by the session's own mode.
"""

import re
from typing import Final

from zbackup.model.errors import Refused

_XA_PART: Final = r"(?:X'(?:[0-9A-Fa-f]{2})*'|'(?:[^'\\]|'')*')"
_XA_ID: Final = re.compile(rf"{_XA_PART}(?:, *{_XA_PART}(?:, *[0-9]{{1,10}})?)?")
_SPECIAL: Final = re.compile(rb"[\0\n\r\\'\"\x1a]")
_ESCAPED: Final = {
    b"\0": rb"\0", b"\n": rb"\n", b"\r": rb"\r", b"\\": rb"\\", b"'": rb"\'", b'"': rb"\"", b"\x1a": rb"\Z"
}  # fmt: skip


def identifier(name: str) -> str:
    """Quote a name. In backticks it means the same in every sql_mode (both manuals, "Schema Object Names",
    "Identifier Names").

    Raise Refused for a name that no server has.
    """
    if not name or "\0" in name:
        raise Refused(f"{name!r} is no name that a server has")
    return "`" + name.replace("`", "``") + "`"


def qualified(schema: str, name: str) -> str:
    """Quote a name with its schema."""
    return f"{identifier(schema)}.{identifier(name)}"


def byte_literal(value: bytes) -> bytes:
    """Quote the bytes of a value, for a session where backslashes escape."""
    if _SPECIAL.search(value):
        value = _SPECIAL.sub(lambda found: _ESCAPED[found[0]], value)
    return b"'%s'" % value


def hexadecimal(digits: str) -> str:
    """The bytes of these digits. Raise Refused for others."""
    if not re.fullmatch(r"(?:[0-9A-Fa-f]{2})*", digits):
        raise Refused(f"{digits[:40]!r} is not hexadecimal")
    return f"X'{digits}'"


def printed_xa_id(text: str) -> str:
    """An XA transaction's id as MariaDB prints it for statements (XA RECOVER FORMAT='SQL'). Raise Refused for
    anything else."""
    if not _XA_ID.fullmatch(text):
        raise Refused(f"the server answered XA RECOVER with an invalid id: {text!r:.60}")
    return text


def literal(text: str, *, backslash_escapes: bool = True) -> str:
    """Quote a text. It is one string in every sql_mode. With NO_BACKSLASH_ESCAPES its backslashes are two,
    unless the caller knows that mode and says so."""
    escaped = text.replace("\\", "\\\\") if backslash_escapes else text
    return "'" + escaped.replace("'", "''") + "'"
