"""Settings made of an address: what is printed is what the loader reads, whatever lies there calls itself."""

import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zbackup.config.from_address import AddressAccess, Wanted, access, require_below, settings_for
from zbackup.config.load import parse
from zbackup.config.rules import inside
from zbackup.config.secret import SecretRef
from zbackup.model.errors import UsageError, VerificationFailed

BUCKET = "s3://bucket/db1"
SSH = "ssh://backup@vault/tank/backups"
SHOP = Wanted(name="shop", engine="mysql", members=["tank/mysql", "tank/mysql/binlog"], below="new/recovered")


def test_a_bucket_with_its_key_on_another_server() -> None:
    reached = access(
        BUCKET, keys=[Path("/root/new.key"), Path("old.key")], endpoint="https://s3.example.com/"
    )
    settings, text = settings_for(SHOP, reached)
    assert parse(text) == settings
    (shop,) = settings.instance.values()
    assert (shop.name, shop.engine, shop.datasets, shop.clones_dataset) == (
        "shop",
        "mysql",
        ("new/mysql",),
        "new/recovered",
    )
    (ship,) = shop.ship
    assert str(ship.to) == BUCKET
    assert ship.s3.endpoint == "https://s3.example.com" and ship.s3.path_style
    assert ship.s3.key == SecretRef("file", "/root/new.key")
    assert ship.s3.old_keys == (SecretRef("file", str(Path("old.key").absolute())),)
    assert reached.ship() == ship


def test_another_host_and_a_pool_of_this_one() -> None:
    reached = access(SSH, identity=Path("/k"), known_hosts=Path("/h"), sudo=True)
    settings, text = settings_for(SHOP, reached)
    ship = parse(text).instance["shop"].ship[0]
    assert ship == reached.ship() == settings.instance["shop"].ship[0]
    assert (str(ship.ssh.identity), str(ship.ssh.known_hosts), ship.ssh.sudo) == ("/k", "/h", True)
    settings, _ = settings_for(SHOP, access("zfs:vault/backups"))
    assert settings.instance["shop"].clones_elsewhere == ("vault/zbackup-clones",)


def test_the_program_to_recover_with() -> None:
    settings, _ = settings_for(
        Wanted(name="shop", engine="mongodb", members=["a/b"], below="n/r", server=Path("/opt/mongod")),
        access(BUCKET),
    )
    assert settings.instance["shop"].recovery.server == ("/opt/mongod",)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"address": "ftp://x"}, r"--from wants an address such as"),
        ({"address": BUCKET, "endpoint": "https://AKIA:secret@h"}, r"--endpoint holds a user or password"),
        ({"address": BUCKET, "endpoint": "s3.example.com"}, r"--endpoint wants an address such as"),
        ({"address": SSH, "keys": [Path("/k")]}, r"--key and --endpoint are about a bucket"),
        ({"address": "zfs:tank/b", "endpoint": "https://s3"}, r"--key and --endpoint are about a bucket"),
        ({"address": BUCKET, "identity": Path("/k")}, r"are about another host"),
        ({"address": "zfs:tank/b", "sudo": True}, r"are about another host"),
        ({"address": BUCKET, "keys": [Path("/a\nb")]}, r"characters that no configuration can name"),
    ],
)
def test_what_does_not_belong_together_is_refused(words: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        access(**words)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["tank", "", "tank/", "/tank/x", "tank/x y\n", "tank/..", "-x/y"])
def test_what_clones_cannot_go_below(name: str) -> None:
    with pytest.raises(UsageError, match="--below wants a dataset"):
        require_below(name)


names = st.from_regex(r"[a-zA-Z][a-zA-Z0-9_.:-]{0,9}", fullmatch=True)
datasets = st.lists(names, min_size=1, max_size=4).map("/".join)


@given(st.lists(datasets, min_size=1, max_size=8), st.lists(names, min_size=2, max_size=3).map("/".join))
def test_any_datasets_make_a_configuration_on_the_pool_that_is_recovered_on(
    members: list[str], below: str
) -> None:
    """What stands at the top of them, or the instance's name where that would not do."""
    wanted = Wanted(name="shop", engine="mariadb", members=members, below=below)
    settings, text = settings_for(wanted, AddressAccess(to=access(BUCKET).to))
    found = settings.instance["shop"].datasets
    pool = below.partition("/")[0]
    assert parse(text) == settings and all(name.startswith(f"{pool}/") for name in found)
    assert not any(inside(name, below) for name in found)
    moved = {"/".join((pool, *m.split("/")[1:])) for m in members}
    assert found == (f"{pool}/shop",) or (
        set(found) <= moved and all(any(inside(m, f) for f in found) for m in moved)
    )


def test_without_a_place_to_recover_the_datasets_keep_their_names() -> None:
    settings, _ = settings_for(Wanted(name="shop", engine="mysql", members=["a/b", "a/c"]), access(BUCKET))
    assert settings.instance["shop"].datasets == ("a/b", "a/c")


@given(st.text(max_size=60), st.text(max_size=60))
@example("\n", "x")
def test_hostile_names_are_refused_and_never_become_settings(name: str, member: str) -> None:
    """Nobody can write a line of the configuration by what he calls his datasets."""
    wanted = Wanted(name=name, engine="mysql", members=[f"tank/{member}"], below="new/back")
    try:
        settings, text = settings_for(wanted, access(BUCKET))
    except VerificationFailed as refused:
        assert "calls itself what no configuration can say" in str(refused) and "\n" not in str(refused)
        return
    assert re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name)
    (instance,) = settings.instance.values()
    assert instance.recovery.server is None and [str(s.to) for s in instance.ship] == [BUCKET]
    assert len(text.splitlines()) == len(text.split("\n")) - 1
