"""Streams that make a copy, whatever else lies in the bucket."""

from collections.abc import Iterable
from datetime import UTC, datetime

from zbackup.destinations.s3.chains import BucketContents, ChainIndex
from zbackup.destinations.s3.layout import StreamId
from zbackup.destinations.s3.manifest_schema import Manifest, PartPage

Pair = tuple[int, int | None]


def streams(*pairs: Pair) -> list[StreamId]:
    return [StreamId(dataset="tank", guid=guid, base=base) for guid, base in pairs]


def committed(guid: int, base: int | None) -> Manifest:
    part = PartPage(
        dataset="tank",
        snapshot="s",
        guid=guid,
        base=base,
        size=1,
        stored=1,
        raw=False,
        stream_sha256=bytes(32),
    )
    return Manifest(committed="", host="", record={}, parts=(part,))


def chains_of(there: Iterable[Pair], named: Iterable[Pair] = (), foreign: Iterable[Pair] = ()) -> ChainIndex:
    indexes = dict.fromkeys(streams(*there), datetime(2026, 11, 1, tzinfo=UTC))
    manifests = [committed(*pair) for pair in named]
    return ChainIndex(
        BucketContents(indexes=indexes, headers={}, manifests=manifests, foreign=frozenset(streams(*foreign)))
    )


def test_a_chain_is_the_shortest_way_to_a_full_stream() -> None:
    there = chains_of([(1, None), (2, 1), (3, 2), (3, None), (4, 3), (6, 5), (8, 7), (7, 8)])
    assert there.to("tank", 4) == streams((3, None), (4, 3))
    assert there.to("tank", 2) == streams((1, None), (2, 1))
    assert [there.to("tank", guid) for guid in (5, 6, 7, 8, 9)] == [None] * 5
    assert there.to("other", 1) is None


CHAIN: list[Pair] = [(1, None), (2, 1), (3, 2), (8, None)]


def test_what_a_manifest_names_is_the_way() -> None:
    named: list[Pair] = [(1, None), (3, 2)]
    there = chains_of([(8, None), (2, 8), *CHAIN, (3, None), (3, 8)], named)
    assert there.to("tank", 3) == streams((8, None), (2, 8), (3, 2)), "of what none names, any"
    there = chains_of([*CHAIN, (3, None), (3, 8), (2, 8)], named, foreign=[(2, 8), (3, None)])
    assert there.to("tank", 3) == streams((1, None), (2, 1), (3, 2))
    assert sorted(there.leading()) == sorted(streams((1, None), (2, 1), (3, 2), (3, 8), (8, None)))


def test_what_was_lost_and_sent_again_is_the_way() -> None:
    named: list[Pair] = [(1, None), (2, 1), (8, None), (9, 8)]
    assert chains_of([(1, None), (2, 1), (9, 8)], named).to("tank", 9) is None
    again = chains_of([(1, None), (2, 1), (8, 2), (9, 8)], named)
    assert again.to("tank", 9) == streams((1, None), (2, 1), (8, 2), (9, 8))
    assert chains_of([(2, 1), (2, None)], named).to("tank", 2) == streams((2, None))
    assert chains_of([(2, 1), (2, None)], named, foreign=[(2, None)]).to("tank", 2) is None


def test_all_that_may_lead_to_a_committed_copy() -> None:
    there = chains_of([*CHAIN, (2, 8), (3, 7), (9, 8), (5, None)], [(3, 2)])
    assert sorted(there.leading()) == sorted(streams((3, 2), (3, 7), (2, 1), (2, 8), (1, None), (8, None)))
