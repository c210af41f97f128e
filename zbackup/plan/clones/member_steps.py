"""Decide how a new member joins a MongoDB replica set from a backup, by the set's own means. Pure.

A member may begin with the files of another one (MongoDB manual, "Resync a Member of a Replica Set", "Sync
by Copying Data Files from Another Member"): what it lacks it reads from the others' oplogs. Until the primary
adds it, it finds no entry of its own in the set's configuration, and takes part in nothing (state REMOVED).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

from zbackup.model.backup import Backup
from zbackup.model.command_line import command_line
from zbackup.model.errors import Refused
from zbackup.model.moment import local_text
from zbackup.model.mongod_settings import recorded_settings, setting

BIND, SET, PARAMETER = "bind_ip", "replSet", "setParameter"
PASSWORD = "PASSWORD"
"""The placeholder of a password, for the operator to fill in: servers tell them to nobody."""

FLAGS = (
    ("security.keyFile", "keyFile"),
    ("security.clusterAuthMode", "clusterAuthMode"),
    ("security.transitionToAuth", "transitionToAuth"),
    ("net.ipv6", "ipv6"),
    ("net.tls.mode", "tlsMode"),
    ("net.tls.certificateKeyFile", "tlsCertificateKeyFile"),
    ("net.tls.certificateKeyFilePassword", "tlsCertificateKeyFilePassword"),
    ("net.tls.clusterFile", "tlsClusterFile"),
    ("net.tls.clusterPassword", "tlsClusterPassword"),
    ("net.tls.CAFile", "tlsCAFile"),
    ("net.tls.clusterCAFile", "tlsClusterCAFile"),
    ("net.tls.CRLFile", "tlsCRLFile"),
    ("net.tls.disabledProtocols", "tlsDisabledProtocols"),
    ("net.tls.allowConnectionsWithoutCertificates", "tlsAllowConnectionsWithoutCertificates"),
    ("net.tls.allowInvalidCertificates", "tlsAllowInvalidCertificates"),
    ("net.tls.allowInvalidHostnames", "tlsAllowInvalidHostnames"),
    ("net.tls.FIPSMode", "tlsFIPSMode"),
    ("storage.directoryPerDB", "directoryperdb"),
    ("storage.wiredTiger.engineConfig.directoryForIndexes", "wiredTigerDirectoryForIndexes"),
    ("storage.wiredTiger.engineConfig.journalCompressor", "wiredTigerJournalCompressor"),
)
"""Without them it would not be let into the set, or not read the files: (setting, option)."""

SECRET = ("tlsCertificateKeyFilePassword", "tlsClusterPassword")
ROLES = ("shardsvr", "configsvr")
PARAMETERS = ("tls", "ssl", "openssl", "auth")
"""Beginnings of the parameters that say who talks to whom. Others may name production's files."""

OF_SSL = {
    "sslPEMKeyFile": "tlsCertificateKeyFile",
    "sslPEMKeyPassword": "tlsCertificateKeyFilePassword",
    "bind_ip_all": BIND,
}
"""Old names of options that differ by more than `ssl` for `tls`, and the new ones."""


def flags(server: Mapping[str, str], options: Mapping[str, Any], host: str) -> list[str]:
    """Options and values. `server` is Record.server, `options` the settings in it; `host` is where others
    find the member."""
    given = _given(server)
    told = [
        word
        for name, value in _all(server["replica_set"], options, host)
        if "config" not in options or name in given
        for word in _words(name, value)
    ]
    if "config" in options and BIND not in given:
        told += _words(BIND, _without_sockets(options, host, known=bool(given)))
    return told


def _without_sockets(options: Mapping[str, Any], host: str, *, known: bool) -> str:
    """Where to listen instead of where the file says, "" for there.

    A mongod takes the place of a Unix socket that is there: the file's would be production's. `known`: the
    backup says where production listens. Those of old do not.
    """
    bound = str(setting(options, "net.bindIp") or "").split(",")
    addresses = [each for each in bound if not each.strip().startswith("/")]
    if known and addresses == bound:
        return ""
    return ",".join(addresses) if known and addresses else f"localhost,{host}"


def _all(replica_set: str, options: Mapping[str, Any], host: str) -> Iterator[tuple[str, Any]]:
    yield SET, replica_set
    yield BIND, f"localhost,{host}"
    for path, name in FLAGS:
        given = setting(options, path)
        yield name, PASSWORD if name in SECRET and given else given
    if (role := setting(options, "sharding.clusterRole")) in ROLES:
        yield role, True
    parameters = setting(options, PARAMETER)
    for name, value in sorted(parameters.items() if isinstance(parameters, Mapping) else ()):
        if name.startswith(PARAMETERS):
            yield PARAMETER, f"{name}={value}"


