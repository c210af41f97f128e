"""The configuration: what is read, and that every problem is said at once, usefully, without secrets."""

from pathlib import Path

import pytest

from zbackup.config.load import VARIABLE, find, load, parse
from zbackup.config.secret import SecretRef
from zbackup.config.zone import host_zone, local_zone
from zbackup.model.errors import ConfigError
from zbackup.model.moment import zone_named

SMALL = '[instance.shop]\nengine = "mysql"\ndatasets = ["tank/my db"]\n'


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as failure:
        parse(text, "c.toml")
    return failure.value.problems


def test_the_least_there_can_be() -> None:
    shop = parse(SMALL).instance["shop"]
    assert (shop.name, shop.engine, shop.datasets) == ("shop", "mysql", ("tank/my db",))
    assert shop.socket_path == Path("/run/mysqld/mysqld.sock")
    assert shop.clones_dataset == "tank/zbackup"
    assert (shop.lock.kind, shop.lock.hold, shop.recovery.memory) == ("auto", 10.0, 256 * 1024**2)


def test_host_means_tcp() -> None:
    shop = parse(SMALL + 'host = "db"\nport = 3307\n').instance["shop"]
    assert (shop.socket_path, shop.host, shop.port) == (None, "db", 3307)


MONGO = '[instance.m]\nengine = "mongodb"\ndatasets = ["t/m"]\n'


def test_a_mongod_is_reached_over_tcp_unless_said_otherwise() -> None:
    plain = parse(MONGO).instance["m"]
    assert (plain.socket_path, plain.host, plain.tcp_port) == (None, None, 27017)
    named = parse(MONGO + 'socket = "/run/m.sock"\nlock = "fsync"\n').instance["m"]
    assert (named.socket_path, named.lock.kind) == (Path("/run/m.sock"), "fsync")
    assert parse(MONGO + 'port = 27018\ntls = { cert = "/both.pem" }\n').instance["m"].tcp_port == 27018
    by_uri = parse(MONGO + 'uri = "mongodb://me@db:27018/?tls=true"\n').instance["m"]
    assert by_uri.uri == "mongodb://me@db:27018/?tls=true"
    assert isinstance(parse(MONGO + 'uri = { env = "M" }\n').instance["m"].uri, SecretRef)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('lock = "ftwrl"', "c.toml:4: instance.m.lock.kind: expected auto, fsync, none for this engine"),
        ('lock = { on_long_query = "kill" }', "lock.on_long_query: expected wait or abort"),
        ('lock = { kill = "all" }', "lock.kill: has no meaning for mongodb"),
        ('lock = { give_way = "3s" }', "lock.give_way: has no meaning for mongodb"),
        ('lock = { applier_stop = "3s" }', "lock.applier_stop: has no meaning for mongodb"),
        ('uri = "http://x"', 'uri: expected an address such as "mongodb://127.0.0.1:27017"'),
        ('uri = "mongodb://x"\nhost = "y"', "instance.m.host: is part of the uri, or instead of it"),
        ('socket = "/s"\nport = 1', "instance.m.port: has no meaning with a socket"),
        ('tls = { cert = "/c", key = "/k" }', "tls.key: mongodb wants certificate and key in one file"),
        ('auth_mechanism = "MONGODB-X509"', "auth_mechanism: logs in by a client certificate"),
        ('auth_mechanism = "PLAIN"', "auth_mechanism: expected"),
    ],
)
def test_a_problem_of_a_mongods_settings(line: str, says: str) -> None:
    found = problems(MONGO + line)
    assert len([p for p in found if says in p]) == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[clones]\nports = "23199-23100"\n' + SMALL, "clones.ports: expected a range of ports"),
        ('[clones]\nports = "80"\n' + SMALL, "clones.ports: expected a range of ports"),
        (SMALL + "clones = { nice = 20 }", "instance.shop.clones.nice: expected at most 19"),
        (SMALL + 'clones = { cpu_quota = "1.5" }', "clones.cpu_quota: expected a share of the CPUs"),
        (SMALL + 'clones = { memory_max = "1MiB" }', 'clones.memory_max: expected at least "16MiB"'),
        (SMALL + 'clones = { start = "always" }', 'clones.start: expected "boot" or "never"'),
        (SMALL + 'clones = { lease = "long" }', "clones.lease: expected a duration"),
        (SMALL + "clones = { mask = [{}] }", "clones.mask[1]: expected either sql or run"),
        (SMALL + 'clones = { mask = [{ sql = "/a", run = "/b" }] }', "mask[1]: expected either sql or run"),
        (MONGO + 'clones = { mask = [{ sql = "/a" }] }', "mask[1]: mongodb knows no SQL"),
        (SMALL + 'service = { unit = "mysql" }', "service.unit: expected a systemd service"),
        (SMALL + 'service = { stop = "/a" }', "service: expected unit, or stop and start"),
        (SMALL + 'service = { unit = "a.service", stop = "/a" }', "expected either unit, or stop and start"),
    ],
)
def test_a_problem_of_clones_settings(text: str, says: str) -> None:
    found = problems(text)
    assert len([p for p in found if says in p]) == 1, found


