"""Lengths of time for people. Pure."""

from datetime import timedelta


def length(span: timedelta) -> str:
    """For people, rounded: `2 days`, `3 hours`."""
    seconds = round(span.total_seconds())
    for size, unit in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= 2 * size or seconds == size:
            count = round(seconds / size)
            return f"{count} {unit}{'s' * (count != 1)}"
    return f"{seconds} s"
