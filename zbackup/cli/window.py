"""zbackup window"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from zbackup import app
from zbackup.cli import at_address, cluster_option, json_shapes, on_cluster, prose, tables
from zbackup.cli.at_address import AddressOptions, Rebuilt, all_at
from zbackup.cli.command_context import AnyInstance, At, Done, conclude, on_each
from zbackup.cli.options import Options
from zbackup.cli.output import emit, plain
from zbackup.jobs.cluster.members import facts_of
from zbackup.jobs.context import Context
from zbackup.jobs.watch.window import WindowReport, window, window_at
from zbackup.model.errors import UsageError
from zbackup.model.moment import local_text
from zbackup.model.retention import Retention
from zbackup.plan.cluster import common, newest_or_none

NARROWEST = 30
"""Columns that a picture has at the least, however narrow the terminal is."""

FINEST_S = 30.0
"""Age at the right edge."""

TICKS = (
    ("1 min", 60.0),
    ("10 min", 600.0),
    ("1 h", 3600.0),
    ("6 h", 6 * 3600.0),
    ("1 d", 86400.0),
    ("1 w", 7 * 86400.0),
    ("1 mon", 30 * 86400.0),
    ("1 y", 365 * 86400.0),
    ("10 y", 3650 * 86400.0),
)


LEGEND = "# can be restored   x gap   = promised by the retention policy   | backup"


def picture(report: WindowReport, rules: Retention, width: int) -> list[str]:
    """The picture in `width` columns: a scale, what can be restored, a row for each tier, a legend."""
    by_tier: dict[str, list[datetime]] = {tier.name: [] for tier in rules.tiers}
    others = []
    for kept in report.kept:
        names = {reason.tier.name for reason in kept.reasons if reason.tier}
        for name in names:
            by_tier[name].append(kept.backup.record.taken)
        if not names:
            others.append(kept.backup.record.taken)
    marked = [*by_tier.items(), ("other backups" if by_tier else "backups", others)]
    labels = max(len(name) for name in ("restorable", *(name for name, _ in marked))) + 2
    promised = report.promised
    oldest = min([*(r.after for r in report.window.ranges), *([promised] if promised else [])])
    axis = _Axis(report.now, oldest, max(width - labels, NARROWEST))
    rows = [
        ("", axis.scale()),
        ("restorable", _restorable(report, axis)),
        *([("promised", axis.bar([(promised, report.now)], "=", " "))] if promised else []),
        *((name, axis.marks(taken)) for name, taken in marked),
    ]
    return [*(f"{name:<{labels}}{content}".rstrip() for name, content in rows), LEGEND]


def _restorable(report: WindowReport, axis: "_Axis") -> str:
    """Ranges, with at least one column for each gap however short it is."""
    drawn = list(axis.bar([(r.after, r.to) for r in report.window.ranges], "#", " "))
    for gap in report.window.gaps:
        for column in range(axis.column(gap.after), axis.column(gap.to) + 1):
            drawn[column] = "x"
    return "".join(drawn)


class _Axis:
    """Columns by the logarithm of age."""

    def __init__(self, now: datetime, oldest: datetime, width: int) -> None:
        self._now, self._width = now, width
        self._span = math.log(max((now - oldest).total_seconds(), 60.0) / FINEST_S)

    def column(self, moment: datetime) -> int:
        return self._of_age((self._now - moment).total_seconds())

    def _of_age(self, seconds: float) -> int:
        fraction = math.log(max(seconds, FINEST_S) / FINEST_S) / self._span
        return max(0, min(self._width - 1, round((self._width - 1) * (1 - fraction))))

    def scale(self) -> str:
        """Ages above the columns they belong to, as far as they have room."""
        line = list(" " * (self._width - 3) + "now")
        for label, seconds in TICKS:
            start = self._of_age(seconds)
            around = line[max(0, start - 1) : start + len(label) + 1]
            inside = math.log(seconds / FINEST_S) <= self._span
            if inside and start + len(label) <= self._width and all(c == " " for c in around):
                line[start : start + len(label)] = label
        return "".join(line)

    def bar(self, spans: Iterable[tuple[datetime, datetime]], full: str, empty: str) -> str:
        line = [empty] * self._width
        for after, to in spans:
            begin, end = self.column(after), self.column(min(to, self._now))
            line[begin : end + 1] = full * (end + 1 - begin)
        return "".join(line)

    def marks(self, moments: Iterable[datetime]) -> str:
        line = [" "] * self._width
        for moment in moments:
            line[self.column(moment)] = "|"
        return "".join(line)


HELP = """Show which moments can be restored, and every gap with its cause.