def test_clones_settings() -> None:
    masks = '[{ sql = "/a.sql" }, { run = ["/b", "c"] }]'
    text = SMALL + f'clones = {{ quota = "1GiB", cpu_quota = "150%", mask = {masks} }}\n'
    settings = parse('[clones]\nports = "40000"\n' + text)
    assert settings.clones.ports == (40000, 40000)
    clones = settings.instance["shop"].clones
    assert (clones.quota, clones.lease, clones.start) == (1 << 30, None, "never")
    assert (clones.cpu_quota, clones.memory_max) == (150, 0)
    assert [(step.sql, step.run) for step in clones.mask] == [("/a.sql", None), (None, ("/b", "c"))]


@pytest.mark.parametrize("line", ['uri = "mongodb://x"', 'auth_source = "a"', 'lock = "fsync"'])
def test_what_only_mongodb_knows_is_refused_elsewhere(line: str) -> None:
    assert len(problems(SMALL + line)) == 1


@pytest.mark.parametrize("line", ['uri = "mongodb://me:hunter2@db"', 'urii = "mongodb://me:hunter2@db"'])
def test_a_password_in_a_uri_is_refused_and_never_repeated(line: str) -> None:
    found = problems(MONGO + line)
    assert found and not any("hunter2" in p for p in found)


def test_percona_is_mysql_and_a_lock_may_be_one_word() -> None:
    text = '[instance.a]\nengine = "percona"\ndatasets = ["t/a"]\nlock = "ftwrl"\n'
    assert (parse(text).instance["a"].engine, parse(text).instance["a"].lock.kind) == ("mysql", "ftwrl")


def test_a_whole_pool_may_be_an_instance() -> None:
    assert parse(SMALL.replace("tank/my db", "tank")).instance["shop"].clones_dataset == "tank/zbackup"


