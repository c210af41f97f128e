"""Lines of README and the how-tos for tests to run: what a page says is what is typed.

`typed(page, begins)` are the words behind `zbackup`, `shell(page, begins)` is the whole line. What has to be
another in a test, such as a name, is replaced. tests/unit/docs/test_every_line_is_run.py finds these
calls, and accounts for every line of every page.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.unit.docs.pages import PROJECT, Block, blocks

HOW_TO = PROJECT / "docs" / "how-to"
_PROMPT = re.compile(r"^(?:backup)?[$#] +(?P<line>.*)$")
_REMARK = re.compile(r"\s+# .*$")


def page_of(name: str) -> Path:
    """The page of that file name: README.md, or a how-to."""
    return PROJECT / name if name == "README.md" else HOW_TO / name


def lines(block: Block) -> Iterator[str]:
    """The commands of a block that shows a terminal, without the shell's sign and remarks."""
    if block.kind == "console":
        for line in re.sub(r"\\\n\s*", "", block.text).splitlines():
            if found := _PROMPT.match(line):
                yield _REMARK.sub("", found["line"])


def shell(page: str, begins: str, instead: Mapping[str, str] | None = None) -> str:
    """The page's one line that begins so, with what has to be another here. Raise AssertionError where there
    is none, where there are several, and where it has not what is to be replaced."""
    found = {line for block in blocks(page_of(page)) for line in lines(block) if line.startswith(begins)}
    found = found & {begins} or found
    assert len(found) == 1, f"{page}: {begins!r} begins {len(found)} lines"
    (line,) = found
    for written, here in (instead or {}).items():
        assert written in line, f"{page}: {written!r} is not in {line!r}"
        line = line.replace(written, here)
    return line


def typed(page: str, begins: str, instead: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The words behind `zbackup` of that line, to run zbackup with."""
    program, *words = shlex.split(shell(page, begins, instead))
    assert program == "zbackup", f"{page}: {begins!r} is no line of zbackup"
    return tuple(words)
