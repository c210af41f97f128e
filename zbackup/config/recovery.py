"""The settings of recovered servers: [instance.NAME.recovery]. Times are in seconds."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StrictInt

from zbackup.config import units
from zbackup.config.table import SettingsTable
from zbackup.model.root_directories import CLONES

Seconds = Annotated[float, BeforeValidator(units.duration)]
Memory = Annotated[int, BeforeValidator(units.memory)]
AbsolutePath = Annotated[Path, BeforeValidator(units.absolute_path)]
DatasetName = Annotated[str, BeforeValidator(units.dataset)]
Argv = Annotated[tuple[str, ...], BeforeValidator(units.argv)]

Login = Literal["original", "always", "never"]
"""The need to log in to the servers of a recovery: see the description of `login`."""


class RecoverySettings(SettingsTable):
    """The settings of recovered servers."""

    server: Argv | None = Field(
        default=None,
        description="the server program, or a list of it and arguments; only root may be able to change it; "
        "default: the one the snapshot's server ran from if only root can change that, else an installed one",
    )
    clones: DatasetName | None = Field(
        default=None,
        description='dataset below which clones are made; default: "zbackup" on the instance\'s pool',
    )
    mountpoint: AbsolutePath = Field(
        default=Path(CLONES), description="directory below which clones are mounted"
    )
    workers: StrictInt = Field(
        default=0, ge=0, le=1024, description="parallel appliers of the log; 0: as many as suit the machine"
    )
    memory: Memory = Field(
        default=256 * 1024**2,
        description="buffer pool of a recovered server; a MariaDB has more while it recovers, where memory "
        "is free",
    )
    stall: Seconds = Field(
        default=1800.0,
        description="a temporary server that has neither used CPU nor read, written or replayed anything for "
        "this long is ended, and the restore fails; 0: never",
    )
    login: Login = Field(
        default="original",
        description="mongodb: who has to log in. original: temporary servers ask nobody, the recovered one "
        "asks if the original did; always: temporary ones ask for a key of their own; never: the recovered "
        "one asks nobody, and only root and the files' owner reach it",
    )