Of one instance or all of them. Computed from what each backup recorded of the log it holds, and from the
server's own log files as they are now. The picture's scale gets finer towards the right, where now is.

\b
zbackup window
zbackup window shop --json
zbackup window shop --at offsite    what the backups at a destination can restore
zbackup window --from s3://bucket/db1 --key FILE    the same on a host without a configuration
zbackup window --cluster shop       what all members of a sharded MongoDB hold
"""


@dataclass(frozen=True, slots=True)
class SeenWindow:
    """An instance's window; of an address that no configuration names, `address` is that."""

    report: WindowReport
    address: str = ""


def command(  # noqa: PLR0913  a parameter is an option of the command line
    options: Options,
    instance: AnyInstance = None,
    at: At = None,
    origin: at_address.Origin = None,
    key: at_address.Keys = None,
    endpoint: at_address.Endpoint = "",
    identity: at_address.Identity = None,
    known_hosts: at_address.KnownHosts = None,
    sudo: at_address.Sudo = False,
    named_instance: at_address.Named = "",
    cluster: cluster_option.Name = "",
) -> None:
    if cluster:
        cluster_option.require_no_instance(instance)
        if origin:
            raise UsageError("--cluster takes members from the configuration: --at DESTINATION, not --from")
        _of_cluster(options, cluster, at)
        return

    def inspect(ctx: Context) -> SeenWindow:
        return SeenWindow(window_at(ctx, app.choose_destination(ctx, at)) if at else window(ctx))

    if at and origin:
        raise UsageError("which destination, --at or --from? Name one")
    elsewhere = AddressOptions(
        key=key,
        endpoint=endpoint,
        identity=identity,
        known_hosts=known_hosts,
        sudo=sudo,
        instance=named_instance,
    ).of(origin, instance, options)
    if elsewhere:
        conclude(
            options, "window", all_at(options, "window", elsewhere, _at_destination), shape=_shape, text=_text
        )
        return
    at_address.require_address(origin)
    conclude(options, "window", on_each(options, "window", instance, inspect), shape=_shape, text=_text)


def _at_destination(rebuilt: Rebuilt) -> SeenWindow:
    """The window of what lies at an address. No retention policy is known of it: nothing is promised."""
    report = window_at(rebuilt.context, rebuilt.context.destinations[0])
    trust = report.on_trust.partition(";")[0]
    return SeenWindow(replace(report, promised=None, lacking=(), on_trust=trust), rebuilt.at.address)


def _of_cluster(options: Options, name: str, at: str | None) -> None:
    """Show each member's window, and what all of them hold."""
    with on_cluster.on_members(options, "window", name) as (cluster, contexts):
        members = on_cluster.inspect_members(contexts, at)
        reports = [
            Done(c, SeenWindow(window_at(c, app.choose_destination(c, at)) if at else window(c)))
            for c in contexts
        ]
    facts, zone = facts_of(members), contexts[0].zone
    spans = common(facts)
    reach = newest_or_none(facts, zone)
    shape = {
        "cluster": cluster.name,
        "common": plain(spans),
        "newest": str(reach) if reach else None,
        "members": [{"instance": d.context.instance} | _shape(d) for d in reports],
    }
    lines = [f"Cluster {cluster.name}"]
    for span in spans:
        shown = f"after {local_text(span.after, zone)} and up to {local_text(span.to, zone)}"
        lines.append(f"Any whole second {shown} is covered by all members.")
    if not spans:
        lines.append("No moment is covered by all members: take a backup of each, and another of each later.")
    if reach:
        lines.append(
            f"The newest cluster time that all of their logs reach, by their servers' word, is {reach}."
        )
    emit(options, "window", shape, lambda: "\n".join([*lines, "", _text(reports)]))


