"""A record survives being written to ZFS properties and read back, whatever is in it; damage is noticed."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.examples import examples
from tests.unit.samples import PLAIN, records
from zbackup.model.errors import Refused
from zbackup.model.long_value import CHUNK
from zbackup.model.record import (
    PREFIX,
    Record,
    from_properties,
    readable_properties,
    to_properties,
)

LIMIT = 8191  # zfsprops(7): a user property's value, terminating byte included


@given(records)
@settings(max_examples=examples(40))
def test_what_was_written_is_read_back(record: Record) -> None:
    assert from_properties(to_properties(record)) == record


@given(records, st.randoms())
@settings(max_examples=examples(40))
def test_the_order_of_properties_means_nothing(record: Record, random: object) -> None:
    items = list(to_properties(record).items())
    random.shuffle(items)  # type: ignore[attr-defined]
    assert from_properties(dict(items)) == record


@given(records)
@settings(max_examples=examples(40))
def test_zfs_can_hold_every_property(record: Record) -> None:
    for name, value in to_properties(record).items():
        assert name.startswith(PREFIX) and len(name) < 256
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789:._-")
        assert len(value.encode()) < LIMIT


@pytest.mark.parametrize("length", [CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 100_000])
@pytest.mark.parametrize("character", ["x", "ü", "😀"])
def test_long_values_are_split_and_joined(length: int, character: str) -> None:
    record = replace(PLAIN, gtid=character * length)
    properties = to_properties(record)
    assert (PREFIX + "gtid" in properties) == (len(record.gtid.encode()) <= CHUNK)
    assert from_properties(properties) == record


def test_a_lost_middle_part_is_not_taken_for_the_end() -> None:
    properties = to_properties(replace(PLAIN, gtid="x" * 30_000))
    del properties[PREFIX + "gtid.3"]
    with pytest.raises(ValueError, match="gtid"):
        from_properties(properties)


def test_a_lost_last_part_is_noticed() -> None:
    properties = to_properties(replace(PLAIN, gtid="x" * 30_000))
    del properties[f"{PREFIX}gtid.{int(properties[PREFIX + 'gtid.parts']) - 1}"]
    with pytest.raises(ValueError, match="gtid"):
        from_properties(properties)


def test_a_lost_number_of_parts_is_noticed() -> None:
    properties = to_properties(replace(PLAIN, gtid="x" * 30_000))
    del properties[PREFIX + "gtid.parts"]
    with pytest.raises(ValueError, match="gtid"):
        from_properties(properties)


def test_snapshots_of_others_are_not_ours() -> None:
    assert from_properties({}) is None
    assert from_properties({"com.sun:auto-snapshot": "true", "zbackup:clone": "{}"}) is None


def test_a_newer_record_is_not_guessed_at() -> None:
    with pytest.raises(ValueError, match="newer zbackup"):
        from_properties(to_properties(PLAIN) | {PREFIX + "version": "2"})


REQUIRED = (
    "backup",
    "instance",
    "engine",
    "purpose",
    "members",
    "taken",
    "lock",
    "server_uuid",
    "server_version",
    "server",
)


@pytest.mark.parametrize("name", REQUIRED)
def test_a_missing_value_is_named(name: str) -> None:
    properties = to_properties(PLAIN)
    del properties[PREFIX + name]
    with pytest.raises(ValueError, match=f"zbackup:{name} is missing"):
        from_properties(properties)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("members", "5"),
        ("members", "[1]"),
        ("members", "[]"),
        ("members", '["ab"]'),
        ("members", '[["tank/db"]]'),
        ("members", "[["),
        ("server", "[]"),
        ("server", "null"),
        ("server", "{"),
        ("server", '{"keyring_file": "/var/li\\u0000b/x"}'),
        ("members", '[["tank/db", "/a\\u0000b"]]'),
        ("taken", "yesterday"),
        ("taken", "2024-05-01T12:00:00"),
        ("as_of", "2024-05-01T12:00:00"),
        ("complete_to", "2024-05-01T12:00:00"),
        ("lock", "padlock"),
        ("purpose", "bass"),
        ("lock_wait_ms", "soon"),
        ("clock", "noon"),
        ("since", "ever"),
    ],
)
def test_a_damaged_value_is_a_value_error_that_names_it(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"property zbackup:{name} is damaged: .+"):
        from_properties(to_properties(PLAIN) | {PREFIX + name: value})


def test_what_is_no_json_is_called_so() -> None:
    with pytest.raises(ValueError, match=r"property zbackup:server is damaged: it is no JSON \(.*line 1"):
        from_properties(to_properties(PLAIN) | {PREFIX + "server": "{"})


@given(
    st.sampled_from(sorted(to_properties(PLAIN))),
    st.text()
    | st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ).map(json.dumps),
)
@settings(max_examples=examples(40))
def test_any_damage_is_a_value_error_or_harmless(key: str, value: str) -> None:
    try:
        found = from_properties(to_properties(PLAIN) | {key: value})
    except ValueError:
        return
    assert found is not None
    # Whatever was accepted can be compared and written again.
    assert found.taken.tzinfo and to_properties(found)


def test_a_record_of_another_host_names_no_program() -> None:
    """Whoever ships backups would choose what root runs where they are restored."""
    named = replace(PLAIN, server={**PLAIN.server, "mysqld": "/planted/mysqld", "mongod": "/planted/mongod"})
    assert named.from_elsewhere() == PLAIN


def of_schemas(count: int) -> Record:
    return replace(PLAIN, members=tuple((f"tank/db/{n:05}", f"/srv/db/{n:05}") for n in range(count)))


@pytest.mark.parametrize("count", [1000, 1001, 10_000])
def test_a_server_may_have_a_dataset_for_each_of_its_schemas(count: int) -> None:
    record = of_schemas(count)
    assert from_properties(readable_properties(record)) == record


def test_what_could_not_be_read_back_is_refused_before_it_is_written() -> None:
    with pytest.raises(Refused, match="it names 10001 datasets, and 10000 are the most"):
        readable_properties(of_schemas(10_001))
