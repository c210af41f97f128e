"""Text for people: tables that never cut what they show, sizes, lengths of time."""

import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from zbackup.model.backup import Backup
from zbackup.model.command_line import command_line
from zbackup.model.log import how_many
from zbackup.model.moment import local_text
from zbackup.model.printable import printable
from zbackup.plan import size_text
from zbackup.plan.checked_tables import checked
from zbackup.plan.duration_text import exact_length
from zbackup.plan.health.promoted import Promoted, give_back, what_happened

if TYPE_CHECKING:
    # Who asks for the version or for help does without pydantic.
    from zbackup.model.drill import DrillVerdict

GAP = 2
"""Blanks between two columns."""

PIPE = 94
"""Width of what is drawn where there is no terminal."""


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Sequence[int] = (),
    expendable: Sequence[int] = (),
    text: Mapping[int, int] | None = None,
) -> str:
    """A table as wide as its content; on a terminal that is narrower, cells are folded, never cut.

    `right` are the columns aligned to the right, counted from 0. The `expendable` ones are left out of a
    terminal that is too narrow for all, the first in the order given before the others, and what was is said
    below. `text` are the columns of sentences, with the width in characters that each is folded to before
    anything is left out; a long word in them is folded before another column is.
    """
    sentences = text or {}
    rows = [[printable(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        return aligned([[h.upper() for h in header], *rows], right=right)
    columns = list(zip(header, *rows, strict=True))
    room = terminal_width()
    kept = _kept(columns, room, expendable, sentences)
    folded = _folded(
        [columns[n] for n in kept],
        room,
        [kept.index(n) for n in right if n in kept],
        {kept.index(n): least for n, least in sentences.items() if n in kept},
    )
    missing = ", ".join(
        header[n].lower() for n, column in enumerate(columns) if n not in kept and any(column[1:])
    )
    note = f"No room for {missing}: a wider terminal, a pipe or --json has it."
    return f"{folded}\n{textwrap.fill(note, room, break_on_hyphens=False)}" if missing else folded


def aligned(rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """Columns side by side, for pipes, logs and narrow lists."""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            c.rjust(w) if n in right else c.ljust(w) for n, (c, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append((" " * GAP).join(cells).rstrip())
    return "\n".join(lines)


def terminal_width() -> int:
    """How many columns there are for what is printed; PIPE where stdout is no terminal."""
    if not sys.stdout.isatty():
        return PIPE
    # Only a terminal waits until rich is read.
    from rich.console import Console

    return Console(file=sys.stdout).width


def _kept(
    columns: Sequence[Sequence[str]], room: int, expendable: Sequence[int], text: Mapping[int, int]
) -> list[int]:
    """The columns that find room with every cell on one line, or those that are not expendable."""
    needs = [min(max(map(len, c)), text[n]) if n in text else max(map(len, c)) for n, c in enumerate(columns)]
    empty = [n for n in range(len(columns)) if not any(columns[n][1:])]
    droppable = [*empty, *(n for n in expendable if n not in empty)]
    left_out: list[int] = []

    def fits(shown: Sequence[int]) -> bool:
        return sum(needs[n] + GAP for n in shown) - GAP <= room

    def shown() -> list[int]:
        return [n for n in range(len(columns)) if n not in left_out]

    for n in droppable:
        if fits(shown()):
            break
        left_out.append(n)
    for n in reversed(left_out[:]):
        # A wide column that had to go may have made room for narrow ones that went before it.
        if n not in empty and fits([*shown(), n]):
            left_out.remove(n)
    return shown()


def _folded(
    columns: Sequence[Sequence[str]], room: int, right: Sequence[int], text: Mapping[int, int]
) -> str:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, GAP - 1, 0, 0))
    widths = _widths(columns, room - GAP * (len(columns) - 1), text)
    for n, (column, width) in enumerate(zip(columns, widths, strict=True)):
        shown.add_column(column[0], justify="right" if n in right else "left", overflow="fold", width=width)
    for row in list(zip(*columns, strict=True))[1:]:
        shown.add_row(*(Text(cell) for cell in row))
    # Without colours: every escape in what is printed is then somebody else's, and made harmless.
    console = Console(file=sys.stdout, width=room, color_system=None)
    with console.capture() as captured:
        console.print(shown)
    return "\n".join(line.rstrip() for line in captured.get().rstrip("\n").split("\n"))


def _widths(columns: Sequence[Sequence[str]], room: int, text: Mapping[int, int]) -> Sequence[int | None]:
    """Room for each column's longest word, so that names can be copied; what is left goes to the left ones.

    A column of sentences has what the others, each on one line, leave to it, if that is what it needs at the
    least. None for all when there is no room for the words: somebody else has to break them.
    """
    widths = [max((len(word) for cell in column for word in cell.split()), default=0) for column in columns]
    whole = [max(map(len, column)) for column in columns]
    if len(text) == 1:
        ((n, least),) = text.items()
        left = room - sum(whole) + whole[n]
        if left >= min(whole[n], least):
            return [min(width, left) if m == n else width for m, width in enumerate(whole)]
    if sum(widths) > room:
        return [None] * len(columns)
    for n, column in enumerate(columns):
        widths[n] += min(max(map(len, column)) - widths[n], room - sum(widths))
    return widths


def size(bytes_: int) -> str:
    """`1.5 GiB`: three digits at most, powers of 1024."""
    return size_text.size(bytes_)


def length(seconds: float) -> str:
    """`340 ms`, `5.2 s`, `3 min 20 s` or `2 h 5 min`."""
    return exact_length(seconds)


def proven(drill: "DrillVerdict", zone: ZoneInfo) -> str:
    """What a drill that passed proved of which backup."""
    steps = [f"{drill.name} opened"]
    if drill.transactions:
        steps.append(f"{how_many(drill.transactions)} replayed")
    if drill.to:
        steps.append(f"brought to {local_text(drill.to.replace(microsecond=0), zone)}")
    if drill.tables is not None:
        steps.append(checked(drill.tables, drill.unchecked or 0))
    return f"{', '.join(steps)}, in {length(drill.seconds)}"


def remedy(fix: str) -> str:
    """What to do, as a command to run or as a line for the configuration."""
    return f"config.toml: {fix}" if fix.startswith("[") else f"$ {fix}"


def nothing_yet(promoted: Promoted) -> list[str]:
    """Return the lines for an instance of which nothing can be restored."""
    if promoted:
        return moved_away(promoted)
    return ["Nothing can be restored yet: take a backup with zbackup snapshot."]


def moved_away(promoted: Promoted) -> list[str]:
    """Return the lines about backups that moved to a clone promoted by hand; [] if there are none."""
    if not promoted:
        return []
    said = what_happened(promoted)
    return [f"{said[0].upper()}{said[1:]}. To move them back:", give_back(promoted)]


def as_they_are(instance: str, backups: Sequence[Backup], *, alone: bool = False) -> list[str]:
    """Sentences on the backups that can be restored as they are; `alone`: no other moment can be."""
    if not backups:
        return []
    who = f"Each of {len(backups)} backups" if len(backups) > 1 else f"The backup {backups[0].name}"
    said = (
        f"{who} can be restored as it is: "
        f"{command_line('zbackup', 'restore', instance, '--to-backup', 'NAME')}."
    )
    newest = max(backups, key=lambda b: b.createtxg)
    why = "; ".join(newest.record.blockers)
    return [said, *([f"No other moment can be: {why}."] if alone and why else [])]


def lock_times(wait_ms: int | None, held_ms: int | None) -> str:
    """How long a lock was waited for and held, as far as it is known."""
    times = (("waited", wait_ms), ("held", held_ms))
    return ", ".join(f"{what} {length(ms / 1000)}" for what, ms in times if ms is not None) or "not measured"
