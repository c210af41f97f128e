"""The fleet: every instance that ships to an address, as far as what lies there tells."""

from dataclasses import dataclass
from datetime import datetime

from zbackup.model.finding import Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetMember:
    """An instance at `address`, below it at `path` ("" for itself), which is the host's name where each host
    has a dataset of its own. `backups` counts those that say they are committed; `newest` is proven to be,
    and with it come the engine, when it was `taken`, and its last commit `as_of`. Everything acknowledged
    before `archived` is in archived log behind it, by the word of who wrote that (None: none is archived).

    `exposed` are the seconds that would be lost with the host now, None where nothing can be restored.
    `drilled` is when a drill that this host made of it last passed, and `drill_failed` why the last one did
    not, "" if it did. `problems` are what is wrong there, and `health` is the verdict on all of it.
    """

    address: str
    path: str
    instance: str
    engine: str = ""
    backups: int = 0
    newest: str = ""
    taken: datetime | None = None
    as_of: datetime | None = None
    archived: datetime | None = None
    exposed: float | None = None
    drilled: datetime | None = None
    drill_failed: str = ""
    problems: tuple[str, ...] = ()
    health: Severity = "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """All members, the worst first. `looked` is when; of what `reported` names, (report, when), it was then.
    `unreachable` are (address, why) of those where nobody could look;
    `left_out` counts instances beyond what is looked at, as far as they were counted. Of what nobody looked
    at nobody knows that it is well."""

    looked: datetime
    members: tuple[FleetMember, ...]
    unreachable: tuple[tuple[str, str], ...] = ()
    left_out: int = 0
    reported: tuple[tuple[str, datetime], ...] = ()

    @property
    def health(self) -> Severity:
        if self.unreachable or self.left_out:
            return "critical"
        return self.members[0].health if self.members else "ok"
