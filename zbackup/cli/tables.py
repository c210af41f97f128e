"""Text for people: tables that never cut what they show, sizes, lengths of time."""

import sys
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """A table as wide as its content; on a terminal that is narrower, cells are folded, never cut.

    `right` are the columns aligned to the right, counted from 0.
    """
    if sys.stdout.isatty():
        return _folded(header, rows, right)
    return aligned([[h.upper() for h in header], *rows], right=right)


def aligned(rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """Columns two blanks apart, for pipes, logs and narrow lists."""
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            c.rjust(w) if n in right else c.ljust(w) for n, (c, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _folded(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int]) -> str:
    shown = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for n, name in enumerate(header):
        shown.add_column(name, justify="right" if n in right else "left", overflow="fold")
    for row in rows:
        shown.add_row(*(Text(cell) for cell in row))
    console = Console(file=sys.stdout)
    with console.capture() as captured:
        console.print(shown)
    return captured.get().rstrip("\n")


def size(bytes_: int) -> str:
    """`1.5 GiB`: three digits at most, powers of 1024."""
    amount = float(bytes_)
    for unit in _UNITS:
        if amount < 999.5 or unit == _UNITS[-1]:
            break
        amount /= 1024
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 99.95 else f"{amount:.1f} {unit}"


def length(seconds: float) -> str:
    """`340 ms`, `5.2 s`, `3 min 20 s` or `2 h 5 min`."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
