"""The backup a dev clone is made of, what it is called, how it is reached, and when its lease ends."""

from dataclasses import replace
from datetime import timedelta
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.samples import NOON, at, backup, lacking_one
from zbackup.model.clone import Clone
from zbackup.model.cloning import Login
from zbackup.plan.clones.choose_backup import choose_backup
from zbackup.plan.clones.clone_name import next_name, numbered, require_good
from zbackup.plan.clones.connection_url import environment, url
from zbackup.plan.clones.lease import children_first, end_of, judge

CLONE = Clone(
    id="1", name="dev1", instance="shop", engine="mysql", kind="dev", state="ready", created=NOON, backup="b"
)
WARN = timedelta(minutes=30)


def test_the_newest_whole_base_is_cloned() -> None:
    old, newest = backup(1, 10, 10), backup(2, 20, 20)
    unfit = [backup(3, None, None), backup(4, 40, 40, purpose="log"), lacking_one(backup(5, 50, 50))]
    assert choose_backup([newest, old, *unfit], "") == newest
    assert choose_backup([old, newest, *unfit], "zbackup-1") == old
    assert choose_backup([old, newest], "backup-2") == newest
    assert choose_backup([old, *unfit], "zbackup-4") is None
    assert choose_backup([], "") is None


@given(st.sets(st.sampled_from([f"shop-dev{n}" for n in range(1, 9)])))
def test_the_next_name_is_nobodys_and_good(taken: set[str]) -> None:
    name = next_name("shop", taken)
    require_good(name)
    assert name not in taken


def test_several_are_numbered() -> None:
    assert numbered("team", 1) == ["team"]
    assert numbered("team", 2) == ["team-1", "team-2"]
    assert numbered("", 3) == ["", "", ""]


@given(st.text(min_size=1, max_size=30), st.sampled_from(["mysql", "mariadb", "mongodb"]))
def test_a_url_holds_whatever_the_password_is(password: str, engine: str) -> None:
    parts = urlsplit(url(engine, 23100, Login("me", password)))
    assert (parts.hostname, parts.port, parts.username) == ("127.0.0.1", 23100, "me")
    assert unquote(parts.password or "") == password


def test_without_a_login_none_is_told() -> None:
    assert url("mysql", 1, None) == "mysql://127.0.0.1:1/"
    assert url("mongodb", 1, None) == "mongodb://127.0.0.1:1/?directConnection=true"
    assert "MYSQL_PWD" not in environment("mariadb", 1, None)
    assert environment("mongodb", 1, None)["MONGODB_URI"] == url("mongodb", 1, None)


def test_each_server_s_programs_find_what_they_look_at() -> None:
    me = Login("me", "secret")
    there = url("mongodb", 7, me)
    assert there == "mongodb://me:secret@127.0.0.1:7/?authSource=admin&directConnection=true"
    assert environment("mongodb", 7, me) == {"DATABASE_URL": there, "MONGODB_URI": there}
    plain = {"DATABASE_URL": "mysql://127.0.0.1:7/", "MYSQL_HOST": "127.0.0.1", "MYSQL_TCP_PORT": "7"}
    assert environment("mysql", 7, None) == plain
    known = {"DATABASE_URL": url("mysql", 7, me), "MYSQL_USER": "me", "MYSQL_PWD": "secret"}
    assert environment("mysql", 7, me) == plain | known


@pytest.mark.parametrize(
    ("until", "protected", "verdict"),
    [
        (None, None, "runs"),
        (3600, None, "runs"),
        (1801, None, "runs"),
        (1800, None, "ends soon"),
        (1799, None, "ends soon"),
        (1, None, "ends soon"),
        (0, None, "over"),
        (-1, 1, "protected"),
        (-1, 0, "over"),
        (3600, 7200, "protected"),
        (1200, -5, "ends soon"),
        (None, 60, "protected"),
        (None, -60, "runs"),
    ],
)
def test_a_lease_ends_and_protection_holds_it_up(
    until: int | None, protected: int | None, verdict: str
) -> None:
    clone = replace(
        CLONE,
        until="" if until is None else at(until).isoformat(),
        protected="" if protected is None else at(protected).isoformat(),
    )
    assert judge(clone, NOON, WARN) == verdict
    assert (end_of(clone) is None) == (until is None)


def test_protection_never_shortens_a_lease() -> None:
    for until, protected, end in ((60, 90, 90), (90, 60, 90)):
        clone = replace(CLONE, until=at(until).isoformat(), protected=at(protected).isoformat())
        assert end_of(clone) == at(end)


def test_children_go_before_their_parents_and_no_circle_is_followed() -> None:
    named = [
        replace(CLONE, name=name, parent=parent)
        for name, parent in (("a", ""), ("b", "c"), ("c", "a"), ("d", "gone"), ("x", "y"), ("y", "x"))
    ]
    order = [clone.name for clone in children_first(named)]
    assert sorted(order) == sorted(clone.name for clone in named)
    assert order.index("b") < order.index("c") < order.index("a")
