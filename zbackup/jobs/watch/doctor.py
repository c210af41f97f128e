"""Looks at what plan.health.doctor judges: settings of server and datasets, room, memory, clock, ports."""

from pathlib import Path

from zbackup.catalog.local import Catalog
from zbackup.jobs.context import Context
from zbackup.jobs.watch.status import written_by_dataset
from zbackup.model.errors import CommandFailed
from zbackup.model.finding import Finding
from zbackup.model.server import ServerFacts
from zbackup.plan.health import doctor, doctor_mongodb
from zbackup.plan.health.advice_on_arrangements import Expected
from zbackup.plan.health.clone_ports import shared_with_connections
from zbackup.plan.health.pool_space import of_space
from zbackup.plan.recovery.window import usable_bases
from zbackup.proc.run import run
from zbackup.zfs.facts import ZfsFacts

ASK_CLOCK = ("timedatectl", "show", "--property=NTPSynchronized", "--value")
ASK_LIMIT_S = 10.0
NET = Path("/proc/sys/net/ipv4")


def examine(ctx: Context, catalog: Catalog, server: ServerFacts | None, expected: Expected) -> list[Finding]:
    """List what could be better, and what will hurt one day. Raise CommandFailed when ZFS cannot be asked."""
    zfs = ZfsFacts(ctx.zfs.runner)
    newest = max(usable_bases(catalog.backups), key=lambda b: b.createtxg, default=None)
    facts = doctor.DoctorFacts(
        tuning=server.tuning if server else None,
        datasets=catalog.datasets,
        settings=zfs.settings([d.name for d in catalog.datasets]),
        every=expected.snapshot_every,
        arc_limit=zfs.arc_limit(),
        clock_synchronised=clock_synchronised(),
        held_ms=newest.record.lock_held_ms if newest else None,
        ceiling_s=expected.lock_ceiling,
    )
    rates = written_by_dataset(catalog.backups, ctx.clock.now())
    oplog = doctor_mongodb.examine(
        server.oplog if server else None, expected.snapshot_every, facts.datasets, facts.settings
    )
    ports = shared_with_connections(
        ctx.cloning.ports, _kernel_says("ip_local_port_range"), _kernel_says("ip_local_reserved_ports")
    )
    space = of_space(zfs.pool(catalog.datasets[0].pool), rates, facts.settings)
    return [*doctor.examine(facts), *oplog, *ports, *space]


def clock_synchronised() -> bool | None:
    """What systemd says of the clock; None where it is not asked."""
    try:
        return run(ASK_CLOCK, mutates=False, timeout=ASK_LIMIT_S).strip() == "yes"
    except CommandFailed:
        return None


def _kernel_says(setting: str) -> str:
    try:
        return (NET / setting).read_text()
    except OSError:
        return ""
