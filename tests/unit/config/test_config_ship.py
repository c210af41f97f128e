"""Destinations as people write them, and what is refused of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbackup.config.load import parse
from zbackup.config.settings import Settings
from zbackup.config.ship import ZfsAddress, _address
from zbackup.model.errors import ConfigError
from zbackup.model.schedule import Interval

TOP = '[instance.shop]\nengine = "mysql"\ndatasets = ["tank/mysql"]\n'


def ships(*tables: str) -> Settings:
    return parse(TOP + "".join(f"[[instance.shop.ship]]\n{table}\n" for table in tables))


def problems(*tables: str) -> list[str]:
    with pytest.raises(ConfigError) as told:
        ships(*tables)
    return told.value.problems


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("zfs:vault/backups", ZfsAddress(dataset="vault/backups")),
        ("ssh://vault/tank", ZfsAddress(dataset="tank", host="vault")),
        (
            "ssh://backup@vault.example.net:2222/tank/my%20backups",
            ZfsAddress(dataset="tank/my backups", host="vault.example.net", user="backup", port=2222),
        ),
        ("ssh://b@[fe80::1]:22/tank", ZfsAddress(dataset="tank", host="fe80::1", user="b", port=22)),
    ],
)
def test_places(text: str, wanted: ZfsAddress) -> None:
    (ship,) = ships(f'to = "{text}"').instance["shop"].ship
    assert ship.to == wanted


@pytest.mark.parametrize(
    "text",
    [
        "tank/backups",
        "/tank/backups",
        "ssh://vault",
        "ssh://vault/",
        "ssh://vault/tank/../other",
        "ssh://vault/tank@snapshot",
        "ssh://-oProxyCommand=id/tank",
        "ssh://-x@vault/tank",
        "ssh://vault:0x10/tank",
        "ssh://user:secret@vault/tank",
        "ssh://vault/tank?x=y",
        "zfs:/tank",
        "zfs:",
        "http://vault/tank",
    ],
)
def test_what_is_no_place_is_refused(text: str) -> None:
    (line,) = problems(f'to = "{text}"')
    assert "instance.shop.ship[1].to: expected an address such as" in line


@given(st.text())
def test_no_text_becomes_a_place_that_ssh_would_take_for_an_option(text: str) -> None:
    for found in (_address(text), _address(f"ssh://{text}/tank"), _address(f"ssh://host/{text}")):
        assert found is None or not any(
            part.startswith("-") for part in (found.host, found.user, found.dataset)
        )


def test_names_are_the_hosts_unless_given_and_unique() -> None:
    found = ships('to = "ssh://Vault/tank"', 'to = "zfs:other/x"', 'to = "zfs:other/y"\nname = "second"')
    assert [ship.label for ship in found.instance["shop"].ship] == ["vault", "other", "second"]
    (line,) = problems('to = "ssh://vault/tank"', 'to = "ssh://vault/other"')
    assert 'ship[2].name: "vault" is the name of another destination' in line


def test_a_destination_inside_of_the_instance_is_refused() -> None:
    (line,) = problems('to = "zfs:tank/mysql/copies"')
    assert "is inside the instance's own" in line
    assert ships('to = "zfs:tank/mysql-copies"').instance["shop"].ship


def test_only_harmless_options_of_ssh_are_taken() -> None:
    good = 'to = "ssh://vault/tank"\nssh = { options = { ProxyJump = "gateway" } }'
    assert ships(good).instance["shop"].ship[0].ssh.options == {"ProxyJump": "gateway"}
    for option in ("ProxyCommand", "StrictHostKeyChecking", "LocalCommand", "UserKnownHostsFile"):
        (line,) = problems(f'to = "ssh://vault/tank"\nssh = {{ options = {{ {option} = "no" }} }}')
        assert "ssh.options: expected one of AddressFamily" in line


def test_a_schedule_needs_a_destination() -> None:
    with pytest.raises(ConfigError, match="there is nothing to ship to"):
        parse(TOP + '[instance.shop.schedule]\nship = "15m"\n')


def test_a_prune_there_needs_rules_and_a_ping_a_destination() -> None:
    rules = 'retention = { keep = ["daily for 9 days"] }'
    (ship,) = ships(f'to = "zfs:vault/b"\nprune = "1d"\n{rules}').instance["shop"].ship
    assert ship.prune == Interval(86_400) and ship.verify is None
    (line,) = problems('to = "zfs:vault/b"\nprune = "1d"')
    assert "ship[1].prune: nothing says what is kept there" in line
    (line,) = problems('to = "zfs:vault/b"\n[instance.shop.notify]\nping = { "prune:valt" = "http://a/b" }')
    assert 'there is no destination "valt"' in line


@pytest.mark.parametrize(("text", "most"), [("2GiB", 2 * 1024**3), ("all", 0), ("none", -1)])
def test_how_much_is_read_to_verify(text: str, most: int) -> None:
    (ship,) = ships(f'to = "zfs:vault/b"\nverify = "@weekly"\nverify_read = "{text}"').instance["shop"].ship
    assert ship.verify_read == most
    (line,) = problems('to = "zfs:vault/b"\nverify_read = "0"')
    assert 'or "all", or "none"' in line