def test_units() -> None:
    text = SMALL + 'lock = { wait = "1m30s", long_query = "500ms" }\nrecovery = { memory = "1GiB" }\n'
    shop = parse(text).instance["shop"]
    assert (shop.lock.wait, shop.lock.long_query, shop.recovery.memory) == (90.0, 0.5, 1024**3)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("enginee = 1", 'c.toml:4: instance.shop.enginee: unknown key; did you mean "engine"?'),
        ("hold = 1", 'c.toml:4: instance.shop.hold: unknown key; did you mean "lock.hold"?'),
        ("zzz = 1", "c.toml:4: instance.shop.zzz: unknown key"),
        ("recovery.socket = 1", "shop.recovery.socket: unknown key; it belongs to [instance.shop]"),
        ('timezone = "UTC"', "instance.shop.timezone: unknown key; it belongs above the first table"),
        ('lock = "ftwlr"', 'instance.shop.lock.kind: expected "auto", "ftwrl", "backup-stage", '),
        ('lock = "ftwlr"', 'got "ftwlr"; did you mean "ftwrl"?'),
        ("lock = 3", "instance.shop.lock: expected a table, got 3"),
        ('lock = { wait = 3 }', 'c.toml:4: instance.shop.lock.wait: expected a duration such as "30s"'),
        ('lock = { hold = "0s" }', 'lock.hold: expected a duration from "1s" to "24h", got "0s"'),
        ('recovery = { memory = "3 apples" }', 'expected a size such as "256MiB" or "1GiB", got "3 apples"'),
        ('recovery = { memory = "1K" }', 'expected at least "16MiB"'),
        ("recovery = { workers = -1 }", "recovery.workers: expected at least 0, got -1"),
        ('recovery = { server = "mysqld" }', "expected the program's absolute path, got \"mysqld\""),
        ('recovery = { clones = "other/z" }', 'is on another pool than "tank/my db"'),
        ('recovery = { clones = "tank" }', "where the instance's own \"tank/my db\" is"),
        ('port = "3306"', 'instance.shop.port: expected a whole number, got "3306"'),
        ("port = 1", "instance.shop.port: has no meaning without host"),
        ('host = "a"\nsocket = "/a"', "expected either socket or host, got both"),
        ('host = "a"\ntls = { cert = "/a" }', "expected cert and key together"),
        ('socket = "my.sock"', 'instance.shop.socket: expected an absolute path, got "my.sock"'),
        ('user = ""', "instance.shop.user: expected a text that is not empty"),
        ('password = { file = "x" }', "expected the absolute path of the file"),
        ('password = { credential = "../x" }', "expected the name of a systemd credential"),
        ('password = { file = "/x", env = "Y" }', "expected exactly one of"),
    ],
)  # fmt: skip
def test_a_problem_is_one_useful_line(line: str, says: str) -> None:
    found = problems(SMALL + line)
    assert len([p for p in found if says in p]) == 1
    assert all("\n" not in p for p in found)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "c.toml:1: instance: missing"),
        ("[instance]", "c.toml:1: instance: no instance"),
        ("instance = 3", "instance: expected a table, got 3"),
        ("a = [", "c.toml: not valid TOML"),
        ('\n[instanc.shop]\nengine = "mysql"', 'c.toml:2: instanc: unknown key; did you mean "instance"?'),
        (SMALL + "lock = ftwrl # that", 'c.toml:4: lock: a text stands in quotes: lock = "ftwrl"'),
        (SMALL + SMALL, "c.toml:4: instance.shop: is there twice, first in line 1"),
        (SMALL + 'datasets = ["t"]', "c.toml:4: instance.shop.datasets: is there twice, first in line 3"),
        (SMALL + 'user = "a\\q"', "c.toml:4: not valid TOML: Unescaped"),
        (SMALL + '[instance.shop.ship]\nto = "zfs:a/b"', "ship: expected [[instance.shop.ship]] with two"),
        (SMALL + 'clones.mask = "/a.sql"', 'mask: expected a list such as [{ sql = "/etc/zbackup/mask.sql"'),
        (SMALL + "retention.hourly = 24", 'unknown key; write keep = ["hourly for 24 hours"]'),
        (SMALL + '[[instance.shop.ship]]\nto = "zfs:a/b"\n' * 2 + "x = 3", "c.toml:8: instance.shop.ship[2]"),
        (SMALL + 'notify.on_failure = "mail -s \'it is\' root"', '["/usr/bin/mail", "-s", "it is", "root"]'),
        ('timezone = "Europe/Berln"\n' + SMALL, 'got "Europe/Berln"; did you mean "Europe/Berlin"?'),
        ('timezone = "berlin"\n' + SMALL, 'did you mean "Europe/Berlin"?'),
        (SMALL.replace("shop", "Shop"), "instance.Shop: expected a name of at most 40"),
        (SMALL.replace("tank/my db", "/tank/db"), '[1]: expected the name of a ZFS dataset such as "tank/'),
        (SMALL.replace("tank/my db", "/tank/db"), 'did you mean "tank/db"?'),
        (SMALL.replace("tank/my db", "tank/db@now"), "expected the name of a ZFS dataset"),
        (SMALL.replace('["tank/my db"]', '"tank/db"'), 'datasets: expected a list such as ["tank/mysql"]'),
        (SMALL.replace('["tank/my db"]', "[]"), 'datasets: expected a list such as ["tank/mysql"]'),
        (SMALL.replace('["tank/my db"]', '["t/a", "t/a/b"]'), 'comes with "t/a" already'),
        (SMALL.replace('["tank/my db"]', '["t/a", "t/a"]'), 'comes with "t/a" already'),
        (SMALL.replace("tank/my db", "tank/zbackup"), 'clones would go below "tank/zbackup"'),
        (SMALL + SMALL.replace("shop", "two"), 'c.toml:6: instance.two.datasets[1]: "tank/my db" overlaps'),
        (SMALL + SMALL.replace("shop", "two").replace("my db", "my db/x"), "of instance shop"),
    ],
)  # fmt: skip
def test_problems_of_the_whole(text: str, says: str) -> None:
    assert len([p for p in problems(text) if says in p]) == 1


def test_all_problems_at_once_in_the_order_of_the_file() -> None:
    text = 'timezone = "Mars"\n' + SMALL + "oops = 1\n[instance.b]\n[instance.c.lock]\nkind = 1\n"
    found = problems(text)
    assert [int(p.split(":")[1]) for p in found] == sorted(int(p.split(":")[1]) for p in found)
    assert {p.split(": ")[1] for p in found} == {
        "timezone", "instance.shop.oops", "instance.b.engine", "instance.b.datasets",
        "instance.c.engine", "instance.c.datasets", "instance.c.lock.kind",
    }  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        'password = "hunter2"',
        'password = { value = "hunter2" }',
        'password = { file = "hunter2" }',
        'password = { file = "/a", text = "hunter2" }',
        'passwort = "hunter2"',
        'password = ["hunter2"]',
        "password = hunter2",
        "password = 'hunter2",
    ],
)
def test_a_password_in_the_file_is_refused_and_never_repeated(line: str) -> None:
    found = problems(SMALL + line)
    assert found
    assert not any("hunter2" in p for p in found)


