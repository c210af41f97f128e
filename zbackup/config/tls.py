"""The settings of encrypted connections to a database: [instance.NAME.tls]."""

from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, StrictBool

from zbackup.config import units
from zbackup.config.table import SettingsTable

AbsolutePath = Annotated[Path, BeforeValidator(units.absolute_path)]


class Tls(SettingsTable):
    """Encryption of a TCP connection to the database."""

    ca: AbsolutePath | None = Field(
        default=None, description="certificates that may sign the server's (default: the machine's)"
    )
    cert: AbsolutePath | None = Field(
        default=None,
        description="client certificate, together with key; for mongodb, it and its key in one file",
    )
    key: AbsolutePath | None = Field(default=None, description="the client certificate's private key")
    verify: StrictBool = Field(default=True, description="refuse a server whose certificate or name is wrong")
