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


def exact_length(seconds: float) -> str:
    """`340 ms`, `5.2 s`, `3 min 20 s` or `2 h 5 min`."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
