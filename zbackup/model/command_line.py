"""Commands that messages tell their readers to run: the only place that makes them."""

import shlex

from zbackup.model.printable import is_plain, is_unsafe


def command_line(*words: object) -> str:
    """Return the words as a shell takes them, each as one word whatever it holds, and printable.

    Names of datasets hold blanks, paths anything. What would be escaped when it is printed is in ANSI-C
    quotes ($'...', bash(1)), so that it can be pasted.
    """
    return " ".join(_word(str(word)) for word in words)


def _word(text: str) -> str:
    if is_plain(text):
        return shlex.quote(text)
    return "$'" + "".join(map(_escaped, text)) + "'"


def _escaped(character: str) -> str:
    if character in ("\\", "'"):
        return "\\" + character
    if not is_unsafe(character):
        return character
    escapes = "surrogateescape" if "\udc80" <= character <= "\udcff" else "replace"
    return "".join(f"\\x{byte:02x}" for byte in character.encode(errors=escapes))
