"""Do the steps of `zbackup init` one after the other, and say how the host is then."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from zbackup import app
from zbackup.cli import tables
from zbackup.cli.check import render
from zbackup.cli.options import Options
from zbackup.cli.output import tell
from zbackup.cli.progress import shown
from zbackup.config.load import load
from zbackup.features.init import words
from zbackup.features.init.draft import Draft
from zbackup.features.init.jobs.verdict import verdict
from zbackup.features.init.plan import service
from zbackup.features.init.plan.steps import script_command
from zbackup.features.init.setup import HostFacts, Newcomer, SetupStep
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.context import Context
from zbackup.jobs.drills.drill import prove_once
from zbackup.jobs.watch.check import CheckReport, check
from zbackup.model.command_line import command_line
from zbackup.model.errors import DatabaseError, ZbackupError
from zbackup.plan.checked_tables import checked


@dataclass(slots=True, kw_only=True)
class Finished:
    """The end of a run: what was done, what failed, and what `check` finds."""

    done: list[SetupStep] = field(default_factory=list)
    failed: list[ZbackupError] = field(default_factory=list)
    reports: list[CheckReport] = field(default_factory=list)

    @property
    def status(self) -> int:
        """The exit status of the first critical finding."""
        return next((report.exit_status for report in self.reports if report.exit_status), 0)

    def not_protected(self, plan: Draft) -> list[str]:
        """The reasons why servers are not protected, what failed among them, one text each."""
        return [*(" ".join(str(failure).split()) for failure in (*self.failed, *plan.problems)), *plan.left]

    def text(self, plan: Draft, by_hand: str, seconds: float) -> Iterator[str]:
        """The report for people."""
        for report in self.reports:
            yield render(report)
            yield ""
        for new in plan.newcomers:
            yield from words.sending(new, _public(new))
            yield from _safe_keeping(new)
        if by_hand:
            yield by_hand
        if not (self.failed or self.status or plan.problems):
            names = ", ".join(report.instance for report in self.reports)
            how = "set up, but for the daemon" if by_hand else "protected"
            yield f"{how}: {names}, after {tables.length(seconds)}"
            yield "next: zbackup status; zbackup restore --to -5m shows that you can go back"


def protect(
    options: Options,
    config: Path,
    wanted: Sequence[SetupStep],
    act: Callable[[SetupStep], None],
    plan: Draft,
    facts: HostFacts,
) -> Finished:
    """Do the steps. What fails before the configuration is in place ends it; a backup or drill that fails
    does not keep the service from being started, for it tries again. In the end the daemon says itself
    whether it can do its work."""
    finished = Finished()
    refused: set[str] = {new.name for new in plan.newcomers if _needs_account(new, wanted)}
    for step in wanted:
        if step.kind in ("snapshot", "drill"):
            if step.instance in refused:
                continue
            try:
                _first(options, config, step)
            except ZbackupError as failure:
                refused.add(step.instance)
                finished.failed.append(failure)
                continue
        else:
            act(step)
        finished.done.append(step)
    for new in plan.newcomers:
        if _needs_account(new, wanted):
            finished.failed.append(
                DatabaseError(
                    f"{new.name}: the account {new.user} is not made yet, and nothing is backed up "
                    "until it is: run "
                    f"{script_command(new)}, and then zbackup init again"
                )
            )
    finished.reports += _checked(options, config)
    if facts.systemd and not service.stopped(facts, wanted):
        with shown(options) as progress:
            finished.failed += verdict(load(config), app.clock(), progress)
    return finished


def _needs_account(new: Newcomer, wanted: Sequence[SetupStep]) -> bool:
    return any(step.kind == "account-file" and step.instance == new.name for step in wanted)


def _first(options: Options, config: Path, step: SetupStep) -> None:
    settings = load(config)
    with shown(options) as progress:
        ctx: Context = app.context(settings, settings.instance[step.instance], progress)
        if step.kind == "snapshot":
            taken = snapshot(ctx)
            tell(f"{step.instance}: backup {taken.backup.name} taken")
        else:
            passed = prove_once(ctx, wait=settings.instance[step.instance].schedule.drill_limit)
            tell(
                f"{step.instance}: {passed.name} restored in {tables.length(passed.seconds)}, "
                f"{checked(passed.tables or 0, passed.unchecked or 0)}: passed"
            )


def _checked(options: Options, config: Path) -> Iterator[CheckReport]:
    settings = load(config)
    for instance in settings.instance.values():
        with shown(options) as progress:
            ctx = app.context(settings, instance, progress)
            yield check(ctx, app.expected(settings, instance, ctx.clock.now()))


def _public(new: Newcomer) -> str:
    """The public half of the key that its copies are sent with."""
    paths = [value.strip('"') for key, value in (new.copies.table if new.copies else ()) if key == "identity"]
    try:
        return Path(f"{paths[0]}.pub").read_text().strip() if paths else ""
    except OSError:
        return ""


def _safe_keeping(new: Newcomer) -> Iterator[str]:
    if new.copies and new.copies.kind == "s3":
        table = dict(new.copies.table)
        path = table["key"].split('"')[1]
        yield (
            f"Keep a copy of {path} where neither this host nor the bucket is: without that key nothing "
            "there can be read"
        )
        if "public_key" in table:
            yield (
                "To read the bucket you also need the private key of public_key. Test both keys on a "
                "host that has it: "
                + command_line(
                    "zbackup", "key", "--from", new.copies.to, "--key", "FILE", "--private-key", "FILE"
                )
            )
        if "access_key" not in table:
            yield (
                "The bucket's credentials are found as the AWS tools find them: the daemon's user has to "
                "find them, too, or set access_key and secret_key ([[instance.NAME.ship]] in the reference)"
            )
