"""Clones that nobody finished, or that do not run: what each is, and the command that mends it. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from zbackup.model.clone import Clone
from zbackup.model.command_line import command_line
from zbackup.model.finding import Finding
from zbackup.plan.clones.clone_name import recovery_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A clone that was not finished and that nobody works on. `running`: its server runs all the same."""

    clone: Clone
    running: bool


def is_unfinished(clone: Clone) -> bool:
    """Whether somebody has to finish or remove it, unless it is being worked on right now.

    What was fetched belongs to its restore, and is in the way of nobody while that is there. A switch that is
    half done is told of by itself.
    """
    return clone.kind == "copy" or clone.state not in ("ready", "switching", "switched", "undoing")


def runs_with_host(clone: Clone) -> bool:
    """Whether its server is to run whenever the host does: somebody may have stopped it."""
    return clone.kind == "dev" and clone.on_boot and not clone.stopped and clone.state == "ready"


def of_those_down(names: Sequence[str]) -> Iterator[Finding]:
    """List the findings about clones that are to run with the host and do not."""
    for name in names:
        yield Finding(
            severity="warning",
            subject="clones",
            text=f'the clone {name} does not run, and is to run with the host (start = "boot")',
            why="the daemon starts it when it starts itself; why it could not is in its log",
            fix=command_line("zbackup", "clone", "start", name),
            key=name,
        )


def of_leftovers(found: Sequence[Leftover]) -> Iterator[Finding]:
    """List the findings about them, a warning for each."""
    for each in found:
        what, fix = _told(each.clone)
        yield Finding(
            severity="warning",
            subject="clones",
            text=what + (", and its server runs" if each.running else ""),
            why=_WHY,
            fix=fix,
            key=each.clone.name,
        )


_WHY = "it occupies room, and keeps the backups that it was made of from being pruned"


def _told(clone: Clone) -> tuple[str, str]:
    name = clone.name
    destroy = command_line("zbackup", "clone", "destroy", name)
    recovery = recovery_of(name)
    match clone.state:
        case "resetting":
            return f"the clone {name} is half reset", command_line("zbackup", "clone", "reset", name)
        case "promoting":
            return f"the clone {name} is half copied", command_line("zbackup", "clone", "promote", name)
        case "destroying":
            return f"the clone {name} is half destroyed", destroy
        case "failed":
            return f"the clone {name} failed, and was kept for a look", destroy
    match clone.kind:
        case "restore":
            text = f"the restore {name} was never finished (run again with --name {name} it starts afresh)"
        case "log":
            text = f"the copy of the log {name}, of the restore {recovery}, is left"
        case "copy":
            text = (
                f"what was fetched for the restore {recovery} is left (the same restore, with --name "
                f"{recovery}, continues with it)"
            )
        case _:
            text = f"the clone {name} was never finished"
    return text, destroy
