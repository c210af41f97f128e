"""Bytes for people. Pure."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def size(bytes_: int) -> str:
    """`1.5 GiB`: three digits at most, powers of 1024."""
    amount = float(bytes_)
    for unit in _UNITS:
        if amount < 999.5 or unit == _UNITS[-1]:
            break
        amount /= 1024
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 99.95 else f"{amount:.1f} {unit}"
