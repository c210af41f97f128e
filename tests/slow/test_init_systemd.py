"""`zbackup install-service` and `zbackup init` under a real systemd: the daemon runs, and is not root."""

import json
import re
import secrets
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.lab.reach import let_reach
from tests.slow.init_under_systemd import GROUP, LAB, Host, bare_host
from tests.slow.systemd_machine import ETC
from tests.system.house import wait_until
from tests.unit.docs.typed import shell, typed

PROJECT = Path(__file__).resolve().parents[2]
INSTALLED = Path("/usr/local/bin/zbackup")
NO_USER_NAMESPACES = "PrivateUsers=no\n"
"""The lab's kernel has none."""
HOME = Path("/opt/zbackup")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    install_wheel(tmp_path_factory.mktemp("wheel"))
    with bare_host() as made:
        yield made


def install_wheel(place: Path) -> None:
    """zbackup as a wheel of this checkout, of which it knows nothing then; what it needs is the lab's own."""
    build = (sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w")
    subprocess.run((*build, str(place), str(PROJECT)), check=True)
    (wheel,) = place.glob("zbackup*.whl")
    subprocess.run((sys.executable, "-m", "venv", str(HOME)), check=True)
    pip = (str(HOME / "bin" / "pip"), "install", "--no-deps", "--no-index")
    subprocess.run((*pip, str(wheel)), check=True)
    (own,) = HOME.glob("lib/python*/site-packages")
    needed = Path(pytest.__file__).resolve().parents[1]
    let_reach(needed / "pytest" / "__init__.py")
    (own / "lab.pth").write_text(f"{needed}\n")
    INSTALLED.symlink_to(HOME / "bin" / "zbackup")


def test_the_service_is_installed_once(host: Host) -> None:
    """From the wheel, which brings the units and examples."""
    assert list(HOME.rglob("examples/config.toml")) and list(HOME.rglob("zbackup-clone@.service"))
    shown = host.systemd.zbackup("install-service", "--print")
    assert shown.rc == 0 and not (ETC / "zbackup.service").exists(), shown
    done = host.systemd.zbackup("install-service")
    assert done.rc == 0, done
    assert "ExecStart=/usr/local/bin/zbackup daemon" in (ETC / "zbackup.service").read_text()
    assert "ExecStart=/usr/local/bin/zbackup web" in (ETC / "zbackup-web.service").read_text()
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


def test_a_daemon_that_cannot_reach_zfs_is_no_protection(host: Host) -> None:
    """Root's own backup and drill passed, and still `init` does not say "protected"."""
    dataset = f"{host.pool.name}/shop"
    subprocess.run(("zfs", "unallow", "-u", "zbackup", dataset), check=True)
    refused = host.systemd.zbackup("init", "--yes")
    assert refused.rc == 9 and "protected" not in refused.out, refused
    assert f"lacks rights on {dataset} (snapshot" in refused.err, refused
    (said,) = (line for line in refused.err.splitlines() if "zfs allow -u zbackup" in line)
    subprocess.run(said.partition("): ")[2].split(), check=True)
    assert "protected: shop" in host.systemd.zbackup("init", "--yes").succeeded
    Path("/dev/zfs").chmod(0o600)
    host.systemd.do("restart", "zbackup.service")
    try:
        refused = host.systemd.zbackup("init", "--yes")
        assert refused.rc == 9 and "protected" not in refused.out, refused
        assert "shop: the daemon cannot do its work: " in refused.err, refused
        assert "journalctl -u zbackup" in refused.err
        print(refused)
    finally:
        Path("/dev/zfs").chmod(0o666)
        host.systemd.do("restart", "zbackup.service")
    assert "protected: shop" in host.systemd.zbackup("init", "--yes").succeeded


def test_the_reader_of_the_page_is_in_the_servers_group_and_the_page_shows_the_log(host: Host) -> None:
    for unit in ("zbackup.service", "zbackup-read@0.service"):
        assert GROUP in host.systemd.show(unit, "SupplementaryGroups").split(), unit
    for unit, more in (("zbackup-read@.service", ""), ("zbackup-web.service", NO_USER_NAMESPACES)):
        at_home = ETC / f"{unit}.d"
        at_home.mkdir(exist_ok=True)
        (at_home / "lab.conf").write_text(LAB + more)
    host.systemd.do("daemon-reload")
    host.systemd.type(shell("see-it-in-a-browser.md", "systemctl enable --now zbackup-read"))
    try:
        wait_until("a link is given", lambda: host.systemd.zbackup("web", "--login").rc == 0, 120)
    except AssertionError as never:
        raise AssertionError(host.systemd.ask("status", "zbackup-web.service")) from never
    page = logged_in(host)
    assert "shop" in page("/")
    host.server.sql("CREATE DATABASE seen_in_the_page")
    host.server.sql("DROP DATABASE seen_in_the_page")
    assert host.systemd.zbackup("snapshot", "shop").rc == 0
    # The overview that says up to when one may look is kept for a while.
    try:
        told = "DROP DATABASE seen_in_the_page"
        wait_until("the page shows it", lambda: told in page("/instance/shop?marks=1"), 120)
    except AssertionError as never:
        raise AssertionError(re.sub(r"<[^>]*>|\s+", " ", page("/instance/shop?marks=1"))) from never
    assert "Permission denied" not in host.systemd.journal("zbackup-read@*")


def test_a_clone_is_made_and_destroyed_from_the_page_and_its_server_outlives_the_order(host: Host) -> None:
    config = Path("/etc/zbackup/config.toml")
    config.write_text(config.read_text() + "\n[web]\nclones = true\n")
    host.systemd.do("enable", "--now", "zbackup-cloner.socket")
    page = logged_in(host)
    made = ordered(page, verb="create", clone="dev7", instance="shop", lease="14400")
    assert "Done: dev7 runs" in made, made
    told = json.loads(host.systemd.zbackup("clone", "list", "--json").succeeded)["data"]
    assert [(c["name"], c["running"]) for c in told] == [("dev7", True)], told
    running = host.systemd.ask("list-units", "--plain", "--no-legend", "zbackup-cloner@*")
    assert not running, "a unit of an order is over when the order is"
    gone = ordered(page, verb="destroy", clone="dev7", instance="shop", sure="yes")
    assert "Done: dev7 is destroyed" in gone, gone
    assert json.loads(host.systemd.zbackup("clone", "list", "--json").succeeded)["data"] == []
    journal = host.systemd.type(shell("see-it-in-a-browser.md", "journalctl -u 'zbackup-cloner@*'")).out
    assert journal.count("operation.begun") == journal.count("operation.done") == 2, journal


Page = Callable[..., str]


def logged_in(host: Host) -> Page:
    """What the page says at a path, or to a form, by a link that root asked for."""
    link = host.systemd.zbackup(*typed("see-it-in-a-browser.md", "zbackup web --login")).succeeded.strip()
    form = urllib.parse.urlsplit(link)
    site = f"{form.scheme}://{form.netloc}"
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    browser.open(urllib.request.Request(f"{site}/login", form.query.encode(), {"Origin": site}))

    def page(path: str, **fields: str) -> str:
        content = urllib.parse.urlencode(fields).encode() if fields else None
        try:
            with browser.open(urllib.request.Request(f"{site}{path}", content, {"Origin": site})) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as refused:
            return str(refused.read().decode())

    return page


def ordered(page: Page, **fields: str) -> str:
    """Give an order as the page's form does, and follow it to its end; what is said then."""
    token = re.search(r'name="token" value="([0-9a-f]{64})"', page("/clones"))
    assert token, page("/clones")
    once = secrets.token_hex(16)
    page("/operations", token=token[1], once=once, **fields)
    wait_until("it is over", lambda: "Done:" in page(f"/operations/{once}"), 300)
    return page(f"/operations/{once}")


def test_a_drill_of_the_daemons_is_waited_for(host: Host) -> None:
    """For longer than commands wait for one another: how long it takes depends on the data."""
    for name in (f"{host.pool.name}/shop", f"{host.pool.name}/zbackup"):
        for mark in ("zbackup:drill", "zbackup:drill:shop"):
            subprocess.run(("zfs", "inherit", "-r", mark, name), check=True)
    host.systemd.do("stop", "zbackup-drill.socket")
    lock = "/run/zbackup/.daemon/zbackup.drill.lock"
    with subprocess.Popen(("flock", lock, "sleep", "70")):
        done = host.systemd.zbackup("init", "--yes")
    assert done.rc == 0 and "tables checked: passed" in done.err, done


def test_it_is_removed_as_the_page_says(host: Host) -> None:
    """The last: nothing of ours is left, and the server and its data are as they were."""
    systemd = host.systemd
    systemd.type(shell("see-it-in-a-browser.md", "systemctl enable --now zbackup-cloner"))
    here = {"tank/mysql": f"{host.pool.name}/shop"}
    systemd.type(shell("change-what-is-protected.md", "zfs unallow", here))
    drop = shell("change-what-is-protected.md", 'mysql -u root -p -e "DROP')
    host.server.sql(drop.split('"')[1])
    systemd.type(shell("change-what-is-protected.md", "rm /etc/zbackup"))
    systemd.type(shell("change-what-is-protected.md", "systemctl disable --now"))
    systemd.type(shell("change-what-is-protected.md", "rm -r /etc/systemd"))
    systemd.type(shell("change-what-is-protected.md", "rm -r /opt"))
    systemd.type(shell("change-what-is-protected.md", "systemctl daemon-reload"))
    assert systemd.show("zbackup.service", "LoadState") == "not-found"
    assert not INSTALLED.is_symlink() and not HOME.exists() and not list(ETC.glob("zbackup*.s*"))
    assert host.server.sql("SELECT COUNT(*) FROM mysql.user WHERE User = 'zbackup'") == [(0,)]
