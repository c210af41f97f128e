"""Find that a pool is broken, or has too little room left. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from zbackup.model.command_line import command_line
from zbackup.model.errors import NoRoomForSnapshot, PoolReadOnly
from zbackup.model.finding import Finding, Severity
from zbackup.model.space import DatasetSettings, Pool
from zbackup.plan.size_text import size

FREE_LOW, FREE_SERIOUS = 0.20, 0.10
DAYS_LOW = 3.0

_SNAPSHOTS_TOO = "its snapshots count, too, and when its room is used up, the database stops"
_DATA_ALONE = (
    "its data alone counts (refquota): no prune makes room there, and when it is used up, the database stops"
)


def of_space(
    pool: Pool, written: Mapping[str, float], settings: Sequence[DatasetSettings] = ()
) -> list[Finding]:
    """List the findings about a pool's room and state, and about datasets on it that have less, by a quota or
    because the rest is reserved. `written` are bytes a day that go into each dataset's snapshots."""
    known = [each for each in settings if each.values.get("available", "").isdigit()]
    lasting = _lasting(pool, written, known)
    room = [*_room(pool, sum(written.values())), *_tightest(pool, known)]
    return [*_state(pool), *_no_snapshot(known), *room, *lasting]


def _state(pool: Pool) -> Iterator[Finding]:
    if pool.readonly:
        yield Finding(
            severity="critical",
            subject="pool",
            text=f"{pool.name} is imported read-only",
            why="no backup can be taken, received or pruned there, and no clone be made",
            fix=f"{command_line('zpool', 'export', pool.name)}"
            f" && {command_line('zpool', 'import', pool.name)}",
            exit_status=PoolReadOnly.exit_status,
            key=f"{pool.name} read-only",
        )
    if pool.health != "ONLINE":
        yield Finding(
            severity="critical",
            subject="pool",
            text=f"{pool.name} is {pool.health}",
            why="a disk is missing or broken: backups on this pool share its fate",
            fix=command_line("zpool", "status", "-x", pool.name),
            key=f"{pool.name} {pool.health}",
        )


def _room(pool: Pool, written_a_day: float) -> Iterator[Finding]:
    if pool.free_share < FREE_LOW:
        yield Finding(
            severity="critical" if pool.free_share < FREE_SERIOUS else "warning",
            subject="space",
            text=f"{pool.name} has {pool.free_share:.0%} free",
            why="a full pool stops the database, and ZFS writes ever more slowly on the way there",
            fix=command_line("zfs", "list", "-o", "space", "-r", pool.name),
            key="free",
        )
    if written_a_day and pool.free / written_a_day < DAYS_LOW:
        yield Finding(
            severity="warning",
            subject="space",
            text=f"what is free on {pool.name} lasts {pool.free / written_a_day:.1f} days at the rate of "
            f"the last snapshots, if none is destroyed",
            why="a full pool stops the database",
            fix="zbackup prune --dry-run",
            key="days",
        )


@dataclass(frozen=True, slots=True)
class _Less:
    """Room of a dataset's that is less than its pool's, in bytes, and how much of it is left; `why` that
    matters."""

    name: str
    left: int
    size: int
    why: str = _SNAPSHOTS_TOO

    @property
    def share(self) -> float:
        """0 to 1."""
        return self.left / self.size if self.size else 0.0

    @property
    def fix(self) -> str:
        return command_line("zfs", "list", "-o", "space,quota,refquota", "-r", self.name)


def _quotas(settings: DatasetSettings) -> Iterator[_Less]:
    """List the room by each quota on the dataset and above it. All below one count, with their snapshots."""
    for each in (settings, *settings.above):
        if quota := each.number("quota"):
            yield _Less(each.name, max(0, quota - each.number("used")), quota)


def _bounded_by_data(settings: DatasetSettings) -> bool:
    """Whether its refquota is what bounds its room: ZFS gives the least of all bounds as available."""
    most = settings.number("refquota")
    return most > 0 and settings.number("available") >= most - settings.number("referenced")


