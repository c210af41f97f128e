"""A bucket that no configuration names: whose backups lie there, and who may read them."""

import base64
import json
import os
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.destinations.shop import BUCKET, Shop, new_shop, part, ship, stream
from tests.destinations.test_s3_seal import at
from tests.lab.s3_server import S3Server
from tests.unit.docs.typed import typed
from zbackup.cli.at_address import Elsewhere, Rebuilt, all_at
from zbackup.cli.command_context import Done, Failed
from zbackup.cli.main import invoke
from zbackup.cli.options import Options
from zbackup.config.from_address import access
from zbackup.config.load import parse
from zbackup.config.schedule import Daemon
from zbackup.destinations.s3 import from_config
from zbackup.features.fleet.command import configured
from zbackup.features.webpage import reader
from zbackup.model.errors import ConfigError, NotFound, NotRecoverable, Refused


@pytest.fixture
def shop(server: S3Server, tmp_path: Path, key: bytes, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """Two encrypted backups. Credentials are where the AWS tools look for them."""
    made = new_shop(server, tmp_path)
    with made.session(keys=(key,)) as session:
        for number in (1, 2):
            ship(session, made, stream(10 + number), part(10 + number), number)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.access)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.secret)
    if server.token:
        monkeypatch.setenv("AWS_SESSION_TOKEN", server.token)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("ZBACKUP_CONFIG", str(tmp_path / "none.toml"))
    keep_pages_in(tmp_path, monkeypatch)
    yield made


