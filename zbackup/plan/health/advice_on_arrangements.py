"""Advise on an instance's arrangements: no schedule, nothing off site, nothing pruned. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from zbackup.model.finding import Finding
from zbackup.plan.due import CronSlots


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangements:
    """The arrangements of the configuration for an instance.

    `noticed`: somebody would be told when backups stop, by a schedule or a `max_age`; `off_site`: a
    destination is on another pool or host; `policy`: a retention policy says which backups go; `pruned`: it
    is on the schedule; `scheduled`: the daemon takes its snapshots.
    """

    noticed: bool = True
    off_site: bool = True
    policy: bool = True
    pruned: bool = True
    scheduled: bool = True


ALL_ARRANGED = Arrangements()


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The promises of the configuration.

    `snapshot_every` are the seconds between two snapshots, and `max_age` how many the newest may be old
    (None: nobody said); `daemon`: that one runs; `lock_ceiling` how many seconds the database is locked at
    most; `drills` the destinations, "" for this host, of which drills are on schedule, with their seconds,
    and `read_all` those of which a verification on schedule reads all. Of what is scheduled by a cron
    expression `snapshot_slots` and `drill_slots` are when: seconds alone would call it late whenever the
    expression rests.
    """

    snapshot_every: float | None = None
    max_age: float | None = None
    daemon: bool = False
    lock_ceiling: float = 0
    drills: tuple[tuple[str, float], ...] = ()
    read_all: tuple[str, ...] = ()
    arrangements: Arrangements = ALL_ARRANGED
    snapshot_slots: CronSlots | None = None
    drill_slots: tuple[tuple[str, CronSlots], ...] = ()


def advice_on_arrangements(facts: Arrangements, instance: str) -> Iterator[Finding]:
    """List the advice on what is left to chance, with the lines to write.

    Advice alone: another scheduler, another tool or a person may do it.
    """
    table = f"[instance.{instance}"
    if not facts.noticed:
        yield _advice(
            "schedule",
            "nothing is on schedule, and nobody said how old the newest backup may be",
            "status, metrics and the monitoring plugin say ok however long ago the last backup was",
            f'{table}.schedule] snapshot = "5m", or with timers of your own {table}] max_age = "1h"',
        )
    if not facts.off_site:
        yield _advice(
            "off-site",
            "no destination is outside of this pool",
            "snapshots on the server's own pool protect from mistakes, and are lost with the pool",
            f'[{table}.ship]] to = "ssh://backup@host/tank/backups"',
        )
    if not facts.policy:
        yield _advice(
            "retention",
            "there is no retention policy, so nothing is ever deleted",
            "snapshots keep what was changed since: one day the pool is full, and the server stops",
            f'{table}.retention] keep = ["hourly for 2 days", "daily for 30 days"]',
        )
    elif facts.scheduled and not facts.pruned:
        yield _advice(
            "retention",
            "the daemon takes snapshots, and deletes none: there is no schedule for prune",
            "the retention policy is applied by zbackup prune alone",
            f'{table}.schedule] prune = "1h"',
        )


def _advice(subject: str, text: str, why: str, fix: str) -> Finding:
    return Finding(severity="advice", subject=subject, text=text, why=why, fix=fix)
