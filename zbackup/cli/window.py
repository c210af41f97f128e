"""zbackup window"""

from datetime import datetime
from typing import Any

from zbackup import app
from zbackup.cli import shapes, tables
from zbackup.cli.options import Options
from zbackup.cli.output import plain
from zbackup.cli.timeline import picture
from zbackup.cli.working import AnyInstance, At, Done, conclude, on_each
from zbackup.jobs.context import Context
from zbackup.jobs.watch.window import WindowReport, window, window_at
from zbackup.model.moment import local_text

HELP = """Show which moments can be restored, and every gap with its cause.

Of one instance or all of them. Computed from what each backup recorded of the log it holds, and from the
server's own log files as they are now. The picture's scale gets finer towards the right, where now is.

\b
zbackup window
zbackup window shop --json
zbackup window shop --at offsite    what the backups at a destination can restore
"""


def command(options: Options, instance: AnyInstance = None, at: At = None) -> None:
    def look(ctx: Context) -> WindowReport:
        return window_at(ctx, app.choose_destination(ctx, at)) if at else window(ctx)

    conclude(options, "window", on_each(options, "window", instance, look), shape=_shape, text=_text)


def _shape(done: Done[WindowReport]) -> dict[str, Any]:
    report = done.result
    return {
        "now": plain(report.now),
        "ranges": plain(report.window.ranges),
        "gaps": plain(report.window.gaps),
        "looked_at_live_log": report.window.looked,
        "unreadable": shapes.unreadable(report.unreadable),
        "as_they_are": [b.name for b in report.as_they_are],
        "promised": {
            "window": str(done.result.retention.window),
            "after": plain(report.promised),
            "kept": not report.lacking,
            "lacking": [{"after": plain(after), "to": plain(to)} for after, to in report.lacking],
        },
    }


def _text(reports: list[Done[WindowReport]]) -> str:
    return "\n\n".join("\n".join(render(d.context, d.result)) for d in reports)


def render(ctx: Context, report: WindowReport) -> list[str]:
    """One instance's window for people."""

    def say(moment: datetime) -> str:
        return local_text(moment.replace(microsecond=0), ctx.zone)

    if report.as_they_are and not report.window.ranges:
        return [f"Instance {ctx.instance}", *tables.as_they_are(ctx.instance, report.as_they_are, alone=True)]
    if not report.window.ranges:
        return [
            f"Instance {ctx.instance}",
            "Nothing can be restored yet: take a backup with zbackup snapshot.",
            *shapes.unreadable_lines(report.unreadable),
        ]
    lines = [
        f"Instance {ctx.instance} ({ctx.zone.key})",
        *picture(report, report.retention, tables.terminal_width()),
        "",
    ]
    older = [r for r in report.window.ranges[:-1] if r.to <= report.promised]
    if older:
        lines.append(f"Before the promised window: {len(older)} ranges since {say(older[0].after)}.")
    for each in report.window.ranges[len(older) :]:
        end = "now" if each.live else say(each.to)
        lines.append(f"Any moment after {say(each.after)} and up to {end} can be restored.")
    for gap in report.window.gaps:
        if gap.to > report.promised:
            lines.append(f"GAP after {say(gap.after)} up to {say(gap.to)}, {gap.cause}: {gap.why}.")
    if report.note:
        lines.append(f"What is after the last backup is not counted: {report.note}.")
    lines += shapes.unreadable_lines(report.unreadable)
    lines += tables.as_they_are(ctx.instance, report.as_they_are)
    promise = f"the last {report.retention.window}"
    if not report.lacking:
        lines.append(f"The promise is kept: any moment of {promise}.")
    lines += [f"The promise of {promise} lacks {say(after)} to {say(to)}." for after, to in report.lacking]
    return lines
