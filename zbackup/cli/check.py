"""zbackup check"""

from typing import Any

import typer

from zbackup import app
from zbackup.cli import shapes
from zbackup.cli.options import Options
from zbackup.cli.working import AnyInstance, Done, conclude, on_each
from zbackup.config.load import load
from zbackup.jobs.check import CheckReport, check
from zbackup.jobs.context import Context
from zbackup.model.finding import Finding

HELP = """Check that backups can be taken and restored.

Of one instance or all of them. Looks at the configuration, the datasets, the database server with its
privileges and settings, where its files lie, the lock that would be taken, the backups there are, room,
memory and the clock. Says of what is not well why it matters and what puts it right. Changes nothing.
Ends with the exit status of the first error found.

\b
zbackup check
zbackup check shop --json
"""

MARKS = {"ok": "ok     ", "advice": "advice ", "warning": "WARNING", "error": "ERROR  "}


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
    return {"findings": [shapes.finding(f) for f in done.result.findings]}


def _text(reports: list[Done[CheckReport]]) -> str:
    return "\n\n".join(render(done.result) for done in reports)


def render(report: CheckReport) -> str:
    """One instance's findings, one a line, below the sum of them."""
    lines = [line for finding in report.findings for line in _lines(finding)]
    verdict = "not ready" if report.exit_status else "ready"
    counts = f"{_count(report, 'error')}, {_count(report, 'warning')}"
    return "\n".join([f"Instance {report.instance}: {verdict} ({counts})", *lines])


def _lines(finding: Finding) -> list[str]:
    """The finding, and below it why it matters and what puts it right."""
    first = f"  {MARKS[finding.severity]}  {finding.subject}: {' '.join(finding.text.split())}"
    more = [finding.why] if finding.why else []
    more += [f"$ {finding.fix}"] if finding.fix else []
    return [first, *(f"           {text}" for text in more)]


def _count(report: CheckReport, severity: str) -> str:
    number = sum(f.severity == severity for f in report.findings)
    return f"{number} {severity}{'' if number == 1 else 's'}"
