"""Servers that run on clones that nobody can find any more."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from zbackup.jobs.clones import leftovers
from zbackup.jobs.clones.leftovers import lost_servers
from zbackup.jobs.context import Context
from zbackup.model.recovery import process_note
from zbackup.plan.health.leftovers import LostServer
from zbackup.proc.detached import Process
from zbackup.proc.lock import exclusive


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    """Notes of three servers, of which one lives: it is this process."""
    (tmp_path / "shared").mkdir()
    process_note(tmp_path / "dev").write_text(str(Process.of(os.getpid())))
    process_note(tmp_path / "ended").write_text("4194304 1")
    process_note(tmp_path / "garbled").write_text("?")
    (tmp_path / "dev").mkdir()
    return cast(Context, SimpleNamespace(run_dir=tmp_path, shared=tmp_path / "shared"))


def test_a_server_is_lost_when_its_clone_is_not_there(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = (LostServer(clone="dev", pid=os.getpid()),)
    for taken, found in ({"dev"}, ()), ({"other"}, lost), (set(), lost):
        monkeypatch.setattr(leftovers, "names_taken", lambda _, names=taken: names)
        assert lost_servers(ctx) == found
    with exclusive(ctx.shared / "clone-dev.lock", "zbackup clone destroy"):
        assert lost_servers(ctx) == ()


def test_nobody_asks_for_clones_where_no_server_runs(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    process_note(ctx.run_dir / "dev").unlink()
    monkeypatch.delattr(leftovers, "names_taken")
    assert lost_servers(ctx) == ()
    ctx = cast(Context, SimpleNamespace(run_dir=ctx.run_dir / "missing", shared=ctx.shared))
    assert lost_servers(ctx) == ()
