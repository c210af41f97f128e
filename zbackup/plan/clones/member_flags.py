"""Decide what a new member's mongod is told on its command line, so that its set lets it in. Pure.

A server says what all its settings are (getCmdLineOpts), those from its file and those from its command line,
under the file's names. What was in a file is not repeated, as the file may have changed since.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from zbackup.model.mongod_settings import setting

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
