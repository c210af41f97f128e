"""Install and start the service: which files, which commands, and which are not needed any more. Pure."""

import re
from collections.abc import Mapping, Sequence

from zbackup.features.init.setup import HostFacts, SetupStep
from zbackup.model.command_line import command_line
from zbackup.model.errors import Refused

UNITS = (
    "zbackup.service",
    "zbackup-clone@.service",
    "zbackup-helper.socket",
    "zbackup-helper@.service",
    "zbackup-drill.socket",
    "zbackup-drill@.service",
    "zbackup-read.socket",
    "zbackup-read@.service",
    "zbackup-cloner.socket",
    "zbackup-cloner@.service",
    "zbackup-web.service",
)
"""File names of the units, in the source's systemd/ and in the wheel."""

SETTINGS = {"zbackup.sysusers.conf": "/etc/sysusers.d", "zbackup.tmpfiles.conf": "/etc/tmpfiles.d"}
"""Files that make the user and the directories, and where they belong."""

UNIT_DIRECTORY = "/etc/systemd/system"
WRITTEN_PROGRAM = "/usr/local/bin/zbackup"
"""The program as the units in the source name it."""

DROP_INS = tuple(
    f"{UNIT_DIRECTORY}/{unit}.d/servers.conf" for unit in ("zbackup.service", "zbackup-read@.service")
)
"""The groups of the servers' files, for the daemon and for who reads for the web page; init's own, which it
alone writes."""
_LISTED = re.compile(r"^SupplementaryGroups=(.*)$", re.M)
_GROUPS = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")

STARTED = ("zbackup-helper.socket", "zbackup-drill.socket", "zbackup.service")
USER = "zbackup"
PERMISSIONS = "snapshot,destroy,mount,userprop,hold,release"
SENDING = "send,bookmark"
SERVER_GROUPS = frozenset({"mariadb", "mongod", "mongodb", "percona"})
"""Groups of servers' files as packages make them; a server may run in one that gives more, such as sudo."""


def install(
    texts: Mapping[str, str], facts: HostFacts, there: Mapping[str, str], *, replace: bool = False
) -> list[SetupStep]:
    """The steps that put the service's files in place and make its user.

    `texts` are the files by name, `there` the text of each file of ours at its place (path -> text). Raise
    Refused when one of them was changed by somebody, and is not to be replaced.
    """
    if not facts.systemd:
        return []
    steps = [
        SetupStep(kind="write", text=f"install the unit {name}", path=path, content=content, mode=0o644)
        for name, path, content in _wanted(texts, facts)
        if there.get(path) != content
    ]
    changed = [step.path for step in steps if step.path in there]
    if changed and not replace:
        raise Refused(
            f"{', '.join(changed)}: not as this version of zbackup brings it; keep your settings in a "
            "drop-in "
            "(systemctl edit) and run zbackup install-service --replace, or leave it as it is"
        )
    if steps or not facts.user:
        steps.append(_run("make the user zbackup", "systemd-sysusers", "zbackup.conf"))
        steps.append(_run("make its directories", "systemd-tmpfiles", "--create", "zbackup.conf"))
        steps.append(_run("let systemd read the units", "systemctl", "daemon-reload"))
    return steps


def _wanted(texts: Mapping[str, str], facts: HostFacts) -> list[tuple[str, str, str]]:
    """Name, place and text of each file that no package has brought."""
    found = []
    for name in UNITS:
        path = f"{UNIT_DIRECTORY}/{name}"
        if facts.units.get(name, path) == path:
            found.append((name, path, texts[name].replace(WRITTEN_PROGRAM, facts.program)))
    for name, directory in SETTINGS.items():
        path = f"{directory}/zbackup.conf"
        if facts.units.get(name, path) == path:
            found.append((name, path, texts[name]))
    return found


def delegate(datasets: Sequence[str], *, ships: bool) -> list[SetupStep]:
    """Let the daemon, which is not root, take, prune and send snapshots of these datasets."""
    rights = f"{PERMISSIONS},{SENDING}" if ships else PERMISSIONS
    return [
        _run(f"let the daemon take and prune snapshots of {name}", "zfs", "allow", "-u", USER, rights, name)
        for name in datasets
    ]


def needs_group(groups: Sequence[str]) -> bool:
    """Whether a server's files belong to a group that the unit does not name."""
    return not SERVER_GROUPS.isdisjoint(groups)


def join_groups(groups: Sequence[str], there: Mapping[str, str]) -> list[SetupStep]:
    """Let the daemon, and who reads for the web page, read the logs of servers whose files belong to another
    group than the units name. `there` are the drop-ins that are there (path -> text), whose groups stay."""
    listed = (_LISTED.findall(there.get(path, "")) for path in DROP_INS)
    joined = {name for lines in listed for name in _GROUPS.findall(" ".join(lines))}
    wanted = sorted({*SERVER_GROUPS.intersection(groups), *joined})
    if not wanted:
        return []
    content = (
        "# Written by zbackup init: the groups of the servers' "
        f"files.\n[Service]\nSupplementaryGroups={' '.join(wanted)}\n"
    )
    written = [
        SetupStep(
            kind="write",
            text=f"let {who} read files of the group {', '.join(wanted)}",
            path=path,
            content=content,
            mode=0o644,
        )
        for path, who in zip(DROP_INS, ("the daemon", "the web page's reader"), strict=True)
        if there.get(path) != content
    ]
    return [*written, _run("let systemd read that", "systemctl", "daemon-reload")] if written else []


def start(facts: HostFacts) -> list[SetupStep]:
    """Start the service, now and at boot."""
    if not facts.systemd:
        return []
    return [_run("start the daemon, now and at boot", "systemctl", "enable", "--now", *STARTED)]


def reload(facts: HostFacts, groups: Sequence[str] = ()) -> list[SetupStep]:
    """Let a daemon that runs read its configuration again; one that needs another group gets it only when it
    is started again (systemd.exec(5), "SupplementaryGroups=")."""
    if not (facts.systemd and facts.active):
        return []
    if needs_group(groups):
        text = "start the daemon again, with the servers' groups and the configuration"
        return [_run(text, "systemctl", "try-restart", "zbackup.service")]
    return [_run("let the daemon read the configuration", "systemctl", "reload", "zbackup.service")]


def stopped(facts: HostFacts, steps: Sequence[SetupStep]) -> str:
    """Say that the daemon stays stopped; "" where it runs, or is started."""
    if not facts.systemd or facts.active or any(STARTED[-1] in step.argv for step in steps):
        return ""
    start = command_line("systemctl", "enable", "--now", *STARTED)
    return f"the daemon does not run, and nothing is done on schedule: {start}"


def by_hand(facts: HostFacts) -> str:
    """Say how the daemon is started where there is no systemd; "" where there is."""
    if facts.systemd:
        return ""
    return (
        f"systemd does not run here: have your supervisor keep `{facts.program} daemon` running as root, "
        "for without it nothing is done on schedule"
    )


def _run(text: str, *argv: str) -> SetupStep:
    return SetupStep(kind="run", text=text, argv=argv)
