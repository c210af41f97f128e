"""Sentences on a terminal: broken between words where it is too narrow for them, commands never."""

import re
import sys

from zbackup.cli import tables

_WORDS = re.compile(r"(?:zbackup|mysql|mariadb|mongosh) [a-z-].*?(?:[.;,)]+(?=\s|$)|$)|\S+")
"""A command, up to where its sentence goes on, is one word: it has to be copied."""
_LABEL = re.compile(r" *\S+(?: \S+)* {2,}(?=\S)")
_AS_IT_IS = ("$ ", "config.toml: ")


def fold(text: str) -> str:
    """Break the lines that a terminal is too narrow for; of a pipe or a file none.

    What is continued stands below its text: behind a label with two blanks, or a little further in. A line to
    be copied is not broken.
    """
    if not sys.stdout.isatty():
        return text
    room = tables.terminal_width()
    return "\n".join(part for line in text.split("\n") for part in folded(line, room))


def folded(line: str, room: int) -> list[str]:
    """One line as lines of at most `room` columns, but for words that are longer."""
    if len(line) <= room or line.lstrip().startswith(_AS_IT_IS):
        return [line]
    indent = len(line) - len(line.lstrip())
    label = _LABEL.match(line)
    begin = label.end() if label and label.end() <= room // 2 else indent
    below = " " * (begin if begin > indent else indent and indent + 2)
    lines, blank = [line[:begin]], ""
    for word in _WORDS.findall(line[begin:]):
        if blank and len(lines[-1]) + 1 + len(word) > room:
            lines.append(below)
            blank = ""
        lines[-1] += blank + word
        blank = " "
    return lines
