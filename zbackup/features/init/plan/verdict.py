"""Judge whether the daemon, which is not root, can do its work: by its rights on ZFS, and its jobs. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from zbackup.features.init.plan.service import SENDING

AT_HOME = frozenset({"reconcile", "snapshot", "prune", "leases", "watch"})
"""Jobs that work on this host's pools alone. What goes to destinations is `zbackup check`'s to find."""

MOST_SAID = 1000
"""Characters of what the daemon, whose user may write anything, said of its failures."""

# Of a long name no dashes follow: zfs fills a line of 70 characters.
_OF = re.compile(r"^---- Permissions on (?P<dataset>.+?) -*$")
_GRANTED = re.compile(r"^\t(?:(?:user|group) (?P<who>.+)|(?P<all>everyone)) (?P<rights>\S+)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSeen:
    """A job as the daemon wrote it down: when it succeeded and failed last, and how many times in a row."""

    job: str
    last: datetime | None = None
    failed: datetime | None = None
    failures: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True)
class DaemonVerdict:
    """`state` is "waiting" until the daemon has looked; `why` it cannot do its work, where it cannot."""

    state: Literal["works", "fails", "waiting"]
    why: str = ""


def needed(*, prunes: bool, ships: bool) -> tuple[str, ...]:
    """The rights that the daemon's user needs on a dataset (zfs-allow(8))."""
    rights = ["snapshot", "userprop", "hold", "release"]
    if prunes:
        rights += ["destroy", "mount"]
    return (*rights, *(SENDING.split(",") if ships else ()))


def lacking(said: str, dataset: str, names: Sequence[str], wanted: Sequence[str]) -> tuple[str, ...]:
    """The rights that none of `names`, a user and its groups, was given: `said` is what zfs allow prints.

    A set of permissions (`@name`) may hold any, so that nothing is lacking where one was given.
    """
    given: set[str] = set()
    here, counts = False, False
    for line in said.splitlines():
        if found := _OF.match(line):
            here, counts = found["dataset"] == dataset, False
        elif not line.startswith("\t"):
            counts = line.startswith("Local+Descendent") or line.startswith("Local" if here else "Descendent")
        elif counts and (granted := _GRANTED.match(line)) and (granted["all"] or granted["who"] in names):
            given.update(granted["rights"].split(","))
    if any(right.startswith("@") for right in given):
        return ()
    return tuple(right for right in wanted if right not in given)


def of_jobs(jobs: Iterable[JobSeen], since: datetime) -> DaemonVerdict:
    """Judge an instance by its jobs. `since` is when the daemon was started: what was written down before is
    another's."""
    known = [job for job in jobs if job.job in AT_HOME]
    failing = [job for job in known if job.failures and job.failed and job.failed >= since]
    if failing:
        return DaemonVerdict("fails", "; ".join(f"{job.job}: {job.message}" for job in failing)[:MOST_SAID])
    watched = any(job.job == "watch" and job.last and job.last >= since for job in known)
    return DaemonVerdict("works" if watched else "waiting")
