"""The second host of the lab is what its description says."""

from tests.lab.pool import Pool, run
from tests.lab.second_host import USER
from tests.lab.two_hosts import TwoHosts, hosts

__all__ = ["hosts"]


def test_a_plain_key_logs_in_as_the_receiving_user(hosts: TwoHosts) -> None:
    done = hosts.ssh("id", "-un")
    assert (done.returncode, done.stdout.decode().strip()) == (0, USER), done.stderr


def test_a_stream_arrives_through_the_link(pool: Pool, hosts: TwoHosts) -> None:
    (pool.data.mountpoint / "file").write_bytes(b"x" * 100_000)
    run("zfs", "snapshot", f"{pool.data.name}@one")
    target = f"{hosts.root}/arrived"
    before = hosts.link.passed
    done = hosts.send(f"{pool.data.name}@one", target)
    assert done.returncode == 0, done.stderr
    assert hosts.link.passed - before > 1000
    assert guid(f"{target}@one") == guid(f"{pool.data.name}@one")


def test_a_link_that_is_cut_leaves_a_partial_receive_that_can_be_resumed(pool: Pool, hosts: TwoHosts) -> None:
    noise = pool.data.mountpoint / "noise"
    noise.write_bytes(b"".join(bytes([n % 251]) * 997 for n in range(4000)))
    run("zfs", "snapshot", f"{pool.data.name}@two")
    target = f"{hosts.root}/partial"
    hosts.link.cut_after(300_000)
    assert hosts.send(f"{pool.data.name}@two", target).returncode != 0
    assert hosts.link.is_cut
    assert hosts.ssh("true").returncode == 255
    hosts.link.mend()
    hosts.reboot()
    token = hosts.ssh("zfs", "get", "-Hpo", "value", "receive_resume_token", target).stdout.decode().strip()
    assert len(token) > 20
    done = hosts.send("-t", token, target)
    assert done.returncode == 0, done.stderr
    assert guid(f"{target}@two") == guid(f"{pool.data.name}@two")


def guid(name: str) -> str:
    return run("zfs", "get", "-Hpo", "value", "guid", name).strip()
