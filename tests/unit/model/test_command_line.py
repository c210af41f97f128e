"""Commands in messages: what a shell makes of them is what was meant."""

import os
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbackup.model.command_line import command_line
from zbackup.model.printable import is_plain

NAMES = [
    "tank/my db",
    "tank/it's",
    "$(reboot)",
    "a;b",
    "",
    "-rf",
    "tank/ä",
    "a\nb",
    "a\x1b[2Jb",
    "\udcff'\\ \t",
    "\u202e",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_shell_takes_each_word_as_one(name: str) -> None:
    line = command_line("printf", "%s\\0", name, 7)
    assert is_plain(line)
    said = subprocess.run(["bash", "-c", line], capture_output=True, check=True).stdout
    assert said.split(b"\0")[:-1] == [os.fsencode(name), b"7"]


@given(st.text())
def test_it_can_be_printed_as_it_is(name: str) -> None:
    assert is_plain(command_line("zfs", "destroy", name))


def test_what_needs_no_quotes_has_none() -> None:
    assert command_line("zbackup", "restore", "shop", "--to", "2024-05-01T10:02:00+00:00") == (
        "zbackup restore shop --to 2024-05-01T10:02:00+00:00"
    )
