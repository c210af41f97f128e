"""Every line that README and the how-tos have people type is accounted for: who runs it, or why nobody does.

A test types it as it stands (tests/unit/docs/typed.py, tests/system/test_tutorial.py), or does the same in
words of its own, or there is a reason. So is every block of another kind: settings, statements, and what is
only shown. That the program understands each of its commands is tests/unit/docs/test_pages.py's.
"""

import ast
import shlex
from collections.abc import Iterator
from functools import cache

import pytest

from tests.system.test_tutorial import of_how_tos
from tests.unit.docs.pages import PROJECT, blocks
from tests.unit.docs.typed import HOW_TO, lines, page_of, shell

PAGES = ("README.md", *sorted(page.name for page in HOW_TO.glob("*.md")))
READERS = ("typed", "shell")
LEAST = 45
"""More lines are taken by tests now: a search that finds none proves nothing."""

BY_HAND = "an editor, or a name that only the reader knows"
THE_LAB = "what runs the tests: CI's jobs begin with it"
NO_MONGOSH = "the lab has MongoDB's server and no mongosh or mongodump: the tests do the same by its driver"
ASIDE = "what a switch set aside goes with the pool of its test"
BY_ZFS_ALONE = "the way without zbackup: a switch does it, tests/system/switch_story.py"
TIMERS = "tests/slow/test_systemd.py runs the daemon's units; timers are systemd's own"
NO_SUCH_HOST = "made before a test begins: tests/lab/second_host.py, tests/lab/two_hosts.py"

NOT_RUN = {
    "make demo": THE_LAB,
    "make demo-mongodb": THE_LAB,
    "make test": THE_LAB,
    "make test-containers": THE_LAB,
    ".venv/bin/python -m tests.containers -k encrypted": THE_LAB,
    "tests/lab/lab up": THE_LAB,
    "tests/lab/lab run -- zfs version": THE_LAB,
    "tests/lab/lab run --disk 4G -- ": THE_LAB,
    "tests/lab/lab test tests/platform": THE_LAB,
    "tests/lab/lab test --keep tests/platform": THE_LAB,
    "editor /etc/zbackup/shop.password": BY_HAND,
    "zbackup clone destroy NAME": BY_HAND,
    "mongodump --port 27018 ": NO_MONGOSH,
    "mongosh --port 27018 ": NO_MONGOSH,
    "useradd ": NO_SUCH_HOST,
    "zfs create -o canmount=off ": NO_SUCH_HOST,
    "zfs allow -u zrecv ": NO_SUCH_HOST,
    "zfs allow -u zbackup destroy,mount,userprop ": "a receiving host's daemon: the tests prune as root",
    "systemctl enable --now zbackup": "tests/slow/test_systemd.py starts it with its sockets",
    "journalctl -t zbackup-gate": "tests/platform/test_gate.py reads what the gate tells the system's log",
    "journalctl -u 'zbackup-cloner@*'": "tests/browser orders clones, without systemd and its journal",
    "journalctl -u zbackup": "run with -o cat",
    "ssh -L ": "a tunnel to another host",
    "export ": "the tests give these in the environment of each command",
    "apt install ./dist/zbackup-pitr_*.deb": "packaging/install_story.sh: with dpkg, and again",
    "apt purge ": "packaging/install_story.sh purges it, and says what is left",
    "dpkg-deb -x ": "the lab's servers are unpacked so: tests/lab/servers",
    "eval ": "tests/system/clone_story.py logs in by what it prints",
    "zfs create -o recordsize=32K ": "tests/system/test_init.py: its MongoDB is on such a dataset",
    "zfs create -o mountpoint=/var/lib/mysql ": "a dataset that a restore has to find",
    "zbackup restore --from zfs:otherpool/backups/db1 ": "run with --run-at-destination",
    "zbackup switch shop shop-20260503t040011z ": "run with a clone's given name",
    "zbackup archive shop --take-over": "tests/unit/jobs/test_archive.py: two hosts to one place",
    "zbackup restore --to-timestamp 1795240140,0 ": "tests/slow/test_cluster_by_hosts.py: three hosts",
    "zbackup restore --cluster shop --from ": "tests/slow/test_cluster_elsewhere.py: to a cluster time",
    "zbackup status --watch": "never ends: tests/system/daemon_story.py looks with --json",
    "zbackup notify --test": "tests/system/test_daemon.py: with a configuration of its own",
    "zbackup acknowledge ": "tests/system/daemon_story.py: an hour, and what it then says",
    "zbackup clone create carts ": "tests/system/member_story.py: as the story's own instance",
    "zbackup restore shop --to-backup ": "tests/system/as_it_is_story.py, and of MongoDB as on its page",
    "zfs list -r -t all ": ASIDE,
    "zfs destroy -r tank/mysql-before-": ASIDE,
    "zfs snapshot -r tank/zbackup/last@copy": BY_ZFS_ALONE,
    "zfs rename tank/mysql ": BY_ZFS_ALONE,
    "zfs send tank/zbackup/last/": BY_ZFS_ALONE,
    "zfs destroy -r tank/zbackup/last@copy": BY_ZFS_ALONE,
    "systemctl daemon-reload": TIMERS,
    "systemctl enable --now zbackup-snapshot.timer": TIMERS,
    "install -d -m 700 /etc/zbackup": "tests/system/test_init.py: init makes both, with these modes",
    "install -m 600 /dev/null ": "tests/system/test_init.py: init makes both, with these modes",
}
"""Lines, or beginnings that end in a space, a hyphen or a slash, and why no test types them."""

