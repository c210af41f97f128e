"""The steps of `zbackup init` on real files: cut anywhere, the next run finishes, and nothing of the
operator's is lost."""

from pathlib import Path

import pytest

from tests.unit.plan.test_init_plan import BARE, newcomer
from zbackup.config.load import load
from zbackup.features.init.jobs.accounts import account
from zbackup.features.init.jobs.act import Acting, act, new_password, read_config
from zbackup.features.init.plan.config_text import whole
from zbackup.features.init.plan.steps import steps
from zbackup.features.init.setup import Newcomer, SetupStep
from zbackup.model.errors import ConfigError, DatabaseError, Refused


class Accounts:
    """A server's accounts: what an administrator sees and does."""

    def __init__(self) -> None:
        self.password: str | None = None
        self.complete = False
        self.asked_to_create = 0

    def inspect(self) -> tuple[str, tuple[str, ...], bool]:
        return "8.4.3", (), False

    def account_exists(self, user: str) -> bool:
        return self.password is not None

    def create_account(self, user: str, password: str) -> None:
        self.asked_to_create += 1
        self.password = self.password or password
        self.complete = True

    def account_admits(self, user: str, password: str) -> bool:
        return self.password == password

    def account_works(self, user: str, password: str) -> bool:
        return self.complete and self.password == password


class Cut(Exception):
    """The run is killed here."""


def here(directory: Path) -> Newcomer:
    return newcomer(password=str(directory / "shop.password"))


def run(directory: Path, accounts: Accounts, cut_before: int | None = None) -> list[SetupStep]:
    """One run of init as far as files and accounts go; killed before the step of that number."""
    config, new = directory / "config.toml", here(directory)
    before = read_config(config)
    if "[instance.shop]" in before:
        return []
    found = account(new, accounts)
    assert found is not None
    wanted = [
        step
        for step in steps([new], {"shop": found}, str(config), BARE, {}, [])
        if step.kind not in ("snapshot", "drill")
    ]
    on = Acting(
        config=config,
        before=before,
        after=whole(before, [new]),
        newcomers={"shop": new},
        administrator=lambda _: accounts,
        script=lambda _, password: f"CREATE USER ... {password}",
    )
    for number, step in enumerate(wanted):
        if number == cut_before:
            raise Cut
        act(step, on)
    return wanted


@pytest.mark.parametrize("cut", range(4))
@pytest.mark.parametrize(
    "existing", ["", '[instance.old]\nengine = "mysql"\ndatasets = ["tank/old"]\n# mine']
)
def test_a_run_that_is_cut_is_finished_by_the_next(tmp_path: Path, cut: int, existing: str) -> None:
    directory, accounts = tmp_path / "etc", Accounts()
    if existing:
        directory.mkdir(mode=0o755)
        (directory / "config.toml").write_text(existing)
    try:
        run(directory, accounts, cut)
    except Cut:
        assert read_config(directory / "config.toml") == existing
    run(directory, accounts)
    text = read_config(directory / "config.toml")
    assert text.startswith(existing) and "shop" in load(directory / "config.toml").instance
    password = (directory / "shop.password").read_text().strip()
    assert accounts.account_works("zbackup", password) and password not in text
    assert (directory / "shop.password").stat().st_mode & 0o007 == 0
    again = (text, password)
    assert run(directory, accounts) == []
    assert (
        read_config(directory / "config.toml"),
        (directory / "shop.password").read_text().strip(),
    ) == again


def test_the_secret_key_of_a_bucket_is_written_once_and_another_is_not_taken_for_it(tmp_path: Path) -> None:
    path = tmp_path / "etc/shop.s3-secret"
    step = SetupStep(kind="credential", path=str(path), text="")

    def write(secret: str) -> None:
        act(
            step,
            Acting(
                config=tmp_path / "etc/config.toml",
                before="",
                after="",
                newcomers={},
                administrator=lambda _: Accounts(),
                script=lambda *_: "",
                secret_key=secret,
            ),
        )

    for _ in range(2):
        write("hush")
    assert path.read_text().strip() == "hush" and path.stat().st_mode & 0o007 == 0
    with pytest.raises(Refused, match="holds another secret key"):
        write("other")
    assert path.read_text().strip() == "hush"


def test_an_account_that_was_half_made_is_completed(tmp_path: Path) -> None:
    accounts = Accounts()
    with pytest.raises(Cut):
        run(tmp_path / "etc", accounts, 1)
    accounts.password = (tmp_path / "etc/shop.password").read_text().strip()  # without its grants
    run(tmp_path / "etc", accounts)
    assert accounts.complete


def test_an_account_of_somebody_else_is_never_changed(tmp_path: Path) -> None:
    accounts = Accounts()
    accounts.password = "another"
    with pytest.raises(Refused, match="write its password into"):
        run(tmp_path / "etc", accounts)
    assert not (tmp_path / "etc").exists()
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/shop.password").write_text("wrong")
    (tmp_path / "etc/shop.password").chmod(0o600)
    with pytest.raises(DatabaseError, match="with another password"):
        run(tmp_path / "etc", accounts)
    assert accounts.password == "another" and not (tmp_path / "etc/config.toml").exists()
    assert accounts.asked_to_create == 0  # nothing was granted to it


def test_the_first_file_of_the_directory_may_be_anyone(tmp_path: Path) -> None:
    config = tmp_path / "etc/config.toml"
    on = Acting(
        config=config,
        before="",
        after="",
        newcomers={},
        administrator=lambda _: Accounts(),
        script=lambda *_: "",
    )
    act(SetupStep(kind="write", text="", path=str(config.parent / "known"), content="x", mode=0o644), on)
    assert config.parent.stat().st_mode & 0o007 == 0


def test_a_configuration_that_changed_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("# the operator was quicker\n")
    on = Acting(
        config=config,
        before="",
        after=whole("", [here(tmp_path)]),
        newcomers={},
        administrator=lambda _: Accounts(),
        script=lambda *_: "",
    )
    with pytest.raises(Refused, match="changed meanwhile"):
        act(SetupStep(kind="config", text=""), on)
    assert config.read_text() == "# the operator was quicker\n"


def test_a_text_that_zbackup_does_not_read_is_not_put_in_place(tmp_path: Path) -> None:
    before = 'instance = { old = { engine = "mysql", datasets = ["tank/old"] } }\n'
    (tmp_path / "config.toml").write_text(before)  # it is closed: no table can be added
    with pytest.raises(ConfigError):
        run(tmp_path, Accounts())
    assert (tmp_path / "config.toml").read_text() == before


def test_the_configurations_mode_stays(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("")
    (tmp_path / "config.toml").write_text("# mine\n")
    (tmp_path / "config.toml").chmod(0o644)
    run(tmp_path, Accounts())
    assert (tmp_path / "config.toml").stat().st_mode & 0o777 == 0o644


def test_a_directory_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "etc"
    directory.mkdir()
    directory.chmod(0o777)
    with pytest.raises(Refused):
        run(directory, Accounts())
    assert list(directory.iterdir()) == []


def test_no_two_passwords_are_the_same_and_each_has_all_kinds_of_characters() -> None:
    many = {new_password() for _ in range(50)}
    assert len(many) == 50
    for each in many:
        assert (
            any(c.islower() for c in each)
            and any(c.isupper() for c in each)
            and any(c.isdigit() for c in each)
        )
        assert not each.isalnum() and len(each) > 32
