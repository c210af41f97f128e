"""The fake `zfs`: argument lists in, what the real one prints out. Only what zbackup asks is known.

An option or a command that is not known here is an AssertionError: the fake is to be taught it, and the
script (script.py) with it.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache

from tests.fast.objects import FileSystem, Snapshot, Stream, ZfsError
from tests.fast.pool import Pools, dependent

MOST_OF_VALUE = 8191
_NONE = "-"
_NATIVE = {
    "encryption": "off", "encryptionroot": "-", "keystatus": "-", "snapdir": "hidden", "used": "98304",
    "referenced": "24576", "available": "100000000", "written": "0", "quota": "0",
    "pbkdf2salt": "0",
    "atime": "off", "relatime": "off", "devices": "on", "exec": "on", "setuid": "on", "nbmand": "off",
    "context": "none", "fscontext": "none", "defcontext": "none", "rootcontext": "none",
}  # fmt: skip


@dataclass(slots=True)
class Words:
    """An argument list, taken apart: options with a value, those without, and what is left."""

    options: dict[str, list[str]] = field(default_factory=dict)
    flags: set[str] = field(default_factory=set)
    rest: list[str] = field(default_factory=list)

    @property
    def properties(self) -> dict[str, str]:
        return dict(pair.split("=", 1) for pair in self.options.get("-o", []))

    def one(self, option: str, otherwise: str = "") -> str:
        return self.options.get(option, [otherwise])[0]


class FakeZfs:
    """Answers as `zfs` does. Raises ZfsError, with what is on stderr."""

    def __init__(self, pools: Pools) -> None:
        self.pools = pools
        self._verbs: dict[str, tuple[str, Callable[[Words], str]]] = {
            "list": ("tosd", self._list),
            "get": ("tosd", self._get),
            "holds": ("", self._holds),
            "userspace": ("to", self._userspace),
            "projectspace": ("o", self._projectspace),
            "create": ("o", self._create),
            "snapshot": ("o", self._snapshot),
            "clone": ("o", self._clone),
            "set": ("", self._set),
            "inherit": ("", self._inherit),
            "destroy": ("", self._destroy),
            "hold": ("", self._hold),
            "release": ("", self._release),
            "bookmark": ("", self._bookmark),
            "mount": ("", lambda words: self._none(self.pools.mount(words.rest[0]))),
            "unmount": ("", lambda words: self._none(self.pools.unmount(words.rest[0]))),
            "promote": ("", lambda words: self._none(self.pools.promote(words.rest[0]))),
            "rename": ("", lambda words: self._none(self.pools.rename(*words.rest))),
            "send": ("it", self._estimate),
            "receive": ("ox", self._abort),
        }

    def __call__(self, argv: Sequence[str]) -> str:
        """What is printed on stdout."""
        assert argv[0] == "zfs", argv
        taking, verb = self._verbs[argv[1]]
        return verb(_words(tuple(argv[2:]), taking))

    # looking

    def _list(self, words: Words) -> str:
        columns = words.one("-o", "name").split(",")
        if "-r" not in words.flags and "-d" not in words.options and "@" in words.rest[0]:
            return _rows(self._named(words.rest, columns))
        objects = self._objects(words, words.rest)
        if words.one("-s") == "createtxg":
            objects.sort(key=lambda pair: pair[0].txg)
        return _rows([[self._cell(each, name, c) for c in columns] for each, name in objects])

    def _named(self, names: Sequence[str], columns: Sequence[str]) -> list[list[str]]:
        """Snapshots by name: those that are there are printed although others are not."""
        rows, missing = [], []
        for name in names:
            try:
                found = self.pools.snapshot_called(name)
                rows.append([self._cell(found, name, c) for c in columns])
            except ZfsError as failure:
                missing.append(failure)
        if missing:
            raise ZfsError("\n".join(m.said for m in missing), printed=_rows(rows))
        return rows

    def _objects(self, words: Words, roots: Sequence[str]) -> list[tuple[FileSystem | Snapshot, str]]:
        """What is asked for, with its name; bookmarks as snapshots that hold nothing."""
        kinds = set(words.one("-t", "all").split(","))
        found: list[tuple[FileSystem | Snapshot, str]] = []
        for root in roots:
            deep = "-r" in words.flags
            datasets = self.pools.below(root) if deep else [self.pools.file_system(root)]
            for each in datasets:
                if kinds & {"volume" if each.volume else "filesystem", "all"}:
                    found.append((each, each.name))
                if "snapshot" in kinds and (deep or "-d" in words.options):
                    found += [(s, f"{each.name}@{s.name}") for s in each.snapshots.values()]
                if "bookmark" in kinds:
                    found += [
                        (Snapshot(each, "", b.guid, b.txg, b.creation, {}, {}), f"{each.name}#{short}")
                        for short, b in each.bookmarks.items()
                    ]
        return found

    def _get(self, words: Words) -> str:
        asked, *names = words.rest
        columns = words.one("-o").split(",")
        rows = []
        for each, name in self._asked(words, names):
            if asked == "all":
                pairs = sorted(each.properties.items())
            else:
                pairs = [(key, self._cell(each, name, key)) for key in asked.split(",")]
            for key, value in pairs:
                known = {"name": name, "property": key, "value": value}
                rows.append([known[c] for c in columns])
        return _rows(rows)

    def _asked(self, words: Words, names: Sequence[str]) -> list[tuple[FileSystem | Snapshot, str]]:
        if "-r" in words.flags or "-d" in words.options:
            return self._objects(words, names)
        found: list[tuple[FileSystem | Snapshot, str]] = []
        for name in names:
            known = self.pools.snapshot_called(name) if "@" in name else self.pools.file_system(name)
            found.append((known, name))
        return found

    def _cell(self, each: FileSystem | Snapshot, name: str, column: str) -> str:
        match column:
            case "name":
                return name
            case "guid" | "createtxg" | "creation":
                return str({"guid": each.guid, "createtxg": each.txg, "creation": each.creation}[column])
        if "#" in name:
            return _NONE
        if isinstance(each, Snapshot):
            return self._of_snapshot(each, column)
        return self._of_file_system(each, column)

    def _of_snapshot(self, each: Snapshot, column: str) -> str:
        match column:
            case "used" | "written":
                return "0"
            case "userrefs":
                return str(len(each.holds))
            case "clones":
                return ",".join(self.pools.clones_of(each)) or _NONE
            case "encryption":
                return "off"
        if ":" in column:
            return each.properties.get(column) or self.pools.value(each.of, column) or _NONE
        return _NONE

    def _of_file_system(self, each: FileSystem, column: str) -> str:
        match column:
            case "mountpoint":
                return self.pools.mountpoint(each)
            case "mounted":
                return "yes" if each.mounted else "no"
            case "origin":
                return str(each.origin) if each.origin else _NONE
            case "canmount":
                return each.properties.get("canmount", "on")
            case "readonly":
                return self.pools.value(each, "readonly") or "off"
            case "receive_resume_token":
                return token(each.partial) if each.partial else _NONE
        if column in _NATIVE:
            return self.pools.value(each, column) or _NATIVE[column]
        return self.pools.value(each, column) or _NONE

    def _holds(self, words: Words) -> str:
        rows = []
        for name in words.rest:
            try:
                found = self.pools.snapshot_called(name)
            except ZfsError as missing:
                raise ZfsError(f"{missing.said}\nno datasets available") from None
            rows += [[name, tag, "Wed May  1 12:00 2024"] for tag in sorted(found.holds)]
        return _rows(rows)

    def _userspace(self, words: Words) -> str:
        """Without quotas."""
        self._either(words.rest[0])
        return _rows([["POSIX Group", "0", "0", "0"], ["POSIX User", "0", "0", "0"]])

    def _projectspace(self, words: Words) -> str:
        self._either(words.rest[0])
        return _rows([["Project", "0", "0", "0"]])

    def _either(self, name: str) -> object:
        """A snapshot or a file system, which must be there."""
        return self.pools.snapshot_called(name) if "@" in name else self.pools.file_system(name)

    # changes

    def _create(self, words: Words) -> str:
        assert words.flags == {"-u"}
        return self._none(self.pools.create(words.rest[0], words.properties))

    def _snapshot(self, words: Words) -> str:
        return self._none(self.pools.snapshot(words.rest, words.properties))

    def _clone(self, words: Words) -> str:
        return self._none(self.pools.clone(words.rest[0], words.rest[1], words.properties))

    def _set(self, words: Words) -> str:
        names = [word for word in words.rest if "=" not in word]
        properties = dict(word.split("=", 1) for word in words.rest if "=" in word)
        assert properties, words
        for name in names:
            self._required(name)
            if any(len(value.encode()) > MOST_OF_VALUE for value in properties.values()):
                raise ZfsError(f"cannot set property for '{name}': property value too long")
        for name in names:
            self.pools.set(name, properties)
        return ""

    def _inherit(self, words: Words) -> str:
        key, name = words.rest
        self._required(name)
        return self._none(self.pools.inherit(name, key))

    def _required(self, name: str) -> None:
        if "@" in name:
            self.pools.snapshot_called(name)
        else:
            self.pools.file_system(name)

    def _destroy(self, words: Words) -> str:
        (name,) = words.rest
        if "-nvp" in words.flags:
            return self._would_free(name)
        if "#" in name:
            self.pools.destroy_bookmark(name)
        elif "@" in name:
            self.pools.destroy_snapshot(name)
        else:
            self.pools.destroy(name, really="-n" not in words.flags)
        return ""

    def _would_free(self, names: str) -> str:
        dataset, _, shorts = names.partition("@")
        rows = []
        for short in shorts.split(","):
            found = self.pools.snapshot_called(f"{dataset}@{short}")
            rows.append(["destroy", str(found)])
            if clones := self.pools.clones_of(found):
                raise ZfsError(dependent(str(found), clones), printed=_rows(rows))
        return _rows([*rows, ["reclaim", "0"]])

    def _hold(self, words: Words) -> str:
        tag, name = words.rest
        held = self._held(name, "hold snapshot")
        if tag in held.holds:
            raise ZfsError(f"cannot hold snapshot '{name}': tag already exists on this dataset")
        held.holds[tag] = 0
        return ""

    def _release(self, words: Words) -> str:
        tag, name = words.rest
        held = self._held(name, "release hold from snapshot")
        if tag not in held.holds:
            raise ZfsError(f"cannot release hold from snapshot '{name}': no such tag on this dataset")
        del held.holds[tag]
        return ""

    def _held(self, name: str, doing: str) -> Snapshot:
        self.pools.file_system(name.partition("@")[0])
        try:
            return self.pools.snapshot_called(name)
        except ZfsError:
            raise ZfsError(f"cannot {doing} '{name}': dataset does not exist") from None

    def _bookmark(self, words: Words) -> str:
        return self._none(self.pools.bookmark(*words.rest))

    def _abort(self, words: Words) -> str:
        assert words.flags == {"-A"}, "receive has its input from stream()"
        return self._none(self.pools.abort(words.rest[0]))

    # streams

    def _estimate(self, words: Words) -> str:
        assert "-nvP" in words.flags, "what send writes goes through stream()"
        if "-t" not in words.options:
            self.sent(words)
            return f"full\t{words.rest[-1]}\t4194304\nsize\t4194304\n"
        guid, base, name = _token(words.options["-t"][0])
        begun = f"\tfromguid = 0x{base:x}\n" if base else ""
        told = (
            f"resume token contents:\nnvlist version: 0\n{begun}\tobject = 0x2\n\toffset = 0x100000\n"
            f"\tbytes = 0x100000\n\ttoguid = 0x{guid:x}\n\ttoname = {name}\n\n\tcompressok = 1\n"
        )
        try:
            self.sent(words)
        except ZfsError as gone:
            raise ZfsError(gone.said, gone.status, told) from None
        return f"{told}full\t{name}\t4194304\nsize\t4194304\n"

    def sent(self, words: Words) -> Stream:
        """What `zfs send` would write."""
        if "-t" in words.options:
            return self._resumed(words.options["-t"][0])
        found = self.pools.snapshot_called(words.rest[0])
        base = self._base(found, words.one("-i"))
        return Stream(found.name, found.guid, base, found.creation, dict(found.files), str(found))

    def _base(self, found: Snapshot, name: str) -> int:
        if not name:
            return 0
        dataset, _, short = name.partition("#")
        if not short:
            return self.pools.snapshot_called(name).guid
        if short not in (marks := self.pools.file_system(dataset).bookmarks):
            raise ZfsError(f"cannot open '{name}': dataset does not exist")
        return marks[short].guid

    def _resumed(self, text: str) -> Stream:
        guid, base, name = _token(text)
        for found in self.pools.all_snapshots():
            if found.guid == guid:
                return Stream(found.name, guid, base, found.creation, dict(found.files), "resumed")
        raise ZfsError(f"cannot resume send: '{name}' used in the initial send no longer exists", 255)

    def send(self, argv: Sequence[str]) -> Stream:
        """`argv` is one of `zfs send`."""
        return self.sent(_words(tuple(argv[2:]), "it"))

    def receive(self, argv: Sequence[str], stream: Stream, *, cut: bool = False) -> None:
        """`argv` is one of `zfs receive`; `cut`: the stream ends in its middle."""
        words = _words(tuple(argv[2:]), "ox")
        name = words.rest[0]
        if not cut:
            self.pools.receive(name, stream, words.properties)
            return
        kept = "-s" in words.flags
        if kept:
            self.pools.receive_part(name, stream, words.properties)
        kind = "incremental" if stream.base else "new filesystem"
        more = (
            "\nPartially received snapshot is saved.\n"
            "A resuming stream can be generated on the sending system by running:\n"
            f"    zfs send -t {token(stream)}"
        )
        raise ZfsError(
            f"cannot receive {kind} stream: checksum mismatch or incomplete stream.{more if kept else ''}"
        )

    @staticmethod
    def _none(_: object) -> str:
        return ""


def token(stream: Stream) -> str:
    """What a cut stream is continued with."""
    return f"1-{stream.guid:016x}-{stream.base:016x}-{stream.source.encode().hex()}"


def _token(text: str) -> tuple[int, int, str]:
    known = re.fullmatch(r"1-([0-9a-f]{16})-([0-9a-f]{16})-([0-9a-f]*)", text)
    if known is None:
        raise ZfsError("cannot resume send: resume token is corrupt (invalid format)", 255)
    return int(known[1], 16), int(known[2], 16), bytes.fromhex(known[3]).decode()


@cache
def _words(argv: tuple[str, ...], taking: str) -> Words:
    """Nobody changes them. `taking` are the letters of the options that a value follows."""
    words, left = Words(), list(argv)
    while left:
        word = left.pop(0)
        if word == "--":
            words.rest += left
            break
        if len(word) > 1 and word[0] == "-" and not words.rest:
            if len(word) == 2 and word[1] in taking:
                words.options.setdefault(word, []).append(left.pop(0))
            else:
                words.flags.add(word)
        else:
            words.rest.append(word)
    return words


def _rows(rows: Sequence[Sequence[str]]) -> str:
    return "".join("\t".join(row) + "\n" for row in rows)
