"""Sending and receiving with zfs: what each end is run with, and what is asked around it.

Facts are of zfs-send(8), zfs-receive(8) and zfs-bookmark(8) of OpenZFS 2.1 and later.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zbackup.model.command_line import command_line
from zbackup.model.errors import (
    CommandFailed,
    CommandTimedOut,
    ConnectionFailed,
    DatasetExists,
    DatasetNotFound,
)
from zbackup.model.shipping import (
    COMMITTED,
    CONTAINER,
    LONG_PARTS,
    PARTS,
    RECEIVED,
    Origin,
    Partial,
    ReceivedSnapshot,
    SourceDataset,
    TargetDataset,
    copy_of,
)
from zbackup.proc.run import Runner, run
from zbackup.zfs.errors import translate

KEY_COLUMNS = "encryption,encryptionroot,pbkdf2salt"
"""How a dataset is encrypted. Each `zfs change-key` with a passphrase draws a new salt; other keys have 0.
It is that of the dataset's own key, as it was wrapped last, and not that of its encryption root."""
LIGHT_COLUMNS = f"name,guid,{KEY_COLUMNS},keystatus,receive_resume_token,zbackup:backup,{PARTS},{COMMITTED}"
LONG_COLUMNS = ",".join(("name", "guid", *LONG_PARTS))
ORIGIN_COLUMNS = f"name,guid,createtxg,{KEY_COLUMNS}"

# One argument ends at 128 KiB (execve(2)), and over ssh the whole command is one.
MOST_AT_ONCE = 60_000
MOST_OF_NAMES = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeToken:
    """The contents of a resume token: the snapshot's guid, and the bytes that are still to come."""

    guid: int
    left: int


@dataclass(frozen=True)
class ZfsStreams:
    """Raises CommandFailed, or the kind of it that names what is wrong (see zfs.errors)."""

    runner: Runner = run

    # looking

    def sources(self, roots: Sequence[str]) -> list[SourceDataset]:
        """Every file system on and below `roots`, with its snapshots and bookmarks."""
        what = ("-t", "filesystem,snapshot,bookmark", "-o", ORIGIN_COLUMNS)
        return sources(self._zfs("list", "-Hp", "-r", *what, "--", *roots, mutates=False))

    def target_datasets(self, root: str) -> list[TargetDataset]:
        """What lies below `root`, by its name there; [] when there is no `root`."""
        return self.received_below(root)[0]

    def received_below(self, root: str) -> tuple[list[TargetDataset], str]:
        """What lies below `root`, by its name there, and the encryption root of `root` if its key is not
        loaded; [] and "" when there is no `root`.

        One command, and one more where a backup consists of more than fit into one property.
        """
        what = ("-t", "filesystem,volume,snapshot", "-s", "createtxg", "-o", LIGHT_COLUMNS)
        try:
            listing = self._zfs("list", "-Hp", "-r", *what, "--", root, mutates=False)
            found = target_datasets(listing, root)
            if not any(copy.marked and not copy.parts for each in found for copy in each.copies):
                return found, _locked(listing, root)
            further = ("-t", "snapshot", "-o", LONG_COLUMNS)
            long = self._zfs("list", "-Hp", "-r", *further, "--", root, mutates=False)
            return target_datasets(listing, root, long_parts(long)), _locked(listing, root)
        except DatasetNotFound:
            return [], ""

    def locked(self, name: str) -> str:
        """The encryption root of a dataset, if its key is not loaded; "" otherwise."""
        return self._encryption_root(name, "unavailable")

    def key_loaded(self, name: str) -> str:
        """The encryption root of a dataset, if its key is loaded; "" otherwise."""
        return self._encryption_root(name, "available")

    def _encryption_root(self, name: str, wanted: str) -> str:
        columns = ("-o", "value", "keystatus,encryptionroot")
        status, root = self._zfs("get", "-Hp", *columns, "--", name, mutates=False).splitlines()
        return root if status == wanted else ""

    def size(self, send: Sequence[str]) -> int:
        """How many bytes the stream of `send` would have, as ZFS estimates it; 0 when it does not
        say."""
        _, verb, *rest = send
        return estimate(self._zfs(verb, "-nvP", *rest, mutates=False))

    def token(self, text: str) -> ResumeToken | None:
        """What a token can continue here; None when what it is of is gone, or it is no token.

        A token comes from the destination, which may be in other hands: it is only believed to be of a
        snapshot if it says so once, as the name in it could hold a line that looks like another guid.
        """
        try:
            said = self._zfs("send", "-nvP", "-t", text, mutates=False)
        except (ConnectionFailed, CommandTimedOut):
            raise
        except CommandFailed:
            return None
        found = re.findall(r"toguid\s*=\s*(?:0x)?([0-9a-f]+)", said)
        return ResumeToken(guid=int(found[0], 16), left=estimate(said)) if len(found) == 1 else None

    def guid(self, name: str) -> int:
        """The guid of a dataset, snapshot or bookmark."""
        return int(self._zfs("get", "-Hp", "-o", "value", "guid", "--", name, mutates=False))

    def encrypted(self, dataset: str) -> bool:
        said = self._zfs("get", "-Hp", "-o", "value", "encryption", "--", dataset, mutates=False)
        return said.strip() not in ("off", "-")

    def partial(self, dataset: str) -> str:
        """The token of what an interrupted receive left on it; "" for none, or no such dataset."""
        columns = ("-o", "value", "receive_resume_token")
        try:
            return self._zfs("get", "-Hp", *columns, "--", dataset, mutates=False).strip().removeprefix("-")
        except DatasetNotFound:
            return ""

    # marks at the source

    def bookmark(self, snapshot: str, bookmark: str) -> None:
        """Bookmark `snapshot` under the full name `bookmark`. One that is there already is success."""
        try:
            self._zfs("bookmark", "--", snapshot, bookmark)
        except CommandFailed as failure:
            if "bookmark exists" not in failure.stderr and not isinstance(failure, DatasetExists):
                raise

    def destroy_bookmark(self, name: str) -> None:
        """Destroy a bookmark; gone already is success. Raise ValueError for anything that is not one."""
        if "#" not in name:
            raise ValueError(f"{name} is not a bookmark")
        try:
            self._zfs("destroy", "--", name)
        except DatasetNotFound:
            return

    # marks at a destination

    def mark(self, snapshots: Sequence[str], properties: Mapping[str, str]) -> None:
        """Set the properties on all of the snapshots; of a snapshot what comes last is set last."""
        for names in _names_in_pieces(snapshots):
            for some in _in_pieces(properties):
                self._zfs("set", *(f"{key}={value}" for key, value in some), *names)

    def container(self, name: str) -> None:
        """A dataset that only holds others. One that is there already is success."""
        options = [f"{key}={value}" for key, value in CONTAINER.items()]
        try:
            self._zfs("create", "-u", *(part for o in options for part in ("-o", o)), "--", name)
        except DatasetExists:
            return

    def abort(self, name: str) -> None:
        """Give up what an interrupted receive has left on exactly this dataset."""
        self._zfs("receive", "-A", "--", name)

    def _zfs(self, *argv: str, mutates: bool = True) -> str:
        try:
            return self.runner(("zfs", *argv), mutates=mutates)
        except CommandFailed as failure:
            raise translate(failure) from failure


