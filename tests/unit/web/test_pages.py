"""The pages of a host that was made up."""

import html
from dataclasses import replace
from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest

from tests.unit.web.browsing import logged_in
from tests.unit.web.host import NOW, Told, ago, backups, host, shop
from zbackup.model.moment import utc_text
from zbackup.model.overview import OverviewGap
from zbackup.model.retention import FOREVER
from zbackup.web.template_filters import Words

BERLIN = ZoneInfo("Europe/Berlin")


def page(path: str, source: Told | None = None, status: int = 200) -> str:
    answer = logged_in(source).get(path)
    assert answer.status_code == status, answer.text
    return html.unescape(answer.text)


def test_a_page_takes_a_backup_for_the_moment_that_its_data_is_of() -> None:
    newest = shop().backups[-1]
    assert newest.as_of is not None
    assert utc_text(newest.as_of) in page(f"/instance/shop/moment?at=backup:{newest.name}")
    assert "There is no such backup" in page("/instance/shop/moment?at=label:nobody", status=404)
    other = page("/instance/shop/moment?at=before-drop:shop.orders", status=400)
    assert "zbackup restore shop --to before-drop:shop.orders" in other


def test_a_page_takes_no_older_backup_for_one_that_cannot_be_opened() -> None:
    older, newest = (replace(each, label="deploy") for each in shop().backups[-2:])
    path = "/instance/shop/moment?at=label:deploy"
    for kind, status in (("base", 200), ("unsound", 400), ("log", 400)):
        there = (older, replace(newest, kind=kind))
        text = page(path, Told(host(replace(shop(), backups=there))), status=status)
        assert status == 200 or f"Nothing is restored from {newest.name}" in text


def test_the_overview_answers_what_is_asked_at_night() -> None:
    text = page("/")
    assert text.index(">wiki<") < text.index(">shop<")  # the worst first
    assert "there is no pool tank2 here now" in text
    assert "The last 5 h 59 min" in text
    assert 'except in <a href="/instance/shop#gaps">1 gap' in text
    assert "snapshot in 1 minute, ship in 3 minutes (" in text
    assert ">failed 5 times</a>), prune in 19 hours" in text
    assert "in 2 hours" in text[text.index("dev1") :]


def test_a_gap_is_told_with_both_ends_and_its_cause() -> None:
    text = page("/instance/shop")
    assert "No moment after 2026-11-20 20:58:10 CET and up to 2026-11-20 23:38:10 CET" in text
    assert "The server purged binlog.000041 to binlog.000043" in text
    assert "The promise of 7 days is not kept" in text


def test_a_moment_can_be_had_and_that_is_how() -> None:
    text = page("/instance/shop/moment?at=yesterday+10:02")
    assert "Yes: shop can be brought back to this moment" in text
    assert "zbackup restore shop --to 2026-11-21T09:02:00Z" in text
    assert "5400 transactions, 73.0 MiB of log" in text
    assert "about 2 min 24 s" in text


def test_a_moment_in_a_gap_cannot_and_why() -> None:
    text = page("/instance/shop/moment?at=-30h")
    assert "No: it lies in a gap" in text
    assert "Cause: purged" in text
    assert "zbackup restore" not in text


def test_a_moment_before_all_and_one_to_come() -> None:
    assert "it is before all that is kept" in page("/instance/shop/moment?at=2026-01-01+00:00")
    assert "still to come" in page("/instance/shop/moment?at=2026-11-23+00:00")


def test_where_the_plan_fails_it_is_said() -> None:
    source = Told()
    source.no_plan = "tank/mysql is not mounted"
    text = page("/instance/shop/moment?at=-1h", source)
    assert "the plan could not be made: tank/mysql is not mounted" in text


@pytest.mark.parametrize(
    "path",
    [
        "/instance/none",
        "/instance/shop/moment?at=gestern",
        "/instance/shop/moment",
        "/instance/shop/moment?at=9999-99-99+00:00",
        "/instance/shop/moment?at=-99999999999999999d",
        "/instance/shop?from=x&to=y",
        "/instance/shop/moment?at=" + "1" * 500,
        "/nothing",
    ],
)
def test_nonsense_is_answered_in_one_line(path: str) -> None:
    answer = logged_in().get(path)
    assert answer.status_code in (400, 404)
    assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("1900-01-01 00:00", "2900-12-31 23:59"),
        ("2026-11-22 00:00", "2026-11-22 00:00"),
        ("2026-11-22 00:00", "2026-11-01 00:00"),
        ("2019-01-01T00:00:00Z", "2019-01-01T00:00:01Z"),
    ],
)
def test_any_view_is_drawn(start: str, end: str) -> None:
    answer = logged_in().get("/instance/shop", params={"from": start, "to": end})
    assert answer.status_code == 200
    assert "NaN" not in answer.text


