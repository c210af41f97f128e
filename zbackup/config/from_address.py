"""Settings for a host that has no configuration: made of an address, and of what lies there.

They are written as TOML and read by the loader as any file is, so that what is printed for the new host is
what the restore itself was made with.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic_core import PydanticCustomError

from zbackup.config.load import parse
from zbackup.config.rules import inside
from zbackup.config.s3 import url
from zbackup.config.settings import Settings
from zbackup.config.ship import DestinationAddress, S3Address, Ship, ZfsAddress, parse_address
from zbackup.config.units import dataset_name_is_valid, instance_name_is_valid
from zbackup.model.errors import ConfigError, UsageError, VerificationFailed
from zbackup.model.printable import printable


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressAccess:
    """An address, and how it is reached.

    `keys` are files with the keys of a bucket, the first the newest, and `private_keys` those of what was
    encrypted for a public key, which is `public_key`. `endpoint` is the address of a server that is not AWS.
    `identity`, `known_hosts` and `sudo` are about ssh.
    """

    to: DestinationAddress
    keys: tuple[Path, ...] = ()
    private_keys: tuple[Path, ...] = ()
    public_key: str = ""
    endpoint: str = ""
    identity: Path | None = None
    known_hosts: Path | None = None
    sudo: bool = False

    @property
    def tables(self) -> dict[str, dict[str, object]]:
        """Return what the configuration says of it in addition to the address, by table."""
        files = [{"file": str(path)} for path in self.keys]
        private = [{"file": str(path)} for path in self.private_keys]
        s3 = {
            "endpoint": self.endpoint or None,
            "path_style": bool(self.endpoint) or None,
            "key": files[0] if files else None,
            "old_keys": files[1:] or None,
            "public_key": (self.keys and self.public_key) or None,
            "private_key": private or None,
        }
        ssh = {
            "identity": str(self.identity) if self.identity else None,
            "known_hosts": str(self.known_hosts) if self.known_hosts else None,
            "sudo": self.sudo or None,
        }
        return {name: given for name, table in (("ssh", ssh), ("s3", s3)) if (given := _given(table))}

    def ship(self) -> Ship:
        """The destination as a configuration has it."""
        return Ship.model_validate({"to": str(self.to), **self.tables})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The contents of a configuration that is to be written: the instance `name`, and the `members` that its
    backups name.

    `below` is the dataset that it is recovered below, "" where nothing is; `server` the program to recover
    with.
    """

    name: str
    engine: str
    members: Sequence[str]
    below: str = ""
    server: Path | None = None


def access(
    address: str,
    *,
    keys: Sequence[Path] = (),
    endpoint: str = "",
    identity: Path | None = None,
    known_hosts: Path | None = None,
    sudo: bool = False,
) -> AddressAccess:
    """The address that somebody wrote, with what belongs to it. Raise UsageError for what does not."""
    which = "--from"
    try:
        to = parse_address(address)
        which = "--endpoint"
        endpoint = url(endpoint) if endpoint else ""
        if "@" in endpoint:
            raise UsageError(
                "--endpoint holds a user or password, which everybody could read: give credentials as the "
                "AWS tools find them, such as in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            )
    except PydanticCustomError as wrong:
        raise UsageError(f"{which} wants {wrong.message()}") from wrong
    remote = isinstance(to, ZfsAddress) and to.host
    if not isinstance(to, S3Address) and (keys or endpoint):
        raise UsageError("--key and --endpoint are about a bucket: --from s3://bucket/prefix")
    if not remote and (identity or known_hosts or sudo):
        raise UsageError("--identity, --known-hosts and --sudo are about another host: --from ssh://...")
    return AddressAccess(
        to=to,
        keys=tuple(named(path) for path in keys),
        endpoint=endpoint,
        identity=named(identity) if identity else None,
        known_hosts=named(known_hosts) if known_hosts else None,
        sudo=sudo,
    )


def named(path: Path) -> Path:
    """A file as a configuration names it. Raise UsageError where it cannot."""
    if not str(path).isprintable():
        raise UsageError(f"{str(path)!a} has characters that no configuration can name: give it another name")
    return path.absolute()


def require_below(name: str) -> str:
    """The dataset that is to be recovered below. Raise UsageError unless it can be one."""
    if not dataset_name_is_valid(name) or "/" not in name:
        raise UsageError(
            f"--below wants a dataset in a pool of this host, such as tank/recovered, and not {name!a}: "
            "it is made if it is not there"
        )
    return name


def settings_for(wanted: Wanted, reached: AddressAccess) -> tuple[Settings, str]:
    """The settings to restore with, and the file that says the same, but for the private keys: it is for the
    host that is to write.

    Raise VerificationFailed when what lies there calls itself something that no configuration can say.
    """
    try:
        return parse(_text(wanted, reached)), _text(wanted, replace(reached, private_keys=()))
    except ConfigError as refused:
        raise VerificationFailed(
            f"what lies at {reached.to} calls itself what no configuration can say: "
            f"{printable(str(refused.problems[0]))}"
        ) from refused


def _text(wanted: Wanted, reached: AddressAccess) -> str:
    name = wanted.name if instance_name_is_valid(wanted.name) else _toml(wanted.name)
    lines = [
        f"[instance.{name}]",
        f"engine = {_toml(wanted.engine)}",
        f"datasets = {_toml(_datasets(wanted))}  # where production is to live; none of them has to be here",
        "# Before a switch or a backup: socket (or host and port), user and password of the server.",
    ]
    recovery = {"clones": wanted.below or None, "server": str(wanted.server) if wanted.server else None}
    lines += _table(f"[instance.{name}.recovery]", _given(recovery))
    lines += ["", f"[[instance.{name}.ship]]", f"to = {_toml(str(reached.to))}"]
    for kind, table in reached.tables.items():
        lines += _table(f"[instance.{name}.ship.{kind}]", table)
    return "\n".join(lines) + "\n"


def _datasets(wanted: Wanted) -> list[str]:
    """The uppermost of the datasets, by their names on the pool that is recovered on."""
    pool = wanted.below.partition("/")[0]
    names = [_on(pool, name) if pool else name for name in wanted.members]
    roots = [n for n in dict.fromkeys(names) if not any(inside(n, o) for o in names if o != n)]
    above = wanted.below or f"{roots[0].partition('/')[0]}/zbackup"
    taken = any("/" not in name or inside(name, above) for name in roots)
    return [f"{above.partition('/')[0]}/{wanted.name}"] if taken else roots


def _on(pool: str, name: str) -> str:
    return "/".join((pool, *name.split("/")[1:]))


def _table(title: str, values: Mapping[str, object]) -> Iterator[str]:
    if values:
        yield from ("", title, *(f"{key} = {_toml(value)}" for key, value in values.items()))


def _given(values: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in values.items() if value is not None}


def _toml(value: object) -> str:
    """Texts as JSON writes them, which TOML reads if they have no character that it forbids."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