def send_argv(snapshot: str, origin: str | None, *, raw: bool) -> tuple[str, ...]:
    """A stream as it is on disk: large blocks, compressed; raw: encrypted as well.

    Without -e: a stream with embedded blocks cannot be received below an encrypted dataset.
    """
    flags = ("-w",) if raw else ("-L", "-c")
    start = ("-i", origin) if origin else ()
    return ("zfs", "send", *flags, *start, "--", snapshot)


def content_argv(snapshot: str, *, raw: bool) -> tuple[str, ...]:
    """A full stream that is the same for every copy of the snapshot, but for what stream_content leaves out.

    Without -c it is written in plain blocks, however these lie on either side's disks.
    """
    return ("zfs", "send", *(("-w",) if raw else ()), "--", snapshot)


def resume_argv(token: str, *, raw: bool) -> tuple[str, ...]:
    """What is left of an interrupted stream.

    The token knows its flags, but it comes from the destination. That a stream is raw is not left to it, or a
    forged one could make an encrypted dataset leave in the clear.
    """
    return ("zfs", "send", *(("-w",) if raw else ()), "-t", token)


def wrong_key_text(what: str, root: str) -> str:
    """Return the message about a copy that the loaded key of `root` does not open."""
    unload, load = (
        command_line("zfs", "unload-key", root),
        command_line("zfs", "load-key", "-L", "prompt", root),
    )
    return (
        f"the loaded key of {root} does not open {what}: a stream has brought another key since it was "
        f"loaded. A copy has the key that its source had when it sent the newest stream. Load that key:\n"
        f"{unload} && {load}"
    )


