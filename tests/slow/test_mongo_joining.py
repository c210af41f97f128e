"""Members that join sets with TLS by the steps that zbackup prints, however their originals were started."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.lab.certificate import certificate
from tests.lab.mongo_fixture import MongoServer, MongoSettings, connect, initiate
from tests.lab.pool import Pool
from tests.system.house import wait_until
from tests.system.member_story import HOST, join_by_the_steps
from tests.system.mongo_house import MongoHouse, build

SET = "orders"


@dataclass(frozen=True, kw_only=True)
class ByFile(MongoSettings):
    """A mongod whose settings are in a file, but for its set and key, which its command line names."""

    tls: dict[str, str]

    @property
    def private(self) -> Path:
        """A Unix socket whose name does not tell the port: a second server would take it away."""
        return self.run_dir / "private.sock"

    def arguments(self) -> list[str]:
        file = self.run_dir / "mongod.conf"
        # JSON is YAML.
        net = {
            "port": self.port,
            "bindIp": f"{HOST},{self.private}",
            "unixDomainSocket": {"pathPrefix": str(self.run_dir)},
        }
        settings = {
            "storage": {"dbPath": str(self.datadir), "directoryPerDB": True},
            "net": net | {"tls": {"mode": "requireTLS", **self.tls}},
            "systemLog": {"destination": "file", "path": str(self.log), "logAppend": True},
        }
        file.write_text(json.dumps(settings))
        key = f"--keyFile={self.run_dir / 'key'}"
        return [f"--config={file}", f"--replSet={self.replica_set}", key, "--sslAllowInvalidHostnames"]


@pytest.fixture(scope="module")
def files(pool: Pool) -> tuple[Path, Path]:
    """The certificate with its key, as members have it, and who signed it."""
    made = certificate(pool.home)
    both = pool.home / "both.pem"
    both.write_text(made.cert.read_text() + made.key.read_text())
    for file in (both, made.cert):
        file.chmod(0o644)
    return both, made.cert


def client(files: tuple[Path, Path]) -> dict[str, Any]:
    """What a client needs besides; a socket has no name that could be in a certificate."""
    both, ca = map(str, files)
    return {"tls": True, "tlsCAFile": ca, "tlsCertificateKeyFile": both, "tlsAllowInvalidHostnames": True}


@contextmanager
def house_of(pool: Pool, server: MongoServer, dataset: str, files: tuple[Path, Path]) -> Iterator[MongoHouse]:
    """zbackup for this member, over TLS."""
    settings = server.settings
    home = pool.home / f"zbackup-{settings.port}"
    home.mkdir()
    house = MongoHouse(pool, home, server, (dataset,))
    both, ca = map(str, files)
    tls = {"ca": ca, "cert": both}
    house.default = house.configure("tls", socket=None, host=HOST, port=settings.port, tls=tls)
    wait_until("zbackup's account has come", lambda: house.zb("check").rc == 0, 60)
    yield house


def test_one_of_several_with_certificates_given_by_flags(pool: Pool, files: tuple[Path, Path]) -> None:
    both, ca = files
    flags = ("--tlsMode=requireTLS", f"--tlsCertificateKeyFile={both}", f"--tlsCAFile={ca}")
    flags = (*flags, "--clusterAuthMode=x509", "--setParameter=tlsWithholdClientCertificate=false")
    first, second = (
        MongoServer(
            build(pool, pool.home, name, data=data, replica_set=SET, options=flags, client=client(files))
        )
        for name, data in (("a", pool.dataset("member a")), ("b", pool.dataset("member b")))
    )
    with first, second:
        initiate([first, second])
        with house_of(pool, second, f"{pool.name}/member b", files) as house:
            house.snapshot()
            started = join_by_the_steps(house, first)
    assert started[started.index("--clusterAuthMode") + 1] == "x509"


def test_one_that_has_its_settings_from_a_file_and_some_by_flags(
    pool: Pool, files: tuple[Path, Path]
) -> None:
    data = pool.dataset("member c")
    both, ca = map(str, files)
    server = MongoServer(
        ByFile(
            datadir=data.mountpoint / "c",
            run_dir=pool.home / "c-run",
            replica_set=SET,
            client=client(files),
            tls={"certificateKeyFile": both, "CAFile": ca},
        )
    )
    with server:
        initiate([server])
        with house_of(pool, server, data.name, files) as house:
            house.snapshot()
            started = join_by_the_steps(house, server)
        with connect(server.settings.private, **client(files)) as still:
            assert still.admin.command("hello")["me"] == f"{HOST}:{server.settings.port}"
    assert "--config" in started and "--tlsMode" not in started
