"""A member's files become a server of its own: what is in it, and who may do what."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.engines.mongodb.recovered import SERVING, Story, ts
from zbackup.engines.mongodb.recovery import recover as module
from zbackup.model.cloning import Adoption, Login, PrivateServer
from zbackup.model.errors import Refused, VerificationFailed

LOGIN = Login("dev", "secret")


@pytest.fixture
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Story:
    made = Story(tmp_path, monkeypatch)
    made.base_record = made.unlocked(4)
    made.base.sure = ts(3)
    made.base.indexes = {"shop.orders": ["_id_", "n_1"]}
    made.base.unfinished = {"n_1"}
    monkeypatch.setattr(
        module, "replace_accounts", lambda _, login: made.server.did.append(f"accounts of {login.user}")
    )
    return made


def adopted(story: Story, **how: Any) -> list[str]:
    files = story.files("base", story.base_record)
    story.recovery.adopt(files, Adoption(serving=SERVING, **how), story.progress)
    assert story.server.serving == [SERVING] and story.server.watched == 0
    return story.server.did


def test_a_member_has_all_that_its_oplog_is_sure_of_and_is_nobodys_member(story: Story) -> None:
    assert adopted(story) == [
        *("make room", "start to open", "shut down", "start to replay", "shut down"),
        *("start to open", "shut down", "serve", "close"),
    ]
    assert story.numbers == [1, 2, 3]
    assert (story.server.disk.replica_set, story.server.disk.indexes) == ("", {"shop.orders": ["_id_"]})
    assert story.progress.notes == ["the index n_1 of shop.orders was still being built: it is not there"]
    assert [name for name, _ in story.progress.phases] == [
        *("recovering", "preparing the server", "starting the server"),
    ]


def test_what_a_recovery_has_left_is_what_it_is(story: Story) -> None:
    """It was proven: an oplog that is there is that of a set of its own."""
    assert adopted(story, recovered=True)[:3] == ["make room", "start to open", "shut down"]
    assert story.numbers == [1, 2] and story.server.disk.replica_set == "rs0"
    assert not story.progress.notes


def test_a_server_alone_has_no_oplog_to_replay(story: Story) -> None:
    story.base.oplog, story.base.replica_set = [], ""
    story.base_record = story.record(4, server={"dbpath": "/srv/data"})
    assert "start to replay" not in adopted(story)
    assert story.server.disk.indexes == {"shop.orders": ["_id_"]}


@pytest.mark.parametrize("key", ["", "the key"])
def test_it_is_masked_where_nobody_else_comes_and_gets_its_accounts_then(story: Story, key: str) -> None:
    story.options = {"key": key}

    def prepare(private: PrivateServer) -> None:
        assert not story.server.serving and story.server.disk.replica_set == ""
        assert private.facts == {
            "ZBACKUP_SOCKET": "/run/mongod.sock",
            "ZBACKUP_USER": "",
            "ZBACKUP_PASSWORD": key,
        }
        with pytest.raises(Refused, match="mongodb knows no SQL: mask with a program"):
            private.execute("UPDATE customer SET name = ''")
        story.server.did.append("mask")

    did = adopted(story, login=LOGIN, prepare=prepare)
    assert did[6:] == ["mask", "accounts of dev", "shut down", "serve", "close"]
    assert ("masking", "on a socket that nobody else can reach") in story.progress.phases


def test_a_clone_whose_masking_fails_is_never_open(story: Story) -> None:
    def fails(_: PrivateServer) -> None:
        raise Refused("no")

    prepare: Callable[[PrivateServer], None] = fails
    with pytest.raises(Refused, match="no"):
        adopted(story, prepare=prepare)
    story.require_not_served()


@pytest.mark.parametrize(
    ("option", "where", "why"), [("ends_replay_at", 2, "ended at"), ("begins_replay_at", 1, "began at")]
)
def test_a_replay_that_did_not_do_what_it_had_to_makes_no_clone(
    story: Story, option: str, where: int, why: str
) -> None:
    story.options = {option: ts(where)}
    with pytest.raises(VerificationFailed, match=f"the replay {why}"):
        adopted(story)
    story.require_not_served()
