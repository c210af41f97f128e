"""The rules for a recovered server, whatever was recovered."""

from typing import Any

import pymysql
import pytest

from tests.lab.servers.accounts import APP_PASSWORD, APP_USER
from tests.system.house import (
    Connection,
    House,
)


def application(**where: Any) -> "Connection[Any]":
    """The application's own login, which may write but is no administrator."""
    if "port" in where:
        where["host"] = "127.0.0.1"
    else:
        where["ssl_disabled"] = True
    return pymysql.connect(user=APP_USER, password=APP_PASSWORD, autocommit=True, **where)


def assert_made_safe(house: House, clone: "Connection[Any]") -> None:
    """A recovered server has an identity of its own, no events, no network, no account of zbackup's."""
    with clone.cursor() as cursor:
        cursor.execute("SELECT @@server_id, @@event_scheduler, @@skip_networking, @@datadir")
        number, events, alone, datadir = cursor.fetchone()
        cursor.execute("SELECT user FROM mysql.user WHERE user LIKE 'zbackup\\_%%'")
        assert cursor.fetchall() == ()
    assert number != house.server.sql("SELECT @@server_id")[0][0]
    assert (events, alone) == ("OFF", 1)
    assert datadir.rstrip("/") == str(house.server.settings.datadir), (
        "a server sees its files where they were"
    )


def assert_stops_and_starts(house: House, report: dict[str, Any]) -> None:
    """It goes and comes back with what was written to it."""
    name = report["clone"]
    assert house.zb("clone", "stop", name, "--json").data["running"] is False
    with pytest.raises(pymysql.OperationalError):
        house.clone(report)
    assert house.zb("clone", "list", "--json").data[0]["running"] is False
    assert house.zb("clone", "start", name, "--json").data["running"] is True
    with house.clone(report) as clone, clone.cursor() as cursor:
        cursor.execute("SELECT id FROM shop.notes")
        assert cursor.fetchall() == ((42,),)
