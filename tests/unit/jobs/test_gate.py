"""The one command of a key: what is asked before it runs, what is logged, and what the log store answers."""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from zbackup.jobs.ship import gate as room
from zbackup.jobs.ship import log_gate
from zbackup.jobs.ship.gate import gate
from zbackup.model.archive import Chunk, LogFileId, tail_hash
from zbackup.model.archive_order import LogOrder
from zbackup.model.drr_begin import RECORD
from zbackup.model.errors import Refused
from zbackup.model.shipping import COMMITTED
from zbackup.plan.ship.gate import Policy

ROOT = "tank/backups"
ALL = Policy(root=ROOT, powers=frozenset({"receive", "read", "destroy"}))
SAFE = "-o readonly=on -o canmount=noauto -o setuid=off -o exec=off -o devices=off -x mountpoint"
RECEIVE = f"zfs receive -s -u {SAFE} -- {ROOT}/db1/tank"
LIST = f"zfs list -Hp -r -t filesystem,volume,snapshot -s createtxg -o name,guid,zbackup:backup -- {ROOT}"
MARK = f"zfs set zbackup:version=1 zbackup:committed=2024 {ROOT}/a@a {ROOT}/a/b@a"
RESUME = "zfs send -t 1-e604ea4bf-e0-789c63"


class Host:
    """The receiving host; `did` is what was asked and done, in order."""

    def __init__(self) -> None:
        self.did: list[Any] = []
        self.own: dict[str, dict[str, str]] = {}
        self.described = ""

    def ready(self) -> None:
        self.did.append("logs")

    def order(self, line: str, policy: Policy = ALL) -> int:
        return gate(line, policy, "10.0.0.1", self.ready)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    made = Host()

    def become(argv: Sequence[str]) -> int:
        made.did.append(("become", *argv))
        return 0

    def require_plain(head: bytes) -> None:
        made.did.append("looked at")
        if head == b"bad":
            raise Refused("this stream is refused")

    def feed(argv: Sequence[str], head: bytes) -> int:
        made.did.append(("feed", argv[1], head))
        return 0

    def tell(name: str, text: str, *, warning: bool) -> None:
        made.did.append(("told", warning, text))

    def serve(order: LogOrder) -> int:
        made.did.append(("serve", order.verb))
        return 7

    def read_head(size: int) -> bytes:
        assert size == RECORD
        return b"head"

    for name, door in (
        ("become", become),
        ("require_plain", require_plain),
        ("feed", feed),
        ("tell", tell),
        ("read_head", read_head),
    ):
        monkeypatch.setattr(room, name, door)
    monkeypatch.setattr(log_gate, "serve", serve)
    monkeypatch.setattr("zbackup.zfs.gate_facts.own_properties", lambda _: made.own)
    monkeypatch.setattr("zbackup.zfs.gate_facts.described", lambda _: made.described)
    return made


def test_what_only_reads_runs_and_is_not_written_down(host: Host) -> None:
    assert host.order(LIST) == 0
    assert host.did == [("become", *LIST.split())]


