"""An address that is written is the address that was read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbackup.config.ship import parse_address

hosts = st.one_of(
    st.ip_addresses(v=6).map(lambda ip: f"[{ip}]"),
    st.ip_addresses(v=4).map(str),
    st.sampled_from(["vault", "vault.example.com", "[fe80::1%eth0]"]),
)


@given(
    st.sampled_from(["", "zrecv@"]),
    hosts,
    st.sampled_from(["", ":22", ":2222"]),
    st.sampled_from(["tank/b", "tank/my%20b", "tank/a:b.c-d"]),
)
def test_an_address_is_itself_again(user: str, host: str, port: str, dataset: str) -> None:
    found = parse_address(f"ssh://{user}{host}{port}/{dataset}")
    assert parse_address(str(found)) == found


@pytest.mark.parametrize("text", ["zfs:other/b", "s3://bucket/x/y", "s3://bucket"])
def test_others_are_too(text: str) -> None:
    assert str(parse_address(str(parse_address(text)))) == text
