"""Reading secrets: from where, and when they are refused."""

import os
from pathlib import Path

import pytest

from zbackup.config import secret
from zbackup.config.secret import SecretRef
from zbackup.model.errors import ConfigError


def test_secret_file(tmp_path: Path) -> None:
    file = tmp_path / "p"
    file.write_text("s3cret\n")
    file.chmod(0o600)
    secret = SecretRef("file", str(file))
    assert secret.read() == "s3cret"
    assert "s3cret" not in repr(secret)
    file.chmod(0o644)
    with pytest.raises(ConfigError, match="mode 0644 lets others read the secret: chmod 600"):
        secret.read()
    file.chmod(0o600)
    file.write_text("s3cret\nanother\n")
    with pytest.raises(ConfigError, match="has more than one line") as several:
        secret.read()
    assert "s3cret" not in str(several.value) and "another" not in str(several.value)
    file.write_text("\n")
    with pytest.raises(ConfigError, match="empty"):
        secret.read()
    file.unlink()
    with pytest.raises(ConfigError, match="cannot read the secret: No such file"):
        secret.read()


def test_secret_file_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "p"
    file.write_text("s3cret\n")
    file.chmod(0o600)
    owner = 4242
    if os.geteuid() == 0:
        os.chown(file, owner, owner)
    else:  # a user cannot give files away; root's view of this one is the same case
        owner = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(ConfigError, match=f"belongs to user id {owner}: chown it to root"):
        SecretRef("file", str(file)).read()


def test_secret_in_environment_and_credential(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SHOP", "s3cret")
    assert SecretRef("env", "SHOP").read() == "s3cret"
    monkeypatch.delenv("SHOP")
    with pytest.raises(ConfigError, match="SHOP is not set"):
        SecretRef("env", "SHOP").read()
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    with pytest.raises(ConfigError, match="LoadCredential=shop"):
        SecretRef("credential", "shop").read()
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    with pytest.raises(ConfigError, match="credential shop: cannot be read"):
        SecretRef("credential", "shop").read()
    (tmp_path / "shop").write_text("s3cret")
    assert SecretRef("credential", "shop").read() == "s3cret"


@pytest.mark.parametrize(
    ("owner", "group", "mode", "taken"),
    [
        (0, "own", 0o640, True),  # root's, which the daemon's group may read
        (0, "other", 0o640, False),
        (0, "own", 0o660, False),
        (0, "own", 0o644, False),
        (0, "own", 0o600, True),
        ("own", "own", 0o640, os.geteuid() == 0),  # only root shares its own
        ("other", "own", 0o600, False),
    ],
)
def test_root_may_share_a_file_with_the_daemons_group(
    owner: int | str, group: str, mode: int, taken: bool
) -> None:
    uid = {"own": os.geteuid(), "other": os.geteuid() + 4711}.get(str(owner), owner)
    gid = os.getegid() + (4711 if group == "other" else 0)
    facts = os.stat_result((0o100000 | mode, 1, 1, 1, uid, gid, 0, 0, 0, 0))
    assert (secret._open_to_others(facts) == "") == taken
