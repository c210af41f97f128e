"""A sharded MongoDB: a config server and shards, each an instance by itself, restored to one cluster time."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from zbackup.model.errors import NotRecoverable, UsageError, VerificationFailed
from zbackup.model.log import ClusterTime
from zbackup.model.mongod_settings import recorded_settings, setting

Role = Literal["configsvr", "shardsvr"]
CONFIG, SHARD = "configsvr", "shardsvr"

_HOST = r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}"
_ADDRESS = re.compile(rf"([^/,\x00-\x1f\x7f-\x9f]{{1,64}})/(({_HOST}):([1-9][0-9]{{0,4}}))")
_KEY = re.compile(r"[A-Za-z0-9+/=]{6,1024}")
"""The content that mongod takes of a --keyFile (MongoDB manual, "Keyfiles")."""
LAST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster as it is configured: the names of the instances of its config server and of its shards."""

    name: str
    config: str
    shards: tuple[str, ...]

    @property
    def members(self) -> tuple[str, ...]:
        """All of them, the config server first: the shards ask it when they start."""
        return (self.config, *self.shards)


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """The addresses of a restored cluster's members: of each by the name of its replica set, as HOST:PORT.

    `config` names the config server's set. `key` is what the members know each other by, where the original
    asks for logins.
    """

    config: str
    hosts: Mapping[str, str]
    key: str = field(default="", repr=False)

    def connection(self, replica_set: str) -> str:
        """SET/HOST:PORT, as a cluster's metadata have it. Raise KeyError for a set that is no member's."""
        return f"{replica_set}/{self.hosts[replica_set]}"

    def address(self, replica_set: str) -> tuple[str, int]:
        """Host and port of that. Raise KeyError for a set that is no member's."""
        host, _, port = self.hosts[replica_set].rpartition(":")
        return host, int(port)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMembership:
    """A recovered member by its own metadata: its cluster's id, "" for none; and, on the config server
    alone, the replica sets of all shards."""

    cluster: str
    shards: tuple[str, ...] = ()


class TooLate(NotRecoverable):
    """A member's log does not tell all of what was before a cluster time. Up to `latest` it does.

    It ends before, or does not say whether transactions that stand prepared then were committed.
    """

    def __init__(self, message: str, latest: ClusterTime) -> None:
        super().__init__(message)
        self.latest = latest


def is_host(text: str) -> bool:
    """Whether it can be a host in an address: a name, or an IPv4 address."""
    return re.fullmatch(_HOST, text) is not None


def addresses(config: str, shards: Sequence[str], key: str = "") -> Addresses:
    """The addresses of all members, each as SET/HOST:PORT.

    Raise UsageError unless they are those of a cluster, and the key is one; what it is is not told.
    """
    if key and not _KEY.fullmatch(key):
        raise UsageError("--cluster-key: a key is 6 to 1024 of the characters of base64, in one line")
    hosts: dict[str, str] = {}
    for text in (config, *shards):
        found = _ADDRESS.fullmatch(text)
        if not found or int(found[4]) > LAST_PORT:
            raise UsageError(
                f'"{text}" is no address of a member: SET/HOST:PORT, such as rs0/db1.example:27018'
            )
        if found[1] in hosts:
            raise UsageError(f"the replica set {found[1]} is named twice: each has one restored member")
        if found[2] in hosts.values():
            raise UsageError(f"{found[2]} is named twice: each member has a port of its own")
        hosts[found[1]] = found[2]
    if not shards:
        raise UsageError("--configdb goes with a --shard SET/HOST:PORT for each shard")
    return Addresses(config=config.partition("/")[0], hosts=hosts, key=key)


def role_of(server: Mapping[str, str]) -> str:
    """What a backup's server was in its cluster, by Record.server: "configsvr", "shardsvr" or ""."""
    try:
        role = setting(recorded_settings(server), "sharding.clusterRole")
    except VerificationFailed:
        return ""
    return role if role in (CONFIG, SHARD) else ""


def require_same_sets(known: set[str], members: set[str]) -> None:
    """Raise VerificationFailed unless a config server knows these shards alone, by their replica sets."""
    if unknown := ", ".join(sorted(members - known)):
        raise VerificationFailed(
            f"at that time the config server knew no shard whose replica set is {unknown}: it was not part "
            "of the cluster then; leave it out of [cluster]"
        )
    if lacking := ", ".join(sorted(known - members)):
        raise VerificationFailed(
            f"at that time the cluster had a shard whose replica set is {lacking}, and no member of "
            "[cluster] is that: add its instance"
        )
