"""Records as somebody writes them who wants to do harm: strategies."""

import json

from hypothesis import strategies as st

from tests.unit.samples import PLAIN
from zbackup.model.record import PREFIX, to_properties

GOOD = to_properties(PLAIN)

MOMENTS = (
    "0001-01-01T00:00:00+00:00",
    "9999-12-31T23:59:59.999999-15:59",
    "1979-12-31T23:59:59+00:00",
    "1980-01-01T00:00:00+00:00",
    "2199-12-31T23:59:59+00:00",
    "2200-01-01T00:00:00+00:00",
    "2024-05-01T12:00:00",
    "2024-05-01T12:00:00+23:59",
    "2024-05-01T12:00:00.123456+00:00",
    "20240501T120000Z",
    "2024-W18-3T12:00:00+00:00",
    "now",
)
PLACES = (
    "binlog.000001:4",
    "binlog.000012:" + "9" * 20,
    "binlog." + "9" * 5000 + ":4",
    "binlog.000001:" + "9" * 5000,
    "binlog.x:4",
    "binlog",
    "4294967295,4294967295@-1",
    "99999999999,1@1",
    ":",
    "binlog.000001:-4",
    "binlog.\u0661\u0662:4",
)
CLOCKS = (
    "boot inf synchronised",
    "boot nan free",
    "boot -1 free",
    "boot 1e308 synchronised",
    "boot 1e9 free",
    "boot 12",
    " 12 free",
    "b 1 free free",
    "b" * 5000 + " 1 free",
)
JSONS = (
    "[" * 100_000,
    '{"a":' * 5000,
    "[1e999]",
    "[" + "9" * 5000 + "]",
    "[]",
    "{}",
    "null",
    '[["tank/my db", 5]]',
    '[["/a", "/m"], ["b", "/n"]]',
    '[["tank/../b", "/m"]]',
    json.dumps([["d", "/m"]] * 2000),
    json.dumps({str(n): "" for n in range(2000)}),
    '{"uid": "\\ud800"}',
)
TEXTS = ("", "\x1b[2J", "\u202e", "a\nb", "x" * 100_000, "0", "inf", "-", "99", "\udcff", "\u0669" * 30)
VALUES = MOMENTS + PLACES + CLOCKS + JSONS + TEXTS

names = st.sampled_from([key.removeprefix(PREFIX) for key in GOOD])
values = st.one_of(
    st.sampled_from(VALUES),
    st.text(max_size=80),
    st.integers(1, 6000).map(lambda n: "9" * n),
    st.datetimes().map(lambda at: f"{at.isoformat()}+00:00"),
    st.floats().map(str),
    st.builds(lambda file, offset: f"binlog.{file}:{offset}", st.integers(0), st.integers(0)),
    st.builds(lambda s, i, t: f"{s},{i}@{t}", st.integers(), st.integers(), st.integers()),
    st.recursive(
        st.none() | st.text(max_size=8) | st.integers(),
        lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=8), x, max_size=3),
        max_leaves=6,  # what is large is in JSONS: to make it up takes longer than to read it
    ).map(json.dumps),
)
properties = st.builds(
    lambda changed, gone, parts: {
        key: value
        for key, value in {
            **GOOD,
            **{PREFIX + name: value for name, value in changed.items()},
            **{f"{PREFIX}{name}.{part}": value for name, part, value in parts},
        }.items()
        if key not in gone
    },
    st.dictionaries(names, values, max_size=6),
    st.sets(names.map(PREFIX.__add__), max_size=1),
    st.lists(st.tuples(names, st.sampled_from(("parts", "0", "1", "-1")), values), max_size=2),
)
"""A real record with a few values that are not."""
