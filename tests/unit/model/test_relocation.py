"""The present paths of files."""

from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbackup.model.errors import Refused
from zbackup.model.relocation import Relocation, owner_of

MOVES = Relocation(
    (("/data", "/c/0"), ("/data/log", "/c/1"), ("/data2", "/c/2"), ("/data/log/old", "/c/3")),
)


@pytest.mark.parametrize(
    ("original", "now"),
    [
        ("/data", "/c/0"),
        ("/data/db/ibdata1", "/c/0/db/ibdata1"),
        ("/data/log", "/c/1"),
        ("/data/log/binlog.000001", "/c/1/binlog.000001"),
        ("/data/log2/binlog.000001", "/c/0/log2/binlog.000001"),
        ("/data/logs", "/c/0/logs"),
        ("/data2/x", "/c/2/x"),
        ("/data/log/old/x", "/c/3/x"),
        ("/data/log/older", "/c/1/older"),
        ("/data/with space/ü", "/c/0/with space/ü"),
    ],
)
def test_the_innermost_mountpoint_counts(original: str, now: str) -> None:
    assert MOVES.path(original) == Path(now)


@pytest.mark.parametrize("original", ["/data3/x", "/dat", "/", "/data22", "data/x", "/c/0/x"])
def test_what_was_elsewhere_is_refused(original: str) -> None:
    with pytest.raises(Refused, match=r"is not part of this backup \(it holds /data, /data/log"):
        MOVES.path(original)


def test_a_dataset_on_the_root_directory_is_behind_all_others() -> None:
    moves = Relocation((("/", "/c/0"), ("/log", "/c/1")))
    assert moves.path("/srv/db") == Path("/c/0/srv/db")
    assert moves.path("/log/a") == Path("/c/1/a")


parts = st.lists(st.sampled_from(["a", "ab", "a b", "b"]), max_size=4)


@given(st.lists(parts, min_size=1, max_size=5, unique_by=tuple), parts, st.randoms())
def test_the_order_of_mounts_means_nothing(mounts: list[list[str]], path: list[str], random: object) -> None:
    moves = [("/" + "/".join(m), f"/clone/{n}") for n, m in enumerate(mounts)]
    original = "/" + "/".join(path)
    # The model: walk up from the path until a directory is a mountpoint.
    walk = [original, *map(str, PurePosixPath(original).parents)]
    wanted = next((w for w in walk if w in dict(moves)), None)
    random.shuffle(moves)  # type: ignore[attr-defined]
    assert owner_of(original, [old for old, _ in moves]) == wanted
    if wanted is None:
        with pytest.raises(Refused):
            Relocation(tuple(moves)).path(original)
    else:
        inside = PurePosixPath(original).relative_to(wanted)
        assert Relocation(tuple(moves)).path(original) == Path(dict(moves)[wanted]) / inside