def _given(server: Mapping[str, str]) -> set[str]:
    """What the original's own command line had, by the names that options have here."""
    return {OF_SSL.get(name, name.replace("ssl", "tls", 1)) for name in server.get("flags", "").split()}


def _words(name: str, value: Any) -> list[str]:
    """A switch has no value, and one that is off is not there."""
    if not value:
        return []
    return [f"--{name}"] if value is True else [f"--{name}", str(value)]


# Where the operator has to put in what only he knows.
HOST, PORT = "HOST", "PORT"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberStep:
    """A step for a person, and the commands for it: of a shell, or with `mongosh` of the primary's."""

    text: str
    run: tuple[str, ...] = ()
    mongosh: bool = False


def member_steps(backup: Backup, name: str, zone: ZoneInfo) -> tuple[MemberStep, ...]:
    """From the backup to a member; `name` is what its datasets and directory are called.

    Each dataset is mounted below one directory as it was below the root, so that what one says of the others
    (links) is true again with that directory before it. Raise Refused for a server that is in no set, and
    VerificationFailed for a record that no mongod's backup has.
    """
    server = backup.record.server
    if "replica_set" not in server:
        raise Refused(
            f"{backup.name} is of a server that is in no replica set: nobody can follow it "
            f"(zbackup clone create without --as-replica-of makes a server of its own)"
        )
    root = f"/var/lib/{name}"
    dbpath = root + backup.record.fact("dbpath")
    mounts = sorted(_mounts(backup, name), key=lambda mount: len(mount[1]))
    unmounted = ("zfs", "clone", "-o", "canmount=noauto")
    clone = [command_line(*unmounted, "-o", f"mountpoint={root}{at}", s, d) for s, at, d in mounts]
    made = [d for _, _, d in mounts]
    clone += [command_line("zbackup", "mount", *made), command_line("zfs", "set", "canmount=on", *made)]
    return (
        MemberStep(
            text="Clone the backup. The new datasets are yours: zbackup neither lists nor destroys them",
            run=tuple(clone),
        ),
        MemberStep(
            text="Let links in the files lead to the clones. As they are they lead to production's files",
            run=(_relink(dbpath, root),),
        ),
        *_joining(backup, dbpath, zone),
        MemberStep(
            text="When nobody needs it any more: rs.remove('HOST:PORT'), end its mongod, and",
            run=tuple(command_line("zfs", "destroy", d) for _, _, d in reversed(mounts)),
        ),
    )


def _joining(backup: Backup, dbpath: str, zone: ZoneInfo) -> tuple[MemberStep, ...]:
    """From the files to a member that has caught up."""
    record, server = backup.record, backup.record.server
    owner = f"the user with the id {server['uid']}" if "uid" in server else "the user"
    return (
        MemberStep(
            text=f"Start a mongod {record.server_version} on them, as {owner} that owns the files; the "
            f"settings of the set's members (TLS, say) must be its own too, and {HOST} a name that its "
            f"certificate is for, if it has one. It waits for the set (REMOVED)",
            run=(_start(server, dbpath),),
        ),
        MemberStep(
            text="At the primary, add it",
            run=(f"rs.add({{ host: '{HOST}:{PORT}', priority: 0, votes: 0, hidden: true }})",),
            mongosh=True,
        ),
        MemberStep(
            text="It becomes a SECONDARY and catches up, as long as the primary's oplog begins before "
            f"{local_text(record.as_of_or_taken, zone)}, which the backup is of; else it stays "
            "RECOVERING: undo this, and begin with a newer backup",
            run=("rs.status().members", "rs.printReplicationInfo()"),
            mongosh=True,
        ),
    )


def _mounts(backup: Backup, name: str) -> list[tuple[str, str, str]]:
    """Snapshot, where its dataset was mounted, and the clone's name."""
    members = backup.record.members
    several = len(members) > 1
    return [
        (str(snapshot), at, f"{snapshot.dataset.partition('/')[0]}/{name}{f'-{number}' if several else ''}")
        for number, (snapshot, (_, at)) in enumerate(zip(backup.snapshots, members, strict=True))
    ]


def _relink(dbpath: str, root: str) -> str:
    body = f'ln -sfn {command_line(root)}"$(readlink -f "$1")" "$1"'
    each = ("-exec", "sh", "-c", body, "sh", "{}", ";")
    return command_line("find", dbpath, "-type", "l", "-lname", "/*", *each)


def _start(server: dict[str, str], dbpath: str) -> str:
    """With the original's own file of settings, if it has one, and what else it was told."""
    options = recorded_settings(server)
    home = dbpath.rstrip("/")
    own = ["--dbpath", dbpath, "--port", PORT, "--logpath", f"{home}/mongod.log"]
    own += ["--pidfilepath", f"{home}/mongod.pid", "--fork"]
    given = ["--config", str(options["config"])] if "config" in options else []
    return command_line(server.get("mongod", "mongod"), *given, *flags(server, options, HOST), *own)
