"""zbackup key"""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from zbackup import app
from zbackup.cli import at_address, tables
from zbackup.cli import private_key as private_key_option
from zbackup.cli.at_address import AddressOptions, Rebuilt, all_at, require_address
from zbackup.cli.command_context import At, Done, OneInstance, conclude, on_each
from zbackup.cli.options import Options
from zbackup.cli.output import emit
from zbackup.config.load import find
from zbackup.destinations.base import Encrypting
from zbackup.jobs.context import Context, ShipDestination
from zbackup.model.errors import Refused, UsageError
from zbackup.model.shipping import KeyTrial

HELP = """Make a key pair for backups that their own host cannot read, or test the private key.

If a bucket's configuration has public_key, the host that ships encrypts for that key and cannot decrypt the
backups. That takes the private key, which you keep elsewhere. zbackup restore, verify and log take it as
--private-key FILE, on any host that has the file.

--new makes a key pair. Do not run it on the database host. The private key goes into a new file that only
its owner can read, or with - to standard output, for a password manager. The public key is printed.

Without --new, it tests a private key on the newest backup in a bucket. It decrypts and verifies the key of
each stream, the first segment of the first and of the last stream, and the newest piece of archived log.
Nothing is restored or changed. This shows that the key is the right one; to test a restore, run a drill.

\b
zbackup key --new /media/safe/shop.private
zbackup key shop --at cloud --private-key /media/safe/shop.private
zbackup key --from s3://bucket/prefix --key shop.key --private-key shop.private   without a configuration
"""


def command(  # noqa: PLR0913  a parameter is an option of the command line
    options: Options,
    instance: OneInstance = None,
    *,
    new: Annotated[
        str,
        typer.Option(
            "--new",
            metavar="FILE",
            help="Make a key pair and write the private key to this new file; - for standard output.",
            show_default=False,
        ),
    ] = "",
    at: At = None,
    private_key: private_key_option.Files = None,
    origin: at_address.Origin = None,
    key: at_address.Keys = None,
    endpoint: at_address.Endpoint = "",
    named_instance: at_address.Named = "",
) -> None:
    if new:
        if instance or at or private_key or origin:
            raise UsageError("--new only makes a key pair: leave out everything else")
        _make(options, new)
        return
    if not (at or origin):
        raise UsageError(
            "name the bucket: --at DESTINATION or --from ADDRESS; to make a key pair: --new FILE"
        )
    require_address(origin)
    elsewhere = AddressOptions(
        key=key, endpoint=endpoint, identity=None, known_hosts=None, sudo=False, instance=named_instance
    ).of(origin, instance, options, private_keys=private_key or ())
    if elsewhere:

        def try_there(there: Rebuilt) -> KeyTrial:
            return _try(there.context.destinations[0])

        outcomes = all_at(options, "key", elsewhere, try_there)
    else:

        def try_one(ctx: Context) -> KeyTrial:
            return _try(app.choose_destination(ctx, at or ""))

        outcomes = on_each(options, "key", instance, try_one, private_key)
    conclude(options, "key", outcomes, shape=_shape, text=_text)


def _try(destination: ShipDestination) -> KeyTrial:
    if not isinstance(destination.adapter, Encrypting):
        raise UsageError(f"{destination.adapter.address} is not a bucket: zbackup encrypts only in buckets")
    return destination.adapter.try_private_key()


def _make(options: Options, new: str) -> None:
    from zbackup.destinations.s3.sealed_keys import new_pair

    if new == "-" and options.json:
        raise UsageError("--new - prints the private key in plain text: leave out --json")
    private, public, called = new_pair()
    text = f"# public key: {public}\n# called {called} in messages\n{private}\n"
    if new == "-":
        print(text, end="")
        return
    path = Path(new).absolute()
    if path.parent == find(options.config).absolute().parent:
        raise Refused(
            f"{path} is beside the configuration: an intruder on this host could read the private key; "
            "make the key pair on another host"
        )
    _write(path, text)
    lines = (
        f"The private key is in {path}. Keep it off the database host, and keep a second copy elsewhere.",
        "Without it, backups that are encrypted for it cannot be read.",
        "On the host that ships, add in [instance.NAME.ship.s3], beside key:",
        f'public_key = "{public}"  # called {called} in messages',
    )
    shape = {"private_key_file": str(path), "public_key": public, "public_key_id": called}
    emit(options, "key", shape, lambda: "\n".join(lines))


def _write(path: Path, text: str) -> None:
    """Raise Refused where something is there already: it may be the only copy of another key."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as there:
        raise Refused(f"{path} already exists and is not overwritten: name another file") from there
    except OSError as refused:
        raise Refused(f"{path} cannot be written: {refused.strerror}") from refused
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as failed:
        path.unlink(missing_ok=True)
        raise Refused(f"{path} cannot be written: {failed.strerror}") from failed


def _shape(done: Done[KeyTrial]) -> dict[str, Any]:
    found = done.result
    return {"backup": found.name, "streams": found.streams, "read": found.read, "log_read": found.log}


def _text(outcomes: list[Done[KeyTrial]]) -> str:
    return "\n".join(_line(each.context.instance, each.result) for each in outcomes)


def _line(instance: str, found: KeyTrial) -> str:
    streams = f"{found.streams} stream{'s' * (found.streams != 1)}"
    log = f", and {tables.size(found.log)} of archived log" if found.log else ""
    return (
        f"{instance}: the private key opens {found.name} ({streams}): {tables.size(found.read)}{log} "
        "were decrypted and verified"
    )
