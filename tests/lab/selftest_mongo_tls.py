"""TLS to a real mongod, logging in by certificate, and addresses as URIs. Run with pytest by name."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import servers
from tests.lab.mongo_fixture import (
    ZBACKUP_PASSWORD,
    ZBACKUP_USER,
    MongoServer,
    MongoSettings,
    start_single,
)
from tests.lab.mongo_locking import room
from zbackup.config.tls import Tls
from zbackup.engines.mongodb.lock.watchdog_message import WatchOrder
from zbackup.engines.mongodb.options import ConnectOptions
from zbackup.engines.mongodb.server.connection import LoginRefused, connect
from zbackup.engines.mongodb.server.privileges import ROLE
from zbackup.model.errors import DatabaseError

__all__ = ["room"]

SUBJECT = "CN=zbackup,O=people"


@pytest.fixture(scope="module")
def certificates(room: Path) -> Path:
    """ca.pem; server.pem, client.pem, nobody.pem, which it signed, with their keys; other.pem is a CA too."""
    for name in ("ca", "other"):
        _openssl(room, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                 "-keyout", f"{name}.key", "-out", f"{name}.pem")  # fmt: skip
    for name, subject, alternative in (
        ("server", "/O=lab/CN=server", "IP:127.0.0.1"),
        ("client", "/O=people/CN=zbackup", "DNS:client"),
        ("nobody", "/O=people/CN=nobody", "DNS:nobody"),
    ):
        (room / "extensions").write_text(f"subjectAltName = {alternative}\n")
        _openssl(room, "req", "-newkey", "rsa:2048", "-nodes", "-subj", subject,
                 "-keyout", f"{name}.key", "-out", f"{name}.csr")  # fmt: skip
        _openssl(room, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                 "-days", "2", "-extfile", "extensions", "-out", f"{name}.crt")  # fmt: skip
        both = room / f"{name}.pem"
        both.write_text((room / f"{name}.crt").read_text() + (room / f"{name}.key").read_text())
        both.chmod(0o644)
    return room


def _openssl(room: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=room, check=True, capture_output=True)


@pytest.fixture(scope="module")
def server(room: Path, certificates: Path) -> Iterator[MongoServer]:
    servers.ensure(["mongodb-6.0"])
    tls = ("--tlsMode=preferTLS", f"--tlsCertificateKeyFile={certificates / 'server.pem'}")
    options = (*tls, f"--tlsCAFile={certificates / 'ca.pem'}", "--tlsAllowConnectionsWithoutCertificates")
    settings = MongoSettings(datadir=room / "data", run_dir=room / "run", options=options)
    with start_single(settings) as running:
        with running.client() as client:
            roles = [{"role": ROLE, "db": "admin"}]
            client["$external"].command("createUser", SUBJECT, roles=roles)
        yield running


def by_password(server: MongoServer, tls: Tls | None) -> ConnectOptions:
    return by_password_of(server.settings, tls)


def by_password_of(settings: MongoSettings, tls: Tls | None) -> ConnectOptions:
    return ConnectOptions(port=settings.port, user=ZBACKUP_USER, password=lambda: ZBACKUP_PASSWORD, tls=tls)


def who(options: ConnectOptions) -> list[str]:
    """Who is logged in."""
    with connect(options) as connection:
        info = connection.command({"connectionStatus": 1})["authInfo"]
        return [f"{user['user']} ({user['db']})" for user in info["authenticatedUsers"]]


def test_a_password_over_tls(server: MongoServer, certificates: Path) -> None:
    tls = Tls(ca=certificates / "ca.pem")
    assert who(by_password(server, tls)) == ["zbackup (admin)"]
    assert who(by_password(server, None)) == ["zbackup (admin)"]


def test_a_certificate_logs_in_also_for_the_watchdog(server: MongoServer, certificates: Path) -> None:
    tls = Tls(ca=certificates / "ca.pem", cert=certificates / "client.pem")
    options = ConnectOptions(port=server.settings.port, mechanism="MONGODB-X509", tls=tls)
    assert who(options) == [f"{SUBJECT} ($external)"]
    order = WatchOrder(connect=options, note=Path("/n"), wait_s=1, hold_s=1)
    assert who(WatchOrder.from_line(order.to_line()).connect) == [f"{SUBJECT} ($external)"]


def test_a_certificate_that_is_nobodys_user_is_refused(server: MongoServer, certificates: Path) -> None:
    tls = Tls(ca=certificates / "ca.pem", cert=certificates / "nobody.pem")
    with pytest.raises(LoginRefused, match="refused the login of the certificate's subject"):
        who(ConnectOptions(port=server.settings.port, mechanism="MONGODB-X509", tls=tls))


def test_a_server_that_another_authority_signed_is_refused_unless_nobody_looks(
    server: MongoServer, certificates: Path
) -> None:
    strange = Tls(ca=certificates / "other.pem")
    with pytest.raises(DatabaseError, match=r"no TLS with .*check the instance's tls settings"):
        who(by_password(server, strange))
    assert who(by_password(server, strange.model_copy(update={"verify": False}))) == ["zbackup (admin)"]


def test_one_that_requires_tls_is_not_taken_for_one_that_is_down(room: Path, certificates: Path) -> None:
    ca, both = str(certificates / "ca.pem"), str(certificates / "server.pem")
    settings = MongoSettings(
        datadir=room / "strict",
        run_dir=room / "strict-run",
        options=("--tlsMode=requireTLS", f"--tlsCertificateKeyFile={both}", f"--tlsCAFile={ca}"),
        client={
            "tls": True,
            "tlsCAFile": ca,
            "tlsCertificateKeyFile": both,
            "tlsAllowInvalidHostnames": True,
        },
    )
    with start_single(settings):
        for plain in (ConnectOptions(port=settings.port), ConnectOptions(socket=str(settings.socket))):
            with pytest.raises(DatabaseError, match=r"closes connections: .*does it require TLS"):
                who(plain)
        tls = Tls(ca=Path(ca), cert=Path(both))
        assert who(by_password_of(settings, tls)) == ["zbackup (admin)"]


def test_files_that_are_not_there_are_named(server: MongoServer) -> None:
    with pytest.raises(DatabaseError, match=r"cannot connect to .*missing\.pem"):
        who(by_password(server, Tls(ca=Path("/missing.pem"))))


def test_a_uri_says_it_all(server: MongoServer, certificates: Path) -> None:
    where = f"127.0.0.1:{server.settings.port}"
    words = f"authSource=admin&tls=true&tlsCAFile={certificates / 'ca.pem'}"
    uri = f"mongodb://{ZBACKUP_USER}:{ZBACKUP_PASSWORD}@{where}/?{words}"
    assert who(ConnectOptions(uri=lambda: uri)) == ["zbackup (admin)"]
    wrong = uri.replace(ZBACKUP_PASSWORD, "hunter2")
    with pytest.raises(LoginRefused, match=f"{where} refused the login") as refused:
        who(ConnectOptions(uri=lambda: wrong))
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("mongodb+srv://me:hunter2@cluster.example", "not a whole cluster"),
        ("mongodb://me:hunter2@a,b/", "names 2 servers"),
        ("mongodb://me:hunter2@a:b/", "the address cannot be read"),
        ("mongodb://me:hun/ter2@a/", "the address cannot be read"),
        ("hunter2", "the address cannot be read"),
    ],
)
def test_a_uri_that_cannot_be_used_is_not_repeated(uri: str, said: str) -> None:
    with pytest.raises(DatabaseError, match="cannot connect to the configured uri") as refused:
        who(ConnectOptions(uri=lambda: uri))
    assert said in str(refused.value) and "hunter2" not in str(refused.value)
