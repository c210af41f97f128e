"""The daemon's own verdict: its rights as `zfs allow` prints them, and its jobs as it wrote them down."""

from datetime import UTC, datetime, timedelta

import pytest

from zbackup.features.init.plan.verdict import MOST_SAID, JobSeen, lacking, needed, of_jobs

START = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
EARLIER, LATER = START - timedelta(minutes=1), START + timedelta(seconds=1)
SAID = """---- Permissions on tank/mysql ---------------------------------------
Permission sets:
\t@set hold
Local permissions:
\tuser zbackup release
Descendent permissions:
\tuser zbackup send
Local+Descendent permissions:
\tuser other destroy
\tuser zbackup snapshot,userprop
\tgroup backup hold
---- Permissions on tank ---------------------------------------------
Local permissions:
\tuser zbackup bookmark
Descendent permissions:
\teveryone mount
"""
ALL = needed(prunes=True, ships=True)


def test_a_right_counts_where_it_holds_and_for_whom() -> None:
    assert lacking(SAID, "tank/mysql", ("zbackup", "backup"), ALL) == ("destroy", "send", "bookmark")
    assert lacking(SAID, "tank/mysql", ("zbackup",), needed(prunes=False, ships=False)) == ("hold",)
    assert lacking("", "tank/mysql", ("zbackup",), ALL) == ALL


def test_of_a_set_it_is_not_told() -> None:
    given = "---- Permissions on a -----\nLocal+Descendent permissions:\n\tuser zbackup @backup,hold\n"
    assert lacking(given, "a", ("zbackup",), ALL) == ()


def test_no_dashes_follow_a_name_that_fills_the_line() -> None:
    name = f"tank/{'of-a-customer/' * 4}mysql"
    given = f"---- Permissions on {name} \nLocal permissions:\n\tuser zbackup {','.join(ALL)}\n"
    assert lacking(given, name, ("zbackup",), ALL) == ()
    assert lacking(given, f"{name}/below", ("zbackup",), ALL) == ALL


def test_of_what_it_said_no_more_is_told_than_a_terminal_takes() -> None:
    failed = JobSeen(job="watch", failed=LATER, failures=1, message="x" * 10_000)
    assert len(of_jobs([failed] * 9, START).why) == MOST_SAID


@pytest.mark.parametrize(
    ("jobs", "state"),
    [
        ([], "waiting"),
        ([JobSeen(job="reconcile", last=LATER)], "waiting"),
        ([JobSeen(job="watch", last=EARLIER)], "waiting"),
        ([JobSeen(job="watch", last=START)], "works"),
        ([JobSeen(job="watch", failed=EARLIER, failures=1)], "waiting"),
        ([JobSeen(job="watch", failed=LATER, failures=1)], "fails"),
        (
            [JobSeen(job="watch", last=LATER), JobSeen(job="reconcile", failed=LATER, failures=2)],
            "fails",
        ),
        ([JobSeen(job="watch", last=LATER), JobSeen(job="ship", failed=LATER, failures=2)], "works"),
        ([JobSeen(job="watch", last=LATER), JobSeen(job="prune", failed=LATER)], "works"),
    ],
)
def test_what_it_wrote_down_since_its_start_counts(jobs: list[JobSeen], state: str) -> None:
    assert of_jobs(jobs, START).state == state
