"""Decisions of `zbackup init --receive`: a key adds to its dataset, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbackup.features.init.plan import receive
from zbackup.model.errors import Refused, UsageError

KEY = "ssh-ed25519 " + "A" * 68


def test_the_line_of_a_receiving_host_holds_the_key_to_the_gate() -> None:
    line = receive.line("/usr/bin/zbackup", "tank/backups/db1", receive.public_key(f"{KEY} root@db1\n"))
    assert line == (
        f'restrict,command="/usr/bin/zbackup gate --root tank/backups/db1 --append-only" {KEY} root@db1'
    )


@pytest.mark.parametrize(
    "text", ["", "AAAA", f'command="sh" {KEY}', f"{KEY}\n{KEY}", f"{KEY} a\nssh-rsa b", "ssh-ed25519 short"]
)
def test_anything_but_one_public_key_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        receive.public_key(text)


@given(st.text())
def test_no_comment_of_a_key_leaves_its_line(comment: str) -> None:
    try:
        found = receive.public_key(f"{KEY} {comment}")
    except UsageError:
        return
    assert found.startswith(KEY) and found.isprintable() and '"' not in found


@pytest.mark.parametrize("dataset", ["tank", 'tank/a"b', "tank/a b", "tank/a;b", ""])
def test_a_dataset_that_does_not_suit_a_forced_command_is_refused(dataset: str) -> None:
    with pytest.raises(UsageError):
        receive.require_names(dataset, "zrecv")


@pytest.mark.parametrize("user", ["root", "zbackup"])
def test_a_user_with_other_rights_does_not_receive(user: str) -> None:
    with pytest.raises(UsageError, match="a user of its own"):
        receive.require_names("tank/b/db1", user)


def test_a_quota_is_set_where_it_differs() -> None:
    def asked(quota: int, limit: int) -> list[tuple[str, ...]]:
        found = receive.steps("tank/b", "u", quota, there=["tank", "tank/b"], known=True, limit=limit)
        return [step.argv for step in found if step.argv[1] == "set"]

    assert asked(1 << 30, 0) == asked(1 << 30, 5) == [("zfs", "set", f"quota={1 << 30}", "tank/b")]
    assert asked(1 << 30, 1 << 30) == asked(0, 5) == []


@pytest.mark.parametrize(
    "there", [KEY, f"{KEY} db1", f'command="sh" {KEY}', f"restrict  {KEY}", f"# x\n{KEY}\r\n"]
)
def test_a_key_that_may_do_something_else_already_is_refused(there: str) -> None:
    line = receive.line("/usr/bin/zbackup", "tank/b/db1", f"{KEY} db1")
    with pytest.raises(Refused, match="in authorized_keys already"):
        receive.with_line(there, line)
    with pytest.raises(Refused):
        receive.with_line(f"{line}\n{there}", line)


def test_a_key_with_the_same_options_and_another_comment_is_there() -> None:
    line = receive.line("/usr/bin/zbackup", "tank/b/db1", f"{KEY} db1")
    there = receive.line("/usr/bin/zbackup", "tank/b/db1", f"{KEY} other") + f"\n# {KEY}\n"
    assert receive.with_line(there, line) == there


def test_only_what_is_missing_is_made() -> None:
    found = receive.steps("tank/backups/db1", "zrecv", 2 << 40, there=["tank", "tank/backups"], known=True)
    assert [step.argv[:2] for step in found] == [("zfs", "create"), ("zfs", "allow")]
    assert f"quota={2 << 40}" in found[0].argv and found[0].argv[-1] == "tank/backups/db1"
    assert [s.argv[0] for s in receive.steps("t/a", "u", 0, there=["t"], known=False)] == [
        "useradd",
        "zfs",
        "zfs",
    ]


@given(st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from([f"restrict {KEY}"]))
def test_a_key_is_added_once_and_the_others_stay(existing: str, line: str) -> None:
    once = receive.with_line(existing, line)
    assert once.startswith(existing) and receive.with_line(once, line) == once