def test_a_literal_password_is_told_what_to_write() -> None:
    assert '{ file = "/etc/zbackup/NAME.password" }' in problems(SMALL + 'password = "hunter2"')[0]


def test_found_where_the_user_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert find(None) == Path("/etc/zbackup/config.toml")
    monkeypatch.setenv(VARIABLE, "/x.toml")
    assert find(None) == Path("/x.toml")
    assert find(tmp_path) == tmp_path
    with pytest.raises(ConfigError, match=r"/x.toml: no such configuration file; name one with --config"):
        load()


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path)
    (tmp_path / "c").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load(tmp_path / "c")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('schedule = { snapshot = "5 minutes" }', 'an interval such as "5m"'),
        ('schedule = { snapshot = "5 minutes" }', "2 fields where there must be 5"),
        ('schedule = { snapshot = "0 3 * * noday" }', "'noday' is no day of the week"),
        ('schedule = { snapshot = "10ms" }', 'an interval from "1s" to "366d"'),
        ('schedule = { retry = "0s" }', 'an interval from "1s" to "366d"'),
        ("schedule = { snapshot = 5 }", 'an interval such as "5m"'),
        ('notify = { ping = { snapshot = "hc-ping.com/1" } }', 'a URL such as "https://hc-ping.com/..."'),
        ('notify = { ping = { backup = "https://hc-ping.com/1" } }', "backup"),
        ('notify = { on_failure = "tell me" }', "the program and each of its arguments by itself"),
    ],
)
def test_schedules_that_cannot_be(line: str, said: str) -> None:
    text = f'[instance.shop]\nengine = "mysql"\ndatasets = ["tank/mysql"]\n{line}\n'
    with pytest.raises(ConfigError) as refused:
        parse(text)
    assert said in refused.value.problems[0]


def test_the_daemons_address() -> None:
    shop = '[instance.shop]\nengine = "mysql"\ndatasets = ["tank/mysql"]\n'
    assert parse(f'daemon.metrics = "[::1]:9797"\n{shop}').daemon.metrics == ("::1", 9797)
    assert parse(f'daemon.metrics = "localhost:80"\n{shop}').daemon.metrics == ("localhost", 80)
    with pytest.raises(ConfigError, match="an address and port"):
        parse(f'daemon.metrics = "127.0.0.1"\n{shop}')


def test_the_machines_zone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TZ", ":Asia/Tokyo")
    assert local_zone().key == "Asia/Tokyo"
    link = tmp_path / "localtime"
    link.symlink_to("/usr/share/zoneinfo/America/New_York")
    assert host_zone(link).key == "America/New_York"
    assert host_zone(tmp_path / "none").key == "UTC"


@pytest.mark.parametrize(
    "name", ["", "Europe", "right/UTC", "posixrules", "zone.tab", "../UTC", "a\0b", "mars"]
)
def test_what_is_no_zone_of_the_database(name: str) -> None:
    assert zone_named(name) is None


@pytest.mark.parametrize(
    "line",
    [
        '[[notify.webhook]]\nurl = "https://x"\ntoken = "sekrit"',
        '[[notify.webhook]]\nurl = "hooks.slack.com/services/T/B/sekrit"',
        '[[notify.webhook]]\nurl = { file = "sekrit" }',
        '[[notify.webhook]]\nurl = "https://x/sekrit and more"',
        '[notify]\nwebhook = "https://x/sekrit"',
        '[notify]\nwebhook = ["https://x/sekrit"]',
        '[notify]\nmail = "sekrit"',
        'notify = "https://x/sekrit"\n' + SMALL.replace("shop", "two").replace("my db", "two"),
        '[instance.shop.notify.ping]\nsnapshot = "hc-ping.com/sekrit"',
        '[instance.shop.notify.ping]\n"https://hc-ping.com/sekrit" = "snapshot"',
        'notify.ping = "https://hc-ping.com/sekrit"',
        'copy = { password = "sekrit" }',
        '[[instance.shop.ship]]\nto = "s3://b"\nsecret_key = "sekrit"\nold_keys = "sekrit"',
    ],
)
def test_what_may_be_a_secret_is_not_repeated(line: str) -> None:
    text = line if "[instance.two]" in line else SMALL + line
    assert not [problem for problem in problems(text) if "sekrit" in problem]
