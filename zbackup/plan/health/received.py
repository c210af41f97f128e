"""Judge how a host is that receives backups, from what lies there and what was promised of it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from zbackup.model.command_line import command_line
from zbackup.model.errors import KeyElsewhere
from zbackup.model.finding import Finding
from zbackup.model.shipping import TargetDataset
from zbackup.model.space import Pool
from zbackup.plan.duration_text import length
from zbackup.plan.health.health import JobFacts, of_jobs
from zbackup.plan.health.pool_space import FREE_LOW, FREE_SERIOUS, of_space
from zbackup.plan.health.unreadable import unreadable

_FULL = "nothing more can be received, and ZFS writes ever more slowly on the way there"


@dataclass(frozen=True, slots=True, kw_only=True)
class LotFacts:
    """The backups of one server of an instance: how old the newest is, None when there is none, and how old
    it may be, None if nobody said."""

    instance: str
    home: str
    age: timedelta | None
    most: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedFacts:
    """`unreadable` are (snapshot, problem); `remains` counts backups whose removal was cut short; `held` are
    (snapshot, tag). `free_share` is what is left of the room of the dataset `root`, 0 to 1.

    `jobs` are those of the daemon at this place; `scheduled` is whether there are to be any. `log_problems`
    are (instance, what is wrong with its archived log). `shut` are (copy, encryption root) that no
    key opens."""

    root: str
    lots: Sequence[LotFacts]
    unreadable: Sequence[tuple[str, str]]
    remains: int
    held: Sequence[tuple[str, str]]
    pool: Pool
    free_share: float
    jobs: Sequence[JobFacts] = ()
    scheduled: bool = False
    daemon_runs: bool = False
    log_problems: Sequence[tuple[str, str]] = ()
    shut: Sequence[tuple[str, str]] = ()


def judge(facts: ReceivedFacts) -> tuple[Finding, ...]:
    """List the findings about such a host; nothing when all is ok."""
    return (
        *_ages(facts),
        *unreadable(facts.unreadable),
        *_shut(facts.shut),
        *_remains(facts),
        *_logs(facts),
        *_held(facts),
        *_room(facts),
        *of_jobs(facts.jobs),
        *_daemon(facts),
    )


def _ages(facts: ReceivedFacts) -> list[Finding]:
    why = "what is not here is lost with the host that has the database"
    found = []
    if not facts.lots:
        text = f"there is no backup below {facts.root}"
        found.append(Finding(severity="critical", subject="backups", text=text, why=why))
    for lot in facts.lots:
        if lot.age is None:
            text = f"there is no backup of {lot.instance} in {lot.home} that is committed"
        elif lot.most is not None and lot.age > lot.most:
            text = (
                f"the newest backup of {lot.instance} in {lot.home} is {length(lot.age)} old, and "
                f"{length(lot.most)} was promised"
            )
        else:
            continue
        fix = f"{command_line('zbackup', 'ship', lot.instance)}   (on the host that has the database)"
        found.append(Finding(severity="critical", subject="backups", text=text, why=why, fix=fix))
    return found


def unopenable(targets: Sequence[TargetDataset]) -> list[tuple[str, str]]:
    """Find the copies that are below another encryption root but do not have its salt; return both names.

    A stream has arrived since the change of the root, and brought the source's wrapped key. Datasets below
    the root that did not arrive by a stream have its salt; only passphrases have one. Copies that share a key
    have two salts for a short time, until the next stream of each has arrived.
    """
    salts = {each.encryption_root: each.salt for each in targets if not each.copies}
    return [
        (each.dataset, each.encryption_root)
        for each in targets
        if each.copies and each.salt != salts.get(each.encryption_root, each.salt)
    ]


def _shut(shut: Sequence[tuple[str, str]]) -> list[Finding]:
    return [
        Finding(
            severity="critical",
            subject="keys",
            text=f"no key opens {copy}: its encryption root was changed to {root}, then a stream arrived",
            why="it cannot be restored: set the instance's copies aside and send everything again",
            fix="zbackup ship INSTANCE --initial   (on the host that has the database)",
            exit_status=KeyElsewhere.exit_status,
            key=copy,
        )
        for copy, root in shut
    ]


def _logs(facts: ReceivedFacts) -> list[Finding]:
    if not facts.log_problems:
        return []
    instance, problem = facts.log_problems[0]
    more = f" (and {len(facts.log_problems) - 1} more)" if facts.log_problems[1:] else ""
    return [
        Finding(
            severity="warning",
            subject="archived log",
            text=f"of {instance}: {problem}{more}",
            why="a restore with the archived log ends in front of what is damaged or missing",
            fix=f"{command_line('zbackup', 'verify', instance)}"
            f" --at DESTINATION --read all   (where it is configured)",
        )
    ]


def _remains(facts: ReceivedFacts) -> list[Finding]:
    if not facts.remains:
        return []
    text = f"of {facts.remains} backup{'s' * (facts.remains > 1)} a prune that was cut short left a part"
    return [Finding(severity="warning", subject="prune", text=text, fix="zbackup prune INSTANCE --at NAME")]


def _held(facts: ReceivedFacts) -> list[Finding]:
    return [
        Finding(
            severity="advice",
            subject="holds",
            text=f"{snapshot} is held by {tag}",
            why="no prune takes it while it is held; a restore under way releases it by itself",
            fix=command_line("zfs", "release", tag, snapshot),
        )
        for snapshot, tag in facts.held
    ]


def _room(facts: ReceivedFacts) -> list[Finding]:
    found = [replace(f, why=_FULL) if f.subject == "space" else f for f in of_space(facts.pool, {})]
    if facts.free_share < min(FREE_LOW, facts.pool.free_share):
        text = f"{facts.root} has {facts.free_share:.0%} of its room left"
        found.append(
            Finding(
                severity="critical" if facts.free_share < FREE_SERIOUS else "warning",
                subject="space",
                text=text,
                why="nothing more can be received when its quota is used up",
                fix=command_line("zfs", "list", "-o", "space,quota", "-r", facts.root),
            )
        )
    return found


def _daemon(facts: ReceivedFacts) -> list[Finding]:
    if facts.daemon_runs or not facts.scheduled:
        return []
    return [
        Finding(
            severity="critical",
            subject="daemon",
            text="something is to be done here on schedule, but no zbackup daemon runs",
            why="nothing is pruned, and at last there is no room for what arrives",
            fix="systemctl start zbackup",
        )
    ]