def keep_pages_in(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a configuration, pages of buckets are kept where every host keeps them: not by a test."""
    build, usual = from_config.destination, Daemon().state_dir

    def build_there(*facts: Any) -> Any:
        return build(*(home if fact == usual else fact for fact in facts))

    monkeypatch.setattr(from_config, "destination", build_there)


def file_with(shop: Shop, key: bytes, mode: int = 0o600) -> Path:
    path = shop.home / f"key {mode:o} {key[0]}"
    path.write_text(base64.b64encode(key).decode())
    path.chmod(mode)
    return path


def there(shop: Shop, *keys: Path, instance: str = "") -> list[Done[Rebuilt] | Failed]:
    reached = access(f"s3://{BUCKET}/{shop.prefix}", keys=keys, endpoint=shop.server.endpoint)
    wanted = Elsewhere(reached=reached, instance=instance)
    return all_at(Options(quiet=True), "list", wanted, lambda rebuilt: rebuilt)


def test_what_lies_there_names_itself(shop: Shop, key: bytes) -> None:
    (done,) = there(shop, file_with(shop, key))
    assert isinstance(done, Done)
    assert [b.record.backup for b in done.result.at.copies.backups] == ["backup-1", "backup-2"]
    assert (done.context.instance, done.context.engine_name) == ("shop", "mysql")
    assert "[instance.shop]" in done.result.configuration


def test_its_pages_are_kept_in_a_directory_of_the_tests_own(shop: Shop, key: bytes) -> None:
    usual = Daemon().state_dir
    before = {path for path in usual.rglob("*") if path.is_file()}
    there(shop, file_with(shop, key))
    assert [path for path in (shop.home / f"buckets.{os.geteuid()}").rglob("*") if path.is_file()]
    assert not {path for path in usual.rglob("*") if path.is_file()} - before


def test_a_bucket_tells_how_old_and_how_exposed(
    shop: Shop, key: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    reached = ["--endpoint", shop.server.endpoint, "--json"]
    words = ["fleet", f"s3://{BUCKET}/{shop.prefix}", *reached]
    where = {
        "s3://backups": words[1],
        "/etc/zbackup/bucket.key": shlex.quote(str(file_with(shop, key))),
        "26h": "9999d",
    }
    assert invoke([*typed("see-it-in-a-browser.md", "zbackup fleet", where), *reached]) == 0
    (member,) = json.loads(capsys.readouterr().out)["data"]["instances"]
    assert (member["instance"], member["engine"], member["backups"]) == ("shop", "mysql", 2)
    assert member["exposed_seconds"] > 0
    assert invoke([*words, "--key", str(file_with(shop, key)), "--max-age", "1s"]) == 1
    capsys.readouterr()
    # Without the key nobody can tell which of them are real.
    invoke(words)
    (member,) = json.loads(capsys.readouterr().out)["data"]["instances"]
    assert member["health"] != "ok" and member["problems"]


def test_what_lies_in_a_bucket_is_on_the_page_of_somebody_without_its_credentials(
    shop: Shop, key: bytes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    address, report = f"s3://{BUCKET}/{shop.prefix}", shop.home / "fleet" / "bucket.json"
    words = ["fleet", address, "--endpoint", shop.server.endpoint, "--key", str(file_with(shop, key))]
    assert invoke([*words, "--report", str(report)]) == 0
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    capsys.readouterr()
    settings = parse(f"[web]\nfleet_reports = [{json.dumps(str(report))}]\n")
    (member,) = configured(settings).members
    assert (member.address, member.instance, member.backups) == (address, "shop", 2)
    assert reader.overview(settings).fleet
    assert shop.server.secret not in report.read_text()


def test_a_key_is_missing_wrong_or_open_to_others(shop: Shop, key: bytes) -> None:
    with pytest.raises(Refused, match=r"the backups of shop at s3://\S+ are encrypted: .*--key FILE"):
        there(shop)
    other = bytes([key[0] ^ 1, *key[1:]])
    with pytest.raises(Refused, match=r"needs the key [0-9a-f]+; the key files have"):
        there(shop, file_with(shop, other))
    assert there(shop, file_with(shop, other), file_with(shop, key))
    for path, said in (
        (file_with(shop, key, 0o644), "mode 0644 lets others read the secret"),
        (shop.home / "none", "cannot read the secret: No such file"),
    ):
        with pytest.raises(ConfigError, match=said) as told:
            there(shop, path)
        assert len(told.value.problems) == 1
    short = shop.home / "short"
    short.write_text("QUJD")
    short.chmod(0o600)
    with pytest.raises(ConfigError, match="not a key: a key has 32 bytes, not 3"):
        there(shop, short)


def test_what_others_put_beside_it_is_shown_and_not_believed(shop: Shop, key: bytes) -> None:
    """Folders of any name, and manifests that whoever wrote them had no key for."""
    for name in ("docs", "No Instance", "x" * 41):
        shop.direct.put_object(
            Bucket=BUCKET,
            Key=f"{shop.prefix}/{name}/backups/backup-1/manifest.json",
            Body=shop.body(at(shop, 1)),
        )
    shop.direct.put_object(Bucket=BUCKET, Key=f"{shop.prefix}/empty/streams/x", Body=b"")
    good = file_with(shop, key)
    failed, done = there(shop, good)
    assert isinstance(failed, Failed) and failed.instance == "docs" and isinstance(done, Done)
    assert "can be restored" in str(failed.error)
    (only,) = there(shop, good, instance="shop")
    assert isinstance(only, Done)


def test_an_instance_that_is_not_there(shop: Shop, key: bytes) -> None:
    with pytest.raises(Refused, match=r"no backup of books at .* can be restored: none is committed"):
        there(shop, file_with(shop, key), instance="books")
    with pytest.raises(NotFound, match="that of one instance alone: name the prefix above it"):
        there(replace(shop, prefix=f"{shop.prefix}/shop"), file_with(shop, key))
    empty = new_shop(shop.server, shop.home)
    with pytest.raises(NotRecoverable, match="there is no backup at s3://"):
        there(empty)


def test_a_record_of_a_strange_engine_or_dataset_is_refused(server: S3Server, shop: Shop) -> None:
    """In a bucket without encryption anybody can write one."""
    plain = new_shop(server, shop.home)
    with plain.session() as session:
        ship(session, plain, stream(11), part(11), 1)
    assert isinstance(there(plain)[0], Done)
    page = json.loads(plain.body(at(plain, 1)))
    page["record"]["engine"] = "oracle"
    plain.replace(at(plain, 1), json.dumps(page).encode())
    with pytest.raises(Refused, match="of no engine that is known here"):
        there(plain)