def _shape(done: Done[SeenWindow]) -> dict[str, Any]:
    report = done.result.report
    return {
        "now": plain(report.now),
        "ranges": plain(report.window.ranges),
        "gaps": plain(report.window.gaps),
        "looked_at_live_log": report.window.saw_live_log,
        "on_trust": report.on_trust,
        "closed": report.closed,
        "unreadable": json_shapes.unreadable(report.unreadable),
        "as_they_are": [b.name for b in report.as_they_are],
        "promised": {
            "window": str(report.retention.window),
            "after": plain(report.promised),
            "kept": not report.lacking,
            "lacking": [{"after": plain(after), "to": plain(to)} for after, to in report.lacking],
        }
        if report.promised
        else None,
        **({"place": done.result.address} if done.result.address else {}),
    }


def _text(reports: list[Done[SeenWindow]]) -> str:
    shown = ("\n".join(render(d.context, d.result.report, d.result.address)) for d in reports)
    return prose.fold("\n\n".join(shown))


def render(ctx: Context, report: WindowReport, address: str = "") -> list[str]:
    """One instance's window for people; `address` is the address that it is at, "" for a configured one."""

    def say(moment: datetime) -> str:
        return local_text(moment.replace(microsecond=0), ctx.zone)

    title = f"Instance {ctx.instance}{f' at {address}' if address else ''}"
    if report.as_they_are and not report.window.ranges:
        return [
            title,
            *tables.as_they_are(ctx.instance, report.as_they_are, alone=True),
            *tables.moved_away(report.promoted),
            *json_shapes.unreadable_lines(report.unreadable),
        ]
    if not report.window.ranges:
        return [
            title,
            *tables.nothing_yet(report.promoted),
            *json_shapes.unreadable_lines(report.unreadable),
        ]
    lines = [
        f"{title} ({ctx.zone.key})",
        *picture(report, report.retention, tables.terminal_width()),
        *tables.moved_away(report.promoted),
        "",
    ]
    promised = report.promised
    older = [r for r in report.window.ranges[:-1] if promised and r.to <= promised]
    if older:
        lines.append(f"Before the promised window: {len(older)} ranges since {say(older[0].after)}.")
    for each in report.window.ranges[len(older) :]:
        end = "now" if each.live else say(each.to)
        lines.append(f"Any moment after {say(each.after)} and up to {end} can be restored.")
    for gap in report.window.gaps:
        if promised is None or gap.to > promised:
            lines.append(f"GAP after {say(gap.after)} up to {say(gap.to)}, {gap.cause}: {gap.why}.")
    lines += [*_notes(report)]
    lines += json_shapes.unreadable_lines(report.unreadable)
    lines += tables.as_they_are(ctx.instance, report.as_they_are)
    promise = f"the last {report.retention.window}"
    if promised and not report.lacking:
        lines.append(f"The promise is kept: any moment of {promise}.")
    lines += [f"The promise of {promise} lacks {say(after)} to {say(to)}." for after, to in report.lacking]
    return lines


def _notes(report: WindowReport) -> Iterator[str]:
    if report.note:
        yield f"What is after the last backup is not counted: {report.note}."
    if report.on_trust:
        yield f"On trust: {report.on_trust}."
    if report.closed:
        yield f"Backups of another release series do not count: {report.closed}."
