"""Restore one member of a sharded cluster on its own host, while others restore theirs.

Every host is told the same cluster time and the same addresses. So each decides by itself what was committed
before, and changes its own metadata to where all restored members will be.
"""

import socket
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from ipaddress import ip_address

from zbackup.jobs.clones import clone_datasets
from zbackup.jobs.clones.claim import announce
from zbackup.jobs.context import Context
from zbackup.jobs.restore.make_plan import RestorePlan
from zbackup.jobs.restore.options import Finish, RestoreOptions
from zbackup.jobs.restore.restore import plan_restore
from zbackup.jobs.restore.source import BackupSource
from zbackup.model.clone import Clone
from zbackup.model.cluster import CONFIG, SHARD, Addresses, role_of
from zbackup.model.errors import Refused, Taken, UsageError
from zbackup.model.log import ClusterTime
from zbackup.model.recovery import RecoveryFiles, Serving
from zbackup.plan.clones.clone_name import require_wanted

_OPTION = {CONFIG: "--configdb", SHARD: "--shard"}


def as_member(
    ctx: Context, at: ClusterTime, options: RestoreOptions, source: BackupSource, addresses: Addresses
) -> RestoreOptions:
    """The options with which restore() makes the member that the instance's backup is of.

    Raise UsageError or Refused when that is none, or not among the addresses, or the others would not reach
    it there; Taken when its address is not one of this host; and what plan_restore() raises. Changes nothing.
    """
    if options.name:
        require_wanted(options.name, ctx.cloning.reserved)
    where = source.context(ctx)
    serving = _serving(ctx, plan_restore(ctx, at, options, source), addresses)
    finish = Finish(begin=partial(_begin, where, serving), hand_over=partial(_ready, where), serving=serving)
    return replace(options, finish=finish)


def _serving(ctx: Context, plan: RestorePlan, addresses: Addresses) -> Serving:
    servers = [backup.record.server for backup in (plan.base, plan.log) if backup]
    # A set that became a shard behind the base was none when that was taken.
    role = next((found for server in servers if (found := role_of(server))), "")
    replica_set = servers[0].get("replica_set", "")
    if not role:
        raise Refused(
            f"{ctx.instance} is neither a config server nor a shard by {plan.base.name} "
            "(sharding.clusterRole): leave out --configdb and --shard"
        )
    if replica_set not in addresses.hosts:
        raise UsageError(
            f"{ctx.instance} is of the replica set {replica_set}, which is not among the addresses: add "
            f"{_OPTION[role]} {replica_set}/HOST:PORT, on every host"
        )
    if (role == CONFIG) != (replica_set == addresses.config):
        raise UsageError(
            f"{ctx.instance} is a {'config server' if role == CONFIG else 'shard'} by {plan.base.name}: its "
            f"address goes with {_OPTION[role]}"
        )
    host, port = addresses.address(replica_set)
    others = {addresses.address(member)[0] for member in addresses.hosts} - {host}
    require_reachable(host, _own_address(host), others)
    return Serving(port=port, replica_set=replica_set, role=role, host=host, addresses=addresses)


def _own_address(host: str) -> str:
    """Raise Taken, before anything is made, for an address of another host: no server could listen there."""
    with socket.socket() as probe:
        try:
            probe.bind((host, 0))
        except (OSError, UnicodeError) as refused:
            why = getattr(refused, "strerror", None) or refused
            raise Taken(
                f"{host} cannot be listened on: {why}. It has to be this host's own address, as the other "
                "hosts know it"
            ) from refused
        return str(probe.getsockname()[0])


def require_reachable(host: str, address: str, others: Collection[str]) -> None:
    """Raise UsageError for a host whose address, as it is known here, leads no other host to it. Pure."""
    found = ip_address(address)
    if found.is_unspecified:
        raise UsageError(f"{host} is no host's address: name one by which the other hosts reach this one")
    if found.is_loopback and not all(map(_is_loopback, others)):
        raise UsageError(
            f"{host} is {address} on this host, and no other host reaches that: give its IP address, or mend "
            "/etc/hosts"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _begin(ctx: Context, serving: Serving, clone: Clone) -> Clone:
    return announce(
        ctx,
        replace(
            clone,
            port=serving.port,
            host=serving.host,
            replica_set=serving.replica_set,
            role=serving.role,
        ),
    )


def _ready(ctx: Context, _: RecoveryFiles, clone: Clone) -> Clone:
    return clone_datasets.mark_ready(ctx, clone)
