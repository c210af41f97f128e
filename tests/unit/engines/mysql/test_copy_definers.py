"""Triggers and views that would run as somebody who must not be chosen are not copied."""

from types import SimpleNamespace
from typing import Any

import pytest

from zbackup.features.copyback.mysql.creation import require_definer
from zbackup.features.copyback.mysql.stored_text import StoredText
from zbackup.model.errors import Refused


def sides(*, given: bool = False) -> Any:
    return SimpleNamespace(ours=frozenset({"zbackup", "zcopy"}), given=given)


def test_the_accounts_of_applications_are_kept() -> None:
    require_definer(sides(), "view v", StoredText("CREATE VIEW", "app", "%"))
    require_definer(sides(given=True), "view v", StoredText("CREATE VIEW", None, ""))


@pytest.mark.parametrize("user", ["zbackup", "zcopy"])
@pytest.mark.parametrize("host", ["localhost", "%", ""])
def test_nothing_runs_as_an_account_of_ours(user: str, host: str) -> None:
    with pytest.raises(Refused, match=f"trigger t would run in production as {user}@{host}, an account of"):
        require_definer(sides(), "trigger t", StoredText("CREATE TRIGGER", user, host))


@pytest.mark.parametrize("user", ["app", "root", ""])
def test_nobody_chooses_in_a_clone_as_whom_it_runs(user: str) -> None:
    with pytest.raises(Refused, match="people have a login in this clone"):
        require_definer(sides(given=True), "trigger t", StoredText("CREATE TRIGGER", user, "localhost"))
