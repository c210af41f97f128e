"""The one place that makes names and texts part of a statement. Pure.

Values go to the server as arguments of a statement (`%s`), which PyMySQL quotes by the session's own mode.
"""

from typing import Final

from zbackup.model.errors import Refused

_ESCAPED: Final = str.maketrans(
    {"\0": r"\0", "\n": r"\n", "\r": r"\r", "\\": r"\\", "'": r"\'", '"': r"\"", "\x1a": r"\Z"}
)


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


def literal(text: str) -> str:
    """Quote a text for a session where backslashes escape, as they do in every one of zbackup's."""
    return "'" + text.translate(_ESCAPED) + "'"
