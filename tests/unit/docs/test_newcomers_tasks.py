"""Twenty tasks in a newcomer's words are done from the docs alone, within two looks: the index, and the page.

A task's clue is a word of the newcomer's that stands in the index's line, so that he opens this page and no
other; the command stands under the heading, and is accounted for as all lines are: a test runs it.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.unit.docs.pages import PROJECT
from tests.unit.docs.test_every_line_is_run import is_run, written

INDEX = PROJECT / "docs" / "README.md"


@dataclass(frozen=True, slots=True)
class Task:
    """What somebody wants, in his words; where the docs say it, and the line that he types."""

    wanted: str
    clue: str
    page: str
    heading: str
    typed: str

    def __str__(self) -> str:
        return self.wanted


TASKS = (
    Task(
        "I have a Debian host with a MySQL: protect it",
        "protect",
        "how-to/protect-a-host.md",
        "3. Do it",
        "zbackup init",
    ),
    Task(
        "rows and a dropped table: I want them back in production",
        "dropped table",
        "how-to/restore-a-dropped-table.md",
        "Bring it back",
        "zbackup restore shop --before-drop shop.orders --table shop.orders",
    ),
    Task(
        "a wrong UPDATE was committed: undo that transaction",
        "undo",
        "how-to/undo-a-transaction.md",
        "Undo a transaction",
        "zbackup undo 4d8d17e9-c6a7-11f0-9d2c-525400123456:6484 shop --dry-run",
    ),
    Task(
        "how far back does my recovery window reach?",
        "recovery window",
        "how-to/retention-policy.md",
        "See what can be restored",
        "zbackup window",
    ),
    Task(
        "the disk fills up: what does a prune delete, and why does a backup stay?",
        "a prune delete",
        "how-to/retention-policy.md",
        "See what it would do",
        "zbackup prune --dry-run",
    ),
    Task(
        "keep one backup longer: that from before the deployment, for a month",
        "keep one backup longer",
        "how-to/retention-policy.md",
        "Keep one backup longer",
        "zbackup snapshot shop --label before-deploy --keep 30d",
    ),
    Task(
        "copies on another host with ZFS",
        "another host",
        "how-to/off-site-copies-zfs.md",
        "Send the first copy",
        "zbackup ship shop offsite --initial",
    ),
    Task(
        "copies in S3, encrypted",
        "in S3",
        "how-to/off-site-copies-s3.md",
        "4. Ship",
        "zbackup ship shop cloud --initial",
    ),
    Task(
        "nobody who takes over the database's host may delete my backups: ransomware",
        "ransomware",
        "how-to/append-only-backup-host.md",
        "With one command",
        'zbackup init --receive --dataset tank/backups/db1 --quota 2T --key "ssh-ed25519 AAAA... db1"',
    ),
    Task(
        "the host burned down, I have a bucket and a key: from nothing",
        "from nothing",
        "how-to/disaster-recovery.md",
        "From nothing",
        "zbackup restore --from s3://company-backups/db1 --key /root/shop.key "
        "--below tank/recovered --to latest",
    ),
    Task(
        "a server beside production as it was at 10:02: point-in-time recovery",
        "point-in-time recovery",
        "how-to/point-in-time-recovery.md",
        "3. Restore",
        'zbackup restore shop --to "10:02" --name good',
    ),
    Task(
        "the database server does not start any more, and I need its data: server is down",
        "server is down",
        "how-to/restore-when-the-server-is-down.md",
        "Get a working server",
        "zbackup restore shop --to now --name last --port 3307",
    ),
    Task(
        "replace production with what I restored, and roll back if it was wrong",
        "replace production",
        "how-to/replace-production.md",
        "Switch",
        "zbackup switch shop good --confirm shop",
    ),
    Task(
        "masked dev clones for developers, gone by tonight",
        "dev clones",
        "how-to/dev-clones.md",
        "Dev clones of production",
        "zbackup clone create shop --name dev1 --lease 8h",
    ),
    Task(
        "put it into Nagios",
        "Nagios",
        "how-to/monitoring-and-alerts.md",
        "Nagios, Icinga, Checkmk and the like",
        "zbackup status --plugin; echo $?",
    ),
    Task(
        "no alerts while we move the server: pause it for two hours",
        "pause",
        "how-to/monitoring-and-alerts.md",
        "Acknowledge, and pause",
        'zbackup pause shop --for 2h --reason "moving to the new rack"',
    ),
    Task(
        "proof that my backups can be restored",
        "can be restored",
        "how-to/restore-drills.md",
        "What a drill does",
        "zbackup check shop --drill",
    ),
    Task(
        "change a password: that of its account",
        "change a password",
        "how-to/change-what-is-protected.md",
        "Change the account's password",
        "mysql -u root -p -e \"ALTER USER zbackup@localhost IDENTIFIED BY '...'\"",
    ),
    Task(
        "upgrade the database server, and still restore what is older",
        "upgrade",
        "how-to/upgrade.md",
        "The database server",
        'zbackup restore shop --to "2024-05-01 10:02" --server /opt/mysql-8.0/usr/sbin/mysqld',
    ),
    Task(
        "I come from sanoid: restore one of its snapshots",
        "sanoid",
        "explanation/coming-from.md",
        "Restore a snapshot that others took",
        "zbackup list shop --foreign",
    ),
)


def line_of_index(page: str) -> str:
    (line,) = [line for line in INDEX.read_text().splitlines() if f"]({page})" in line]
    return line


def section(page: str, heading: str) -> str:
    """What stands under a heading, up to the next one of any level."""
    text = re.sub(r"\\\n\s*", "", (PROJECT / "docs" / page).read_text())
    _, _, after = re.split(rf"^(#+ {re.escape(heading)})$", text, maxsplit=1, flags=re.M)
    return re.split(r"^#{2,} ", after, maxsplit=1, flags=re.M)[0]


@pytest.mark.parametrize("task", TASKS, ids=str)
def test_the_task_is_done_within_two_looks(task: Task) -> None:
    line = line_of_index(task.page)
    assert task.clue.lower() in task.wanted.lower() and task.clue.lower() in line.lower(), line
    assert task.typed in section(task.page, task.heading)
    assert (Path(task.page).name, task.typed) in written() or is_run(task.typed)


def test_there_are_twenty() -> None:
    assert len({task.wanted for task in TASKS}) == 20
