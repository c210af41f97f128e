"""zbackup check"""

from typing import Any

import typer

from zbackup import app
from zbackup.cli import shapes, tables
from zbackup.cli.options import Options
from zbackup.cli.working import AnyInstance, Done, conclude, on_each
from zbackup.config.load import load
from zbackup.jobs.context import Context
from zbackup.jobs.watch.check import CheckReport, check
from zbackup.model.finding import Finding
from zbackup.model.log import how_many

HELP = """Check that backups can be taken and restored.

Of one instance or all of them. Looks at the configuration, the datasets, the database server with its
privileges and settings, where its files lie, the lock that would be taken, the backups there are, room,
memory and the clock. Says of each problem why it matters and what puts it right. Changes nothing.
Ends with the exit status of the first critical finding.

\b
zbackup check
zbackup check shop --json
"""

WIDEST = len("critical")


def command(options: Options, instance: AnyInstance = None) -> None:
    settings = load(options.config)

    def action(ctx: Context) -> CheckReport:
        return check(ctx, app.expected(settings, settings.instance[ctx.instance], ctx.clock.now()))

    outcomes = on_each(options, "check", instance, action)
    conclude(options, "check", outcomes, shape=_shape, text=_text)
    reports = [o.result for o in outcomes if isinstance(o, Done)]
    if status := next((r.exit_status for r in reports if r.exit_status), 0):
        raise typer.Exit(status)


def _shape(done: Done[CheckReport]) -> dict[str, Any]:
    return {"health": done.result.health, "findings": [shapes.finding(f) for f in done.result.findings]}


def _text(reports: list[Done[CheckReport]]) -> str:
    return "\n\n".join(render(done.result) for done in reports)


def render(report: CheckReport) -> str:
    """One instance's findings, one a line, below the sum of them."""
    lines = [line for finding in report.findings for line in _lines(finding)]
    counts = (
        f"{_count(report, 'critical')} critical, {how_many(_count(report, 'warning'), 'warning', 'warnings')}"
    )
    return "\n".join([f"Instance {report.instance}: {report.health} ({counts})", *lines])


def _lines(finding: Finding) -> list[str]:
    """The finding, and below it why it matters and what puts it right."""
    first = f"  {finding.severity:<{WIDEST}}  {finding.subject}: {' '.join(finding.text.split())}"
    more = [finding.why] if finding.why else []
    more += [tables.remedy(finding.fix)] if finding.fix else []
    return [first, *(f"            {text}" for text in more)]


def _count(report: CheckReport, severity: str) -> int:
    return sum(f.severity == severity for f in report.findings)