def _rooms(settings: DatasetSettings, pool: Pool) -> Iterator[_Less]:
    yield from _quotas(settings)
    left = settings.number("available")
    if most := settings.number("refquota"):
        yield _Less(settings.name, max(0, most - settings.number("referenced")), most, _DATA_ALONE)
    room = settings.number("usedbydataset") + settings.number("usedbysnapshots") + left
    rest = _Less(settings.name, left, room)
    # Some less than the pool's share is what ZFS keeps for itself, and is said of the pool already.
    if not _bounded_by_data(settings) and rest.share < pool.free_share / 2:
        yield rest


@dataclass(frozen=True, slots=True)
class Reserved:
    """A dataset whose refreservation leaves no room for a snapshot: it needs `needed` bytes, `free` are
    left."""

    name: str
    needed: int
    free: int

    @property
    def text(self) -> str:
        return (
            f"the refreservation of {self.name} leaves no room for a snapshot: "
            f"a snapshot needs {size(self.needed)} in addition, and {size(self.free)} are free"
        )

    @property
    def fix(self) -> str:
        return f"zfs set refreservation=none {command_line(self.name)}"


def too_reserved(settings: Sequence[DatasetSettings]) -> Reserved | None:
    """Find a dataset whose refreservation leaves no room for a snapshot.

    The reservation counts the data written since the last snapshot. A new snapshot takes over this data, so
    ZFS must reserve as much again (OpenZFS, dsl_dataset_snapshot_reserve_space).
    """
    for each in settings:
        needed = each.number("refreservation") - each.number("usedbyrefreservation")
        if needed > (free := _free_beside(each)):
            return Reserved(each.name, needed, free)
    return None


def _free_beside(settings: DatasetSettings) -> int:
    """Return the free bytes besides the dataset's own reservation; possibly too many, if a refquota hides the
    real number, but never too few."""
    if not _bounded_by_data(settings) or not settings.above:
        return max(0, settings.number("available") - settings.number("usedbyrefreservation"))
    return settings.above[0].number("available") + settings.number("reservation")


def _no_snapshot(known: Sequence[DatasetSettings]) -> Iterator[Finding]:
    if found := too_reserved(known):
        yield Finding(
            severity="critical",
            subject="space",
            text=found.text,
            why="no backup can be taken; to limit the dataset, use refquota or quota instead",
            fix=found.fix,
            exit_status=NoRoomForSnapshot.exit_status,
            key=f"{found.name} refreservation",
        )


def _tightest(pool: Pool, known: Sequence[DatasetSettings]) -> Iterator[Finding]:
    rooms = [room for each in known for room in _rooms(each, pool)]
    found = min(rooms, key=lambda room: (room.share, room.name), default=None)
    if found is not None and found.share < FREE_LOW:
        severity: Severity = "critical" if found.share < FREE_SERIOUS else "warning"
        text = f"{found.name} has {found.share:.0%} of its room left"
        yield Finding(
            severity=severity, subject="space", text=text, why=found.why, fix=found.fix, key="quota"
        )


def _lasting(pool: Pool, written: Mapping[str, float], known: Sequence[DatasetSettings]) -> Iterator[Finding]:
    """Of room that is used up much sooner than the pool's, by what is written below it."""
    rooms = [room for each in known for room in _filled_by_snapshots(each)]
    lasting = [(room.left / rate, room) for room in rooms if (rate := _rate(written, room.name))]
    days, room = min(lasting, key=lambda pair: (pair[0], pair[1].name), default=(DAYS_LOW, None))
    if room and days < DAYS_LOW <= pool.free / sum(written.values()):
        yield Finding(
            severity="warning",
            subject="space",
            text=f"what {room.name} may still take lasts {days:.1f} days at the rate of "
            "the last snapshots, if none is destroyed",
            why=room.why,
            fix=room.fix,
            key="days",
        )


def _filled_by_snapshots(settings: DatasetSettings) -> Iterator[_Less]:
    if not _bounded_by_data(settings):
        left = settings.number("available")
        yield _Less(settings.name, left, left)
    yield from _quotas(settings)


def _rate(written: Mapping[str, float], name: str) -> float:
    """Bytes a day that are written on and below the dataset."""
    return sum(rate for each, rate in written.items() if each == name or each.startswith(f"{name}/"))
