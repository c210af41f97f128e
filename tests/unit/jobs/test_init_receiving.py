"""A host that receives: who may, what is there already, and one line for each sender's key."""

import os
import pwd
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from zbackup.features.init.jobs import receiving
from zbackup.features.init.plan import receive
from zbackup.features.init.setup import SetupStep
from zbackup.model.errors import Refused

KEY = "ssh-ed25519 " + "A" * 68
LINE = receive.line("/usr/bin/zbackup", "tank/backups/db1", KEY)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of zrecv, who is the one we are; nobody else is known."""

    def known(name: str) -> Any:
        if name != "zrecv":
            raise KeyError(name)
        return SimpleNamespace(pw_uid=os.geteuid(), pw_gid=os.getegid(), pw_dir=str(tmp_path))

    monkeypatch.setattr(pwd, "getpwnam", known)
    return tmp_path


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_a_key_is_the_users_alone_and_there_once(home: Path) -> None:
    for _ in range(2):
        file = receiving.authorize("zrecv", LINE)
    assert (file, file.read_text()) == (home / ".ssh/authorized_keys", f"{LINE}\n")
    assert (mode(file), mode(file.parent)) == (0o600, 0o700)
    assert (file.stat().st_uid, file.parent.stat().st_uid) == (os.geteuid(), os.geteuid())


def test_what_is_in_authorized_keys_stays(home: Path) -> None:
    (home / ".ssh").mkdir(mode=0o755)
    file = home / ".ssh/authorized_keys"
    file.write_text("# mine\nssh-ed25519 " + "B" * 68)
    file.chmod(0o644)
    receiving.authorize("zrecv", LINE)
    assert file.read_text() == "# mine\nssh-ed25519 " + "B" * 68 + f"\n{LINE}\n"
    assert (mode(file), mode(file.parent)) == (0o600, 0o700)
    before = file.stat()
    receiving.authorize("zrecv", LINE)
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_nothing_stands_in_the_way_of_a_user_who_is_new_or_has_no_keys(home: Path) -> None:
    receiving.require_addable("nobody-yet", LINE)
    receiving.require_addable("zrecv", LINE)
    receiving.authorize("zrecv", LINE)
    receiving.require_addable("zrecv", LINE)
    other = receive.line("/usr/bin/zbackup", "tank/backups/db2", KEY)
    with pytest.raises(Refused, match="in authorized_keys already"):
        receiving.require_addable("zrecv", other)
    with pytest.raises(Refused, match="in authorized_keys already"):
        receiving.authorize("zrecv", other)
    assert (home / ".ssh/authorized_keys").read_text() == f"{LINE}\n"


def test_a_link_in_the_place_of_the_keys_is_not_followed(home: Path, tmp_path: Path) -> None:
    (home / ".ssh").mkdir(mode=0o700)
    (home / ".ssh/authorized_keys").symlink_to(tmp_path / "another")
    (tmp_path / "another").write_text("precious")
    with pytest.raises(Refused):
        receiving.authorize("zrecv", LINE)
    assert (tmp_path / "another").read_text() == "precious"


def test_the_steps_are_done_in_their_order() -> None:
    ran: list[tuple[str, ...]] = []

    def run(argv: Sequence[str], **_: object) -> str:
        ran.append(tuple(argv))
        return ""

    wanted = receive.steps("tank/backups/db1", "zrecv", 0, there={"tank"}, known=False)
    receiving.act(wanted, cast(Any, run))
    assert [argv[0] for argv in ran] == ["useradd", "zfs", "zfs", "zfs"]
    assert ran == [step.argv for step in wanted]
    receiving.act([SetupStep(kind="run", text="", argv=("true",))], cast(Any, run))
    assert ran[-1] == ("true",)


@pytest.mark.parametrize(
    ("text", "said"), [("ssh-ed25519 AAAA root@vault\n", "ssh-ed25519 AAAA"), (None, "")]
)
def test_a_sender_is_told_this_hosts_key_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, said: str
) -> None:
    monkeypatch.setattr(receiving, "HOST_KEY", tmp_path / "key.pub")
    if text:
        (tmp_path / "key.pub").write_text(text)
    assert receiving.host_key() == said
