"""Ports for clones that the kernel gives to outgoing connections, too. Pure."""

from collections.abc import Sequence

from zbackup.model.finding import Finding

SUGGESTED = "23100-23199"


def shared_with_connections(ports: tuple[int, int], range_text: str, reserved_text: str) -> list[Finding]:
    """List the finding about them, if there are any.

    `range_text` is net.ipv4.ip_local_port_range, `reserved_text` net.ipv4.ip_local_reserved_ports, as the
    kernel tells them (its ip-sysctl page); "" for what cannot be read.
    """
    given = [int(word) for word in range_text.split() if word.isdigit()]
    if len(given) != 2:
        return []
    reserved = _spans(reserved_text)
    shared = range(max(ports[0], given[0]), min(ports[1], given[1]) + 1)
    if all(any(first <= port <= last for first, last in reserved) for port in shared):
        return []
    return [
        Finding(
            severity="warning",
            subject="clones",
            text=f"[clones] ports {ports[0]}-{ports[1]} are among those that the kernel gives to outgoing "
            f"connections ({given[0]}-{given[1]}, net.ipv4.ip_local_port_range)",
            why="a clone or a restored cluster finds its port in use when such a connection has it",
            fix=f'[clones] ports = "{SUGGESTED}"; clones that are there keep theirs',
        )
    ]


def _spans(text: str) -> Sequence[tuple[int, int]]:
    """Read a list such as "8080,9100-9199"."""
    spans = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit():
            spans.append((int(first), int(last or first)))
    return spans
