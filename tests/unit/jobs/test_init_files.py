"""Files that `zbackup init` writes: where, with whose rights, and that nothing which is there is written
over."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.unit.jobs.test_init_act import Accounts
from tests.unit.plan.test_init_plan import newcomer, server
from zbackup.config.load import load
from zbackup.config.secret import SecretRef
from zbackup.destinations.s3.encryption import parse_key
from zbackup.features.init.jobs import host
from zbackup.features.init.jobs.act import Acting, act, install
from zbackup.features.init.plan.config_text import whole
from zbackup.features.init.setup import Newcomer, SetupStep, StepKind
from zbackup.model.errors import CommandFailed, DatabaseError, Refused

OTHER = 4711
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    """The directory of the configuration, which is not there yet."""
    return tmp_path / "etc"


@pytest.fixture(autouse=True)
def no_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host without the daemon's user, whatever this one has."""
    monkeypatch.setattr(host, "daemon_group", lambda: None)
    monkeypatch.setattr("zbackup.features.init.jobs.act.daemon_user", lambda: None)


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch, no_daemon: None) -> None:
    """A host with the daemon's user, which is another than ours."""
    monkeypatch.setattr(host, "daemon_group", lambda: OTHER)
    monkeypatch.setattr("zbackup.features.init.jobs.act.daemon_user", lambda: (OTHER, OTHER))


@pytest.fixture
def unprivileged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who is not root, and may give nothing away."""
    if os.geteuid() == 0:
        monkeypatch.setattr(os, "geteuid", lambda: OTHER + 1)


def acting(etc: Path, *newcomers: Newcomer, accounts: Accounts | None = None, **more: Any) -> Acting:
    seen = accounts or Accounts()
    values: dict[str, Any] = {"before": "", "after": whole("", newcomers)} | more
    return Acting(
        config=etc / "config.toml",
        newcomers={new.name: new for new in newcomers},
        administrator=lambda _: seen,
        script=lambda _, password: password,
        **values,
    )


def do(kind: StepKind, path: Path, on: Acting | None = None, **more: Any) -> None:
    act(SetupStep(kind=kind, text="", path=str(path), **more), on or acting(path.parent))


def facts(path: Path) -> tuple[int, int, int]:
    """Mode, user and group."""
    found = path.stat()
    return found.st_mode & 0o7777, found.st_uid, found.st_gid


# directories and secrets


def test_without_a_daemon_all_is_its_owners_alone(etc: Path) -> None:
    do("secret", etc / "shop.password")
    me = os.geteuid(), os.getegid()
    assert facts(etc) == (0o700, *me)
    assert facts(etc / "shop.password") == (0o600, *me)


@needs_root
def test_the_daemons_group_may_enter_and_read_and_nobody_else(etc: Path, daemon: None) -> None:
    new = newcomer(server=server(login="open"), password="")
    do("config", etc / "config.toml", acting(etc, new))
    do("secret", etc / "shop.password")
    assert facts(etc) == (0o750, 0, OTHER)
    assert facts(etc / "config.toml") == facts(etc / "shop.password") == (0o640, 0, OTHER)


def test_the_daemons_group_may_enter_what_its_user_makes(etc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "daemon_group", os.getegid)
    do("secret", etc / "shop.password")
    assert facts(etc) == (0o750, os.geteuid(), os.getegid())


def test_who_is_not_root_gives_nothing_away(etc: Path, unprivileged: None, daemon: None) -> None:
    etc.mkdir(mode=0o700)
    do("secret", etc / "shop.password")
    do("identity", etc / "key", acting(etc, runner=Keygen()))
    for name in ("shop.password", "key"):
        assert facts(etc / name) == (0o600, etc.stat().st_uid, etc.stat().st_gid)


def test_a_configuration_comes_into_a_directory_that_is_not_there(etc: Path) -> None:
    new = newcomer(server=server(login="open"), password="")
    do("config", etc / "config.toml", acting(etc, new))
    assert list(load(etc / "config.toml").instance) == ["shop"]
    assert (facts(etc)[0], facts(etc / "config.toml")[0]) == (0o700, 0o600)


def test_a_password_and_an_encryption_key_are_what_reads_them_takes(etc: Path) -> None:
    for name in ("one", "two"):
        do("secret", etc / f"{name}.password")
        do("key", etc / f"{name}.key")
    read = {
        each.name: SecretRef("file", str(each)).read() for each in etc.iterdir() if each.name != "config.toml"
    }
    assert len(set(read.values())) == 4
    assert len({parse_key(read[f"{name}.key"]) for name in ("one", "two")}) == 2
    for name in ("one", "two"):
        with pytest.raises(ValueError):
            parse_key(read[f"{name}.password"])


@pytest.mark.parametrize("kind", ["secret", "key", "identity"])
def test_what_is_there_is_never_written_over(etc: Path, kind: StepKind) -> None:
    etc.mkdir(mode=0o700)
    (etc / "it").write_text("what everything was encrypted with")
    before = (etc / "it").stat()
    do(kind, etc / "it", acting(etc, runner=Keygen()))
    assert (etc / "it").read_text() == "what everything was encrypted with"
    assert (etc / "it").stat().st_mtime_ns == before.st_mtime_ns
    assert [each.name for each in etc.iterdir()] == ["it"]


# files of others


def test_a_file_elsewhere_is_written_into_a_directory_that_everybody_may_enter(etc: Path) -> None:
    unit = etc.parent / "system/zbackup.service.d/servers.conf"
    do("write", unit, acting(etc), content="[Service]\n", mode=0o644)
    assert unit.read_text() == "[Service]\n" and facts(unit)[0] == 0o644
    assert facts(unit.parent)[0] == 0o755 and not etc.exists()


@needs_root
def test_a_directory_elsewhere_stays_as_it_is_and_is_not_the_daemons(etc: Path, daemon: None) -> None:
    there = etc.parent / "system"
    there.mkdir(mode=0o711)
    there.chmod(0o711)
    do("write", there / "a.conf", acting(etc), content="a", mode=0o644)
    do("write", there / "new/b.conf", acting(etc), content="b", mode=0o644)
    assert facts(there) == (0o711, 0, 0) and facts(there / "new") == (0o755, 0, 0)


def test_the_services_files_are_written_and_its_commands_run_in_their_order(tmp_path: Path) -> None:
    unit, ran = tmp_path / "system/zbackup.service", list[tuple[str, ...]]()

    def run(argv: Sequence[str], **_: object) -> str:
        assert unit.read_text() == "[Unit]\n" and facts(unit)[0] == 0o644
        ran.append(tuple(argv))
        return ""

    install(
        [
            SetupStep(kind="write", text="", path=str(unit), content="[Unit]\n", mode=0o644),
            SetupStep(kind="run", text="", argv=("systemd-sysusers", "zbackup.conf")),
            SetupStep(kind="run", text="", argv=("systemctl", "daemon-reload")),
        ],
        run,
    )
    assert ran == [("systemd-sysusers", "zbackup.conf"), ("systemctl", "daemon-reload")]


# the key that copies are sent with


class Keygen:
    """ssh-keygen as far as it matters here: it asks before it writes over a file, and nobody answers."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails, self.made = fails, 0

    def __call__(self, argv: Sequence[str], *, mutates: bool = True, timeout: float = 600) -> str:
        words = list(argv)
        assert words[0] == "ssh-keygen" and words[words.index("-N") + 1] == ""
        path = Path(words[words.index("-f") + 1])
        if path.exists() or self.fails:
            raise CommandFailed(tuple(argv), 1, f"{path} already exists.\nOverwrite (y/n)?")
        self.made += 1
        path.touch(mode=0o600)
        path.write_text(f"private {self.made}")
        path.with_name(f"{path.name}.pub").write_text(f"public {self.made}")
        return ""


