"""`zbackup install-service` and `zbackup init` under a real systemd: the daemon runs, and is not root."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.reach import let_reach
from tests.slow.init_under_systemd import Host, bare_host
from tests.slow.systemd_machine import ETC
from tests.system.house import wait_until

PROJECT = Path(__file__).resolve().parents[2]
INSTALLED = Path("/usr/local/bin/zbackup")
START = """#!{python}
import sys
sys.path.insert(0, "{project}")
from zbackup.cli.start import run
run()
"""


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    let_reach(PROJECT / "zbackup" / "app.py")
    INSTALLED.write_text(START.format(python=sys.executable, project=PROJECT))
    INSTALLED.chmod(0o755)
    with bare_host() as made:
        yield made


def test_the_service_is_installed_once(host: Host) -> None:
    shown = host.systemd.zbackup("install-service", "--print")
    assert shown.rc == 0 and not (ETC / "zbackup.service").exists(), shown
    done = host.systemd.zbackup("install-service")
    assert done.rc == 0, done
    assert "ExecStart=/usr/local/bin/zbackup daemon" in (ETC / "zbackup.service").read_text()
    assert host.systemd.inside("id", "zbackup").rc == 0
    assert "nothing to do" in host.systemd.zbackup("install-service").out
    (ETC / "zbackup-helper@.service").write_text("# mine\n")
    assert host.systemd.zbackup("install-service").rc == 9
    assert host.systemd.zbackup("install-service", "--replace").rc == 0


def test_one_command_later_the_daemon_protects_the_server(host: Host) -> None:
    done = host.systemd.zbackup("init", "--yes")
    print(done)
    assert done.rc == 0 and "protected: shop" in done.out, done
    assert host.systemd.show("zbackup.service", "ActiveState") == "active"
    assert host.systemd.show("zbackup.service", "User") == "zbackup"
    for unit in ("zbackup.service", "zbackup-helper.socket", "zbackup-drill.socket"):
        assert host.systemd.ask("is-enabled", unit) == "enabled"
    config = Path("/etc/zbackup/config.toml")
    assert 'unit = "mariadb.service"' in config.read_text()
    assert {oct(f.stat().st_mode & 0o777) for f in (config, config.with_name("shop.password"))} == {"0o640"}

    def health() -> str:
        said = host.systemd.zbackup("status", "--json")
        return str(json.loads(said.out)["data"][0]["health"])

    wait_until("status is ok", lambda: health() == "ok", 60)
    assert "job.failed" not in host.systemd.journal("zbackup.service")


def test_run_again_nothing_is_done_and_the_daemon_stays(host: Host) -> None:
    before = host.systemd.show("zbackup.service", "MainPID"), Path("/etc/zbackup/config.toml").read_bytes()
    again = host.systemd.zbackup("init", "--yes")
    assert again.rc == 0 and "  1. " not in again.err, again
    after = host.systemd.show("zbackup.service", "MainPID"), Path("/etc/zbackup/config.toml").read_bytes()
    assert after == before
