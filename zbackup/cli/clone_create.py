"""zbackup clone create"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import typer
from pydantic_core import PydanticCustomError

from zbackup.cli import completion, json_shapes, tables
from zbackup.cli.command_context import OneInstance, on_one
from zbackup.cli.options import Options
from zbackup.cli.output import emit, plain
from zbackup.cli.restore_report import Asked, headline
from zbackup.cli.restore_target import find_target, proves
from zbackup.config.units import duration
from zbackup.jobs.clones.lifecycle import CloneStatus
from zbackup.jobs.context import Context
from zbackup.jobs.dev_clones.create import CreateOptions, CreatePlan, create, plan_create, plan_source
from zbackup.jobs.restore.local_source import LOCAL
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.model.errors import UsageError, ZbackupError
from zbackup.model.moment import local_text
from zbackup.model.target import BackupAsItIs, parse_target
from zbackup.plan.clones.clone_name import require_good
from zbackup.plan.clones.lease import end_of
from zbackup.plan.clones.member_steps import MemberStep, member_steps


def plan_member(ctx: Context, options: CreateOptions) -> tuple[MemberStep, ...]:
    """Look, and change nothing. Raise UsageError, NotFound, or Refused for a server that is in no set."""
    if options.target or options.parent or options.count > 1:
        raise UsageError("a member is made of a backup, one at a time: no --at, --from-clone or --count")
    name = options.name or f"{ctx.instance.lower()}-member"
    require_good(name)
    return member_steps(plan_source(ctx, options), name, ctx.zone)


HELP = """Make a dev clone: production's data, writable, with a server of its own.

From the newest backup, from another (--snapshot), or as of a moment (--at), recovered as a restore does it.
Nothing is copied, so it takes seconds and no space, and production does not wait. The server cannot harm
production: it has an identity, a port of 127.0.0.1 and passwords of its own, replicates nobody and runs no
events. It is masked as configured before anybody can reach it.

