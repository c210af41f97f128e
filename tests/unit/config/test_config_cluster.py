"""Settings of a sharded cluster, and the option that names one."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.samples import PLAIN
from zbackup.cli import completion, on_member
from zbackup.cli.main import invoke
from zbackup.config.load import load
from zbackup.engines.mongodb.clone.clone_server import require_key
from zbackup.jobs.cluster.one_member import require_reachable
from zbackup.model.cluster import CONFIG, SHARD, Addresses, Cluster, role_of
from zbackup.model.errors import ConfigError, UsageError
from zbackup.model.log import ClusterTime
from zbackup.model.recovery import Serving

AT = ("--to-timestamp", "1714557720,1")
PRIVATE = ("--private-key", "/none")
WHERE = ("--configdb", "cfg/h:1", "--shard", "rs0/h:2")
MEMBERS = "".join(
    f'[instance.{name}]\nengine = "{engine}"\ndatasets = ["tank/{name}"]\n'
    for name, engine in (("config", "mongodb"), ("a", "mongodb"), ("b", "mongodb"), ("wiki", "mysql"))
)


def configured(tmp_path: Path, *clusters: str) -> Path:
    file = tmp_path / "config.toml"
    file.write_text(MEMBERS + "\n".join(clusters) + "\n")
    return file


def test_a_cluster_names_its_members_the_config_server_first(tmp_path: Path) -> None:
    settings = load(configured(tmp_path, '[cluster.shop]\nconfig = "config"\nshards = ["a", "b"]'))
    cluster = settings.cluster["shop"].members("shop")
    assert cluster == Cluster("shop", "config", ("a", "b"))
    assert cluster.members == ("config", "a", "b")
    assert load(configured(tmp_path)).cluster == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('config = "config"\nshards = ["a", "gone"]', 'cluster.shop.shards[2]: there is no instance "gone"'),
        ('config = "wiki"\nshards = ["a"]', 'cluster.shop.config: the instance "wiki" is no mongodb'),
        ('config = "a"\nshards = ["b", "a"]', 'cluster.shop.shards[2]: "a" is a member of shop already'),
        ('config = "config"\nshards = []', "expected a list of instances"),
        ('config = "config"', "cluster.shop.shards"),
        ('config = "config"\nshards = ["a"]\nmongos = "x"', "mongos"),
    ],
)
def test_what_is_no_cluster_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(configured(tmp_path, f"[cluster.shop]\n{text}"))
    assert said in str(refused.value)


def test_a_member_is_of_one_cluster(tmp_path: Path) -> None:
    two = (
        f'[cluster.{name}]\nconfig = "{config}"\nshards = ["b"]'
        for name, config in (("x", "a"), ("y", "config"))
    )
    with pytest.raises(ConfigError, match=r'cluster\.y\.shards\[1\]: "b" is a member of x already'):
        load(configured(tmp_path, *two))


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (
            ("restore", "--cluster", "shopp", "--to", "latest"),
            4,
            'no cluster "shopp" in the configuration; did',
        ),
        (("restore", "--cluster", "shop"), 2, "say where to restore the cluster to"),
        (("restore", "a", "--cluster", "shop", "--to", "latest"), 2, "--cluster goes with --to"),
        (("restore", "--cluster", "shop", "--to", "latest", "--read-only"), 2, "--cluster goes with --to"),
        (("restore", "--cluster", "shop", "--to-timestamp", "1"), 2, "is not SECONDS,INC"),
        (
            ("restore", "--cluster", "shop", "--to", "latest", "--run-at-destination"),
            2,
            "needs a destination",
        ),
        (("restore", "--cluster", "shop", "--to", "10:02:03.5"), 2, "whole seconds only"),
        (("restore", "--cluster", "shop", "--to", "latest", "--from", "x"), 4, "config has no destination x"),
        (("window", "a", "--cluster", "shop"), 2, "say either the instance a or --cluster"),
        (("check", "a", "--cluster", "shop"), 2, "say either the instance a or --cluster"),
        (("verify", "--cluster", "shop"), 2, "--cluster goes with --drill"),
        # The private keys come to each member.
        (
            ("verify", "--cluster", "shop", "--drill", "--at", "x", *PRIVATE),
            2,
            "only with a bucket, and config",
        ),
        (
            ("restore", "--cluster", "shop", "--to", "latest", "--from", "x", *PRIVATE),
            2,
            "and config ships to none",
        ),
        (("restore", "--cluster", "shop", "--to", "latest", *PRIVATE), 2, "--from DESTINATION or ADDRESS"),
        (("restore", "a", "--to", "latest", *WHERE), 2, "--configdb goes with --to-timestamp SECONDS,INC"),
        (("restore", "a", *AT, "--shard", "rs0/h:1"), 2, "--shard and --cluster-key go with --configdb"),
        (("restore", "a", *AT, *WHERE, "--port", "7"), 2, "--configdb does not go with --port"),
        (("restore", "a", *AT, *WHERE[:2]), 2, "--configdb goes with a --shard SET/HOST:PORT"),
        (("restore", "a", *AT, *WHERE, "--shard", "rs1/h"), 2, '"rs1/h" is no address of a member'),
        (("restore", "a", *AT, *WHERE, "--shard", "rs1/h:65536"), 2, "is no address of a member"),
        (("restore", "a", *AT, *WHERE, "--shard", "rs0/h:3"), 2, "rs0 is named twice"),
        (("restore", "a", *AT, *WHERE, "--shard", "rs1/h:2"), 2, "h:2 is named twice"),
        (("restore", "a", *AT, *WHERE, "--shard", "rs1/h,0.0.0.0:3"), 2, "is no address of a member"),
        (("restore", "a", *AT, *WHERE, "--shard", "rs1\x1b[2J/h:3"), 2, "is no address of a member"),
        (("restore", "a", *AT, *WHERE, "--shard", "rs1/--h:3"), 2, "is no address of a member"),
        (("restore", "a", *AT, *WHERE, "--cluster-key", "/none"), 2, "/none: cannot read the secret"),
        (("restore", "--cluster", "shop", *AT, *WHERE), 2, "--cluster goes with --to"),
    ],
)
def test_what_does_not_go_together_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], status: int, said: str
) -> None:
    file = configured(tmp_path, '[cluster.shop]\nconfig = "config"\nshards = ["a", "b"]')
    assert invoke(["--config", str(file), *words]) == status
    assert said in capsys.readouterr().err


def test_members_on_several_hosts_know_each_other_by_a_key_where_the_original_asks_for_logins(
    tmp_path: Path,
) -> None:
    asking = replace(PLAIN, engine="mongodb", server={"authorization": "enabled"})
    key = tmp_path / "key"
    key.write_text("c2VjcmV0\n")
    key.chmod(0o600)
    for login in ("original", "never"):
        for record in (asking, replace(PLAIN, engine="mongodb", server={})):
            for given in (None, key):
                where = on_member.wished("cfg/h:1", ["rs0/h:2"], given, ClusterTime(1, 1), ())
                needed = record is asking and login == "original" and not given
                with pytest.raises(UsageError, match="--cluster-key") if needed else nullcontext():
                    require_key(login, record, Serving(port=0, addresses=where))
    assert where and where.key == "c2VjcmV0" and where.address("rs0") == ("h", 2)


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        ("c2VjcmV0\n", 0o644, "mode 0644 lets others read the secret"),
        ("c2Vj\ncmV0\n", 0o600, "the secret has more than one line"),
        ("", 0o600, "the secret is empty"),
        ("c2Vj", 0o600, "a key is 6 to 1024 of the characters of base64"),
        ("not base64!", 0o600, "a key is 6 to 1024 of the characters of base64"),
        ("A" * 1025, 0o600, "a key is 6 to 1024 of the characters of base64"),
    ],
)
def test_a_key_that_is_none_is_refused_and_never_shown(
    tmp_path: Path, content: str, mode: int, said: str
) -> None:
    key = tmp_path / "key"
    key.write_text(content)
    key.chmod(mode)
    with pytest.raises((ConfigError, UsageError), match=said) as refused:
        on_member.wished("cfg/h:1", ["rs0/h:2"], key, ClusterTime(1, 1), ())
    assert not content.strip() or content.strip() not in str(refused.value)


def test_an_address_that_leads_no_other_host_here_is_refused() -> None:
    for address, others in (
        ("192.0.2.7", {"db2"}),
        ("127.0.0.2", {"127.0.0.1"}),
        ("127.0.0.1", {"localhost"}),
    ):
        require_reachable("db1", address, others)
    with pytest.raises(UsageError, match=r"db1 is 127\.0\.1\.1 on this host, and no other host reaches that"):
        require_reachable("db1", "127.0.1.1", {"db2", "127.0.0.1"})
    with pytest.raises(UsageError, match="0 is no host's address"):
        require_reachable("0", "0.0.0.0", {"db2"})


def test_names_of_clusters_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = configured(tmp_path, '[cluster.shop]\nconfig = "config"\nshards = ["a", "b"]')
    monkeypatch.setenv("ZBACKUP_CONFIG", str(file))
    assert completion.clusters("s") == ["shop"] and completion.clusters("x") == []
    monkeypatch.setenv("ZBACKUP_CONFIG", str(tmp_path / "none"))
    assert completion.clusters("") == []


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"sharding": 1}', '{"sharding": {"clusterRole": "mongos"}}']
)
def test_a_record_that_names_no_role_has_none(text: str) -> None:
    assert role_of({"options": text}) == "" == role_of({})


def test_a_role_is_read_from_the_settings_that_were_recorded() -> None:
    for role in (CONFIG, SHARD):
        assert role_of({"options": f'{{"sharding": {{"clusterRole": "{role}"}}}}'}) == role


def test_an_address_is_that_of_a_set_and_the_key_is_in_no_text() -> None:
    where = Addresses(config="cfg", hosts={"cfg": "127.0.0.1:1", "rs0": "127.0.0.1:2"}, key="secret")
    assert where.connection("rs0") == "rs0/127.0.0.1:2"
    assert "secret" not in repr(where)
