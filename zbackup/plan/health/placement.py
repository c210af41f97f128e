"""Check that everything a server keeps lies on the instance's datasets. Pure."""

from collections.abc import Mapping, Sequence

from zbackup.model.errors import Refused
from zbackup.model.relocation import owner_of
from zbackup.model.server import DataPath
from zbackup.model.snapshot import Dataset

Members = tuple[tuple[str, str], ...]
"""Pairs of a dataset and where it is mounted."""


def needed_datasets(homes: Mapping[str, str], configured: Sequence[str]) -> list[str]:
    """The datasets to name so that one snapshot covers everything; [] where that cannot be.

    `homes` has the dataset that each of the server's files lies on ("" for none), `configured` those that are
    named now.
    """
    if not homes or not all(homes.values()):
        return []
    wanted = [*configured, *sorted(set(homes.values()))]
    if len({name.partition("/")[0] for name in wanted}) > 1:
        return []
    outer = [n for n in wanted if not any(n.startswith(f"{other}/") for other in wanted)]
    return list(dict.fromkeys(outer))


def require_one_snapshot_covers(data_paths: Sequence[DataPath], datasets: Sequence[Dataset]) -> Members:
    """The members of the snapshot: (dataset, mountpoint) of all `datasets`, parents first.

    Raise Refused, with the list of what lies where, when something the server needs is elsewhere, or when
    the datasets are on more than one pool: only within a pool is a snapshot atomic. Also when one of them is
    the system's root: what a recovered server must not see is taken out of its sight, and that cannot be; and
    when the snapshots of one cannot be read.
    """
    pools = sorted({d.pool for d in datasets})
    if len(pools) > 1:
        listed = "; ".join(f"{d.name} on {d.pool}" for d in datasets)
        raise Refused(
            f"the datasets are on {len(pools)} pools, and no snapshot is atomic across pools: {listed}"
        )
    members = tuple((d.name, d.mountpoint) for d in datasets if d.mountpoint is not None)
    mountpoints = [m for _, m in members]
    outside = [p for p in data_paths if owner_of(p.path, mountpoints) is None]
    if outside:
        listed = "; ".join(f"{p.what} in {p.path}" for p in outside)
        covered = ", ".join(f"{name} ({mountpoint})" for name, mountpoint in members) or "none is mounted"
        raise Refused(f"not on the instance's datasets: {listed}. The datasets are {covered}")
    if roots := [name for name, mountpoint in members if mountpoint == "/"]:
        raise Refused(
            f"{roots[0]} is mounted at /: a recovered server could not be kept from the original's files. "
            f"Give the database a dataset of its own, and name only that in datasets"
        )
    if problems := [d.closed for d in datasets if d.closed]:
        raise Refused("; ".join(problems))
    return tuple(sorted(members, key=lambda member: member[0]))
