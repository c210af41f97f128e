"""Every phrase of the table leads to its type; nothing else does."""

import pytest

from zbackup.model.errors import CommandFailed, CommandTimedOut, DatasetBusy
from zbackup.zfs.errors import PHRASES, translate

ARGV = ("zfs", "destroy", "tank/db")


@pytest.mark.parametrize(("phrase", "kind"), PHRASES)
def test_a_phrase_becomes_its_type(phrase: str, kind: type[CommandFailed]) -> None:
    failure = CommandFailed(ARGV, 1, f"cannot do it 'tank/db': {phrase.capitalize()}\n")
    found = translate(failure)
    assert type(found) is kind
    assert (found.argv, found.returncode, found.stderr) == (ARGV, 1, failure.stderr)


def test_a_full_pool_comes_with_what_to_do() -> None:
    full = translate(CommandFailed(("zfs", "snapshot", "-o"), 1, "cannot create snapshots : out of space"))
    assert str(full) == (
        "zfs snapshot exited with 1: cannot create snapshots : out of space; zfs list -o space shows what "
        "takes the room, zbackup prune gives back what no rule keeps"
    )


def test_an_encrypted_dataset_without_its_key_comes_with_what_to_do() -> None:
    locked = translate(
        CommandFailed(("zfs", "mount"), 1, "cannot mount 'tank/db': encryption key not loaded")
    )
    assert str(locked) == (
        "zfs mount exited with 1: cannot mount 'tank/db': encryption key not loaded; load its key with "
        "zfs load-key (zfs get encryptionroot names the dataset), and try again"
    )


def test_the_unknown_stays_what_it_is() -> None:
    failure = CommandFailed(ARGV, 1, "cannot open 'tank/db': permission denied")
    assert translate(failure) is failure


def test_a_timeout_stays_one_whatever_it_says() -> None:
    late = CommandTimedOut(ARGV, -1, "dataset is busy")
    assert translate(late) is late


def test_what_has_its_type_keeps_it() -> None:
    busy = DatasetBusy(ARGV, 1, "dataset does not exist")
    assert translate(busy) is busy
