"""Colours on a terminal: green for ok, yellow for warnings, red for what is critical.

They are added to lines that are harmless already: every other escape in them is somebody else's, and was made
readable before. Nothing is said by a colour alone.
"""

import os
import re
import sys

GREEN, YELLOW, RED = "32", "33", "31"

_RED = re.compile(r"\b(?:CRITICAL|FAILED|GAP)\b|(?<=: )critical(?=$| \()|^ +critical(?=: |  )", re.MULTILINE)
_YELLOW = re.compile(r"\bWARNING\b|(?<=: )warning(?=$| \()|^ +warning(?=: |  )", re.MULTILINE)
_GREEN = re.compile(r"(?<=: )ok(?=$| \()|^  ok(?=  )", re.MULTILINE)
_PICTURE = re.compile(r"^restorable +[#x ]+$", re.MULTILINE)
_RANGE, _MISSING = re.compile("#+"), re.compile("x+")


def wanted() -> bool:
    """Whether stdout is a terminal that shows colours, and NO_COLOR (no-color.org) is not set."""
    terminal = os.environ.get("TERM", "dumb") not in ("", "dumb")
    return sys.stdout.isatty() and terminal and not os.environ.get("NO_COLOR")


def painted(text: str) -> str:
    """The text with colours for how something is: the words for it, and the picture of a recovery window."""
    for words, colour in ((_RED, RED), (_YELLOW, YELLOW), (_GREEN, GREEN)):
        text = words.sub(_in(colour, r"\g<0>"), text)
    return _PICTURE.sub(_picture, text)


def _picture(line: re.Match[str]) -> str:
    label, blanks, drawn = line[0].partition("  ")
    drawn = _MISSING.sub(lambda found: _in(RED, found[0]), drawn)
    return label + blanks + _RANGE.sub(lambda found: _in(GREEN, found[0]), drawn)


def _in(colour: str, text: str) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m"
