"""A pager on a terminal, and nowhere else."""

import os
import select
import subprocess
import sys
import time

import pytest

from zbackup.cli.log import Pager, chosen
from zbackup.model.progress import Silent
from zbackup.proc.start import for_pager

LISTING = """
import sys
from zbackup.cli.output import say
from zbackup.cli.log import paged
from zbackup.model.progress import Silent
with paged(Silent(), wanted=True) as pager:
    for number in range(3):
        pager.begin()
        pager.note(f"note {number}")
        say(f"line {number}")
"""


@pytest.mark.parametrize(
    ("environment", "argv"),
    [
        ({}, ("less",)),
        ({"PAGER": "most -w"}, ("most", "-w")),
        ({"PAGER": "'my pager' x"}, ("my pager", "x")),
        ({"PAGER": ""}, ()),
        ({"PAGER": "cat"}, ()),
        ({"PAGER": "'"}, ("less",)),
        ({"PAGER": "sh -c id", "SUDO_UID": "1000"}, ("less",)),
    ],
)
def test_the_pager_is_the_caller_s_unless_another_calls_by_sudo(
    environment: dict[str, str], argv: tuple[str, ...]
) -> None:
    assert chosen(environment) == argv


def test_a_pager_gets_no_secrets_and_may_run_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    monkeypatch.setenv("LESSOPEN", "|sh %s")
    monkeypatch.setenv("LESSSECURE", "0")
    monkeypatch.delenv("LESS", raising=False)
    given = for_pager()
    assert (given["LESS"], given["LESSSECURE"]) == ("FRX", "1")
    assert not {"AWS_SECRET_ACCESS_KEY", "LESSOPEN"} & given.keys()


def test_nothing_is_paged_where_nobody_looks() -> None:
    pager = Pager(Silent(), wanted=True)
    pager.begin()
    pager.end(lambda _: pytest.fail("nothing was held back"))


def test_lines_go_through_the_pager_and_notes_come_behind_it() -> None:
    """At a real terminal; the pager marks what it is given."""
    said = _at_a_terminal({"PAGER": "sed s/line/paged/"})
    assert said[:4] == ["paged 0", "paged 1", "paged 2", "zbackup: note 0"]


def test_a_pager_that_is_not_there_is_done_without() -> None:
    assert "line 2" in _at_a_terminal({"PAGER": "/nowhere/pager"})


def test_a_pager_that_ends_early_is_no_error() -> None:
    assert _at_a_terminal({"PAGER": "true"})[-1] == "zbackup: note 2"


def _at_a_terminal(more: dict[str, str]) -> list[str]:
    ours, theirs = os.openpty()
    environment = {k: v for k, v in os.environ.items() if k != "SUDO_UID"} | more
    with subprocess.Popen(
        [sys.executable, "-c", LISTING], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        said, deadline = b"", time.monotonic() + 60
        while time.monotonic() < deadline:
            if select.select([ours], [], [], 1)[0]:
                try:
                    said += os.read(ours, 65536)
                except OSError:  # it has ended, and the terminal with it
                    break
    os.close(ours)
    assert process.returncode == 0, said
    return said.decode().split("\r\n")[:-1]