def test_marks_of_the_log_are_read_when_asked_for() -> None:
    near = "/instance/shop?from=yesterday+09:50&to=yesterday+10:10"
    assert "DROP TABLE" not in page(near)
    text = page(f"{near}&marks=1")
    assert "DROP TABLE `orders`" in text
    assert "zbackup restore shop --before 4d8d17e9:6484" in text


def test_jobs_and_drills_with_causes() -> None:
    text = page("/jobs")
    assert "failed 5 times" in text
    assert "vault.example.net: Connection timed out" in text
    assert "failed: the table shop.orders is damaged" in text
    assert "<td>64</td>" in text
    there = shop()
    drills = (replace(there.drills[0], unchecked=2),)
    told = logged_in(Told(host(replace(there, drills=drills)))).get("/jobs").text
    assert "<td>64, 2 NOT CHECKED (to be upgraded first)</td>" in told


def test_clones_that_run_out_come_first() -> None:
    text = page("/clones")
    assert text.index(">dev1<") < text.index(">good<")


def test_secrets_are_hidden_in_the_settings() -> None:
    assert "(hidden)" in page("/settings")


def test_hostile_names_are_text() -> None:
    evil = '<img src=x onerror=alert(1)>"&\x1b[2J'
    gap = OverviewGap(after=ago(hours=2), to=ago(hours=1), cause="purged", older=evil, newer=evil, why=evil)
    there = replace(shop(), gaps=(gap,), working=evil)
    named = replace(there, backups=tuple(replace(b, name=evil, label=evil) for b in there.backups[:3]))
    for path in ("/", "/instance/shop", "/jobs"):
        text = logged_in(Told(host(named))).get(path).text
        assert "<img" not in text
        assert "\x1b" not in text


def test_a_year_of_minutes_fits_a_page() -> None:
    """10,000 backups and 200 gaps: under 200 KB, in a time that bench/web.py measures."""
    gaps = tuple(
        OverviewGap(
            after=ago(days=n + 1),
            to=ago(days=n, hours=23),
            cause="purged",
            older="a",
            newer="b",
            why="purged " * 20,
        )
        for n in range(200)
    )
    there = backups(10_000, timedelta(days=365) / 10_000, oldest=NOW - timedelta(days=365))
    text = logged_in(Told(host(replace(shop(), backups=there, gaps=gaps)))).get("/instance/shop").text
    assert len(text.encode()) < 200_000


def test_the_history_tells_what_failed_and_why() -> None:
    text = page("/jobs")
    history = text[text.index(">History<") :]
    assert history.index("ship:offsite") < history.index("postponed")
    assert "vault.example.net: Connection timed out" in history
    failures = page("/jobs?failed=1")
    assert "snapshot" not in failures[failures.index(">History: failures<") :]
    of_wiki = page("/jobs?of=wiki")
    assert "ship:offsite" not in of_wiki[of_wiki.index(">History of wiki<") :]
    assert "None, as far as it is remembered" in page("/jobs?of=nobody")


def test_each_destination_says_how_much_is_exposed() -> None:
    text = page("/")
    assert "offsite: <strong" in text
    assert 'cloud: <strong class="bad">everything' in text


def test_archived_log_is_drawn_behind_the_newest_backup_there() -> None:
    there = shop()
    offsite = replace(there.destinations[0], archived=ago(seconds=4), lost=4.0)
    seen = host(replace(there, destinations=(offsite, *there.destinations[1:])))
    text = page("/instance/shop?from=-1d&to=now", Told(seen))
    assert '<rect class="archived"' in text
    assert "log archived there" in text
    assert '<rect class="archived"' not in page("/instance/shop?from=-1d&to=now")


def test_when_prune_may_remove_what_is_told() -> None:
    text = page("/instance/shop")
    assert "At the next one: nothing; it is due in 19 h" in text
    prune = text[text.index("What prune removes, and when") :]
    assert "none goes earlier than this by the policy as it is now, whatever else" in prune
    first = min(b.until for b in shop().backups if b.until)
    assert Words(BERLIN, NOW).time(first) in prune
    kept = tuple(replace(b, until=None if n else FOREVER) for n, b in enumerate(shop().backups[:4]))
    text = page("/instance/shop", Told(host(replace(shop(), backups=kept))))
    assert "1 stays without an end, by the policy as it is now. 3 stay as long as their reason" in text
    assert ">for ever</span>" in text


def test_the_coming_week_shows_what_may_go() -> None:
    assert "May be pruned from" not in page("/instance/shop")
    text = page("/instance/shop?from=2026-11-21T00:00:00Z&to=2026-11-30T00:00:00Z")
    assert "May be pruned from" in text
