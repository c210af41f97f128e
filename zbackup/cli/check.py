"""zbackup check"""

from typing import Annotated, Any

import typer

from zbackup import app
from zbackup.cli import cluster_option, json_shapes, on_cluster, tables
from zbackup.cli.command_context import AnyInstance, Done, conclude, on_each
from zbackup.cli.options import Options
from zbackup.cli.output import emit
from zbackup.config.load import load
from zbackup.jobs.cluster.check import check_cluster
from zbackup.jobs.context import Context
from zbackup.jobs.watch.check import CheckReport, check
from zbackup.model.command_line import command_line
from zbackup.model.errors import UsageError
from zbackup.model.finding import Finding
from zbackup.model.log import how_many

HELP = """Check that backups can be taken and restored.

Of one instance or all of them. Looks at the configuration, the datasets, the database server with its
privileges and settings, where its files lie, the lock that would be taken, the backups there are, free
space, memory and the clock. Says why each problem matters and how to fix it. Changes nothing.
--drill also tries it: the newest backup is recovered into a server that nobody can reach, its tables are
checked, and it is removed again (as root). That finds what no setting tells.
Ends with the exit status of the first critical finding.

\b
zbackup check
zbackup check shop --json
zbackup check shop --drill      and recover the newest backup, to see that it restores
zbackup check --cluster shop    all members of a sharded MongoDB, and whether they have a common window
"""

WIDEST = len("critical")


def command(
    options: Options,
    instance: AnyInstance = None,
    with_drill: Annotated[
        bool, typer.Option("--drill", help="Also recover the newest backup, and remove it again.")
    ] = False,
    cluster: cluster_option.Name = "",
) -> None:
    if cluster:
        if with_drill:
            raise UsageError(
                f"to drill a cluster, run "
                f"{command_line('zbackup', 'verify', '--cluster', cluster, '--drill')}"
            )
        cluster_option.require_no_instance(instance)
        _of_cluster(options, cluster)
        return
    settings = load(options.config)

    def action(ctx: Context) -> CheckReport:
        known = app.expected(settings, settings.instance[ctx.instance], ctx.clock.now())
        return check(ctx, known, with_drill=with_drill)

    outcomes = on_each(options, "check", instance, action)
    conclude(options, "check", outcomes, shape=_shape, text=_text)
    reports = [o.result for o in outcomes if isinstance(o, Done)]
    if status := next((r.exit_status for r in reports if r.exit_status), 0):
        raise typer.Exit(status)


def _of_cluster(options: Options, name: str) -> None:
    """Check each member, and all of them as one."""
    settings = load(options.config)
    with on_cluster.on_members(options, "check", name) as (cluster, contexts):
        reports = [
            check(c, app.expected(settings, settings.instance[c.instance], c.clock.now())) for c in contexts
        ]
        whole = check_cluster(cluster, on_cluster.inspect_members(contexts, None))
    rows = [
        {"instance": c.instance, "cluster": None} | _rows(r) for c, r in zip(contexts, reports, strict=True)
    ]
    rows.append({"instance": None, "cluster": cluster.name} | _rows(whole))
    emit(options, "check", rows, lambda: "\n\n".join(map(render, (*reports, whole))))
    if status := next((r.exit_status for r in (*reports, whole) if r.exit_status), 0):
        raise typer.Exit(status)


def _rows(report: CheckReport) -> dict[str, Any]:
    return {"health": report.health, "findings": [json_shapes.finding(f) for f in report.findings]}


def _shape(done: Done[CheckReport]) -> dict[str, Any]:
    return _rows(done.result)


def _text(reports: list[Done[CheckReport]]) -> str:
    return "\n\n".join(render(done.result) for done in reports)


def render(report: CheckReport) -> str:
    """One instance's findings, one a line, below the sum of them."""
    lines = [line for finding in report.findings for line in _lines(finding)]
    counts = (
        f"{_count(report, 'critical')} critical, {how_many(_count(report, 'warning'), 'warning', 'warnings')}"
    )
    return "\n".join([f"{_titled(report.instance)}: {report.health} ({counts})", *lines])


def _titled(name: str) -> str:
    """What was checked. No instance's name has a space."""
    return name[0].upper() + name[1:] if " " in name else f"Instance {name}"


def _lines(finding: Finding) -> list[str]:
    """The finding, and below it why it matters and what puts it right."""
    first = f"  {finding.severity:<{WIDEST}}  {finding.subject}: {' '.join(finding.text.split())}"
    more = [finding.why] if finding.why else []
    more += [tables.remedy(finding.fix)] if finding.fix else []
    return [first, *(f"            {text}" for text in more)]


def _count(report: CheckReport, severity: str) -> int:
    return sum(f.severity == severity for f in report.findings)
