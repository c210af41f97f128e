"""The questions that `zbackup init` asks at a terminal. With --yes nothing of this is asked, and the options
count."""

import sys
from collections.abc import Sequence

import typer

from zbackup.cli.output import tell
from zbackup.config.s3 import url
from zbackup.config.ship import S3Address, parse_address
from zbackup.config.units import instance_name_is_valid
from zbackup.features.init import words
from zbackup.features.init.options import BucketAnswers
from zbackup.features.init.plan.presets import USUAL, preset
from zbackup.features.init.setup import SetupStep
from zbackup.model.errors import Declined, UsageError
from zbackup.model.key_text import public_bytes

LATER = "later"


def asked(*, yes: bool, print_only: bool) -> bool:
    """Whether somebody can be asked. Raise UsageError where nobody can, and --yes is not given."""
    if yes or print_only:
        return False
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "there is no terminal to ask at: add --yes and the options you want (see --help), or --print"
        )
    return True


def name(default: str, where: str, taken: Sequence[str]) -> str:
    """The instance's name; "" to leave the server out."""
    while True:
        text: str = typer.prompt(
            f"Name for the server at {where} (- to leave it out)", default=default, err=True
        ).strip()
        if text == "-":
            return ""
        if instance_name_is_valid(text) and text not in taken:
            return text
        tell("a name is up to 40 of a-z, 0-9, - and _, begins with a letter or digit, and is not in use yet")


def retention() -> str:
    """The preset's name."""
    for line in words.presets():
        tell(line)
    while True:
        text: str = typer.prompt("Retention", default=USUAL.name, err=True).strip()
        try:
            return preset(text).name
        except UsageError as problem:
            tell(str(problem))


def copies() -> str:
    """Ask where copies go, "" for later."""
    tell("snapshots on the server's own pool are lost with the pool: copies belong on another host or pool")
    while True:
        text: str = typer.prompt(
            "Copies to (ssh://user@host/tank/backups, zfs:otherpool/backups, s3://bucket/prefix, later)",
            default=LATER,
            err=True,
        ).strip()
        if text == LATER:
            return ""
        try:
            require_address(text)
            return text
        except UsageError as problem:
            tell(str(problem))


def require_address(text: str) -> None:
    """Raise UsageError for what is no address of a destination."""
    try:
        parse_address(text)
    except ValueError as problem:
        raise UsageError(f'"{text}" is not {problem}') from None


def bucket() -> BucketAnswers:
    """The server of a bucket and the keys to it."""
    while True:
        endpoint = typer.prompt("The S3 server's URL (empty: AWS)", default="", show_default=False, err=True)
        access = typer.prompt(
            "Access key (empty: found as the AWS tools find it, also by the daemon's user)",
            default="",
            show_default=False,
            err=True,
        )
        secret = ""
        if access.strip():
            secret = typer.prompt("Secret key", default="", hide_input=True, show_default=False, err=True)
        tell(
            "an intruder on this host could read every backup in the bucket, unless the host encrypts for a "
            "public key and the private key is kept elsewhere. To make a key pair, run on another host: "
            "zbackup key --new FILE"
        )
        public = typer.prompt(
            "Public key (age1...; empty: this host can read its backups)",
            default="",
            show_default=False,
            err=True,
        )
        found = BucketAnswers(
            endpoint=endpoint.strip(),
            access_key=access.strip(),
            secret_key=secret.strip(),
            public_key=public.strip(),
        )
        try:
            require_bucket("s3://bucket", found)
            return found
        except UsageError as problem:
            tell(str(problem))


def require_bucket(copies: str, found: BucketAnswers) -> None:
    """Raise UsageError for what does not belong to a bucket, or is not whole."""
    if not (copies and in_bucket(copies)):
        raise UsageError(
            "--endpoint, --access-key, --secret-key-file and --public-key are for copies in a bucket: "
            "--copies s3://..."
        )
    if bool(found.access_key) != bool(found.secret_key):
        raise UsageError("an access key and its secret key belong together: give both, or neither")
    if found.public_key:
        try:
            public_bytes(found.public_key)
        except ValueError as problem:
            raise UsageError(f"the public key is invalid: {problem}") from None
    if found.endpoint:
        try:
            url(found.endpoint)
        except ValueError as problem:
            raise UsageError(f'"{found.endpoint}" is not {problem}') from None


def in_bucket(text: str) -> bool:
    """Whether an address names a bucket."""
    return isinstance(parse_address(text), S3Address)


def administrator(where: str, problem: str) -> tuple[str, str] | None:
    """User and password of somebody who may make accounts; None: what is to be run is written down
    instead."""
    tell(f"{where}: {problem}")
    user = typer.prompt(
        "Administrator of that server (empty: write down what he has to run)", default="", err=True
    )
    if not user.strip():
        return None
    return user.strip(), typer.prompt("Password", default="", hide_input=True, show_default=False, err=True)


def confirm(steps: Sequence[SetupStep]) -> None:
    """Raise Declined when it is not to be done."""
    for line in words.numbered(steps):
        tell(line)
    if not typer.confirm("Do that?", default=True, err=True):
        raise Declined("nothing was changed")
