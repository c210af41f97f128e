"""Records, snapshots and backups for tests: a plain one of each, and strategies for all there can be."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from zbackup.model.backup import Backup
from zbackup.model.clock_reading import Reading
from zbackup.model.printable import is_plain
from zbackup.model.record import Record, to_properties
from zbackup.model.snapshot import Snapshot

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)

PLAIN = Record(
    backup="4b3c0e9e-0000-4000-8000-000000000001",
    instance="shop",
    engine="mysql",
    members=(("tank/my db", "/srv/my db"), ("tank/my db/bin log", "/srv/my db/bin log")),
    taken=NOON,
    lock="ftwrl",
    server_uuid="3e11fa47-71ca-11e1-9e33-c80aa9429562",
    server_version="9.7.4",
    role="primary",
    position="binlog.000012:4711",
    gtid="3e11fa47-71ca-11e1-9e33-c80aa9429562:1-77",
    as_of=NOON,
    complete_to=NOON,
    server={"datadir": "/srv/my db/data/", "log_bin_basename": "/srv/my db/bin log/binlog"},
)


def at(seconds: float) -> datetime:
    """That many seconds after noon."""
    return NOON + timedelta(seconds=seconds)


def snapshots_of(record: Record, name: str = "zbackup-1", txg: int = 100) -> list[Snapshot]:
    """What ZFS would show of a backup with this record, in the order of its members."""
    return [
        Snapshot(
            dataset=dataset,
            name=name,
            guid=txg * 1000 + number,
            createtxg=txg,
            created=record.taken,
            properties=tuple(sorted(to_properties(record).items())),
        )
        for number, (dataset, _) in enumerate(record.members)
    ]


def backup(number: int, as_of: float | None, complete_to: float | None, **changes: object) -> Backup:
    """Backup `number` (also its createtxg), reaching to that many seconds after noon."""
    record = replace(
        PLAIN,
        backup=f"backup-{number}",
        as_of=None if as_of is None else at(as_of),
        complete_to=None if complete_to is None else at(complete_to),
        **changes,  # type: ignore[arg-type]
    )
    return Backup(record=record, snapshots=tuple(snapshots_of(record, f"zbackup-{number}", number)))


def lacking_one(whole: Backup) -> Backup:
    """The same backup after somebody destroyed one of its snapshots."""
    return Backup(record=whole.record, snapshots=whole.snapshots[:1])


moments = st.integers(0, 4 * 10**15).map(
    lambda micros: datetime(1990, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
)
positions = st.builds(
    lambda base, sequence, offset: f"{base}.{sequence:06}:{offset}",
    st.sampled_from(["binlog", "my.server-bin", "mysql bin"]),
    st.integers(1, 2**31 - 1),
    st.integers(0, 2**40),
)
words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=60)
names = words.filter(is_plain)
datasets = st.from_regex(r"[a-z][a-zA-Z0-9_:-]{0,20}(/[a-zA-Z0-9_: -]{1,20}){0,3}", fullmatch=True)
long_texts = st.one_of(
    st.just(""),
    # What a GTID set of a server with a long history is like: many intervals, up to 30 KB.
    st.builds(
        lambda n, uuid: ",".join(f"{uuid}:{i * 3}-{i * 3 + 1}" for i in range(n)),
        st.integers(1, 600),
        st.uuids(),
    ),
    st.builds(lambda text, times: text * times, words, st.integers(1, 400)),
)
gtids = long_texts.filter(lambda text: is_plain(text) and not re.search("[0-9]{21}", text))
records = st.builds(
    Record,
    backup=st.uuids().map(str),
    instance=st.from_regex(r"[a-z0-9][a-z0-9_-]{0,39}", fullmatch=True),
    engine=st.sampled_from(["mysql", "mariadb", "mongodb"]),
    purpose=st.sampled_from(["base", "log"]),
    members=st.lists(st.tuples(datasets, words), min_size=1, max_size=6).map(tuple),
    taken=moments,
    lock=st.sampled_from(["ftwrl", "backup-stage", "backup-lock", "fsync", "none"]),
    server_uuid=names,
    server_version=names,
    role=st.sampled_from(["", "primary", "replica"]),
    position=st.just("") | positions,
    gtid=gtids,
    as_of=st.none() | moments,
    complete_to=st.none() | moments,
    log_id=st.sampled_from(["", "8a1f0c1e-0000-4000-8000-000000000001"]),
    log_from=st.just("") | positions,
    log_to=st.just("") | positions,
    lock_wait_ms=st.none() | st.integers(0, 10**9),
    lock_held_ms=st.none() | st.integers(0, 10**9),
    clock=st.none()
    | st.builds(Reading, st.uuids().map(str), st.integers(0, 10**12).map(lambda n: n / 1000), st.booleans()),
    since=st.none() | moments,
    server=st.dictionaries(words, long_texts, max_size=4),
)
