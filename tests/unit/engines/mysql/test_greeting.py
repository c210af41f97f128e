"""The version in a server's greeting; whatever else is said there is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbackup.engines.mysql.server.greeting import version


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (b"J\0\0\0\x0a8.4.3-3\0\x08\0\0\0", "8.4.3-3"),
        (b"J\0\0\0\x0a5.5.5-10.11.6-MariaDB-0+deb12u1\0\x08", "10.11.6-MariaDB-0+deb12u1"),
        (b"J\0\0\0\x0a5.5.5-m\0", "5.5.5-m"),
        (b"J\0\0\0\xff\x10\x04Too many connections", ""),
        (b"\x05\0\0\0\x0b\x08\x05\x1a\0", ""),  # the X protocol
        (b"", ""),
    ],
)
def test_the_version_is_read(said: bytes, found: str) -> None:
    assert version(said) == found


@given(st.binary())
def test_anything_may_be_said(said: bytes) -> None:
    assert isinstance(version(said), str)