\b
zbackup clone create                                  the next free name, the newest backup
zbackup clone create shop --name dev1 --lease 8h      the daemon destroys it after 8 hours
zbackup clone create shop --at "yesterday 10:02"      the moment before the incident
zbackup clone create shop --at before-drop:shop.orders   before the last statement that dropped it
zbackup clone create shop --name team --count 5       team-1 to team-5
zbackup clone create shop --from-clone dev-base       a child of a clone that was masked
zbackup clone dsn dev1                                how to reach it
"""

Name = Annotated[
    str,
    typer.Option(
        "--name", help="Name of the clone (default: INSTANCE-dev1, or the next free one).", show_default=False
    ),
]
At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="TARGET",
        help="As of this moment, or what else restore --to takes, such as label:LABEL or before-drop:TABLE.",
        autocompletion=completion.targets,
        show_default=False,
    ),
]
Snapshot = Annotated[
    str,
    typer.Option("--snapshot", metavar="NAME", help="Of this backup instead of the newest; see list."),
]
FromClone = Annotated[
    str,
    typer.Option(
        "--from-clone",
        metavar="CLONE",
        help="Of a dev clone's newest snapshot instead of production's, or of its snapshot named.",
        autocompletion=completion.clones,
        show_default=False,
    ),
]
Port = Annotated[
    str, typer.Option("--port", metavar="PORT", help="Port of 127.0.0.1 (auto: one of the configured).")
]
Lease = Annotated[
    str | None,
    typer.Option(
        "--lease",
        metavar="TIME",
        help="How long it is kept, such as 8h, or never (default: configured).",
        show_default=False,
    ),
]
Count = Annotated[int, typer.Option("--count", min=1, max=1000, help="Number of clones, NAME-1 and so on.")]
KeepAccounts = Annotated[
    bool, typer.Option("--keep-accounts", help="Leave production's accounts and passwords as they are.")
]
OwnRoot = Annotated[
    bool,
    typer.Option(
        "--own-root",
        help="Give the developers' account all privileges on the clone; production's accounts keep theirs.",
    ),
]
AsReplica = Annotated[
    str,
    typer.Option(
        "--as-replica-of",
        metavar="production",
        help="Let it follow production, from where the snapshot ends; for mongodb, only print the steps.",
        show_default=False,
    ),
]
Keep = Annotated[bool, typer.Option("--keep", help="Keep what was made, unreachable, when it fails.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan, change nothing.")]


def command(  # noqa: PLR0913  a parameter is an option of the command line
    options: Options,
    instance: OneInstance = None,
    *,
    name: Name = "",
    at: At = None,
    snapshot: Snapshot = "latest",
    from_clone: FromClone = "",
    port: Port = "auto",
    lease: Lease = None,
    count: Count = 1,
    keep_accounts: KeepAccounts = False,
    own_root: OwnRoot = False,
    as_replica_of: AsReplica = "",
    keep: Keep = False,
    dry_run: DryRun = False,
) -> None:
    if at is not None and (snapshot != "latest" or from_clone):
        raise UsageError("say what to clone: --at MOMENT, or a snapshot (--snapshot, --from-clone)")
    named = parse_target(at) if at is not None else None
    with on_one(options, "clone create", instance) as ctx:
        if as_replica_of not in ("", "production", ctx.instance):
            raise UsageError(f'"{as_replica_of}" cannot be followed: write --as-replica-of production')
        proof = proves(ctx, named) if named else None
        target = find_target(ctx, LOCAL, named, RestoreOptions(proves=proof), sure=True) if named else None
        if isinstance(target, BackupAsItIs):
            snapshot, target = target.name, None
        choice = CreateOptions(
            name=name,
            target=target,
            proves=proof,
            snapshot="" if snapshot == "latest" else snapshot,
            parent=from_clone,
            port=_port(port),
            lease=ctx.cloning.lease if lease is None else lease_of(lease),
            keep_accounts=keep_accounts,
            own_root=own_root,
            as_replica=bool(as_replica_of),
            keep=keep,
            count=count,
        )
        if as_replica_of and ctx.engine_name == "mongodb":
            _require_none_for_a_member(
                {
                    "--port": port != "auto",
                    "--lease": lease is not None,
                    "--keep-accounts": keep_accounts,
                    "--own-root": own_root,
                    "--keep": keep,
                }
            )
            steps = plan_member(ctx, choice)
            emit(options, "clone create", steps_shape(steps), lambda: render_steps(steps, ctx.instance))
            return
        asked = Asked(ctx.instance, ctx.zone, target) if target else None
        if asked:
            ctx.progress.note(headline(asked))
        if dry_run:
            plan = plan_create(ctx, choice)
        else:
            made = list(_told(options, create(ctx, choice)))
    if dry_run:
        emit(
            options,
            "clone create",
            plan_shape(plan, asked),
            lambda: render_plan(plan, ctx),
        )
    else:
        emit(options, "clone create", report_shape(made), lambda: render(made, ctx.zone))


def _require_none_for_a_member(given: Mapping[str, bool]) -> None:
    """Raise UsageError for an option of a clone that is made: of a member only the steps are told."""
    if lost := next((option for option, is_given in given.items() if is_given), ""):
        raise UsageError(
            f"{lost} has no use here: a member of the replica set is made by the set's own means"
        )


def render_steps(steps: Sequence[MemberStep], instance: str) -> str:
    """How a member is added to a set from a backup, for people."""
    lines = [f"Nothing was made. A member joins {instance}'s replica set by the set's own means:"]
    for number, step in enumerate(steps, 1):
        lines += [f"{number}. {step.text}:", *(f"     {command}" for command in step.run)]
    return "\n".join(lines)


def steps_shape(steps: Sequence[MemberStep]) -> dict[str, Any]:
    return {"steps": [{"text": s.text, "run": list(s.run), "mongosh": s.mongosh} for s in steps]}


def lease_of(text: str) -> float | None:
    """Seconds; None for never. Raise UsageError."""
    if text == "never":
        return None
    try:
        return duration(text)
    except PydanticCustomError:
        raise UsageError(f'"{text}" is no length of time: write "8h", "90m" or "never"') from None


def _port(text: str) -> int:
    if text == "auto":
        return 0
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65536):
        raise UsageError(f'"{text}" is no port: write a number, or auto')
    return int(text)


def _told(options: Options, made: Iterator[CloneStatus]) -> Iterator[CloneStatus]:
    """Of each clone; also, where one fails, of those that were made before it, which are there."""
    done: list[CloneStatus] = []
    try:
        for status in made:
            done.append(status)
            yield status
    except ZbackupError as failure:
        if done:
            names = ", ".join(status.clone.name for status in done)
            failure.args = (f"{failure} (made before: {names})",)
        raise


def plan_shape(plan: CreatePlan, asked: Asked | None) -> dict[str, Any]:
    return {
        "dry_run": True,
        "names": list(plan.names),
        "snapshot": json_shapes.backup(plan.backup),
        "at": plain(asked.moment) if asked else None,
        "mask": list(plan.masks),
    }


def report_shape(made: Sequence[CloneStatus]) -> dict[str, Any]:
    return {"dry_run": False, "clones": [json_shapes.clone(status) for status in made]}


def render_plan(plan: CreatePlan, ctx: Context) -> str:
    """The plan for people."""
    as_of = plan.backup.record.as_of
    origin = plan.backup.name if plan.backup.snapshots else "a new snapshot"
    rows = [
        ["would make", ", ".join(plan.names)],
        ["of", f"{origin}, data as of {local_text(as_of, ctx.zone) if as_of else 'unknown'}"],
    ]
    if plan.restore:
        rows.append(["replayed to", local_text(plan.restore.target.at, ctx.zone)])
    if plan.masks:
        rows.append(["masked by", ", ".join(plan.masks)])
    rows.append(["port", f"one of {ctx.cloning.ports[0]}-{ctx.cloning.ports[1]}"])
    return tables.aligned(rows)


def render(made: Sequence[CloneStatus], zone: ZoneInfo) -> str:
    """What was made, for people."""
    return "\n\n".join(_one(status, zone) for status in made)


def _one(status: CloneStatus, zone: ZoneInfo) -> str:
    clone = status.clone
    target = json_shapes.target_of(clone)
    end = end_of(clone)
    rows = [
        [f"{clone.name} runs", f"on 127.0.0.1:{clone.port}"],
        ["  data as of", local_text(target, zone) if target else "unknown"],
        ["  masked", "yes" if clone.masked else "no"],
        ["  lease ends", local_text(end, zone) if end else "never"],
        ["  connect with", status.connect],
        ["  password", f"in {status.password}" if status.password else "as in production"],
    ]
    return tables.aligned(rows)
