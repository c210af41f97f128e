"""A value that is too long for one user property: written to several, and put together again.

Whoever knows one property only sees none then, and not the beginning for the whole.
"""

from collections.abc import Mapping

from zbackup.model import bounds

# A user property ends at 8,191 bytes (zfsprops(7)); room is left for the terminating byte.
CHUNK = 8000

MOST_PARTS = 1000


def split(name: str, value: str, step: int = CHUNK // 4) -> list[tuple[str, str]]:
    """One property; or, when the value is too long for one, name.0, name.1 ... and name.parts, how many.

    `step`: characters of each. One is at most four bytes.
    """
    if len(value.encode()) <= CHUNK:
        return [(name, value)]
    parts = [value[i : i + step] for i in range(0, len(value), step)]
    return [(f"{name}.parts", str(len(parts))), *((f"{name}.{n}", part) for n, part in enumerate(parts))]


def joined(values: Mapping[str, str], name: str) -> str | None:
    """The value, put together again; None if it was never written.

    Raise KeyError if a part is lost, ValueError if how many there are is damaged.
    """
    if name in values:
        return values[name]
    if any(key.startswith(f"{name}.") for key in values):
        count = bounds.count(values[f"{name}.parts"], MOST_PARTS)
        return "".join(values[f"{name}.{n}"] for n in range(count))
    return None
