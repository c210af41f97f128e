"""The options of a host without a configuration: what does not belong together is said in one line."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from zbackup.cli.at_address import Elsewhere
from zbackup.cli.main import invoke
from zbackup.cli.restore import _source
from zbackup.config.from_address import access
from zbackup.jobs.restore.destination_source import DestinationSource

BUCKET = "s3://bucket/db1"
TO = ("--to", "latest")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("restore", "--from", BUCKET, *TO), "--below tank/recovered"),
        (("restore", "--from", BUCKET, "--below", "tank", *TO), "--below wants a dataset in a pool"),
        (("restore", "--from", "ftp://x", "--below", "t/x", *TO), "--from wants an address such as"),
        (("restore", "--from", "offsite", "--key", "/k", *TO), "--key belongs to an address"),
        (("restore", "--below", "t/x", *TO), "--below belongs to an address"),
        (("restore", "--from", BUCKET, "--below", "t/x", "--sudo", *TO), "are about another host"),
        (
            ("restore", "--from", BUCKET, "--below", "t/x", "--table", "a.b", *TO),
            "--table copies into production",
        ),
        (
            ("restore", "one", "--from", BUCKET, "--below", "t/x", "--instance", "two", *TO),
            "one or two? Name one",
        ),
        (
            ("restore", "--from", "zfs:vault/b", "--run-at-destination", "--below", "tank/x", *TO),
            "a clone stays on its pool: --below vault/...",
        ),
        (("--config", "/c", "restore", "--from", BUCKET, "--below", "t/x", *TO), "leave out --config"),
        (("restore", "--base", "t/d@x", *TO), "leave out --to"),
        (("restore", "--base", "t/d@x", "--from", "offsite"), "leave out --from"),
        (("list", "--from", "offsite"), "is --at offsite meant?"),
        (("list", "--instance", "shop"), "--instance belongs to an address"),
        (("window", "--from", "offsite"), "is --at offsite meant?"),
        (("window", "--from", BUCKET, "--at", "offsite"), "--at or --from? Name one"),
        (("window", "--key", "/k"), "--key belongs to an address"),
        (("list", "--foreign", "--at", "offsite"), "--foreign is about this host"),
        (
            ("restore", "--from", "zfs:v/b", "--below", "v/x", "--private-key", "/k", *TO),
            "only with a bucket",
        ),
        (("restore", "--private-key", "/k", *TO), "--from DESTINATION or ADDRESS"),
        (("log", "--private-key", "/k"), "--at DESTINATION"),
        (("verify", "--drill", "--private-key", "/k"), "--at DESTINATION"),
        (("key",), "--at DESTINATION or --from ADDRESS"),
        (("key", "--new", "/k", "--at", "offsite"), "--new only makes a key pair"),
        (("release",), "one of --keep BACKUP and --stale"),
        (("release", "--stale", "--keep", "x"), "one of --keep BACKUP and --stale"),
    ],
)
def test_what_does_not_belong_together_is_said(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(list(words)) == 2
    out, err = capsys.readouterr()
    assert out == "" and said in err and len(err.splitlines()) == 1


def test_a_source_knows_the_address_that_it_was_made_for() -> None:
    """The name of its destination is in no configuration, and must not be told to anybody."""
    there: Any = SimpleNamespace(name="bucket")
    ctx = cast(Any, SimpleNamespace(destinations=(there,), instance="shop"))
    made = _source(ctx, BUCKET, Elsewhere(reached=access(BUCKET)), there=False, foreign=False)
    assert made == DestinationSource(there, address=BUCKET)
    assert _source(ctx, "bucket", None, there=True, foreign=False) == DestinationSource(there, True)


def test_a_private_key_that_cannot_be_written_leaves_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    file = tmp_path / "shop.private"
    assert invoke(["key", "--new", str(file)]) == 9
    assert f"{file} cannot be written: No space left on device" in capsys.readouterr().err
    assert not file.exists()