def receive_argv(dataset: str, marks: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Receive into exactly `dataset`, resumable, unmounted and harmless; never over anything.

    `marks` are user properties it is given.
    """
    wanted = RECEIVED | dict(marks or {})
    options = [part for key, value in wanted.items() for part in ("-o", f"{key}={value}")]
    return ("zfs", "receive", "-s", "-u", *options, "-x", "mountpoint", "--", dataset)


def receive_copy_argv(dataset: str, properties: Mapping[str, str]) -> tuple[str, ...]:
    """Receive into exactly `dataset`, which is to be used: unmounted, with these properties, over nothing."""
    options = [part for key, value in properties.items() for part in ("-o", f"{key}={value}")]
    return ("zfs", "receive", "-u", *options, "--", dataset)


def failure_of(argv: Sequence[str], status: int, said: str) -> CommandFailed:
    """The failure of one end of a stream on this host, under the name that callers can act on."""
    return translate(CommandFailed(tuple(argv), status, said))


def estimate(listing: str) -> int:
    """Parse the bytes from `zfs send -nvP`: the line "size". Pure."""
    found = re.findall(r"^size\t(\d+)$", listing, flags=re.M)
    return int(found[-1]) if found else 0


def sources(listing: str) -> list[SourceDataset]:
    """Parse `zfs list` with ORIGIN_COLUMNS; snapshots of volumes are left out. Pure."""
    origins: dict[str, list[Origin]] = {}
    keys: dict[str, tuple[str, str]] = {}
    for name, guid, createtxg, *key in _rows(listing):
        dataset = re.split("[@#]", name, maxsplit=1)[0]
        if dataset == name:
            keys[name] = _key(*key)
        else:
            origin = Origin(name=name, guid=int(guid), createtxg=int(createtxg))
            origins.setdefault(dataset, []).append(origin)
    return [
        SourceDataset(
            name=name,
            origins=tuple(origins.get(name, ())),
            encrypted=bool(root),
            encryption_root=root,
            salt=salt,
        )
        for name, (root, salt) in keys.items()
    ]


def target_datasets(
    listing: str, root: str, long: Mapping[tuple[str, str], Mapping[str, str]] | None = None
) -> list[TargetDataset]:
    """Parse `zfs list -s createtxg` with LIGHT_COLUMNS of `root` and what is below, and `long` what
    long_parts says of them. Pure."""
    copies: dict[str, list[ReceivedSnapshot]] = {}
    found: dict[str, tuple[str, str, str]] = {}
    more = long or {}
    for name, guid, *key, _, token, backup, parts, when in _rows(listing):
        dataset, is_snapshot, short = name.partition("@")
        if is_snapshot:
            values = (("zbackup:backup", backup), (PARTS, parts), (COMMITTED, when))
            properties = {name: value for name, value in values if value != "-"} | dict(
                more.get((name, guid), {})
            )
            copies.setdefault(dataset, []).append(copy_of(short, int(guid), properties))
        elif dataset != root:
            found[dataset] = (token, *_key(*key))
    return [
        TargetDataset(
            name=name.removeprefix(f"{root}/"),
            copies=tuple(copies.get(name, ())),
            bases=tuple(c.guid for c in copies.get(name, ())[-1:]),
            partial=Partial(token=token) if token != "-" else None,
            encrypted=bool(key_root),
            dataset=name,
            encryption_root=key_root,
            salt=salt,
        )
        for name, (token, key_root, salt) in sorted(found.items())
    ]


def _key(encryption: str, root: str, salt: str) -> tuple[str, str]:
    """Encryption root and salt of what KEY_COLUMNS say; "" and "" where it is not encrypted."""
    return ("", "") if encryption in ("off", "-") else (root, salt)


def _locked(listing: str, root: str) -> str:
    """The encryption root of `root`, by LIGHT_COLUMNS, if its key is not loaded."""
    rows = (row for row in _rows(listing) if row[0] == root)
    return next((key_root for _, _, _, key_root, _, status, *_ in rows if status == "unavailable"), "")


def long_parts(listing: str) -> dict[tuple[str, str], dict[str, str]]:
    """Parse `zfs list` with LONG_COLUMNS: name and guid -> the properties that are there. Pure."""
    rows = (row for row in _rows(listing) if len(row) == 2 + len(LONG_PARTS))
    return {
        (name, guid): {key: value for key, value in zip(LONG_PARTS, values, strict=True) if value != "-"}
        for name, guid, *values in rows
    }


def _rows(listing: str) -> list[list[str]]:
    """Not splitlines(): see zfs.parse."""
    return [line.split("\t") for line in listing.split("\n") if line]


def _names_in_pieces(names: Sequence[str]) -> list[list[str]]:
    pieces: list[list[str]] = [[]]
    size = 0
    for name in names:
        size += len(name) + len("'' ")
        if size > MOST_OF_NAMES and pieces[-1]:
            pieces.append([])
            size = len(name) + len("'' ")
        pieces[-1].append(name)
    return pieces


def _in_pieces(properties: Mapping[str, str]) -> list[list[tuple[str, str]]]:
    """The properties in their order, in as few commands as there must be."""
    pieces: list[list[tuple[str, str]]] = [[]]
    size = 0
    for key, value in properties.items():
        size += len(key.encode()) + 2 * len(value.encode())  # quoting makes values longer
        if size > MOST_AT_ONCE and pieces[-1]:
            pieces.append([])
            size = 0
        pieces[-1].append((key, value))
    return pieces
