"""List the findings about a server's and its datasets' settings, before it hurts. Pure.

Sizes of records and metadata: OpenZFS's documentation, "Workload Tuning" and "Module Parameters"; the rule
for the ARC is about 0.1 % of the data for its block pointers at 128 KiB records, twice that at half the size,
and 15 % for what is kept beside them.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from zbackup.model.command_line import command_line
from zbackup.model.finding import Finding
from zbackup.model.relocation import owner_of
from zbackup.model.server import Tuning
from zbackup.model.snapshot import Dataset
from zbackup.model.space import DatasetSettings

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


DAY_S = 86_400.0
FULL_RECORD = 128 * 1024
METADATA_SHARE = 0.001
METADATA_OVERHEAD = 1.15


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorFacts:
    """`every` is the seconds between two snapshots (None: no schedule), `arc_limit` bytes (None: unknown).

    `held_ms` is how long the newest snapshot held its lock, `ceiling_s` how long it may.
    """

    tuning: Tuning | None
    datasets: Sequence[Dataset]
    settings: Sequence[DatasetSettings]
    every: float | None
    arc_limit: int | None
    clock_synchronised: bool | None
    held_ms: int | None = None
    ceiling_s: float = 0


def examine(facts: DoctorFacts) -> tuple[Finding, ...]:
    """List what could be better; nothing when all is as it should be."""
    found: list[Finding] = []
    if facts.tuning:
        found += _log(facts.tuning, facts.every)
        found += _pages(facts.tuning, facts)
    for settings in facts.settings:
        found += _dataset(settings)
    return (*found, *_arc(facts), *_clock(facts), *_hold(facts))


def _log(tuning: Tuning, every: float | None) -> Iterator[Finding]:
    """Log that is purged before a snapshot holds it leaves a gap in the recovery window."""
    kept = tuning.log_retention_s
    if kept is None or math.isinf(kept):
        return
    needed = max(4 * every, DAY_S) if every else DAY_S
    if kept >= needed:
        return
    days = tuning.retention_setting.endswith("days")
    amount = math.ceil(needed / DAY_S) if days else math.ceil(needed)
    yield Finding(
        severity="critical" if every and kept < 2 * every else "warning",
        subject="log retention",
        text=f"the server may purge its log after {_time(kept)}"
        + (f", and a snapshot is taken every {_time(every)}" if every else ""),
        why="log that is purged before a snapshot holds it is a gap in what can be restored; a night without "
        "snapshots must not make one",
        fix=f"{tuning.keep_setting} {tuning.retention_setting} = {amount}",
        exit_status=9,
    )


def _pages(tuning: Tuning, facts: DoctorFacts) -> Iterator[Finding]:
    mounted = {d.mountpoint: d.name for d in facts.datasets if d.mountpoint}
    owner = owner_of(tuning.data_directory, list(mounted))
    home = next((s for s in facts.settings if owner and s.name == mounted[owner]), None)
    if home is None or tuning.page_size is None:
        return
    record = home.number("recordsize")
    if record != tuning.page_size:
        yield Finding(
            severity="advice",
            subject="recordsize",
            text=f"{home.name} has records of {_size(record)}, and pages have {_size(tuning.page_size)}",
            why="each page that is written rewrites a whole record, and snapshots grow by records"
            if record > tuning.page_size
            else "each page is several records: more metadata, worse compression",
            fix=command_line(
                "zfs", "set", f"recordsize={_size(tuning.page_size).replace(' KiB', 'K')}", home.name
            ),
        )
    elif tuning.double_write:
        yield Finding(
            severity="advice",
            subject="doublewrite",
            text="InnoDB writes every page twice, and ZFS writes a record whole or not at all",
            why="half of what is written is for nothing: it makes snapshots and their locks longer",
            fix="innodb_doublewrite = OFF in the server's configuration",
        )


def _dataset(settings: DatasetSettings) -> Iterator[Finding]:
    name, values = settings.name, settings.values
    if values.get("sync") == "disabled":
        yield Finding(
            severity="warning",
            subject="sync",
            text=f"{name} has sync=disabled",
            why="a power failure loses commits that the server has acknowledged",
            fix=command_line("zfs", "set", "sync=standard", name),
        )
    for key, bad, fix, why in (
        ("compression", "off", "compression=lz4", "less to write, and so shorter locks and more snapshots"),
        ("atime", "on", "atime=off", "reading files writes to the pool, and every snapshot keeps that"),
        ("dedup", "on", "dedup=off", "its table takes much memory, and databases have hardly any duplicates"),
    ):
        if values.get(key) == bad:
            fix_it = command_line("zfs", "set", fix, name)
            text = f"{name} has {key}={bad}"
            yield Finding(severity="advice", subject=key, text=text, why=why, fix=fix_it)


def _arc(facts: DoctorFacts) -> Iterator[Finding]:
    need = sum(metadata(s) for s in facts.settings)
    if facts.arc_limit is None or need <= facts.arc_limit:
        return
    yield Finding(
        severity="warning",
        subject="ARC",
        text=f"the datasets' metadata take about {_size(need)}, the ARC may have {_size(facts.arc_limit)}",
        why="without its metadata in memory, every read of a database page is several reads from disk",
        fix=f"echo {2 * need} > /sys/module/zfs/parameters/zfs_arc_max",
    )


def metadata(settings: DatasetSettings) -> int:
    """Bytes of memory that a dataset's block pointers and what belongs to them take."""
    record = settings.number("recordsize") or FULL_RECORD
    share = METADATA_SHARE * FULL_RECORD / record
    return math.ceil(settings.number("logicalused") * share * METADATA_OVERHEAD)


def _clock(facts: DoctorFacts) -> Iterator[Finding]:
    if facts.clock_synchronised is False:
        yield Finding(
            severity="warning",
            subject="clock",
            text="nothing synchronises this machine's clock",
            why="a restore takes a moment as the server's own time: where that is wrong, so is the result",
            fix="timedatectl set-ntp true",
        )


def _hold(facts: DoctorFacts) -> Iterator[Finding]:
    if facts.held_ms is not None and facts.ceiling_s and facts.held_ms / 1000 > facts.ceiling_s / 2:
        yield Finding(
            severity="warning",
            subject="lock",
            text=f"the newest snapshot locked the database for {facts.held_ms / 1000:.1f} s; the limit is "
            f"{facts.ceiling_s:g} s",
            why="at the ceiling the server ends the lock and the snapshot is lost",
            fix='lock.kind = "auto" (the gentlest that is exact), or more time in lock.hold',
        )


def _time(seconds: float) -> str:
    for size, unit in ((DAY_S, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:g} seconds"


def _size(amount: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.4g} {unit}"
        amount /= 1024
    return f"{amount:.4g} TiB"
