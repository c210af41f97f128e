"""The texts that `zbackup init` shows: what was found, what is going to be done, how it ended."""

from collections.abc import Iterator, Sequence
from typing import Any

from zbackup.features.init.jobs.discover import Passed, is_ordinary
from zbackup.features.init.plan.presets import PRESETS, cost
from zbackup.features.init.setup import FoundServer, Newcomer, SetupStep
from zbackup.model.command_line import command_line


def found(servers: Sequence[FoundServer], known: dict[str, str], passed: Sequence[Passed]) -> Iterator[str]:
    """The servers, a line each."""
    for server in servers:
        yield (
            f"found {server.engine} {server.version or '(version not told)'} at "
            f"{server.where}{_state(server, known)}"
        )
    for each in passed:
        yield f"found {passed_over(each)}"


def passed_over(each: Passed) -> str:
    """Name a process that is not offered, and say why."""
    if each.process is None:
        return each.why
    return f"{each.process.program} (process {each.process.pid}, user {each.process.user}): {each.why}"


def _state(server: FoundServer, known: dict[str, str]) -> str:
    if name := known.get(server.where):
        return f": instance {name} already"
    homes = ", ".join(dict.fromkeys(home or "no dataset" for home in server.homes.values()))
    on = f", on {homes}" if homes else ""
    if is_ordinary(server):
        return f"{on}, run by the ordinary user {server.process.user}"
    return on if server.process.unit else f"{on}, run by {server.process.user} outside any unit of systemd"


def presets() -> Iterator[str]:
    """The retention policies, two lines each."""
    for each in PRESETS:
        yield f"  {each.name:<9} {each.reach}"
        yield f"            {cost(each)}"


def numbered(steps: Sequence[SetupStep]) -> Iterator[str]:
    """The steps, with what each runs or writes."""
    for number, step in enumerate(steps, 1):
        yield f"{number:>3}. {step.text}"
        if step.argv:
            yield f"       # {command_line(*step.argv)}"


def shape(step: SetupStep, *, done: bool) -> dict[str, Any]:
    """A step as JSON; contents are left out, of which some are secret."""
    return {
        "kind": step.kind,
        "instance": step.instance or None,
        "text": step.text,
        "path": step.path or None,
        "command": list(step.argv) or None,
        "done": done,
    }


def report_shape(
    config: str,
    added: Sequence[str],
    steps: Sequence[SetupStep],
    done: Sequence[SetupStep],
    not_protected: Sequence[str],
    *,
    seconds: float,
    configuration: str | None = None,
) -> dict[str, Any]:
    """See docs/reference/json.md. `configuration` is the text as it would be, of a run that does nothing."""
    told = {} if configuration is None else {"configuration": configuration}
    return told | {
        "dry_run": configuration is not None,
        "config": config,
        "added": list(added),
        "steps": [shape(step, done=step in done) for step in steps],
        "not_protected": list(not_protected),
        "seconds": seconds,
    }


def sending(new: Newcomer, public_key: str) -> Iterator[str]:
    """Say what is left to do on the host that receives."""
    copies = new.copies
    if copies is None or copies.kind != "ssh":
        return
    dataset = copies.to.split("/", 3)[3]
    yield (
        "On the host that receives, as root: "
        + command_line("zbackup", "init", "--receive", "--dataset", dataset, "--key", public_key)
    )
    if not any(key == "known_hosts" for key, _ in copies.table):
        yield (
            "Its host key is not known here: put the line that it prints there into ssh's "
            "known_hosts for root and "
            "the daemon, or set ssh.known_hosts (see [[instance.NAME.ship]] in the reference)"
        )