def test_a_stream_s_head_is_looked_at_before_anything_gets_it(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.order(RECEIVE)
    told, *rest = host.did
    assert rest == ["looked at", ("feed", "receive", b"head")]
    assert told == ("told", False, f"10.0.0.1, below {ROOT}: {RECEIVE!r}")
    host.did.clear()
    monkeypatch.setattr(room, "read_head", lambda _: b"bad")
    with pytest.raises(Refused, match="this stream is refused"):
        host.order(RECEIVE)
    assert host.did[1:] == [
        "looked at",
        ("told", True, f"10.0.0.1, below {ROOT}: {RECEIVE!r}: this stream is refused"),
    ]


def test_what_is_refused_is_written_down_and_not_run(host: Host) -> None:
    with pytest.raises(Refused, match="refused by the gate"):
        host.order("zfs destroy -r tank")
    [(told, warning, text)] = host.did
    assert (told, warning) == ("told", True) and "'zfs destroy -r tank': " in text


def test_the_log_is_served_by_the_gate_itself(host: Host) -> None:
    assert host.order(f"zbackup-log list {ROOT}/db1") == 7
    assert host.did == ["logs", ("serve", "list")]


def test_a_commit_is_made_of_what_is_not_committed_yet(host: Host) -> None:
    host.order(MARK)
    assert host.did[1:] == ["logs", ("become", *MARK.split())]
    host.did.clear()
    host.own = {f"{ROOT}/a@a": {"zbackup:version": "1", COMMITTED: "2024"}}
    host.order(MARK)
    assert host.did[2][-1] == f"{ROOT}/a/b@a" and f"{ROOT}/a@a" not in host.did[2]
    host.did.clear()
    host.own |= {f"{ROOT}/a/b@a": {"zbackup:version": "1", COMMITTED: "2024"}}
    assert host.order(MARK) == 0 and host.did[1:] == ["logs"], "cut short, and done again"


def test_what_a_token_is_of_has_to_lie_below(host: Host) -> None:
    host.described = f"full\t{ROOT}/db1/tank@a\t9\nnvlist\n\ttoname = {ROOT}/db1/tank@a\n".replace(
        "\ttoname", "toname"
    )
    host.order(RESUME)
    assert host.did == ["logs", ("become", *RESUME.split())]
    host.did.clear()
    host.described = host.described.replace(ROOT, "tank/secret")
    with pytest.raises(Refused):
        host.order(RESUME)
    assert [each[0] for each in host.did] == ["l", "told"]


# the log store's answers

FILE = LogFileId(server="s1", epoch=0, number=1, follows=None, head="ab" * 16, name="binlog.000001")
DATA = b"x" * 64
CHUNK = Chunk(
    begin=0,
    end=64,
    sha256=hashlib.sha256(DATA).hexdigest(),
    tail=tail_hash(DATA),
    read=datetime(2024, 5, 1, tzinfo=UTC),
)


class Store:
    """An archive in a directory, which is there once something was to be put there."""

    def __init__(self, home: Path, patch: pytest.MonkeyPatch, said: Any) -> None:
        self.home, self.said, self.sent, self.asked = home, said, DATA, 0
        patch.setattr(log_gate.LogDataset, "directory", lambda _: home if home.exists() else None)
        patch.setattr(log_gate.LogDataset, "prepared", lambda _: home.mkdir(exist_ok=True) or home)
        patch.setattr(log_gate, "read_head", self._read)

    def _read(self, size: int) -> bytes:
        self.asked = size
        return self.sent[:size]

    def __call__(self, verb: Any, **what: Any) -> bytes:
        assert log_gate.serve(LogOrder(verb=verb, home=f"{ROOT}/db1", **what)) == 0
        out: bytes = self.said.readouterr().out
        return out


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: Any) -> Store:
    return Store(tmp_path / "log", monkeypatch, capsysbinary)


def test_where_nothing_is_archived_nothing_is_said_or_made(store: Store) -> None:
    assert store("list") == store("read", file=FILE, begin=0, end=64) == store("remove", file=FILE) == b""
    assert not store.home.exists()


def test_what_is_appended_is_listed_read_and_removed(store: Store) -> None:
    assert store("claim", claim=("s1", 0, "ab" * 16)) == b"ab" * 16 + b"\n"
    assert store("append", file=FILE, chunk=CHUNK) == b"64\n" and store.asked == 65
    [line] = store("list").splitlines()
    assert line.startswith(f"s1 {FILE.key} ".encode()) and line.endswith(str(CHUNK).encode())
    assert store("read", file=FILE, begin=0, end=64) == f"{CHUNK}\n".encode() + DATA
    (store.home / "s1" / "odd.chunks").write_text("x")
    assert [each[:2] for each in store("list").splitlines()[1:]] == [b"! "]
    assert store("remove", file=FILE) == b""
    assert not [each for each in store("list").splitlines() if FILE.key.encode() in each]


@pytest.mark.parametrize("sent", [DATA + b"y", DATA[:-1]])
def test_other_bytes_than_were_announced_are_refused(store: Store, sent: bytes) -> None:
    store.sent = sent
    with pytest.raises(Refused, match=f"^{len(sent)} bytes came where 64 were announced"):
        store("append", file=FILE, chunk=CHUNK)
    assert not store.home.exists()


@pytest.mark.parametrize("lacking", [{"file": FILE}, {"chunk": CHUNK}])
def test_an_append_without_its_words_is_our_own_mistake(store: Store, lacking: Any) -> None:
    with pytest.raises(AssertionError, match="read as an append"):
        store("append", **lacking)
