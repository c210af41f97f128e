"""The options of `zbackup init`, and what they add up to."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing: what is not given takes its default.")]
Print = Annotated[
    bool,
    typer.Option("--print", help="Write nothing: print the steps, and the configuration as it would be."),
]
Instances = Annotated[
    list[str] | None,
    typer.Option(
        "--instance",
        metavar="NAME=WHERE",
        help="Protect this server under this name: its socket, or host:port. May be given several times; "
        "default: all that a unit of systemd started, or you are asked about, named after their datasets.",
        show_default=False,
    ),
]
Retention = Annotated[
    str,
    typer.Option(
        "--retention",
        metavar="PRESET",
        help="short, standard or long (default: standard).",
        show_default=False,
    ),
]
CopiesTo = Annotated[
    str,
    typer.Option(
        "--copies",
        metavar="ADDRESS",
        help="Where copies go: ssh://user@host/tank/backups, zfs:otherpool/backups or s3://bucket/prefix "
        "(default: later).",
        show_default=False,
    ),
]
Endpoint = Annotated[
    str,
    typer.Option(
        "--endpoint",
        metavar="URL",
        help="With s3: the server, where it is not AWS.",
        show_default=False,
    ),
]
AccessKey = Annotated[
    str,
    typer.Option(
        "--access-key",
        metavar="KEY",
        help="With s3: the access key (default: as the AWS tools find one, also for the daemon's user).",
        show_default=False,
    ),
]
SecretKeyFile = Annotated[
    Path | None,
    typer.Option(
        "--secret-key-file",
        metavar="FILE",
        help="With --access-key: where its secret key is; it is copied to where the daemon may read it.",
        show_default=False,
    ),
]
PublicKey = Annotated[
    str,
    typer.Option(
        "--public-key",
        metavar="KEY",
        help="With s3: encrypt for this public key (age1..., see zbackup key --new), so that this host "
        "cannot read its own backups (default: it can).",
        show_default=False,
    ),
]
HostKey = Annotated[
    str,
    typer.Option(
        "--host-key",
        metavar="KEY",
        help="With ssh: the other host's public key, as zbackup init --receive prints it there.",
        show_default=False,
    ),
]
AdminUser = Annotated[
    str,
    typer.Option(
        "--admin-user",
        metavar="NAME",
        help="Who makes the database account (default: root over the socket).",
        show_default=False,
    ),
]
AdminPasswordFile = Annotated[
    Path | None,
    typer.Option(
        "--admin-password-file",
        metavar="FILE",
        help="Where that administrator's password is; with --instance, and sent to no other server.",
        show_default=False,
    ),
]
NoDrill = Annotated[bool, typer.Option("--no-drill", help="Do not try a restore of the first backup now.")]
Receive = Annotated[
    bool, typer.Option("--receive", help="Make this host one that receives backups of others, append-only.")
]
Dataset = Annotated[
    str,
    typer.Option(
        "--dataset",
        metavar="DATASET",
        help="With --receive: the dataset for one sender, such as tank/backups/db1.",
        show_default=False,
    ),
]
User = Annotated[
    str,
    typer.Option(
        "--user",
        metavar="NAME",
        help="With --receive: the user that receives (default: zrecv).",
        show_default=False,
    ),
]
Key = Annotated[
    str,
    typer.Option(
        "--key",
        metavar="KEY",
        help="With --receive: the sender's public key, as text or as a file; without it the line is printed.",
        show_default=False,
    ),
]
Quota = Annotated[
    str,
    typer.Option(
        "--quota",
        metavar="SIZE",
        help="With --receive: how much the dataset may hold, such as 2T.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketAnswers:
    """The server of a bucket, "" for AWS, and the keys to it, "" where they are found as the AWS tools find
    them. What is new there is encrypted for `public_key`, "" for this host's own key alone."""

    endpoint: str = ""
    access_key: str = ""
    secret_key: str = ""
    public_key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """The wishes of the command line. `named` are the servers to protect, where -> name; none: all."""

    yes: bool
    print_only: bool
    named: dict[str, str]
    retention: str
    copies: str
    host_key: str
    admin_user: str
    admin_password: str | None
    drill: bool
    bucket: BucketAnswers = BucketAnswers()