def test_an_ssh_key_is_made_in_a_directory_that_is_not_there_and_nothing_is_left_beside_it(etc: Path) -> None:
    do("identity", etc / "key", acting(etc, runner=Keygen()))
    assert facts(etc)[0] == 0o700
    assert {each.name: each.read_text() for each in etc.iterdir()} == {
        "key": "private 1",
        "key.pub": "public 1",
    }
    assert facts(etc / "key")[0] == 0o600 and facts(etc / "key.pub")[0] == 0o644


@needs_root
def test_an_ssh_key_is_the_daemons_alone(etc: Path, daemon: None) -> None:
    """ssh takes no key that others than its user could read."""
    do("identity", etc / "key", acting(etc, runner=Keygen()))
    assert facts(etc / "key") == (0o600, OTHER, OTHER)
    assert facts(etc / "key.pub") == (0o644, OTHER, OTHER)


def test_what_a_killed_run_left_of_a_key_is_no_key(etc: Path) -> None:
    etc.mkdir(mode=0o700)
    for name in ("key.new", "key.new.pub", "key.pub"):
        (etc / name).write_text("half")
    do("identity", etc / "key", acting(etc, runner=Keygen()))
    assert {each.name: each.read_text() for each in etc.iterdir()} == {
        "key": "private 1",
        "key.pub": "public 1",
    }


def test_where_no_key_could_be_made_there_is_none(etc: Path) -> None:
    with pytest.raises(CommandFailed):
        do("identity", etc / "key", acting(etc, runner=Keygen(fails=True)))
    assert list(etc.iterdir()) == []


# the account


def with_password(etc: Path) -> Newcomer:
    new = newcomer(password=str(etc / "shop.password"))
    do("secret", etc / "shop.password", acting(etc, new))
    return new


def make_account(etc: Path, new: Newcomer, accounts: Accounts) -> None:
    act(SetupStep(kind="account", text="", instance="shop"), acting(etc, new, accounts=accounts))


def test_an_account_that_came_to_work_meanwhile_is_left_alone(etc: Path) -> None:
    new, accounts = with_password(etc), Accounts()
    accounts.create_account("zbackup", SecretRef("file", new.password).read())
    make_account(etc, new, accounts)
    assert accounts.asked_to_create == 1


class MadeMeanwhile(Accounts):
    """Somebody makes the account in the moment before zbackup does."""

    def create_account(self, user: str, password: str) -> None:
        self.password = "another"
        super().create_account(user, password)


def test_an_account_that_somebody_else_made_meanwhile_is_no_success(etc: Path) -> None:
    with pytest.raises(DatabaseError, match="with another password"):
        make_account(etc, with_password(etc), MadeMeanwhile())


def test_a_directory_of_secrets_that_others_may_write_to_is_refused(etc: Path) -> None:
    etc.mkdir()
    etc.chmod(0o777)
    for kind, name in (("identity", "key"), ("key", "shop.key"), ("write", "known_hosts")):
        with pytest.raises(Refused):
            do(kind, etc / name, acting(etc, runner=Keygen()))  # type: ignore[arg-type]
    assert list(etc.iterdir()) == []
