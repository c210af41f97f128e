"""The settings, typed. Descriptions here are the configuration reference; the example shows all of them."""

from pathlib import Path
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from pydantic import BeforeValidator, Field, PrivateAttr, StrictInt

from zbackup.config import units
from zbackup.config.archive import Archive
from zbackup.config.clones import ClonePool, CloneSettings
from zbackup.config.cluster import ClusterSettings
from zbackup.config.copying import CopyBack
from zbackup.config.lock import Lock, short_lock
from zbackup.config.notify import HealthNotify
from zbackup.config.recovery import RecoverySettings
from zbackup.config.retention import RetentionSettings
from zbackup.config.schedule import Daemon, Notify, Schedule, pause
from zbackup.config.secret import SecretRef, secret_ref, uri_ref
from zbackup.config.service import ServiceSettings
from zbackup.config.ship import Ship, ZfsAddress
from zbackup.config.table import SettingsTable
from zbackup.config.tls import Tls
from zbackup.config.web import Web
from zbackup.config.zone import local_zone
from zbackup.model.root_directories import RUN

Seconds = Annotated[float, BeforeValidator(units.duration)]
Memory = Annotated[int, BeforeValidator(units.memory)]
AbsolutePath = Annotated[Path, BeforeValidator(units.absolute_path)]
DatasetName = Annotated[str, BeforeValidator(units.dataset)]
DatasetNames = Annotated[tuple[DatasetName, ...], BeforeValidator(units.some)]
Zone = Annotated[ZoneInfo, BeforeValidator(units.zone)]
Argv = Annotated[tuple[str, ...], BeforeValidator(units.argv)]
Secret = Annotated[SecretRef, BeforeValidator(secret_ref)]
Uri = Annotated[SecretRef | str, BeforeValidator(uri_ref)]


class Instance(SettingsTable):
    """One database server and the datasets it lives on. `name` is the key of its table."""

    engine: Annotated[
        Literal["mysql", "mariadb", "mongodb"], BeforeValidator(lambda v: "mysql" if v == "percona" else v)
    ] = Field(description="which server it is; percona is read as mysql")
    datasets: DatasetNames = Field(
        description="ZFS datasets that hold its data and logs, all on one pool; descendants are included"
    )
    socket: AbsolutePath | None = Field(
        default=None,
        description="socket of the server; default: /run/mysqld/mysqld.sock, unless host is set; "
        "none for mongodb",
    )
    host: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="connect over TCP instead (the server must run on this machine); "
        "default for mongodb: 127.0.0.1",
    )
    port: Annotated[StrictInt, Field(ge=1, le=65535)] | None = Field(
        default=None, description="TCP port, with host; default: 3306, for mongodb 27017"
    )
    uri: Uri | None = Field(
        default=None,
        description="mongodb: its address instead of socket, host, port and user, written here or, with a "
        "password in it, where it is kept (as for `password`); it names this machine's mongod alone",
    )
    user: Annotated[str, Field(min_length=1)] = Field(default="zbackup", description="database account")
    password: Secret | None = Field(
        default=None,
        description="where its password is; leave it out when the socket alone identifies the account, "
        "or when mongodb asks for none",
    )
    auth_source: Annotated[str, Field(min_length=1)] = Field(
        default="admin", description="mongodb: the database that knows the account"
    )
    auth_mechanism: Literal["SCRAM-SHA-256", "SCRAM-SHA-1", "MONGODB-X509"] | None = Field(
        default=None,
        description="mongodb: how to log in; default: as the server offers. MONGODB-X509 is by tls.cert",
    )
    tls: Tls | None = Field(default=None, description="encrypt the TCP connection")
    lock: Annotated[Lock, BeforeValidator(short_lock)] = Field(
        default_factory=Lock, description="which lock its writes wait for while a snapshot is taken"
    )
    recovery: RecoverySettings = Field(
        default_factory=RecoverySettings, description="how a recovered server is made"
    )
    clones: CloneSettings = Field(default_factory=CloneSettings, description="what its dev clones are like")
    copy_back: CopyBack | None = Field(
        default=None, description="how zbackup copy writes tables and collections back into production"
    )
    retention: RetentionSettings = Field(
        default_factory=RetentionSettings, description="which backups are kept"
    )
    max_age: Annotated[float, BeforeValidator(pause)] | None = Field(
        default=None,
        description="how old the newest backup may be; when it is older, status, metrics and the monitoring "
        "plugin say critical. For hosts whose backups are not on the daemon's schedule",
    )
    schedule: Schedule = Field(default_factory=Schedule, description="when the daemon works on it")
    notify: Notify = Field(default_factory=Notify, description="whom the daemon tells how jobs ended")
    service: ServiceSettings | None = Field(
        default=None, description="how zbackup switch stops and starts its server"
    )
    ship: tuple[Ship, ...] = Field(default=(), description="where its backups are copied to")
    archive: Archive | None = Field(default=None, description="where its log is archived while it is written")
    plain_log: AbsolutePath | None = Field(
        default=None,
        description="mysql, mariadb: a directory on one of the datasets for a copy of the binary log, "
        "decrypted, made of what the server sends and read instead of its files; for encrypted logs",
    )

    _name: str = PrivateAttr("")

    @property
    def name(self) -> str:
        return self._name

    @property
    def socket_path(self) -> Path | None:
        """The socket to connect to; None when TCP is to be used."""
        tcp = self.host or self.engine == "mongodb"
        return self.socket or (None if tcp else Path("/run/mysqld/mysqld.sock"))

    @property
    def tcp_port(self) -> int:
        """The port to connect to when there is no socket."""
        return self.port or (27017 if self.engine == "mongodb" else 3306)

    @property
    def clones_dataset(self) -> str:
        """The dataset below which this instance's clones are made."""
        return self.recovery.clones or self.datasets[0].partition("/")[0] + "/zbackup"

    @property
    def clones_elsewhere(self) -> tuple[str, ...]:
        """Datasets below which clones of its copies are made, on each other pool of this host with copies."""
        addresses = (ship.to for ship in self.ship)
        pools = (a.dataset.partition("/")[0] for a in addresses if isinstance(a, ZfsAddress) and not a.host)
        own = self.clones_dataset.partition("/")[0]
        # Not "zbackup", which may be what the copies themselves lie in.
        return tuple(dict.fromkeys(f"{pool}/zbackup-clones" for pool in pools if pool != own))


class Settings(SettingsTable):
    """The whole file."""

    timezone: Zone = Field(
        default_factory=local_zone, description="times without a zone are read in it; default: the machine's"
    )
    run_dir: AbsolutePath = Field(
        default=Path(RUN),
        description="sockets, notes and, in `.daemon`, locks; gone at a reboot",
    )
    daemon: Daemon = Field(default_factory=Daemon, description="the daemon as a whole")
    notify: HealthNotify = Field(default_factory=HealthNotify, description="whom the daemon tells of health")
    clones: ClonePool = Field(default_factory=ClonePool, description="what all dev clones share")
    web: Web = Field(default_factory=Web, description="who may read what the web page shows")
    instance: dict[str, Instance] = Field(description="the database servers, one table each")
    cluster: dict[str, ClusterSettings] = Field(
        default_factory=dict, description="sharded clusters of MongoDB, one table each"
    )

    def model_post_init(self, context: object, /) -> None:
        for name, instance in self.instance.items():
            instance._name = name
