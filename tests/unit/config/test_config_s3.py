"""A bucket in the configuration."""

import base64
from pathlib import Path

import pytest

from zbackup.app import choose_one, context
from zbackup.config.load import parse
from zbackup.config.ship import S3Address
from zbackup.destinations.s3.destination import S3Destination
from zbackup.model.errors import ConfigError
from zbackup.model.key_text import public_text
from zbackup.model.progress import Silent

INSTANCE = """
[instance.shop]
engine = "mysql"
datasets = ["tank/mysql"]
socket = "/run/mysqld/mysqld.sock"
user = "zbackup"
password = { env = "PASSWORD" }
[[instance.shop.ship]]
"""
BUCKET = INSTANCE + 'to = "s3://my.bucket/some/prefix/"\n[instance.shop.ship.s3]\n'


def destination(text: str) -> S3Destination:
    settings = parse(text)
    ctx = context(settings, choose_one(settings, None), Silent())
    found = ctx.destinations[0].adapter
    assert isinstance(found, S3Destination)
    return found


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as told:
        parse(text)
    return told.value.problems


def test_a_bucket_needs_nothing_but_its_address() -> None:
    (ship,) = parse(INSTANCE + 'to = "s3://my.bucket/some/prefix/"').instance["shop"].ship
    assert (ship.to, ship.label) == (S3Address(bucket="my.bucket", prefix="some/prefix"), "my.bucket")
    assert str(ship.to) == "s3://my.bucket/some/prefix"
    storing = destination(BUCKET).storing
    assert (storing.encrypts_new, storing.keys) == (False, None)


def test_old_keys_alone_open_and_encrypt_nothing_new(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(base64.b64encode(bytes(32)).decode())
    path.chmod(0o600)
    storing = destination(f'{BUCKET}old_keys = [{{ file = "{path}" }}]\naccept_plain = true').storing
    assert storing.keys is not None and len(storing.keys.key_id) == 16
    assert not storing.encrypts_new and not storing.signed_only


def test_what_is_configured_arrives() -> None:
    made = destination(
        BUCKET
        + """
        endpoint = "https://s3.example.com/"
        path_style = true
        segment = "64MiB"
        uploads = 3
        full_every = "30d"
        object_lock = "COMPLIANCE"
        object_lock_days = 30
        key = { env = "KEY" }
        accept_plain = true
        """
    )
    table = made.storing.table
    assert (table.endpoint, table.path_style) == ("https://s3.example.com", True)
    assert (table.object_lock, table.object_lock_days) == ("COMPLIANCE", 30)
    assert (made.bucket, made.prefix, table.uploads) == ("my.bucket", "some/prefix", 3)
    assert (table.segment, made.storing.encrypts_new, table.accept_plain) == (64 << 20, True, True)
    assert table.full_every == 30 * 86_400


@pytest.mark.parametrize(
    "place", ["s3://", "s3://Bucket", "s3://b", "s3://bucket/a b", "s3:bucket", "s3://bucket?x"]
)
def test_no_address_of_a_bucket(place: str) -> None:
    (problem,) = problems(f'{INSTANCE}to = "{place}"')
    assert '"s3://bucket/prefix"' in problem
    assert ("a bucket is 3 to 63 of" in problem) == place.startswith("s3://")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('access_key = "AKIA"', "secret_key is missing"),
        ('object_lock = "GOVERNANCE"', "object_lock_days is missing"),
        ('old_keys = [{ env = "KEY" }]', "accept_plain = true"),
        ('segment = "1KiB"', '"1MiB" to "1GiB"'),
        ('secret_key = "words"', "a password itself does not belong in this file"),
        ('endpoint = "s3.example.com"', "https://s3.example.com"),
        ("uploads = 0", "1"),
        ('compression = "gzip"', "zstd"),
        ('sgement = "1MiB"', "segment"),
    ],
)
def test_wrong_settings_are_told(line: str, why: str) -> None:
    assert any(why in problem for problem in problems(BUCKET + line))


def test_settings_of_a_bucket_for_another_place() -> None:
    (problem,) = problems(INSTANCE + 'to = "zfs:other/place"\ns3 = { path_style = true }')
    assert "is no bucket" in problem


@pytest.mark.parametrize("content", ["", "c2hvcnQ=", "no base64!", "A" * 44])
def test_what_is_no_key_is_told_late_and_clearly(content: str, tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(content, encoding="ascii")
    path.chmod(0o600)
    made = destination(f'{BUCKET}key = {{ file = "{path}" }}')
    keys = made.storing.keys
    assert keys is not None
    with pytest.raises(ConfigError, match=r"not a key|empty") as told:
        assert keys.key_id
    assert "A" * 44 not in str(told.value)


PUBLIC = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj"
PRIVATE = "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX"


def test_a_public_key_is_what_new_streams_are_sealed_for(tmp_path: Path) -> None:
    key, private = tmp_path / "key", tmp_path / "private"
    key.write_text(base64.b64encode(bytes(32)).decode())
    private.write_text(f"# public key: {PUBLIC}\n{PRIVATE}\n")
    for path in (key, private):
        path.chmod(0o600)
    both = f'{BUCKET}key = {{ file = "{key}" }}\npublic_key = "{PUBLIC.upper()}"\n'
    storing = destination(both).storing
    assert len(storing.public_id) == 16 and not storing.private.has(storing.public_id)
    storing = destination(f'{both}private_key = {{ file = "{private}" }}').storing
    assert storing.private.has(storing.public_id)
    reading = destination(f'{BUCKET}private_key = [{{ file = "{private}" }}]').storing
    assert not reading.public_id and reading.private.has(storing.public_id)
    private.write_text("x\n")
    with pytest.raises(ConfigError, match="no private key: it is no key of this kind"):
        destination(f'{both}private_key = {{ file = "{private}" }}').storing.private.has("")


def test_a_private_key_in_the_place_of_the_public_one_is_refused_and_not_repeated() -> None:
    (said,) = problems(f'{BUCKET}key = {{ env = "KEY" }}\npublic_key = "{PRIVATE}"')
    assert "public_key" in said and "private key" in said and PRIVATE[17:40] not in said
    (said,) = problems(f'{BUCKET}key = {{ env = "KEY" }}\nprivate_key = "{PRIVATE}"')
    assert "private_key" in said and PRIVATE[17:40] not in said


def test_a_public_key_for_which_nothing_can_be_encrypted_is_refused() -> None:
    with pytest.raises(ConfigError, match="it is no real key"):
        destination(f'{BUCKET}key = {{ env = "KEY" }}\npublic_key = "{public_text(bytes(32))}"')


def test_a_public_key_needs_one_that_signs() -> None:
    (said,) = problems(f'{BUCKET}public_key = "{PUBLIC}"')
    assert "key is missing, which signs" in said
