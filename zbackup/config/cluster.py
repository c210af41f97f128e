"""Settings of a sharded cluster, whose members are instances."""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from zbackup.config import units
from zbackup.config.lines import Path_, Problem
from zbackup.config.table import SettingsTable
from zbackup.model.cluster import Cluster as ClusterMembers


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not value:
        units.refuse('a list of instances, such as ["shard0", "shard1"]')
    if not all(isinstance(name, str) and name for name in value):
        units.refuse('a list of instances, such as ["shard0", "shard1"]')
    return tuple(value)


class ClusterSettings(SettingsTable):
    """A sharded MongoDB, restored to one cluster time with `--cluster NAME`."""

    config: Annotated[str, Field(min_length=1)] = Field(
        description="the instance of a member of the config server's replica set"
    )
    shards: Annotated[tuple[str, ...], BeforeValidator(_names)] = Field(
        description="the instances of the shards, one member of each shard's replica set"
    )

    def members(self, name: str) -> ClusterMembers:
        """The cluster as jobs know it."""
        return ClusterMembers(name, self.config, self.shards)


def of_clusters(raw: dict[str, Any], instances: dict[str, dict[str, Any]]) -> Iterator[Problem]:
    """Every cluster has a good name, and members that are instances of MongoDB, each once in the file."""
    tables = raw.get("cluster")
    owner: dict[str, str] = {}
    for name, table in (tables if isinstance(tables, dict) else {}).items():
        if not units.instance_name_is_valid(name):
            text = "expected a name of at most 40 of a-z, 0-9, - and _, beginning with a letter or digit"
            yield ("cluster", name), text
        for path, member in _members(table):
            where: Path_ = ("cluster", name, *path)
            if member not in instances:
                yield where, f'there is no instance "{member}"'
            elif instances[member].get("engine") != "mongodb":
                yield where, f'the instance "{member}" is no mongodb'
            elif member in owner:
                yield where, f'"{member}" is a member of {owner[member]} already'
            owner.setdefault(member, name)


def _members(table: object) -> Iterator[Problem]:
    if not isinstance(table, dict):
        return
    if isinstance(table.get("config"), str):
        yield ("config",), table["config"]
    shards = table.get("shards")
    for number, shard in enumerate(shards if isinstance(shards, list) else []):
        if isinstance(shard, str):
            yield ("shards", number), shard