OWN_WORDS = {
    "README.md": "packaging/debian_story.py",
    "append-only-backup-host.md": "tests/system/test_come_back.py",
    "archive-the-log.md": "tests/system/test_come_back.py",
    "back-up-mongodb.md": "tests/system/test_mongo_snapshot.py",
    "change-what-is-protected.md": "packaging/install_story.sh",
    "dev-clones.md": "tests/system/clone_care_story.py",
    "disaster-recovery.md": "tests/system/test_come_back.py",
    "least-privilege.md": "tests/system/test_least_privilege.py",
    "off-site-copies-s3.md": "tests/system/test_come_back_s3.py",
    "point-in-time-recovery-mongodb.md": "tests/system/test_recovery_mongodb.py",
    "point-in-time-recovery.md": "tests/system/before_story.py",
    "protect-a-host.md": "tests/system/test_init.py",
    "restore-a-sharded-cluster.md": "tests/slow/test_cluster_mongodb.py",
    "restore-drills.md": "tests/slow/test_systemd.py",
    "restore-when-the-server-is-down.md": "tests/system/recovery_story.py",
    "run-as-a-service.md": "tests/slow/systemd_machine.py",
    "see-it-in-a-browser.md": "tests/slow/test_init_systemd.py",
    "undo-a-transaction.md": "tests/system/test_clones_mongodb.py",
    "upgrade.md": "tests/system/as_it_is_story.py",
}
"""Pages whose other lines a test does in words of its own, on datasets and hosts of its own."""

OTHER_KINDS = {
    "toml": "tests/unit/docs/test_pages.py",
    "sql": "tests/unit/docs/test_docs.py",
    "javascript": "tests/unit/docs/test_docs.py",
    "ini": "tests/unit/docs/test_pages.py",
    "nginx": "",
    "python": "",
    "text": "",
    "": "",
}
"""Blocks that nobody types, and what loads or compares them; "" for what is only shown."""


@cache
def calls() -> dict[tuple[str, str], str]:
    """Map each line that a test takes from a page, as (page, beginning), to the test's file."""
    found = {}
    for folder in ("tests", "packaging"):
        for file in sorted((PROJECT / folder).rglob("*.py")):
            text = file.read_text()
            if "tests.unit.docs.typed" in text and file.name != "test_every_line_is_run.py":
                for page, begins in _of(ast.parse(text)):
                    found[page, begins] = str(file.relative_to(PROJECT))
    return found


def _of(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in READERS:
            page, begins = (getattr(argument, "value", None) for argument in node.args[:2])
            if isinstance(page, str) and isinstance(begins, str):
                yield page, begins


def written() -> list[tuple[str, str]]:
    """Every line of every page, with the page."""
    return [(page, line) for page in PAGES for block in blocks(page_of(page)) for line in lines(block)]


@cache
def taken() -> frozenset[str]:
    """The lines that a test types, wherever they stand: one line is one command."""
    return frozenset(shell(page, begins) for page, begins in calls())


@cache
def guided() -> frozenset[tuple[str, ...]]:
    """The words of the commands that tests/system/test_tutorial.py runs."""
    return frozenset(command.words for command in of_how_tos())


def is_run(line: str) -> bool:
    words = shlex.split(line.partition(" | ")[0].partition(";")[0])
    return line in taken() or (words[0] == "zbackup" and tuple(words[1:]) in guided())


def is_meant(begins: str, line: str) -> bool:
    return line == begins or (begins[-1] in " -/" and line.startswith(begins))


@pytest.mark.parametrize(("page", "line"), [(p, line) for p, line in written() if not is_run(line)])
def test_what_no_test_types_has_a_reason(page: str, line: str) -> None:
    known = page in OWN_WORDS or any(is_meant(begins, line) for begins in NOT_RUN)
    assert known, f"{page}: no test runs {line!r}"


@pytest.mark.parametrize("begins", NOT_RUN)
def test_every_reason_is_of_a_line_that_is_there_and_is_not_run(begins: str) -> None:
    assert any(is_meant(begins, line) and not is_run(line) for _, line in written()), begins


@pytest.mark.parametrize("page", OWN_WORDS)
def test_a_page_that_a_test_follows_in_its_own_words_has_such_lines(page: str) -> None:
    assert (PROJECT / OWN_WORDS[page]).exists()
    left = [line for where, line in written() if where == page and not is_run(line)]
    assert any(not any(is_meant(begins, line) for begins in NOT_RUN) for line in left)


@pytest.mark.parametrize("page", PAGES)
def test_every_other_block_is_of_a_kind_that_somebody_checks(page: str) -> None:
    kinds = {block.kind for block in blocks(page_of(page))} - {"console"}
    assert kinds <= set(OTHER_KINDS), kinds
    assert all((PROJECT / OTHER_KINDS[kind]).exists() for kind in kinds)


def test_the_search_finds_what_is_there() -> None:
    assert len({line for _, line in written() if is_run(line)}) >= LEAST
