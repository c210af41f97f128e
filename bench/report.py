"""Tables, and their place in docs/reference/benchmarks.md: each measurement owns what its marks enclose."""

import os
import platform
import statistics
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "benchmarks.md"


def circumstances(command: str) -> str:
    """Under which a table came about: when, on what, how busy, by which command."""
    one, five, _ = os.getloadavg()
    kernel = platform.release().partition("-")[0]
    return (
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {platform.machine()}, {os.cpu_count()} CPUs, Linux "
        f"{kernel}, load average {one:.1f} ({five:.1f} over five minutes), `{command}`"
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """As Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def percentile(values: Sequence[float], part: float) -> float:
    """The smallest value that `part` of all values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def write(section: str, text: str) -> None:
    """Replace what the page holds between the section's marks. Raise ValueError when it has no such marks."""
    begin, end = f"<!-- begin {section} -->\n", f"<!-- end {section} -->"
    page = PAGE.read_text()
    before, found, rest = page.partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"{PAGE} has no marks for {section}")
    PAGE.write_text(f"{before}{begin}{text}\n{ended}{after}")
