"""Settings of webhooks and mail, by which the daemon tells people of health."""

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StrictInt

from zbackup.config import units
from zbackup.config.schedule import pause, url
from zbackup.config.secret import SecretRef, secret_ref
from zbackup.config.table import SettingsTable

# Of RFC 5321 what is in use: Python's writer of mail fails on much of the rest.
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_ADDRESS = re.compile(rf"{_ATOM}(\.{_ATOM})*@([\w-]+(\.[\w-]+)*|\[[0-9A-Fa-f.:]+\])")


def address(value: object) -> str:
    """An address of mail, and nothing that could add a header or a recipient."""
    if not isinstance(value, str) or not _ADDRESS.fullmatch(value):
        units.refuse('an address such as "dba@example.com"')
    return value


def addresses(value: object) -> object:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list | tuple) or not value:
        units.refuse('an address such as "dba@example.com", or a list of them')
    return value


def url_or_secret(value: object) -> SecretRef | str:
    """A URL, or where one is kept that is a secret."""
    return url(value) if isinstance(value, str) else secret_ref(value)


Address = Annotated[str, BeforeValidator(address)]
Told = Literal["warning", "critical"]


class Webhook(SettingsTable):
    """An HTTP address that is told. Several are possible."""

    url: Annotated[SecretRef | str, BeforeValidator(url_or_secret)] = Field(
        description="where to; if whoever knows it may write there, where it is kept (as for `password`)"
    )
    kind: Literal["json", "slack", "teams", "ntfy"] = Field(
        default="json",
        description="what it understands: JSON for programs, Slack's or Mattermost's incoming webhooks, "
        "workflows of Teams, or a topic of ntfy",
    )
    severity: Told = Field(default="warning", description="tell of problems that are at least so bad")
    token: Annotated[SecretRef, BeforeValidator(secret_ref)] | None = Field(
        default=None, description="where a token is, which is sent as `Authorization: Bearer`"
    )


class Mail(SettingsTable):
    """Mail by SMTP. Several are possible."""

    to: Annotated[tuple[Address, ...], BeforeValidator(addresses)] = Field(description="who is told")
    sender: Address = Field(description="who it is from")
    host: Annotated[str, Field(min_length=1)] = Field(default="localhost", description="the mail server")
    port: Annotated[StrictInt, Field(ge=1, le=65535)] | None = Field(
        default=None, description="its port; default: 25, with starttls 587, with tls 465"
    )
    encryption: Literal["none", "starttls", "tls"] = Field(
        default="none", description="how the connection is encrypted; the server's certificate is checked"
    )
    user: str = Field(default="", description="who logs in; default: nobody has to")
    password: Annotated[SecretRef, BeforeValidator(secret_ref)] | None = Field(
        default=None, description="where the password is"
    )
    severity: Told = Field(default="warning", description="tell of problems that are at least so bad")

    @property
    def tcp_port(self) -> int:
        """The port to connect to."""
        return self.port or {"none": 25, "starttls": 587, "tls": 465}[self.encryption]


class HealthNotify(SettingsTable):
    """The recipients of messages about health: each problem of an instance once, and when all is ok again."""

    webhook: tuple[Webhook, ...] = Field(
        default=(),
        description="HTTP addresses",
        examples=['[{ url = "https://ntfy.sh/topic", kind = "ntfy" }]'],
    )
    mail: tuple[Mail, ...] = Field(
        default=(),
        description="mail",
        examples=['[{ to = "dba@example.com", sender = "zbackup@example.com" }]'],
    )
    repeat: Annotated[float, BeforeValidator(pause)] = Field(
        default=86_400.0, description="tell again of problems that are still there after this time"
    )
